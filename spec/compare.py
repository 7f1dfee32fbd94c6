"""How far apart two values are: in bits, and in units in the last place."""

from __future__ import annotations

import numpy as np

from .numerics import component_type, type_of
from .types import ElementType, Value

Array = np.ndarray


def bits_equal(a: Value, b: Value) -> bool:
    """Whether two values have the same types, dimensions and bits; any NaN equals any other, -0 does not equal +0."""
    if a is None or b is None:
        return a is b
    if isinstance(a, tuple) or isinstance(b, tuple):
        both = isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)
        return both and all(bits_equal(x, y) for x, y in zip(a, b, strict=True))
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.all(same_bits(a, b)))


def same_bits(a: Array, b: Array) -> Array:
    """For each element of two arrays of one type whether all bits agree, or both are NaN (of complex: part by part)."""
    element_type = type_of(a)
    if element_type.is_complex:
        return same_bits(np.array(a.real), np.array(b.real)) & same_bits(np.array(a.imag), np.array(b.imag))
    if not element_type.is_float:
        return a == b
    words = np.dtype(f"u{a.dtype.itemsize}")
    return (_contiguous(a).view(words) == _contiguous(b).view(words)) | (np.isnan(a) & np.isnan(b))


def ulp_distance(a: Array, b: Array) -> Array:
    """How many numbers of their floating-point type lie from each element of a to that of b, as f64.

    NaN is 0 from NaN and inf from all else; an infinity is one step beyond the largest finite number; -0 and +0 are 0
    apart (`same_bits` tells them apart). Of complex numbers it is the larger distance of the two parts; of integers
    the difference.
    """
    element_type = type_of(a)
    if element_type.is_complex:
        return np.maximum(
            ulp_distance(np.array(a.real), np.array(b.real)), ulp_distance(np.array(a.imag), np.array(b.imag))
        )
    if not element_type.is_float:
        return np.abs(a.astype(np.longdouble) - b.astype(np.longdouble)).astype(np.float64)
    distance = np.abs(_place(a, element_type) - _place(b, element_type)).astype(np.float64)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    return np.where(nan_a & nan_b, 0.0, np.where(nan_a | nan_b, np.inf, distance))


def _place(a: Array, element_type: ElementType) -> Array:
    """The number of each element when the type's values are counted from zero up and down (longdouble for f64)."""
    size = a.dtype.itemsize
    bits = _contiguous(a).view(np.dtype(f"u{size}"))
    sign = np.signbit(a)
    magnitude = bits & bits.dtype.type(2 ** (8 * size - 1) - 1)
    if element_type.name == "f8e8m0fnu":  # no sign bit
        magnitude, sign = bits, np.zeros_like(sign)
    elif element_type.bits < 8:
        magnitude = bits & bits.dtype.type(2 ** (element_type.bits - 1) - 1)
    whole = magnitude.astype(np.longdouble if size == 8 else np.int64)
    return np.where(sign, -whole, whole)


def ulp(a: Array, element_type: ElementType | None = None) -> Array:
    """The distance from |a| to the next number of `element_type` (its own if None) above it, as f64.

    a may be of a wider type. Of a complex type it is that of the component type at max(|re|, |im|). NaN gives NaN; an
    infinity gives inf.
    """
    element_type = component_type(element_type or type_of(a))
    if np.iscomplexobj(a):
        a = np.maximum(np.abs(a.real), np.abs(a.imag))
    digits, least = precision(element_type)
    with np.errstate(all="ignore"):
        values = np.abs(np.asarray(a).astype(np.float64))
        exponent = np.frexp(np.where(np.isfinite(values), values, 1))[1] - digits
        steps = np.ldexp(1.0, np.maximum(exponent, least))
        return np.where(np.isfinite(values), steps, values)


def precision(element_type: ElementType) -> tuple[int, int]:
    """(bits of the significand, the leading one included; exponent of the smallest number, a power of two)."""
    import ml_dtypes

    info = ml_dtypes.finfo(element_type.dtype)
    return int(info.nmant) + 1, int(np.log2(float(info.smallest_subnormal)))


def _contiguous(a: Array) -> Array:
    return np.ascontiguousarray(a).reshape(a.shape)
