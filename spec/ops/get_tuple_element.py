"""The element of a tuple at a fixed index."""

from ..attributes import INT, REQUIRED, Attribute
from ..errors import plural
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value

INPUTS = {"operand": "tuple"}
ATTRIBUTES = {"index": Attribute(INT, REQUIRED, "which element, from 0")}
CONSTRAINTS = {
    "C1": "operand is a tuple",
    "C2": "0 <= index < number of elements of operand",
    "C3": "the result has the shape of the element",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    require(operand.is_tuple, "C1", f"operand is {operand}")
    count = len(operand.elements)
    message = f"index is {instruction.index}, the tuple has {plural(count, 'element')}"
    require(0 <= instruction.index < count, "C2", message)
    return operand.elements[instruction.index]


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand[instruction.index]


EXAMPLES = (
    Example(
        "x = f32[] parameter(0)\ny = s32[0] parameter(1)\nt = (f32[], s32[0]) tuple(x, y)\n"
        "ROOT e = s32[0] get-tuple-element(t), index=1",
        ("f32[] 1", "s32[0] {}"),
        ("s32[0] {}",),
    ),
    Example(
        "t = (f32[], (s32[])) parameter(0)\nu = (s32[]) get-tuple-element(t), index=1\n"
        "ROOT e = s32[] get-tuple-element(u), index=0",
        ("(f32[], (s32[])) (nan, (7))",),
        ("s32[] 7",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = f32[2] get-tuple-element(x), index=0",
    "C2": "x = (f32[2], s32[]) parameter(0)\nROOT r = s32[] get-tuple-element(x), index=2",
    "C3": "x = (f32[2], s32[]) parameter(0)\nROOT r = f32[2] get-tuple-element(x), index=1",
}
