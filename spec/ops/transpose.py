"""The operand with its dimensions in another order.

Dimension d of the result is dimension dimensions[d] of the operand:

    result[j0, .., jn] = operand[i0, .., in] with i(dimensions[d]) = jd
"""

from ..attributes import INTS, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type"}
ATTRIBUTES = {"dimensions": Attribute(INTS, REQUIRED, "for each dimension of the result the one of operand")}
CONSTRAINTS = {
    "C1": "operand is an array",
    "C2": "dimensions is a permutation of 0, .., rank of operand - 1",
    "C3": "the result has in dimension d the size of dimension dimensions[d] of operand",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    dimensions = instruction.dimensions
    require(operand.is_array, "C1", f"operand is {operand}")
    permuted = sorted(dimensions) == list(range(operand.rank))
    require(permuted, "C2", f"dimensions is {dimensions} and operand {operand}")
    dynamic = tuple(operand.dynamic[d] for d in dimensions) if operand.is_dynamic else ()
    return Shape(operand.element_type, tuple(operand.dimensions[d] for d in dimensions), None, dynamic)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return operand.transpose(instruction.dimensions)


EXAMPLES = (
    Example(
        "x = s32[2,3] parameter(0)\nROOT y = s32[3,2] transpose(x), dimensions={1,0}",
        ("s32[2,3] {{1, 2, 3}, {4, 5, 6}}",),
        ("s32[3,2] {{1, 4}, {2, 5}, {3, 6}}",),
    ),
    Example(
        "x = s8[1,2,3] parameter(0)\nROOT y = s8[3,1,2] transpose(x), dimensions={2,0,1}",
        ("s8[1,2,3] {{{1, 2, 3}, {4, 5, 6}}}",),
        ("s8[3,1,2] {{{1, 4}}, {{2, 5}}, {{3, 6}}}",),
    ),
    Example(
        """x = f32[<=3,2] parameter(0)
           ROOT y = f32[2,<=3] transpose(x), dimensions={1,0}""",
        ("f32[1,2] {{1,2}}",),
        ("f32[2,1] {{1},{2}}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = (f32[2]) parameter(0)\nROOT r = (f32[2]) transpose(x), dimensions={0}",
    "C2": "x = f32[2,3] parameter(0)\nROOT r = f32[2,2] transpose(x), dimensions={0,0}",
    "C3": "x = f32[2,3] parameter(0)\nROOT r = f32[2,3] transpose(x), dimensions={1,0}",
}
