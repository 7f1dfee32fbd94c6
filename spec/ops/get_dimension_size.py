"""The size of one dimension of an array, as s32[].

Of a dynamic dimension it is the size that the value has, not the bound.
"""

from __future__ import annotations

import numpy as np

from ..attributes import INTS, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import S32, Array, Shape

INPUTS = {"operand": "an array"}
ATTRIBUTES = {"dimensions": Attribute(INTS, REQUIRED, "the one dimension")}
CONSTRAINTS = {"C1": "dimensions is one dimension of operand", "C2": "the result is s32[]"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    dims = instruction.dimensions
    require(len(dims) == 1 and 0 <= dims[0] < operand.rank, "C1", f"dimensions is {dims}, operand is {operand}")
    return Shape(S32)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return np.array(operand.shape[instruction.dimensions[0]], np.int32)


EXAMPLES = (
    Example(
        """x = f32[2,3] parameter(0)
           ROOT n = s32[] get-dimension-size(x), dimensions={1}""",
        ("f32[2,3] {{1,2,3},{4,5,6}}",),
        ("s32[] 3",),
    ),
    Example(
        """x = f32[<=5] parameter(0)
           ROOT n = s32[] get-dimension-size(x), dimensions={0}""",
        ("f32[2] {1,2}",),
        ("s32[] 2",),
        "the size that it has",
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = s32[] get-dimension-size(x), dimensions={1}",
    "C2": "x = f32[2] parameter(0)\nROOT r = s64[] get-dimension-size(x), dimensions={0}",
}
