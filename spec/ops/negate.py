"""The operand with its sign changed.

    negate(x) = -x

Integers wrap (the smallest signed one is its own negative). Of a float the sign bit is flipped, that of zero and
NaN too; of a complex number both parts are negated.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, INTEGER, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(INTEGER, FLOAT, COMPLEX)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    apply = numerics.integer if numerics.type_of(operand).is_integer else numerics.exact
    return apply(np.negative, operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] negate(x)",
        ("f32[5] {0, -0, inf, nan, 1e-45}",),
        ("f32[5] {-0, 0, -inf, nan, -1e-45}",),
    ),
    Example("x = s8[2] parameter(0)\nROOT y = s8[2] negate(x)", ("s8[2] {-128, 127}",), ("s8[2] {-128, -127}",)),
    Example("x = u32[2] parameter(0)\nROOT y = u32[2] negate(x)", ("u32[2] {1, 0}",), ("u32[2] {4294967295, 0}",)),
)
