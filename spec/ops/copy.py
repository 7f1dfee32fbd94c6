"""The operand itself; only its place or layout in memory may be another."""

from ..attributes import INT, Attribute
from ..operation import Example

INPUTS = {"operand": "value of any shape"}
ATTRIBUTES = {"cross_program_prefetch_index": Attribute(INT, None, "a hint of the scheduler; no meaning here")}
CONSTRAINTS = {"C1": "the result has the shape of operand, layout apart"}


def infer(instruction, operand):
    return operand.without_layout()


def evaluate(instruction, operand):
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
