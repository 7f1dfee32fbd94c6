"""Decompositions of grid_sample and its gradient, by linear, nearest and cubic interpolation of images and volumes.

A sample is a sum over taps, products of one tap of each dimension: two for linear interpolation, one for the nearest
element, four for cubic. What a tap has of a dimension is a place, whether it lies inside, a weight, and the weight's
derivative by the coordinate of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch.utils._pytree import tree_map

_LINEAR, _NEAREST, _CUBIC = 0, 1, 2  # interpolation modes
_ZEROS, _BORDER = 0, 1  # padding modes; the other one reflects
_SHARPNESS = -0.75  # of the cubic convolution


@dataclass
class _Tap:
    """Of one dimension."""

    place: Any
    inside: Any
    weight: Any
    slope: Any


def _reflected(x: Any, twice_low: int, twice_high: int) -> tuple[Any, Any]:
    """Coordinates mirrored until they lie between two bounds, and the derivative, which is 1 or -1."""
    if twice_low == twice_high:
        return torch.zeros_like(x), torch.zeros_like(x)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    distance = (x - low).abs()
    rest, flips = torch.fmod(distance, span), torch.floor(distance / span)
    even = torch.fmod(flips, 2) == 0
    sign = torch.where(x < low, -1.0, 1.0).to(x.dtype)
    return torch.where(even, rest + low, span - rest + low), torch.where(even, sign, -sign)


def _padded(x: Any, size: int, padding: int, align: bool) -> tuple[Any, Any]:
    """Coordinates after the padding mode, and the derivative by what they were."""
    slope = torch.ones_like(x)
    if padding == _ZEROS:
        return x, slope
    if padding != _BORDER:
        x, slope = _reflected(x, 0, 2 * (size - 1)) if align else _reflected(x, -1, 2 * size - 1)
    outside = (x <= 0) | (x >= size - 1)
    return x.clamp(0, size - 1), torch.where(outside, 0, slope)


def _cubic(t: Any) -> list[tuple[Any, Any]]:
    """The weights of four neighbours of a coordinate, which is t to the right of the second, and their derivatives."""
    a = _SHARPNESS

    def near_weight(x: Any) -> tuple[Any, Any]:
        return ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far_weight(x: Any) -> tuple[Any, Any]:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a

    right = [(w, -s) for w, s in (near_weight(1 - t), far_weight(2 - t))]
    return [far_weight(t + 1), near_weight(t), *right]


def _taps(coordinate: Any, size: int, mode: int, padding: int, align: bool) -> list[_Tap]:
    """Of one dimension, for coordinates from -1 to 1."""
    factor = (size - 1) / 2 if align else size / 2
    x = (coordinate + 1) / 2 * (size - 1) if align else ((coordinate + 1) * size - 1) / 2
    if mode == _CUBIC:
        first = x.floor()
        places = [_padded(first + k, size, padding, align)[0] for k in (-1, 0, 1, 2)]
        weights = [(w, s * factor) for w, s in _cubic(x - first)]
    else:
        x, slope = _padded(x, size, padding, align)
        slope = slope * factor
        if mode == _NEAREST:
            places, weights = [x.round()], [(torch.ones_like(x), torch.zeros_like(x))]
        else:
            first = x.floor()
            places = [first, first + 1]
            weights = [(first + 1 - x, -slope), (x - first, slope)]
    inside = [(p >= 0) & (p <= size - 1) for p in places]
    return [_Tap(torch.where(i, p, 0).long(), i, w, s) for p, i, (w, s) in zip(places, inside, weights, strict=True)]


def _of_all(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Iterator[tuple[Any, Any, tuple[_Tap, ...]]]:
    """Of each tap the places [batch, points] in an image seen as flat, whether they lie inside, and its parts by
    dimension, the slowest first."""
    sizes = x.shape[2:]
    points = grid.reshape(grid.shape[0], -1, len(sizes))
    rows = [_taps(points[..., len(sizes) - 1 - d], n, mode, padding, align) for d, n in enumerate(sizes)]
    for parts in product(*rows):
        place, inside = parts[0].place, parts[0].inside
        for part, n in zip(parts[1:], sizes[1:], strict=True):
            place, inside = place * n + part.place, inside & part.inside
        yield place, inside, parts


def _values(x: Any, place: Any, inside: Any) -> Any:
    """[batch, features, points]: the elements at places, 0 outside."""
    index = place.unsqueeze(1).expand(-1, x.shape[1], -1)
    return torch.where(inside.unsqueeze(1), x.flatten(2).gather(2, index), 0)


def _in_f32(function: Callable[..., Any]) -> Callable[..., Any]:
    """f16 and bf16 are computed in f32, and rounded at the end."""

    def apply(*args: Any) -> Any:
        kind = args[0].dtype
        if kind not in (torch.float16, torch.bfloat16):
            return function(*args)
        wide = (a.float() if isinstance(a, torch.Tensor) else a for a in args)
        return tree_map(lambda t: t.to(kind), function(*wide))

    return apply


@_in_f32
def grid_sampler(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    total: Any = 0
    for place, inside, parts in _of_all(x, grid, mode, padding, align):
        total = total + _values(x, place, inside) * math.prod(p.weight for p in parts).unsqueeze(1)
    return total.view(*x.shape[:2], *grid.shape[1:-1])


@_in_f32
def grid_sampler_backward(
    gradient: Any, x: Any, grid: Any, mode: int, padding: int, align: bool, output_mask: Any
) -> tuple[Any, Any]:
    """By the images, and by the grid."""
    batch, features, *sizes = x.shape
    count, gradient = math.prod(sizes), gradient.flatten(2)
    by_image, number = x.new_zeros(batch, count, features), torch.arange(batch).unsqueeze(1)
    by_grid = [torch.zeros_like(gradient[:, 0]) for _ in sizes]
    for place, inside, parts in _of_all(x, grid, mode, padding, align):
        if output_mask[0]:
            weight = torch.where(inside, math.prod(p.weight for p in parts), 0)
            rows = (gradient * weight.unsqueeze(1)).transpose(1, 2)
            by_image = by_image.index_put((number, place), rows, accumulate=True)
        if output_mask[1] and mode != _NEAREST:
            common = (_values(x, place, inside) * gradient).sum(1)
            for d in range(len(sizes)):
                factors = (p.slope if k == d else p.weight for k, p in enumerate(parts))
                by_grid[d] = by_grid[d] + common * math.prod(factors)
    return by_image.transpose(1, 2).reshape(x.shape), torch.stack(by_grid[::-1], -1).view(grid.shape)
