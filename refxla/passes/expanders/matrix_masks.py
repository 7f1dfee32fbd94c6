"""Triangles, diagonals and pivots of the matrices in the last two dimensions, for expansions of linear algebra."""

from __future__ import annotations

from refxla_spec.module import Instruction, SliceDimension
from refxla_spec.types import ELEMENT_TYPES, S32, ElementType, Shape

from ...ir.builder import Build

ONE_BLOCK = 48  # up to this many rows are computed one by one
BLOCK = 32  # of more, so many between two matrix products


def working_type(shape: Shape) -> ElementType:
    """The type of the computation: f32 for narrower types, otherwise the array's own."""
    element_type = shape.element_type
    return ELEMENT_TYPES["f32"] if element_type.is_float and element_type.bits < 32 else element_type


def compare_indices(b: Build, shape: Shape, direction: str) -> Instruction:
    """Where row `direction` column, in the last two dimensions: GT is below the diagonal."""
    row, column = (b.iota(S32, shape.dimensions, shape.rank - n) for n in (2, 1))
    return b.compare(row, column, direction=direction)


def lower_triangle(b: Build, a: Instruction, strict: bool) -> Instruction:
    """a with zeros above the diagonal, and on it where `strict`."""
    below = compare_indices(b, a.shape, "GT" if strict else "GE")
    return b.make("select", below, a, b.full(0, a.shape))


def columns_below(b: Build, a: Instruction, limit: Instruction) -> Instruction:
    """a with zeros in the columns from `limit` (s32[]) on."""
    column = b.iota(S32, a.shape.dimensions, a.shape.rank - 1)
    inside = b.compare(column, b.spread(limit, column.shape, ()), direction="LT")
    return b.make("select", inside, a, b.full(0, a.shape))


def diagonal(b: Build, a: Instruction) -> Instruction:
    """The diagonals of square matrices a[.., n, n], as [.., n]."""
    *batch, n, _ = a.shape.dimensions
    flat = b.reshape(a, (*batch, n * n))
    window = tuple(SliceDimension(0, size, 1) for size in batch)
    return b.make("slice", flat, slice=(*window, SliceDimension(0, n * n, n + 1)))


def pad_square(b: Build, a: Instruction, more: int) -> Instruction:
    """Square matrices with `more` rows and columns of the identity."""
    if not more:
        return a
    n = a.shape.dimensions[-1]
    wide = b.pad(a, *(0,) * (a.shape.rank - 2), more, more)
    row = b.iota(S32, wide.shape.dimensions, a.shape.rank - 2)
    added = b.and_(compare_indices(b, wide.shape, "EQ"), b.compare(row, n, direction="GE"))
    return b.make("select", added, b.full(1, wide.shape), wide)


def pivot_size(b: Build, x: Instruction) -> Instruction:
    """That by which LAPACK chooses a pivot among the elements of x: |x|, or |re x| + |im x|."""
    return b.add(b.abs(b.real(x)), b.abs(b.imag(x))) if x.shape.element_type.is_complex else b.abs(x)


def pivot_root(b: Build, x: Instruction) -> Instruction:
    """The square roots of pivots of a Hermitian matrix, which are real numbers."""
    if not x.shape.element_type.is_complex:
        return b.sqrt(x)
    root = b.sqrt(b.real(x))
    return b.complex(root, b.full(0, root.shape))
