"""Sums, extremes and functions based on them; sums of small integers are int64, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, WindowDimension
from refxla_spec.types import BY_DTYPE, S64

from ...ir.builder import Build
from .array import Traced
from .dispatch import implements, xp
from .extremes import extreme, ignoring_nan
from .tracing import Tracing
from .values import I, array_of, is_nan, lift, normal_axes, normal_axis, own_axis, promoted, spread, truth, wrap

REDUCERS: dict[np.ufunc, str] = {np.add: "add", np.multiply: "multiply", np.maximum: "maximum", np.minimum: "minimum",
            np.logical_and: "and", np.logical_or: "or", np.bitwise_and: "and", np.bitwise_or: "or",
            np.bitwise_xor: "xor", np.logical_xor: "xor", np.fmax: "fmax", np.fmin: "fmin"}  # fmt: skip
LOGICAL = (np.logical_and, np.logical_or, np.logical_xor)

_EXTREMES = {
    "maximum": extreme("GT", "maximum"), "minimum": extreme("LT", "minimum"),
    "fmax": ignoring_nan("maximum"), "fmin": ignoring_nan("minimum"),
}  # fmt: skip


def reducer_of(b: Build, opcode: str, x: I) -> Computation:
    """The computation that combines two elements of an array by one of the operations of REDUCERS."""

    def combined(inner: Build, a: I, b: I) -> I:
        extreme = _EXTREMES.get(opcode)
        return inner.make(opcode, a, b) if extreme is None else extreme(inner, a, b)

    return b.shared_computation(opcode, (x.shape.element_type,) * 2, combined)


def identity_of(opcode: str, dtype: np.dtype) -> Any:
    """The identity of a reduction by an operation."""
    if opcode in ("add", "or", "xor"):
        return np.zeros((), dtype)
    if opcode == "multiply":
        return np.ones((), dtype)
    if opcode == "and":
        return np.array(True) if dtype.kind == "b" else np.array(-1).astype(dtype)
    element_type = BY_DTYPE[dtype]
    if opcode in ("fmax", "fmin") and (element_type.is_float or element_type.is_complex):
        return np.array(complex(np.nan, np.nan) if element_type.is_complex else np.nan, dtype)
    low = opcode in ("maximum", "fmax")
    if dtype.kind == "b":
        return np.array(not low)
    if element_type.is_complex:
        return np.array(complex(-np.inf, -np.inf) if low else complex(np.inf, np.inf), dtype)
    if element_type.is_float:
        return np.array(-np.inf if low else np.inf, dtype)
    return np.array(np.iinfo(dtype).min if low else np.iinfo(dtype).max, dtype)


def with_kept(b: Tracing, value: I, x: Traced, axes: tuple[int, ...], keepdims: bool) -> Traced:
    if keepdims:
        value = b.reshape(value, tuple(1 if d in axes else n for d, n in enumerate(x.shape)))
    return wrap(b, value)


def is_given(value: Any) -> bool:
    return value is not None and value is not np._NoValue


def _converted(ufunc: np.ufunc, value: I, b: Tracing, dtype: Any) -> I:
    """The operand of a reduction, in the type in which it computes; an error if there is none."""
    if dtype is not None and ufunc in LOGICAL:
        kind = np.dtype(bool)
        ufunc.resolve_dtypes((kind, kind, None), signature=(None, None, np.dtype(dtype)))
    elif dtype is not None:
        value = lift(b, wrap(b, value), dtype)
    own = value.shape.element_type.array_dtype
    ufunc.resolve_dtypes((None, own, None), reduction=True)  # NumPy's TypeError if the ufunc does not have such a type
    return value


def reduce_by(
    ufunc: np.ufunc, x: Traced, axis: Any = 0, dtype: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True, out: Any = None,
) -> Traced:  # fmt: skip
    b, opcode, axes = x.build, REDUCERS[ufunc], normal_axes(own_axis(axis, x.ndim), x.ndim)
    value = truth(b, x.instruction) if ufunc in LOGICAL else x.instruction
    own = value.shape.element_type.array_dtype
    if dtype is None and ufunc in (np.add, np.multiply) and own.kind in "biu":
        dtype = (np.uint64 if own.kind == "u" else np.int64) if own.itemsize < 8 else own
    value = _converted(ufunc, value, b, dtype)
    has_initial = is_given(initial)
    if opcode in _EXTREMES and not has_initial:
        if where is not True and is_given(where):
            raise ValueError(
                f"reduction operation {ufunc.__name__!r} does not have an identity, so to use a where mask one has to "
                "specify 'initial'"
            )
        if 0 in (x.shape[d] for d in axes):
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    own = value.shape.element_type.array_dtype
    if opcode in ("add", "multiply") and own.kind == "b":  # on booleans, they are or and and
        opcode = "or" if opcode == "add" else "and"
    identity = lift(b, identity_of(opcode, own))
    if where is not True and is_given(where):
        if np.ndim(where) > x.ndim:
            raise ValueError("input operand has more dimensions than allowed by the axis remapping")
        chosen = spread(b, truth(b, lift(b, where)), x.shape)
        value = b.select(chosen, value, b.spread(identity, value.shape, ()))
    start = lift(b, initial, own) if has_initial else identity
    if axes:
        value = b.make("reduce", value, start, dimensions=axes, to_apply=reducer_of(b, opcode, value))
    elif has_initial:
        start = spread(b, start, value.shape.dimensions)
        value = _EXTREMES[opcode](b, start, value) if opcode in _EXTREMES else b.make(opcode, value, start)
    return with_kept(b, value, x, axes, keepdims)


def accumulate_by(ufunc: np.ufunc, x: Traced, axis: Any = 0, dtype: Any = None, out: Any = None) -> Traced:
    b, opcode = x.build, REDUCERS[ufunc]
    value = truth(b, x.instruction) if ufunc in LOGICAL else x.instruction
    if dtype is None and ufunc in (np.add, np.multiply) and x.dtype.kind in "biu":
        dtype = np.uint64 if x.dtype.kind == "u" else np.int64
    value = _converted(ufunc, value, b, dtype)
    axis = own_axis(axis, x.ndim)
    if axis is None:
        value, axis = b.reshape(value, (x.size,)), 0
    axis = normal_axis(axis, value.shape.rank)
    n = value.shape.dimensions[axis]
    if not value.shape.size:
        return wrap(b, value)
    window = tuple(
        WindowDimension(n, padding_low=n - 1) if d == axis else WindowDimension(1) for d in range(value.shape.rank)
    )
    start = lift(b, identity_of(opcode, value.shape.element_type.array_dtype), value.shape.element_type.array_dtype)
    return wrap(b, b.make("reduce-window", value, start, window=window, to_apply=reducer_of(b, opcode, value)))


def _sum_like(ufunc: np.ufunc) -> Callable[..., Any]:
    def apply(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
        where: Any = True,
    ) -> Traced:  # fmt: skip
        return reduce_by(ufunc, a, axis, dtype, keepdims is True, initial, where)

    return apply


def _extreme(ufunc: np.ufunc) -> Callable[..., Any]:
    def apply(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
    ) -> Traced:
        return reduce_by(ufunc, a, axis, None, keepdims is True, initial, where)

    return apply


implements(np.sum, "sum")(_sum_like(np.add))
implements(np.prod, "prod")(_sum_like(np.multiply))
implements(np.max, np.amax, "max")(_extreme(np.maximum))
implements(np.min, np.amin, "min")(_extreme(np.minimum))


def _logical(ufunc: np.ufunc) -> Callable[..., Any]:
    def apply(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Traced:
        return reduce_by(ufunc, a, axis, None, keepdims is True, None, where)

    return apply


implements(np.any, "any")(_logical(np.logical_or))
implements(np.all, "all")(_logical(np.logical_and))


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Traced:
    for axis in (axes,) if np.ndim(axes) == 0 else tuple(axes):
        result = func(a, axis)
        a = result if result.ndim == a.ndim else np.expand_dims(result, axis)
    return a


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Traced:
    return xp.sum(a != 0, axis=axis, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Traced:
    return xp.max(a, axis=axis, keepdims=keepdims is True) - xp.min(a, axis=axis, keepdims=keepdims is True)


def _accumulating(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda a, axis=None, dtype=None, out=None: accumulate_by(ufunc, a, axis, dtype)


implements(np.cumsum, "cumsum")(_accumulating(np.add))
implements(np.cumprod, "cumprod")(_accumulating(np.multiply))


def _cumulative(ufunc: np.ufunc) -> Callable[..., Any]:
    def apply(
        x: Traced, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Traced:
        if axis is None:
            if x.ndim > 1:
                raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
            axis = 0
        result = accumulate_by(ufunc, x, axis, dtype)
        if not include_initial:
            return result
        axis = normal_axis(axis, result.ndim)
        shape = tuple(1 if d == axis else n for d, n in enumerate(result.shape))
        return xp.concatenate([np.full(shape, ufunc.identity, result.dtype), result], axis=axis)

    return apply


implements(np.cumulative_sum)(_cumulative(np.add))
implements(np.cumulative_prod)(_cumulative(np.multiply))


def _count(a: Traced, axis: Any, where: Any, keepdims: bool) -> Any:
    """How many elements each result is reduced from."""
    if where is True or not is_given(where):
        return prod(a.shape[d] for d in normal_axes(axis, a.ndim))
    return xp.sum(xp.broadcast_to(array_of(a.build, where, bool), a.shape), axis=axis, keepdims=keepdims)


def _divided(total: Traced, count: Any) -> Traced:
    if isinstance(count, int):
        return total / np.asarray(count, total.dtype)
    return total / np.where(count > 0, count, 0).astype(np.zeros((), total.dtype).real.dtype)


@implements(np.mean, "mean")
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Traced:
    own = np.dtype(dtype) if dtype is not None else (np.dtype(np.float64) if a.dtype.kind in "biu" else a.dtype)
    wide = np.float32 if own == np.float16 else own
    total = reduce_by(np.add, a, axis, wide, keepdims is True, None, where)
    return _divided(total, _count(a, axis, where, keepdims is True)).astype(own)


@implements(np.var, "var")
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Traced:  # fmt: skip
    if is_given(correction):
        ddof = correction
    count = _count(a, axis, where, keepdims is True)
    own = np.dtype(dtype) if dtype is not None else (np.dtype(np.float64) if a.dtype.kind in "biu" else a.dtype)
    if own.kind in "biu":
        raise UnsupportedError(f"np.var and np.std with dtype={own.name!r} have no compiled form: convert the result")
    result = own if dtype is not None else np.zeros((), own).real.dtype
    if is_given(mean) and dtype is None:
        result = np.promote_types(result, np.zeros((), promoted(a, mean)).real.dtype)
    wide = np.dtype(np.float32) if own == np.float16 else own
    middle = mean if is_given(mean) else FUNCTION_MEAN(a, axis, wide, keepdims=True, where=where)
    wide = np.promote_types(a.dtype, wide)  # of the differences: NumPy converts only the mean to `dtype`
    d = a.astype(wide) - (middle if is_given(mean) or wide == middle.dtype else middle.astype(own))
    d = np.real(d * np.conjugate(d)) if d.dtype.kind == "c" else d * d
    total = reduce_by(np.add, d, axis, None, keepdims is True, None, where)
    rest = max(count - ddof, 0) if isinstance(count, int) else np.maximum(count - ddof, 0)
    if not isinstance(rest, Traced):
        return (total / np.asarray(rest, total.dtype)).astype(result)
    return (total / rest.astype(total.dtype)).astype(result)


FUNCTION_MEAN = mean


@implements(np.std, "std")
def std(*args: Any, **options: Any) -> Traced:
    return np.sqrt(var(*args, **options))


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    keep = {"keepdims": True} if keepdims is True else {}
    if weights is None:
        result = xp.mean(a, axis=axis, **keep)
        count = np.full(result.shape, a.size / max(1, result.size), result.dtype)
        return (result, count) if returned else result
    b = (a if isinstance(a, Traced) else weights).build
    a, w = array_of(b, a), array_of(b, weights)
    dtype = np.result_type(a.dtype, w.dtype, *(["f8"] if a.dtype.kind in "biu" else []))
    if a.shape != w.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = normal_axes(axis, a.ndim)
        w = w.reshape(tuple(a.shape[d] if d in axes else 1 for d in range(a.ndim)))
    w = xp.broadcast_to(w, a.shape)
    scale = xp.sum(w, axis=axis, dtype=dtype, **keep)
    b.check(array_of(b, scale != 0).instruction, ZeroDivisionError, "Weights sum to zero, can't be normalized")
    result = xp.sum(xp.multiply(a.astype(dtype), w.astype(dtype)), axis=axis, **keep) / scale
    return (result, np.broadcast_to(scale, result.shape)) if returned else result


def _is_extreme(a: Traced, opcode: str, axis: Any) -> Traced:
    """The positions of the extremes of complex numbers along an axis: those of NaNs, if there are any."""
    identity, extreme = identity_of(opcode, a.real.dtype), getattr(xp, opcode[:3])
    nan, real, imag = xp.isnan(a), xp.real(a), xp.imag(a)
    chosen = ~nan
    for part in (real, imag):
        chosen = chosen & (part == extreme(xp.where(chosen, part, identity), axis=axis, keepdims=True))
    return xp.where(xp.any(nan, axis=axis, keepdims=True), nan, chosen)


def arg_extreme(opcode: str) -> Callable[..., Any]:
    """The first position of the extreme value; a NaN is the extreme. Complex numbers are ordered by their real parts,
    then by their imaginary ones."""
    direction = "GT" if opcode == "maximum" else "LT"

    def apply(a: Traced, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Traced:
        b, x = a.build, a
        if a.dtype == bool:
            a = a.astype(np.uint8)
        if a.dtype.kind == "c":
            if not a.size:
                return apply(a.real, axis, keepdims=keepdims)
            return xp.argmax(_is_extreme(a, opcode, axis), axis=axis, keepdims=keepdims)
        axis = own_axis(axis, a.ndim)
        if axis is None:
            a = a.reshape(a.size)
        d = normal_axis(0 if axis is None else axis, a.ndim)
        if not a.shape[d]:
            raise ValueError(f"attempt to get arg{opcode[:3]} of an empty sequence")
        t = a.instruction.shape.element_type
        # Positions as wide as values, so that vectors have as many of both; the last one is beyond all that exist.
        last = np.int64(2**62) if t.bits == 64 or a.shape[d] >= 2**31 else np.int32(2**31 - 1)
        places = BY_DTYPE[last.dtype]
        index = b.iota(places, a.shape, d)

        def better_of(inner: Build, v: I, i: I, w: I, j: I) -> I:
            better = inner.compare(v, w, direction=direction)
            if t.is_float:
                better = inner.or_(better, is_nan(inner, v))  # the first of several, since elements are taken in order
            equal = inner.compare(v, w, direction="EQ")
            first = inner.or_(better, inner.and_(equal, inner.compare(i, j, direction="LT")))
            return inner.tuple(inner.select(better, v, w), inner.select(first, i, j))

        computation = b.shared_computation(f"arg_{opcode}", (t, places) * 2, better_of)
        start = lift(b, identity_of(opcode, a.dtype)), lift(b, last)
        pair = b.make("reduce", a.instruction, index, *start, dimensions=(d,), to_apply=computation)
        place = b.convert(b.make("get-tuple-element", pair, index=1), S64)
        b.ranges[place] = a.shape[d]
        return with_kept(b, place, x, normal_axes(axis, x.ndim), keepdims is True)

    return apply


implements(np.argmax, "argmax")(arg_extreme("maximum"))
implements(np.argmin, "argmin")(arg_extreme("minimum"))
