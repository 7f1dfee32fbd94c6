"""The hyperbolic cosine.

    cosh(x) = (e^x + e^-x) / 2

Special values: cosh(+-0) = 1, cosh(+-inf) = inf, NaN gives NaN; overflow gives inf.
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
    return numerics.elementary(np.cosh, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] cosh(x)",
        ("f32[5] {0, -0, inf, -inf, nan}",),
        ("f32[5] {1, 1, inf, inf, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] cosh(x)",
        ("f32[3] {1, -1, 90}",),
        ("f32[3] {1.5430807, 1.5430807, inf}",),
    ),
)
