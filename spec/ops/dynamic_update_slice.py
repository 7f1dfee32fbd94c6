"""An array with one block replaced, whose place is known at run time only.

    start[d] = clamp(0, start_indices[d], size[d] - update_size[d])
    result[i..] = update[i[d] - start[d] ..] where that is an element of update, operand[i..] elsewhere

The start is clamped, so that the block always lies inside. Where update has the size of operand in a dimension and one
of them is dynamic, both have the smaller of their sizes, and the block replaces the whole dimension.
"""

from __future__ import annotations

from ..dynamic import marked, meet_dimensions
from ..errors import EvaluationError
from ..indexing import block
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape
from .dynamic_slice import check_start_indices

INPUTS = {
    "operand": "an array",
    "update": "the block to put in its place",
    "*start_indices": "one integer scalar for each dimension of operand (or one array of them all)",
}
CONSTRAINTS = {
    "C1": "there is one integer start index for each dimension of operand, all of one type",
    "C2": "update has the element type and rank of operand, and is not larger in any dimension",
    "C3": "the result has the shape of operand",
}


def infer(instruction: Instruction, operand: Shape, update: Shape, *start_indices: Shape) -> Shape:
    fits = update.element_type is operand.element_type and update.rank == operand.rank
    fits = fits and all(u <= d for u, d in zip(update.dimensions, operand.dimensions, strict=True))
    require(fits, "C2", f"operand is {operand}, update is {update}")
    check_start_indices(operand, start_indices)
    both = zip(operand.marks, update.marks, operand.dimensions, update.dimensions, strict=True)
    return marked(operand.element_type, operand.dimensions, (m or (u and n == k) for m, u, n, k in both))


def evaluate(instruction: Instruction, operand: Array, update: Array, *start_indices: Array) -> Array:
    bounds = (o.shape.dimensions for o in instruction.operands[:2])
    whole = ((d, d) for d, (n, k) in enumerate(zip(*bounds, strict=True)) if n == k)
    operand, update = meet_dimensions(operand, update, whole)
    if any(k > n for k, n in zip(update.shape, operand.shape, strict=True)):
        message = f"a block of sizes {list(update.shape)} does not go into an array of {list(operand.shape)}"
        raise EvaluationError(f"{instruction.name}: {message}")
    result = operand.copy()
    result[block(operand.shape, start_indices, update.shape)] = update
    return result


EXAMPLES = (
    Example(
        """x = f32[4] parameter(0)
           u = f32[2] parameter(1)
           i = s32[] parameter(2)
           ROOT r = f32[4] dynamic-update-slice(x, u, i)""",
        ("f32[4] {1,2,3,4}", "f32[2] {8,9}", "s32[] 7"),
        ("f32[4] {1,2,8,9}",),
        "the start is clamped",
    ),
    Example(
        """x = s32[<=4] parameter(0)
           u = s32[1] parameter(1)
           i = s32[] parameter(2)
           ROOT y = s32[<=4] dynamic-update-slice(x, u, i)""",
        ("s32[2] {1,2}", "s32[1] {9}", "s32[] 3"),
        ("s32[2] {1,9}",),
        "clamped to the size that it has",
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[2,2] parameter(0)
             u = f32[1,1] parameter(1)
             i = s32[] parameter(2)
             ROOT r = f32[2,2] dynamic-update-slice(x, u, i)""",
    "C2": """x = f32[2,2] parameter(0)
             u = f32[3,1] parameter(1)
             i = s32[] parameter(2)
             ROOT r = f32[2,2] dynamic-update-slice(x, u, i, i)""",
    "C3": """x = f32[2,2] parameter(0)
             u = f32[1,1] parameter(1)
             i = s32[] parameter(2)
             ROOT r = f32[1,1] dynamic-update-slice(x, u, i, i)""",
}
