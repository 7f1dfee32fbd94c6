"""Pooling. Windows are slices of the padded array, one for each element of the window, compared or added elementwise.
The gradient of a mean puts each of them back with a pad; that of a maximum scatters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from refxla_spec.module import SliceDimension, WindowDimension
from refxla_spec.types import S64, Shape

from .elementwise import is_nan
from .lowering import I, Lowering, NotLowered, lowers, lowest, reducer, wide
from .reductions import place_of

_LARGEST = 128  # elements of a window that are compared one by one


class _Window:
    """The windows of a pooling over the last dimensions of an array."""

    def __init__(self, x: I, out: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> None:
        self.n = n = len(kernel)
        self.sizes, self.out = x.shape.dimensions[-n:], tuple(out[-n:])
        self.lead = x.shape.rank - n
        self.kernel = _each(kernel, n)
        self.stride = _each(stride, n) if not isinstance(stride, int) and len(stride) else self.kernel
        self.padding, self.dilation = _each(padding, n), _each(dilation, n)
        if prod(self.kernel) > _LARGEST:
            raise NotLowered(f"with windows of more than {_LARGEST} elements")

    @property
    def high(self) -> tuple[int, ...]:
        """How many elements past the end of the array are read in each dimension (negative: not all are read)."""
        last = zip(self.out, self.stride, self.kernel, self.dilation, self.padding, self.sizes, strict=True)
        return tuple((o - 1) * s + (k - 1) * d + 1 - p - size for o, s, k, d, p, size in last)

    def padded(self, b: Lowering, x: I, value: Any) -> I:
        edges = ((p, max(0, h), 0) for p, h in zip(self.padding, self.high, strict=True))
        return b.padded(x, value, *[(0, 0, 0)] * self.lead, *edges)

    def elements(self) -> list[tuple[int, ...]]:
        return list(product(*(range(k) for k in self.kernel)))

    def part(self, b: Lowering, x: I, element: tuple[int, ...]) -> I:
        """The element of all windows at one position, from a padded array."""
        dims = [SliceDimension(0, n, 1) for n in x.shape.dimensions[: self.lead]]
        for e, d, s, o in zip(element, self.dilation, self.stride, self.out, strict=True):
            dims.append(SliceDimension(e * d, e * d + (o - 1) * s + 1, s))
        return b.make("slice", x, slice=tuple(dims))

    def back(self, b: Lowering, y: I, element: tuple[int, ...]) -> I:
        """The windows' results, put at one position of each window; 0 elsewhere."""
        edges = [(0, 0, 0)] * self.lead
        for e, d, s, p, o, size in zip(
            element, self.dilation, self.stride, self.padding, self.out, self.sizes, strict=True
        ):
            low = e * d - p
            edges.append((low, size - low - ((o - 1) * s + 1), s - 1))
        return b.padded(y, 0, *edges)

    def places(self, b: Lowering, element: tuple[int, ...], dims: tuple[int, ...]) -> I:
        """The position, in the flattened array without padding, of that element of each window (s64)."""
        flat = np.zeros(self.out, np.int64)
        for k, (e, d, s, p, o) in enumerate(
            zip(element, self.dilation, self.stride, self.padding, self.out, strict=True)
        ):
            along = np.arange(o, dtype=np.int64) * s + e * d - p
            flat = flat * self.sizes[k] + along.reshape((o,) + (1,) * (self.n - k - 1))
        literal = b.constant(flat)
        return b.spread(literal, Shape(S64, dims), tuple(range(self.lead, self.lead + self.n)))


def _each(values: Any, n: int) -> tuple[int, ...]:
    values = (values,) if isinstance(values, int) else tuple(values)
    return values * n if len(values) == 1 else values


