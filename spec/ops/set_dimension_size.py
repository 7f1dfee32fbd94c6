"""The operand with another size in one dimension: its first elements, as many as `size` says.

`size` is at most the size that the shape states, the bound: the result's dimension is a dynamic one of that bound. A
size below 0 counts as 0, one above the bound as the bound: no array of another size fits the result's shape. XLA
defines neither. Its evaluator stops the process there; its compilers hand the number on, so that get-dimension-size
gives it back (9 of a bound of 6), and what reads the elements reads the memory behind the array.

A size larger than the operand's own makes the array grow, which happens where the operand is dynamic itself. The new
elements are zeros. XLA gives no meaning to them: there they are what lies in memory, often what an earlier
set-dimension-size has cut off, and elsewhere what another computation has left. Zeros are the one choice that
depends on nothing but the operand. A program that can be told apart by them relies on XLA's memory.
"""

from __future__ import annotations

from ..attributes import INTS, REQUIRED, Attribute
from ..dynamic import marked, resized
from ..module import Instruction
from ..operation import Example, require
from ..types import S32, Array, Shape

INPUTS = {"operand": "an array", "size": "s32[]"}
ATTRIBUTES = {"dimensions": Attribute(INTS, REQUIRED, "the one dimension")}
CONSTRAINTS = {
    "C1": "dimensions is one dimension of operand",
    "C2": "size is s32[]",
    "C3": "the result has the shape of operand, and may have the mark that the dimension's size is a bound",
}


def infer(instruction: Instruction, operand: Shape, size: Shape) -> Shape:
    dims = instruction.dimensions
    require(len(dims) == 1 and 0 <= dims[0] < operand.rank, "C1", f"dimensions is {dims}, operand is {operand}")
    require(size.element_type is S32 and size.is_scalar, "C2", f"size is {size}")
    require(operand.is_array, "C3", f"operand is {operand}")
    marks = (*operand.marks[: dims[0]], True, *operand.marks[dims[0] + 1 :])
    return marked(operand.element_type, operand.dimensions, marks)


def evaluate(instruction: Instruction, operand: Array, size: Array) -> Array:
    (dimension,) = instruction.dimensions
    bound = instruction.operands[0].shape.dimensions[dimension]
    return resized(operand, dimension, max(0, min(int(size), bound)))


EXAMPLES = (
    Example(
        """x = f32[2,3] parameter(0)
           n = s32[] constant(3)
           ROOT y = f32[2,3] set-dimension-size(x, n), dimensions={1}""",
        ("f32[2,3] {{1,2,3},{4,5,6}}",),
        ("f32[2,3] {{1,2,3},{4,5,6}}",),
    ),
    Example(
        """x = f32[2,3] parameter(0)
           n = s32[] parameter(1)
           ROOT y = f32[2,<=3] set-dimension-size(x, n), dimensions={1}""",
        ("f32[2,3] {{1,2,3},{4,5,6}}", "s32[] 2"),
        ("f32[2,2] {{1,2},{4,5}}",),
    ),
    Example(
        """x = f32[<=4] parameter(0)
           n = s32[] parameter(1)
           ROOT y = f32[<=4] set-dimension-size(x, n), dimensions={0}""",
        ("f32[2] {1,2}", "s32[] 3"),
        ("f32[3] {1,2,0}",),
        "grown by a zero",
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
