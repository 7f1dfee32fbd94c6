"""The hyperbolic sine.

    sinh(x) = (e^x - e^-x) / 2

Special values: sinh(+-0) = +-0, sinh(+-inf) = +-inf, NaN gives NaN; overflow gives an infinity.
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
    return numerics.elementary(np.sinh, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] sinh(x)",
        ("f32[5] {0, -0, inf, -inf, nan}",),
        ("f32[5] {0, -0, inf, -inf, nan}",),
    ),
    Example(
        "x = f32[4] parameter(0)\nROOT y = f32[4] sinh(x)",
        ("f32[4] {1, 89.4, -90, 1e-45}",),
        ("f32[4] {1.1752012, 3.3488627e+38, -inf, 1e-45}",),
    ),
)
