"""The angle of the point (rhs, lhs): the inverse of the tangent with the quadrant that the signs say.

    atan2(y, x) = the angle a in [-pi, pi] with y = r sin a, x = r cos a, r >= 0

Special values: atan2(+-0, +0 or x > 0) = +-0, atan2(+-0, -0 or x < 0) = +-pi, atan2(+-inf, inf) = +-pi/4,
atan2(+-inf, -inf) = +-3pi/4, atan2(+-y, inf) = +-0; NaN if either is NaN.

Of complex numbers

    atan2(y, x) = -i log((x + iy) / (x^2 + y^2)^(1/2))

with the principal values of both functions, so that the real part is in [-pi, pi]. It jumps where x^2 + y^2 is a
negative number, and there the sign of its imaginary part decides, that of a zero too; and where the quotient is a
negative number. Both parts are NaN where x^2 + y^2 = 0, for then it divides by zero, and where a part of x or y is
infinite or NaN.
"""

from fractions import Fraction

import numpy as np

from .. import numerics
from ..elementwise import COMPLEX, FLOAT, binary, by_kind
from ..module import Instruction
from ..operation import Example
from ..types import Array

INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = binary(FLOAT, COMPLEX)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    return numerics.elementary(by_kind(lhs, complex=_complex, other=np.arctan2), lhs, rhs)


def _complex(y: Array, x: Array) -> Array:
    """The definition without its cancellations. With u = x + iy, v = x - iy the root is that of u v, so the angle is
    half of that between u and v, give or take pi, and the logarithm of the modulus half of log |u / v|."""
    parts = np.stack([x.real, x.imag, y.real, y.imag])
    size = np.abs(parts).max(axis=0)
    xr, xi, yr, yi = np.ldexp(parts, -np.frexp(np.where(np.isfinite(size), size, 1))[1] - 1)  # in range when squared
    u, v = numerics.make_complex(xr - yi, xi + yr), numerics.make_complex(xr + yi, xi - yr)
    xx, yy = xr * xr + xi * xi, yr * yr + yi * yi
    small = 4 * yy < xx  # then u and v are nearly equal, and products tell the difference
    turned = 4 * (xr * yi - xi * yr)  # |v|^2 - |u|^2
    near = np.where(turned < 0, -_log_quarter(-turned / _square(v)), _log_quarter(turned / _square(u)))
    imag = np.where(small, near, (np.log(np.abs(v)) - np.log(np.abs(u))) / 2)
    real = np.where(small, np.arctan2(2 * (xr * yr + xi * yi), xx - yy), np.angle(u) - np.angle(v)) / 2
    pi = 4 * np.arctan(real.dtype.type(1))
    angle = np.angle(u) + np.angle(v)
    turning = _sign(x.real, x.imag, y.real, y.imag)  # Im(x^2 + y^2) / 2; a zero is negative if both its terms are
    zeros = (np.signbit(x.real) != np.signbit(x.imag)) & (np.signbit(y.real) != np.signbit(y.imag))
    falls = (turning < 0) | ((turning == 0) & zeros)
    over = (angle > 1.5 * pi) | ((angle > 0.5 * pi) & falls)
    under = (angle < -1.5 * pi) | ((angle < -0.5 * pi) & ~falls)
    angle += 2 * pi * (under.astype(real.dtype) - over)  # the principal angle of u v
    turns = np.rint((np.angle(u) - angle / 2 - real) / pi)
    turns = np.where(np.abs(turns) > 1, turns - 2 * np.sign(turns), turns)
    turns = np.where(turns * real > 0, -turns, turns)
    real = real + turns * pi
    ahead = _sign(x.real, y.real, x.imag, y.imag)  # close to +-pi the sign is that of the smaller angle
    real = np.where((np.abs(real) > 3) & (ahead != 0), np.copysign(real, -ahead), real)
    bad = ~np.isfinite(size) | (u == 0) | (v == 0)
    return numerics.make_complex(*(np.where(bad, np.nan, part) for part in (real, imag)))


def _square(z: Array) -> Array:
    return z.real * z.real + z.imag * z.imag


def _log_quarter(t: Array) -> Array:
    return np.log1p(t) / 4


def _sign(a: Array, b: Array, c: Array, d: Array) -> Array:
    """The exact sign of a b + c d."""
    total, most = a * b + c * d, np.abs(a * b) + np.abs(c * d)
    signs = np.array(np.sign(total))  # of a scalar, too, something that can be written to
    close = (np.abs(total) <= 8 * np.finfo(most.dtype).eps * most) & np.isfinite(most)
    for k in map(tuple, np.argwhere(close)):
        p, q, r, s = (Fraction(*part[k].as_integer_ratio()) for part in (a, b, c, d))
        signs[k] = (p * q > -r * s) - (p * q < -r * s)
    return signs


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
    Example(
        "y = c128[4] parameter(0)\nx = c128[4] parameter(1)\nROOT z = c128[4] atan2(y, x)",
        ("c128[4] {(1, 0), (0, 0.5), (0, 2), (0, 0)}", "c128[4] {(0, 0), (1, 0), (1, 0), (0, 0)}"),
        (
            "c128[4] {(1.5707963267948966, 0), (0, 0.5493061443340549), (1.5707963267948966, 0.5493061443340549), "
            "(nan, nan)}",
        ),
        "the logarithm of the modulus is no zero where y / x is not real",
    ),
)
