"""The LAPACK custom calls that JAX emits for CPUs, each in terms of an existing expansion.

Where the specification defines the status (info) by the result, it is computed. Where it says that a result did not
converge, info is 1 for results that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from refxla_spec.custom_calls import letter
from refxla_spec.custom_calls.factors import triangular_solve_attributes
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import S32, Shape

from ..._core.shapes import make
from ...ir import library_calls
from ...ir.builder import Build, bigger
from . import cholesky_expander, householder, jacobi, small_matrices, triangular_solve_expander
from .matrix_masks import diagonal, pivot_size, working_type


def eigh(i: Instruction) -> Instruction:
    """Eigh: (vectors, values)."""
    b = Build(i.name)
    lower = (i.backend_config or "1").strip('"').split(",")[0].strip() != "0"
    return b.tuple(*_typed(b, jacobi.eigh(b, i.operands[0], lower), i.shape.elements))


def syevd(i: Instruction) -> Instruction:
    """(vectors, values, info)."""
    b = Build(i.name)
    a = i.operands[0]
    if not a.shape.size:
        return b.tuple(*(b.full(0, s) for s in i.shape.elements))
    vectors, values = jacobi.eigh(b, a, letter(i, "uplo", "L") == "L")
    if letter(i, "mode", "V") == "N":
        vectors = b.full(0, vectors.shape)
    return b.tuple(*_typed(b, (vectors, values), i.shape.elements), _not_finite(b, values))


def gesdd(i: Instruction) -> Instruction:
    """(.., s, u, vh, info)."""
    b, mode = Build(i.name), letter(i, "mode", "A")
    a, shapes = i.operands[0], i.shape.elements
    if not a.shape.size:
        square = [_identity_or_zeros(b, s) for s in shapes]
        return b.tuple(a, b.full(0, shapes[1]), *square[2:4], b.full(0, shapes[4]))
    u, s, vh = jacobi.svd(b, a, mode == "A")
    if mode == "N":
        u, vh = (b.full(0, shape) for shape in shapes[2:4])
    return b.tuple(a, *_typed(b, (s, u, vh), shapes[1:4]), _not_finite(b, s))


def _identity_or_zeros(b: Build, s: Shape) -> Instruction:
    return jacobi.identity(b, s) if s.rank >= 2 else b.full(0, s)


def geqrf(i: Instruction) -> Instruction:
    return householder.qr(i)


def orgqr(i: Instruction) -> Instruction:
    return householder.product_of_reflectors(i)


def potrf(i: Instruction) -> Instruction:
    """(the factor, and a's other triangle; info)."""
    b, a = Build(i.name), i.operands[0]
    if not a.shape.size:
        return b.tuple(a, b.full(0, i.shape.elements[1]))
    lower = letter(i, "uplo", "L") == "L"
    factor = _expanded(cholesky_expander.factor_of, make("cholesky", a, name=f"{i.name}.factor", lower=lower))
    wrong = cholesky_expander.wrong_pivots(b, factor)
    row, column = (b.iota(S32, a.shape.dimensions, a.shape.rank - n) for n in (2, 1))
    triangle = b.compare(row, column, direction="GE" if lower else "LE")
    return b.tuple(b.make("select", triangle, factor, a), _first(b, wrong))


def trsm(i: Instruction) -> Instruction:
    """triangular-solve."""
    solve = make("triangular-solve", *i.operands, name=i.name, **triangular_solve_attributes(i))
    return _expanded(triangular_solve_expander.EXPANSIONS["triangular-solve"], solve)


def getrf(i: Instruction) -> Instruction:
    """(packed, pivots from 1 on, info)."""
    b, a = Build(i.name), i.operands[0]
    if not a.shape.size:
        return b.tuple(*(b.full(0, s) for s in i.shape.elements))
    packed, pivots, _, zero = lu(b, a)
    return b.tuple(b.convert(packed, a.shape.element_type), b.add(pivots, 1), _first(b, zero))


def lu_decomposition(i: Instruction) -> Instruction:
    """(packed, pivots, permutation), both from 0 on."""
    b, a = Build(i.name), i.operands[0]
    if not a.shape.size:
        return b.tuple(
            *(b.iota(S32, s.dimensions, s.rank - 1) if n else b.full(0, s) for n, s in enumerate(i.shape.elements))
        )
    packed, pivots, permutation, _ = lu(b, a)
    return b.tuple(b.convert(packed, a.shape.element_type), pivots, permutation)


def lu(b: Build, a: Instruction) -> tuple[Instruction, Instruction, Instruction, Instruction]:
    """(packed, pivots s32[.., min(m, n)], permutation s32[.., m], zero pred[.., min(m, n)]) by columns, as the
    specification's `lu`; `zero` says which pivots are."""
    *batch, m, n = a.shape.dimensions
    rank, count = len(batch), min(m, n)
    x = b.convert(a, working_type(a.shape))
    if small_matrices.applies(a.shape):
        return small_matrices.lu(b, x)
    pivots, order = b.full(0, Shape(S32, (*batch, count))), b.iota(S32, (*batch, m), rank)

    def iteration(k: Instruction, x: Instruction, pivots: Instruction, order: Instruction) -> list[Instruction]:
        column = b.reshape(b.part(x, rank + 1, k, 1), (*batch, m))
        size = pivot_size(b, column)
        rows = b.iota(S32, size.shape.dimensions, rank)
        below = b.compare(rows, b.spread(k, rows.shape, ()), direction="GE")
        best = _argmax(b, b.make("select", below, size, b.full(-1, size.shape)))  # s32[..]
        # swap rows k and best: row r is taken from `source`
        at, to = b.spread(k, rows.shape, ()), b.spread(best, rows.shape, tuple(range(rank)))
        is_k, is_best = b.compare(rows, at, direction="EQ"), b.compare(rows, to, direction="EQ")
        x = _exchanged(b, x, k, is_k, is_best)
        order_column = b.reshape(order, (*batch, m, 1))
        order = b.reshape(_exchanged(b, order_column, k, is_k, is_best), (*batch, m))
        pivots = b.put(pivots, b.reshape(best, (*batch, 1)), rank, k)
        column = b.part(x, rank + 1, k, 1)
        pivot = b.part(column, rank, k, 1)
        zero = b.compare(pivot, 0, direction="EQ")
        divisor = b.make("select", zero, b.full(1, pivot.shape), pivot)
        wide = _wide(b, divisor, column.shape, batch)
        row_number = b.iota(S32, column.shape.dimensions, rank)
        under = b.compare(row_number, b.spread(k, row_number.shape, ()), direction="GT")
        factors = b.make("select", under, b.divide(column, wide), b.full(0, column.shape))
        x = b.put(x, b.make("select", under, factors, column), rank + 1, k)
        row = b.part(x, rank, k, 1)
        right_number = b.iota(S32, row.shape.dimensions, rank + 1)
        right = b.compare(right_number, b.spread(k, right_number.shape, ()), direction="GT")
        row = b.make("select", right, row, b.full(0, row.shape))
        product = b.multiply(_wide(b, factors, x.shape, batch), _wide(b, row, x.shape, batch))
        inside_row, inside_column = (b.iota(S32, x.shape.dimensions, rank + d) for d in (0, 1))
        limit = b.spread(k, inside_row.shape, ())
        inside = b.and_(b.compare(inside_row, limit, direction="GT"), b.compare(inside_column, limit, direction="GT"))
        return [b.make("select", inside, b.subtract(x, product), x), pivots, order]

    x, pivots, order = b.repeat(count, iteration, [x, pivots, order])
    square = jacobi.cut(b, jacobi.cut(b, x, 1, count), 2, count)
    return x, pivots, order, b.compare(diagonal(b, square), 0, direction="EQ")


def _exchanged(b: Build, x: Instruction, k: Instruction, is_k: Instruction, is_best: Instruction) -> Instruction:
    """x[.., m, n] with row k and the row where is_best[.., m] exchanged."""
    *batch, _, _ = x.shape.dimensions
    rank = len(batch)
    along = tuple(range(rank + 1))
    current = b.part(x, rank, k, 1)
    chosen = b.spread(is_best, x.shape, along)
    zeros = b.full(0, x.shape)
    best = b.reduce(b.make("select", chosen, x, zeros), 0, (rank,), _one_of(x.shape))  # all others are zero
    best = _wide(b, b.reshape(best, (*batch, 1, x.shape.dimensions[-1])), x.shape, batch)
    first = b.make("select", chosen, _wide(b, current, x.shape, batch), x)
    return b.make("select", b.spread(is_k, x.shape, along), best, first)


def _one_of(shape: Shape) -> Computation:
    """The reducer that gives the only nonzero element, with its sign."""
    t = shape.element_type
    x, y = (Instruction(n, "parameter", Shape(t), [], {"number": k}) for k, n in enumerate("xy"))
    zero = make("constant", name="zero", shape=Shape(t), literal=np.zeros((), t.dtype))
    none = make("compare", x, zero, name="none", direction="EQ")
    root = make("select", none, y, x, name="one")
    return Computation(f"one_of.{t}", [x, y, zero, none, root], root)


def _wide(b: Build, x: Instruction, shape: Shape, batch: list[int]) -> Instruction:
    """x[.., m or 1, n or 1] spread over the last two dimensions of `shape`."""
    rank = len(batch)
    same = [rank + d for d in (0, 1) if x.shape.dimensions[rank + d] == shape.dimensions[rank + d]]
    flat = b.reshape(x, (*batch, *(x.shape.dimensions[d] for d in same)))
    return b.spread(flat, shape, (*range(rank), *same))


def _argmax(b: Build, x: Instruction) -> Instruction:
    """The first index of the largest element of x[.., m]; of a NaN, if there is one."""
    rank = x.shape.rank - 1
    largest = b.reduce(x, -1, (rank,), bigger(x.shape.element_type))
    wide = b.spread(largest, x.shape, tuple(range(rank)))
    index = b.iota(S32, x.shape.dimensions, rank)
    here = b.or_(b.compare(x, wide, direction="EQ"), b.compare(x, x, direction="NE"))
    size = x.shape.dimensions[-1]
    return b.reduce(b.make("select", here, index, b.full(size, index.shape)), size, (rank,), _smaller())


def _smaller() -> Computation:
    x, y = (Instruction(n, "parameter", Shape(S32), [], {"number": k}) for k, n in enumerate("xy"))
    root = make("minimum", x, y, name="minimum")
    return Computation("minimum.s32", [x, y, root], root)


def _first(b: Build, wrong: Instruction) -> Instruction:
    """The number, from 1 on, of the first true element along the last dimension, or 0."""
    size, rank = wrong.shape.dimensions[-1], wrong.shape.rank - 1
    if size <= library_calls.WRITTEN_OUT:
        return small_matrices.first(b, wrong)
    number = b.add(b.iota(S32, wrong.shape.dimensions, rank), 1)
    first = b.reduce(b.make("select", wrong, number, b.full(size + 1, number.shape)), size + 1, (rank,), _smaller())
    return b.make("select", b.compare(first, size, direction="GT"), b.full(0, first.shape), first)


def _not_finite(b: Build, values: Instruction) -> Instruction:
    """1 for each matrix one of whose values is not finite."""
    bad = b.convert(b.not_(b.is_finite(values)), S32)
    return b.reduce(bad, 0, (values.shape.rank - 1,), bigger(S32))


def _typed(b: Build, values: tuple[Instruction, ...], shapes: tuple[Shape, ...]) -> list[Instruction]:
    return [b.convert(v, s.element_type) for v, s in zip(values, shapes, strict=False)]


def _expanded(expansion: Callable[[Instruction], Instruction | None], instruction: Instruction) -> Instruction:
    """The expansion of an instruction, or itself where it needs none."""
    return expansion(instruction) or instruction


_LAPACK = {
    "syevd": ("sd", syevd),
    "heevd": ("cz", syevd),
    "gesdd": ("sdcz", gesdd),
    "gesvd": ("sdcz", gesdd),
    "geqrf": ("sdcz", geqrf),
    "orgqr": ("sd", orgqr),
    "ungqr": ("cz", orgqr),
    "potrf": ("sdcz", potrf),
    "trsm": ("sdcz", trsm),
    "getrf": ("sdcz", getrf),
}
TARGETS = {
    **{f"lapack_{t}{name}_ffi": f for name, (letters, f) in _LAPACK.items() for t in letters},
    "Eigh": eigh,
    "LuDecomposition": lu_decomposition,
}
