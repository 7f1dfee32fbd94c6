"""The inverse of the sine, in [-pi/2, pi/2].

Special values: asin(+-0) = +-0, |x| > 1 and NaN give NaN. Of a complex z: -i log(iz + (1 - z^2)^(1/2)), cuts along
the reals beyond -1 and 1.
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
    return numerics.elementary(np.arcsin, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] asin(x)",
        ("f32[5] {0, -0, 1, -1, nan}",),
        ("f32[5] {0, -0, 1.5707964, -1.5707964, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] asin(x)",
        ("f32[3] {0.5, 1.0000001, 1e-45}",),
        ("f32[3] {0.5235988, nan, 1e-45}",),
    ),
)
