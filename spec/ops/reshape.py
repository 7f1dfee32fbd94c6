"""The same elements in other dimensions, in row-major order whatever the layouts are.

The dimensions of operand and result fall into groups that go together: the first of operand and the first of the result
with as many elements (by the bounds), and so on. A group of the operand that holds a dynamic dimension needs one in the
result, which takes what the others of its group leave at run time: f32[<=4,3] goes into f32[<=12], f32[<=6] into
f32[<=3,2] if its size is even. Where two of a group could take it, inferred_dimension says which does. The elements are
those of the operand at its size, one after the other; nothing of what its bound would allow lies between them.
"""

from ..attributes import INT, Attribute
from ..dynamic import factors, reshaped_sizes, taker_of
from ..errors import plural
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type"}
ATTRIBUTES = {"inferred_dimension": Attribute(INT, -1, "the dimension that dynamic sizes go to; -1: none")}
CONSTRAINTS = {
    "C1": "operand and the result are arrays of the same element type",
    "C2": "the result has as many elements as operand",
    "C3": "a group of dimensions with a dynamic one in operand has just one in the result that takes its size",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    shape = instruction.shape
    same = operand.is_array and operand.element_type is shape.element_type
    require(same, "C1", f"operand is {operand}, the result {shape}")
    message = f"operand is {operand} with {plural(operand.size, 'element')}, the result {shape} with {shape.size}"
    require(operand.size == shape.size, "C2", message)
    if operand.dynamic:
        for before, after in factors(operand.dimensions, shape.dimensions):
            known = not any(operand.marks[d] and operand.dimensions[d] > 1 for d in before)
            known = known or taker_of(instruction, before, after) is not None
            require(known, "C3", f"operand is {operand}, the result {shape}: no one dimension of it follows")
    return shape


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return operand.reshape(reshaped_sizes(instruction, operand.shape))


EXAMPLES = (
    Example(
        "x = s32[2,3] parameter(0)\nROOT y = s32[3,2] reshape(x)",
        ("s32[2,3] {{1, 2, 3}, {4, 5, 6}}",),
        ("s32[3,2] {{1, 2}, {3, 4}, {5, 6}}",),
    ),
    Example("x = f32[1,1] parameter(0)\nROOT y = f32[] reshape(x)", ("f32[1,1] {{-0}}",), ("f32[] -0",)),
    Example("x = f32[2,0] parameter(0)\nROOT y = f32[0] reshape(x)", ("f32[2,0] {{}, {}}",), ("f32[0] {}",)),
    Example(
        """x = f32[3,<=4] parameter(0)
           ROOT y = f32[<=12] reshape(x)""",
        ("f32[3,2] {{1,2},{3,4},{5,6}}",),
        ("f32[6] {1,2,3,4,5,6}",),
        "a dynamic size merged: nothing lies between the rows",
    ),
    Example(
        """x = f32[<=6,2] parameter(0)
           ROOT y = f32[2,<=3,2] reshape(x)""",
        ("f32[4,2] {{1,2},{3,4},{5,6},{7,8}}",),
        ("f32[2,2,2] {{{1,2},{3,4}},{{5,6},{7,8}}}",),
        "and split: it must be even here",
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = s32[2,1] reshape(x)",
    "C2": "x = f32[2] parameter(0)\nROOT r = f32[3] reshape(x)",
    "C3": """x = f32[<=4,<=4] parameter(0)
             ROOT r = f32[<=2,<=8] reshape(x)""",
}
