"""How far apart two values are: in bits, in units in the last place, and against the bounds of a whole program."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import InputError, plural
from .numerics import component_type, type_of
from .types import Array, ElementType, Shape, Value


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


def digest(arrays: Sequence[Array]) -> str:
    """Sixteen hexadecimal digits that are the same for arrays of the same types, sizes and bits; every NaN counts as
    one and the same (of complex numbers part by part)."""
    sha = hashlib.sha256()
    for a in arrays:
        sha.update(f"{a.dtype} {a.shape}".encode())
        for part in (a.real, a.imag) if type_of(a).is_complex else (a,):
            values = _contiguous(np.array(part))
            words = values.view(f"u{values.dtype.itemsize}").copy()
            if type_of(values).is_float:
                words[np.isnan(values)] = np.iinfo(words.dtype).max
            sha.update(words.tobytes())
    return sha.hexdigest()[:16]


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

    a may be of a wider type. Of a complex type it is that of the component type at its modulus. NaN gives NaN; an
    infinity gives inf.
    """
    element_type = component_type(element_type or type_of(a))
    if np.iscomplexobj(a):
        a = np.abs(np.asarray(a).astype(np.complex128))
    digits, least = precision(element_type)
    with np.errstate(all="ignore"):
        values = np.abs(np.asarray(a).astype(np.float64))
        ordinary = np.isfinite(values) & (values > 0)
        exponent = np.where(ordinary, np.frexp(np.where(ordinary, values, 1))[1] - digits, least)
        steps = np.ldexp(1.0, np.maximum(exponent, least))
        return np.where(np.isfinite(values), steps, values)


def precision(element_type: ElementType) -> tuple[int, int]:
    """(bits of the significand, the leading one included; exponent of the smallest number, a power of two)."""
    import ml_dtypes

    info = ml_dtypes.finfo(element_type.dtype)
    return int(info.nmant) + 1, int(np.log2(float(info.smallest_subnormal)))


def _contiguous(a: Array) -> Array:
    return np.ascontiguousarray(a).reshape(a.shape)


@dataclass(frozen=True)
class Comparison:
    """How one array of a result stands against the reference and its bounds (see bounds.py)."""

    shape: Shape
    undecided: int  # elements whose bound is inf
    outside: int  # elements beyond their bound: the contract is broken
    worst: float  # the largest distance as a fraction of its bound, over the elements that are decided (inf: bound 0)
    at: tuple[int, ...]  # where that is
    got: Any
    expected: Any
    bound: float  # the bound there
    max_ulp: float  # the largest distance in ULP, over the elements that are decided


def compare(result: Value, reference: Value, bounds: Value) -> list[Comparison]:
    """Each array of a result, tuples opened, against the reference's value and the bounds of `run_with_bounds`.

    InputError if the result has not the reference's types and dimensions.
    """
    if isinstance(reference, tuple):
        if not isinstance(result, (tuple, list)) or len(result) != len(reference):
            raise InputError(f"the reference has {plural(len(reference), 'result')}; compare it with as many")
        return [c for r, e, b in zip(result, reference, bounds, strict=True) for c in compare(r, e, b)]
    if reference is None:
        return []
    result = np.asarray(result)
    if result.dtype != reference.dtype or result.shape != reference.shape:
        raise InputError(f"the result is {Shape.of(result)} and the reference {Shape.of(reference)}")
    with np.errstate(all="ignore"):
        apart = np.where(same_bits(result, reference), 0.0, np.maximum(distance(result, reference), TINY))
        decided = np.isfinite(bounds)
        share = np.where(apart == 0, 0.0, np.where(bounds > 0, apart / np.where(bounds > 0, bounds, 1), np.inf))
        share = np.where(decided, share, 0.0)
        ulps = np.where(decided, ulp_distance(result, reference), 0.0)
    at = tuple(int(k) for k in np.unravel_index(int(np.argmax(share)), share.shape)) if share.size else ()
    empty = not share.size
    return [
        Comparison(
            shape=Shape.of(reference),
            undecided=int(np.count_nonzero(~decided)),
            outside=int(np.count_nonzero(share > 1)),
            worst=0.0 if empty else float(share[at]),
            at=at,
            got=None if empty else result[at],
            expected=None if empty else reference[at],
            bound=0.0 if empty else float(bounds[at]),
            max_ulp=0.0 if empty else float(np.max(ulps)),
        )
    ]


TINY = float(np.nextafter(0.0, 1.0))  # what -0 and +0 are apart: outside a bound of 0, inside any other


def distance(a: Array, b: Array) -> Array:
    """|a - b| in f64: 0 where both are the same infinity or NaN, inf where one of them only; of integers 0 or inf.

    Of complex numbers it is the distance in the plane. One with a NaN part is a NaN, and as good as any other;
    where one part is infinite the distance is that of the other parts.
    """
    element_type = type_of(b)
    if not (element_type.is_float or element_type.is_complex):
        return np.where(a == b, 0.0, np.inf)
    wide = {"f64": np.longdouble, "c128": np.clongdouble, "c64": np.complex128}.get(element_type.name, np.float64)
    a, b = a.astype(wide), b.astype(wide)
    nan = np.isnan(a) & np.isnan(b)
    with np.errstate(all="ignore"):
        if element_type.is_complex:
            parts = ((np.array(x.real), np.array(x.imag)) for x in (a, b))
            apart = np.hypot(*(np.where(x == y, 0, x - y) for x, y in zip(*parts, strict=True))).astype(np.float64)
        else:
            apart = np.abs(a - b).astype(np.float64)
    return np.where(nan | (a == b), 0.0, np.where(np.isnan(apart), np.inf, apart))
