"""The natural logarithm.

    log(x) = the y with e^y = x

Special values: log(1) = +0, log(+-0) = -inf, log(inf) = inf, x < 0 and NaN give NaN. Of a complex z: log|z| + i arg
z, with arg z in [-pi, pi] and its cut along the negative reals.
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
    return numerics.elementary(np.log, operand)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] log(x)",
        ("f32[6] {1, 0, -0, inf, -1, nan}",),
        ("f32[6] {0, -inf, -inf, inf, nan, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] log(x)",
        ("f32[3] {1e-45, 2.7182817, 0.99999994}",),
        ("f32[3] {-103.27893, 0.99999994, -5.9604645e-08}",),
        "a subnormal operand",
    ),
)
