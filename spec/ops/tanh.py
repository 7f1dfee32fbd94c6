"""The hyperbolic tangent.

    tanh(x) = (e^x - e^-x) / (e^x + e^-x)

Special values: tanh(+-0) = +-0, tanh(+-inf) = +-1, NaN gives NaN. The same formula holds for a complex operand.
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
    return numerics.elementary(np.tanh, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] tanh(x)",
        ("f32[5] {0, -0, inf, -inf, nan}",),
        ("f32[5] {0, -0, 1, -1, nan}",),
    ),
    Example(
        "x = f32[4] parameter(0)\nROOT y = f32[4] tanh(x)",
        ("f32[4] {1, -0.5, 1e-45, 20}",),
        ("f32[4] {0.7615942, -0.46211717, 1e-45, 1}",),
    ),
)
