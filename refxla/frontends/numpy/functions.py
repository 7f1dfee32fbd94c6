"""Products, choices and order, and the tables of all functions and methods."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, post_order
from refxla_spec.types import BY_DTYPE, S64, Shape

from ...ir.builder import Build
from .array import Traced
from .dispatch import FUNCTIONS, METHODS
from .number import Number
from .reduction_functions import accumulate_by, arg_extreme, extreme, mean, sum_like, var
from .shape_functions import (  # fmt: skip
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    index,
    moveaxis,
    pad,
    repeat_tile,
    reshape,
    reshape_to,
    roll,
    squeeze,
    stack,
    swapaxes,
    take,
    transpose,
)
from .values import I, builder_of, is_nan, lift, normal_axes, promoted, spread, truth, wrap


def _dot_general(x: I, y: I, b: Build, batch: int, contract: tuple[int, int]) -> I:
    dims = tuple(range(batch))
    kinds = {"lhs_batch_dims": dims, "rhs_batch_dims": dims} if batch else {}
    return b.make("dot", x, y, lhs_contracting_dims=(contract[0],), rhs_contracting_dims=(contract[1],), **kinds)


def matmul(a: Any, c: Any) -> Traced:
    b = builder_of(a, c)
    dtype = promoted(a, c)
    x, y = lift(b, a, dtype), lift(b, c, dtype)
    if not x.shape.rank or not y.shape.rank:
        raise ValueError("matmul: the operands must have at least one dimension")
    drop_x, drop_y = x.shape.rank == 1, y.shape.rank == 1
    x = b.reshape(x, (1, x.shape.dimensions[0])) if drop_x else x
    y = b.reshape(y, (y.shape.dimensions[0], 1)) if drop_y else y
    (m, k), (k2, n) = x.shape.dimensions[-2:], y.shape.dimensions[-2:]
    if k != k2:
        raise ValueError(f"matmul: the operands have {k} columns and {k2} rows")
    batch = np.broadcast_shapes(x.shape.dimensions[:-2], y.shape.dimensions[:-2])
    if y.shape.rank == 2 and batch:  # one product of tall matrices
        flat = b.reshape(x, (prod(batch) * m, k))
        value = b.reshape(_dot_general(flat, y, b, 0, (1, 0)), (*batch, m, n))
    else:
        x, y = spread(b, x, (*batch, m, k)), spread(b, y, (*batch, k, n))
        value = _dot_general(x, y, b, len(batch), (len(batch) + 1, len(batch)))
    shape = (*batch, *(() if drop_x else (m,)), *(() if drop_y else (n,)))
    return wrap(b, b.reshape(value, shape))


def _dot(a: Any, b: Any, out: Any = None) -> Traced:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    if np.ndim(b) > 2:
        return _tensordot(a, b, ((np.ndim(a) - 1,), (np.ndim(b) - 2,)))
    return matmul(a, b)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Traced:
    build = builder_of(a, b)
    dtype = promoted(a, b)
    x, y = lift(build, a, dtype), lift(build, b, dtype)
    if isinstance(axes, int):
        left, right = tuple(range(x.shape.rank - axes, x.shape.rank)), tuple(range(axes))
    else:
        left, right = normal_axes(axes[0], x.shape.rank), normal_axes(axes[1], y.shape.rank)
    return wrap(build, build.make("dot", x, y, lhs_contracting_dims=left, rhs_contracting_dims=right))


def _where(condition: Any, x: Any = None, y: Any = None) -> Traced:
    if x is None or y is None:
        raise UnsupportedError("np.where with one argument has no compiled form: the size of its result is a value")
    b = builder_of(condition, x, y)
    dtype = promoted(x, y)
    parts = [truth(b, lift(b, condition)), lift(b, x, dtype), lift(b, y, dtype)]
    dimensions = np.broadcast_shapes(*(p.shape.dimensions for p in parts))
    return wrap(b, b.select(*(spread(b, p, dimensions) for p in parts)))


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **_: Any):
    low, high = (a_min if a_min is not None else min), (a_max if a_max is not None else max)
    a = a if low is None else np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


def _sorted(a: Traced, axis: int | None, keys_only: bool) -> Traced:
    """NumPy's order: numbers ascending, NaNs at the end; stable."""
    if axis is None:
        a, axis = a.reshape(a.size), 0
    b, (axis,) = a.build, normal_axes(axis, a.ndim)
    t = a.instruction.shape.element_type
    operands = [a.instruction] if keys_only else [a.instruction, b.iota(S64, a.shape, axis)]
    types = [o.shape.element_type for o in operands for _ in range(2)]
    p = [Instruction(f"p{n}", "parameter", Shape(e), [], {"number": n}) for n, e in enumerate(types)]
    inner = Build("before")
    root = inner.compare(p[0], p[1], direction="LT")
    if t.is_float:
        root = inner.or_(root, inner.and_(inner.not_(is_nan(inner, p[0])), is_nan(inner, p[1])))
    computation = Computation(
        f"{b.name}.before.{b.count}", p + [n for n in post_order(root) if n.opcode != "parameter"], root
    )
    result = b.make("sort", *operands, dimensions=(axis,), is_stable=True, to_apply=computation)
    return wrap(b, result if keys_only else b.make("get-tuple-element", result, index=1))


def _like(value: float) -> Callable:
    def apply(a: Any, dtype: Any = None, shape: Any = None, **_: Any) -> np.ndarray:
        return np.full(a.shape if shape is None else shape, value, a.dtype if dtype is None else dtype)

    return apply


def _filled(value: Any, dtype: np.dtype) -> np.ndarray:
    return np.full((), value, dtype)


