"""Whether the operand is neither infinite nor NaN, as pred."""

import numpy as np

from ..elementwise import FLOAT, unary
from ..module import Instruction
from ..operation import Example
from ..types import PRED as PRED_TYPE
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT, result=lambda _: PRED_TYPE)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.isfinite(operand)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = pred[5] is-finite(x)",
        ("f32[5] {0, 3e38, inf, -inf, nan}",),
        ("pred[5] {true, true, false, false, false}",),
    ),
    Example("x = f16[0] parameter(0)\nROOT y = pred[0] is-finite(x)", ("f16[0] {}",), ("pred[0] {}",)),
)
