"""The bits of the first operand moved down by the second; copies of the highest bit come in above.

That holds for unsigned types too. The amount is read as an unsigned integer; where it is the width of the type or
more, every bit of the result is the highest bit of the first operand.
"""

from .. import numerics
from ..elementwise import INTEGER, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(INTEGER)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    element_type = numerics.type_of(lhs)
    return numerics.wrap(numerics.shift_right(numerics.as_signed(lhs), rhs, element_type.bits), element_type)


EXAMPLES = (
    Example(
        "x = s32[4] parameter(0)\ny = s32[4] parameter(1)\nROOT z = s32[4] shift-right-arithmetic(x, y)",
        ("s32[4] {-8, 8, -5, 5}", "s32[4] {1, 1, 32, -1}"),
        ("s32[4] {-4, 4, -1, 0}",),
    ),
    Example(
        "x = u8[2] parameter(0)\ny = u8[2] parameter(1)\nROOT z = u8[2] shift-right-arithmetic(x, y)",
        ("u8[2] {128, 64}", "u8[2] {1, 1}"),
        ("u8[2] {192, 32}",),
    ),
)
