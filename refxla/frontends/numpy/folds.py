"""Reductions and accumulations by ufuncs for which HLO has no reducer, such as np.subtract and np.hypot: folds from the
left, in NumPy's order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .array import Traced
from .control_flow import scan
from .dispatch import xp
from .values import array_of, normal_axes, normal_axis, own_axis

_FEW = 16  # steps up to which a fold is no loop, so that they fuse with what is around them


def reduce_in_order(
    ufunc: np.ufunc, x: Traced, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
    initial: Any = np._NoValue, where: Any = True,
) -> Traced:  # fmt: skip
    """The fold along axes; several ones are one, in row-major order.

    Raises NumPy's errors for what it does not reduce: no elements and no identity, a ufunc whose order matters along
    several axes, a type that the ufunc does not have.
    """
    b = x.build
    is_given, is_masked = initial is not np._NoValue and initial is not None, where is not True
    options: dict[str, Any] = {"initial": np.ones((), x.dtype)} if is_given else {}
    options |= {"initial": None} if initial is None else {}
    options |= {"where": np.ones((), bool)} if is_masked else {}
    own = ufunc.reduce(_one(x), axis=axis, dtype=dtype, keepdims=keepdims, **options).dtype
    axes = normal_axes(own_axis(axis, x.ndim), x.ndim)
    rest = tuple(n for d, n in enumerate(x.shape) if d not in axes)
    count = prod(x.shape[d] for d in axes)

    def rows(a: Traced) -> Traced:
        return xp.moveaxis(a, axes, range(len(axes))).reshape(count, *rest)

    values = rows(x.astype(own))
    chosen = rows(xp.broadcast_to(array_of(b, where, bool), x.shape)) if is_masked else None
    start = initial if is_given else None if initial is None else ufunc.identity
    if start is None:  # NumPy then rejects masks
        total, values = values[0], values[1:]
    else:
        total = xp.broadcast_to(array_of(b, start, own), rest)

    def step(total: Traced, item: Any) -> tuple[Traced, None]:
        value, counts = item
        result: Traced = ufunc(total, value).astype(own)
        return result if counts is None else xp.where(counts, result, total), None

    if values.shape[0] <= _FEW:
        for k in range(values.shape[0]):
            total, _ = step(total, (values[k], None if chosen is None else chosen[k]))
    else:
        total, _ = scan(step, total, (values, chosen))
    return xp.expand_dims(total, axes) if keepdims else total


def accumulate_in_order(ufunc: np.ufunc, x: Traced, axis: Any = 0, dtype: Any = None, out: Any = None) -> Traced:
    """All intermediate results of the fold along an axis. Raises NumPy's errors, as reduce_in_order does."""
    own = ufunc.accumulate(_one(x), axis=axis, dtype=dtype).dtype
    axis = normal_axis(axis, x.ndim)
    values = xp.moveaxis(x.astype(own), axis, 0)
    if not values.size:
        return x.astype(own)

    def step(total: Traced, value: Traced) -> tuple[Traced, Traced]:
        result: Traced = ufunc(total, value).astype(own)
        return result, result

    first = values[0]
    if values.shape[0] - 1 <= _FEW:
        results = [first]
        for k in range(1, values.shape[0]):
            results.append(step(results[-1], values[k])[0])
        stacked = xp.stack(results)
    else:
        _, others = scan(step, first, values[1:])
        stacked = xp.concatenate([first[None], others])
    return xp.moveaxis(stacked, 0, axis)


def _one(x: Traced) -> np.ndarray:
    """An array of NumPy's of this rank and type, with one element if this one has any: NumPy reduces it like this one,
    or raises the same error."""
    return np.ones(tuple(min(n, 1) for n in x.shape), x.dtype)
