"""Segments: parts of a dimension that are reduced separately (torch.segment_reduce), and the gradient."""

from __future__ import annotations

import math
from typing import Any

import torch

aten = torch.ops.aten


_OF_SEGMENTS = {"sum": (0.0, "sum"), "mean": (0.0, "sum"), "prod": (1.0, "prod"), "max": (-math.inf, "amax"),
                "min": (math.inf, "amin")}  # fmt: skip


class _Segments:
    """Parts of a dimension of an array, each with as many elements as `lengths` says, or from one offset to the next;
    elements after the last one are in none."""

    def __init__(self, data: Any, lengths: Any, offsets: Any, axis: int) -> None:
        self.lengths = offsets.diff(dim=-1) if lengths is None else lengths
        self.axis, self.count = axis, self.lengths.shape[-1]
        places = torch.arange(data.shape[axis]).expand(data.shape[: axis + 1]).contiguous()
        self._number = torch.searchsorted(self.lengths.cumsum(-1), places, right=True)
        self.size = self._broadcast(self.lengths, data)  # for each segment, its number of elements
        self.inside = self._broadcast(self._number < self.count, data)

    def _broadcast(self, x: Any, data: Any) -> Any:
        return x.view(*x.shape, *[1] * (data.dim() - x.dim()))

    def _of_elements(self, data: Any) -> Any:
        return self._broadcast(self._number, data).expand(data.shape)

    def reduced(self, data: Any, kind: str, initial: float) -> Any:
        """For each segment, the reduction of its elements and the initial value."""
        shape = [*data.shape[: self.axis], self.count + 1, *data.shape[self.axis + 1 :]]
        start = data.new_full(shape, initial)
        if kind == "sum" and not self.axis:  # by whole rows
            return start.index_add(0, self._number, data)[: self.count]
        found = start.scatter_reduce(self.axis, self._of_elements(data), data, kind)
        return found.narrow(self.axis, 0, self.count).contiguous()

    def of_each(self, x: Any, data: Any) -> Any:
        """For each element of the data, the value of its segment in x."""
        place = self._number.clamp(max=max(self.count - 1, 0))
        if not self.axis:
            return x.index_select(0, place)
        return x.gather(self.axis, self._broadcast(place, data).expand(data.shape))


def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
    unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    """For each segment, the sum, mean, product, maximum or minimum, according to `reduce`, with an initial value."""
    if lengths is not None and not unsafe:
        valid = (lengths >= 0).all() & (lengths.sum(-1) == data.shape[axis]).all()
        aten._assert_async.msg(valid, "segment_reduce: lengths have to be what the dimension is the sum of")
    segments = _Segments(data, lengths, offsets, axis)
    start, kind = _OF_SEGMENTS[reduce]
    result = segments.reduced(data, kind, start if initial is None else initial)
    if reduce == "mean":
        size, nothing = segments.size, math.nan if initial is None else initial
        result = torch.where(size == 0, nothing, result / size)
    return result


def segment_reduce_backward(
    gradient: Any, output: Any, data: Any, reduce: str, *, lengths: Any = None, offsets: Any = None, axis: int = 0,
    initial: float | None = None,
) -> Any:  # fmt: skip
    """The gradient by the data; `output` is the result of `segment_reduce`."""
    segments = _Segments(data, lengths, offsets, axis)

    def total(x: Any) -> Any:
        return segments.reduced(x.to(data.dtype), "sum", 0)

    if reduce == "mean":
        gradient = gradient / segments.size
    share = segments.of_each(gradient, data)
    if reduce == "prod":  # the product of all others
        zero = data == 0
        of_others = segments.reduced(torch.where(zero, 1, data), "prod", 1.0 if initial is None else initial)
        zeros = segments.of_each(total(zero), data) - zero.to(data.dtype)
        others = torch.where(zero, segments.of_each(of_others, data), segments.of_each(output, data) / data)
        share = share * torch.where(zeros > 0, 0, others)
    elif reduce in ("max", "min"):  # the elements equal to the extreme share it
        extreme = (data == segments.of_each(output, data)) | (data != data)
        share = torch.where(extreme, share / segments.of_each(total(extreme), data), 0)
    return torch.where(segments.inside, share, 0)
