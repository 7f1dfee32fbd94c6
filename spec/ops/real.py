"""The real part of a complex number; a real operand itself."""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT, COMPLEX, result=numerics.component_type)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return np.array(operand.real)


EXAMPLES = (
    Example("x = c64[2] parameter(0)\nROOT y = f32[2] real(x)", ("c64[2] {(-0, nan), (2, 3)}",), ("f32[2] {-0, 2}",)),
    Example("x = f32[2] parameter(0)\nROOT y = f32[2] real(x)", ("f32[2] {-0, nan}",), ("f32[2] {-0, nan}",)),
)
