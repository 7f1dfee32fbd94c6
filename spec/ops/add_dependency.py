"""The first operand itself, available only after the token that is the second."""

from ..module import Instruction
from ..operation import Example, require
from ..types import TOKEN, Shape, Value

INPUTS = {"operand": "value of any shape", "token": "token"}
CONSTRAINTS = {"C1": "the second operand is a token", "C2": "the result has the shape of operand"}


def infer(instruction: Instruction, operand: Shape, token: Shape) -> Shape:
    require(token.element_type is TOKEN, "C1", f"the second operand is {token}")
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: Value, token: Value) -> Value:
    return operand


EXAMPLES = (
    Example(
        "x = s32[0] parameter(0)\na = token[] after-all()\nROOT y = s32[0] add-dependency(x, a)",
        ("s32[0] {}",),
        ("s32[0] {}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nROOT r = f32[2] add-dependency(x, y)",
    "C2": "x = f32[2] parameter(0)\nt = token[] parameter(1)\nROOT r = f32[3] add-dependency(x, t)",
}
