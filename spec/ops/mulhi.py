"""The upper half of the product of two integers, which has twice their width.

mulhi(x, y) = floor(x * y / 2^bits), the product exact
"""

from .. import numerics
from ..elementwise import INTEGER, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(INTEGER)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    return numerics.multiply_high(lhs, rhs)


EXAMPLES = (
    Example(
        "x = s32[3] parameter(0)\ny = s32[3] parameter(1)\nROOT z = s32[3] mulhi(x, y)",
        ("s32[3] {2147483647, -1, -2147483648}", "s32[3] {2, 1, -2147483648}"),
        ("s32[3] {0, -1, 1073741824}",),
    ),
    Example(
        "x = u64[2] parameter(0)\ny = u64[2] parameter(1)\nROOT z = u64[2] mulhi(x, y)",
        ("u64[2] {18446744073709551615, 4294967296}", "u64[2] {18446744073709551615, 4294967296}"),
        ("u64[2] {18446744073709551614, 1}",),
    ),
)
