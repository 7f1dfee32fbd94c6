"""Elementwise operations. PyTorch computes some of f16 and bf16 in f32 and rounds once; so do the lowerings."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi
from typing import Any

from refxla_spec.types import PRED, S32

from .. import special
from ..exponents import log10
from .lowering import I, Lowering, NotLowered, Operand, lowers, real_of, reducer, wide
from .tensors import element_type

Compute = Callable[..., I]


def _in_wide(b: Lowering, compute: Compute, *values: Operand) -> I:
    """A computation in the type in which PyTorch computes, rounded to the result's type."""
    own = b.result.element_type
    return b.cast(compute(b, *b.operands(*values, of=wide(own))), own)


def _unary(compute: Compute, *names: str) -> None:
    lowers(*names)(lambda b, x: _in_wide(b, compute, x))


def _hlo(opcode: str) -> Compute:
    def apply(b: Lowering, *operands: I) -> I:
        return b.make(opcode, *operands)

    return apply


# ATen's name: HLO's opcode
for _name, _opcode in {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atanh": "atanh", "ceil": "ceil",
    "cos": "cosine", "cosh": "cosh", "erf": "erf", "exp": "exponential", "expm1": "exponential-minus-one",
    "floor": "floor", "log": "log", "log1p": "log-plus-one", "neg": "negate", "round": "round-nearest-even",
    "exp2": "exp2", "log2": "log2",
    "rsqrt": "rsqrt", "sigmoid": "logistic", "sin": "sine", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan",
    "tanh": "tanh",
}.items():  # fmt: skip
    _unary(_hlo(_opcode), _name)


def _whole(compute: Compute) -> Compute:
    """For integers, the value itself."""
    return lambda b, x: compute(b, x) if x.shape.element_type.is_float else x


for _name, _opcode in {"ceil": "ceil", "floor": "floor", "round": "round-nearest-even"}.items():
    _unary(_whole(_hlo(_opcode)), _name)


def truncated(b: Lowering, x: I) -> I:
    """Without the fraction."""
    return b.select(b.compare(x, 0, direction="LT"), b.ceil(x), b.floor(x))


_unary(_whole(truncated), "trunc")


@lowers("round.decimals")
def round_decimals(b: Lowering, x: I, *, decimals: int = 0) -> I:
    scale = 10.0 ** abs(decimals)

    def compute(b: Lowering, x: I) -> I:
        if not x.shape.element_type.is_float:
            return x
        before, after = ("divide", "multiply") if decimals < 0 else ("multiply", "divide")
        factor = b.full(scale, x.shape)
        return b.make(after, b.make("round-nearest-even", b.make(before, x, factor)), factor)

    return _in_wide(b, compute, x)


_unary(lambda b, x: b.atan2(x, b.full(1, x.shape)), "atan")
_unary(lambda b, x: b.divide(b.full(1, x.shape), x), "reciprocal")
_unary(log10, "log10")
_unary(lambda b, x: b.conjugate(x), "_conj", "_conj_copy", "conj_physical", "_conj_physical")
_unary(lambda b, x: x, "clone", "alias", "detach", "detach_copy", "lift_fresh_copy", "lift_fresh", "contiguous", "lift",
       "resolve_conj", "resolve_neg", "_neg_view_copy", "alias_copy", "positive")  # fmt: skip


for _compute, *_names in (
    (special.lgamma, "lgamma"), (special.digamma, "digamma"), (special.erfc, "erfc"), (special.erfinv, "erfinv"),
    (special.erfcx, "special_erfcx"), (special.i0, "i0", "special_modified_bessel_i0"), (special.i0e, "special_i0e"),
    (special.i1, "special_i1", "special_modified_bessel_i1"), (special.i1e, "special_i1e"),
):  # fmt: skip
    _unary(_compute, *_names)


@lowers("polygamma")
def polygamma(b: Lowering, n: int, x: I) -> I:
    """The derivative of digamma of this order."""
    if n > 1:
        raise NotLowered("of an order above 1")
    return _in_wide(b, special.trigamma if n else special.digamma, x)


@lowers("clone")
def clone(b: Lowering, x: I, *, memory_format: Any = None) -> I:
    return x


@lowers("relu")
def relu(b: Lowering, x: I) -> I:
    return b.maximum(x, 0)


@lowers("abs")
def absolute(b: Lowering, x: I) -> I:
    return x if x.shape.element_type.kind in ("pred", "unsigned") else b.make("abs", x)


