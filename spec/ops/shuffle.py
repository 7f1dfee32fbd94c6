"""The operand with its elements in another order, in which none is lost.

With `mode` rotate, along each of the dimensions d by its shift s, which may be negative and larger than the dimension:

    result[.., id, ..] = operand[.., (id + s) mod size(d), ..]

so that a shift of 1 puts the element of index 1 first, and the first one last. (XLA later than JAX 0.12 has a mode
permute, too, whose order is a literal: it is not here yet.)
"""

from __future__ import annotations

import numpy as np

from ..attributes import ENUM, INTS, REQUIRED, Attribute
from ..errors import UnsupportedError
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "an array of any element type, of static sizes"}
ATTRIBUTES = {
    "dimensions": Attribute(INTS, REQUIRED, "the dimensions along which elements move"),
    "mode": Attribute(ENUM, REQUIRED, "rotate"),
    "shifts": Attribute(INTS, (), "how far, for each of the dimensions"),
}
CONSTRAINTS = {
    "C1": "operand is an array without dynamic sizes",
    "C2": "dimensions is at least one, its entries are different, and 0 <= each < rank of operand",
    "C3": "shifts has as many entries as dimensions",
    "C4": "the result has the shape of operand",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    require(operand.is_array and not operand.is_dynamic, "C1", f"operand is {operand}")
    dimensions, shifts = instruction.dimensions, instruction.shifts
    different = bool(dimensions) and len(set(dimensions)) == len(dimensions)
    valid = different and all(0 <= d < operand.rank for d in dimensions)
    require(valid, "C2", f"dimensions is {dimensions} and operand {operand}")
    if instruction.mode != "rotate":
        raise UnsupportedError(f"{instruction.name}: a shuffle of mode {instruction.mode}; known: rotate")
    require(len(shifts) == len(dimensions), "C3", f"shifts is {shifts} and dimensions {dimensions}")
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: Array) -> Array:
    back = [-s for s in normal_shifts(instruction, operand.shape)]
    return np.roll(operand, back, instruction.dimensions)


def normal_shifts(instruction: Instruction, sizes: tuple[int, ...]) -> list[int]:
    """Each shift as one of 0 .. size - 1 of its dimension."""
    pairs = zip(instruction.dimensions, instruction.shifts, strict=True)
    return [shift % sizes[d] if sizes[d] else 0 for d, shift in pairs]


EXAMPLES = (
    Example(
        "x = f32[4] parameter(0)\nROOT y = f32[4] shuffle(x), dimensions={0}, mode=rotate, shifts={1}",
        ("f32[4] {10, nan, -0, 13}",),
        ("f32[4] {nan, -0, 13, 10}",),
    ),
    Example(
        "x = s8[2,3] parameter(0)\nROOT y = s8[2,3] shuffle(x), dimensions={1,0}, mode=rotate, shifts={-1,3}",
        ("s8[2,3] {{1, 2, 3}, {4, 5, 6}}",),
        ("s8[2,3] {{6, 4, 5}, {3, 1, 2}}",),
        "back by one, and by a turn and one more",
    ),
    Example(
        "x = pred[0,2] parameter(0)\nROOT y = pred[0,2] shuffle(x), dimensions={0}, mode=rotate, shifts={5}",
        ("pred[0,2] {}",),
        ("pred[0,2] {}",),
    ),
)

_BROKEN = "x = f32[2,3] parameter(0)\nROOT r = "
COUNTEREXAMPLES = {
    "C1": "x = s32[<=4] parameter(0)\nROOT r = s32[<=4] shuffle(x), dimensions={0}, mode=rotate, shifts={1}",
    "C2": _BROKEN + "f32[2,3] shuffle(x), dimensions={1,1}, mode=rotate, shifts={1,1}",
    "C3": _BROKEN + "f32[2,3] shuffle(x), dimensions={0,1}, mode=rotate, shifts={1}",
    "C4": _BROKEN + "f32[3,2] shuffle(x), dimensions={0}, mode=rotate, shifts={1}",
}
