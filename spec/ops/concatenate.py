"""The operands one after the other along one dimension."""

import numpy as np

from ..attributes import INTS, REQUIRED, Attribute
from ..dynamic import joined, marked, meet
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"*operands": "one or more arrays of the same element type, equal in all dimensions but one"}
ATTRIBUTES = {"dimensions": Attribute(INTS, REQUIRED, "the one dimension along which they are put together")}
CONSTRAINTS = {
    "C1": "there is at least one operand, and all are arrays of the same element type and rank",
    "C2": "dimensions has one entry, and 0 <= dimensions[0] < rank of the operands",
    "C3": "the operands have the same sizes in all other dimensions",
    "C4": "the result has in dimension dimensions[0] the sum of their sizes, and in all others theirs",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    require(len(operands) > 0, "C1", "there is no operand")
    first, dimensions = operands[0], instruction.dimensions
    for o in operands:
        alike = o.is_array and o.element_type is first.element_type and o.rank == first.rank
        require(alike, "C1", f"one operand is {first} and another {o}")
    require(len(dimensions) == 1, "C2", f"dimensions is {dimensions}")
    (along,) = dimensions
    require(0 <= along < first.rank, "C2", f"dimensions is {dimensions} and the first operand {first}")
    sizes = list(first.dimensions)
    for o in operands[1:]:
        others = (sizes[:along], sizes[along + 1 :]) == (list(o.dimensions[:along]), list(o.dimensions[along + 1 :]))
        require(others, "C3", f"one operand is {first} and another {o}; they may differ in dimension {along} only")
        sizes[along] += o.dimensions[along]
    return marked(first.element_type, sizes, joined(*operands))


def evaluate(instruction: Instruction, *operands: Array) -> Array:
    (along,) = instruction.dimensions
    return np.concatenate(meet(operands, (d for d in range(operands[0].ndim) if d != along)), along)


EXAMPLES = (
    Example(
        "x = f32[2,1] parameter(0)\ny = f32[2,2] parameter(1)\nROOT z = f32[2,3] concatenate(x, y), dimensions={1}",
        ("f32[2,1] {{nan}, {-0}}", "f32[2,2] {{1, 2}, {3, 4}}"),
        ("f32[2,3] {{nan, 1, 2}, {-0, 3, 4}}",),
    ),
    Example(
        "x = s32[0] parameter(0)\ny = s32[1] parameter(1)\nROOT z = s32[1] concatenate(x, y), dimensions={0}",
        ("s32[0] {}", "s32[1] {5}"),
        ("s32[1] {5}",),
    ),
    Example(
        """x = s32[<=3] parameter(0)
           y = s32[<=2] parameter(1)
           ROOT z = s32[<=5] concatenate(x, y), dimensions={0}""",
        ("s32[1] {1}", "s32[2] {5,6}"),
        ("s32[3] {1,5,6}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\ny = s32[2] parameter(1)\nROOT r = f32[4] concatenate(x, y), dimensions={0}",
    "C2": "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nROOT r = f32[4] concatenate(x, y), dimensions={1}",
    "C3": """x = f32[2,2] parameter(0)
             y = f32[2,3] parameter(1)
             ROOT r = f32[4,2] concatenate(x, y), dimensions={0}""",
    "C4": "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nROOT r = f32[2] concatenate(x, y), dimensions={0}",
}
