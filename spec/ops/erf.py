"""The error function.

    erf(x) = 2 / sqrt(pi) * (the integral of e^(-t^2) from 0 to x)

Special values: erf(+-0) = +-0, erf(+-inf) = +-1, NaN gives NaN.

Up to f32 the value is that of the C library's erf in f64 (within 1 ULP of f64), rounded once. For f64 it is the
series 2 / sqrt(pi) * e^(-x^2) * sum over n of x (2x^2)^n / (2n + 1)!!, whose terms have one sign, in the wider
type; beyond 6.5 the result is 1 to the last bit.
"""

import math

import numpy as np

from .. import numerics
from ..elementwise import FLOAT, RESULT_ACCURACY, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT)
ATTRIBUTES = RESULT_ACCURACY


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.elementary(_series if operand.dtype == np.float64 else _library, operand)


def _library(x: Array) -> Array:
    return np.fromiter(map(math.erf, x.ravel()), np.float64, x.size).reshape(x.shape)


def _series(x: Array) -> Array:
    inside = np.where(np.abs(x) < 6.5, x, 0)
    term = total = inside
    n = 1
    while np.any(np.abs(term) > np.finfo(x.dtype).eps * np.abs(total)):
        term = term * (2 * inside * inside) / (2 * n + 1)
        total = total + term
        n += 1
    value = 2 / np.sqrt(np.arctan(x.dtype.type(1)) * 4) * np.exp(-inside * inside) * total
    return np.where(np.abs(x) < 6.5, value, np.sign(x))


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] erf(x)",
        ("f32[5] {0, -0, inf, -inf, nan}",),
        ("f32[5] {0, -0, 1, -1, nan}",),
    ),
    Example(
        "x = f32[4] parameter(0)\nROOT y = f32[4] erf(x)",
        ("f32[4] {0.5, -1, 4, 1e-45}",),
        ("f32[4] {0.5204999, -0.8427008, 1, 1e-45}",),
    ),
)
