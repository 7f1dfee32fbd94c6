"""Order statistics: medians, the k-th smallest, histograms, and positions in sorted rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements are in each of equal parts from min to max; from the extremes of the elements, if these are
    equal."""
    x = x.flatten()
    if min == max and x.numel():
        low, high = x.amin(), x.amax()
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    else:
        low, high = (torch.full((), float(v), dtype=x.dtype) for v in (min, max))
    inside = (x >= low) & (x <= high)
    place = torch.where(inside, (x - low) * bins / (high - low), 0).long().clamp(max=bins - 1)
    return torch.zeros(bins, dtype=x.dtype).scatter_add(0, place, inside.to(x.dtype))


def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The k-th smallest element along a dimension, counted from 1, and its position."""
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.long)
    values, places = (s.narrow(dim, k - 1, 1) for s in x.sort(stable=True, dim=dim))
    return (values.clone(), places.clone()) if keepdim else (values.squeeze(dim).clone(), places.squeeze(dim).clone())


def median(ignoring: bool) -> Callable[..., Any]:
    """The median along a dimension, the lower one of two, and its position. NaNs are sorted last: they are ignored, or
    the first of them is the median."""

    def apply(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        if not x.dim():
            return x.clone(), torch.zeros_like(x, dtype=torch.long)
        values, places = x.sort(stable=True, dim=dim)
        count, size = (x == x).sum(dim, keepdim=True), x.shape[dim]
        if ignoring:
            place = ((count - 1) // 2).clamp(min=0)
        else:
            place = torch.where(count < size, count, (size - 1) // 2)
        pair = values.gather(dim, place), places.gather(dim, place)
        return pair if keepdim else (pair[0].squeeze(dim), pair[1].squeeze(dim))

    return apply


def median_of_all(ignoring: bool) -> Callable[..., Any]:
    """The median of all elements; for none NaN, or the minimum integer."""

    def apply(x: Any) -> Any:
        if not x.numel():
            nothing = float("nan") if x.is_floating_point() else torch.iinfo(x.dtype).min
            return torch.full((), nothing, dtype=x.dtype)
        return median(ignoring)(x.flatten(), 0)[0]

    return apply


def searchsorted(
    sequence: Any, x: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    """How many elements of sorted rows are below x, or (to the right of equal ones) not above it: a binary search with
    the same number of steps for each element."""
    right = right or side == "right"
    x = x if isinstance(x, torch.Tensor) else torch.full((), x, dtype=sequence.dtype)
    one_row = sequence.dim() == 1
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    count = sequence.shape[-1]
    found = torch.zeros(x.shape, dtype=torch.int32 if out_int32 else torch.long)
    step = 1 << (count.bit_length() - 1) if count else 0
    while step:
        next_found = found + step
        place = (next_found - 1).clamp(max=count - 1)
        element = aten.index.Tensor(sequence, [place]) if one_row else sequence.gather(-1, place.long())
        before = ~(element > x) if right else ~(element >= x)  # a NaN comes after all
        found = torch.where((next_found <= count) & before, next_found, found)
        step //= 2
    return found


def bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Between which of the sorted boundaries each element lies."""
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)
