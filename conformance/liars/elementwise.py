"""Lies about elementwise operations."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from refxla_spec.accuracy import max_ulp
from refxla_spec.module import Instruction
from refxla_spec.numerics import as_signed, round_to, type_of, wrap
from refxla_spec.operation import operation
from refxla_spec.types import Value

from .liar import Lie, of_operation, with_attributes

Array = np.ndarray
NOT_COMMUTATIVE = (
    "subtract", "divide", "remainder", "power", "atan2", "shift-left", "shift-right-arithmetic", "shift-right-logical",
)  # fmt: skip
ELEMENTARY = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "cbrt", "power", "sine",
    "cosine", "rsqrt", "atan2", "acos", "acosh", "asinh", "atanh", "cosh", "sinh", "erf", "asin", "tan",
)  # fmt: skip


def _value(opcode: str, i: Instruction, *operands: Array) -> Value:
    """The result is the value of another operation with the same operands."""
    return operation(opcode).evaluate(i, *operands)


@of_operation(*NOT_COMMUTATIVE)
def operands_exchanged(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """The operands of an operation that does not commute are exchanged."""
    return truth(i, b, a)


@of_operation("select")
def select_exchanged(truth: Lie, i: Instruction, which: Array, yes: Array, no: Array) -> Value:
    """A select takes the other value."""
    return truth(i, which, no, yes)


@of_operation("select")
def select_at_the_edge(truth: Lie, i: Instruction, which: Array, yes: Array, no: Array) -> Value:
    """A select blends by multiplication, so a NaN or an infinity in the value not chosen affects the result."""
    chosen = truth(i, which, yes, no)
    if not type_of(yes).is_float:
        return chosen
    other = np.where(which, no, yes)
    return np.where(np.isfinite(other), chosen, np.asarray(np.nan, yes.dtype))


@of_operation("compare")
def less_or_equal(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """LT is computed as LE, and GT as GE."""
    other = {"LT": "LE", "GT": "GE"}.get(i.direction, i.direction)
    return truth(with_attributes(i, direction=other), a, b)


@of_operation("compare")
def nan_compared(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """GE is computed as not LT, and LE as not GT, which are true for NaN."""
    other = {"GE": "LT", "LE": "GT"}.get(i.direction)
    return truth(i, a, b) if other is None else ~truth(with_attributes(i, direction=other), a, b)


@of_operation("compare")
def nan_equals_itself(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Floating-point numbers are compared as their bits: NaN equals itself, -0 is not 0."""
    if i.direction not in ("EQ", "NE") or not type_of(a).is_float:
        return truth(i, a, b)
    words = f"u{a.dtype.itemsize}"
    same = np.ascontiguousarray(a).view(words) == np.ascontiguousarray(b).view(words)
    return (same if i.direction == "EQ" else ~same).reshape(a.shape)


