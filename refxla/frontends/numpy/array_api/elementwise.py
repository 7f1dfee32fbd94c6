"""The elementwise functions of the standard: NumPy's ufuncs of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ...._core.array import Array
from ..untyped import np
from .eager import run

if TYPE_CHECKING:
    from ...._core.array import Operand

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign",
    "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot",
    "imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit",
    "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip

Unary = Callable[["Operand"], Array]
Binary = Callable[["Operand", "Operand"], Array]


def _unary(name: str) -> Unary:
    numpys = getattr(np, name)

    def function(x: Operand, /) -> Array:
        return run(numpys, x)

    return _named(function, name)


def _binary(name: str) -> Binary:
    numpys = getattr(np, name)

    def function(x1: Operand, x2: Operand, /) -> Array:
        return run(numpys, x1, x2)

    return _named(function, name)


F = TypeVar("F", bound=Callable[..., Any])


def _named(function: F, name: str) -> F:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name} of Arrays; one of two operands may be a Python number."
    return function


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
add = _binary("add")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atan2 = _binary("atan2")
atanh = _unary("atanh")
bitwise_and = _binary("bitwise_and")
bitwise_invert = _unary("bitwise_invert")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
ceil = _unary("ceil")
conj = _unary("conj")
copysign = _binary("copysign")
cos = _unary("cos")
cosh = _unary("cosh")
divide = _binary("divide")
equal = _binary("equal")
exp = _unary("exp")
expm1 = _unary("expm1")
floor = _unary("floor")
floor_divide = _binary("floor_divide")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
hypot = _binary("hypot")
imag = _unary("imag")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
less = _binary("less")
less_equal = _binary("less_equal")
log = _unary("log")
log10 = _unary("log10")
log1p = _unary("log1p")
log2 = _unary("log2")
logaddexp = _binary("logaddexp")
logical_and = _binary("logical_and")
logical_not = _unary("logical_not")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply")
negative = _unary("negative")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal")
positive = _unary("positive")
pow = _binary("pow")
real = _unary("real")
reciprocal = _unary("reciprocal")
remainder = _binary("remainder")
round = _unary("round")
sign = _unary("sign")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
square = _unary("square")
subtract = _binary("subtract")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")


def clip(x: Array, /, min: Operand | None = None, max: Operand | None = None) -> Array:
    """The elements of `x`, no less than `min` and no greater than `max`, which are Arrays, numbers or None."""
    bounds = [bound for bound in (min, max) if bound is not None]
    return run(_clip, x, *bounds, below=min is not None, above=max is not None)


def _clip(x: Any, *bounds: Any, below: bool, above: bool) -> Any:
    rest = iter(bounds)
    low = next(rest) if below else None
    high = next(rest) if above else None
    return np.clip(x, low, high).astype(x.dtype) if below or above else x.copy()