@lowers("sign", "sgn")
def sign(b: Lowering, x: I) -> I:
    own = x.shape.element_type
    if own is PRED:
        return x
    if own.is_complex:  # x / |x|, part by part: a complex quotient would divide infinities
        size = b.make("abs", x)
        parts = (b.divide(b.make(part, x), size) for part in ("real", "imag"))
        return b.select(b.compare(size, 0, direction="EQ"), 0, b.make("complex", *parts))
    if not own.is_float:
        return b.make("sign", x)
    return b.select(is_nan(b, x), 0, b.make("sign", x))


def is_nan(b: Lowering, x: I) -> I:
    return b.compare(x, x, direction="NE")


@lowers("isnan")
def isnan(b: Lowering, x: I) -> I:
    return is_nan(b, x)


@lowers("isinf", "isposinf", "isneginf")
def isinf(b: Lowering, x: I) -> I:
    if x.shape.element_type.is_complex:
        return b.or_(*(isinf(b, b.make(part, x)) for part in ("real", "imag")))
    if not x.shape.element_type.is_float:
        return b.full(False, b.result)
    return b.compare(b.abs(x), inf, direction="EQ")


@lowers("isposinf")
def isposinf(b: Lowering, x: I) -> I:
    if not x.shape.element_type.is_float:
        return b.full(False, b.result)
    return b.compare(x, inf, direction="EQ")


@lowers("isneginf")
def isneginf(b: Lowering, x: I) -> I:
    if not x.shape.element_type.is_float:
        return b.full(False, b.result)
    return b.compare(x, -inf, direction="EQ")


@lowers("isfinite")
def isfinite(b: Lowering, x: I) -> I:
    if x.shape.element_type.is_complex:
        return b.and_(*(b.make("is-finite", b.make(part, x)) for part in ("real", "imag")))
    return b.make("is-finite", x) if x.shape.element_type.is_float else b.full(True, b.result)


@lowers("signbit", "prims::signbit")
def signbit(b: Lowering, x: I) -> I:
    own = x.shape.element_type
    if own.is_float and own.bits in (16, 32, 64):
        integers = x.shape.with_element_type(element_type(_SIGNED[own.bits]))
        x = b.make("bitcast-convert", x, shape=integers)
    elif own.kind != "signed":
        return b.full(False, b.result)
    return b.compare(x, 0, direction="LT")


@lowers("copysign.Tensor", "copysign.Scalar")
def copysign(b: Lowering, x: I, y: Operand) -> I:
    x, y = b.operands(x, y)
    size = b.abs(x)
    return b.select(signbit(b, y), b.negate(size), size)


def _signed() -> dict[int, Any]:
    import torch

    return {16: torch.int16, 32: torch.int32, 64: torch.int64}


_SIGNED = _signed()


# -- arithmetic


def _add(b: Lowering, x: I, y: I) -> I:
    return b.make("or" if x.shape.element_type is PRED else "add", x, y)


def _multiply(b: Lowering, x: I, y: I) -> I:
    return b.make("and" if x.shape.element_type is PRED else "multiply", x, y)


def _scaled(b: Lowering, y: Operand, alpha: Operand) -> Operand:
    """alpha * y in the type in which the sum is computed."""
    if alpha == 1:
        return y
    if not isinstance(y, I):
        return y * alpha
    kind = wide(b.result.element_type)
    y = b.cast(y, kind)
    return _multiply(b, y, b.full(alpha, y.shape))


@lowers("add.Tensor", "add.Scalar", "prims::add")
def add(b: Lowering, x: I, y: Operand, alpha: Operand = 1) -> I:
    return _in_wide(b, _add, x, _scaled(b, y, alpha))


@lowers("sub.Tensor", "sub.Scalar", "prims::sub")
def sub(b: Lowering, x: I, y: Operand, alpha: Operand = 1) -> I:
    return _in_wide(b, _hlo("subtract"), x, _scaled(b, y, alpha))


@lowers("rsub.Tensor", "rsub.Scalar")
def rsub(b: Lowering, x: I, y: Operand, alpha: Operand = 1) -> I:
    return _in_wide(b, _hlo("subtract"), y, _scaled(b, x, alpha))


@lowers("mul.Tensor", "mul.Scalar", "prims::mul")
def mul(b: Lowering, x: I, y: Operand) -> I:
    return _in_wide(b, _multiply, x, y)


