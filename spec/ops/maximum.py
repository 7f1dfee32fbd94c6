"""The larger of two values.

Floats as in IEEE 754-2019: NaN if either is NaN, and +0 is above -0. Of pred, false is below true. Complex numbers
are ordered by their real parts, then by their imaginary parts, and one with a NaN wins.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, INTEGER, PRED, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(PRED, INTEGER, FLOAT, COMPLEX)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    if lhs.dtype == bool:
        return np.logical_or(lhs, rhs)
    if numerics.type_of(lhs).is_complex:
        return _lexicographic(lhs, rhs)
    apply = numerics.integer if numerics.type_of(lhs).is_integer else numerics.exact
    return apply(np.maximum if apply is numerics.integer else numerics.maximum, lhs, rhs)


def _lexicographic(a: Array, b: Array) -> Array:
    a_wins = (a.real > b.real) | ((a.real == b.real) & (a.imag > b.imag)) | np.isnan(a)
    return np.where(a_wins & ~(np.isnan(b) & ~np.isnan(a)), a, b)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\ny = f32[6] parameter(1)\nROOT z = f32[6] maximum(x, y)",
        ("f32[6] {1, nan, 1, -0, 0, -inf}", "f32[6] {2, 1, nan, 0, -0, nan}"),
        ("f32[6] {2, nan, nan, 0, 0, nan}",),
    ),
    Example(
        "x = u8[2] parameter(0)\ny = u8[2] parameter(1)\nROOT z = u8[2] maximum(x, y)",
        ("u8[2] {200, 3}", "u8[2] {100, 7}"),
        ("u8[2] {200, 7}",),
    ),
)
