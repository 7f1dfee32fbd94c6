"""Rounding, wrapping, NaN, infinities and signed zero: the only place of the specification that rounds.

Four rules say what every value is.

1. Integers are modulo 2^bits: what overflows wraps. Division by zero gives all ones, the remainder by zero the
   dividend, and the smallest signed integer divided by -1 is itself.
2. Where IEEE 754 defines the result (+ - * / sqrt, rounding to integer, conversion, ...) it is the exact one rounded
   once, to nearest, ties to even. The types below f32 are computed in f32 and rounded once to their own; for these
   operations that is the same as rounding the exact result, since 24 bits are at least twice 11 bits and two more.
   (f8e8m0fnu is computed in f64, since its products and quotients lie beyond f32.)
3. Elementary functions are evaluated in a wider type and rounded once: everything up to f32 in f64, f64 in NumPy's
   longdouble (64 bits of mantissa on x86, 113 on most other machines; where it is no wider than f64, the last bit
   of an f64 result is the C library's). The complex types follow their component type.
4. Subnormals are kept everywhere. A NaN is a NaN: its sign and payload are not specified, except that data movement and
   bitcasts keep all bits.

Arrays of any shape are taken, and shapes broadcast as NumPy says, so a scalar goes with anything. Results are arrays
(never NumPy scalars), and no NumPy warning escapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .types import BY_DTYPE, C64, C128, F32, F64, Array, ElementType

_WIDER = {F32: np.float64, F64: np.longdouble, C64: np.complex128, C128: np.clongdouble}


def type_of(array: Array) -> ElementType:
    """The element type of an array that holds a value."""
    return BY_DTYPE[array.dtype]


def widened(array: Array) -> Array:
    """The array in the type that elementary functions are evaluated in: f64 up to f32, longdouble for f64."""
    return np.asarray(array).astype(_WIDER.get(type_of(array), np.float64))


def component_type(element_type: ElementType) -> ElementType:
    """The type of the real part of a complex type; any other type itself."""
    return {C64: F32, C128: F64}.get(element_type, element_type)


def _rounded_to_odd(values: Array, dtype: Any) -> Array:
    """The values in a narrower IEEE type, by truncation with the last bit set where anything was cut off.

    Rounding the result to a type that is two bits or more narrower still is then the same as rounding the value itself.
    """
    nearest = values.astype(dtype)
    back = nearest.astype(values.dtype)
    bits = nearest.view(np.dtype(f"u{nearest.dtype.itemsize}"))
    away = np.abs(back) > np.abs(values)  # (an infinity from overflow becomes the largest finite number, which is odd)
    truncated = np.where(away, bits - bits.dtype.type(1), bits)
    odd = np.where(back == values, truncated, truncated | bits.dtype.type(1))
    return np.where(np.isnan(values) | np.isinf(values), bits, odd).astype(bits.dtype).view(dtype)


def round_to(values: Any, element_type: ElementType) -> Array:
    """The values (floating-point or complex, of any width) rounded once to `element_type`; overflow follows the type.

    Types without infinities (f8e4m3fn, the fnuz types) overflow to NaN, and those without NaN (f4 and f6) to their
    largest number; there a NaN, whatever its sign, becomes -0. f8e8m0fnu holds the powers of two from 2^-127 to 2^127:
    halfway between two of them is rounded up, what is smaller than all becomes the smallest, and zero, negative
    numbers and what is too large become NaN.
    """
    values = np.asarray(values)
    if not element_type.has_nan:
        values = np.where(np.isnan(values), values.dtype.type(-0.0), values)
    with np.errstate(all="ignore"):
        if element_type.bits < 32 and element_type.is_float and element_type.name != "f16":
            if values.dtype == np.longdouble and values.dtype != np.float64:
                values = _rounded_to_odd(values, np.float64)
            if values.dtype == np.float64:
                values = _rounded_to_odd(values, np.float32)
        elif element_type.name == "f16" and values.dtype == np.longdouble and values.dtype != np.float64:
            values = _rounded_to_odd(values, np.float64)
        if element_type.name == "f8e8m0fnu":  # ml_dtypes rounds up all that is between the two smallest numbers
            low = values.dtype.type(2.0**-127)
            values = np.where((values > low) & (values < low * values.dtype.type(1.5)), low, values)
        return np.asarray(values.astype(element_type.dtype))


def _as_computed(array: Array) -> Array:
    """The array in the type that exact operations are computed in: f32 for smaller floats, else its own.

    f64 for f8e8m0fnu: a product of two of its numbers may be 2^-254, which f32 takes for 0 and the type for 2^-127.
    """
    element_type = type_of(array)
    if element_type.name == "f8e8m0fnu":
        return array.astype(np.float64)
    if element_type.is_float and element_type.bits < 32:
        return array.astype(np.float32)
    return array


def exact(function: Callable[..., Array], *operands: Array) -> Array:
    """`function` of floats (operations that IEEE 754 defines), rounded once to the type of the first operand."""
    with np.errstate(all="ignore"):
        return round_to(function(*map(_as_computed, operands)), type_of(operands[0]))


def elementary(function: Callable[..., Array], *operands: Array) -> Array:
    """`function` evaluated in the wider type and rounded once to the type of the first operand.

    Where a complex operand gives a real result, that is rounded to the component type.
    """
    with np.errstate(all="ignore"):
        result = np.asarray(function(*map(widened, operands)))
        target = type_of(operands[0])
        return round_to(result, target if result.dtype.kind == "c" else component_type(target))


def wrap(values: Any, element_type: ElementType) -> Array:
    """Integers of any NumPy integer type modulo 2^bits, in `element_type`."""
    values = np.asarray(values)
    if element_type.bits < 8:  # NumPy's own types hold these one to a byte
        modulus = 1 << element_type.bits
        values = values.astype(np.int64) & (modulus - 1)
        if element_type.kind == "signed":
            values = values - modulus * (values >> (element_type.bits - 1))
        values = values.astype(np.int8)
    with np.errstate(all="ignore"):
        return np.asarray(values.astype(element_type.dtype))


def _whole_bytes(array: Array) -> Array:
    """Integers of fewer than 8 bits in int8 or uint8, others as they are."""
    element_type = type_of(array)
    if element_type.bits < 8:
        return array.astype(np.int8 if element_type.kind == "signed" else np.uint8)
    return array


def integer(function: Callable[..., Array], *operands: Array) -> Array:
    """`function` of integers in NumPy's wrapping arithmetic, wrapped to the type of the first operand."""
    with np.errstate(all="ignore"):
        return wrap(function(*map(_whole_bytes, operands)), type_of(operands[0]))