@lowers("prims::fma")
def fma(b: Lowering, x: Operand, y: Operand, z: Operand) -> I:
    """x y + z, which Dynamo generates for optimizers. Eager mode also rounds the product."""
    return _in_wide(b, lambda b, x, y, z: b.add(b.multiply(x, y), z), x, y, z)


@lowers("hypot", "prims::hypot")
def hypot(b: Lowering, x: I, y: I) -> I:
    """The absolute value of a complex number, without squares that overflow."""
    return _in_wide(b, lambda b, x, y: b.make("abs", b.make("complex", x, y)), x, y)


@lowers("atan2")
def atan2(b: Lowering, x: I, y: Operand) -> I:
    return _in_wide(b, _hlo("atan2"), x, y)


@lowers("maximum")
def maximum(b: Lowering, x: I, y: I) -> I:
    return b.make("maximum", *b.operands(x, y))


@lowers("minimum")
def minimum(b: Lowering, x: I, y: I) -> I:
    return b.make("minimum", *b.operands(x, y))


def _number_first(opcode: str) -> Callable[..., I]:
    """A number takes precedence over a NaN."""

    def apply(b: Lowering, x: I, y: I) -> I:
        x, y = b.operands(x, y)
        either = b.make(opcode, x, y)
        if not either.shape.element_type.is_float:
            return either
        return b.select(is_nan(b, x), y, b.select(is_nan(b, y), x, either))

    return apply


lowers("fmax")(_number_first("maximum"))
lowers("fmin")(_number_first("minimum"))


def _nonzero(b: Lowering, y: Operand) -> None:
    """PyTorch refuses to divide integers by 0."""
    if isinstance(y, I):
        b.check(b.compare(y, 0, direction="NE"), "an integer was divided by 0")
    elif y == 0:
        raise NotLowered("of integers by 0")


@lowers("div.Tensor", "div.Scalar", "true_divide.Tensor", "true_divide.Scalar")
def div(b: Lowering, x: I, y: Operand) -> I:
    return _in_wide(b, _hlo("divide"), x, y)


@lowers("div.Tensor_mode", "div.Scalar_mode")
def div_mode(b: Lowering, x: I, y: Operand, *, rounding_mode: str | None = None) -> I:
    if rounding_mode is None:
        return div(b, x, y)
    own = b.result.element_type
    if own.is_integer:
        _nonzero(b, y)
    return _in_wide(b, _floored if rounding_mode == "floor" else _towards_zero, x, y)


@lowers("floor_divide", "floor_divide.Scalar")
def floor_divide(b: Lowering, x: I, y: Operand) -> I:
    return div_mode(b, x, y, rounding_mode="floor")


def _towards_zero(b: Lowering, x: I, y: I) -> I:
    quotient = b.divide(x, y)
    return quotient if x.shape.element_type.is_integer else truncated(b, quotient)


def _signs_differ(b: Lowering, x: I, y: I) -> I:
    below = b.compare(x, 0, direction="LT"), b.compare(y, 0, direction="LT")
    return b.make("xor", *below)


def _floored(b: Lowering, x: I, y: I) -> I:
    """The quotient rounded down. For floating-point numbers as in PyTorch and Python: from the remainder, since x / y
    may round up to an integer."""
    remainder = b.remainder(x, y)
    uneven = b.and_(b.compare(remainder, 0, direction="NE"), _signs_differ(b, remainder, y))
    if x.shape.element_type.is_integer:
        quotient = b.divide(x, y)
        return b.select(uneven, b.subtract(quotient, 1), quotient)
    quotient = b.divide(b.subtract(x, remainder), y)
    quotient = b.select(uneven, b.subtract(quotient, 1), quotient)
    below = b.floor(quotient)
    rounded = b.select(b.compare(b.subtract(quotient, below), 0.5, direction="GT"), b.add(below, 1), below)
    true = b.divide(x, y)
    signed_zero = b.multiply(b.full(0, x.shape), b.select(b.compare(true, 0, direction="LT"), -1, b.full(1, x.shape)))
    result = b.select(b.compare(quotient, 0, direction="EQ"), signed_zero, rounded)
    return b.select(b.compare(y, 0, direction="EQ"), true, result)


@lowers("fmod.Tensor", "fmod.Scalar")
def fmod(b: Lowering, x: I, y: Operand) -> I:
    if b.result.element_type.is_integer:
        _nonzero(b, y)
    return _in_wide(b, _hlo("remainder"), x, y)


