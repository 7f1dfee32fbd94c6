"""The largest integer that is not above the operand.

Special values: +-0, infinities and NaN stay what they are.
"""

import numpy as np

from .. import numerics
from ..elementwise import FLOAT, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.exact(np.floor, operand)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] floor(x)",
        ("f32[6] {1.5, -1.5, -0.25, -0, inf, nan}",),
        ("f32[6] {1, -2, -1, -0, inf, nan}",),
    ),
    Example(
        "x = bf16[2] parameter(0)\nROOT y = bf16[2] floor(x)",
        ("bf16[2] {0.99609375, 256}",),
        ("bf16[2] {0, 256}",),
    ),
)
