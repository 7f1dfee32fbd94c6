"""The decomposition of numbers into m 2^e, and functions based on it."""

from __future__ import annotations

from fractions import Fraction
from math import frexp as parts_of
from math import ldexp

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import ELEMENT_TYPES

from ..ir.builder import Build

I = Instruction  # noqa: E741 - the type of every value below

_LOG10_OF_2 = "0.30102999566398119521373889472449302676818988146210854131"


def frexp(b: Build, x: I) -> tuple[I, I]:
    """(m, e) with x = m 2^e and 0.5 <= |m| < 1."""
    t = x.shape.element_type
    wide = b.convert(x, "f32") if t.bits == 16 else x
    name, mantissa, bias, scale = (
        ("s64", 52, 1023, 2.0**54) if wide.shape.element_type.bits == 64 else ("s32", 23, 127, 2.0**25)
    )
    small = b.compare(b.abs(wide), float(np.finfo(wide.shape.element_type.dtype).tiny), direction="LT")
    scaled = b.select(small, b.multiply(wide, scale), wide)
    kind = ELEMENT_TYPES[name]
    bits = b.make("bitcast-convert", scaled, shape=scaled.shape.with_element_type(kind))
    field = (1 << (kind.bits - 1 - mantissa)) - 1
    exponent = b.and_(b.shift_right_logical(bits, mantissa), field)
    rest = b.or_(b.and_(bits, ~(field << mantissa)), (bias - 1) << mantissa)
    part = b.make("bitcast-convert", rest, shape=scaled.shape)
    power = b.subtract(b.subtract(exponent, bias - 1), b.select(small, b.full(int(np.log2(scale)), bits.shape),
                                                                b.full(0, bits.shape)))  # fmt: skip
    odd = b.or_(b.compare(wide, 0, direction="EQ"), b.not_(b.is_finite(wide)))
    part = b.select(odd, wide, part)
    power = b.select(odd, b.full(0, bits.shape), power)
    return b.convert(part, t), b.convert(power, "s32")


def log10(b: Build, x: I) -> I:
    """The logarithm to base 10, exact for powers of ten: log(x) / log(10) would be slightly less than 3 for 1000.

    For x = m 2^e, it is e log10(2) + log(m) / log(10), where the first product is exact except for a small remainder.
    For values without an exponent (0, inf, NaN), m is x.
    """
    t = x.shape.element_type
    if t.is_complex:
        natural, factor = b.log(x), float(1 / np.log(10))
        return b.complex(b.multiply(b.real(natural), factor), b.multiply(b.imag(natural), factor))
    if t.bits == 16:
        return b.convert(log10(b, b.convert(x, "f32")), t)
    m, exponent = frexp(b, x)
    above = b.compare(exponent, 0, direction="GT")  # so that m is near 1 if the exponent is small
    m = b.select(above, b.multiply(m, 2), m)
    e = b.convert(b.select(above, b.subtract(exponent, 1), exponent), t)
    high, low = _parts_of_log10_of_2(t.bits)
    rest = b.add(b.multiply(e, low), b.multiply(b.log(m), float(1 / np.log(10))))
    return b.add(rest, b.multiply(e, high))


def _parts_of_log10_of_2(bits: int) -> tuple[float, float]:
    """log10(2) as a number with so few bits that its products with exponents are exact, and the remainder."""
    whole = Fraction(_LOG10_OF_2)
    digits = 24 - 8 if bits == 32 else 53 - 11
    mantissa, exponent = parts_of(float(whole))
    high = ldexp(round(ldexp(mantissa, digits)), exponent - digits)
    return high, float(whole - Fraction(high))
