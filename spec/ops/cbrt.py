"""The real cube root.

    cbrt(x) = the y with y^3 = x

Special values: cbrt(+-0) = +-0, cbrt(+-inf) = +-inf, NaN gives NaN.
"""

import numpy as np

from .. import numerics
from ..elementwise import FLOAT, RESULT_ACCURACY, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT)
ATTRIBUTES = RESULT_ACCURACY


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.elementary(np.cbrt, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] cbrt(x)",
        ("f32[5] {0, -0, inf, -inf, nan}",),
        ("f32[5] {0, -0, inf, -inf, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] cbrt(x)",
        ("f32[3] {27, -8, 1e-45}",),
        ("f32[3] {3, -2, 1.1190347e-15}",),
    ),
)
