"""The gradient of batch-norm-training with respect to its operand, scale and offset.

With c the index in the dimension feature_index, n the number of elements of a feature, sums over all of them, and

    d[i..] = operand[i..] - mean[c],    v = variance[c] + epsilon,    g = grad_output

    grad_offset[c]    = sum g
    grad_scale[c]     = sum g * d / sqrt(v)
    grad_operand[i..] = scale[c] / sqrt(v) * (g[i..] - sum g / n - d[i..] * sum (g * d) / (n * v))

All is computed in a wider type, and each of the three results rounded once.
"""

from __future__ import annotations

import numpy as np

from ..accumulate import narrow, widen
from ..module import Instruction
from ..numerics import type_of
from ..operation import Example, require
from ..types import Array, Shape
from . import batch_norm_training as training

INPUTS = {
    "operand": "what batch-norm-training was given",
    "scale": "what it was given",
    "mean": "the mean it found",
    "variance": "the variance it found",
    "grad_output": "the gradient with respect to its output",
}
ATTRIBUTES = training.ATTRIBUTES
CONSTRAINTS = {
    **training.SHARED_CONSTRAINTS,
    "C3": "grad_output is a floating-point array with the dimensions of operand",
    "C4": "the result is a tuple of the shape of operand, and that of scale twice",
}


def infer(
    instruction: Instruction, operand: Shape, scale: Shape, mean: Shape, variance: Shape, grad_output: Shape
) -> Shape:
    training.check(instruction, operand, scale, mean, variance)
    fits = grad_output.element_type.is_float and grad_output.dimensions == operand.dimensions
    require(fits, "C3", f"grad_output is {grad_output}, operand is {operand}")
    feature = scale.without_layout()
    return Shape.tuple_of(operand.without_layout(), feature, feature)


def evaluate(
    instruction: Instruction,
    operand: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    grad_output: Array,
) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        x, (factor, center, spread), axes = training.wide_view(instruction, operand, scale, mean, variance)
        g, d, v = widen(grad_output, x.dtype), x - center, spread + x.dtype.type(instruction.epsilon)
        n = x.dtype.type(x.size // max(1, scale.size))
        sum_g, sum_gd = g.sum(axes, keepdims=True), (g * d).sum(axes, keepdims=True)
        grad_operand = factor / np.sqrt(v) * (g - sum_g / n - d * sum_gd / (n * v))
        features = (narrow(f.reshape(scale.shape), type_of(scale)) for f in (sum_gd / np.sqrt(v), sum_g))
        return narrow(grad_operand, type_of(operand)), *features


EXAMPLES = (
    Example(
        """x = f32[2,1] parameter(0)
           s = f32[1] parameter(1)
           m = f32[1] parameter(2)
           v = f32[1] parameter(3)
           g = f32[2,1] parameter(4)
           ROOT r = (f32[2,1], f32[1], f32[1]) batch-norm-grad(x, s, m, v, g), epsilon=3, feature_index=1""",
        ("f32[2,1] {{1},{3}}", "f32[1] {4}", "f32[1] {2}", "f32[1] {1}", "f32[2,1] {{0},{2}}"),
        ("f32[2,1] {{-1.5},{1.5}}", "f32[1] {1}", "f32[1] {2}"),
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[2,3] parameter(0)
             s = f32[3] parameter(1)
             ROOT r = (f32[2,3], f32[3], f32[3]) batch-norm-grad(x, s, s, s, x), epsilon=0.001, feature_index=2""",
    "C2": """x = f32[2,3] parameter(0)
             s = f32[2] parameter(1)
             ROOT r = (f32[2,3], f32[2], f32[2]) batch-norm-grad(x, s, s, s, x), epsilon=0.001, feature_index=1""",
    "C3": """x = f32[2,3] parameter(0)
             s = f32[3] parameter(1)
             g = f32[3,2] parameter(2)
             ROOT r = (f32[2,3], f32[3], f32[3]) batch-norm-grad(x, s, s, s, g), epsilon=0.001, feature_index=1""",
    "C4": """x = f32[2,3] parameter(0)
             s = f32[3] parameter(1)
             ROOT r = (f32[2,3], f32[2], f32[2]) batch-norm-grad(x, s, s, s, x), epsilon=0.001, feature_index=1""",
}
