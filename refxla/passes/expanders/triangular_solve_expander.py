"""triangular-solve by substitution, in blocks of rows.

For each block, one dot subtracts the contribution of all rows that are already solved from the right-hand side; then
the rows of the block follow one after the other:

    x[i] = (b[i] - sum over k < i of a[i, k] * x[k]) / a[i, i]

Rows that are not solved yet are zero, so each sum may run over all rows. f16 and bf16 are computed in f32 and rounded
once.
"""

from __future__ import annotations

from refxla_spec.module import Instruction

from ...ir.builder import Build
from . import small_matrices
from .matrix_masks import BLOCK, ONE_BLOCK, columns_below, diagonal, lower_triangle, pad_square, working_type


def _expand(i: Instruction) -> Instruction:
    b, result = Build(i.name), i.shape
    if not result.size:
        return b.full(0, result)
    a, x = (b.convert(o, working_type(o.shape)) for o in i.operands)
    lower = i.lower
    if i.transpose_a == "ADJOINT":
        a = b.conjugate(a)
    if i.transpose_a != "NO_TRANSPOSE":
        a, lower = b.transpose(a), not lower
    if not i.left_side:  # x a = b is transpose(a) transpose(x) = transpose(b)
        a, x, lower = b.transpose(a), b.transpose(x), not lower
    if small_matrices.applies(a.shape):
        x = small_matrices.triangular_solve(b, a, x, lower, i.unit_diagonal)
    elif lower:
        x = _lower(b, a, x, i.unit_diagonal)
    else:  # the last row is solved first
        rank = x.shape.rank
        a, x = b.make("reverse", a, dimensions=(rank - 2, rank - 1)), b.make("reverse", x, dimensions=(rank - 2,))
        x = b.make("reverse", _lower(b, a, x, i.unit_diagonal), dimensions=(rank - 2,))
    if not i.left_side:
        x = b.transpose(x)
    return b.convert(x, result.element_type)


def _lower(b: Build, a: Instruction, x: Instruction, unit: bool) -> Instruction:
    """The solution of a x = b for lower triangular a."""
    *batch, n, m = x.shape.dimensions
    rows = x.shape.rank - 2
    block = n if n <= ONE_BLOCK else BLOCK
    a = pad_square(b, a, -n % block)
    x = b.pad(x, *(0,) * rows, -n % block, 0)
    divisors = [] if unit else [b.reshape(diagonal(b, a), (*a.shape.dimensions[:-1], 1))]
    strict = lower_triangle(b, a, strict=True)
    if block == n:
        return _rows(b, strict, x, divisors)
    zeros = b.full(0, x.shape)

    def iteration(
        k: Instruction, solved: Instruction, strict: Instruction, right: Instruction, *divisors: Instruction
    ) -> list[Instruction]:
        start = b.multiply(k, block)
        left = b.part(strict, rows, start, block)
        earlier = b.product(columns_below(b, left, start), solved)
        right = b.subtract(b.part(right, rows, start, block), earlier)
        piece = _rows(b, b.part(left, rows + 1, start, block), right, [b.part(d, rows, start, block) for d in divisors])
        return [b.put(solved, piece, rows, start)]

    (x,) = b.repeat(a.shape.dimensions[-1] // block, iteration, [zeros], [strict, x, *divisors])
    return b.slice(x, (0,) * x.shape.rank, (*batch, n, m))


def _rows(b: Build, strict: Instruction, right: Instruction, divisors: list[Instruction]) -> Instruction:
    """Solves row by row. `divisors` has the diagonal as a column, or is empty where its elements count as ones."""
    rows = right.shape.rank - 2

    def iteration(
        i: Instruction, x: Instruction, strict: Instruction, right: Instruction, *divisors: Instruction
    ) -> list[Instruction]:
        row = b.subtract(b.part(right, rows, i, 1), b.product(b.part(strict, rows, i, 1), x))
        for d in divisors:
            divisor = b.part(d, rows, i, 1)
            row = b.divide(
                row, b.spread(b.reshape(divisor, divisor.shape.dimensions[:-1]), row.shape, tuple(range(rows + 1)))
            )
        return [b.put(x, row, rows, i)]

    return b.repeat(right.shape.dimensions[-2], iteration, [b.full(0, right.shape)], [strict, right, *divisors])[0]


EXPANSIONS = {"triangular-solve": _expand}
