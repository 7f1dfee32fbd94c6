"""Two to the power of the operand.

    exp2(x) = 2^x

Special values: exp2(+-0) = 1, exp2(inf) = inf, exp2(-inf) = +0, NaN gives NaN; results below the normal range are
subnormal, above the range inf. Of a complex a + bi: 2^a (cos(b log 2) + i sin(b log 2)).
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
    return numerics.elementary(by_kind(operand, complex=_complex, other=np.exp2), operand)


def _complex(z: Array) -> Array:
    angle = z.imag * np.log(z.real.dtype.type(2))
    turned = np.exp(numerics.make_complex(np.zeros_like(angle), angle))
    power = np.exp2(z.real)
    finite = numerics.make_complex(power * turned.real, power * turned.imag)
    return np.where(np.isfinite(z.real) & np.isfinite(angle), finite, np.exp(numerics.make_complex(z.real, angle)))


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = f32[6] exp2(x)",
        ("f32[6] {0, -0, inf, -inf, nan, 0.5}",),
        ("f32[6] {1, 1, inf, 0, nan, 1.4142135}",),
    ),
    Example(
        "x = f32[4] parameter(0)\nROOT y = f32[4] exp2(x)",
        ("f32[4] {128, -149, -151, 10}",),
        ("f32[4] {inf, 1e-45, 0, 1024}",),
        "overflow, and a subnormal result",
    ),
    Example(
        "x = c64[3] parameter(0)\nROOT y = c64[3] exp2(x)",
        ("c64[3] {(1,0), (2,-0), (0,2.2661800)}",),
        ("c64[3] {(2,0), (4,-0), (2.2500561e-08,1)}",),
    ),
)
