"""The logarithm to base 2.

    log2(x) = the y with 2^y = x

Special values: log2(1) = +0, log2(+-0) = -inf, log2(inf) = inf, x < 0 and NaN give NaN. Of a complex z: log(z) / log 2.
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
    return numerics.elementary(by_kind(operand, complex=_complex, other=np.log2), operand)


def _complex(z: Array) -> Array:
    natural = np.log(z)
    unit = np.log(z.real.dtype.type(2))
    return numerics.make_complex(natural.real / unit, natural.imag / unit)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] log2(x)",
        ("f32[6] {1, 0, -0, inf, -1, nan}",),
        ("f32[6] {0, -inf, -inf, inf, nan, nan}",),
    ),
    Example(
        "x = f32[4] parameter(0)\nROOT y = f32[4] log2(x)",
        ("f32[4] {1e-45, 1024, 3, 0.99999994}",),
        ("f32[4] {-149, 10, 1.5849625, -8.599133e-08}",),
        "a subnormal operand, and one beside 1",
    ),
)
