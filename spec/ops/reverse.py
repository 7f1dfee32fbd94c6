"""The operand with its elements in the opposite order along some dimensions.

result[.., id, ..] = operand[.., size(d) - 1 - id, ..] for the dimensions d named
"""

import numpy as np

from ..attributes import INTS, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type"}
ATTRIBUTES = {"dimensions": Attribute(INTS, REQUIRED, "the dimensions to reverse")}
CONSTRAINTS = {
    "C1": "operand is an array",
    "C2": "the entries of dimensions are different, and 0 <= each < rank of operand",
    "C3": "the result has the shape of operand",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    dimensions = instruction.dimensions
    require(operand.is_array, "C1", f"operand is {operand}")
    valid = len(set(dimensions)) == len(dimensions) and all(0 <= d < operand.rank for d in dimensions)
    require(valid, "C2", f"dimensions is {dimensions} and operand {operand}")
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return np.flip(operand, instruction.dimensions)


EXAMPLES = (
    Example(
        "x = s32[2,3] parameter(0)\nROOT y = s32[2,3] reverse(x), dimensions={1}",
        ("s32[2,3] {{1, 2, 3}, {4, 5, 6}}",),
        ("s32[2,3] {{3, 2, 1}, {6, 5, 4}}",),
    ),
    Example(
        "x = f32[2,2] parameter(0)\nROOT y = f32[2,2] reverse(x), dimensions={0,1}",
        ("f32[2,2] {{-0, nan}, {1, inf}}",),
        ("f32[2,2] {{inf, 1}, {nan, -0}}",),
    ),
    Example(
        """x = s32[<=4] parameter(0)
           ROOT y = s32[<=4] reverse(x), dimensions={0}""",
        ("s32[2] {1,2}",),
        ("s32[2] {2,1}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = (f32[2]) parameter(0)\nROOT r = (f32[2]) reverse(x), dimensions={0}",
    "C2": "x = f32[2] parameter(0)\nROOT r = f32[2] reverse(x), dimensions={1}",
    "C3": "x = f32[2] parameter(0)\nROOT r = f32[3] reverse(x), dimensions={0}",
}