@of_operation("compare", "maximum", "minimum", "divide", "remainder")
def unsigned_as_signed(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Unsigned integers are treated as signed."""
    if a.dtype.kind != "u":
        return truth(i, a, b)
    value = truth(i, as_signed(a), as_signed(b))
    return value if value.dtype == bool else value.view(a.dtype)


@of_operation("shift-right-logical")
def arithmetic_shift(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A logical shift copies the sign bit."""
    return _value("shift-right-arithmetic", i, a, b)


@of_operation("shift-right-arithmetic")
def logical_shift(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """An arithmetic shift shifts in zeros."""
    return _value("shift-right-logical", i, a, b)


@of_operation("shift-left", "shift-right-logical", "shift-right-arithmetic")
def shift_wrapped(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A shift count is taken modulo the width of the type, as on many processors."""
    bits = type_of(a).bits
    return truth(i, a, b if bits < 8 else b & np.asarray(bits - 1).astype(b.dtype))


@of_operation("divide")
def division_rounds_down(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """The quotient of signed integers is rounded down instead of toward zero."""
    value = truth(i, a, b)
    if a.dtype.kind != "i":
        return value
    inexact = (b != 0) & (value * b != a) & ((a < 0) != (b < 0))
    return np.where(inexact, value - 1, value).astype(a.dtype)


@of_operation("remainder")
def remainder_of_the_divisor(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A remainder has the sign of the divisor, as in Python."""
    value = truth(i, a, b)
    if a.dtype.kind not in "if":
        return value
    return np.where((value != 0) & (b != 0) & ((value < 0) != (b < 0)), value + b, value).astype(a.dtype)


@of_operation("divide")
def division_by_reciprocal(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A quotient is computed as a product with the reciprocal, which rounds twice instead of once."""
    return truth(i, a, b) if a.dtype.kind != "f" else a * (np.ones((), a.dtype) / b)


@of_operation("divide", "remainder")
def division_by_zero(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """An integer divided by zero is zero."""
    value = truth(i, a, b)
    return np.where(b == 0, np.zeros((), a.dtype), value) if a.dtype.kind in "iu" else value


@of_operation("add", "subtract", "multiply")
def integers_saturate(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Integers that overflow saturate instead of wrapping around."""
    t = type_of(a)
    if not (t.is_integer and 8 <= t.bits <= 32):
        return truth(i, a, b)
    function = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[i.opcode]
    least, most = np.iinfo(a.dtype).min, np.iinfo(a.dtype).max
    return np.clip(function(a.astype(np.int64), b.astype(np.int64)), least, most).astype(a.dtype)


@of_operation("negate", "abs")
def least_integer_saturates(truth: Lie, i: Instruction, a: Array) -> Value:
    """The negative of the smallest integer is the largest one."""
    if a.dtype.kind != "i":
        return truth(i, a)
    least = np.iinfo(a.dtype).min
    return np.where(a == least, np.asarray(np.iinfo(a.dtype).max, a.dtype), truth(i, a))


@of_operation("convert")
def convert_truncates(truth: Lie, i: Instruction, a: Array) -> Value:
    """A conversion to a narrower floating-point type drops bits instead of rounding."""
    value = truth(i, a)
    if not (type_of(a).is_float and type_of(value).name in ("f32", "f16", "bf16")):
        return value
    wide = a.astype(np.float64)
    toward_zero = np.nextafter(value, np.zeros((), value.dtype))
    return np.where(np.abs(value.astype(np.float64)) > np.abs(wide), toward_zero, value).astype(value.dtype)


@of_operation("convert")
def convert_rounds_up(truth: Lie, i: Instruction, a: Array) -> Value:
    """Ties of a conversion are rounded away from zero instead of to even."""
    value = truth(i, a)
    if not (type_of(a).is_float and type_of(value).name in ("f32", "f16", "bf16")):
        return value
    wide, result = a.astype(np.float64), value.astype(np.float64)
    away = np.nextafter(value, np.copysign(np.asarray(np.inf, value.dtype), value))
    tie = np.isfinite(result) & (np.abs(wide) > np.abs(result)) & (wide - result == away.astype(np.float64) - wide)
    return np.where(tie, away, value).astype(value.dtype)


@of_operation("convert")
def convert_rounds_to_integer(truth: Lie, i: Instruction, a: Array) -> Value:
    """A conversion of a float to an integer rounds to the nearest one instead of toward zero."""
    return truth(i, round_to(np.rint(a.astype(np.float64)), type_of(a)) if _to_integer(i, a) else a)


@of_operation("convert")
def convert_wraps(truth: Lie, i: Instruction, a: Array) -> Value:
    """A float outside the range of an integer type wraps around instead of saturating."""
    value = truth(i, a)
    if not _to_integer(i, a):
        return value
    wide = np.trunc(a.astype(np.float64))
    return np.where(np.abs(wide) < 2.0**62, wrap(np.where(np.abs(wide) < 2.0**62, wide, 0).astype(np.int64),
                                               type_of(value)), value).astype(value.dtype)  # fmt: skip


@of_operation("convert")
def convert_indefinite(truth: Lie, i: Instruction, a: Array) -> Value:
    """NaN converted to an integer is the smallest one, as on x86, instead of 0."""
    value = truth(i, a)
    if not _to_integer(i, a) or value.dtype.kind != "i":
        return value
    return np.where(np.isnan(a), np.asarray(np.iinfo(value.dtype).min, value.dtype), value)


@of_operation("convert")
def convert_unsigned_as_signed(truth: Lie, i: Instruction, a: Array) -> Value:
    """Unsigned integers are converted as if they were signed."""
    return truth(i, as_signed(a) if a.dtype.kind == "u" else a)


@of_operation("convert")
def double_rounding(truth: Lie, i: Instruction, a: Array) -> Value:
    """A conversion of f64 to a 16-bit type goes through f32, which rounds twice."""
    return truth(i, a.astype(np.float32) if a.dtype == np.float64 and i.shape.element_type.bits == 16 else a)


def _to_integer(i: Instruction, a: Array) -> bool:
    return type_of(a).is_float and i.shape.element_type.is_integer


@of_operation("round-nearest-even")
def ties_away(truth: Lie, i: Instruction, a: Array) -> Value:
    """round-nearest-even rounds ties away from zero."""
    return _value("round-nearest-afz", i, a)


@of_operation("round-nearest-afz")
def ties_to_even(truth: Lie, i: Instruction, a: Array) -> Value:
    """round-nearest-afz rounds ties to even."""
    return _value("round-nearest-even", i, a)


@of_operation("floor", "ceil")
def floor_truncates(truth: Lie, i: Instruction, a: Array) -> Value:
    """floor and ceil go through a 32-bit integer, which overflows and has no -0."""
    value = truth(i, a)
    wide = value.astype(np.float64)
    whole = np.where(np.abs(wide) < 2.0**31, wide, -(2.0**31)) + 0.0
    return np.where(np.isnan(wide), value, round_to(whole, type_of(a)))


@of_operation("maximum", "minimum")
def maximum_drops_nan(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """maximum and minimum of NaN and a number are the number."""
    value = truth(i, a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, value)) if type_of(a).is_float else value


@of_operation("maximum", "minimum")
def maximum_of_zeros(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """maximum and minimum of two zeros return the second one, regardless of its sign."""
    value = truth(i, a, b)
    return np.where((a == 0) & (b == 0), b, value) if type_of(a).is_float else value


@of_operation("clamp")
def clamp_in_the_other_order(truth: Lie, i: Instruction, low: Array, x: Array, high: Array) -> Value:
    """clamp computes the minimum first, which differs where the bounds are in the wrong order."""
    if x.dtype.kind not in "iuf":
        return truth(i, low, x, high)
    return np.maximum(np.minimum(x, high), low).astype(x.dtype)


@of_operation("sign")
def sign_of_zero(truth: Lie, i: Instruction, a: Array) -> Value:
    """The sign of -0 is +0, and that of NaN is 0."""
    value = truth(i, a)
    return np.where((a > 0) | (a < 0), value, np.zeros((), value.dtype)) if type_of(a).is_float else value


@of_operation("negate")
def negated_from_zero(truth: Lie, i: Instruction, a: Array) -> Value:
    """-x is computed as 0 - x, which loses the sign of zero."""
    return _value("subtract", i, np.zeros_like(a), a)


@of_operation("abs")
def modulus_overflows(truth: Lie, i: Instruction, a: Array) -> Value:
    """The absolute value of a complex number is the root of a sum of squares, which overflows."""
    return np.sqrt(a.real * a.real + a.imag * a.imag) if a.dtype.kind == "c" else truth(i, a)


@of_operation("multiply")
def complex_product(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """The product of complex numbers adds where it should subtract: i * i = 1."""
    return truth(i, a, b) + 2 * (a.imag * b.imag) if a.dtype.kind == "c" else truth(i, a, b)


@of_operation("not")
def logical_not(truth: Lie, i: Instruction, a: Array) -> Value:
    """The bitwise complement of an integer is its logical complement."""
    return truth(i, a) if a.dtype == bool else (a == 0).astype(a.dtype)


@of_operation("count-leading-zeros")
def zero_has_no_leading_zeros(truth: Lie, i: Instruction, a: Array) -> Value:
    """The number of leading zeros of 0 is one too small."""
    value = truth(i, a)
    return np.where(a == 0, value - np.ones((), value.dtype), value).astype(value.dtype)


@of_operation("is-finite")
def nan_is_finite(truth: Lie, i: Instruction, a: Array) -> Value:
    """NaN counts as finite."""
    return ~np.isinf(a)


@of_operation("imag")
def conjugate_missing(truth: Lie, i: Instruction, a: Array) -> Value:
    """The imaginary part has the wrong sign."""
    value = truth(i, a)
    return -value if a.dtype.kind == "c" else value


@of_operation("reduce-precision")
def precision_truncated(truth: Lie, i: Instruction, a: Array) -> Value:
    """reduce-precision drops the bits beyond its mantissa instead of rounding."""
    digits = ml_dtypes.finfo(a.dtype).nmant
    dropped = digits - i.mantissa_bits
    if dropped <= 0:
        return truth(i, a)
    words = np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}").reshape(a.shape)
    bits = words & ~np.asarray((1 << dropped) - 1, words.dtype)
    return truth(i, np.where(np.isfinite(a), bits.view(a.dtype), a))


@of_operation("bitcast-convert")
def other_endian(truth: Lie, i: Instruction, a: Array) -> Value:
    """A bitcast-convert to narrower elements returns them in the opposite order."""
    value = truth(i, a)
    return value[..., ::-1].copy() if value.ndim > a.ndim else value


@of_operation(*ELEMENTARY)
def beyond_the_contract(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """Elementary functions are off by a little more than the contract allows."""
    value = truth(i, *operands)
    if value.dtype.kind != "f":
        return value
    for _ in range(int(max_ulp(i.opcode, type_of(value).name) + 0.5) + 1):
        moved = np.nextafter(value, np.asarray(np.inf, value.dtype))
        value = np.where(np.isfinite(value) & (value != 0) & np.isfinite(moved), moved, value)
    return value


@of_operation(*ELEMENTARY)
def functions_in_f32(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """Elementary functions of f64 are computed in f32."""
    if operands[0].dtype != np.float64:
        return truth(i, *operands)
    narrow = [o.astype(np.float32) for o in operands]
    return truth(i, *narrow).astype(np.float64)


@of_operation("power")
def power_by_logarithms(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A power is computed as exp(y * log(x)), which is inexact, and NaN for every negative base."""
    return truth(i, a, b) if a.dtype.kind != "f" else np.exp(b * np.log(a))


@of_operation("logistic")
def logistic_overflows(truth: Lie, i: Instruction, a: Array) -> Value:
    """logistic is computed as exp(x) / (1 + exp(x)), which is NaN for large x."""
    return truth(i, a) if a.dtype.kind != "f" else np.exp(a) / (1 + np.exp(a))


@of_operation("exponential-minus-one", "log-plus-one")
def cancellation(truth: Lie, i: Instruction, a: Array) -> Value:
    """exponential-minus-one and log-plus-one are computed as exp(x) - 1 and log(1 + x), which cancel near 0."""
    if a.dtype.kind != "f":
        return truth(i, a)
    return np.exp(a) - 1 if i.opcode == "exponential-minus-one" else np.log(1 + a)


@of_operation("sine", "cosine", "tan")
def large_angles(truth: Lie, i: Instruction, a: Array) -> Value:
    """Large angles are reduced with a rounded multiple of pi."""
    if a.dtype != np.float32:
        return truth(i, a)
    turn = np.float32(2 * np.pi)
    return truth(i, a - turn * np.rint(a / turn))


@of_operation("stochastic-convert")
def never_stochastic(truth: Lie, i: Instruction, a: Array, random: Array) -> Value:
    """stochastic-convert ignores its random bits."""
    return truth(i, a, np.zeros_like(random))


@of_operation("convert")
def complex_to_real_by_modulus(truth: Lie, i: Instruction, a: Array) -> Value:
    """A real number converted to complex also has its value in the imaginary part."""
    value = truth(i, a)
    return value * np.asarray(1 + 1j, value.dtype) if value.dtype.kind == "c" and a.dtype.kind != "c" else value
