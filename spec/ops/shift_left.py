"""The bits of the first operand moved up by the second; zeros come in below.

The amount is read as an unsigned integer; where it is the width of the type or more, the result is 0.
"""

from .. import numerics
from ..elementwise import INTEGER, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(INTEGER)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    element_type = numerics.type_of(lhs)
    return numerics.wrap(numerics.shift_left(numerics.as_unsigned(lhs), rhs, element_type.bits), element_type)


EXAMPLES = (
    Example(
        "x = s32[4] parameter(0)\ny = s32[4] parameter(1)\nROOT z = s32[4] shift-left(x, y)",
        ("s32[4] {1, -1, 5, 5}", "s32[4] {31, 4, 32, -1}"),
        ("s32[4] {-2147483648, -16, 0, 0}",),
    ),
    Example(
        "x = u8[1] parameter(0)\ny = u8[1] parameter(1)\nROOT z = u8[1] shift-left(x, y)",
        ("u8[1] {255}", "u8[1] {1}"),
        ("u8[1] {254}",),
    ),
)
