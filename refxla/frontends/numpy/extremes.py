"""Comparisons and extremes as NumPy orders numbers: complex ones by their real parts, then by their imaginary ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.builder import Build
from .values import I, is_nan

# The ufunc of np.clip with both bounds, which has no public name.
CLIP: np.ufunc = np._core.umath.clip  # type: ignore[attr-defined]  # it has no public name


def compared(b: Build, x: I, y: I, direction: str) -> I:
    """A comparison, also of s64 with u64, which have no common type."""
    kinds = x.shape.element_type.kind, y.shape.element_type.kind
    if kinds[0] == kinds[1]:
        return b.compare(x, y, direction=direction)
    signed, unsigned = (x, y) if kinds[0] == "signed" else (y, x)
    below = b.compare(signed, 0, direction="LT")
    as_unsigned = b.convert(signed, unsigned.shape.element_type)
    pair = (as_unsigned, unsigned) if signed is x else (unsigned, as_unsigned)
    decided = direction == "NE" or (direction in ("LT", "LE")) == (signed is x) and direction != "EQ"
    return b.select(below, b.full(decided, below.shape), b.compare(*pair, direction=direction))


def ordered(direction: str) -> Callable[..., Any]:
    """A comparison; complex numbers are ordered by their real parts, then by their imaginary ones."""

    def apply(b: Build, x: I, y: I) -> I:
        if not x.shape.element_type.is_complex:
            return compared(b, x, y, direction)
        re, im = (b.real(x), b.real(y)), (b.imag(x), b.imag(y))
        strict = direction[:1] + "T"
        numbers = b.and_(b.compare(im[0], im[0], direction="EQ"), b.compare(im[1], im[1], direction="EQ"))
        return b.or_(
            b.and_(b.compare(*re, direction=strict), numbers),
            b.and_(b.compare(*re, direction="EQ"), b.compare(*im, direction=direction)),
        )

    return apply


def extreme(direction: str, opcode: str) -> Callable[..., Any]:
    """The larger or smaller of two; a NaN is the result."""

    def apply(b: Build, x: I, y: I) -> I:
        if not x.shape.element_type.is_complex:
            return getattr(b, opcode)(x, y)
        chosen = b.or_(is_nan(b, x), ordered(direction)(b, x, y))
        return b.select(b.and_(chosen, b.not_(b.and_(is_nan(b, y), b.not_(is_nan(b, x))))), x, y)

    return apply


def ignoring_nan(opcode: str) -> Callable[..., Any]:
    def apply(b: Build, x: I, y: I) -> I:
        t = x.shape.element_type
        result = extreme("GT" if opcode == "maximum" else "LT", opcode)(b, x, y)
        if not (t.is_float or t.is_complex):
            return result
        return b.select(is_nan(b, x), y, b.select(is_nan(b, y), x, result))

    return apply
