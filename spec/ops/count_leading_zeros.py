"""The number of zero bits above the highest bit that is set, in the operand's own type; of 0 the width of the type."""

import numpy as np

from .. import numerics
from ..elementwise import INTEGER, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(INTEGER)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    element_type = numerics.type_of(operand)
    bits = numerics.as_unsigned(operand)
    for shift in (1, 2, 4, 8, 16, 32):  # copy the highest bit into all below it: what stays zero is above it
        if shift < element_type.bits:
            bits = bits | (bits >> bits.dtype.type(shift))
    return numerics.wrap(element_type.bits - np.bitwise_count(bits).astype(np.int8), element_type)


EXAMPLES = (
    Example(
        "x = s32[4] parameter(0)\nROOT y = s32[4] count-leading-zeros(x)",
        ("s32[4] {0, 1, -1, 65536}",),
        ("s32[4] {32, 31, 0, 15}",),
    ),
    Example(
        "x = u8[3] parameter(0)\nROOT y = u8[3] count-leading-zeros(x)",
        ("u8[3] {0, 15, 128}",),
        ("u8[3] {8, 4, 0}",),
    ),
)
