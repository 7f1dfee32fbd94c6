"""The logical complement of pred, the complement of every bit of integers."""

import numpy as np

from .. import numerics
from ..elementwise import INTEGER, PRED, unary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(PRED, INTEGER)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    if operand.dtype == bool:
        return np.logical_not(operand)
    return numerics.integer(np.invert, operand)


EXAMPLES = (
    Example(
        "x = pred[2] parameter(0)\nROOT y = pred[2] not(x)",
        ("pred[2] {true, false}",),
        ("pred[2] {false, true}",),
    ),
    Example("x = s8[3] parameter(0)\nROOT y = s8[3] not(x)", ("s8[3] {0, -1, 127}",), ("s8[3] {-1, 0, -128}",)),
    Example("x = u16[1] parameter(0)\nROOT y = u16[1] not(x)", ("u16[1] {0}",), ("u16[1] {65535}",)),
)
