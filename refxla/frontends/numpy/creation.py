"""np.zeros, np.array and other functions that create arrays, as a traced function sees them.

NumPy does not dispatch these functions, since they may have no array among their arguments. A traced function may write
to their results, and pass them lists of traced values. So while a function is traced, the variables through which it
accesses NumPy (the global `np` of its module, for example) hold a NumpyModule instead: its functions create arrays of
the trace, whose values are known as long as everything written to them is. Libraries, and NumPy itself, do not see it.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any, Literal

import numpy
from refxla_spec.errors import UnsupportedError
from refxla_spec.types import BY_DTYPE

from .array import Traced
from .dispatch import ALIASING, Asking, adopted, all_known, values_of
from .functions import filled
from .number import KINDS, Number
from .selection import Selection
from .shape_functions import model_of
from .tracing import Tracing
from .untyped import np
from .values import array_of, builder_of, known_array, lift, promoted

_PLAIN = (
    "zeros", "ones", "empty", "eye", "identity", "arange", "tri", "indices", "linspace", "logspace", "geomspace",
    "zeros_like", "ones_like", "empty_like", "full_like", "diag", "meshgrid", "fromiter", "fromfunction", "hanning",
    "hamming", "blackman", "bartlett", "kaiser",
)  # fmt: skip


def _plain(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that computes a new array: its arrays become the trace's."""

    def make(b: Tracing, *args: Any, **kwargs: Any) -> Any:
        with Asking(args, kwargs):
            if name == "empty" or name == "empty_like":  # its contents differ between calls
                return adopted(np.zeros_like(original(*args, **kwargs)), b)
            shares = original in ALIASING and builder_of(args) is not None
            if all_known(args, kwargs) and not shares:
                args, kwargs = values_of(args), values_of(kwargs)
            return adopted(original(*args, **kwargs), b)

    return make


def _array(
    b: Tracing,
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    **_: Any,
) -> Any:
    """np.array."""
    if isinstance(object, Traced):
        result = object if dtype is None or object.dtype == np.dtype(dtype) else object.astype(dtype)
        if result is object and (copy or result.is_scalar):
            value = result.known_value
            result = Traced(result.instruction if value is None else value.copy(), b, is_scalar=False)
    elif isinstance(object, Selection):
        return object
    elif builder_of(object) is None:
        array = np.array(object, dtype, order=order, ndmin=ndmin)
        return known_array(array, b) if array.dtype in BY_DTYPE else array
    elif all_known(object):
        return adopted(np.array(values_of(object), dtype, order=order, ndmin=ndmin), b)
    else:
        result = Traced(
            _nested(b, object) if dtype is None else lift(b, array_of(b, _lifted(b, object)), dtype), b, is_scalar=False
        )
    return result if result.ndim >= ndmin else result.reshape((1,) * (ndmin - result.ndim) + result.shape)


def _lifted(b: Tracing, value: Any) -> Traced:
    return Traced(_nested(b, value), b, is_scalar=False)


def _nested(b: Tracing, value: Any) -> Any:
    """The instruction of nested sequences of values, some of them symbols."""
    if not isinstance(value, (list, tuple)):
        return lift(b, value)
    parts = [Traced(_nested(b, v), b) for v in value]
    if len({p.shape for p in parts}) > 1:
        raise ValueError("setting an array element with a sequence: the parts have the shapes "
                         f"{', '.join(str(p.shape) for p in parts)}")  # fmt: skip
    return np.stack(parts).instruction if parts else lift(b, np.zeros(0))


def _asarray(b: Tracing, a: Any, dtype: Any = None, order: Any = None, **options: Any) -> Any:
    """np.asarray and the like: an array of the trace is returned unchanged."""
    return _array(b, a, dtype, copy=bool(options.get("copy")))


def _full(b: Tracing, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **_: Any) -> Any:
    with Asking(shape, fill_value):
        if isinstance(shape, (int, np.integer, Number, Traced)):
            shape = (shape,)
        return filled(tuple(n.__index__() for n in shape), fill_value, dtype, b)


def _contiguous(flag: Literal["C", "F"]) -> Callable[..., Any]:
    """np.ascontiguousarray and the like: at least one dimension, and a copy if the memory is in another order."""

    def apply(b: Tracing, a: Any, dtype: Any = None, **_: Any) -> Any:
        array = _array(b, a, dtype, copy=False, ndmin=1)
        return array.copy() if isinstance(array, Traced) and not model_of(array).flags[flag] else array

    return apply