@lowers("gcd")
def gcd(b: Lowering, x: I, y: I) -> I:
    """Euclid's algorithm, until it has ended for all elements."""
    x, y = (absolute(b, v) for v in b.operands(x, y))

    def step(_: I, x: I, y: I) -> list[I]:
        ends = b.compare(y, 0, direction="EQ")
        rest = b.remainder(x, b.select(ends, 1, y))
        return [b.select(ends, x, y), b.select(ends, 0, rest)]

    def goes_on(_: I, x: I, y: I) -> I:
        there, every = b.compare(y, 0, direction="NE"), tuple(range(y.shape.rank))
        return b.reduce(there, False, every, reducer("or", PRED)) if every else there

    longest = 100  # steps: those for neighbours in Fibonacci's sequence, of 64 bits
    return b.repeat(longest, step, (x, y), more=goes_on)[0]


@lowers("lcm")
def lcm(b: Lowering, x: I, y: I) -> I:
    own = b.result.element_type
    kind = S32 if own.bits < 32 else own  # C's: narrow integers are truncated at the end
    common = b.cast(gcd(b, x, y), kind)
    x, y = b.operands(x, y, of=kind)
    quotient = b.divide(x, b.select(b.compare(common, 0, direction="EQ"), 1, common))
    return b.cast(absolute(b, b.multiply(quotient, y)), own)


