"""The difference.

    subtract(x, y) = x - y

Integers wrap; floats are rounded once; complex numbers are subtracted part by part. Special values: inf - inf =
NaN, x - x = +0.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, INTEGER, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(INTEGER, FLOAT, COMPLEX)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    apply = numerics.integer if numerics.type_of(lhs).is_integer else numerics.exact
    return apply(np.subtract, lhs, rhs)


EXAMPLES = (
    Example(
        "x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nROOT z = f32[4] subtract(x, y)",
        ("f32[4] {1, inf, -0, -3e38}", "f32[4] {1, inf, 0, 3e38}"),
        ("f32[4] {0, nan, -0, -inf}",),
    ),
    Example(
        "x = u8[2] parameter(0)\ny = u8[2] parameter(1)\nROOT z = u8[2] subtract(x, y)",
        ("u8[2] {0, 5}", "u8[2] {1, 3}"),
        ("u8[2] {255, 2}",),
    ),
)
