"""A token that comes after all the operands; it orders side effects and carries no data."""

from ..module import Instruction
from ..operation import Example, require
from ..types import TOKEN, Shape, Value

INPUTS = {"*operands": "tokens; none at all makes a first one"}
CONSTRAINTS = {"C1": "every operand is a token", "C2": "the result is a token"}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    for o in operands:
        require(o.element_type is TOKEN, "C1", f"one operand is {o}")
    return Shape(TOKEN)


def evaluate(instruction: Instruction, *operands: Value) -> Value:
    return None


EXAMPLES = (
    Example(
        "x = f32[1] parameter(0)\na = token[] after-all()\nb = token[] after-all(a, a)\n"
        "ROOT y = f32[1] add-dependency(x, b)",
        ("f32[1] {-0}",),
        ("f32[1] {-0}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[] parameter(0)\nROOT r = token[] after-all(x)",
    "C2": "t = token[] parameter(0)\nROOT r = f32[] after-all(t)",
}
