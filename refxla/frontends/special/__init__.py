"""Special functions in terms of HLO's operations, for arrays of f32 and f64.

Of these, HLO only has `erf`. Each function here is accurate to a few units in the last place of its type, except near a
zero that is not a floating-point number, where its absolute error is small. A function reads like its formula: pieces
of its domain have their own polynomials, all of them are computed, and the applicable one is selected.
"""

from __future__ import annotations

import json
from functools import cache
from math import inf, log, nan, pi
from pathlib import Path
from typing import Any

from refxla_spec.module import Instruction
from refxla_spec.types import U32, U64

from ...ir.builder import Build

I = Instruction  # noqa: E741 - the type of every value below


@cache
def _tables() -> dict[str, dict[str, Any]]:
    """For each type and name, the coefficients of a polynomial as text, the constant term first, or a number."""
    tables: dict[str, dict[str, Any]] = json.loads(
        Path(__file__).with_name("coefficients.json").read_text(encoding="utf-8")
    )
    return tables


def _place(x: I, name: str) -> Any:
    """Where the pieces of a function meet."""
    return _tables()[x.shape.element_type.name][name]


def _polynomial(b: Build, name: str, x: I) -> I:
    """Evaluates by Horner's rule."""
    *lower, last = (float.fromhex(c) for c in _tables()[x.shape.element_type.name][name])
    value = b.full(last, x.shape)
    for c in reversed(lower):
        value = b.add(b.multiply(value, x), c)
    return value


def _is_below(b: Build, x: I, bound: float) -> I:
    return b.compare(x, bound, direction="LT")


def _from_whole(b: Build, x: I) -> I:
    """The distance of a number from the nearest integer: exact, and 0 only for integers."""
    return b.subtract(x, b.round_nearest_even(x))


# -- the gamma function


def lgamma(b: Build, x: I) -> I:
    """log |gamma(x)|.

    For x < 0 it is log(pi / |sin(pi x)|) - lgamma(1 - x). For x >= 0, with y = x - m for an integer m near x, it is y
    lgamma_polynomial(y), which is lgamma(2 + y), plus the logarithm of the quotient of gamma(x) and gamma(2 + y), a
    product of at most six factors; from 8 on it is Stirling's series.
    """
    negative = _is_below(b, x, 0)
    z = b.select(negative, b.subtract(b.full(1, x.shape), x), x)
    below, first, direct, product = (_is_below(b, z, bound) for bound in (0.5, 1.25, 2.5, 8))
    m = b.select(direct, 2, b.floor(b.add(z, 0.5)))
    m = b.select(below, 0, b.select(first, 1, m))
    y = b.subtract(z, m)
    factors = b.full(1, x.shape)
    for k in range(2, 8):
        factors = b.multiply(factors, b.select(b.compare(m, k, direction="GT"), b.add(y, k), 1))
    quotient = b.select(below, b.multiply(z, b.add(z, 1)), b.select(first, z, factors))
    logarithm = b.log(b.select(product, quotient, z))
    near = b.multiply(y, _polynomial(b, "lgamma", y))
    small = b.add(near, b.select(first, b.negate(logarithm), logarithm))
    rest = b.divide(_polynomial(b, "lgamma_large", b.divide(b.full(1, x.shape), b.multiply(z, z))), z)
    stirling = b.multiply(b.subtract(z, 0.5), b.subtract(logarithm, 1))
    large = b.add(b.add(rest, (log(2 * pi) - 1) / 2), stirling)
    value = b.select(product, small, large)
    sine = b.multiply(b.abs(b.sine(b.multiply(_from_whole(b, x), pi))), 1 / pi)
    reflected = b.subtract(b.negate(b.log(sine)), value)
    pole = b.compare(sine, 0, direction="EQ")
    value = b.select(negative, b.select(pole, inf, reflected), value)
    return b.select(b.compare(b.abs(x), inf, direction="EQ"), inf, value)


def _shifted_sum(b: Build, z: I, power: int) -> tuple[I, I]:
    """The sum of z^-power, (z + 1)^-power, .. and the first z + n that is not below the shift, for z >= 0: computed as
    a quotient of polynomials, so that one division is enough."""
    above, under, shift = b.full(0, z.shape), b.full(1, z.shape), _place(z, "shift")
    for _ in range(shift):
        goes_on = _is_below(b, z, shift)
        factor = b.multiply(z, z) if power == 2 else z
        above = b.select(goes_on, b.add(b.multiply(above, factor), under), above)
        under = b.select(goes_on, b.multiply(under, factor), under)
        z = b.select(goes_on, b.add(z, 1), z)
    return b.divide(above, under), z


def digamma(b: Build, x: I) -> I:
    """The derivative of lgamma: log(x) - 1 / 2x - .. from a bound on, which digamma(x + 1) - 1 / x reaches; for x < 0
    digamma(1 - x) - pi / tan(pi x)."""
    negative = _is_below(b, x, 0)
    total, z = _shifted_sum(b, b.select(negative, b.subtract(b.full(1, x.shape), x), x), 1)
    reciprocal = b.divide(b.full(1, x.shape), z)
    square = b.multiply(reciprocal, reciprocal)
    rest = b.add(b.multiply(square, _polynomial(b, "digamma", square)), b.multiply(reciprocal, 0.5))
    value = b.subtract(b.log(z), b.add(rest, total))
    part = _from_whole(b, x)
    reflected = b.subtract(value, b.divide(b.full(pi, x.shape), b.tan(b.multiply(part, pi))))
    reflected = b.select(b.compare(part, 0, direction="EQ"), nan, reflected)
    return b.select(negative, reflected, value)