def as_unsigned(array: Array) -> Array:
    """The bits of integers, as unsigned integers of the same width (of 8 bits for narrower ones, upper bits zero)."""
    element_type = type_of(array)
    if element_type.bits < 8:
        return (array.astype(np.int8).view(np.uint8) & ((1 << element_type.bits) - 1)).astype(np.uint8)
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def convert(array: Array, element_type: ElementType) -> Array:
    """`array` in another element type.

    To pred: whether it is not zero. Among integers: wrapping. Integer to float: rounded once. Float to integer: towards
    zero, saturating, NaN to 0. Real to complex: imaginary part zero. Float to float: rounded once.
    """
    source = type_of(array)
    with np.errstate(all="ignore"):
        if element_type is source:
            return array
        if element_type.kind == "pred":
            return np.asarray(_as_computed(array) != 0 if source.is_float else _whole_bytes(array) != 0)
        if element_type.is_complex:
            return (
                np.asarray(array.astype(element_type.dtype))
                if source.is_complex
                else np.asarray(convert(array, component_type(element_type)).astype(element_type.dtype))
            )
        if element_type.is_float:
            if source.is_float:
                return round_to(_as_computed(array), element_type)
            exact_values = array if source.kind == "pred" else _whole_bytes(array)
            if element_type.bits < 32:
                exact_values = exact_values.astype(np.longdouble if source.bits > 32 else np.float64)
            return round_to(exact_values, element_type)
        if source.is_float:
            return _float_to_integer(array, element_type)
        return wrap(array if source.kind == "pred" else _whole_bytes(array), element_type)


def _float_to_integer(array: Array, element_type: ElementType) -> Array:
    """Towards zero, saturating, NaN to 0. Comparisons are with powers of two, which every type up to f64 holds."""
    values = np.trunc(array.astype(np.float64))
    signed = element_type.kind == "signed"
    low, high = (-(2 ** (element_type.bits - 1)) if signed else 0), 2 ** (element_type.bits - signed)
    inside = (values >= low) & (values < high)
    whole = np.where(inside, values, 0).astype(np.int64 if signed else np.uint64)
    whole = np.where(values < low, whole.dtype.type(low), whole)
    whole = np.where(values >= high, whole.dtype.type(high - 1), whole)
    return wrap(whole, element_type)


