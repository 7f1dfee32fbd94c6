"""The index along one dimension: 0, 1, 2, ...

    result[i0, .., in] = i of dimension iota_dimension, in the result's element type

Integers wrap, floats are rounded once, complex numbers have the imaginary part 0.
"""

import numpy as np

from .. import numerics
from ..attributes import INT, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS: dict[str, str] = {}
ATTRIBUTES = {"iota_dimension": Attribute(INT, REQUIRED, "the dimension along which the values grow")}
CONSTRAINTS = {
    "C1": "the result is an array of integer, floating-point or complex type and of rank 1 at least",
    "C2": "0 <= iota_dimension < rank of the result",
}


def infer(instruction: Instruction) -> Shape:
    shape = instruction.shape
    require(shape.is_array and shape.element_type.kind != "pred" and shape.rank > 0, "C1", f"the result is {shape}")
    dimension = instruction.iota_dimension
    require(0 <= dimension < shape.rank, "C2", f"iota_dimension is {dimension} and the result {shape}")
    return shape


def evaluate(instruction: Instruction) -> Array:
    shape = instruction.shape
    dimension = instruction.iota_dimension
    column = [1] * shape.rank
    column[dimension] = shape.dimensions[dimension]
    indices = numerics.convert(np.arange(shape.dimensions[dimension]), shape.element_type)
    return np.array(np.broadcast_to(indices.reshape(column), shape.dimensions))


EXAMPLES = (
    Example("ROOT i = s32[2,3] iota(), iota_dimension=1", (), ("s32[2,3] {{0, 1, 2}, {0, 1, 2}}",)),
    Example("ROOT i = bf16[2,1] iota(), iota_dimension=0", (), ("bf16[2,1] {{0}, {1}}",)),
    Example("ROOT i = c64[0] iota(), iota_dimension=0", (), ("c64[0] {}",)),
)

COUNTEREXAMPLES = {
    "C1": "ROOT r = pred[2] iota(), iota_dimension=0",
    "C2": "ROOT r = s32[2] iota(), iota_dimension=1",
}
