"""The sum.

    add(x, y) = x + y

Integers wrap; pred is added as logical or; floats are rounded once; complex numbers are added part by part. Special
values: inf + -inf = NaN, -0 + -0 = -0, x + -x = +0.
"""

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, INTEGER, PRED, binary
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(PRED, INTEGER, FLOAT, COMPLEX)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    if lhs.dtype == bool:
        return np.logical_or(lhs, rhs)
    apply = numerics.integer if numerics.type_of(lhs).is_integer else numerics.exact
    return apply(np.add, lhs, rhs)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\ny = f32[5] parameter(1)\nROOT z = f32[5] add(x, y)",
        ("f32[5] {1, inf, -0, 3e38, 1e-45}", "f32[5] {1e-8, -inf, -0, 3e38, 1e-45}"),
        ("f32[5] {1, nan, -0, inf, 3e-45}",),
    ),
    Example(
        "x = bf16[2] parameter(0)\ny = bf16[2] parameter(1)\nROOT z = bf16[2] add(x, y)",
        ("bf16[2] {1, 256}", "bf16[2] {0.00390625, 1}"),
        ("bf16[2] {1, 256}",),
        "ties to even",
    ),
    Example(
        "x = s8[2] parameter(0)\ny = s8[2] parameter(1)\nROOT z = s8[2] add(x, y)",
        ("s8[2] {127, -128}", "s8[2] {1, -1}"),
        ("s8[2] {-128, 127}",),
    ),
    Example(
        "x = pred[2] parameter(0)\ny = pred[2] parameter(1)\nROOT z = pred[2] add(x, y)",
        ("pred[2] {false, true}", "pred[2] {true, true}"),
        ("pred[2] {true, true}",),
    ),
    Example(
        """x = f32[<=4] parameter(0)
           y = f32[4] parameter(1)
           ROOT z = f32[<=4] add(x, y)""",
        ("f32[2] {1,2}", "f32[4] {10,20,30,40}"),
        ("f32[2] {11,22}",),
        "a dynamic size meets its bound: the first elements count",
    ),
)