@lowers("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(b: Lowering, x: Operand, y: Operand) -> I:
    """With the sign of the divisor."""
    if b.result.element_type.is_integer:
        _nonzero(b, y)

    def compute(b: Lowering, x: I, y: I) -> I:
        rest = b.remainder(x, y)
        wrong = b.and_(b.compare(rest, 0, direction="NE"), _signs_differ(b, rest, y))
        return b.select(wrong, b.add(rest, y), rest)

    return _in_wide(b, compute, x, y)


@lowers("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(b: Lowering, x: Operand, y: Operand) -> I:
    own = b.result.element_type
    special: dict[Any, Compute] = {
        0.5: lambda b, x: b.sqrt(x), 2: lambda b, x: b.multiply(x, x),
        3: lambda b, x: b.multiply(b.multiply(x, x), x), 1: lambda b, x: x,
        -1: lambda b, x: b.divide(b.full(1, x.shape), x), -0.5: lambda b, x: b.rsqrt(x),
        -2: lambda b, x: b.divide(b.full(1, x.shape), b.multiply(x, x)),
    }  # fmt: skip
    if not isinstance(y, I) and y in special and (own.is_float or (own.is_integer and y >= 1)):
        return _in_wide(b, special[y], x)
    if own is PRED:
        raise NotLowered("of booleans")
    return _in_wide(b, _hlo("power"), x, y)


@lowers("clamp", "clamp.Tensor")
def clamp(b: Lowering, x: I, lower: Operand = None, upper: Operand = None) -> I:
    value, own = b.operands(x)[0], b.result.element_type
    for opcode, bound in (("maximum", lower), ("minimum", upper)):
        if bound is not None:
            value = b.make(opcode, value, b.operands(bound, of=own)[0])
    return value


lowers("clamp_min", "clamp_min.Tensor")(lambda b, x, bound: clamp(b, x, bound))
lowers("clamp_max", "clamp_max.Tensor")(lambda b, x, bound: clamp(b, x, None, bound))


@lowers("hardtanh")
def hardtanh(b: Lowering, x: I, lower: Operand = -1, upper: Operand = 1) -> I:
    return clamp(b, x, lower, upper)


@lowers("lerp.Scalar", "lerp.Tensor")
def lerp(b: Lowering, start: I, end: I, weight: Operand) -> I:
    def compute(b: Lowering, x: I, y: I, w: I) -> I:
        difference = b.subtract(y, x)
        near = b.add(x, b.multiply(w, difference))
        far = b.subtract(y, b.multiply(difference, b.subtract(b.full(1, w.shape), w)))
        return b.select(b.compare(b.abs(w), 0.5, direction="LT"), near, far)

    return _in_wide(b, compute, start, end, weight)


# -- comparisons and logic


def _comparison(name: str, direction: str) -> None:
    def apply(b: Lowering, x: I, y: Operand) -> I:
        return b.compare(*b.common(x, y), direction=direction)

    lowers(f"{name}.Tensor", f"{name}.Scalar")(apply)


for _name in ("eq", "ne", "ge", "gt", "le", "lt"):
    _comparison(_name, _name.upper())


def _logical(name: str, opcode: str) -> None:
    lowers(f"logical_{name}")(lambda b, x, y: b.make(opcode, *b.operands(x, y, of=PRED)))
    lowers(f"bitwise_{name}.Tensor", f"bitwise_{name}.Scalar", f"bitwise_{name}.Scalar_Tensor")(
        lambda b, x, y: b.make(opcode, *b.operands(x, y))
    )


for _name in ("and", "or", "xor"):
    _logical(_name, _name)


@lowers("logical_not")
def logical_not(b: Lowering, x: I) -> I:
    return b.make("not", b.cast(x, PRED))


@lowers("bitwise_not")
def bitwise_not(b: Lowering, x: I) -> I:
    return b.make("not", x)


@lowers("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar", "__lshift__.Tensor")
def left_shift(b: Lowering, x: I, y: Operand) -> I:
    return b.make("shift-left", *b.operands(x, y))


@lowers("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar", "__rshift__.Tensor")
def right_shift(b: Lowering, x: I, y: Operand) -> I:
    signed = b.result.element_type.kind == "signed"
    return b.make("shift-right-arithmetic" if signed else "shift-right-logical", *b.operands(x, y))


@lowers("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(b: Lowering, condition: I, x: Operand, y: Operand) -> I:
    return b.make("select", b.operands(condition, of=PRED)[0], *b.operands(x, y))


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(b: Lowering, x: I, mask: I, value: Operand) -> I:
    return where(b, mask, value, x)


# -- types


@lowers("_to_copy", "prims::convert_element_type")
def to_copy(b: Lowering, x: I, *_: Any, **__: Any) -> I:
    return b.cast(x, b.result.element_type)


@lowers("copy")
def copy(b: Lowering, x: I, source: Operand, non_blocking: bool = False) -> I:
    return b.operands(source)[0]


@lowers("complex")
def complex_(b: Lowering, x: I, y: I) -> I:
    part = real_of(b.result.element_type)
    return b.make("complex", *b.operands(x, y, of=part))


@lowers("polar")
def polar(b: Lowering, size: I, angle: I) -> I:
    """Complex numbers from their absolute values and angles."""
    size, angle = b.operands(size, angle, of=real_of(b.result.element_type))
    return b.make("complex", b.multiply(size, b.cosine(angle)), b.multiply(size, b.sine(angle)))


@lowers("real")
def real(b: Lowering, x: I) -> I:
    return b.cast(x, b.result.element_type)


@lowers("imag")
def imag(b: Lowering, x: I) -> I:
    return b.make("imag", x)


@lowers("view_as_real", "view_as_real_copy")
def view_as_real(b: Lowering, x: I) -> I:
    """Real and imaginary parts along a new last dimension."""
    dims = (*x.shape.dimensions, 1)
    return b.concatenate([b.reshape(b.make(part, x), dims) for part in ("real", "imag")], x.shape.rank)


@lowers("view_as_complex", "view_as_complex_copy")
def view_as_complex(b: Lowering, x: I) -> I:
    last, dims = x.shape.rank - 1, x.shape.dimensions[:-1]
    return b.make("complex", *(b.reshape(b.cut(x, last, k, k + 1), dims) for k in range(2)))


@lowers("angle")
def angle(b: Lowering, x: I) -> I:
    def compute(b: Lowering, x: I) -> I:
        zero = b.full(0, x.shape)
        angle = b.select(b.compare(x, 0, direction="LT"), pi, zero)
        return b.select(is_nan(b, x), x, angle)

    if x.shape.element_type.is_complex:
        return b.atan2(b.imag(x), b.real(x))
    return _in_wide(b, compute, x)


# -- derivatives that are separate operations


@lowers("sigmoid_backward")
def sigmoid_backward(b: Lowering, gradient: I, y: I) -> I:
    def compute(b: Lowering, g: I, y: I) -> I:
        return b.multiply(g, b.conjugate(b.multiply(y, b.subtract(b.full(1, y.shape), y))))

    return _in_wide(b, compute, gradient, y)


@lowers("tanh_backward")
def tanh_backward(b: Lowering, gradient: I, y: I) -> I:
    def compute(b: Lowering, g: I, y: I) -> I:
        return b.multiply(g, b.conjugate(b.subtract(b.full(1, y.shape), b.multiply(y, y))))

    return _in_wide(b, compute, gradient, y)


@lowers("threshold_backward")
def threshold_backward(b: Lowering, gradient: I, x: I, threshold: Operand) -> I:
    g, x = b.operands(gradient, x)
    return b.select(b.compare(x, threshold, direction="LE"), 0, g)
