"""One over the square root.

    rsqrt(x) = 1 / sqrt(x), with one rounding

Special values: rsqrt(+0) = inf, rsqrt(-0) = -inf, rsqrt(inf) = +0, x < 0 and NaN give NaN. The same formula holds
for complex.
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
    return numerics.elementary(by_kind(operand, complex=_complex, other=lambda x: 1 / np.sqrt(x)), operand)


def _complex(z: Array) -> Array:
    return numerics.divide_complex(np.ones_like(z), np.sqrt(z))


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] rsqrt(x)",
        ("f32[5] {0, -0, inf, -1, nan}",),
        ("f32[5] {inf, -inf, 0, nan, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] rsqrt(x)",
        ("f32[3] {4, 2, 1e-45}",),
        ("f32[3] {0.5, 0.70710677, 2.6713738e+22}",),
    ),
)
