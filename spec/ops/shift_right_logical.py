"""The bits of the first operand moved down by the second; zeros come in above.

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
    bits = numerics.shift_right(numerics.as_unsigned(lhs), rhs, element_type.bits)
    return numerics.wrap(bits, element_type)


EXAMPLES = (
    Example(
        "x = s32[4] parameter(0)\ny = s32[4] parameter(1)\nROOT z = s32[4] shift-right-logical(x, y)",
        ("s32[4] {-1, -1, 5, 5}", "s32[4] {31, 0, 32, -1}"),
        ("s32[4] {1, -1, 0, 0}",),
    ),
    Example(
        "x = u8[1] parameter(0)\ny = u8[1] parameter(1)\nROOT z = u8[1] shift-right-logical(x, y)",
        ("u8[1] {255}", "u8[1] {1}"),
        ("u8[1] {127}",),
    ),
)
