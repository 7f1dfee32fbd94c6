"""The smallest integer that is not below the operand.

Special values: +-0, infinities and NaN stay what they are; from (-1, 0) comes -0.
"""

import numpy as np

from .. import numerics
from ..elementwise import FLOAT, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.exact(np.ceil, operand)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] ceil(x)",
        ("f32[6] {1.5, -1.5, -0.25, -0, -inf, nan}",),
        ("f32[6] {2, -1, -0, -0, -inf, nan}",),
    ),
    Example(
        "x = bf16[2] parameter(0)\nROOT y = bf16[2] ceil(x)",
        ("bf16[2] {0.00390625, 256}",),
        ("bf16[2] {1, 256}",),
    ),
)
