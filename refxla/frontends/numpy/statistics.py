"""Statistics, counting and searching: quantiles, covariances, histograms, and functions that ignore NaNs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refxla_spec.errors import InputError, UnsupportedError

from .array import Traced
from .dispatch import implements, require_cast
from .reduction_functions import is_given, reduce_by
from .untyped import np
from .values import (
    array_of,
    array_wrap,
    as_array,
    builder_of,
    doubles,
    known_value,
    normal_axes,
    own_axis,
    promoted,
    scalar_or_array,
)

# -- quantiles


def _joined_axes(a: Traced, axis: Any) -> tuple[Traced, tuple[int, ...]]:
    """The array with the reduced dimensions merged into its last one."""
    axes = normal_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), a.ndim)
    others = tuple(d for d in range(a.ndim) if d not in axes)
    moved = np.transpose(a, others + axes)
    return moved.reshape((*(a.shape[d] for d in others), int(np.prod([a.shape[d] for d in axes], dtype=int)))), axes


def _with_reduced_axes(value: Traced, axes: tuple[int, ...], rank: int, keepdims: Any, lead: int = 0) -> Traced:
    if keepdims is not True:
        return scalar_or_array(value)
    return np.expand_dims(value, tuple(d + lead for d in axes)) if axes else value


def _lerp(a: Any, b: Any, t: Any) -> Any:
    """NumPy's interpolation, which is exact at both ends."""
    difference = b - a
    return np.where(t >= 0.5, b - difference * (1 - t), a + difference * t)


