"""The natural logarithm of one plus the operand, exact near zero.

    log-plus-one(x) = log(1 + x), without the rounding of 1 + x

Special values: +-0 gives +-0, -1 gives -inf, inf gives inf, x < -1 and NaN give NaN. Of a complex a + bi: log|1 +
z| = log1p(2a + a^2 + b^2) / 2, and arg(1 + z).
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
    return numerics.elementary(by_kind(operand, complex=_complex, other=np.log1p), operand)


def _complex(z: Array) -> Array:
    a, b = z.real, z.imag
    near = np.abs(a) + np.abs(b) < 0.5  # elsewhere 1 + z loses nothing, and a^2 could overflow
    real = np.where(near, np.log1p(a * (2 + a) + b * b) / 2, np.log(np.hypot(1 + a, b)))
    return numerics.make_complex(real, np.arctan2(b, 1 + a))


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] log-plus-one(x)",
        ("f32[6] {0, -0, -1, inf, -2, nan}",),
        ("f32[6] {0, -0, -inf, inf, nan, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] log-plus-one(x)",
        ("f32[3] {1e-10, 1, 1e-45}",),
        ("f32[3] {1e-10, 0.6931472, 1e-45}",),
    ),
)
