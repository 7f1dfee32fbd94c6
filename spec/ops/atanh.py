"""The inverse of the hyperbolic tangent.

    atanh(x) = log((1 + x) / (1 - x)) / 2

Special values: atanh(+-0) = +-0, atanh(+-1) = +-inf, |x| > 1 and NaN give NaN.
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
    return numerics.elementary(np.arctanh, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] atanh(x)",
        ("f32[5] {0, -0, 1, -1, nan}",),
        ("f32[5] {0, -0, inf, -inf, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] atanh(x)",
        ("f32[3] {0.5, 2, 1e-45}",),
        ("f32[3] {0.54930615, nan, 1e-45}",),
    ),
)
