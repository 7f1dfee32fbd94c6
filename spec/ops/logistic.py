"""The logistic function, or sigmoid.

    logistic(x) = 1 / (1 + e^-x)

Special values: logistic(+-0) = 0.5, logistic(inf) = 1, logistic(-inf) = +0, NaN gives NaN; far below zero the
result is subnormal, then +0. The same formula holds for a complex operand.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, RESULT_ACCURACY, by_kind, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT, COMPLEX)
ATTRIBUTES = RESULT_ACCURACY


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.elementary(by_kind(operand, complex=_complex, other=lambda x: 1 / (1 + np.exp(-x))), operand)


def _complex(z: Array) -> Array:
    negative = z.real < 0  # where e^-z could overflow, e^z / (1 + e^z) cannot
    power = np.exp(np.where(negative, z, -z))
    return numerics.divide_complex(np.where(negative, power, 1), 1 + power)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] logistic(x)",
        ("f32[5] {0, -0, inf, -inf, nan}",),
        ("f32[5] {0.5, 0.5, 1, 0, nan}",),
    ),
    Example(
        "x = f32[4] parameter(0)\nROOT y = f32[4] logistic(x)",
        ("f32[4] {1, -88, -103, -110}",),
        ("f32[4] {0.7310586, 6.054602e-39, 1e-45, 0}",),
    ),
)
