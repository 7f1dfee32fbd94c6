"""The logical or of pred; of integers the or of every bit."""

import numpy as np

from .. import numerics
from ..elementwise import INTEGER, PRED, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(PRED, INTEGER)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    return np.bitwise_or(lhs, rhs) if lhs.dtype == bool else numerics.integer(np.bitwise_or, lhs, rhs)


EXAMPLES = (
    Example(
        "x = pred[3] parameter(0)\ny = pred[3] parameter(1)\nROOT z = pred[3] or(x, y)",
        ("pred[3] {true, true, false}", "pred[3] {true, false, false}"),
        ("pred[3] {true, true, false}",),
    ),
    Example(
        "x = s8[2] parameter(0)\ny = s8[2] parameter(1)\nROOT z = s8[2] or(x, y)",
        ("s8[2] {-128, 12}", "s8[2] {5, 10}"),
        ("s8[2] {-123, 14}",),
    ),
    Example(
        "x = u32[0] parameter(0)\ny = u32[0] parameter(1)\nROOT z = u32[0] or(x, y)",
        ("u32[0] {}", "u32[0] {}"),
        ("u32[0] {}",),
    ),
)
