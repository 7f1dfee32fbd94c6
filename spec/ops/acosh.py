"""The inverse of the hyperbolic cosine, at least 0.

    acosh(x) = log(x + (x^2 - 1)^(1/2))

Special values: acosh(1) = +0, acosh(inf) = inf, x < 1 and NaN give NaN; x^2 does not overflow. Of a complex z:
log(z + (z + 1)^(1/2) (z - 1)^(1/2)).
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
    return numerics.elementary(np.arccosh, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] acosh(x)",
        ("f32[5] {1, inf, 0.5, -inf, nan}",),
        ("f32[5] {0, inf, nan, nan, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] acosh(x)",
        ("f32[3] {2, 3e38, 1.0000001}",),
        ("f32[3] {1.316958, 89.28999, 0.00048828125}",),
    ),
)
