"""Decompositions of grid_sample and of torchvision's deform_conv2d, and their gradients: linear, nearest or cubic
interpolation of images and volumes at computed positions.

A sample is a sum over taps, products of one tap of each dimension: two for linear interpolation, one for the nearest
element, four for cubic. In each dimension, a tap has a position, whether it is inside, a weight, and the weight's
derivative by the given coordinate.
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
    """The part of a tap in one dimension."""

    place: Any
    inside: Any
    weight: Any
    slope: Any


def _reflected(x: Any, twice_low: int, twice_high: int) -> tuple[Any, Any]:
    """Coordinates reflected until they are between two bounds, and the derivative, which is 1 or -1."""
    if twice_low == twice_high:
        return torch.zeros_like(x), torch.zeros_like(x)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    distance = (x - low).abs()
    rest, flips = torch.fmod(distance, span), torch.floor(distance / span)
    even = torch.fmod(flips, 2) == 0
    sign = torch.where(x < low, -1.0, 1.0).to(x.dtype)
    return torch.where(even, rest + low, span - rest + low), torch.where(even, sign, -sign)


def _padded(x: Any, size: int, padding: int, align: bool) -> tuple[Any, Any]:
    """Coordinates after the padding mode, and the derivative by the original ones."""
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


def _of_grid(coordinate: Any, size: int, mode: int, padding: int, align: bool) -> list[_Tap]:
    """The taps of one dimension, for coordinates from -1 to 1."""
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
            return _linear(x, slope, size)
    return _taps(places, weights, size)


def _linear(x: Any, slope: Any, size: int) -> list[_Tap]:
    """The two neighbours of a position whose derivative by a coordinate is known."""
    first = x.floor()
    return _taps([first, first + 1], [(first + 1 - x, -slope), (x - first, slope)], size)


def _taps(places: list[Any], weights: list[tuple[Any, Any]], size: int) -> list[_Tap]:
    inside = [(p >= 0) & (p <= size - 1) for p in places]
    return [_Tap(torch.where(i, p, 0).long(), i, w, s) for p, i, (w, s) in zip(places, inside, weights, strict=True)]


Rows = list[list[_Tap]]  # the taps of each dimension, the slowest first: [batch, points]


def _of_all(x: Any, rows: Rows) -> Iterator[tuple[Any, Any, tuple[_Tap, ...]]]:
    """For each tap, the positions [batch, points] in a flattened image, whether they are inside, and its parts by
    dimension."""
    for parts in product(*rows):
        place, inside = parts[0].place, parts[0].inside
        for part, n in zip(parts[1:], x.shape[3:], strict=True):
            place, inside = place * n + part.place, inside & part.inside
        yield place, inside, parts


def _values(x: Any, place: Any, inside: Any) -> Any:
    """[batch, features, points]: the elements at positions, 0 outside."""
    index = place.unsqueeze(1).expand(-1, x.shape[1], -1)
    return torch.where(inside.unsqueeze(1), x.flatten(2).gather(2, index), 0)


def _samples(x: Any, rows: Rows) -> Any:
    """[batch, features, points]."""
    total: Any = 0
    for place, inside, parts in _of_all(x, rows):
        total = total + _values(x, place, inside) * math.prod(p.weight for p in parts).unsqueeze(1)
    return total


def _samples_backward(gradient: Any, x: Any, rows: Rows) -> tuple[Any, list[Any]]:
    """The gradients by the images, and by the coordinates of each dimension."""
    batch, features, *sizes = x.shape
    by_image, number = x.new_zeros(batch, math.prod(sizes), features), torch.arange(batch).unsqueeze(1)
    by_places = [torch.zeros_like(gradient[:, 0]) for _ in sizes]
    for place, inside, parts in _of_all(x, rows):
        weight = torch.where(inside, math.prod(p.weight for p in parts), 0)
        added = (gradient * weight.unsqueeze(1)).transpose(1, 2)
        by_image = by_image.index_put((number, place), added, accumulate=True)
        common = (_values(x, place, inside) * gradient).sum(1)
        for d in range(len(sizes)):
            factors = (p.slope if k == d else p.weight for k, p in enumerate(parts))
            by_places[d] = by_places[d] + common * math.prod(factors)
    return by_image.transpose(1, 2).reshape(x.shape), by_places


def _in_f32(function: Callable[..., Any]) -> Callable[..., Any]:
    """f16 and bf16 are computed in f32, and rounded at the end."""

    def apply(*args: Any) -> Any:
        kind = args[0].dtype
        if kind not in (torch.float16, torch.bfloat16):
            return function(*args)
        wide = (a.float() if isinstance(a, torch.Tensor) else a for a in args)
        return tree_map(lambda t: t.to(kind), function(*wide))

    return apply


# -- grids: the last dimension has the coordinates of a point, those of the fastest dimension of the image first


def _rows_of_grid(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Rows:
    sizes = x.shape[2:]
    points = grid.reshape(grid.shape[0], -1, len(sizes)).unbind(-1)[::-1]
    return [_of_grid(p, n, mode, padding, align) for p, n in zip(points, sizes, strict=True)]


@_in_f32
def grid_sampler(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    samples = _samples(x, _rows_of_grid(x, grid, mode, padding, align))
    return samples.view(*x.shape[:2], *grid.shape[1:-1])


@_in_f32
def grid_sampler_backward(
    gradient: Any, x: Any, grid: Any, mode: int, padding: int, align: bool, output_mask: Any
) -> tuple[Any, Any]:
    """The gradients by the images, and by the grid; gradients that are not requested are dead code."""
    rows = _rows_of_grid(x, grid, mode, padding, align)
    by_image, by_places = _samples_backward(gradient.flatten(2), x, rows)
    return by_image, torch.stack(by_places[::-1], -1).view(grid.shape)


# -- deformable convolutions: each kernel element reads an image at its own position, offset from its regular one


class _Deformed:
    """The samples of a deformable convolution, as columns of a product with the kernel."""

    def __init__(
        self, x: Any, weight: Any, offset: Any, mask: Any, strides: tuple[int, int], padding: tuple[int, int],
        dilation: tuple[int, int], groups: int, offset_groups: int,
    ) -> None:  # fmt: skip
        batch, features, *sizes = x.shape
        kernel, out = weight.shape[2:], offset.shape[2:]
        self.taps, self.points, self.groups = math.prod(kernel), math.prod(out), groups
        self.images = x.reshape(batch * offset_groups, features // offset_groups, *sizes)
        offset = offset.reshape(batch * offset_groups, self.taps, 2, self.points)
        self.rows = []
        for d, size in enumerate(sizes):
            first = torch.arange(out[d]) * strides[d] - padding[d]
            place = torch.arange(kernel[d]).unsqueeze(1) * dilation[d] + first  # [kernel, out] of this dimension
            place = place.view(kernel[0], 1, out[0], 1) if d == 0 else place.view(1, kernel[1], 1, out[1])
            place = place.expand(*kernel, *out).reshape(self.taps, self.points)
            x_ = (offset[:, :, d] + place.to(offset.dtype)).flatten(1)
            self.rows.append(_linear(x_, torch.ones_like(x_), size))
        self.mask = None if mask is None else mask.reshape(batch * offset_groups, 1, -1)
        self.samples = _samples(self.images, self.rows)
        columns = self.samples if self.mask is None else self.samples * self.mask
        self.columns = columns.view(batch, groups, -1, self.points)
        self.kernel = weight.reshape(groups, weight.shape[0] // groups, -1)


def deform_conv2d(
    x: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: int, stride_w: int, pad_h: int, pad_w: int,
    dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Any:  # fmt: skip
    """Offsets are [batch, offset group, element of the kernel, (vertical, horizontal)], height, width."""
    places = (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w)
    d = _Deformed(x, weight, offset, mask if use_mask else None, *places, groups, offset_groups)
    result = (d.kernel @ d.columns).view(x.shape[0], weight.shape[0], *offset.shape[2:])
    return result + bias.view(1, -1, 1, 1)


def deform_conv2d_backward(
    gradient: Any, x: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: int, stride_w: int, pad_h: int,
    pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> tuple[Any, Any, Any, Any, Any]:  # fmt: skip
    """The gradients by the image, the kernel, the offsets, the mask and the bias."""
    places = (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w)
    d = _Deformed(x, weight, offset, mask if use_mask else None, *places, groups, offset_groups)
    g = gradient.reshape(x.shape[0], groups, -1, d.points)
    by_weight = (g @ d.columns.mT).sum(0).reshape(weight.shape)
    by_samples = (d.kernel.mT @ g).reshape(d.samples.shape)
    by_mask = torch.zeros_like(mask)
    if d.mask is not None:
        by_mask = (by_samples * d.samples).sum(1).view(mask.shape)
        by_samples = by_samples * d.mask
    by_image, by_places = _samples_backward(by_samples, d.images, d.rows)
    by_offset = torch.stack([p.view(-1, d.taps, d.points) for p in by_places], 2)
    return by_image.reshape(x.shape), by_weight, by_offset.view(offset.shape), by_mask, gradient.sum((0, 2, 3))
