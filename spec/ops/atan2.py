"""The angle of the point (rhs, lhs): the inverse of the tangent with the quadrant that the signs say.

    atan2(y, x) = the angle a in [-pi, pi] with y = r sin a, x = r cos a, r >= 0

Special values: atan2(+-0, +0 or x > 0) = +-0, atan2(+-0, -0 or x < 0) = +-pi, atan2(+-inf, inf) = +-pi/4,
atan2(+-inf, -inf) = +-3pi/4, atan2(+-y, inf) = +-0; NaN if either is NaN.
"""

import numpy as np

from .. import numerics
from ..elementwise import FLOAT, binary
from ..operation import Example

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(FLOAT)


def evaluate(instruction, lhs, rhs):
    return numerics.elementary(np.arctan2, lhs, rhs)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\ny = f32[5] parameter(1)\nROOT z = f32[5] atan2(x, y)",
        ("f32[5] {0, -0, 0, -0, 1}", "f32[5] {0, 0, -0, -1, 1}"),
        ("f32[5] {0, -0, 3.1415927, -3.1415927, 0.7853982}",),
    ),
    Example(
        "x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nROOT z = f32[4] atan2(x, y)",
        ("f32[4] {inf, -inf, 1, nan}", "f32[4] {inf, -inf, inf, 1}"),
        ("f32[4] {0.7853982, -2.3561945, 0, nan}",),
    ),
)
