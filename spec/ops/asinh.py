"""The inverse of the hyperbolic sine.

    asinh(x) = log(x + (x^2 + 1)^(1/2))

Special values: asinh(+-0) = +-0, asinh(+-inf) = +-inf, NaN gives NaN; x^2 does not overflow.
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
    return numerics.elementary(np.arcsinh, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] asinh(x)",
        ("f32[5] {0, -0, inf, -inf, nan}",),
        ("f32[5] {0, -0, inf, -inf, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] asinh(x)",
        ("f32[3] {1, 3e38, -1e-45}",),
        ("f32[3] {0.8813736, 89.28999, -1e-45}",),
    ),
)
