"""The first operand to the power of the second.

    power(x, y) = x^y

Floats as IEEE 754's pow: power(x, +-0) = 1 and power(1, y) = 1 for any x and y, NaN included; power(-1, +-inf) = 1;
power(+-0, y) is +-0 or +-inf with the sign of x where y is an odd integer, otherwise +0 or inf; a negative x to a
power that is no integer is NaN. Integers wrap; 0^0 = 1; a negative exponent gives 1 for x = 1, +-1 for x = -1,
otherwise 0. Of f8e8m0fnu, which has no zero, what is too small is 2^-127. Of complex numbers e^(y log x), with 1 for
y = 0 and 0 for x = 0 and real y > 0.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, INTEGER, RESULT_ACCURACY, binary, by_kind
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(INTEGER, FLOAT, COMPLEX)
ATTRIBUTES = RESULT_ACCURACY


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    if numerics.type_of(lhs).is_integer:
        return numerics.integer(numerics.power_integers, lhs, rhs)
    real = _positive if numerics.type_of(lhs).name == "f8e8m0fnu" else _power
    return numerics.elementary(by_kind(lhs, complex=_complex, other=real), lhs, rhs)


def _power(x: Array, y: Array) -> Array:
    # Powers of infinities by way of 1/x = 0: C's powl takes (-inf)^(-2^63) for one with an odd exponent.
    infinite = np.isinf(x)
    return np.power(np.where(infinite, 1 / x, x), np.where(infinite, -y, y))


def _positive(x: Array, y: Array) -> Array:
    return np.maximum(np.power(x, y), np.finfo(x.dtype).smallest_subnormal)


def _complex(x: Array, y: Array) -> Array:
    exponent = numerics.multiply_complex(y, np.log(np.where(x == 0, 1, x)))
    power = np.where(x == 0, np.where((y.real > 0) & (y.imag == 0), 0, np.nan), np.exp(exponent))
    return np.where(y == 0, 1, power)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\ny = f32[6] parameter(1)\nROOT z = f32[6] power(x, y)",
        ("f32[6] {nan, 1, -1, -0, -0, -8}", "f32[6] {0, nan, inf, 3, -3, 0.5}"),
        ("f32[6] {1, 1, 1, -0, -inf, nan}",),
    ),
    Example(
        "x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nROOT z = f32[4] power(x, y)",
        ("f32[4] {2, 2, 10, 0}", "f32[4] {0.5, -149, 39, -2}"),
        ("f32[4] {1.4142135, 1e-45, inf, inf}",),
    ),
    Example(
        "x = f8e8m0fnu[3] parameter(0)\ny = f8e8m0fnu[3] parameter(1)\nROOT z = f8e8m0fnu[3] power(x, y)",
        ("f8e8m0fnu[3] {0.5, 0.5, 2}", "f8e8m0fnu[3] {2, 1024, 1024}"),
        ("f8e8m0fnu[3] {0.25, 5.877472e-39, nan}",),
    ),
    Example(
        "x = s32[5] parameter(0)\ny = s32[5] parameter(1)\nROOT z = s32[5] power(x, y)",
        ("s32[5] {3, 2, 2, -1, 0}", "s32[5] {4, 32, -1, -3, 0}"),
        ("s32[5] {81, 0, 0, -1, 1}",),
    ),
)
