"""The HLO of NumPy's ufuncs: a table, and how their types and shapes are resolved.

Types follow NumPy: `ufunc.resolve_dtypes` says in which types an operation computes (a Python number is weak);
broadcasting aligns the last dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from refxla_spec.types import ELEMENT_TYPES, PRED

from ...ir.builder import Build, reducer
from ...ir.literals import is_splat
from ..exponents import frexp, log10
from . import dispatch
from .advice import unsupported
from .array import Traced
from .dispatch import xp
from .extremes import CLIP, compared, extreme, ignoring_nan, ordered
from .folds import accumulate_in_order, reduce_in_order
from .number import Number
from .reduction_functions import LOGICAL, REDUCERS, accumulate_by, identity_of, is_given, reduce_by
from .tracing import Tracing
from .values import (
    I,
    array_of,
    element_type_of,
    is_nan,
    known_value,
    lift,
    normal_axes,
    normal_axis,
    own_axis,
    spread,
    truth,
    weak,
    wrap,
)


def _compare(direction: str) -> Callable[..., Any]:
    return lambda b, x, y: compared(b, x, y, direction)


def _floor_divide(b: Build, x: I, y: I) -> I:
    if x.shape.element_type.is_float:
        return _divmod_of_floats(b, x, y)[0]
    quotient, none = b.divide(x, y), b.compare(y, 0, direction="EQ")
    if x.shape.element_type.kind == "signed":
        rest = b.remainder(x, y)
        crossing = b.and_(b.compare(rest, 0, direction="NE"), b.compare(b.xor(rest, y), 0, direction="LT"))
        quotient = b.select(crossing, b.subtract(quotient, 1), quotient)
    return b.select(none, b.full(0, x.shape), quotient)


def _modulo(b: Build, x: I, y: I) -> I:
    """Python's remainder: it has the sign of the divisor."""
    if x.shape.element_type.is_float:
        return _divmod_of_floats(b, x, y)[1]
    rest = b.remainder(x, y)
    if x.shape.element_type.kind == "signed":
        wrong = b.compare(b.compare(rest, 0, direction="LT"), b.compare(y, 0, direction="LT"), direction="NE")
        rest = b.select(b.and_(wrong, b.compare(rest, 0, direction="NE")), b.add(rest, y), rest)
    return b.select(b.compare(y, 0, direction="EQ"), b.full(0, x.shape), rest)


def _fmod(b: Build, x: I, y: I) -> I:
    """C's remainder: it has the sign of the dividend."""
    rest = b.remainder(x, y)
    if x.shape.element_type.is_float:
        return rest
    return b.select(b.compare(y, 0, direction="EQ"), b.full(0, x.shape), rest)


def _copysign(b: Build, x: I, y: I) -> I:
    size = b.abs(x)
    return b.select(_signbit(b, y), b.negate(size), size)


def _signbit(b: Build, x: I) -> I:
    unsigned = {16: "u16", 32: "u32", 64: "u64"}[x.shape.element_type.bits]
    bits = b.make("bitcast-convert", x, shape=x.shape.with_element_type(ELEMENT_TYPES[unsigned]))
    return b.compare(b.shift_right_logical(bits, x.shape.element_type.bits - 1), 0, direction="NE")


def _divmod_of_floats(b: Build, x: I, y: I) -> tuple[I, I]:
    """Python's quotient and remainder: x - remainder is a multiple of y, and the remainder has y's sign.

    The quotient is that multiple divided by y, rounded: x / y itself may be rounded up to the next integer.
    """
    rest = b.remainder(x, y)
    other_sign = b.compare(b.compare(rest, 0, direction="LT"), b.compare(y, 0, direction="LT"), direction="NE")
    crossing = b.and_(other_sign, b.compare(rest, 0, direction="NE"))
    quotient = b.divide(b.subtract(x, rest), y)
    quotient = b.select(crossing, b.subtract(quotient, 1), quotient)
    rest = b.select(crossing, b.add(rest, y), rest)
    rest = b.select(b.compare(rest, 0, direction="EQ"), _copysign(b, b.full(0, x.shape), y), rest)
    floor = b.floor(quotient)
    whole = b.select(b.compare(b.subtract(quotient, floor), 0.5, direction="GT"), b.add(floor, 1), floor)
    ratio = b.divide(x, y)
    whole = b.select(b.compare(quotient, 0, direction="EQ"), _copysign(b, b.full(0, x.shape), ratio), whole)
    none = b.compare(y, 0, direction="EQ")
    return b.select(none, ratio, whole), b.select(none, b.full(np.nan, x.shape), rest)


