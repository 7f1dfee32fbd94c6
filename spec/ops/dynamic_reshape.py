"""The operand's elements in other dimensions, whose sizes are given: a reshape to sizes known at run time only.

The result has the bounds that its shape states, and in dimension d the size sizes[d]; a dimension that is not dynamic
has the size of its shape, and sizes[d] says the same. The elements are those of the operand at its size, in row-major
order, and there must be as many as the result has. (In XLA a wrong number gives whatever lies in memory.)
"""

from __future__ import annotations

from math import prod

from ..errors import EvaluationError
from ..module import Instruction
from ..operation import Example, require
from ..types import S32, Array, Shape

INPUTS = {"operand": "an array", "*sizes": "s32[], one for each dimension of the result"}
CONSTRAINTS = {
    "C1": "operand and the result are arrays of the same element type",
    "C2": "sizes are s32[], one for each dimension of the result",
    "C3": "by their bounds, the result has as many elements as operand",
}


def infer(instruction: Instruction, operand: Shape, *sizes: Shape) -> Shape:
    shape = instruction.shape
    same = operand.is_array and operand.element_type is shape.element_type
    require(same, "C1", f"operand is {operand}, the result {shape}")
    fits = len(sizes) == shape.rank and all(s.is_scalar and s.element_type is S32 for s in sizes)
    require(fits, "C2", f"sizes are ({', '.join(map(str, sizes))}), the result is {shape}")
    require(operand.size == shape.size, "C3", f"operand is {operand}, the result {shape}")
    return shape


def evaluate(instruction: Instruction, operand: Array, *sizes: Array) -> Array:
    shape = instruction.shape
    dimensions = [int(s) if m else d for s, d, m in zip(sizes, shape.dimensions, shape.marks, strict=True)]
    fits = (
        all(0 <= n <= d for n, d in zip(dimensions, shape.dimensions, strict=True)) and prod(dimensions) == operand.size
    )
    if not fits:
        message = f"{operand.size} elements do not go into sizes {dimensions} of {shape.without_layout()}"
        raise EvaluationError(f"{instruction.name}: {message}")
    return operand.reshape(dimensions)


EXAMPLES = (
    Example(
        """x = f32[<=6] parameter(0)
           n = s32[] parameter(1)
           m = s32[] parameter(2)
           ROOT y = f32[<=2,<=3] dynamic-reshape(x, n, m)""",
        ("f32[4] {1,2,3,4}", "s32[] 2", "s32[] 2"),
        ("f32[2,2] {{1,2},{3,4}}",),
    ),
    Example(
        """x = f32[<=2,3] parameter(0)
           n = s32[] parameter(1)
           ROOT y = f32[<=6] dynamic-reshape(x, n)""",
        ("f32[0,3] {}", "s32[] 0"),
        ("f32[0] {}",),
        "nothing is a size too",
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[<=6] parameter(0)
             n = s32[] parameter(1)
             ROOT r = s32[<=6] dynamic-reshape(x, n)""",
    "C2": """x = f32[<=6] parameter(0)
             n = s32[] parameter(1)
             ROOT r = f32[<=2,3] dynamic-reshape(x, n)""",
    "C3": """x = f32[<=6] parameter(0)
             n = s32[] parameter(1)
             ROOT r = f32[<=5] dynamic-reshape(x, n)""",
}
