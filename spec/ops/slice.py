"""A part of the operand: along each dimension the elements from start up to limit (not included), `stride` apart.

result[i0, .., in] = operand[start0 + i0 stride0, .., startn + in striden]

Of a dynamic dimension it is the part that is there: it ends where the operand ends. One element alone must be there,
and its dimension is none that is dynamic.
"""

import builtins

from ..attributes import REQUIRED, SLICES, Attribute
from ..dynamic import marked
from ..errors import EvaluationError, plural
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type"}
ATTRIBUTES = {"slice": Attribute(SLICES, REQUIRED, "start, limit and stride for each dimension of operand")}
CONSTRAINTS = {
    "C1": "operand is an array",
    "C2": "slice has one entry for each dimension of operand",
    "C3": "0 <= start <= limit <= size of the dimension",
    "C4": "stride >= 1",
    "C5": "the result has in dimension d the size ceil((limit - start) / stride)",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    parts = instruction.slice
    require(operand.is_array, "C1", f"operand is {operand}")
    entries = plural(len(parts), "entry", "entries")
    require(len(parts) == operand.rank, "C2", f"slice has {entries} and operand is {operand}")
    for d, (part, size) in enumerate(zip(parts, operand.dimensions, strict=True)):
        inside = 0 <= part.start <= part.limit <= size
        require(inside, "C3", f"[{part.start}:{part.limit}] of dimension {d}, which has size {size}")
        require(part.stride >= 1, "C4", f"the stride of dimension {d} is {part.stride}")
    sizes = tuple(-((p.start - p.limit) // p.stride) for p in parts)
    return marked(operand.element_type, sizes, (m and n != 1 for m, n in zip(operand.marks, sizes, strict=True)))


def evaluate(instruction: Instruction, operand: Array) -> Array:
    for d, (part, size) in enumerate(zip(instruction.slice, operand.shape, strict=True)):
        if instruction.shape.dimensions[d] == 1 and part.start >= size:
            raise EvaluationError(
                f"{instruction.name}: element {part.start} of dimension {d}, which has the size {size}"
            )
    return operand[tuple(builtins.slice(p.start, p.limit, p.stride) for p in instruction.slice)]


EXAMPLES = (
    Example(
        "x = s32[3,4] parameter(0)\nROOT y = s32[2,2] slice(x), slice={[1:3], [0:4:3]}",
        ("s32[3,4] {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}}",),
        ("s32[2,2] {{4, 7}, {8, 11}}",),
    ),
    Example("x = f32[3] parameter(0)\nROOT y = f32[0] slice(x), slice={[3:3]}", ("f32[3] {1, 2, 3}",), ("f32[0] {}",)),
    Example(
        """x = s32[<=6] parameter(0)
           ROOT y = s32[<=2] slice(x), slice={[1:5:2]}""",
        ("s32[3] {1,2,3}",),
        ("s32[1] {2}",),
        "the part that is there",
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = (f32[4]) parameter(0)\nROOT r = f32[2] slice(x), slice={[0:2]}",
    "C2": "x = f32[4] parameter(0)\nROOT r = f32[2] slice(x), slice={[0:2], [0:2]}",
    "C3": "x = f32[4] parameter(0)\nROOT r = f32[5] slice(x), slice={[0:5]}",
    "C4": "x = f32[4] parameter(0)\nROOT r = f32[4] slice(x), slice={[0:4:0]}",
    "C5": "x = f32[4] parameter(0)\nROOT r = f32[4] slice(x), slice={[0:4:2]}",
}
