"""cholesky, column by column within blocks of columns.

The factor l is stored by columns, w[k, i] = l[i, k]. For each block, one dot subtracts the contribution of all earlier
columns from the matrix; then the columns of the block follow one after the other:

    c[i] = a[i, j] - sum over k < j of l[i, k] * conj(l[j, k])
    l[j, j] = sqrt(c[j]),  l[i, j] = c[i] / l[j, j] for i > j

Columns that are not computed yet are zero, so each sum may run over all of them. f16 and bf16 are computed in f32 and
rounded once.
"""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.types import S32

from ...ir.builder import Build, bigger
from . import small_matrices
from .matrix_masks import BLOCK, ONE_BLOCK, diagonal, lower_triangle, pad_square, pivot_root, working_type


def _expand(i: Instruction) -> Instruction:
    """The factor; NaN in every element of a matrix that is not positive definite, as the specification says."""
    b, rank = Build(i.name), i.shape.rank - 2
    if not i.shape.size:
        return b.full(0, i.shape)
    factor = factor_of(i)
    wrong = wrong_pivots(b, factor)
    if small_matrices.applies(i.shape):
        definite = b.not_(small_matrices.any_of(b, wrong))
    else:
        definite = b.compare(b.reduce(b.convert(wrong, S32), 0, (rank,), bigger(S32)), 0, direction="EQ")
    definite = b.spread(definite, factor.shape, tuple(range(rank)))
    factor = b.make("select", definite, factor, b.full(float("nan"), factor.shape))
    return b.convert(factor, i.shape.element_type)


def wrong_pivots(b: Build, factor: Instruction) -> Instruction:
    """pred[.., n] of factors [.., n, n]: where an element of the diagonal is not positive, so that a is not positive
    definite."""
    d = diagonal(b, factor)
    d = b.real(d) if d.shape.element_type.is_complex else d
    return b.not_(b.compare(d, 0, direction="GT"))


def factor_of(i: Instruction) -> Instruction:
    """The factor in the type of the computation, column by column. After a pivot that is not positive, elements are
    whatever the arithmetic gives."""
    b, result = Build(i.name), i.shape
    a = b.convert(i.operands[0], working_type(result))
    if not i.lower:
        a = b.conjugate(b.transpose(a))
    if small_matrices.applies(result):
        factor = small_matrices.cholesky(b, a)
        return factor if i.lower else b.conjugate(b.transpose(factor))
    *batch, n = result.dimensions[:-1]
    block = n if n <= ONE_BLOCK else BLOCK
    columns = b.transpose(lower_triangle(b, pad_square(b, a, -n % block), strict=False))
    w = _blocks(b, columns, block)
    w = b.slice(w, (0,) * w.shape.rank, (*batch, n, n)) if n % block else w
    return b.transpose(w) if i.lower else b.conjugate(w)


def _blocks(b: Build, columns: Instruction, block: int) -> Instruction:
    rank, n = columns.shape.rank, columns.shape.dimensions[-1]
    if block == n:
        return _columns(b, columns, b.scalar(0, S32))

    def iteration(k: Instruction, w: Instruction, columns: Instruction) -> list[Instruction]:
        start = b.multiply(k, block)
        earlier = b.product(b.conjugate(b.part(w, rank - 1, start, block)), w, along=(-2, -2))
        rest = b.subtract(b.part(columns, rank - 2, start, block), earlier)
        return [b.put(w, _columns(b, rest, start), rank - 2, start)]

    return b.repeat(n // block, iteration, [b.full(0, columns.shape)], [columns])[0]


def _columns(b: Build, columns: Instruction, start: Instruction) -> Instruction:
    """The factor's columns from `start` (s32[]) on, each a row here; those before have been subtracted already."""
    rank = columns.shape.rank

    def iteration(k: Instruction, w: Instruction, columns: Instruction, start: Instruction) -> list[Instruction]:
        j = b.add(start, k)
        above = b.conjugate(b.part(w, rank - 1, j, 1))
        c = b.subtract(b.part(columns, rank - 2, k, 1), b.product(above, w, along=(-2, -2)))
        pivot = b.part(c, rank - 1, j, 1)
        root = pivot_root(b, pivot)
        root = b.spread(b.reshape(root, root.shape.dimensions[:-1]), c.shape, tuple(range(rank - 1)))
        place = b.iota(S32, c.shape.dimensions, rank - 1)
        at, wide = b.spread(j, place.shape, ()), b.full(0, c.shape)
        row = b.make("select", b.compare(place, at, direction="GT"), b.divide(c, root), wide)
        row = b.make("select", b.compare(place, at, direction="EQ"), root, row)
        return [b.put(w, row, rank - 2, k)]

    return b.repeat(columns.shape.dimensions[-2], iteration, [b.full(0, columns.shape)], [columns, start])[0]


EXPANSIONS = {"cholesky": _expand}
