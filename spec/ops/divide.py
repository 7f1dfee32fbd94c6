"""The quotient.

    divide(x, y) = x / y

Floats are rounded once; x / +-0 is an infinity, 0 / 0 and inf / inf are NaN. Integers are rounded towards zero; by
zero gives all ones (-1 if signed), and the smallest signed integer divided by -1 is itself. Of complex numbers a
conj(b) / |b|^2 in the wider type, each part rounded once, with infinities where b is zero and zeros where b is
infinite, as in C's Annex G.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, INTEGER, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(INTEGER, FLOAT, COMPLEX)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    element_type = numerics.type_of(lhs)
    if element_type.is_complex:
        return numerics.elementary(numerics.divide_complex, lhs, rhs)
    if element_type.is_integer:
        return numerics.integer(numerics.divide_integers, lhs, rhs)
    return numerics.exact(np.divide, lhs, rhs)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\ny = f32[5] parameter(1)\nROOT z = f32[5] divide(x, y)",
        ("f32[5] {1, -1, 0, 1, 1e-45}", "f32[5] {3, 0, 0, -inf, 2}"),
        ("f32[5] {0.33333334, -inf, nan, -0, 0}",),
    ),
    Example(
        "x = s32[4] parameter(0)\ny = s32[4] parameter(1)\nROOT z = s32[4] divide(x, y)",
        ("s32[4] {-7, 7, 5, -2147483648}", "s32[4] {2, -2, 0, -1}"),
        ("s32[4] {-3, -3, -1, -2147483648}",),
    ),
    Example(
        "x = u8[2] parameter(0)\ny = u8[2] parameter(1)\nROOT z = u8[2] divide(x, y)",
        ("u8[2] {7, 0}", "u8[2] {0, 0}"),
        ("u8[2] {255, 255}",),
    ),
    Example(
        "x = c64[2] parameter(0)\ny = c64[2] parameter(1)\nROOT z = c64[2] divide(x, y)",
        ("c64[2] {(1, 2), (1, 0)}", "c64[2] {(3, -4), (0, 0)}"),
        ("c64[2] {(-0.2, 0.4), (inf, nan)}",),
    ),
)
