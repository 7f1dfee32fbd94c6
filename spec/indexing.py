"""Index arithmetic that several operations share: windows that slide over an array, and start indices."""

from __future__ import annotations

from math import gcd
from typing import TypeVar

import numpy as np

from .module import Window, WindowDimension
from .types import Array

T = TypeVar("T")


def window_count(size: int, w: WindowDimension) -> int:
    """How often the window fits into a dimension of `size` elements: the size of the result."""
    base = (size - 1) * w.base_dilation + 1 if size else 0
    padded = base + w.padding_low + w.padding_high
    window = (w.size - 1) * w.window_dilation + 1
    return 0 if padded <= 0 or window > padded else (padded - window) // w.stride + 1


def meeting(count: int, step: int, offset: int, extent: int, dilation: int) -> tuple[slice, slice]:
    """Which of the i in 0..count-1 hit an element j in 0..extent-1, where i * step + offset = j * dilation.

    Both are arithmetic progressions: returned as two slices of equal length, of the i and of the j.
    """
    i_step = dilation // gcd(step, dilation)
    # From the first i whose position is not negative, one of the next i_step hits a multiple of the dilation, or none.
    lowest = max(0, -(offset // step))
    for i in range(lowest, lowest + i_step):
        position = i * step + offset
        if position % dilation == 0:
            j, j_step = position // dilation, step * i_step // dilation
            hits = min(-(-(count - i) // i_step), -(-(extent - j) // j_step))
            if hits > 0:
                return slice(i, i + (hits - 1) * i_step + 1, i_step), slice(j, j + (hits - 1) * j_step + 1, j_step)
    return slice(0, 0), slice(0, 0)


def window_slices(
    window: Window, at: tuple[int, ...], sizes: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """For element `at` of the window: the placings where it lies on an element of the array, and those elements.

    Placing o of a dimension has element k of the window at o * stride + k * window_dilation - padding_low of the
    dilated array. `sizes` are the array's, `counts` the numbers of placings.
    """
    pairs = [
        meeting(count, w.stride, k * w.window_dilation - w.padding_low, size, w.base_dilation)
        for w, k, size, count in zip(window, at, sizes, counts, strict=True)
    ]
    return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)


def placing_slices(
    window: Window, placing: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """For one placing of the window: which of the window's elements lie on elements of the array, and on which."""
    pairs = [
        meeting(w.size, w.window_dilation, o * w.stride - w.padding_low, size, w.base_dilation)
        for w, o, size in zip(window, placing, sizes, strict=True)
    ]
    return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)


def clamped(index: Array, limit: int | Array) -> Array:
    """Indices of any integer type, clamped into 0..limit, as s64."""
    index = np.asarray(index)
    if index.dtype.kind != "u":
        index = index.astype(np.int64)
        return np.clip(index, 0, limit)
    return np.minimum(index.astype(np.uint64), np.uint64(limit)).astype(np.int64)


def block(dimensions: tuple[int, ...], start_indices: tuple[Array, ...], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """The slices of a block of `sizes` that begins at the start indices, clamped so that it lies inside.

    The start indices are scalars, one for each dimension, or a single vector of them.
    """
    if len(start_indices) == 1 and np.ndim(start_indices[0]) == 1:
        start_indices = tuple(start_indices[0])
    starts = (int(clamped(s, d - n)) for s, d, n in zip(start_indices, dimensions, sizes, strict=True))
    return tuple(slice(start, start + n) for start, n in zip(starts, sizes, strict=True))


def without(sizes: tuple[T, ...], dims: tuple[int, ...]) -> tuple[T, ...]:
    """The sizes (or marks) of the dimensions that are not in dims."""
    return tuple(s for d, s in enumerate(sizes) if d not in dims)


def index_vectors(indices: Array, index_vector_dim: int) -> Array:
    """The indices of a gather or scatter with their vectors along the last dimension, which is added if missing."""
    if index_vector_dim == indices.ndim:
        return indices[..., None]
    return np.moveaxis(indices, index_vector_dim, -1)


def batch_coordinates(batch: tuple[int, ...], dim: int, index_vector_dim: int) -> Array:
    """At each place of the batch its coordinate along dimension `dim` of the indices, in which the vectors count."""
    dim -= dim > index_vector_dim
    shape = [1] * len(batch)
    shape[dim] = batch[dim]
    return np.broadcast_to(np.arange(batch[dim]).reshape(shape), batch)
