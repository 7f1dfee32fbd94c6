"""The exponential function minus one, exact near zero.

    exponential-minus-one(x) = e^x - 1, without the cancellation that the formula has for small x

Special values: +-0 gives +-0, inf gives inf, -inf gives -1, NaN gives NaN. Of a complex a + bi: (expm1(a) cos b - 2
sin^2(b/2)) + i e^a sin b.
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
    return numerics.elementary(by_kind(operand, complex=_complex, other=np.expm1), operand)


def _complex(z: Array) -> Array:
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2
    imag = np.where(z.imag == 0, z.imag, np.exp(z.real) * np.sin(z.imag))  # for a = inf too
    return numerics.make_complex(np.where(z.imag == 0, np.expm1(z.real), real), imag)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] exponential-minus-one(x)",
        ("f32[6] {0, -0, 1e-10, inf, -inf, nan}",),
        ("f32[6] {0, -0, 1e-10, inf, -1, nan}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] exponential-minus-one(x)",
        ("f32[3] {1, -1, 89}",),
        ("f32[3] {1.7182819, -0.63212055, inf}",),
    ),
)
