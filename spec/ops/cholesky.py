"""The Cholesky factor of symmetric (Hermitian) positive-definite matrices.

For each matrix a, the last two dimensions of the operand: with lower, result * adjoint(result) = a and result is lower
triangular; else adjoint(result) * result = a and it is upper triangular. The diagonal is real and positive. Only
that triangle of a is read. Row by row, with the sums over k < j:

    l[j, j] = sqrt(a[j, j] - sum |l[j, k]|^2)
    l[i, j] = (a[i, j] - sum l[i, k] * conj(l[j, k])) / l[j, j]      for i > j

The other triangle of the result is zero here and not specified. If a matrix is not positive definite, so that some
l[j, j] is not a positive number, every element of its result is NaN, as in XLA. Computed in a wider type and rounded
once.
"""

from __future__ import annotations

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..attributes import BOOL, Attribute
from ..module import Instruction
from ..numerics import type_of
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"a": "floating-point or complex matrices"}
ATTRIBUTES = {"lower": Attribute(BOOL, False, "whether the lower triangle is read and written, else the upper")}
CONSTRAINTS = {
    "C1": "a is a floating-point or complex array whose last two dimensions are equal",
    "C2": "the result has the shape of a",
}


def infer(instruction: Instruction, a: Shape) -> Shape:
    fits = (a.element_type.is_float or a.element_type.is_complex) and a.rank >= 2
    require(fits and a.dimensions[-1] == a.dimensions[-2], "C1", f"a is {a}")
    return a.without_layout()


def evaluate(instruction: Instruction, a: Array) -> Array:
    factor = factor_of(a, instruction.lower)
    factor[wrong_pivots(factor).any(-1)] = np.nan
    with np.errstate(all="ignore"):
        return narrow(factor, type_of(a))


def wrong_pivots(factor: Array) -> Array:
    """bool[.., n] of factors [.., n, n]: where the diagonal is not positive, so that a is not positive definite."""
    return ~(np.einsum("...ii->...i", factor).real > 0)


def factor_of(a: Array, lower: bool) -> Array:
    """The factor in the wider type. From a row on whose l[j, j] is not positive it is whatever the formulas give."""
    matrix = widen(a, wide_type(type_of(a)))
    if not lower:
        matrix = matrix.swapaxes(-1, -2).conj()
    factor = np.zeros_like(matrix)
    with np.errstate(all="ignore"):
        for j in range(a.shape[-1]):
            row = factor[..., j, :j]
            factor[..., j, j] = np.sqrt(matrix[..., j, j].real - (np.abs(row) ** 2).sum(-1))
            products = (factor[..., j + 1 :, :j] * row[..., None, :].conj()).sum(-1)
            factor[..., j + 1 :, j] = (matrix[..., j + 1 :, j] - products) / factor[..., j, j][..., None]
    return factor if lower else factor.swapaxes(-1, -2).conj()


EXAMPLES = (
    Example(
        """a = f32[2,2] parameter(0)
           ROOT r = f32[2,2] cholesky(a), lower=true""",
        ("f32[2,2] {{4,77},{6,10}}",),
        ("f32[2,2] {{2,0},{3,1}}",),
        "what is above the diagonal is not read",
    ),
    Example(
        """a = f32[2,2] parameter(0)
           ROOT r = f32[2,2] cholesky(a)""",
        ("f32[2,2] {{4,6},{77,10}}",),
        ("f32[2,2] {{2,3},{0,1}}",),
    ),
    Example(
        """a = f32[2,2,2] parameter(0)
           ROOT r = f32[2,2,2] cholesky(a), lower=true""",
        ("f32[2,2,2] {{{1,2},{2,1}},{{1,0},{0,1}}}",),
        ("f32[2,2,2] {{{nan,nan},{nan,nan}},{{1,0},{0,1}}}",),
        "the first matrix is not positive definite",
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2,3] parameter(0)\nROOT r = f32[2,3] cholesky(x), lower=true",
    "C2": "x = f32[2,2] parameter(0)\nROOT r = f32[2] cholesky(x), lower=true",
}
