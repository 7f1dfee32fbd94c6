"""The operand, one of whose dimensions is said to have another size, which is at most the one that its shape states.

Here every size is the one that the shape states: the operation is the identity where `size` is that size, and there
is no value for any other.
"""

from __future__ import annotations

import numpy as np

from ..attributes import INTS, REQUIRED, Attribute
from ..errors import UnsupportedError
from ..module import Instruction
from ..operation import Example, require
from ..types import S32, Shape

INPUTS = {"operand": "an array", "size": "s32[]"}
ATTRIBUTES = {"dimensions": Attribute(INTS, REQUIRED, "the one dimension")}
CONSTRAINTS = {
    "C1": "dimensions is one dimension of operand",
    "C2": "size is s32[]",
    "C3": "the result has the shape of operand, and may have the mark that the dimension's size is a bound",
}


def infer(instruction: Instruction, operand: Shape, size: Shape) -> Shape:
    dims, stated = instruction.dimensions, instruction.shape
    require(len(dims) == 1 and 0 <= dims[0] < operand.rank, "C1", f"dimensions is {dims}, operand is {operand}")
    require(size.element_type is S32 and size.is_scalar, "C2", f"size is {size}")
    marks = tuple(operand.dynamic) or (False,) * operand.rank
    for bound in (False, True):
        marked = Shape(
            operand.element_type, operand.dimensions, None, (*marks[: dims[0]], bound, *marks[dims[0] + 1 :])
        )
        if stated.is_array and marked.without_layout() == stated.without_layout():
            return marked.without_layout()
    require(not stated.is_array, "C3", f"the result is stated as {stated}, operand is {operand}")
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: np.ndarray, size: np.ndarray) -> np.ndarray:
    (dimension,) = instruction.dimensions
    if int(size) != operand.shape[dimension]:
        raise UnsupportedError(
            f"{instruction.name}: dimension {dimension} of {instruction.operands[0].shape} is to have the size "
            f"{int(size)}, known at run time only; slice or mask the array instead"
        )
    return operand


EXAMPLES = (
    Example(
        """x = f32[2,3] parameter(0)
           n = s32[] constant(3)
           ROOT y = f32[2,3] set-dimension-size(x, n), dimensions={1}""",
        ("f32[2,3] {{1,2,3},{4,5,6}}",),
        ("f32[2,3] {{1,2,3},{4,5,6}}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[4] parameter(0)
             n = s32[] parameter(1)
             ROOT r = f32[<=4] set-dimension-size(x, n), dimensions={1}""",
    "C2": """x = f32[4] parameter(0)
             n = s64[] parameter(1)
             ROOT r = f32[<=4] set-dimension-size(x, n), dimensions={0}""",
    "C3": """x = f32[4] parameter(0)
             n = s32[] parameter(1)
             ROOT r = f32[<=5] set-dimension-size(x, n), dimensions={0}""",
}
