"""The operand itself; only its place or layout in memory may be another."""

from ..attributes import INT, Attribute
from ..module import Instruction
from ..operation import Example
from ..types import Shape, Value

INPUTS = {"operand": "value of any shape"}
ATTRIBUTES = {"cross_program_prefetch_index": Attribute(INT, None, "a hint of the scheduler; no meaning here")}
CONSTRAINTS = {"C1": "the result has the shape of operand, layout apart"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand


EXAMPLES = (
    Example(
        "x = f32[2,2]{1,0} parameter(0)\nROOT y = f32[2,2]{0,1} copy(x)",
        ("f32[2,2] {{1, 2}, {nan, -0}}",),
        ("f32[2,2] {{1, 2}, {nan, -0}}",),
    ),
    Example("x = pred[0] parameter(0)\nROOT y = pred[0] copy(x)", ("pred[0] {}",), ("pred[0] {}",)),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = f32[3] copy(x)",
}
