"""The imaginary part of a complex number; of a real operand +0."""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT, COMPLEX, result=numerics.component_type)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    if numerics.type_of(operand).is_complex:
        return np.array(operand.imag)
    return numerics.convert(np.zeros(operand.shape, np.float32), numerics.type_of(operand))  # a NaN in f8e8m0fnu


EXAMPLES = (
    Example("x = c64[2] parameter(0)\nROOT y = f32[2] imag(x)", ("c64[2] {(nan, -0), (2, 3)}",), ("f32[2] {-0, 3}",)),
    Example("x = f32[2] parameter(0)\nROOT y = f32[2] imag(x)", ("f32[2] {-5, nan}",), ("f32[2] {0, 0}",)),
)