# The position of a quantile among n sorted elements, from 0 on (Hyndman and Fan, Sample quantiles in statistical
# packages, 1996): (alpha, beta) of the continuous ones, position = n q + alpha + q (1 - alpha - beta) - 1.
_CONTINUOUS = {
    "linear": (1.0, 1.0), "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip


def _places(q: Any, n: Any, method: str) -> tuple[Any, Any, Any]:
    """The two positions between which a quantile lies, and how far after the first one; None: it is the element
    there."""
    if method in ("lower", "higher", "midpoint", "nearest"):
        at = (n - 1) * q
        low = np.floor(at)
        if method == "lower":
            return low, low, None
        if method == "higher":
            return np.ceil(at), np.ceil(at), None
        if method == "nearest":
            even = np.rint(at)
            return even, even, None
        half = np.where(at % 1 == 0, 0.0, 0.5)
        return low, np.ceil(at), half
    if method in ("inverted_cdf", "averaged_inverted_cdf"):
        at = n * q - 1
        low = np.floor(at)
        if method == "inverted_cdf":
            low = np.where(at - low > 0, low + 1, low)
            return low, low, None
        return low, low + 1, np.where(at - low == 0, 0.5, 1.0)
    if method == "closest_observation":
        at = n * q - 1 - 0.5
        low = np.floor(at)
        exact = (at == low) & (low % 2 == 1)
        low = np.where(exact, low, low + 1)
        return low, low, None
    if method not in _CONTINUOUS:
        raise ValueError(f"{method!r} is not a valid method of np.quantile")
    alpha, beta = _CONTINUOUS[method]
    at = (n - 1) * q if method == "linear" else n * q + (alpha + q * (1 - alpha - beta)) - 1
    low = np.floor(at)
    return low, low + 1, at - low


def _quantile(
    a: Any, q: Any, scale: float, axis: Any, method: str, keepdims: Any, weights: Any, skips_nan: bool
) -> Traced:
    if weights is not None:
        raise UnsupportedError("np.quantile with weights has no compiled form: sort, and sum the weights, instead")
    b = builder_of(a, q)
    a = array_of(b, a)
    if a.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    numbers = known_value(q)
    is_number = isinstance(q, (int, float)) and not isinstance(q, Traced)
    if skips_nan and not a.size:  # for any q
        return np.nanmean(a, axis=axis, keepdims=keepdims)
    kind = np.dtype(np.float64)
    if a.dtype.kind == "f":
        kind = a.dtype
    quantiles: Any
    if numbers is not None:
        quantiles = (
            (numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)) / scale
            if a.dtype.kind != "f"
            else (np.true_divide(numbers, a.dtype.type(scale)) if scale != 1 else numbers)
        )
        if numbers.size and not ((quantiles >= 0).all() and (quantiles <= 1).all()):
            raise ValueError(f"{'Percentiles' if scale != 1 else 'Quantiles'} must be in the range [0, {int(scale)}]")
        if is_number and a.dtype.kind == "f":
            quantiles = np.asarray(quantiles, a.dtype)
    else:
        quantiles = array_of(b, q) / (a.dtype.type(scale) if a.dtype.kind == "f" else scale)
        b.check(((quantiles >= 0) & (quantiles <= 1)).instruction, ValueError, "quantiles must be in the range [0, 1]")
    flat, axes = _joined_axes(a, axis)
    n = flat.shape[-1]
    shape = np.shape(quantiles)
    if not n:
        if a.dtype.kind == "f" or 0 not in (*shape, *flat.shape[:-1]):
            raise IndexError("a quantile of an axis of size 0 is no element of it")
        return np.full_like(a, np.nan, dtype=kind, shape=shape + flat.shape[:-1])
    in_order = np.sort(flat, axis=-1)
    nan = np.isnan(flat)
    at = np.reshape(quantiles, shape + (1,) * (flat.ndim - 1))
    count: Any = np.sum(~nan, axis=-1) if skips_nan and a.dtype.kind == "f" else n
    if isinstance(count, Traced):
        low, high, part = _places(at, count.astype(at.dtype if at.dtype.kind == "f" else kind), method)
    else:
        low, high, part = _places(at, count, method)
    if scale == 1 and method == "linear" and numbers is not None and numbers.dtype.kind in "iu":
        part = None  # it is an end
    last = count - 1
    low, high = (np.clip(v, 0, np.maximum(last, 0)) for v in (low, high))
    wide = np.broadcast_shapes(np.shape(low), shape + flat.shape[:-1])
    rows = np.broadcast_to(in_order, shape + flat.shape) if shape else in_order

    def elements_at(places: Any) -> Traced:
        index = np.broadcast_to(places, wide).astype(np.int64)[..., None]
        index = array_of(b, index)
        b.ranges[index.instruction] = n
        return np.take_along_axis(rows, index, axis=-1)[..., 0]

    below = elements_at(low)
    value = below if part is None else _lerp(below, elements_at(high), part)
    if a.dtype.kind == "f":
        missing = count == 0 if skips_nan else np.any(nan, axis=-1)
        value = np.where(missing, np.asarray(np.nan, value.dtype), value)
    zero: Any = (
        (0.0 if isinstance(q, float) else 0)
        if is_number
        else np.zeros_like(numbers)
        if numbers is not None
        else np.zeros((), q.dtype)
    )
    dtype = (np.quantile if scale == 1 else np.percentile)(np.zeros(2, a.dtype), zero, method=method).dtype
    return _with_reduced_axes(value.astype(dtype), axes, a.ndim, keepdims, len(shape))


def _quantiles(scale: float, skips_nan: bool) -> Callable[..., Any]:
    def apply(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: Any = False, *, weights: Any = None,
    ) -> Traced:  # fmt: skip
        return _quantile(a, q, scale, axis, method, keepdims, weights, skips_nan)

    return apply


