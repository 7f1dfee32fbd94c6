"""Fourier transforms, and distances between all pairs of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

from refxla_spec.types import Shape

from .lowering import I, Lowering, NotLowered, axis, lowers, real_of, reducer


def _along(b: Lowering, x: I, dimension: int, kind: str, length: int) -> I:
    """A transform of one dimension, which is temporarily moved to the end."""
    order = [d for d in range(x.shape.rank) if d != dimension] + [dimension]
    back = sorted(range(len(order)), key=order.__getitem__)
    moved = b.make("fft", b.permute(x, order), fft_type=kind, fft_length=(length,))
    return b.permute(moved, back)


def _scaled(b: Lowering, x: I, count: int, normalization: int, inverse: bool) -> I:
    """PyTorch's normalization (0 none, 1 by the root of the count, 2 by the count), applied to HLO's transform, whose
    inverse divides by the count."""
    factor = {0: 1.0, 1: 1 / sqrt(count), 2: 1 / count}[normalization] * (count if inverse else 1)
    return x if factor == 1 else b.multiply(x, factor)


def _dimensions(x: I, dims: Sequence[int]) -> list[int]:
    if not x.shape.size:
        raise NotLowered("of arrays without elements")
    return [axis(d, x.shape.rank) for d in dims]


@lowers("_fft_c2c")
def c2c(b: Lowering, x: I, dims: Sequence[int], normalization: int, forward: bool) -> I:
    places = _dimensions(x, dims)
    for d in places:
        x = _along(b, x, d, "FFT" if forward else "IFFT", x.shape.dimensions[d])
    return _scaled(b, x, prod(x.shape.dimensions[d] for d in places), normalization, not forward)


@lowers("_fft_r2c")
def r2c(b: Lowering, x: I, dims: Sequence[int], normalization: int, onesided: bool) -> I:
    if not onesided:
        return c2c(b, b.cast(x, b.result.element_type), dims, normalization, True)
    places = _dimensions(x, dims)
    count = prod(x.shape.dimensions[d] for d in places)
    *others, last = places
    x = _along(b, x, last, "RFFT", x.shape.dimensions[last])
    for d in others:
        x = _along(b, x, d, "FFT", x.shape.dimensions[d])
    return _scaled(b, x, count, normalization, False)


@lowers("_fft_c2r")
def c2r(b: Lowering, x: I, dims: Sequence[int], normalization: int, last_dim_size: int) -> I:
    *others, last = _dimensions(x, dims)
    for d in others:
        x = _along(b, x, d, "IFFT", x.shape.dimensions[d])
    x = _along(b, x, last, "IRFFT", last_dim_size)
    return _scaled(b, x, prod(x.shape.dimensions[d] for d in (*others, last)), normalization, True)


@lowers("_cdist_forward")
def cdist(b: Lowering, x: I, y: I, p: float, compute_mode: int | None) -> I:
    """Distances [.., m, n] between rows [.., m, k] and [.., n, k], from the sums of powers of differences."""
    if p not in (1, 2, float("inf")):
        raise NotLowered(f"for p = {p}")
    kind, batch = x.shape.element_type, b.result.dimensions[:-2]
    if kind is not real_of(kind):
        raise NotLowered("of complex numbers")
    (m, k), n = x.shape.dimensions[-2:], y.shape.dimensions[-2]
    x, y = b.expand(x, (*batch, m, k)), b.expand(y, (*batch, n, k))
    wide, rank = Shape(kind, (*batch, m, n, k)), len(batch)
    left = b.spread(x, wide, (*range(rank + 1), rank + 2))
    right = b.spread(y, wide, (*range(rank), rank + 1, rank + 2))
    difference = b.abs(b.subtract(left, right))
    last = (rank + 2,)
    if p == 2:
        return b.sqrt(b.sum(b.multiply(difference, difference), last))
    if p == 1:
        return b.sum(difference, last)
    return b.reduce(difference, 0, last, reducer("maximum", kind))
