"""Each feature brought from a given mean and variance to 0 and 1, then scaled and shifted.

With c the index of an element in the dimension feature_index,

    result[i..] = scale[c] * (operand[i..] - mean[c]) / sqrt(variance[c] + epsilon) + offset[c]

It is computed in a wider type and rounded once.
"""

from __future__ import annotations

import numpy as np

from ..accumulate import narrow
from ..module import Instruction
from ..numerics import type_of
from ..operation import Example
from ..types import Array, Shape
from . import batch_norm_training as training

INPUTS = {
    "operand": "a floating-point array",
    "scale": "one value for each feature",
    "offset": "one value for each feature",
    "mean": "one value for each feature",
    "variance": "one value for each feature",
}
ATTRIBUTES = training.ATTRIBUTES
CONSTRAINTS = {**training.SHARED_CONSTRAINTS, "C3": "the result has the shape of operand"}


def infer(instruction: Instruction, operand: Shape, scale: Shape, offset: Shape, mean: Shape, variance: Shape) -> Shape:
    training.check(instruction, operand, scale, offset, mean, variance)
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: Array, *features: Array) -> Array:
    with np.errstate(all="ignore"):
        x, (scale, offset, mean, variance), _ = training.wide_view(instruction, operand, *features)
        result = scale * (x - mean) / np.sqrt(variance + x.dtype.type(instruction.epsilon)) + offset
        return narrow(result, type_of(operand))


EXAMPLES = (
    Example(
        """x = f32[2,1] parameter(0)
           s = f32[1] parameter(1)
           o = f32[1] parameter(2)
           m = f32[1] parameter(3)
           v = f32[1] parameter(4)
           ROOT r = f32[2,1] batch-norm-inference(x, s, o, m, v), epsilon=0.5, feature_index=1""",
        ("f32[2,1] {{1},{5}}", "f32[1] {3}", "f32[1] {1}", "f32[1] {1}", "f32[1] {3.5}"),
        ("f32[2,1] {{1},{7}}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = s32[2,3] parameter(0)
             s = f32[3] parameter(1)
             ROOT r = s32[2,3] batch-norm-inference(x, s, s, s, s), epsilon=0.001, feature_index=1""",
    "C2": """x = f32[2,3] parameter(0)
             s = f32[2] parameter(1)
             ROOT r = f32[2,3] batch-norm-inference(x, s, s, s, s), epsilon=0.001, feature_index=1""",
    "C3": """x = f32[2,3] parameter(0)
             s = f32[3] parameter(1)
             ROOT r = f32[3,2] batch-norm-inference(x, s, s, s, s), epsilon=0.001, feature_index=1""",
}
