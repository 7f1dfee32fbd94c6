"""Each feature brought to mean 0 and variance 1 over the batch, then scaled and shifted; with its mean and variance.

For each feature c, over the n elements of operand whose index in the dimension feature_index is c,

    mean[c]     = sum operand[..c..] / n
    variance[c] = sum (operand[..c..] - mean[c])^2 / n
    output[i..] = scale[c] * (operand[i..] - mean[c]) / sqrt(variance[c] + epsilon) + offset[c]

All is computed in a wider type, and each of the three results rounded once.
"""

from __future__ import annotations

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..attributes import FLOAT, INT, REQUIRED, Attribute
from ..module import Instruction
from ..numerics import type_of
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {
    "operand": "a floating-point array",
    "scale": "one value for each feature",
    "offset": "one value for each feature",
}
ATTRIBUTES = {
    "epsilon": Attribute(FLOAT, REQUIRED, "added to the variance"),
    "feature_index": Attribute(INT, REQUIRED, "the dimension of operand that counts the features"),
}
SHARED_CONSTRAINTS = {
    "C1": "operand is a floating-point array, and feature_index one of its dimensions",
    "C2": "the other inputs have one floating-point value for each feature",
}
CONSTRAINTS = {**SHARED_CONSTRAINTS, "C3": "the result is a tuple of the shape of operand, and that of scale twice"}


def check(instruction: Instruction, operand: Shape, *features: Shape) -> None:
    """C1 and C2, which all three batch norms share."""
    feature = instruction.feature_index
    fits = operand.element_type.is_float and 0 <= feature < operand.rank
    require(fits, "C1", f"operand is {operand}, feature_index is {feature}")
    size = (operand.dimensions[feature],)
    fits = all(f.element_type.is_float and f.dimensions == size for f in features)
    require(fits, "C2", f"operand has {size[0]} features, the others are {', '.join(map(str, features))}")


def infer(instruction: Instruction, operand: Shape, scale: Shape, offset: Shape) -> Shape:
    check(instruction, operand, scale, offset)
    statistic = scale.without_layout()
    return Shape.tuple_of(operand.without_layout(), statistic, statistic)


def wide_view(instruction: Instruction, operand: Array, *features: Array) -> tuple[Array, list[Array], tuple[int, ...]]:
    """Operand and features in the wider type, the features shaped to go with it; and the dimensions summed over."""
    wide = wide_type(type_of(operand))
    along = [1] * operand.ndim
    along[instruction.feature_index] = -1
    axes = tuple(d for d in range(operand.ndim) if d != instruction.feature_index)
    return widen(operand, wide), [widen(f, wide).reshape(along) for f in features], axes


def evaluate(instruction: Instruction, operand: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        x, (factor, shift), axes = wide_view(instruction, operand, scale, offset)
        n = x.size // max(1, scale.size)
        mean = x.sum(axes, keepdims=True) / x.dtype.type(n)
        variance = ((x - mean) ** 2).sum(axes, keepdims=True) / x.dtype.type(n)
        output = factor * (x - mean) / np.sqrt(variance + x.dtype.type(instruction.epsilon)) + shift
        statistics = (narrow(s.reshape(scale.shape), type_of(scale)) for s in (mean, variance))
        return narrow(output, type_of(operand)), *statistics


EXAMPLES = (
    Example(
        """x = f32[2,2] parameter(0)
           s = f32[2] parameter(1)
           o = f32[2] parameter(2)
           ROOT r = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0, feature_index=1""",
        ("f32[2,2] {{1,10},{3,14}}", "f32[2] {1,2}", "f32[2] {0,5}"),
        ("f32[2,2] {{-1,3},{1,7}}", "f32[2] {2,12}", "f32[2] {1,4}"),
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[2,3] parameter(0)
             s = f32[3] parameter(1)
             ROOT r = (f32[2,3], f32[3], f32[3]) batch-norm-training(x, s, s), epsilon=0.001, feature_index=2""",
    "C2": """x = f32[2,3] parameter(0)
             s = f32[2] parameter(1)
             ROOT r = (f32[2,3], f32[2], f32[2]) batch-norm-training(x, s, s), epsilon=0.001, feature_index=1""",
    "C3": """x = f32[2,3] parameter(0)
             s = f32[3] parameter(1)
             ROOT r = (f32[2,3], f32[2], f32[2]) batch-norm-training(x, s, s), epsilon=0.001, feature_index=1""",
}
