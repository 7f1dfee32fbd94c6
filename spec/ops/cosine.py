"""The cosine of an angle in radians.

Special values: cosine(+-0) = 1, infinities and NaN give NaN. The angle is reduced by the exact 2 pi, however large
it is. Of a complex a + bi: cos a cosh b - i sin a sinh b.
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
    return numerics.elementary(np.cos, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] cosine(x)",
        ("f32[5] {0, -0, inf, nan, 1}",),
        ("f32[5] {1, 1, nan, nan, 0.5403023}",),
    ),
    Example(
        "x = f32[2] parameter(0)\nROOT y = f32[2] cosine(x)",
        ("f32[2] {1e30, 1.5707964}",),
        ("f32[2] {-0.6116048, -4.371139e-08}",),
    ),
)