def _hypot(b: Build, x: I, y: I) -> I:
    """sqrt(x^2 + y^2), scaled by the larger of the two, so that no square overflows."""
    x, y = b.abs(x), b.abs(y)
    large, small = b.maximum(x, y), b.minimum(x, y)
    ratio = b.select(b.compare(large, 0, direction="EQ"), b.full(0, x.shape), b.divide(small, large))
    value = b.multiply(large, b.sqrt(b.add(b.multiply(ratio, ratio), 1)))
    infinite = b.or_(b.compare(x, np.inf, direction="EQ"), b.compare(y, np.inf, direction="EQ"))
    return b.select(infinite, b.full(np.inf, x.shape), value)


def _log_of_sum(
    b: Build, x: I, y: I, exponential: Callable[..., Any], log_plus_one: Callable[..., Any], log_of_two: float
) -> I:
    high, low = b.maximum(x, y), b.minimum(x, y)
    return b.select(b.compare(x, y, direction="EQ"), b.add(x, log_of_two),
                    b.add(high, log_plus_one(exponential(b.subtract(low, high)))))  # fmt: skip


def _logaddexp2(b: Build, x: I, y: I) -> I:
    two = float(np.log(2))
    return _log_of_sum(
        b, x, y, lambda d: b.exponential(b.multiply(d, two)), lambda e: b.divide(b.log_plus_one(e), two), 1.0
    )


def _shift(opcode: str) -> Callable[..., Any]:
    """A shift; by at least the number of bits, it leaves only the sign."""

    def apply(b: Build, x: I, y: I) -> I:
        kind, bits = x.shape.element_type.kind, x.shape.element_type.bits
        if opcode == "left":
            return b.shift_left(x, y)
        if kind == "unsigned":
            return b.shift_right_logical(x, y)
        y = b.select(b.compare(y, 0, direction="LT"), b.full(bits - 1, y.shape), y)
        return b.shift_right_arithmetic(x, b.minimum(y, b.full(bits - 1, y.shape)))

    return apply


def _gcd(b: Build, x: I, y: I) -> I:
    """Euclid's algorithm."""
    x, y = (v if v.shape.element_type.kind == "unsigned" else b.abs(v) for v in (x, y))

    def step(k: I, x: I, y: I, _: I) -> list[I]:
        done = b.compare(y, 0, direction="EQ")
        rest = b.remainder(x, b.select(done, b.full(1, y.shape), y))
        x, y = b.select(done, x, y), b.select(done, y, rest)
        return [x, y, any_of(b, b.compare(y, 0, direction="NE"))]

    more = any_of(b, b.compare(y, 0, direction="NE"))
    divisor = b.repeat(2**31 - 1, step, [x, y, more], more=lambda k, x, y, more: more)[0]
    return (
        divisor if divisor.shape.element_type.kind == "unsigned" else b.abs(divisor)
    )  # the minimum integer stays negative


def any_of(b: Build, x: I) -> I:
    """Whether an element is true."""
    if not x.shape.rank:
        return x
    every = tuple(range(x.shape.rank))
    return b.make("reduce", x, b.scalar(False, PRED), dimensions=every, to_apply=reducer("or", PRED))


def _lcm(b: Build, x: I, y: I) -> I:
    common = _gcd(b, x, y)
    x, y = _abs(b, x), _abs(b, y)
    none = b.compare(common, 0, direction="EQ")
    return b.multiply(b.divide(x, b.select(none, b.full(1, x.shape), common)), y)


def _heaviside(b: Build, x: I, y: I) -> I:
    positive, negative = b.compare(x, 0, direction="GT"), b.compare(x, 0, direction="LT")
    value = b.select(positive, b.full(1, x.shape), b.select(negative, b.full(0, x.shape), y))
    return b.select(is_nan(b, x), x, value)


