"""The elementwise functions of the standard: NumPy's ufuncs of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..untyped import np
from .eager import run

_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan "
    "log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan "
    "tanh trunc"
).split()
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum "
    "minimum multiply nextafter not_equal pow remainder subtract"
).split()


def _unary(name: str) -> Callable[..., Any]:
    numpys = getattr(np, name)

    def function(x: Any, /) -> Any:
        return run(numpys, x)

    return _named(function, name)


def _binary(name: str) -> Callable[..., Any]:
    numpys = getattr(np, name)

    def function(x1: Any, x2: Any, /) -> Any:
        return run(numpys, x1, x2)

    return _named(function, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name} of Arrays; one of two operands may be a Python number."
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {n: _unary(n) for n in _UNARY} | {n: _binary(n) for n in _BINARY}


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """The elements of `x`, no less than `min` and no greater than `max`, which are Arrays, numbers or None."""
    bounds = [bound for bound in (min, max) if bound is not None]
    return run(_clip, x, *bounds, below=min is not None, above=max is not None)


def _clip(x: Any, *bounds: Any, below: bool, above: bool) -> Any:
    rest = iter(bounds)
    low = next(rest) if below else None
    high = next(rest) if above else None
    return np.clip(x, low, high).astype(x.dtype) if below or above else x.copy()


FUNCTIONS["clip"] = clip
