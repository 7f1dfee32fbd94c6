"""The operand repeated along new dimensions.

    result[j0, .., jm] = operand[j(dimensions[0]), .., j(dimensions[n-1])]

`dimensions[d]` is the dimension of the result that dimension d of the operand becomes; it may name them in any
order, and then the operand is transposed too. Along all other dimensions the result repeats. Dimensions of size 1
are not stretched.

In a text that does not state the shape, the entries of `dimensions` are the sizes of new dimensions in front of the
operand's, as XLA reads it, besides being dimensions of the result. So it says something in few cases: of a scalar
without `dimensions` the scalar, of x = f32[2] with dimensions={1} f32[1,2]. The others break C2, C3 or C4.
"""

import numpy as np

from ..attributes import INTS, Attribute
from ..dynamic import marked
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type"}
ATTRIBUTES = {"dimensions": Attribute(INTS, (), "for each dimension of operand the one of the result")}
CONSTRAINTS = {
    "C1": "operand and the result are arrays of the same element type",
    "C2": "dimensions has one entry for each dimension of operand",
    "C3": "the entries of dimensions are different, and 0 <= dimensions[d] < rank of the result",
    "C4": "dimension d of operand has the size of dimension dimensions[d] of the result",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    shape, dimensions = instruction.shape, instruction.dimensions
    same = operand.is_array and operand.element_type is shape.element_type
    require(same, "C1", f"operand is {operand}, the result {shape}")
    require(len(dimensions) == operand.rank, "C2", f"dimensions is {dimensions} and operand {operand}")
    valid = len(set(dimensions)) == len(dimensions) and all(0 <= d < shape.rank for d in dimensions)
    require(valid, "C3", f"dimensions is {dimensions} and the result {shape}")
    sizes = tuple(shape.dimensions[d] for d in dimensions)
    require(sizes == operand.dimensions, "C4", f"operand is {operand}; the result {shape} has {sizes} in {dimensions}")
    source = dict(zip(dimensions, operand.marks, strict=True))
    return marked(shape.element_type, shape.dimensions, (source.get(d, False) for d in range(shape.rank)))


def implied(instruction: Instruction, operand: Shape) -> Shape:
    dimensions = instruction.dimensions
    require(operand.is_array, "C1", f"operand is {operand}")
    require(min(dimensions, default=0) >= 0, "C3", f"dimensions is {dimensions}")
    sizes = (*dimensions, *operand.dimensions)
    return marked(operand.element_type, sizes, (*(False for _ in dimensions), *operand.marks))


def evaluate(instruction: Instruction, operand: Array) -> Array:
    shape, dimensions = instruction.shape, instruction.dimensions
    order = sorted(range(operand.ndim), key=dimensions.__getitem__)
    sizes, result = [1] * shape.rank, list(shape.dimensions)
    for d, size in zip(dimensions, operand.shape, strict=True):
        sizes[d] = result[d] = size
    return np.broadcast_to(operand.transpose(order).reshape(sizes), result)


EXAMPLES = (
    Example(
        "x = f32[2] parameter(0)\nROOT y = f32[2,3] broadcast(x), dimensions={0}",
        ("f32[2] {nan, -0}",),
        ("f32[2,3] {{nan, nan, nan}, {-0, -0, -0}}",),
    ),
    Example(
        "x = s32[1,2] parameter(0)\nROOT y = s32[2,1] broadcast(x), dimensions={1,0}",
        ("s32[1,2] {{1, 2}}",),
        ("s32[2,1] {{1}, {2}}",),
        "the dimensions change places",
    ),
    Example(
        "x = pred[] parameter(0)\nROOT y = pred[0,2] broadcast(x), dimensions={}", ("pred[] true",), ("pred[0,2] {}",)
    ),
    Example(
        """x = f32[<=3] parameter(0)
           ROOT y = f32[2,<=3] broadcast(x), dimensions={1}""",
        ("f32[1] {7}",),
        ("f32[2,1] {{7},{7}}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = s32[2,2] broadcast(x), dimensions={0}",
    "C2": "x = f32[2] parameter(0)\nROOT r = f32[2,2] broadcast(x), dimensions={0,1}",
    "C3": "x = f32[2] parameter(0)\nROOT r = f32[2,2] broadcast(x), dimensions={2}",
    "C4": "x = f32[3] parameter(0)\nROOT r = f32[2,2] broadcast(x), dimensions={0}",
}