def _nextafter(b: Build, x: I, y: I) -> I:
    """The next number after x in y's direction: its bits, as a number, one up or down."""
    t = x.shape.element_type
    signed = ELEMENT_TYPES[{16: "s16", 32: "s32", 64: "s64"}[t.bits]]
    bits = b.make("bitcast-convert", x, shape=x.shape.with_element_type(signed))
    zero, up = b.compare(x, 0, direction="EQ"), b.compare(x, y, direction="LT")
    away = b.compare(up, b.compare(x, 0, direction="GT"), direction="EQ")
    moved = b.select(away, b.add(bits, 1), b.subtract(bits, 1))
    moved = b.make("bitcast-convert", moved, shape=x.shape)
    number = t.array_dtype.type
    tiny = b.full(np.nextafter(number(0), number(1)), x.shape)
    moved = b.select(zero, b.select(up, tiny, b.negate(tiny)), moved)
    value = b.select(b.compare(x, y, direction="EQ"), y, moved)
    return b.select(b.or_(is_nan(b, x), is_nan(b, y)), b.full(np.nan, x.shape), value)


def _ldexp(b: Build, x: I, n: I) -> I:
    """x 2^n, in three steps, so that no intermediate power overflows or underflows."""
    t = x.shape.element_type
    limit = {16: 14, 32: 126, 64: 1022}[t.bits]
    n = b.convert(b.clamp(b.full(-3 * limit, n.shape), n, b.full(3 * limit, n.shape)), "s32")
    value = x
    for _ in range(3):
        part = b.clamp(b.full(-limit, n.shape), n, b.full(limit, n.shape))
        value, n = b.multiply(value, _power_of_two(b, part, t)), b.subtract(n, part)
    return value


def _power_of_two(b: Build, n: I, t: Any) -> I:
    """2^n as a normal number, constructed from its bits."""
    signed, mantissa, bias = {16: ("s16", 10, 15), 32: ("s32", 23, 127), 64: ("s64", 52, 1023)}[t.bits]
    bits = b.shift_left(b.add(b.convert(n, signed), bias), mantissa)
    return b.make("bitcast-convert", bits, shape=bits.shape.with_element_type(t))


def _modf(b: Build, x: I) -> tuple[I, I]:
    whole = _trunc(b, x)
    infinite = b.compare(b.abs(x), np.inf, direction="EQ")
    part = b.select(infinite, b.full(0, x.shape), b.subtract(x, whole))
    return _copysign(b, part, x), _copysign(b, whole, x)


def _sign(b: Build, x: I) -> I:
    """For a complex number, z / |z|; a zero stays zero, without a sign."""
    if not x.shape.element_type.is_complex:
        kind = x.shape.element_type.kind
        sign = b.minimum(x, 1) if kind == "unsigned" else x if kind == "pred" else b.sign(x)
        return b.add(sign, 0) if kind == "float" else sign
    size = b.abs(x)
    none = b.compare(size, 0, direction="EQ")
    safe = b.select(none, b.full(1, size.shape), size)
    parts = (b.select(none, b.full(0, size.shape), b.divide(part, safe)) for part in (b.real(x), b.imag(x)))
    return b.complex(*parts)


def _reciprocal(b: Build, x: I) -> I:
    """1 / x; for integers 0, except for 1 and -1."""
    if not x.shape.element_type.is_integer:
        return b.divide(b.full(1, x.shape), x)
    return b.select(b.compare(b.abs(x) if x.shape.element_type.kind == "signed" else x, 1, direction="EQ"), x,
                    b.full(0, x.shape))  # fmt: skip


def _constant_exponent(y: I) -> np.ndarray | None:
    while y.opcode in ("broadcast", "reshape"):
        y = y.operands[0]
    return y.literal if y.opcode == "constant" else None


def _may_be_refused(y: I) -> bool:
    """Whether an exponent may be a negative integer, which NumPy rejects."""
    exponent = _constant_exponent(y)
    return y.shape.element_type.kind == "signed" and not (exponent is not None and (exponent >= 0).all())


def _complex_power(b: Build, x: I, n: int) -> I:
    """The product of |n| numbers x, or its reciprocal, in NumPy's order; n is not 0."""
    if n == 3:
        return b.multiply(x, b.multiply(x, x))
    result, power = None, x
    for bit in reversed(f"{abs(n):b}"):
        if bit == "1":
            result = power if result is None else b.multiply(result, power)
        power = b.multiply(power, power)
    assert result is not None  # n has a bit
    if n > 0:
        return result
    nan = b.full(np.nan, b.real(x).shape)
    vanishes = b.compare(x, 0, direction="EQ")
    return b.select(vanishes, b.complex(nan, nan), b.divide(b.full(1, x.shape), result))


