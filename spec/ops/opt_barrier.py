"""The operand itself, through which no optimization may look: neither what makes it nor what uses it moves across."""

from ..module import Instruction
from ..operation import Example
from ..types import Shape, Value

INPUTS = {"operand": "value of any shape"}
CONSTRAINTS = {"C1": "the result has the shape of operand"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand


EXAMPLES = (
    Example("x = f32[2] parameter(0)\nROOT y = f32[2] opt-barrier(x)", ("f32[2] {nan, -0}",), ("f32[2] {nan, -0}",)),
    Example(
        "x = (s32[], f32[0]) parameter(0)\nROOT y = (s32[], f32[0]) opt-barrier(x)",
        ("(s32[], f32[0]) (3, {})",),
        ("s32[] 3", "f32[0] {}"),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = f32[3] opt-barrier(x)",
}
