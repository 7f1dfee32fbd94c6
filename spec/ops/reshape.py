"""The same elements in other dimensions, in row-major order whatever the layouts are."""

from ..attributes import INT, Attribute
from ..operation import Example, require

INPUTS = {"operand": "array of any element type"}
ATTRIBUTES = {"inferred_dimension": Attribute(INT, -1, "the dimension that dynamic sizes go to; -1: none")}
CONSTRAINTS = {
    "C1": "operand and the result are arrays of the same element type",
    "C2": "the result has as many elements as operand",
}


def infer(instruction, operand):
    shape = instruction.shape
    same = operand.is_array and operand.element_type is shape.element_type
    require(same, "C1", f"operand is {operand}, the result {shape}")
    message = f"operand is {operand} with {operand.size} elements, the result {shape} with {shape.size}"
    require(operand.size == shape.size, "C2", message)
    return shape


def evaluate(instruction, operand):
    return operand.reshape(instruction.shape.dimensions)


EXAMPLES = (
    Example(
        "x = s32[2,3] parameter(0)\nROOT y = s32[3,2] reshape(x)",
        ("s32[2,3] {{1, 2, 3}, {4, 5, 6}}",),
        ("s32[3,2] {{1, 2}, {3, 4}, {5, 6}}",),
    ),
    Example("x = f32[1,1] parameter(0)\nROOT y = f32[] reshape(x)", ("f32[1,1] {{-0}}",), ("f32[] -0",)),
    Example("x = f32[2,0] parameter(0)\nROOT y = f32[0] reshape(x)", ("f32[2,0] {{}, {}}",), ("f32[0] {}",)),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = s32[2,1] reshape(x)",
    "C2": "x = f32[2] parameter(0)\nROOT r = f32[3] reshape(x)",
}
