"""A block of an array, whose place is known at run time only.

    start[d] = clamp(0, start_indices[d], size[d] - slice_size[d])
    result[i..] = operand[start[d] + i[d] ..]

The start is clamped, so that the block always lies inside. Where it has the bound of a dynamic dimension for its size,
it takes the whole dimension at the size that it has; any other size must be there.
"""

from __future__ import annotations

from ..attributes import INTS, REQUIRED, Attribute
from ..dynamic import marked
from ..errors import EvaluationError
from ..indexing import block
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {
    "operand": "an array",
    "*start_indices": "one integer scalar for each dimension of operand (or one array of them all)",
}
ATTRIBUTES = {"dynamic_slice_sizes": Attribute(INTS, REQUIRED, "the dimensions of the block")}
CONSTRAINTS = {
    "C1": "there is one integer start index for each dimension of operand, all of one type",
    "C2": "there is one slice size for each dimension of operand, at least 0 and at most the dimension",
    "C3": "the result has the element type of operand and the dimensions dynamic_slice_sizes",
}


def infer(instruction: Instruction, operand: Shape, *start_indices: Shape) -> Shape:
    check_start_indices(operand, start_indices)
    sizes = instruction.dynamic_slice_sizes
    inside = len(sizes) == operand.rank and all(0 <= s <= d for s, d in zip(sizes, operand.dimensions, strict=True))
    require(inside, "C2", f"dynamic_slice_sizes is {sizes}, operand is {operand}")
    whole = (m and s == d and s > 1 for m, s, d in zip(operand.marks, sizes, operand.dimensions, strict=True))
    return marked(operand.element_type, sizes, whole)


def check_start_indices(operand: Shape, start_indices: tuple[Shape, ...]) -> None:
    """C1, of dynamic-update-slice too."""
    text = ", ".join(map(str, start_indices))
    if len(start_indices) == 1 and start_indices[0].rank == 1:
        fits = start_indices[0].dimensions == (operand.rank,)
    else:
        fits = len(start_indices) == operand.rank and all(s.is_scalar for s in start_indices)
    fits = fits and len({s.element_type for s in start_indices}) <= 1
    fits = fits and all(s.element_type.is_integer for s in start_indices)
    require(fits, "C1", f"operand is {operand}, the start indices are ({text})")


def evaluate(instruction: Instruction, operand: Array, *start_indices: Array) -> Array:
    sizes, bounds = instruction.dynamic_slice_sizes, instruction.operands[0].shape.dimensions
    sizes = tuple(n if s == d else s for n, s, d in zip(operand.shape, sizes, bounds, strict=True))
    if any(s > n for s, n in zip(sizes, operand.shape, strict=True)):
        raise EvaluationError(
            f"{instruction.name}: a block of sizes {list(sizes)} of an array of {list(operand.shape)}"
        )
    return operand[block(operand.shape, start_indices, sizes)].copy()


EXAMPLES = (
    Example(
        """x = s32[2,4] parameter(0)
           i = s32[] parameter(1)
           j = s32[] parameter(2)
           ROOT r = s32[1,2] dynamic-slice(x, i, j), dynamic_slice_sizes={1,2}""",
        ("s32[2,4] {{1,2,3,4},{5,6,7,8}}", "s32[] -3", "s32[] 3"),
        ("s32[1,2] {{3,4}}",),
        "both starts are clamped",
    ),
    Example(
        """x = s32[<=4,3] parameter(0)
           i = s32[] parameter(1)
           ROOT y = s32[<=4,1] dynamic-slice(x, i, i), dynamic_slice_sizes={4,1}""",
        ("s32[2,3] {{1,2,3},{4,5,6}}", "s32[] 1"),
        ("s32[2,1] {{2},{5}}",),
        "the whole of a dynamic dimension",
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[2,2] parameter(0)
             i = s32[] parameter(1)
             ROOT r = f32[1,1] dynamic-slice(x, i), dynamic_slice_sizes={1,1}""",
    "C2": """x = f32[2,2] parameter(0)
             i = s32[] parameter(1)
             ROOT r = f32[3,1] dynamic-slice(x, i, i), dynamic_slice_sizes={3,1}""",
    "C3": """x = f32[2,2] parameter(0)
             i = s32[] parameter(1)
             ROOT r = f32[2,2] dynamic-slice(x, i, i), dynamic_slice_sizes={2,1}""",
}