def _power(b: Tracing, x: I, y: I) -> I:
    """x^y; for a constant exponent for which NumPy does not use the power function (`fast_scalar_power` in its
    number.c, and `npy_cpow`), the same computation as NumPy's: the same value to the last bit, in a fraction of the
    time."""
    t, exponent = x.shape.element_type, _constant_exponent(y)
    if exponent is not None and is_splat(exponent):
        value = exponent.reshape(-1)[0]
        if value == 2:
            return b.multiply(x, x)
        if t.is_float and value in (-1, 0.5, 1):
            return _reciprocal(b, x) if value == -1 else b.sqrt(x) if value == 0.5 else x
        if t.is_complex and value == np.rint(value.real) and 0 < abs(value) < 100:
            return _complex_power(b, x, int(value.real))
    if _may_be_refused(y):
        b.check(b.compare(y, 0, direction="GE"), ValueError, "Integers to negative integer powers are not allowed.")
    if t.is_complex:
        vanishes = b.and_(b.compare(x, 0, direction="EQ"), b.compare(b.real(y), 0, direction="GT"))
        return b.select(vanishes, b.full(0, x.shape), b.power(x, y))
    return b.power(x, y)


def _trunc(b: Build, x: I) -> I:
    if not x.shape.element_type.is_float:
        return x
    return b.select(b.compare(x, 0, direction="LT"), b.ceil(x), b.floor(x))


def _logaddexp(b: Build, x: I, y: I) -> I:
    return _log_of_sum(b, x, y, b.exponential, b.log_plus_one, float(np.log(2)))


def _rounded(opcode: str) -> Callable[..., Any]:
    """Rounding, which leaves integers unchanged."""
    return lambda b, x: getattr(b, opcode)(x) if x.shape.element_type.is_float else x


def _abs(b: Build, x: I) -> I:
    kind = x.shape.element_type.kind
    return x if kind in ("pred", "unsigned") else b.abs(x)


def _rint(b: Build, x: I) -> I:
    t = x.shape.element_type
    if t.is_complex:
        return b.complex(b.round_nearest_even(b.real(x)), b.round_nearest_even(b.imag(x)))
    return b.round_nearest_even(x) if t.is_float else x


def _is_finite(b: Build, x: I) -> I:
    if x.shape.element_type.is_complex:
        return b.and_(b.is_finite(b.real(x)), b.is_finite(b.imag(x)))
    return b.is_finite(x)


def _of_floats(function: Callable[..., Any], otherwise: bool) -> Callable[..., Any]:
    """A test of floating-point and complex numbers, whose result is the same for all integers."""

    def apply(b: Build, x: I) -> I:
        if x.shape.element_type.is_float or x.shape.element_type.is_complex:
            return function(b, x)
        return b.full(otherwise, x.shape.with_element_type(PRED))

    return apply


def _scaled(factor: float) -> Callable[..., Any]:
    return lambda b, x: b.multiply(x, factor)


def _arctan(b: Build, x: I) -> I:
    """For a complex number, -i arctanh(i z), which is right at infinity and around the poles."""
    if not x.shape.element_type.is_complex:
        return b.atan2(x, 1)
    turned = b.atanh(b.complex(b.negate(b.imag(x)), b.real(x)))
    return b.complex(b.imag(turned), b.negate(b.real(turned)))


def _clip(b: Build, x: I, low: I, high: I) -> I:
    return extreme("LT", "minimum")(b, extreme("GT", "maximum")(b, x, low), high)


def _divmod(b: Build, x: I, y: I) -> tuple[I, I]:
    return _floor_divide(b, x, y), _modulo(b, x, y)


