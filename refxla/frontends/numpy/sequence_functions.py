"""Functions along one dimension: differences, integrals, interpolation, convolutions, polynomials, triangles, grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.module import ConvolutionDimensions, WindowDimension

from .array import Traced
from .dispatch import WriteRefused, implements
from .untyped import np
from .values import (
    I,
    array_of,
    as_array,
    builder_of,
    doubles,
    inexact,
    known_value,
    lift,
    normal_axes,
    normal_axis,
    promoted,
    scalar_or_array,
    type_alone,
    wrap,
)

# -- differences and integrals


def _at(axis: int, key: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, key)


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Traced:
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if not n:  # whatever the other arguments
        return a
    axis = normal_axis(axis, np.ndim(a))
    a = array_of(builder_of(a, prepend, append), a)
    parts: list[Any] = []
    for value in (prepend, a, append):
        if value is np._NoValue:
            continue
        if np.ndim(value) == 0:
            shape = tuple(1 if d == axis else m for d, m in enumerate(a.shape))
            value = np.full_like(a, value, dtype=promoted(value), shape=shape)
        parts.append(value)
    if len(parts) > 1:
        a = np.concatenate(parts, axis)
    for _ in range(n):
        high, low = a[_at(axis, slice(1, None))], a[_at(axis, slice(None, -1))]
        a = high != low if a.dtype == bool else high - low
    return a


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Traced:
    flat = np.ravel(array_of(builder_of(ary, to_end, to_begin), ary))
    differences = flat[1:] - flat[:-1]
    for name, ends in (("to_begin", to_begin), ("to_end", to_end)):
        if ends is not None and not np.can_cast(type_alone(ends), flat.dtype, "same_kind"):
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
    parts = [ends if ends is differences else np.ravel(array_of(flat.build, ends))
             for ends in (to_begin, differences, to_end) if ends is not None]  # fmt: skip
    return np.concatenate(parts).astype(differences.dtype) if len(parts) > 1 else differences


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Traced:
    b = builder_of(y, x, dx)
    y = array_of(b, y)
    axis = normal_axis(axis, y.ndim)
    d: Any = dx
    if x is not None:
        x = array_of(b, x)
        if x.ndim == 1:
            d = np.diff(x).reshape(tuple(-1 if k == axis else 1 for k in range(y.ndim)))
        else:
            d = np.diff(x, axis=axis)
    return np.sum(d * (y[_at(axis, slice(1, None))] + y[_at(axis, slice(None, -1))]) / 2.0, axis=axis)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    b = builder_of(f, varargs)
    f = array_of(b, f)
    axes = normal_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), f.ndim)
    if not axes:
        return ()
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    spacing: Sequence[Any] = varargs or (1.0,)
    spacing = list(spacing) * len(axes) if len(spacing) == 1 and len(axes) > 1 else list(spacing)
    if f.dtype.kind in "iu":
        f = f.astype(np.float64)
    gradients = [_gradient_along(b, f, h, d, edge_order) for h, d in zip(spacing, axes, strict=True)]
    return gradients[0] if len(axes) == 1 else tuple(gradients)


def _gradient_along(b: Any, f: Traced, h: Any, d: int, edge_order: int) -> Traced:
    n = f.shape[d]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            "required."
        )

    def at(low: int | None, high: int | None) -> Traced:
        return f[_at(d, slice(low, high))]

    def weights(x: Traced) -> Traced:
        return x.reshape(tuple(-1 if k == d else 1 for k in range(f.ndim)))

    if np.ndim(h) == 0:
        inside = (at(2, None) - at(None, -2)) / (2.0 * h)
        if edge_order == 1:
            first, last = (at(1, 2) - at(0, 1)) / h, (at(n - 1, n) - at(n - 2, n - 1)) / h
        else:
            first = (-1.5 / h) * at(0, 1) + (2.0 / h) * at(1, 2) + (-0.5 / h) * at(2, 3)
            last = (0.5 / h) * at(n - 3, n - 2) + (-2.0 / h) * at(n - 2, n - 1) + (1.5 / h) * at(n - 1, n)
    else:
        steps = np.diff(array_of(b, h))
        h1, h2 = weights(steps[:-1]), weights(steps[1:])
        inside = -h2 / (h1 * (h1 + h2)) * at(None, -2) + (h2 - h1) / (h1 * h2) * at(1, -1)
        inside = inside + h1 / (h2 * (h1 + h2)) * at(2, None)
        if edge_order == 1:
            first, last = (at(1, 2) - at(0, 1)) / steps[0], (at(n - 1, n) - at(n - 2, n - 1)) / steps[-1]
        else:
            p, q = steps[0], steps[1]
            first = (
                -(2.0 * p + q) / (p * (p + q)) * at(0, 1) + (p + q) / (p * q) * at(1, 2) - p / (q * (p + q)) * at(2, 3)
            )
            p, q = steps[-2], steps[-1]
            last = q / (p * (p + q)) * at(n - 3, n - 2) - (q + p) / (p * q) * at(n - 2, n - 1)
            last = last + (2.0 * q + p) / (q * (p + q)) * at(n - 1, n)
    return np.concatenate([first, inside, last], axis=d).astype(f.dtype)


# -- interpolation


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Traced:
    b = builder_of(x, xp, fp, left, right, period)
    if promoted(fp).kind == "c":
        real, imag = (
            interp(x, xp, *(v if v is None else part(array_of(b, v)) for v in (fp, left, right)), period=period)
            for part in (np.real, np.imag)
        )
        imag = np.where(np.isnan(x), 0.0, imag)
        return wrap(b, b.complex(real.instruction, imag.instruction))
    if any(v is not None and promoted(v).kind == "c" for v in (left, right)):
        raise TypeError("must be real number, not complex")
    x, xp, fp = (doubles(b, np.interp, v) for v in (x, xp, fp))
    if period is not None:
        period = np.abs(period)
        x, xp = x % period, xp % period
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
        left = right = None
    n = xp.shape[0]
    if n == 1:
        inside = np.broadcast_to(fp[0], x.shape)  # for NaN, too
    else:
        k = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, n - 2)
        low, high = fp[k], fp[k + 1]
        slope = (high - low) / (xp[k + 1] - xp[k])
        inside = slope * (x - xp[k]) + low
        other = slope * (x - xp[k + 1]) + high  # from the other side, next to infinities
        other = np.where(np.isnan(other) & (low == high), low, other)
        inside = np.where(x == xp[k], low, np.where(np.isnan(inside), other, inside))
        inside = np.where(x == xp[n - 1], fp[n - 1], inside)
    inside = np.where(x < xp[0], fp[0] if left is None else left, inside)
    inside = np.where(x > xp[n - 1], fp[n - 1] if right is None else right, inside)
    return scalar_or_array(inside if n == 1 else np.where(np.isnan(x), x, inside))


# -- convolutions


# The dimensions of convolution's operands and of its result: batch, features, positions.
_LABELS = ConvolutionDimensions(0, 1, (2,), 1, 0, (2,), 0, 1, (2,))


def _correlated(x: Traced, w: Traced, low: int, high: int) -> Traced:
    """sum over k of x[n + k - low] w[k], for x padded with zeros."""
    b, dtype = x.build, promoted(x, w)
    if dtype.kind == "c":
        xr, xi, wr, wi = x.real, x.imag, w.real, w.imag
        re = _correlated(xr, wr, low, high) - _correlated(xi, wi, low, high)
        im = _correlated(xr, wi, low, high) + _correlated(xi, wr, low, high)
        return wrap(b, b.complex(re.instruction, im.instruction)).astype(dtype)
    if dtype.kind == "b":
        return _correlated(x.astype(np.int64), w.astype(np.int64), low, high) != 0
    (n,), (k,) = x.shape, w.shape
    left, right = (b.reshape(lift(b, v, dtype), (1, 1, v.shape[0])) for v in (x, w))
    convolution = b.make(
        "convolution", left, right, dim_labels=_LABELS,
        window=(WindowDimension(k, padding_low=low, padding_high=high),),
    )  # fmt: skip
    return wrap(b, b.reshape(convolution, (n + low + high - k + 1,)))


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Traced:
    return _convolved(a, np.conjugate(v) if promoted(v).kind == "c" else v, mode, False)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Traced:
    if np.ndim(a) > 0 and np.ndim(v) > 0 and np.shape(v)[0] > np.shape(a)[0]:
        a, v = v, a
    return _convolved(a, np.flip(np.atleast_1d(as_array(v, builder_of(a, v)))), mode, True)


def _convolved(a: Any, v: Any, mode: str, is_convolution: bool) -> Traced:
    b = builder_of(a, v)
    a, v = (np.ravel(array_of(b, x)) for x in (a, v))
    if not a.size or not v.size:
        raise ValueError(
            "first array argument cannot be empty" if not a.size else "second array argument cannot be empty"
        )
    swapped = v.size > a.size and not is_convolution
    if swapped:
        a, v = v, a
    k = v.size
    if mode == "full":
        low, high = k - 1, k - 1
    elif mode == "same":
        low = k // 2
        high = k - 1 - low
    elif mode == "valid":
        low = high = 0
    else:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    result = _correlated(a, v, low, high)
    return np.flip(result) if swapped else result


@implements(np.lib.stride_tricks.sliding_window_view, aliasing=True)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Traced:
    shape = (window_shape,) if isinstance(window_shape, (int, np.integer)) else tuple(window_shape)
    axes = normal_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), x.ndim)
    if len(axes) != len(shape):
        raise ValueError("Must provide matching length window_shape and axis")
    b = x.build

    def windows(whole: I) -> I:
        value = wrap(b, whole)
        for d, size in zip(axes, shape, strict=True):
            n = value.shape[d] - size + 1
            if n < 1:
                raise ValueError("window shape cannot be larger than input array shape")
            places = np.arange(n)[:, None] + np.arange(size)
            value = np.moveaxis(np.take(value, places, axis=d), d + 1, -1)
        return value.instruction

    def refuse(whole: I, part: I) -> I:
        raise WriteRefused("to assign to windows, which share elements, has no compiled form: assign to the array")

    return x.viewed(
        lambda a: np.lib.stride_tricks.sliding_window_view(a, shape, axes, writeable=writeable), windows,
        refuse if writeable else None,
    )  # fmt: skip


# -- polynomials


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Traced:
    b = builder_of(p, x)
    p, x = array_of(b, p), array_of(b, x)
    y = np.zeros_like(x)
    for k in range(p.shape[0]):
        y = y * x + p[k]
    return y


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Traced:
    x, y = _of_one_length(a1, a2)
    return x + y


def _of_one_length(a1: Any, a2: Any) -> tuple[Traced, Traced]:
    """Two polynomials, the shorter one padded with leading zeros."""
    b = builder_of(a1, a2)
    x, y = (np.atleast_1d(array_of(b, v)) for v in (a1, a2))
    n = max(x.size, y.size)
    return np.pad(x, (n - x.size, 0)), np.pad(y, (n - y.size, 0))


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> Traced:
    x, y = _of_one_length(a1, a2)
    return x - y


@implements(np.polymul)
def polymul(a1: Any, a2: Any) -> Traced:
    b = builder_of(a1, a2)
    factors = []
    for factor in (a1, a2):
        known = known_value(factor)
        polynomial = array_of(b, factor) if known is None else np.poly1d(known).coeffs
        if known is None and np.size(polynomial) > 1:
            b.check(
                (polynomial[0] != 0).instruction, InputError, "np.polymul: a polynomial begins with a zero, which "
                "NumPy drops, and the size of the result would depend on values: np.convolve keeps it",
            )  # fmt: skip
        factors.append(polynomial)
    return np.convolve(*factors)


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> Traced:
    for _ in range(m):
        n = p.shape[0] - 1
        p = p[:-1] * np.arange(n, 0, -1)
    return p


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Traced:
    constants = np.zeros(m) if k is None else np.broadcast_to(k, m)
    for n in range(m):
        size = p.shape[0]
        p = np.concatenate([p / np.arange(size, 0, -1), constants[n : n + 1]])
    return p


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Traced:
    n = x.shape[0] if N is None else N
    kind = np.result_type(x.dtype, int)
    powers = [np.ones_like(x, dtype=kind)]
    for _ in range(1, n):
        powers.append(powers[-1] * x)
    columns = powers[:n] if increasing else powers[:n][::-1]
    return np.stack(columns, axis=-1) if n else np.zeros_like(x, kind, shape=(x.shape[0], 0))


@implements(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: bool = False
) -> Traced:
    if full or cov:
        what = "np.polyfit with full or cov has no compiled form"
        raise UnsupportedError(f"{what}: compute them from np.linalg.lstsq(np.vander(x, deg + 1), y)")
    b = builder_of(x, y, w)
    x, y = array_of(b, x) + 0.0, array_of(b, y) + 0.0
    rcond = x.shape[0] * np.finfo(x.dtype).eps if rcond is None else rcond
    matrix, right = np.vander(x, deg + 1), y
    if w is not None:
        w = array_of(b, w) + 0.0
        matrix = matrix * w[:, None]
        right = right * (w[:, None] if right.ndim == 2 else w)
    scale = np.sqrt(np.sum(matrix * matrix, axis=0))
    solution = np.linalg.lstsq(matrix / scale, right, rcond)[0]
    return (solution.T / scale).T


# -- triangles, diagonals, grids


def _triangle(m: Any, k: Any, lower: bool) -> Traced:
    mask = np.tri(*m.shape[-2:], k=int(k) - (0 if lower else 1), dtype=bool)
    return np.where(mask, m, np.zeros((), m.dtype)) if lower else np.where(mask, np.zeros((), m.dtype), m)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Traced:
    return _triangle(m if m.ndim > 1 else np.broadcast_to(m, (m.shape[0],) * 2), k, True)


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Traced:
    return _triangle(m if m.ndim > 1 else np.broadcast_to(m, (m.shape[0],) * 2), k, False)


@implements(np.diag, aliasing=True)
def diag(v: Any, k: int = 0) -> Traced:
    if v.ndim == 2:
        return np.diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = v.shape[0] + abs(k)
    columns = np.pad(v, (max(0, k), max(0, -k)))  # the only element of each
    return np.where(np.eye(n, k=k, dtype=bool), columns[None, :], np.zeros((), v.dtype))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Traced:
    return np.diag(np.ravel(v), k)


@implements(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    return np.tril_indices(arr.shape[-2], k=k, m=arr.shape[-1])


@implements(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    return np.triu_indices(arr.shape[-2], k=k, m=arr.shape[-1])


@implements(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    return np.diag_indices(arr.shape[0], arr.ndim)


@implements(np.meshgrid, aliasing=True)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    b, rank = builder_of(xi), len(xi)
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    places = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    grids = [
        np.reshape(array_of(b, x), tuple(-1 if d == at else 1 for d in range(rank)))
        for x, at in zip(xi, places, strict=True)
    ]
    if not sparse:
        shape = np.broadcast_shapes(*(m.shape for m in grids))
        grids = [np.broadcast_to(m, shape) for m in grids]
    return tuple(m.copy() if copy else m for m in grids)


@implements(np.ix_, aliasing=True)
def ix_(*args: Any) -> tuple[Any, ...]:
    b, rank = builder_of(args), len(args)
    places = []
    for x in args:
        known, is_mask = known_value(x), promoted(x).kind == "b"
        if is_mask and known is None:
            raise UnsupportedError("np.ix_ of masks that are not known has no compiled form: give places, or np.where")
        places.append(array_of(b, np.flatnonzero(known) if is_mask else x))
    return tuple(np.reshape(x, tuple(-1 if d == n else 1 for d in range(rank))) for n, x in enumerate(places))


def _endpoints(start: Any, stop: Any, dtype: Any) -> tuple[Any, Traced, Traced, np.dtype, Any]:
    b = builder_of(start, stop)
    kind = inexact(start, stop)
    return b, array_of(b, start, kind), array_of(b, stop, kind), kind, kind if dtype is None else np.dtype(dtype)


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    _, first, last, kind, result_type = _endpoints(start, stop, dtype)
    count = int(num)
    parts = count - 1 if endpoint else count
    delta = last - first
    steps = np.arange(count, dtype=np.zeros((), kind).real.dtype).reshape((-1,) + (1,) * delta.ndim)
    step = delta / parts if parts > 0 else float("nan")
    values = steps * (step if parts > 0 else delta) + first
    if endpoint and count > 1:
        values = np.concatenate([values[:-1], np.broadcast_to(last, values[-1:].shape)])
    if np.dtype(result_type).kind in "iu":
        values = np.floor(values)
    values = np.moveaxis(values, 0, axis) if axis else values
    values = values.astype(result_type)
    return (values, step) if retstep else values


@implements(np.logspace)
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Traced:
    values = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return values if dtype is None else values.astype(dtype)


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Traced:
    b = builder_of(start, stop)
    kind = np.promote_types(inexact(start, stop), np.float64)  # never narrower, as in NumPy
    first, last = array_of(b, start, kind), array_of(b, stop, kind)
    if kind.kind == "c":
        what = "np.geomspace of complex numbers has no compiled form"
        raise UnsupportedError(f"{what}: start * np.exp(np.linspace(0, np.log(stop / start), num))")
    for end in (first, last):
        nonzero = array_of(b, end) != 0
        b.check(nonzero.instruction, ValueError, "Geometric sequence cannot include zero")
    sign = np.sign(first)
    values = np.power(10.0, np.linspace(np.log10(first * sign), np.log10(last * sign), num, endpoint)) * sign
    if num > 0:  # the ends are exact, and numbers where the others are NaN
        ends = [np.broadcast_to(end, values[:1].shape) for end in (first, last)]
        is_closed = num > 1 and endpoint
        values = np.concatenate([ends[0], values[1:-1] if is_closed else values[1:], *(ends[1:] if is_closed else [])])
    return (np.moveaxis(values, 0, axis) if axis else values).astype(kind if dtype is None else dtype)


# -- insertion, deletion, counting


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Traced:
    b = builder_of(arr, obj, values)
    a = array_of(b, arr)
    a, axis = (np.ravel(a), 0) if axis is None else (a, normal_axis(axis, a.ndim))
    places = known_value(obj if not isinstance(obj, slice) else np.arange(*obj.indices(a.shape[axis])))
    if places is None:
        what = "np.insert at places that are not known has no compiled form"
        raise UnsupportedError(f"{what}: choose by np.where between the array and np.roll of it")
    n = a.shape[axis]
    model = np.insert(np.arange(n), places, -1 - np.arange(max(1, places.size)) if places.ndim else -1)
    count = int((model < 0).sum())
    new = array_of(b, values, a.dtype)
    new = new.reshape((1,) * (a.ndim - new.ndim) + new.shape)
    if places.ndim == 0:
        new = np.moveaxis(new, 0, axis)
        count, start = new.shape[axis], places.item() % (n + 1) if places.item() >= 0 else places.item() + n
        model = np.concatenate([np.arange(start), -1 - np.arange(count), np.arange(start, n)])
    shape = tuple(count if d == axis else m for d, m in enumerate(a.shape))
    block = np.broadcast_to(new, shape)
    return np.take(np.concatenate([a, block], axis), np.where(model < 0, n - 1 - model, model), axis=axis)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Traced:
    b = builder_of(arr, obj)
    a = array_of(b, arr)
    a, axis = (np.ravel(a), 0) if axis is None else (a, normal_axis(axis, a.ndim))
    places = obj if isinstance(obj, slice) else known_value(obj)
    if places is None:
        raise UnsupportedError("np.delete of places that are not known has no compiled form: np.where keeps the shape")
    if isinstance(places, numpy.ndarray) and not places.size:  # an empty list has no type of its own
        places = places.astype(np.int64)
    return np.take(a, np.delete(np.arange(a.shape[axis]), places), axis=axis)


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.dtype.kind not in "iu":
        raise TypeError("only int indices permitted")
    coordinates, rest = [], indices.astype(np.int64)
    size = math.prod(shape)
    indices.build.check(
        ((rest >= 0) & (rest < size)).instruction, ValueError, f"an index is out of bounds for array with size {size}"
    )
    for n in reversed(shape) if order == "C" else shape:
        coordinates.append(rest % n)
        rest = rest // n
    return tuple(reversed(coordinates) if order == "C" else coordinates)


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Traced:
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    modes = (mode,) * len(dims) if isinstance(mode, str) else tuple(mode)
    pairs = list(zip(multi_index, dims, modes, strict=True))
    total: Any = 0
    b = builder_of(multi_index)
    for index, n, how in pairs if order == "C" else reversed(pairs):
        index = array_of(b, index)
        if index.dtype.kind not in "iu":
            raise TypeError("only int indices permitted")
        index = index.astype(np.int64)
        if how == "raise":  # negative ones, too
            b.check(((index >= 0) & (index < n)).instruction, ValueError, "invalid entry in coordinates array")
            how = "clip"
        total = total * n + np.take(array_of(b, np.arange(n)), index, mode=how)
    return total


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Traced:
    axis = normal_axis(axis, p.ndim)
    step = np.diff(p, axis=axis)
    discont = period / 2 if discont is None else discont
    integral = p.dtype.kind in "iu" and isinstance(period, int)
    high, rest = divmod(period, 2) if integral else (period / 2, 1)
    low = -high
    wrapped = (step - low) % period + low
    if rest == 0 or not integral:
        wrapped = np.where((wrapped == low) & (step > 0), high, wrapped)
    correct = np.where(np.abs(step) < discont, 0, wrapped - step)
    up = p.astype(promoted(step, period))
    rest = up[_at(axis, slice(1, None))] + np.cumsum(correct, axis=axis)
    return np.concatenate([up[_at(axis, slice(0, 1))], rest.astype(up.dtype)], axis=axis)


@implements(np.sinc)
def sinc(x: Any) -> Traced:
    kind = inexact(x)
    y = np.pi * np.where(x == 0, 1.0, x).astype(kind)
    return scalar_or_array(np.where(x == 0, np.ones((), kind), np.sin(y) / y))


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Traced:
    if x.dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (x.real, x.imag)]
        numbers = wrap(x.build, x.build.complex(*(p.instruction for p in parts)))
        if copy:
            return numbers
        x[...] = numbers
        return x
    if x.dtype.kind != "f":
        return x if not copy else x.copy()
    limits = np.finfo(x.dtype)
    kind = x.dtype.type
    traced = np.where(np.isnan(x), nan if isinstance(nan, Traced) else kind(nan), x)
    traced = np.where(traced == np.inf, limits.max if posinf is None else kind(posinf), traced)
    traced = np.where(traced == -np.inf, limits.min if neginf is None else kind(neginf), traced)
    if copy:
        return scalar_or_array(traced)
    x[...] = traced
    return x


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Traced:
    return x == np.inf


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Traced:
    return x == -np.inf


@implements(np.real_if_close, aliasing=True)
def real_if_close(a: Any, tol: float = 100) -> Traced:
    if a.dtype.kind != "c":
        return a
    raise UnsupportedError(
        "np.real_if_close of complex numbers has no compiled form, since its type is a value: x.real"
    )
