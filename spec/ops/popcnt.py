"""The number of bits that are set, in the operand's own type."""

import numpy as np

from .. import numerics
from ..elementwise import INTEGER, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(INTEGER)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.wrap(np.bitwise_count(numerics.as_unsigned(operand)), numerics.type_of(operand))


EXAMPLES = (
    Example(
        "x = s32[4] parameter(0)\nROOT y = s32[4] popcnt(x)",
        ("s32[4] {0, -1, 7, -2147483648}",),
        ("s32[4] {0, 32, 3, 1}",),
    ),
    Example("x = u8[2] parameter(0)\nROOT y = u8[2] popcnt(x)", ("u8[2] {255, 128}",), ("u8[2] {8, 1}",)),
)