implements(np.quantile)(_quantiles(1.0, False))
implements(np.percentile)(_quantiles(100.0, False))
implements(np.nanquantile)(_quantiles(1.0, True))
implements(np.nanpercentile)(_quantiles(100.0, True))


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Traced:
    flat, axes = _joined_axes(a, axis)
    n = flat.shape[-1]
    if not n:
        return _with_reduced_axes(np.mean(flat, axis=-1), axes, a.ndim, keepdims)
    in_order = np.sort(flat, axis=-1)
    value = np.mean(in_order[..., (n - 1) // 2 : n // 2 + 1], axis=-1)
    if a.dtype.kind in "fc":
        value = np.where(np.any(np.isnan(flat), axis=-1), np.asarray(np.nan, value.dtype), value)
    return _with_reduced_axes(value, axes, a.ndim, keepdims)


@implements(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Traced:
    if a.dtype.kind not in "fc":
        return np.median(a, axis=axis, keepdims=keepdims is True)
    flat, axes = _joined_axes(a, axis)
    if not flat.shape[-1]:
        return _with_reduced_axes(np.mean(flat, axis=-1), axes, a.ndim, keepdims)
    in_order, count = np.sort(flat, axis=-1), np.sum(~np.isnan(flat), axis=-1)
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, max(0, flat.shape[-1] - 1))
    pair = np.take_along_axis(in_order, np.stack([low, high], axis=-1), axis=-1)
    value = np.where(count % 2 == 1, pair[..., 0], np.mean(pair, axis=-1))
    return _with_reduced_axes(np.where(count == 0, np.asarray(np.nan, a.dtype), value), axes, a.ndim, keepdims)


# -- without NaNs


def _filled(a: Any, value: Any) -> Any:
    return np.where(np.isnan(a), np.asarray(value, a.dtype), a) if a.dtype.kind in "fc" else a


def _stated_options(options: dict[Any, Any]) -> dict[Any, Any]:
    return {k: v for k, v in options.items() if is_given(v)}


def _without_nan(function: Callable[..., Any], value: float) -> Callable[..., Any]:
    def apply(a: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        return function(_filled(a, value), axis, *args, **_stated_options(options))

    return apply


implements(np.nansum)(_without_nan(np.sum, 0))
implements(np.nanprod)(_without_nan(np.prod, 1))
implements(np.nancumsum)(_without_nan(np.cumsum, 0))
implements(np.nancumprod)(_without_nan(np.cumprod, 1))


def _extreme_without_nan(function: Callable[..., Any], ufunc: np.ufunc, value: float) -> Callable[..., Any]:
    def apply(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
        if a.dtype.kind == "c":
            return reduce_by(ufunc, a, axis, keepdims=keepdims is True, **_stated_options(options))
        if a.dtype.kind != "f":
            return function(a, axis=axis, keepdims=keepdims is True, **_stated_options(options))
        extremes = function(_filled(a, value), axis=axis, keepdims=keepdims is True, **_stated_options(options))
        if is_given(options.get("initial")):
            return extremes
        every = np.all(np.isnan(a), axis=axis, keepdims=keepdims is True)
        return scalar_or_array(np.where(every, np.asarray(np.nan, a.dtype), extremes))

    return apply


implements(np.nanmax)(_extreme_without_nan(np.max, np.fmax, -np.inf))
implements(np.nanmin)(_extreme_without_nan(np.min, np.fmin, np.inf))


def _arg_without_nan(function: Callable[..., Any], value: float) -> Callable[..., Any]:
    def apply(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        if a.dtype.kind in "fc":
            every = np.all(np.isnan(a), axis=axis)
            a.build.check((~every).instruction, ValueError, "All-NaN slice encountered")
        return function(_filled(a, value), axis=axis, keepdims=keepdims is True)

    return apply


implements(np.nanargmax)(_arg_without_nan(np.argmax, -np.inf))
implements(np.nanargmin)(_arg_without_nan(np.argmin, np.inf))


def _chosen_numbers(a: Any, where: Any) -> Any:
    """Where an array has numbers, and `where` selects them."""
    some = True if a.dtype.kind not in "fc" else ~np.isnan(a)
    if where is True or not is_given(where):
        return some
    where = array_of(a.build, where, bool)
    return where if some is True else some & where


def _require_inexact(a: Any, dtype: Any) -> None:
    """Raises NumPy's error for a mean of numbers among NaN that would be converted to integers."""
    if dtype is not None and a.dtype.kind in "fc" and not issubclass(np.dtype(dtype).type, np.inexact):
        raise TypeError("If a is inexact, then dtype must be inexact")


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    _require_inexact(a, dtype)
    if a.dtype.kind in "fc":
        axis = own_axis(axis, a.ndim)
    return np.mean(a, axis=axis, dtype=dtype, keepdims=keepdims is True, where=_chosen_numbers(a, where))


def _spread_without_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = True, mean: Any = None, correction: Any = None,
    ) -> Any:  # fmt: skip
        _require_inexact(a, dtype)
        some, ddof = _chosen_numbers(a, where), correction if is_given(correction) else ddof
        options = {"mean": mean} if is_given(mean) else {}
        if a.dtype.kind in "fc":
            axis = own_axis(axis, a.ndim)
        values = function(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims is True, where=some, **options)
        if a.dtype.kind not in "fc":
            return values
        count = np.sum(np.broadcast_to(some, a.shape), axis=axis, keepdims=keepdims is True)
        return scalar_or_array(np.where(count <= ddof, np.asarray(np.nan, values.dtype), values))

    return apply


implements(np.nanvar)(_spread_without_nan(np.var))
implements(np.nanstd)(_spread_without_nan(np.std))


# -- covariances


@implements(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Traced:  # fmt: skip
    b = builder_of(m, y, fweights, aweights)
    arrays = [v for v in (m, y) if v is not None]
    for v, name in zip((m, y), "my", strict=True):
        if v is not None and np.ndim(v) > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    kind = np.result_type(np.float64, *(promoted(v) for v in arrays)) if dtype is None else np.dtype(dtype)
    rows = [np.atleast_2d(array_of(b, v, kind)) for v in arrays]
    if not rowvar:
        rows = [r.T if np.ndim(v) != 1 else r for r, v in zip(rows, arrays, strict=True)]
    if not rows[0].shape[0]:  # NumPy does not look at `y` then
        return array_of(b, np.zeros((0, 0)))
    x = np.concatenate(rows, axis=0) if len(rows) > 1 else rows[0]
    ddof = (0 if bias else 1) if ddof is None else ddof
    w: Any = None
    for weights in (fweights, aweights):
        if weights is not None:
            one = doubles(b, np.cov, weights)
            w = one if w is None else w * one
    if w is None:
        average, total = np.mean(x, axis=1), x.shape[1]
        factor: Any = total - ddof
    else:
        total = np.sum(w)
        average = np.sum(x * w, axis=1) / total
        if ddof == 0:
            factor = total
        elif aweights is None:
            factor = total - ddof
        else:
            factor = total - ddof * np.sum(w * aweights) / total
    if not isinstance(factor, Traced):
        factor = max(factor, 0.0)
    centred = x - average[:, None]
    right = (centred if w is None else centred * w).T
    product = np.dot(centred, np.conjugate(right))
    return np.squeeze(product * np.true_divide(1, factor))


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None, **_: Any) -> Traced:
    c = np.cov(x, y, rowvar, dtype=dtype) if y is not None else cov(x, None, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    deviation = np.sqrt(np.real(np.diagonal(c)))
    c = c / deviation[:, None] / deviation[None, :]
    if c.dtype.kind == "c":
        traced = c.copy()
        traced.real[...] = np.clip(c.real, -1, 1)
        traced.imag[...] = np.clip(c.imag, -1, 1)
        return traced
    return np.clip(c, -1, 1)


# -- searching


def _before(x: Any, y: Any) -> Any:
    """Whether x comes before y in NumPy's order, in which NaN is last."""
    less = x < y
    return less | (~np.isnan(x) & np.isnan(y)) if promoted(x, y).kind in "fc" else less


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Traced:
    """A binary search for all elements at once."""
    b = builder_of(a, v, sorter)
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    v = as_array(v, b)
    kind = promoted(a, v)
    a, v = array_of(b, a, kind), array_of(b, v, kind)
    if a.ndim != 1:
        raise ValueError("object too deep for desired array")
    if sorter is not None:
        if np.size(sorter) != a.size:
            raise ValueError("sorter.size must equal a.size")
        a = np.take(a, sorter)
    n = a.shape[0]
    low = array_of(b, np.zeros(v.shape, np.int64))
    if not n:
        return low
    step = 1 << max(0, n.bit_length() - 1)  # the position is the sum of some powers of two
    while step:
        next_place = low + step
        there = np.minimum(next_place, n) - 1
        b.ranges[there.instruction] = n
        element = np.take(a, there)
        further = _before(element, v) if side == "left" else ~_before(v, element)
        low = np.where(further & (next_place <= n), next_place, low)
        step //= 2
    b.ranges[low.instruction] = n + 1
    return scalar_or_array(low)


@implements("searchsorted")
def searchsorted_method(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Traced:
    return np.searchsorted(a, v, side, sorter)


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Traced:
    b = builder_of(x, bins)
    if promoted(x).kind == "c":
        raise TypeError("x may not be complex")
    require_cast(np.digitize, promoted(bins), np.dtype(np.float64), "safe")
    bins = array_of(b, bins)
    side = "left" if right else "right"
    edges = bins.known_value
    if edges is not None:
        if (edges[1:] < edges[:-1]).any():  # np.diff may overflow
            if (edges[1:] > edges[:-1]).any():
                raise ValueError("bins must be monotonically increasing or decreasing")
            return edges.size - np.searchsorted(edges[::-1], array_of(b, x), side)
        return np.searchsorted(edges, array_of(b, x), side)
    n = bins.shape[0]
    up = np.searchsorted(bins, x, side)
    if n < 2:
        return up
    down = n - np.searchsorted(np.flip(bins), x, side)
    b.check(
        (np.all(bins[1:] >= bins[:-1]) | np.all(bins[1:] <= bins[:-1])).instruction, ValueError,
        "bins must be monotonically increasing or decreasing",
    )  # fmt: skip
    return scalar_or_array(np.where(bins[0] <= bins[-1], up, down))


@implements(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Traced:
    b = builder_of(element, test_elements)
    x, test = array_of(b, element), np.ravel(array_of(b, test_elements))
    if not test.size:
        mask: Any = np.zeros_like(x, dtype=bool)
    else:
        together = promoted(x, test)
        x, test = x.astype(together), np.sort(test.astype(together))
        place = np.minimum(np.searchsorted(test, x), test.size - 1)
        mask = np.take(test, place) == x
    return array_wrap(b, array_of(b, ~mask if invert else mask).instruction)


# -- counting


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Traced:
    b = builder_of(x, weights)
    x = array_of(b, x)
    if x.ndim != 1:
        raise ValueError("object too deep for desired array")
    if x.dtype.kind not in "iub":
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to dtype('int64') according to the rule 'safe'")
    size = int(minlength) if x.known_value is None else max(int(minlength), int(x.known_value.max(initial=-1)) + 1)
    if not size:
        raise UnsupportedError(
            "np.bincount without minlength has no compiled form, since the size of its result is a value: give "
            "minlength=n, where all of x is below n"
        )
    if weights is not None and np.shape(weights) != x.shape and x.size:
        raise ValueError("The weights and list don't have the same length.")
    weights = doubles(b, np.bincount, weights) if weights is not None and x.size else None
    x = x.astype(np.int64)
    b.check((x >= 0).instruction, ValueError, "'list' argument must have no negative elements")
    b.check((x < size).instruction, InputError,
            f"np.bincount: an element is not below minlength={size}, which is the size of the compiled result: give a "
            "larger one")  # fmt: skip
    counts = array_of(b, np.zeros(size, np.int64 if weights is None else np.float64)).copy()
    np.add.at(counts, x, 1 if weights is None else weights)
    return counts


def _edges(a: Traced, bins: Any, range: Any, unordered: str) -> Traced:
    """The edges of the bins of a histogram. `unordered` is the message of the error if those that are given descend."""
    if isinstance(bins, str):
        raise UnsupportedError(
            f"np.histogram with bins={bins!r} has no compiled form, since their number is a value: give a number, or "
            "the edges that np.histogram_bin_edges finds outside"
        )
    if np.ndim(bins) == 1:
        edges = array_of(a.build, bins)
        known = edges.known_value
        if known is None:
            a.build.check((~(edges[:-1] > edges[1:])).instruction, ValueError, unordered)
        elif (known[:-1] > known[1:]).any():
            raise ValueError(unordered)
        return edges
    count = bins.__index__()
    if count < 1:
        raise ValueError("`bins` must be positive, when an integer")
    if range is not None:
        first, last = range
        if any(isinstance(v, Traced) for v in (first, last)):
            ordered, finite = (array_of(a.build, v) for v in (first <= last, np.isfinite(first) & np.isfinite(last)))
            a.build.check(ordered.instruction, ValueError, "max must be larger than min in range parameter.")
            a.build.check(finite.instruction, ValueError, "supplied range is not finite")
            first, last = _widened(first, last)
        else:
            if not (np.isfinite(first) and np.isfinite(last)) or first > last:
                raise ValueError(f"supplied range of [{first}, {last}] is not finite, or max is smaller than min")
            if first == last:
                first, last = first - 0.5, last + 0.5
    elif not a.size:
        first, last = 0.0, 1.0
    else:
        first, last = np.min(a), np.max(a)
        finite = array_of(a.build, np.isfinite(first) & np.isfinite(last))
        a.build.check(finite.instruction, ValueError, "autodetected range of the histogram is not finite")
        first, last = _widened(first, last)
    kind = np.result_type(*(promoted(v) if isinstance(v, Traced) else v for v in (first, last)), a.dtype)
    kind = np.result_type(kind, float) if kind.kind in "iu" else kind
    return array_of(a.build, np.linspace(first, last, count + 1, endpoint=True, dtype=kind))


def _widened(first: Any, last: Any) -> tuple[Any, Any]:
    """A range of values; one with a single value is one wide."""
    same = first == last
    return np.where(same, first - 0.5, first), np.where(same, last + 0.5, last)


@implements(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, ...]:
    b = builder_of(a, bins, range, weights)
    a = np.ravel(array_of(b, a))
    a = a.astype(np.uint8) if a.dtype == bool else a
    edges = _edges(a, bins, range, "`bins` must increase monotonically, when an array")
    n = edges.shape[0] - 1
    place = np.searchsorted(edges, a, side="right") - 1
    place = np.where(a == edges[n], n - 1, place)  # the last bin includes both of its edges
    inside = (a >= edges[0]) & (a <= edges[n])
    place = np.clip(place, 0, n - 1)
    b.ranges[place.instruction] = n
    kind = np.dtype(np.int64) if weights is None else promoted(weights)
    counts = array_of(b, np.zeros(n, kind)).copy()
    added: Any = np.ones((), kind) if weights is None else np.ravel(array_of(b, weights, kind))
    np.add.at(counts, place, np.where(inside, added, np.zeros((), kind)))
    if density:
        widths = np.diff(edges).astype(float)
        return counts / widths / np.sum(counts), edges
    return counts, edges


def _is_one(bins: Any) -> bool:
    """Whether `bins` is a number, not a sequence, which may have edges of different lengths."""
    return not isinstance(bins, (list, tuple)) and np.ndim(bins) == 0


@implements(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, ...]:
    if not _is_one(bins) and len(bins) > 2:  # the edges of both
        bins = [bins, bins]
    counts, edges = np.histogramdd([x, y], bins, range, density, weights)
    return counts, edges[0], edges[1]


@implements(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, ...]:
    b = builder_of(sample, bins, range, weights)
    columns: Sequence[Any] = (
        [sample[:, d] for d in np.arange(sample.shape[1])]
        if isinstance(sample, Traced)
        else [array_of(b, c) for c in sample]
    )
    kind, count = promoted(*columns), len(columns)
    columns = [array_of(b, c, kind) for c in columns]
    bins = [bins] * count if _is_one(bins) else list(bins)
    if len(bins) != count:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * count if range is None else list(range)
    edges = [
        _edges(c, k, r, f"`bins[{d}]` must be monotonically increasing, when an array")
        for d, (c, k, r) in enumerate(zip(columns, bins, ranges, strict=True))
    ]
    shape = tuple(e.shape[0] - 1 for e in edges)
    place: Any = 0
    inside: Any = True
    for c, e, n in zip(columns, edges, shape, strict=True):
        at = np.where(c == e[n], n - 1, np.searchsorted(e, c, side="right") - 1)
        inside = inside & (c >= e[0]) & (c <= e[n])
        place = place * n + np.clip(at, 0, n - 1)
    total = int(np.prod(shape))
    b.ranges[place.instruction] = total
    flat = array_of(b, np.zeros(total)).copy()
    added: Any = 1.0 if weights is None else array_of(b, weights, np.float64)
    np.add.at(flat, place, np.where(inside, added, 0.0))
    counts = flat.reshape(shape)
    if density:
        whole = np.sum(counts)
        for d, e in enumerate(edges):
            counts = counts / np.diff(e).reshape(tuple(-1 if k == d else 1 for k in np.arange(count)))
        counts = counts / whole
    return counts, edges
