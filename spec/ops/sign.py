"""The sign of the operand: -1, 0 or 1 of its own type.

Of a float +-0 and NaN stay what they are. Of a complex z: z / |z|, 0 for zero, and NaN + i NaN where a part is NaN.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, SIGNED, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(SIGNED, FLOAT, COMPLEX)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    if numerics.type_of(operand).is_complex:
        return numerics.elementary(_complex, operand)
    apply = numerics.integer if numerics.type_of(operand).is_integer else numerics.exact
    return apply(_real, operand)


def _real(x: Array) -> Array:
    return np.where(x == 0, x, np.sign(x))


def _complex(z: Array) -> Array:
    size = np.hypot(z.real, z.imag)
    nan = np.isnan(z.real) | np.isnan(z.imag)
    divisor = np.where(size == 0, 1, np.where(nan, np.nan, size))
    return numerics.make_complex(z.real / divisor, z.imag / divisor)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] sign(x)",
        ("f32[5] {-0, 0, -inf, 1e-45, nan}",),
        ("f32[5] {-0, 0, -1, 1, nan}",),
    ),
    Example("x = s8[3] parameter(0)\nROOT y = s8[3] sign(x)", ("s8[3] {-128, 0, 3}",), ("s8[3] {-1, 0, 1}",)),
    Example(
        "x = c64[2] parameter(0)\nROOT y = c64[2] sign(x)",
        ("c64[2] {(3, -4), (0, 0)}",),
        ("c64[2] {(0.6, -0.8), (0, 0)}",),
    ),
)