def _full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Any:
    dtype = a.dtype if dtype is None else dtype
    shape = a.shape if shape is None else shape
    if isinstance(fill_value, Number):
        b = fill_value.build
        return broadcast_to(wrap(b, b.number(fill_value, np.dtype(dtype), _filled)), shape)
    if isinstance(fill_value, Traced):
        return broadcast_to(fill_value.astype(dtype), shape)
    return np.full(shape, fill_value, dtype)


def _astype(a: Traced, dtype: Any, **_: Any) -> Traced:
    return wrap(a.build, a.build.convert(a.instruction, BY_DTYPE[np.dtype(dtype)]))


def _outer(a: Any, b: Any, out: Any = None) -> Traced:
    return np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1))


def _norm(x: Traced, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Traced:
    if ord not in (None, 2) or (ord == 2 and axis is None and x.ndim > 1):
        raise UnsupportedError(f"np.linalg.norm with ord={ord!r} has no compiled form")
    square = np.real(x * np.conjugate(x))
    return np.sqrt(np.sum(square, axis=axis, keepdims=keepdims))


def _part(opcode: str) -> Callable:
    def apply(val: Traced) -> Traced:
        if val.dtype.kind == "c":
            return wrap(val.build, getattr(val.build, opcode)(val.instruction))
        return val if opcode == "real" else val * np.zeros((), val.dtype)

    return apply


def _round(a: Traced, decimals: int = 0, out: Any = None) -> Traced:
    return np.rint(a) if not decimals else np.rint(a * 10.0**decimals) / 10.0**decimals


def _diff(a: Traced, n: int = 1, axis: int = -1) -> Traced:
    (axis,) = normal_axes(axis, a.ndim)
    before = (slice(None),) * axis
    for _ in range(n):
        a = a[(*before, slice(1, None))] - a[(*before, slice(None, -1))]
    return a


FUNCTIONS |= {
    np.sum: sum_like(np.add), np.prod: sum_like(np.multiply),
    np.max: extreme(np.maximum), np.amax: extreme(np.maximum),
    np.min: extreme(np.minimum), np.amin: extreme(np.minimum),
    np.any: extreme(np.logical_or), np.all: extreme(np.logical_and),
    np.mean: mean, np.var: var, np.std: lambda *a, **k: np.sqrt(var(*a, **k)),
    np.argmax: arg_extreme("maximum"), np.argmin: arg_extreme("minimum"),
    np.cumsum: lambda a, axis=None, dtype=None, out=None: accumulate_by(np.add, a, axis, dtype),
    np.cumprod: lambda a, axis=None, dtype=None, out=None: accumulate_by(np.multiply, a, axis, dtype),
    np.reshape: reshape_to, np.ravel: lambda a, order="C": reshape(a, a.size), np.transpose: transpose,
    np.swapaxes: swapaxes, np.moveaxis: moveaxis, np.expand_dims: expand_dims, np.squeeze: squeeze,
    np.broadcast_to: broadcast_to, np.concatenate: concatenate, np.stack: stack,
    np.vstack: lambda tup, **k: concatenate([np.atleast_2d(x) for x in tup], 0),
    np.hstack: lambda tup, **k: concatenate(tup, 0 if np.ndim(tup[0]) == 1 else 1),
    np.atleast_2d: lambda a: a if a.ndim >= 2 else reshape(a, (1, a.size)),
    np.flip: flip, np.roll: roll, np.pad: pad, np.tile: repeat_tile, np.take: take, np.diff: _diff,
    np.dot: _dot, np.tensordot: _tensordot, np.outer: _outer,
    np.vdot: lambda a, b: np.dot(np.conjugate(a.ravel()), b.ravel()),
    np.inner: lambda a, b: _tensordot(a, b, ((np.ndim(a) - 1,), (np.ndim(b) - 1,))),
    np.where: _where, np.clip: _clip, np.linalg.norm: _norm,
    np.sort: lambda a, axis=-1, **k: _sorted(a, axis, True),
    np.argsort: lambda a, axis=-1, **k: _sorted(a, axis, False),
    np.zeros_like: _like(0), np.ones_like: _like(1), np.empty_like: _like(0), np.full_like: _full_like,
    np.real: _part("real"), np.imag: _part("imag"), np.ndim: lambda a: a.ndim, np.shape: lambda a: a.shape,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.round: _round,
    np.copy: lambda a, **k: wrap(a.build, a.instruction), np.matmul: matmul,
    np.result_type: promoted,
}  # fmt: skip
METHODS |= {
    "sum": FUNCTIONS[np.sum], "prod": FUNCTIONS[np.prod], "max": FUNCTIONS[np.max], "min": FUNCTIONS[np.min],
    "any": FUNCTIONS[np.any], "all": FUNCTIONS[np.all], "mean": mean, "var": var, "std": FUNCTIONS[np.std],
    "argmax": FUNCTIONS[np.argmax], "argmin": FUNCTIONS[np.argmin], "cumsum": FUNCTIONS[np.cumsum],
    "cumprod": FUNCTIONS[np.cumprod], "reshape": reshape, "ravel": FUNCTIONS[np.ravel],
    "flatten": FUNCTIONS[np.ravel], "transpose": transpose, "swapaxes": swapaxes, "squeeze": squeeze,
    "astype": _astype, "clip": _clip, "dot": _dot, "take": take, "round": FUNCTIONS[np.round],
    "conj": lambda a: np.conjugate(a), "conjugate": lambda a: np.conjugate(a), "copy": FUNCTIONS[np.copy],
    "argsort": FUNCTIONS[np.argsort], "__getitem__": index,
}  # fmt: skip
