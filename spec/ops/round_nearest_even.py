"""The nearest integer; of two that are equally near, the even one.

Special values: +-0, infinities and NaN stay what they are, and the sign stays when the result is zero.
"""

import numpy as np

from .. import numerics
from ..elementwise import FLOAT, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.exact(np.rint, operand)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] round-nearest-even(x)",
        ("f32[6] {0.5, 1.5, 2.5, -0.5, -1.5, nan}",),
        ("f32[6] {0, 2, 2, -0, -2, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] round-nearest-even(x)",
        ("f32[3] {0.49999997, 8388609, inf}",),
        ("f32[3] {0, 8388609, inf}",),
    ),
)