@lowers("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(
    b: Lowering, x: I, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> list[I]:
    """The first maximum of each window, or a NaN, and its position in the flattened array."""
    n = 3 if "3d" in b.target else 2
    w = _Window(x, b.result[0].dimensions, _each(kernel, n), stride, padding, dilation)
    padded = w.padded(b, x, lowest(x.shape.element_type))
    best = place = None
    for element in w.elements():
        value = w.part(b, padded, element)
        where = w.places(b, element, value.shape.dimensions)
        if best is None or place is None:
            best, place = value, where
            continue
        better = b.compare(value, best, direction="GT")
        if value.shape.element_type.is_float:
            better = b.or_(better, is_nan(b, value))
        best, place = b.select(better, value, best), b.select(better, where, place)
    assert best is not None and place is not None
    return [best, place]


@lowers("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    b: Lowering, g: I, x: I, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: I
) -> I:
    return put_back(b, g, x, indices)


@lowers("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward")
def put_back(b: Lowering, g: I, x: I, indices: I) -> I:
    """Adds each element of the gradient to the element that the indices name, window by window, as in PyTorch."""
    own, n = b.result.element_type, 3 if "3d" in b.target else 2
    lead, size = prod(x.shape.dimensions[:-n]), prod(x.shape.dimensions[-n:])
    windows = prod(g.shape.dimensions[-n:])
    # Flat positions in all of x: those in an array of `size` elements, and where that array begins.
    places = b.reshape(indices, (lead, windows))
    flat = b.reshape(b.add(places, b.multiply(b.iota(S64, (lead, windows), 0), size)), (lead * windows,))
    zeros, updates = b.full(0, Shape(wide(own), (lead * size,))), b.reshape(b.cast(g, wide(own)), (lead * windows,))
    total = b.make(
        "scatter", zeros, flat, updates,
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
        to_apply=reducer("add", wide(own)),
    )  # fmt: skip
    return b.cast(b.reshape(total, x.shape.dimensions), own)


def _divisors(w: _Window, count_padding: bool, divisor: int | None) -> np.ndarray[Any, Any]:
    """The divisor of each window's sum."""
    if divisor is not None:
        return np.full(w.out, divisor, np.float64)
    counts = np.ones(w.out)
    rows = zip(w.out, w.stride, w.kernel, w.padding, w.sizes, strict=True)
    for k, (o, s, size, p, n) in enumerate(rows):
        start = np.arange(o) * s - p
        end = np.minimum(start + size, n + p)
        along = end - start if count_padding else np.minimum(end, n) - np.maximum(start, 0)
        counts = counts * along.reshape((o,) + (1,) * (w.n - k - 1))
    return counts


def _average(b: Lowering, x: I, w: _Window, count_padding: bool, divisor: int | None) -> I:
    """The windows' results divided by the sizes of the windows."""
    kind = wide(x.shape.element_type)
    assert kind.dtype is not None
    counts = b.constant(_divisors(w, count_padding, divisor).astype(kind.dtype))
    dims = x.shape.dimensions
    return b.divide(b.cast(x, kind), b.spread(counts, Shape(kind, dims), tuple(range(w.lead, w.lead + w.n))))


@lowers("avg_pool2d", "avg_pool3d", "avg_pool1d")
def avg_pool(
    b: Lowering, x: I, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> I:  # fmt: skip
    own = b.result.element_type
    w = _Window(x, b.result.dimensions, _each(kernel, _rank(b)), stride, padding)
    window = [WindowDimension(1)] * w.lead
    for size, s, p, h in zip(w.kernel, w.stride, w.padding, w.high, strict=True):
        window.append(WindowDimension(size, s, p, h))
    kind = wide(own)
    total = b.make(
        "reduce-window", b.cast(x, kind), b.scalar(0, kind), window=tuple(window), to_apply=reducer("add", kind)
    )
    return b.cast(_average(b, total, w, count_include_pad, divisor_override), own)


@lowers("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(
    b: Lowering, g: I, x: I, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> I:  # fmt: skip
    own = b.result.element_type
    w = _Window(x, g.shape.dimensions, _each(kernel, _rank(b)), stride, padding)
    share = _average(b, g, w, count_include_pad, divisor_override)
    total = b.full(0, Shape(wide(own), x.shape.dimensions))
    for element in w.elements():
        total = b.add(total, w.back(b, share, element))
    return b.cast(total, own)


def _rank(b: Lowering) -> int:
    return next(n for n in (1, 2, 3) if f"{n}d" in b.target)


# -- to a given size: cell k of a dimension contains the elements from floor(k n / m) to ceil((k + 1) n / m)


def _cells(n: int, m: int) -> list[tuple[int, int]]:
    return [(k * n // m, -(-(k + 1) * n // m)) for k in range(m)]


@lowers("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(b: Lowering, x: I, size: Sequence[int]) -> I:
    """Means along one dimension after another: cells are products of intervals."""
    own = b.result.element_type
    x = b.cast(x, wide(own))
    for d in range(x.shape.rank - len(size), x.shape.rank):
        n, m = x.shape.dimensions[d], b.result.dimensions[d]
        if n == m:
            continue
        parts = []
        for start, end in _cells(n, m):
            total = b.sum(b.cut(x, d, start, end), (d,))
            one = tuple(1 if k == d else s for k, s in enumerate(x.shape.dimensions))
            parts.append(b.reshape(b.divide(total, end - start), one))
        x = b.concatenate(parts, d)
    return b.cast(x, own)


@lowers("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(b: Lowering, x: I, size: Sequence[int]) -> list[I]:
    """The first maximum of each product of cells, or a NaN, and its position in the flattened array. Cells that are
    smaller than others of their dimension repeat their last element."""
    if not b.result[0].size:
        return [b.full(0, shape) for shape in b.result]
    n, sizes = len(size), x.shape.dimensions[-len(size) :]
    kernel = [total // count for total, count in zip(sizes, size, strict=True)]
    uniform = all(total == k * count for total, k, count in zip(sizes, kernel, size, strict=True))
    if uniform and prod(kernel) <= _LARGEST:
        return max_pool(b, x, kernel)
    flat = np.zeros((1,) * 2 * n, np.int64)
    for d, (total, count) in enumerate(zip(sizes, size, strict=True)):
        cells = _cells(total, count)
        longest = max(end - start for start, end in cells)
        own = np.array([[min(start + k, end - 1) for k in range(longest)] for start, end in cells])
        dims = [1] * 2 * n
        dims[d], dims[n + d] = own.shape
        flat = flat * total + own.reshape(dims)
    flat = flat.reshape(prod(size), -1)
    places = b.constant(flat)
    lead = prod(x.shape.dimensions[:-n])
    if uniform:
        pairs = [m for pair in zip(size, kernel, strict=True) for m in pair]
        elements = b.permute(b.reshape(x, (lead, *pairs)), (0, *range(1, 2 * n, 2), *range(2, 2 * n + 1, 2)))
        elements = b.reshape(elements, (lead, *flat.shape))
    else:
        elements = b.make(
            "gather", b.reshape(x, (lead, prod(sizes))), places, offset_dims=(0,), collapsed_slice_dims=(1,),
            start_index_map=(1,), index_vector_dim=2, slice_sizes=(lead, 1),
        )  # fmt: skip
    pair = place_of(b, elements, 2, True, b.spread(places, Shape(S64, elements.shape.dimensions), (1, 2)))
    return [b.reshape(v, s.dimensions) for v, s in zip(pair, b.result, strict=True)]


@lowers("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(b: Lowering, g: I, x: I) -> I:
    own = b.result.element_type
    g = b.cast(g, wide(own))
    for d in range(g.shape.rank - (3 if "3d" in b.target else 2), g.shape.rank):
        n, m = x.shape.dimensions[d], g.shape.dimensions[d]
        if n == m:
            continue
        dims = tuple(n if k == d else s for k, s in enumerate(g.shape.dimensions))
        total = b.full(0, Shape(g.shape.element_type, dims))
        for k, (start, end) in enumerate(_cells(n, m)):
            part = b.divide(b.cut(g, d, k, k + 1), end - start)
            wide_dims = tuple(end - start if j == d else s for j, s in enumerate(g.shape.dimensions))
            edges = [(0, 0, 0)] * g.shape.rank
            edges[d] = (start, n - end, 0)
            total = b.add(total, b.padded(b.expand(part, wide_dims), 0, *edges))
        g = total
    return b.cast(g, own)
