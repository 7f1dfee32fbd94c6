"""The absolute value.

    abs(x) = |x|

Of the smallest signed integer it wraps to itself; of a float the sign bit is cleared; of a complex z it is (re^2 +
im^2)^(1/2), of the component type, without overflow between, and inf where a part is infinite.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, SIGNED, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(SIGNED, FLOAT, COMPLEX, result=numerics.component_type)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    if numerics.type_of(operand).is_complex:
        return numerics.elementary(lambda z: np.hypot(z.real, z.imag), operand)
    apply = numerics.integer if numerics.type_of(operand).is_integer else numerics.exact
    return apply(np.abs, operand)


EXAMPLES = (
    Example(
        "x = f32[4] parameter(0)\nROOT y = f32[4] abs(x)",
        ("f32[4] {-0, -inf, nan, -1e-45}",),
        ("f32[4] {0, inf, nan, 1e-45}",),
    ),
    Example("x = s8[3] parameter(0)\nROOT y = s8[3] abs(x)", ("s8[3] {-128, -1, 5}",), ("s8[3] {-128, 1, 5}",)),
    Example(
        "x = c64[2] parameter(0)\nROOT y = f32[2] abs(x)",
        ("c64[2] {(3, -4), (-inf, nan)}",),
        ("f32[2] {5, inf}",),
    ),
)
