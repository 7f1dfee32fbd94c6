"""Sums, extremes and what is made of them; sums of small integers are int64, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, WindowDimension, post_order
from refxla_spec.types import BY_DTYPE, S64, Shape

from ...ir.builder import Build
from .array import Traced
from .values import I, is_nan, lift, normal_axes, truth, wrap

REDUCERS = {np.add: "add", np.multiply: "multiply", np.maximum: "maximum", np.minimum: "minimum",
            np.logical_and: "and", np.logical_or: "or", np.bitwise_and: "and", np.bitwise_or: "or"}  # fmt: skip


def _reducer(b: Build, opcode: str, x: I) -> Computation:
    t = Shape(x.shape.element_type)
    p = [Instruction(n, "parameter", t, [], {"number": k}) for k, n in enumerate("ab")]
    root = Instruction("r", opcode, t, p)
    return Computation(f"{b.name}.{opcode}.{b.count}", [*p, root], root)


def _identity(opcode: str, dtype: np.dtype) -> Any:
    if opcode in ("add", "or"):
        return np.zeros((), dtype)
    if opcode == "multiply":
        return np.ones((), dtype)
    if opcode == "and":
        return np.array(True) if dtype.kind == "b" else np.array(-1).astype(dtype)
    low = opcode == "maximum"
    if dtype.kind == "b":
        return np.array(not low)
    if BY_DTYPE[dtype].is_float:
        return np.array(-np.inf if low else np.inf, dtype)
    return np.array(np.iinfo(dtype).min if low else np.iinfo(dtype).max, dtype)


def with_kept(b: Build, value: I, x: Traced, axes: tuple[int, ...], keepdims: bool) -> Traced:
    if keepdims:
        value = b.reshape(value, tuple(1 if d in axes else n for d, n in enumerate(x.shape)))
    return wrap(b, value)


def reduce_by(ufunc: np.ufunc, x: Traced, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **options: Any):
    initial = options.pop("initial", None)
    if options.pop("where", True) is not True or any(v is not None for v in options.values()):
        raise UnsupportedError(f"np.{ufunc.__name__}.reduce: where and out have no compiled form")
    b, opcode, axes = x.build, REDUCERS[ufunc], normal_axes(axis, x.ndim)
    value = truth(b, x.instruction) if ufunc in (np.logical_and, np.logical_or) else x.instruction
    own = value.shape.element_type.dtype
    if dtype is None and ufunc in (np.add, np.multiply) and own.kind in "biu":
        dtype = np.uint64 if own.kind == "u" else np.int64
    if dtype is not None:
        value = b.convert(value, BY_DTYPE[np.dtype(dtype)])
    if opcode in ("maximum", "minimum") and initial is None and 0 in (x.shape[d] for d in axes):
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    own = value.shape.element_type.dtype
    start = lift(b, _identity(opcode, own) if initial is None else np.asarray(initial), own)
    reduced = b.make("reduce", value, start, dimensions=axes, to_apply=_reducer(b, opcode, value)) if axes else value
    return with_kept(b, reduced, x, axes, keepdims)


def accumulate_by(ufunc: np.ufunc, x: Traced, axis: Any = 0, dtype: Any = None, **_: Any) -> Traced:
    b, opcode = x.build, REDUCERS[ufunc]
    value = x.instruction
    if dtype is None and ufunc in (np.add, np.multiply) and x.dtype.kind in "biu":
        dtype = np.uint64 if x.dtype.kind == "u" else np.int64
    if dtype is not None:
        value = b.convert(value, BY_DTYPE[np.dtype(dtype)])
    if axis is None:
        value, axis = b.reshape(value, (x.size,)), 0
    (axis,) = normal_axes(axis, len(value.shape.dimensions))
    n = value.shape.dimensions[axis]
    window = tuple(
        WindowDimension(n, padding_low=n - 1) if d == axis else WindowDimension(1) for d in range(value.shape.rank)
    )
    start = lift(b, _identity(opcode, value.shape.element_type.dtype), value.shape.element_type.dtype)
    return wrap(b, b.make("reduce-window", value, start, window=window, to_apply=_reducer(b, opcode, value)))


def sum_like(ufunc: np.ufunc) -> Callable:
    def apply(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **options: Any):
        given = {k: v for k, v in options.items() if v is not np._NoValue}
        return reduce_by(ufunc, a, axis, dtype, keepdims is True, out=out, **given)

    return apply


def extreme(ufunc: np.ufunc) -> Callable:
    sums = sum_like(ufunc)
    return lambda a, axis=None, out=None, keepdims=False, **options: sums(a, axis, None, out, keepdims, **options)


def mean(a: Traced, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **_: Any) -> Traced:
    n = prod(a.shape[d] for d in normal_axes(axis, a.ndim))
    own = np.dtype(dtype) if dtype is not None else (np.dtype(np.float64) if a.dtype.kind in "biu" else a.dtype)
    wide = np.float32 if own == np.float16 else own
    total = reduce_by(np.add, a, axis, wide, keepdims is True)
    return (total / np.asarray(n, wide)).astype(own)


def var(
    a: Traced, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, **_: Any
) -> Traced:
    n = prod(a.shape[d] for d in normal_axes(axis, a.ndim))
    d = a - mean(a, axis, dtype, keepdims=True)
    d = np.real(d * np.conjugate(d)) if d.dtype.kind == "c" else d * d
    total = reduce_by(np.add, d, axis, None, keepdims is True)
    return total / np.asarray(n - ddof, total.dtype)


def arg_extreme(opcode: str) -> Callable:
    """The first place of the extreme value; a NaN is the extreme."""
    direction = "GT" if opcode == "maximum" else "LT"

    def apply(a: Traced, axis: Any = None, out: Any = None, keepdims: Any = False) -> Traced:
        b, x = a.build, a
        if axis is None:
            a = a.reshape(a.size)
        (d,) = normal_axes(0 if axis is None else axis, a.ndim)
        index = b.iota(S64, a.shape, d)
        t = a.instruction.shape.element_type
        types = (t, S64, t, S64)
        p = [Instruction(f"p{n}", "parameter", Shape(e), [], {"number": n}) for n, e in enumerate(types)]
        inner = Build("better")
        v, i, w, j = p
        better = inner.compare(v, w, direction=direction)
        equal = inner.compare(v, w, direction="EQ")
        if t.is_float:
            nan_v, nan_w = is_nan(inner, v), is_nan(inner, w)
            better = inner.or_(better, inner.and_(nan_v, inner.not_(nan_w)))
            equal = inner.or_(equal, inner.and_(nan_v, nan_w))
        first = inner.or_(better, inner.and_(equal, inner.compare(i, j, direction="LT")))
        root = inner.tuple(inner.select(first, v, w), inner.select(first, i, j))
        computation = Computation(
            f"{b.name}.better.{b.count}", p + [n for n in post_order(root) if n.opcode != "parameter"], root
        )
        start = lift(b, _identity(opcode, a.dtype)), lift(b, np.int64(2**62))
        found = b.make("reduce", a.instruction, index, *start, dimensions=(d,), to_apply=computation)
        place = b.make("get-tuple-element", found, index=1)
        axes = normal_axes(axis, x.ndim)
        return with_kept(b, place, x, axes, keepdims is True)

    return apply