_OWN: dict[str, Callable[..., Any]] = {
    "array": _array, "asarray": _asarray, "asanyarray": _asarray, "ascontiguousarray": _contiguous("C"),
    "asfortranarray": _contiguous("F"), "full": _full,
}  # fmt: skip


# Functions of one array that accept a list of arrays, whose elements NumPy does not dispatch on.
_OF_ONE = (
    "sum", "prod", "mean", "average", "median", "std", "var", "max", "min", "amax", "amin", "ptp", "argmax",
    "argmin", "any", "all", "cumsum", "cumprod", "sort", "argsort", "diff", "ravel", "reshape", "transpose",
    "percentile", "quantile", "nansum", "nanmean", "nanmax", "nanmin", "count_nonzero", "squeeze", "flip", "roll",
    "repeat", "take", "tile", "clip", "round", "dot", "matmul", "outer", "cross",
)  # fmt: skip


def _of_one(function: Callable[..., Any], b: Tracing) -> Callable[..., Any]:
    """A function whose list of arrays is first converted to an array; so is its main argument if the call is dispatched
    because of another traced argument, since NumPy would convert it to an array."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        arrays = [_array(b, a) if isinstance(a, (list, tuple)) and builder_of(a) is not None else a for a in args]
        if args and builder_of(args[0]) is None and builder_of(args, kwargs) is not None:
            arrays[0] = _array(b, args[0]) if isinstance(args[0], (list, tuple, numpy.ndarray)) else args[0]
        return function(*arrays, **kwargs)

    return call


def _is_number(value: Any) -> bool:
    """Whether a value is a Python number, whose type yields to those of arrays."""
    return type(value) in (Number, *KINDS)


class _BracketJoin:
    """np.r_ and np.c_: the values in the brackets, joined along the first or last dimension."""

    def __init__(self, b: Tracing, original: Any, is_columns: bool) -> None:
        self.b, self.original, self.is_columns = b, original, is_columns

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if builder_of(parts) is None:
            return adopted(self.original[key], self.b)
        if any(isinstance(p, str) for p in parts):
            raise UnsupportedError("np.r_ with a text has no compiled form: use np.concatenate with axis=")
        values = [p if _is_number(p) else self._array(p) for p in parts]
        own = promoted(*values)
        return np.concatenate([self._one(v, own) for v in values], axis=-1 if self.is_columns else 0)

    def _array(self, part: Any) -> Any:
        if isinstance(part, slice):
            part = self.original[part] if self.is_columns else np.r_[part]
        return array_of(self.b, _array(self.b, part))

    def _one(self, part: Any, dtype: np.dtype) -> Any:
        array = np.atleast_1d(array_of(self.b, part, dtype))
        return array[:, None] if self.is_columns and array.ndim == 1 else array


class _NdarrayClass(type):
    """np.ndarray as a traced function sees it: it creates arrays of the trace, and everything else is NumPy's."""

    b: Tracing

    def __call__(cls, shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            what = "np.ndarray with a buffer or strides has no compiled form"
            raise UnsupportedError(f"{what}: make it outside of the function, and pass it as an argument")
        return known_array(np.zeros(shape, dtype), cls.b)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, numpy.ndarray)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, numpy.ndarray)

    def __getattr__(cls, name: str) -> Any:
        return getattr(numpy.ndarray, name)


class NumpyModule(types.ModuleType):
    """The module numpy as a traced function sees it, in the thread that traces; other threads see NumPy's own."""

    def __init__(self, b: Tracing) -> None:
        super().__init__("numpy", np.__doc__)
        for name in (*_PLAIN, *_OWN):
            setattr(self, name, replacement(getattr(np, name), b))
        for name in _OF_ONE:
            setattr(self, name, _of_one(getattr(np, name), b))
        self.r_, self.c_ = _BracketJoin(b, np.r_, False), _BracketJoin(b, np.c_, True)
        self.ndarray = _NdarrayClass("ndarray", (np.ndarray,), {"b": b})

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def replacement(function: Any, b: Tracing) -> Callable[..., Any] | None:
    """The replacement of a function of NumPy in a trace, if it creates arrays."""
    name = getattr(function, "__name__", None)
    if name not in MAKERS or getattr(np, name) is not function:
        return None
    implementation, thread = _OWN.get(name) or _plain(function, name), threading.get_ident()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return function(*args, **kwargs)
        return implementation(b, *args, **kwargs)

    return call


MAKERS = frozenset((*_PLAIN, *_OWN))  # the names of the functions that create arrays