# The opcode if the operation is HLO's of another name; otherwise a function of the builder and the operands.
UFUNCS: dict[np.ufunc, str | Callable[..., Any]] = {
    np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.true_divide: "divide",
    np.floor_divide: _floor_divide, np.remainder: _modulo, np.fmod: _fmod, np.power: _power,
    np.float_power: _power, np.negative: "negate", np.positive: lambda b, x: x, np.absolute: _abs, np.fabs: "abs",
    np.sign: _sign, np.exp: "exponential", np.expm1: "exponential_minus_one", np.log: "log",
    np.log1p: "log_plus_one", np.log2: "log2", np.log10: log10, np.exp2: "exp2",
    np.sqrt: "sqrt", np.cbrt: "cbrt", np.square: lambda b, x: b.multiply(x, x),
    np.reciprocal: _reciprocal,
    np.sin: "sine", np.cos: "cosine", np.tan: "tan", np.arcsin: "asin", np.arccos: "acos",
    np.arctan: _arctan, np.arctan2: "atan2", np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh",
    np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh",
    np.hypot: _hypot, np.logaddexp: _logaddexp, np.logaddexp2: _logaddexp2,
    np.maximum: extreme("GT", "maximum"), np.minimum: extreme("LT", "minimum"), CLIP: _clip,
    np.fmax: ignoring_nan("maximum"), np.fmin: ignoring_nan("minimum"),
    np.floor: _rounded("floor"), np.ceil: _rounded("ceil"), np.trunc: _trunc, np.rint: _rint,
    np.isnan: _of_floats(is_nan, False), np.isfinite: _of_floats(_is_finite, True),
    np.isinf: _of_floats(lambda b, x: b.compare(b.abs(x), np.inf, direction="EQ"), False),
    np.signbit: _signbit, np.copysign: _copysign, np.nextafter: _nextafter, np.heaviside: _heaviside,
    np.ldexp: _ldexp, np.frexp: frexp, np.modf: _modf, np.divmod: lambda b, x, y: _divmod(b, x, y),
    np.gcd: _gcd, np.lcm: _lcm, np.deg2rad: _scaled(np.pi / 180), np.radians: _scaled(np.pi / 180),
    np.rad2deg: _scaled(180 / np.pi), np.degrees: _scaled(180 / np.pi),
    np.bitwise_count: lambda b, x: b.convert(b.popcnt(_abs(b, x)), "u8"),
    np.equal: _compare("EQ"), np.not_equal: _compare("NE"), np.less: ordered("LT"),
    np.less_equal: ordered("LE"), np.greater: ordered("GT"), np.greater_equal: ordered("GE"),
    np.logical_and: lambda b, x, y: b.and_(truth(b, x), truth(b, y)),
    np.logical_or: lambda b, x, y: b.or_(truth(b, x), truth(b, y)),
    np.logical_xor: lambda b, x, y: b.xor(truth(b, x), truth(b, y)),
    np.logical_not: lambda b, x: b.not_(truth(b, x)),
    np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor", np.invert: "not",
    np.left_shift: _shift("left"), np.right_shift: _shift("right"),
    np.conjugate: lambda b, x: b.complex(b.real(x), b.negate(b.imag(x))) if x.shape.element_type.is_complex else x,
}  # fmt: skip


