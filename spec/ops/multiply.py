"""The product.

    multiply(x, y) = x * y

Integers wrap; pred is multiplied as logical and; floats are rounded once. Special values: 0 * inf = NaN, signs
multiply, those of zeros too. Of complex numbers (ar br - ai bi) + i (ar bi + ai br) in the wider type, each part
rounded once, with no repair of infinities.
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
        return np.logical_and(lhs, rhs)
    element_type = numerics.type_of(lhs)
    if element_type.is_complex:
        return numerics.elementary(numerics.multiply_complex, lhs, rhs)
    apply = numerics.integer if element_type.is_integer else numerics.exact
    return apply(np.multiply, lhs, rhs)


EXAMPLES = (
    Example(
        "x = f8e8m0fnu[2] parameter(0)\nROOT y = f8e8m0fnu[2] multiply(x, x)",
        ("f8e8m0fnu[2] {5.877472e-39, 2}",),
        ("f8e8m0fnu[2] {5.877472e-39, 4}",),
        "a type without zero: 2^-254 is rounded to the least number, 2^-127",
    ),
    Example(
        "x = f32[5] parameter(0)\ny = f32[5] parameter(1)\nROOT z = f32[5] multiply(x, y)",
        ("f32[5] {3, 0, -0, 1e-45, 1e38}", "f32[5] {1.5, inf, 5, 0.5, -10}"),
        ("f32[5] {4.5, nan, -0, 0, -inf}",),
        "half of the smallest number is a tie, and 0 is even",
    ),
    Example(
        "x = s16[2] parameter(0)\ny = s16[2] parameter(1)\nROOT z = s16[2] multiply(x, y)",
        ("s16[2] {32767, -32768}", "s16[2] {2, -1}"),
        ("s16[2] {-2, -32768}",),
    ),
    Example(
        "x = c64[1] parameter(0)\ny = c64[1] parameter(1)\nROOT z = c64[1] multiply(x, y)",
        ("c64[1] {(1, 2)}", "c64[1] {(3, -1)}"),
        ("c64[1] {(5, 5)}",),
    ),
    Example(
        "x = pred[2] parameter(0)\ny = pred[2] parameter(1)\nROOT z = pred[2] multiply(x, y)",
        ("pred[2] {true, true}", "pred[2] {false, true}"),
        ("pred[2] {false, true}",),
    ),
)