def total_order_key(array: Array) -> Array:
    """Signed integers that are ordered as IEEE 754's totalOrder: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    name = type_of(array).name
    if type_of(array).bits < 8 or name == "f8e8m0fnu" or name.endswith("fnuz"):
        array = array.astype(np.float32)  # the sign is not the highest bit of the byte, or -0 stands for NaN
    size = array.dtype.itemsize
    bits = array.view(np.dtype(f"i{size}"))
    magnitude = bits & np.dtype(f"i{size}").type(2 ** (8 * size - 1) - 1)
    return np.where(bits < 0, ~magnitude, magnitude)  # -0 becomes -1


def maximum(a: Array, b: Array) -> Array:
    """IEEE 754-2019 maximum of floats: a NaN wins, and +0 is above -0."""
    larger = np.where(a > b, a, np.where(b > a, b, np.where(np.signbit(a), b, a)))
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, larger))


def minimum(a: Array, b: Array) -> Array:
    """IEEE 754-2019 minimum of floats: a NaN wins, and -0 is below +0."""
    smaller = np.where(a < b, a, np.where(b < a, b, np.where(np.signbit(a), a, b)))
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, smaller))


def divide_integers(a: Array, b: Array) -> Array:
    """Quotients towards zero; by zero all ones; the smallest signed integer by -1 is itself."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "i":
        negated = safe == -1
        safe = np.where(negated, a.dtype.type(1), safe)
        quotient = a // safe
        inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))  # // rounds down
        quotient = np.where(negated, a.dtype.type(0) - a, quotient + inexact)
    else:
        quotient = a // safe
    return np.where(b == 0, ~a.dtype.type(0), quotient).astype(a.dtype)


def remainder_integers(a: Array, b: Array) -> Array:
    """a - b * (a / b rounded towards zero), with the sign of a; by zero a itself."""
    one = b.dtype.type(1)
    safe = np.where(b == 0, one, np.where(b == -1, one, b) if b.dtype.kind == "i" else b)
    return np.where(b == 0, a, np.fmod(a, safe)).astype(a.dtype)


def power_integers(base: Array, exponent: Array) -> Array:
    """base^exponent modulo 2^bits; 0^0 is 1.

    A negative exponent gives 1 for the base 1, +-1 for the base -1, and 0 for any other, the base 0 included.
    """
    base, exponent = np.broadcast_arrays(base, exponent)
    result = np.ones_like(base)
    square, rest = base.copy(), np.where(exponent < 0, 0, exponent).astype(exponent.dtype)
    while rest.any():
        result = np.where(rest & 1, result * square, result)
        square, rest = square * square, rest >> 1
    odd = (exponent & 1).astype(bool)
    ones = np.where(base == 1, 1, np.where((base == -1) & odd, -1, (base == -1).astype(np.int8)))
    return np.where(exponent < 0, ones, result).astype(base.dtype) if base.dtype.kind == "i" else result


def multiply_complex(a: Array, b: Array) -> Array:
    """(ar br - ai bi) + i (ar bi + ai br), with no repair of infinities."""
    return make_complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def divide_complex(a: Array, b: Array) -> Array:
    """a conj(b) / |b|^2, repaired as in C's Annex G where b is zero or infinite or a is infinite."""
    a, b = np.broadcast_arrays(a, b)
    scale = np.maximum(np.abs(b.real), np.abs(b.imag))
    ordinary = np.isfinite(scale) & (scale != 0)
    power = np.where(ordinary, np.frexp(np.where(ordinary, scale, 1))[1], 0)  # so that |b|^2 stays in range
    c, d = np.ldexp(b.real, -power), np.ldexp(b.imag, -power)
    norm = c * c + d * d
    real = np.ldexp((a.real * c + a.imag * d) / norm, -power)
    imag = np.ldexp((a.imag * c - a.real * d) / norm, -power)
    nan = np.isnan(real) & np.isnan(imag)

    def box(x: Array) -> Array:  # an infinity to 1, others to 0, sign kept
        return np.copysign(np.isinf(x).astype(x.dtype), x)

    infinity = real.dtype.type(np.inf)
    zero = nan & (norm == 0) & ~(np.isnan(a.real) & np.isnan(a.imag))
    signed_infinity = np.copysign(infinity, b.real)
    real, imag = np.where(zero, signed_infinity * a.real, real), np.where(zero, signed_infinity * a.imag, imag)
    nan &= ~zero
    a_infinite = nan & (np.isinf(a.real) | np.isinf(a.imag)) & np.isfinite(b.real) & np.isfinite(b.imag)
    ar, ai = box(a.real), box(a.imag)
    real = np.where(a_infinite, infinity * (ar * c + ai * d), real)
    imag = np.where(a_infinite, infinity * (ai * c - ar * d), imag)
    b_infinite = nan & (np.isinf(b.real) | np.isinf(b.imag)) & np.isfinite(a.real) & np.isfinite(a.imag)
    br, bi = box(b.real), box(b.imag)
    real = np.where(b_infinite, 0 * (a.real * br + a.imag * bi), real)
    imag = np.where(b_infinite, 0 * (a.imag * br - a.real * bi), imag)
    return make_complex(real, imag)