def trigamma(b: Build, x: I) -> I:
    """The derivative of digamma: 1 / x + 1 / 2x^2 + .. from a bound on; for x < 0 (pi / sin(pi x))^2 - trigamma(1 -
    x)."""
    negative = _is_below(b, x, 0)
    total, z = _shifted_sum(b, b.select(negative, b.subtract(b.full(1, x.shape), x), x), 2)
    reciprocal = b.divide(b.full(1, x.shape), z)
    square = b.multiply(reciprocal, reciprocal)
    cube = b.multiply(b.multiply(square, reciprocal), _polynomial(b, "trigamma", square))
    value = b.add(b.add(b.add(cube, b.multiply(square, 0.5)), reciprocal), total)
    sine = b.divide(b.full(pi, x.shape), b.sine(b.multiply(_from_whole(b, x), pi)))
    return b.select(negative, b.subtract(b.multiply(sine, sine), value), value)


# -- the error function


def _exponential_of_square(b: Build, x: I, sign: int) -> I:
    """e^(sign x^2), corrected for the rounding of x^2: x is split into a number whose square is exact, and a
    remainder."""
    bits, dropped = (32, 12) if x.shape.element_type.bits == 32 else (64, 27)
    integers = x.shape.with_element_type({32: U32, 64: U64}[bits])
    word = b.make("bitcast-convert", x, shape=integers)
    word = b.and_(word, b.full((1 << bits) - (1 << dropped), integers))
    high = b.make("bitcast-convert", word, shape=x.shape)
    square = b.multiply(x, x)
    low = b.subtract(b.multiply(high, high), square)
    low = b.add(low, b.multiply(b.subtract(x, high), b.add(x, high)))
    value = b.exponential(b.multiply(square, sign))
    return b.select(b.is_finite(value), b.add(value, b.multiply(value, b.multiply(low, sign))), value)


def _erfcx_from_half(b: Build, x: I) -> I:
    """e^(x^2) erfc(x), for x >= 0.5: a polynomial in (x - 4) / (x + 4), divided by 1 + 2 x."""
    place = b.subtract(b.full(1, x.shape), b.divide(b.full(8, x.shape), b.add(x, 4)))
    return b.divide(_polynomial(b, "erfcx", place), b.add(b.multiply(x, 2), 1))


def _end(x: I) -> float:
    """Where erfc becomes 0, and 1 / erfc infinite."""
    return 11 if x.shape.element_type.bits == 32 else 28


def erfc(b: Build, x: I) -> I:
    """1 - erf(x), without the cancellation where erf(x) is near 1."""
    size = b.minimum(b.abs(x), _end(x))
    tail = b.multiply(_exponential_of_square(b, size, -1), _erfcx_from_half(b, size))
    tail = b.select(_is_below(b, x, 0), b.subtract(b.full(2, x.shape), tail), tail)
    return b.select(_is_below(b, size, 0.5), b.subtract(b.full(1, x.shape), b.erf(x)), tail)


def erfcx(b: Build, x: I) -> I:
    """e^(x^2) erfc(x)."""
    tail = _erfcx_from_half(b, b.maximum(x, 0.5))
    low = b.maximum(x, -_end(x))
    return b.select(_is_below(b, x, 0.5), b.multiply(_exponential_of_square(b, low, 1), erfc(b, low)), tail)


def erfinv(b: Build, x: I) -> I:
    """The inverse of erf: x times a polynomial in w = -log(1 - x^2), or in sqrt(w) if w is large."""
    centre, one = _place(x, "erfinv_centre"), b.full(1, x.shape)
    near = _is_below(b, b.abs(x), 0.5)
    log_near = b.log_plus_one(b.negate(b.multiply(x, x)))
    log_far = b.log(b.multiply(b.subtract(one, x), b.add(one, x)))
    w = b.negate(b.select(near, log_near, log_far))
    centred = _polynomial(b, "erfinv", b.subtract(w, centre))
    tail = _polynomial(b, "erfinv_tail", b.subtract(b.sqrt(w), _place(x, "erfinv_tail_centre")))
    value = b.multiply(x, b.select(_is_below(b, w, 2 * centre), centred, tail))
    return b.select(b.compare(b.abs(x), 1, direction="EQ"), b.multiply(x, inf), value)


# -- modified Bessel functions of the first kind


def _bessel(b: Build, size: I, order: int) -> I:
    """e^-x I_order(x), for x >= 0: up to 8 a polynomial in x, multiplied by x for order 1; above, one in 1 / x divided
    by sqrt(x)."""
    name = f"i{order}e"
    small = _polynomial(b, name, b.subtract(b.multiply(size, 0.25), 1))
    if order:
        small = b.multiply(small, size)
    large = _polynomial(b, f"{name}_tail", b.subtract(b.divide(b.full(16, size.shape), size), 1))
    return b.select(b.compare(size, 8, direction="LE"), small, b.divide(large, b.sqrt(size)))


def _odd(b: Build, x: I, value: I) -> I:
    """A function of |x| with the sign of x."""
    return b.select(_is_below(b, x, 0), b.negate(value), value)


def i0e(b: Build, x: I) -> I:
    """e^-|x| I_0(x)."""
    return _bessel(b, b.abs(x), 0)


def i0(b: Build, x: I) -> I:
    return b.multiply(b.exponential(b.abs(x)), i0e(b, x))


def i1e(b: Build, x: I) -> I:
    """e^-|x| I_1(x)."""
    return _odd(b, x, _bessel(b, b.abs(x), 1))


def i1(b: Build, x: I) -> I:
    return b.multiply(b.exponential(b.abs(x)), i1e(b, x))
