"""In which wider type sums are accumulated, before `numerics` rounds them once.

The types, by that of the result:

    result     accumulated in
    f8 .. f32  f64
    f64        longdouble, where it is wider, and for contractions of at most LONG_DOUBLE_PRODUCTS products; else f64
    c64, c128  the complex type of the above
    integers   64-bit integers, whose low bits are the wrapped result; f64 where every partial sum is below 2**53
    pred       as integers; the result is whether the sum is not zero
"""

from __future__ import annotations

import numpy as np

from .numerics import round_to, wrap
from .types import BY_DTYPE, C64, C128, F64, Array, ElementType

LONG_DOUBLE_PRODUCTS = 1 << 24  # there is no fast matrix product of longdouble: this many take a quarter of a second


def wide_type(element_type: ElementType, products: int = 0) -> np.dtype:
    """The NumPy type in which sums of an element type are accumulated; `products` is the work of a contraction."""
    if element_type.is_integer or element_type.kind == "pred":
        return np.dtype(np.int64)
    small = products <= LONG_DOUBLE_PRODUCTS
    wide = {F64: np.longdouble if small else np.float64, C128: np.clongdouble if small else np.complex128}
    return np.dtype(wide.get(element_type, np.complex128 if element_type is C64 else np.float64))


def contraction_type(result: ElementType, lhs: Array, rhs: Array, terms: int, products: int) -> np.dtype:
    """The type for sums of `terms` products of elements of lhs and rhs; `products` is the number of all of them."""
    if result.is_float or result.is_complex:
        return wide_type(result, products)
    # Floating point is exact, and much faster, while no partial sum can reach 2**53.
    bounds = [max(abs(int(a.max())), abs(int(a.min()))) if a.size else 0 for a in (lhs, rhs)]
    return np.dtype(np.float64 if terms * bounds[0] * bounds[1] < 2**53 else np.int64)


def matrix_product(left: Array, right: Array) -> Array:
    """left @ right. Of complex numbers that are not all finite the real and the imaginary part are sums of real
    products: which of them is NaN would otherwise depend on how the product is cut into blocks."""
    if left.dtype.kind != "c" or bool(np.isfinite(left).all() and np.isfinite(right).all()):
        return left @ right
    real = left.real @ right.real - left.imag @ right.imag
    imaginary = left.real @ right.imag + left.imag @ right.real
    result = np.empty(real.shape, left.dtype)
    result.real, result.imag = real, imaginary
    return result


def widen(array: Array, wide: np.dtype) -> Array:
    """The array in a type of `wide_type`; integers that do not fit 64 signed bits keep their bits."""
    if wide.kind != "c" and BY_DTYPE[array.dtype].is_complex:
        raise TypeError(f"{array.dtype} does not widen to {wide}")
    with np.errstate(all="ignore"):
        return array.astype(wide)


def narrow(value: Array, element_type: ElementType) -> Array:
    """A wide value in its element type: rounded once, or for integers wrapped around."""
    if element_type.kind == "pred":
        return np.asarray(value) != 0
    if element_type.is_integer:
        return wrap(np.asarray(value).astype(np.int64), element_type)
    return round_to(value, element_type)
