"""Factorizations and solutions of matrices of at most 3 rows, written out element by element.

Each element of a matrix is an array with the dimensions of its batch: there is no loop, and no index depends on a
value, so that a decomposition is fused like any elementwise operation. Larger matrices are computed by loops over
columns and rows (lapack.lu, cholesky_expander, triangular_solve_expander).
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Instruction
from refxla_spec.types import S32, Shape

from ...ir import library_calls
from ...ir.builder import Build
from .matrix_masks import pivot_root, pivot_size

Elements = list[list[Instruction]]


def applies(shape: Shape) -> bool:
    """Whether matrices [.., m, n] are small."""
    return max(shape.dimensions[-2:]) <= library_calls.WRITTEN_OUT


def lu(b: Build, a: Instruction) -> tuple[Instruction, Instruction, Instruction, Instruction]:
    """(packed, pivots s32[.., min(m, n)], permutation s32[.., m], zero pred[.., min(m, n)]) of a[.., m, n], as
    lapack.lu."""
    *batch, m, n = a.shape.dimensions
    x = elements(b, a)
    index = Shape(S32, tuple(batch))
    order = [b.full(row, index) for row in range(m)]
    pivots, zeros = [], []
    for k in range(min(m, n)):
        best, size, pivot_row, pivot_number = b.full(k, index), pivot_size(b, x[k][k]), x[k], order[k]
        for row in range(k + 1, m):
            other = pivot_size(b, x[row][k])
            # larger, or the first NaN
            better = b.and_(b.not_(b.compare(other, size, direction="LE")), b.compare(size, size, direction="EQ"))
            best, size = b.select(better, b.full(row, index), best), b.select(better, other, size)
            pivot_row = [b.select(better, y, z) for y, z in zip(x[row], pivot_row, strict=True)]
            pivot_number = b.select(better, order[row], pivot_number)
        for row in range(k + 1, m):
            moved = b.compare(best, row, direction="EQ")
            x[row] = [b.select(moved, y, z) for y, z in zip(x[k], x[row], strict=True)]
            order[row] = b.select(moved, order[k], order[row])
        x[k], order[k] = pivot_row, pivot_number
        pivots.append(best)
        zeros.append(b.compare(x[k][k], 0, direction="EQ"))
        divisor = b.select(zeros[k], 1, x[k][k])
        for row in range(k + 1, m):
            x[row][k] = b.divide(x[row][k], divisor)
            for column in range(k + 1, n):
                x[row][column] = b.subtract(x[row][column], b.multiply(x[row][k], x[k][column]))
    return matrix(b, x), _vector(b, pivots), _vector(b, order), _vector(b, zeros)


def cholesky(b: Build, a: Instruction) -> Instruction:
    """The lower factors of matrices a[.., n, n], whose upper triangle is not read."""
    x = elements(b, a)
    n = len(x)
    factor: Elements = [[b.full(0, x[0][0].shape) for _ in range(n)] for _ in range(n)]
    for column in range(n):
        for row in range(column, n):
            value = x[row][column]
            for k in range(column):
                value = b.subtract(value, b.multiply(factor[row][k], b.conjugate(factor[column][k])))
            factor[row][column] = pivot_root(b, value) if row == column else b.divide(value, factor[column][column])
    return matrix(b, factor)


def triangular_solve(b: Build, a: Instruction, x: Instruction, lower: bool, unit: bool) -> Instruction:
    """The solution [.., n, m] of a y = x for triangular a[.., n, n]; with `unit`, its diagonal counts as ones."""
    *batch, n, m = x.shape.dimensions
    coefficients = elements(b, a)
    wide = x.shape.with_dimensions((*batch, m))

    def spread(element: Instruction) -> Instruction:
        return b.spread(element, wide, tuple(range(len(batch))))

    solved: dict[int, Instruction] = {}
    for row in range(n) if lower else reversed(range(n)):
        value = _row(b, x, row)
        for k, y in solved.items():
            value = b.subtract(value, b.multiply(spread(coefficients[row][k]), y))
        solved[row] = value if unit else b.divide(value, spread(coefficients[row][row]))
    stacked = [b.reshape(solved[row], (*batch, 1, m)) for row in range(n)]
    return b.make("concatenate", *stacked, dimensions=(len(batch),)) if n > 1 else stacked[0]


def any_of(b: Build, x: Instruction) -> Instruction:
    """Whether an element of x, pred[.., n], is true, as pred[..]."""
    result, *others = _vector_elements(b, x)
    for other in others:
        result = b.or_(result, other)
    return result


def first(b: Build, x: Instruction) -> Instruction:
    """The number, from 1 on, of the first true element of x, pred[.., n], or 0, as s32[..]."""
    result = None
    for number, element in reversed(list(enumerate(_vector_elements(b, x), 1))):
        index = Shape(S32, element.shape.dimensions)
        result = b.select(element, b.full(number, index), b.full(0, index) if result is None else result)
    assert result is not None  # vectors are not empty
    return result


def elements(b: Build, a: Instruction) -> Elements:
    """The elements of matrices a[.., m, n]: for each row, arrays [..]."""
    *batch, m, n = a.shape.dimensions
    zeros = (0,) * len(batch)
    return [
        [
            b.reshape(b.slice(a, (*zeros, row, column), (*batch, row + 1, column + 1)), tuple(batch))
            for column in range(n)
        ]
        for row in range(m)
    ]


def matrix(b: Build, x: Sequence[Sequence[Instruction]]) -> Instruction:
    """Matrices [.., m, n] of elements [..]."""
    flat = _vector(b, [element for row in x for element in row])
    return b.reshape(flat, (*flat.shape.dimensions[:-1], len(x), len(x[0])))


def _vector_elements(b: Build, x: Instruction) -> list[Instruction]:
    """The elements [..] of vectors x[.., n]."""
    *batch, n = x.shape.dimensions
    zeros = (0,) * len(batch)
    return [b.reshape(b.slice(x, (*zeros, k), (*batch, k + 1)), tuple(batch)) for k in range(n)]


def _vector(b: Build, x: Sequence[Instruction]) -> Instruction:
    """Vectors [.., n] of elements [..]."""
    batch = x[0].shape.dimensions
    parts = [b.reshape(element, (*batch, 1)) for element in x]
    return b.make("concatenate", *parts, dimensions=(len(batch),)) if len(parts) > 1 else parts[0]


def _row(b: Build, x: Instruction, row: int) -> Instruction:
    """A row [.., m] of x[.., n, m]."""
    *batch, _, m = x.shape.dimensions
    zeros = (0,) * len(batch)
    return b.reshape(b.slice(x, (*zeros, row, 0), (*batch, row + 1, m)), (*batch, m))
