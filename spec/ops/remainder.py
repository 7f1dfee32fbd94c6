"""The remainder of the division rounded towards zero; it has the sign of the dividend.

    remainder(x, y) = x - y * trunc(x / y), exactly

Floats: inf by anything and anything by 0 give NaN, a finite x by an infinity is x, and a zero result has the sign
of x. Integers: by zero gives x, and the smallest signed integer by -1 gives 0.
"""

import numpy as np

from .. import numerics
from ..elementwise import FLOAT, INTEGER, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(INTEGER, FLOAT)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    if numerics.type_of(lhs).is_integer:
        return numerics.integer(numerics.remainder_integers, lhs, rhs)
    return numerics.exact(np.fmod, lhs, rhs)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\ny = f32[6] parameter(1)\nROOT z = f32[6] remainder(x, y)",
        ("f32[6] {5.5, -5.5, 1, 3, inf, -4}", "f32[6] {2, 2, 0, inf, 2, 2}"),
        ("f32[6] {1.5, -1.5, nan, 3, nan, -0}",),
    ),
    Example(
        "x = f32[1] parameter(0)\ny = f32[1] parameter(1)\nROOT z = f32[1] remainder(x, y)",
        ("f32[1] {1e30}", "f32[1] {0.3}"),
        ("f32[1] {0.004301071}",),
        "the quotient need not be representable",
    ),
    Example(
        "x = s32[4] parameter(0)\ny = s32[4] parameter(1)\nROOT z = s32[4] remainder(x, y)",
        ("s32[4] {-7, 7, 5, -2147483648}", "s32[4] {2, -2, 0, -1}"),
        ("s32[4] {-1, 1, 5, 0}",),
    ),
)
