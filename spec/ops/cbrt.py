"""The real cube root.

    cbrt(x) = the y with y^3 = x

Special values: cbrt(+-0) = +-0, cbrt(+-inf) = +-inf, NaN gives NaN. Of a complex z the principal root: |z|^(1/3)
e^(i arg(z) / 3).
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, RESULT_ACCURACY, by_kind, unary
from ..operation import Example

INPUTS, CONSTRAINTS, infer = unary(FLOAT, COMPLEX)
ATTRIBUTES = RESULT_ACCURACY


def evaluate(instruction, operand):
    return numerics.elementary(by_kind(operand, complex=_complex, other=np.cbrt), operand)


def _complex(z):
    size, angle = np.cbrt(np.hypot(z.real, z.imag)), np.arctan2(z.imag, z.real) / 3
    return numerics.make_complex(size * np.cos(angle), np.where(angle == 0, angle, size * np.sin(angle)))


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] cbrt(x)",
        ("f32[5] {0, -0, inf, -inf, nan}",),
        ("f32[5] {0, -0, inf, -inf, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] cbrt(x)",
        ("f32[3] {27, -8, 1e-45}",),
        ("f32[3] {3, -2, 1.1190347e-15}",),
    ),
)
