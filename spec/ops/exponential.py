"""The exponential function.

    exponential(x) = e^x

Special values: exponential(+-0) = 1, exponential(inf) = inf, exponential(-inf) = +0, NaN gives NaN; results below
the normal range are subnormal, above the range inf. Of a complex a + bi: e^a (cos b + i sin b).
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
    return numerics.elementary(np.exp, operand)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] exponential(x)",
        ("f32[6] {0, -0, inf, -inf, nan, 1}",),
        ("f32[6] {1, 1, inf, 0, nan, 2.7182817}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] exponential(x)",
        ("f32[3] {88.72284, -103.5, 88.7}",),
        ("f32[3] {inf, 1e-45, 3.3259769e38}",),
        "overflow, and a subnormal result",
    ),
    Example("x = f32[0] parameter(0)\nROOT y = f32[0] exponential(x)", ("f32[0] {}",), ("f32[0] {}",)),
)
