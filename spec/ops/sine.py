"""The sine of an angle in radians.

Special values: sine(+-0) = +-0, infinities and NaN give NaN. The angle is reduced by the exact 2 pi, however large
it is. Of a complex a + bi: sin a cosh b + i cos a sinh b.
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
    return numerics.elementary(np.sin, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] sine(x)",
        ("f32[5] {0, -0, inf, nan, 1}",),
        ("f32[5] {0, -0, nan, nan, 0.84147096}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] sine(x)",
        ("f32[3] {1e30, 3.1415927, 1e-45}",),
        ("f32[3] {-0.79116344, -8.742278e-08, 1e-45}",),
        "a large angle; the f32 nearest pi",
    ),
)
