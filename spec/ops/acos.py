"""The inverse of the cosine, in [0, pi].

Special values: acos(1) = +0, acos(-1) = pi, |x| > 1 and NaN give NaN. Of a complex z: pi/2 - asin(z).
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, RESULT_ACCURACY, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT, COMPLEX)
ATTRIBUTES = RESULT_ACCURACY


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.elementary(np.arccos, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] acos(x)",
        ("f32[5] {1, -1, 0, -0, nan}",),
        ("f32[5] {0, 3.1415927, 1.5707964, 1.5707964, nan}",),
    ),
    Example(
        "x = f32[2] parameter(0)\nROOT y = f32[2] acos(x)",
        ("f32[2] {0.5, 1.0000001}",),
        ("f32[2] {1.0471976, nan}",),
    ),
)