def make_complex(real: Array, imag: Array) -> Array:
    """real + i imag without arithmetic, so that infinities, NaNs and zeros stay where they are."""
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def as_signed(array: Array) -> Array:
    """The bits of integers, as signed integers of the same width (int8 for narrower ones, the sign extended)."""
    element_type = type_of(array)
    if element_type.bits < 8:
        places = np.int8(8 - element_type.bits)
        return (as_unsigned(array) << places.view(np.uint8)).view(np.int8) >> places
    return array.view(np.dtype(f"i{array.dtype.itemsize}"))


def shift_left(bits: Array, amount: Array, width: int) -> Array:
    """`bits` moved up by `amount` (read as unsigned) places; 0 where that is `width` or more. The caller wraps."""
    places = as_unsigned(amount)
    inside = places < width
    return np.where(inside, np.left_shift(bits, np.where(inside, places, 0).astype(bits.dtype)), bits.dtype.type(0))


def shift_right(bits: Array, amount: Array, width: int) -> Array:
    """`bits` moved down by `amount` (read as unsigned) places; the sign of signed ones comes in above."""
    places = as_unsigned(amount)
    inside = places < width
    beyond = bits >> bits.dtype.type(8 * bits.dtype.itemsize - 1) if bits.dtype.kind == "i" else bits.dtype.type(0)
    return np.where(inside, np.right_shift(bits, np.where(inside, places, 0).astype(bits.dtype)), beyond)


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the exact product of two integers, in their type."""
    element_type = type_of(a)
    if element_type.bits < 64:
        wide = np.int64 if element_type.kind == "signed" else np.uint64
        return wrap((a.astype(wide) * b.astype(wide)) >> wide(element_type.bits), element_type)
    low_mask, half = np.uint64(2**32 - 1), np.uint64(32)
    x, y = as_unsigned(a), as_unsigned(b)
    x0, x1, y0, y1 = x & low_mask, x >> half, y & low_mask, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)  # none of these sums can overflow
    high = x1 * y1 + (middle >> half) + (((middle & low_mask) + x0 * y1) >> half)
    if element_type.kind == "signed":  # an operand read as unsigned is too large by 2^64 where it is negative
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return np.asarray(high).view(a.dtype)


def to_bits(array: Array) -> Array:
    """All bits of an array, elements in row-major order, least significant first, as a flat array of bytes.

    Elements below 8 bits lie next to each other; a last byte that they do not fill has zeros above.
    """
    element_type = type_of(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    if element_type.bits >= 8:
        return flat.view(np.uint8)
    each = np.unpackbits(flat.view(np.uint8)[:, None], axis=1, bitorder="little")[:, : element_type.bits]
    return np.packbits(each.reshape(-1), bitorder="little")


def from_bits(data: Array, element_type: ElementType) -> Array:
    """The flat array of that element type that has these bits (see `to_bits`); pred is whether a byte is not 0."""
    if element_type.kind == "pred":
        return data != 0
    if element_type.bits >= 8:
        return np.ascontiguousarray(data).view(element_type.array_dtype)
    bits = np.unpackbits(data, bitorder="little")
    each = bits[: bits.size // element_type.bits * element_type.bits].reshape(-1, element_type.bits)
    whole = np.packbits(each, axis=1, bitorder="little")[:, 0]
    if element_type.kind == "signed":
        return wrap(whole, element_type)
    return whole.view(element_type.array_dtype) if element_type.is_float else whole.astype(element_type.dtype)