def apply_ufunc(
    b: Tracing, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any], out: Any = None
) -> Any:
    """A ufunc called, reduced, accumulated or applied to all pairs."""
    dtype = options.get("dtype")
    if method == "outer":
        x, y = (array_of(b, v) for v in inputs)
        return ufunc(x.reshape(x.shape + (1,) * y.ndim), y, **options)
    if method != "__call__":
        options = {k: v for k, v in options.items() if k != "dtype"}
    if method == "reduce" and ufunc in REDUCERS:
        keywords = {k: v for k, v in options.items() if is_given(v)}
        axis = keywords.pop("axis", inputs[1] if len(inputs) > 1 else 0) if options.get("axis", 0) is not None else None
        keywords.pop("axis", None)
        return reduce_by(ufunc, array_of(b, inputs[0]), axis, dtype, **keywords)
    if method == "reduce" and ufunc in (np.logaddexp, np.logaddexp2):
        options = {**dict(zip(("axis",), inputs[1:], strict=False)), **options, "dtype": dtype}
        return _log_of_sums(ufunc, array_of(b, inputs[0]), **options)
    if method == "accumulate" and ufunc.nin == 2 and ufunc in UFUNCS:
        if not np.ndim(inputs[0]):
            raise TypeError("cannot accumulate on a scalar")
        accumulate = accumulate_by if ufunc in REDUCERS else accumulate_in_order
        return accumulate(ufunc, array_of(b, inputs[0]), dtype=dtype, **options)
    if method == "reduce" and ufunc.nin == 2 and ufunc in UFUNCS:
        options = {**dict(zip(("axis",), inputs[1:], strict=False)), **options}
        return reduce_in_order(ufunc, array_of(b, inputs[0]), dtype=dtype, **options)
    if method == "reduceat" and ufunc in REDUCERS:
        return _reduce_at(ufunc, array_of(b, inputs[0]), inputs[1], dtype=dtype, **options)
    where = options.get("where", True)
    refused = [k for k in options if k not in (_HONOURED if ufunc.signature is None else _HONOURED_OF_PRODUCTS)]
    if method != "__call__" or refused:
        raise unsupported(ufunc, f".{method}" if method != "__call__" else f" with {', '.join(refused)}")
    if ufunc in dispatch.FUNCTIONS:
        return _product(b, ufunc, inputs, options)
    implementation = UFUNCS.get(ufunc)
    if implementation is None:
        raise unsupported(ufunc)
    if ufunc in _COMPARISONS and any(getattr(weak(x), "kind", "") in ("i", "u") for x in inputs):
        # The Python integer of a call may be out of range of the type with which it is compared.
        inputs = tuple(array_of(b, x, np.int64) if isinstance(x, Number) and x.kind is int else x for x in inputs)
    kinds = tuple(weak(x) for x in inputs)
    types = _types(ufunc, kinds, options)
    if ufunc in _COMPARISONS and any(_is_beyond(x, t) for x, t in zip(inputs, types, strict=False)):
        # Then it is on one side of all values of the other, as 1 or -1 is of 0.
        inputs = [np.sign(x) if _is_beyond(x, t) else np.zeros(np.shape(x), np.int8)
                  for x, t in zip(inputs, types, strict=False)]  # fmt: skip
        types = _types(ufunc, [weak(x) for x in inputs], {})
    operands = [lift(b, x, t) for x, t in zip(inputs, types, strict=False)]
    dimensions = np.broadcast_shapes(*(o.shape.dimensions for o in operands))
    operands = [spread(b, o, dimensions) for o in operands]
    if ufunc is np.power and where is not True and _may_be_refused(operands[1]):  # not one that has no part
        chosen = spread(b, truth(b, lift(b, where)), dimensions)
        operands[1] = b.select(chosen, operands[1], b.full(0, operands[1].shape))
    apply = getattr(b, implementation) if isinstance(implementation, str) else lambda *o: implementation(b, *o)
    result = apply(*operands)
    results = result if isinstance(result, tuple) else (result,)
    arrays = [wrap(b, b.convert(r, element_type_of(t))) for r, t in zip(results, types[ufunc.nin :], strict=True)]
    # The result of an operator is weak if its operands are; a ufunc of Python numbers alone returns an array.
    if ufunc in _OPERATORS and all(isinstance(k, type) for k in kinds) and any(isinstance(x, Traced) for x in inputs):
        for a in arrays:
            a.python = {"i": int, "f": float, "c": complex}.get(a.dtype.kind)
    if where is not True and out is None:  # in NumPy, other elements differ between runs
        arrays = [xp.where(where, a, xp.zeros_like(a)) for a in arrays]
    return tuple(arrays) if isinstance(result, tuple) else arrays[0]


# The options of a ufunc; the order of elements in memory and subclasses of arrays do not affect values.
_HONOURED = ("dtype", "signature", "casting", "where", "order", "subok")
_HONOURED_OF_PRODUCTS = ("dtype", "signature", "casting", "axis", "order", "subok")


def _types(ufunc: np.ufunc, kinds: Sequence[Any], options: dict[str, Any]) -> Any:
    """The types of operands and results in which a ufunc computes, from what `weak` says of its inputs."""
    outputs = (None,) * ufunc.nout
    signature, dtype = options.get("signature"), options.get("dtype")
    if signature is None:
        signature = (*(None for _ in kinds), *(None if dtype is None else np.dtype(dtype) for _ in outputs))
    casting = options.get("casting", "same_kind")
    try:
        return ufunc.resolve_dtypes((*kinds, *outputs), signature=signature, casting=casting)
    except TypeError:
        for kind in kinds:  # a string or a date among arrays: the error of other functions for it
            if isinstance(kind, np.dtype):
                element_type_of(kind)
        raise


