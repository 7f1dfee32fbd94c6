"""The nearest integer; of two that are equally near, the one away from zero.

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
    return numerics.exact(_round, operand)


def _round(x: Array) -> Array:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, np.abs(whole)), x).astype(x.dtype)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] round-nearest-afz(x)",
        ("f32[6] {0.5, 1.5, 2.5, -0.5, -0.25, nan}",),
        ("f32[6] {1, 2, 3, -1, -0, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] round-nearest-afz(x)",
        ("f32[3] {0.49999997, 8388609, -inf}",),
        ("f32[3] {0, 8388609, -inf}",),
        "x + 0.5 would be rounded up to 1",
    ),
)
