"""Functions that move elements: shapes, indexing, joining."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import PaddingDimension, SliceDimension
from refxla_spec.types import Shape

from .array import Traced
from .number import Number
from .values import builder_of, lift, normal_axes, promoted, spread, wrap


def reshape(a: Traced, /, *shape: Any, **_: Any) -> Traced:
    wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    wanted = [int(n) for n in wanted]
    if -1 in wanted:
        wanted[wanted.index(-1)] = a.size // max(1, -prod(wanted))
    if prod(wanted) != a.size:
        raise ValueError(f"cannot reshape array of size {a.size} into shape {tuple(shape)}")
    return wrap(a.build, a.build.reshape(a.instruction, tuple(wanted)), a)


def reshape_to(a: Traced, shape: Any = None, *, newshape: Any = None, **_: Any) -> Traced:
    shape = newshape if shape is None else shape
    return reshape(a, *((shape,) if isinstance(shape, int) else shape))


def transpose(a: Traced, *axes: Any) -> Traced:
    order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes or None
    order = tuple(reversed(range(a.ndim))) if order is None else tuple(d % a.ndim for d in order)
    return wrap(a.build, a.build.make("transpose", a.instruction, dimensions=order), a)


def swapaxes(a: Traced, first: int, second: int) -> Traced:
    order = list(range(a.ndim))
    order[first], order[second] = order[second], order[first]
    return transpose(a, order)


def moveaxis(a: Traced, source: Any, destination: Any) -> Traced:
    source, destination = normal_axes(source, a.ndim), normal_axes(destination, a.ndim)
    order = [d for d in range(a.ndim) if d not in source]
    for to, come in sorted(zip(destination, source, strict=True)):
        order.insert(to, come)
    return transpose(a, order)


def expand_dims(a: Traced, axis: Any) -> Traced:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    places = normal_axes(axes, a.ndim + len(axes))
    sizes = iter(a.shape)
    return reshape(a, tuple(1 if d in places else next(sizes) for d in range(a.ndim + len(axes))))


def squeeze(a: Traced, axis: Any = None) -> Traced:
    axes = tuple(d for d, n in enumerate(a.shape) if n == 1) if axis is None else normal_axes(axis, a.ndim)
    return reshape(a, tuple(n for d, n in enumerate(a.shape) if d not in axes))


def broadcast_to(array: Traced, shape: Any, subok: bool = False) -> Traced:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if np.broadcast_shapes(array.shape, shape) != shape:
        raise ValueError(f"cannot broadcast shape {array.shape} to {shape}")
    return wrap(array.build, spread(array.build, array.instruction, shape), array)


def concatenate(arrays: Sequence[Any], axis: int | None = 0, **_: Any) -> Traced:
    b = builder_of(arrays)
    dtype = promoted(*arrays)
    parts = [lift(b, x, dtype) for x in arrays]
    if axis is None:
        parts, axis = [b.reshape(p, (p.shape.size,)) for p in parts], 0
    (axis,) = normal_axes(axis, parts[0].shape.rank)
    return wrap(b, b.make("concatenate", *parts, dimensions=(axis,)))


def stack(arrays: Sequence[Any], axis: int = 0, **_: Any) -> Traced:
    b = builder_of(arrays)
    wrapped = [x if isinstance(x, Traced) else wrap(b, lift(b, x)) for x in arrays]
    return concatenate([expand_dims(x, axis) for x in wrapped], axis)


def flip(m: Traced, axis: Any = None) -> Traced:
    return wrap(m.build, m.build.make("reverse", m.instruction, dimensions=normal_axes(axis, m.ndim)), m)


def roll(a: Traced, shift: int, axis: int | None = None) -> Traced:
    if axis is None:
        return roll(a.reshape(a.size), shift, 0).reshape(a.shape)
    (axis,) = normal_axes(axis, a.ndim)
    cut = (-shift) % max(1, a.shape[axis])
    before = (slice(None),) * axis
    return concatenate([a[(*before, slice(cut, None))], a[(*before, slice(0, cut))]], axis)


def pad(array: Traced, pad_width: Any, mode: str = "constant", constant_values: Any = 0, **_: Any) -> Traced:
    if mode != "constant" or (not isinstance(constant_values, Number) and np.ndim(constant_values)):
        raise UnsupportedError(f"np.pad with mode {mode!r} has no compiled form; only one constant has")
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2))
    b = array.build
    value = lift(b, constant_values, array.dtype)
    padding = tuple(PaddingDimension(int(low), int(high)) for low, high in widths)
    return wrap(b, b.make("pad", array.instruction, value, padding=padding))


def repeat_tile(a: Traced, reps: Any) -> Traced:
    reps = (reps,) if isinstance(reps, int) else tuple(reps)
    rank = max(len(reps), a.ndim)
    own, reps = (1,) * (rank - a.ndim) + a.shape, (1,) * (rank - len(reps)) + reps
    wide = tuple(n for pair in zip(reps, own, strict=True) for n in pair)
    b = a.build
    spread = b.spread(b.reshape(a.instruction, own), Shape(a.instruction.shape.element_type, wide),
                      tuple(range(1, 2 * rank, 2)))  # fmt: skip
    return wrap(b, b.reshape(spread, tuple(r * n for r, n in zip(reps, own, strict=True))))


def index(a: Traced, key: Any) -> Traced:
    """a[key] for integers, slices, None and Ellipsis; or for one array of integers along the first dimension, or one
    mask whose values are known."""
    if isinstance(key, np.ndarray) and not isinstance(key, Traced) and key.dtype == bool:
        if key.shape != a.shape[: key.ndim]:
            raise IndexError(f"a mask of shape {key.shape} does not fit an array of shape {a.shape}")
        return take(reshape(a, (key.size, *a.shape[key.ndim :])), np.flatnonzero(key), 0)
    if isinstance(key, (Traced, np.ndarray, list)):
        return take(a, key, 0)
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(k, (Traced, np.ndarray, list)) for k in keys):
        raise UnsupportedError("indexing by several arrays has no compiled form; np.take with an axis has")
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > a.ndim:
        raise IndexError(f"too many indices: the array is {a.ndim}-dimensional, {used} were given")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    at = next(n for n, k in enumerate(keys) if k is Ellipsis)
    keys[at : at + 1] = [slice(None)] * (a.ndim - used)
    slices, reverse, shape, d = [], [], [], 0
    starts: dict[int, Number] = {}  # of dimensions of which one element is chosen at each call
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = a.shape[d]
        if isinstance(k, slice):
            start, stop, step = k.indices(n)
            count = len(range(start, stop, step))
            if step < 0:
                reverse.append(d)
                start, step = start + (count - 1) * step, -step
            slices.append(SliceDimension(start, start + (count - 1) * step + 1 if count else start, step))
            shape.append(count)
        elif isinstance(k, Number) and k.kind is int:
            starts[d] = k.mapped(partial(_place, n, d))
            slices.append(SliceDimension(0, n, 1))
        else:
            place = _place(n, d, int(k))
            slices.append(SliceDimension(place, place + 1, 1))
        d += 1
    b = a.build
    value = b.make("slice", a.instruction, slice=tuple(slices))
    if starts:
        zero = lift(b, np.int64(0))
        at = [b.number(starts[d], zero.shape.element_type.dtype) if d in starts else zero for d in range(a.ndim)]
        sizes = tuple(1 if d in starts else size for d, size in enumerate(value.shape.dimensions))
        value = b.make("dynamic-slice", value, *at, dynamic_slice_sizes=sizes)
    if reverse:
        value = b.make("reverse", value, dimensions=tuple(reverse))
    return wrap(b, b.reshape(value, tuple(shape)), a)


def _place(size: int, dimension: int, index: int) -> int:
    """An index counted from the beginning. Raises IndexError for one that is not there."""
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {dimension} with size {size}")
    return index % size


def take(a: Traced, indices: Any, axis: int | None = None, **_: Any) -> Traced:
    """np.take; negative indices count from the end. (One out of range is the nearest in range, as in HLO's gather.)"""
    b = builder_of(a, indices)
    if not isinstance(a, Traced):
        a = wrap(b, lift(b, a))
    if axis is None:
        a, axis = a.reshape(a.size), 0
    (axis,) = normal_axes(axis, a.ndim)
    at = lift(b, indices)
    if at.shape.element_type.kind == "pred":
        raise UnsupportedError(
            "indexing by a mask has no compiled form, since the size of its result is a value; use np.where"
        )
    if at.shape.element_type.kind == "signed":
        at = b.select(b.compare(at, 0, direction="LT"), b.add(at, a.shape[axis]), at)
    rank = at.shape.rank
    sizes = tuple(1 if d == axis else n for d, n in enumerate(a.shape))
    offsets = tuple(d if d < axis else d - 1 + rank for d in range(a.ndim) if d != axis)
    shape = Shape(a.instruction.shape.element_type, (*a.shape[:axis], *at.shape.dimensions, *a.shape[axis + 1 :]))
    return wrap(b, b.make("gather", a.instruction, at, shape=shape, offset_dims=offsets, collapsed_slice_dims=(axis,),
                           start_index_map=(axis,), index_vector_dim=rank, slice_sizes=sizes))  # fmt: skip
