"""The tangent of an angle in radians.

    tan(x) = sine(x) / cosine(x)

Special values: tan(+-0) = +-0, infinities and NaN give NaN. Of a complex operand the same quotient.
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
    return numerics.elementary(np.tan, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] tan(x)",
        ("f32[5] {0, -0, inf, nan, 1}",),
        ("f32[5] {0, -0, nan, nan, 1.5574077}",),
    ),
    Example(
        "x = f32[2] parameter(0)\nROOT y = f32[2] tan(x)",
        ("f32[2] {1.5707964, 1e-45}",),
        ("f32[2] {-22877332, 1e-45}",),
    ),
)
