"""Resizing of images with antialiasing, one dimension after the other: each element of the result is a sum of the
elements under a filter, which is stretched when an image becomes smaller. Their positions and weights are constants.

The gradient is the same with the transposed matrix of weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np
from refxla_spec.types import Shape

from .lowering import I, Lowering, NotLowered, lowers, wide

Array = np.ndarray


def _linear(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Array) -> Array:
    a, x = -0.5, np.abs(x)
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x: Array) -> Array:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


_FILTERS: dict[str, tuple[Callable[[Array], Array], float]] = {  # and the support of each
    "bilinear": (_linear, 1), "bicubic": (_cubic, 2), "lanczos": (_lanczos, 3),
}  # fmt: skip


def _weights(name: str, count: int, size: int, align: bool, factor: float | None) -> Array:
    """The matrix [result, source] of one dimension."""
    function, reach = _FILTERS[name]
    if align:
        scale = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        scale = 1 / factor if factor else size / count
    stretch = max(scale, 1.0)
    matrix = np.zeros((count, size))
    for row in range(count):
        centre = scale * (row + 0.5)
        first = max(int(centre - reach * stretch + 0.5), 0)
        end = min(int(centre + reach * stretch + 0.5), size)
        end = min(end, first + 2 * ceil(reach * stretch) + 1)
        values = function((np.arange(first, end) - centre + 0.5) / stretch)
        total = values.sum()
        matrix[row, first:end] = values / total if total else values
    return matrix


def _taps(matrix: Array) -> tuple[Array, Array]:
    """For each row, the positions of its nonzero elements, and the weights there, padded to the longest row."""
    there = matrix != 0
    longest = max(1, int(there.sum(1).max()))
    places = np.argsort(~there, axis=1, kind="stable")[:, :longest]
    return places, np.take_along_axis(matrix, places, 1)


def _resized(b: Lowering, x: I, dimension: int, matrix: Array) -> I:
    """One dimension of an array multiplied by a matrix with few elements in each row."""
    places, weights = _taps(matrix)
    sizes = tuple(len(matrix) if d == dimension else n for d, n in enumerate(x.shape.dimensions))
    dims = (*sizes, places.shape[1])
    others = tuple(d for d in range(len(dims)) if d not in (dimension, len(dims) - 1))
    elements = b.make(
        "gather", x, b.constant(places), offset_dims=others, collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,), index_vector_dim=2,
        slice_sizes=tuple(1 if d == dimension else n for d, n in enumerate(x.shape.dimensions)),
    )  # fmt: skip
    kind = x.shape.element_type
    factors = b.spread(b.constant(weights.astype(kind.dtype)), Shape(kind, dims), (dimension, len(dims) - 1))
    return b.sum(b.multiply(elements, factors), (len(dims) - 1,))


def _entered(name: str) -> None:
    def forward(
        b: Lowering, x: I, size: Sequence[int], align: bool, height: float | None = None, width: float | None = None
    ) -> I:
        return _by_both(b, x, [3, 2], x.shape.dimensions, size, align, (height, width), False)

    def backward(
        b: Lowering, g: I, size: Sequence[int], input_size: Sequence[int], align: bool, height: float | None = None,
        width: float | None = None,
    ) -> I:  # fmt: skip
        return _by_both(b, g, [2, 3], input_size, size, align, (height, width), True)

    def _by_both(
        b: Lowering, x: I, order: Sequence[int], source: Sequence[int], size: Sequence[int], align: bool,
        factors: Sequence[float | None], transposed: bool,
    ) -> I:  # fmt: skip
        own = b.result.element_type
        if not own.is_float:
            raise NotLowered("of integers")
        x = b.cast(x, wide(own))
        for d in order:
            matrix = _weights(name, size[d - 2], source[d], align, factors[d - 2])
            x = _resized(b, x, d, matrix.T if transposed else matrix)
        return b.cast(x, own)

    lowers(f"_upsample_{name}2d_aa")(forward)
    lowers(f"_upsample_{name}2d_aa_backward")(backward)


for _name in _FILTERS:
    _entered(_name)