def _is_beyond(x: Any, dtype: np.dtype) -> bool:
    """Whether a Python integer is out of range of an integer type."""
    return type(x) is int and dtype.kind in "iu" and not np.iinfo(dtype).min <= x <= np.iinfo(dtype).max


def _product(b: Tracing, ufunc: np.ufunc, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """np.matmul and the like, which other functions compute."""
    places = {k: v for k, v in options.items() if k == "axis"}
    if not options.keys() & {"dtype", "signature", "casting"}:
        return dispatch.FUNCTIONS[ufunc](*inputs, **places)
    *types, own = _types(ufunc, [weak(x) for x in inputs], options)
    return dispatch.FUNCTIONS[ufunc](*(array_of(b, x, t) for x, t in zip(inputs, types, strict=True)), **places).astype(
        own
    )


_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
_OPERATORS = (np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.power, np.negative,
              np.positive, np.absolute)  # fmt: skip


def _reduce_at(ufunc: np.ufunc, x: Traced, indices: Any, axis: int = 0, dtype: Any = None) -> Traced:
    """Reductions of the parts from each position, all of which are known, to the next one; of one element, if the next
    one is not greater. Parts of similar lengths are the rows of one reduction."""
    starts = known_value(indices)
    if starts is None or not starts.size:
        raise unsupported(ufunc, ".reduceat with places that are not known")
    axis = normal_axis(axis, x.ndim)
    size = x.shape[axis]
    for start in starts[(starts < 0) | (starts >= size)]:
        raise IndexError(f"index {start} out-of-bounds in {ufunc.__name__}.reduceat [0, {size})")
    lengths = np.maximum(np.append(starts[1:], size) - starts, 1)
    classes = np.frexp(lengths - 1)[1]  # of lengths above a power of two and up to the next
    parts = []
    for one in np.unique(classes):
        chosen = classes == one
        parts.append(_reduced_rows(ufunc, x, starts[chosen], lengths[chosen], axis, dtype))
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.argsort(classes, kind="stable"))
    return xp.take(xp.concatenate(parts, axis=axis), order, axis=axis)


def _reduced_rows(ufunc: np.ufunc, x: Traced, starts: np.ndarray, lengths: np.ndarray, axis: int, dtype: Any) -> Traced:
    """Reductions of parts of an array; shorter parts are padded to the longest."""
    count, longest = starts.size, int(lengths.max())
    if (lengths == longest).all() and (np.diff(starts) == longest).all():
        rows = x[(slice(None),) * axis + (slice(int(starts[0]), int(starts[0]) + count * longest),)]
        rows = rows.reshape(*x.shape[:axis], count, longest, *x.shape[axis + 1 :])
    else:
        places = np.minimum(np.arange(longest), lengths[:, None] - 1)
        rows = xp.take(x, starts[:, None] + places, axis=axis)
    if (lengths == longest).all():
        return reduce_by(ufunc, rows, axis + 1, dtype)
    inside = (np.arange(longest) < lengths[:, None]).reshape(count, longest, *(1,) * (x.ndim - 1 - axis))
    own = np.dtype(bool) if ufunc in LOGICAL else x.dtype
    return reduce_by(ufunc, rows, axis + 1, dtype, initial=identity_of(REDUCERS[ufunc], own), where=inside)


def _log_of_sums(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Any:  # fmt: skip
    """The logarithm of a sum of powers of e or 2, with the largest factored out, so that none overflows."""
    own, axis = _types(ufunc, (x.dtype, x.dtype), {"dtype": dtype})[-1], own_axis(axis, x.ndim)
    x = x.astype(own)
    if where is not True and is_given(where):
        x = np.where(where, x, own.type(-np.inf))
    power, logarithm = (np.exp, np.log) if ufunc is np.logaddexp else (np.exp2, np.log2)
    high = xp.max(x, axis=axis, keepdims=True, initial=-np.inf)
    high = np.where(np.isfinite(high), high, 0).astype(own)
    total = logarithm(xp.sum(power(x - high), axis=axis, keepdims=True)) + high
    if is_given(initial):
        total = ufunc(total, initial).astype(own)
    return total if keepdims else np.squeeze(total, axis=normal_axes(axis, x.ndim))


dispatch.UFUNCS["apply"] = apply_ufunc
