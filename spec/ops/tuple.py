"""A tuple of the operands, in order. It may be empty, and tuples may contain tuples."""

from ..module import Instruction
from ..operation import Example
from ..types import Shape, Value

INPUTS = {"*operands": "values of any shapes"}
CONSTRAINTS = {"C1": "the result is the tuple of the operands' shapes"}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    return Shape.tuple_of(*operands)


def evaluate(instruction: Instruction, *operands: Value) -> Value:
    return tuple(operands)


EXAMPLES = (
    Example(
        "x = f32[] parameter(0)\ny = s32[2] parameter(1)\nROOT t = (f32[], s32[2]) tuple(x, y)",
        ("f32[] -0", "s32[2] {1, 2}"),
        ("f32[] -0", "s32[2] {1, 2}"),
    ),
    Example("ROOT t = () tuple()", (), ()),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = (f32[2], f32[2]) tuple(x)",
}
