"""The square root, rounded once as IEEE 754 says.

    sqrt(x) = the y >= 0 with y^2 = x

Special values: sqrt(+-0) = +-0, sqrt(inf) = inf, x < 0 and NaN give NaN. Of a complex z the root with arg in
(-pi/2, pi/2].
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
    apply = numerics.elementary if numerics.type_of(operand).is_complex else numerics.exact
    return apply(np.sqrt, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] sqrt(x)",
        ("f32[5] {0, -0, inf, -1, nan}",),
        ("f32[5] {0, -0, inf, nan, nan}",),
    ),
    Example(
        "x = f32[2] parameter(0)\nROOT y = f32[2] sqrt(x)",
        ("f32[2] {2, 1e-45}",),
        ("f32[2] {1.4142135, 3.743392e-23}",),
    ),
    Example(
        "x = c64[2] parameter(0)\nROOT y = c64[2] sqrt(x)",
        ("c64[2] {(-4, 0), (0, 2)}",),
        ("c64[2] {(0, 2), (1, 1)}",),
    ),
)
