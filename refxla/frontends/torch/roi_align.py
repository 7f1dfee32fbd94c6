"""Decompositions of torchvision's roi_align and its gradient: regions of images are cut into cells, and each cell is
the mean of samples, which are interpolated between the four elements around them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch


class _Regions:
    """The positions of samples [regions, height, width] in all images, viewed as rows of features, and their weights:
    pairs for the corners around a sample."""

    def __init__(self, sizes: Sequence[int], regions: Any, scale: float, cells: tuple[int, int], samples: int,
                 aligned: bool) -> None:  # fmt: skip
        height, width = sizes
        moved = 0.5 if aligned else 0.0
        bounds = regions[:, 1:] * scale - moved
        vertical = self._taps(bounds[:, 1], bounds[:, 3], height, cells[0], samples, aligned)
        horizontal = self._taps(bounds[:, 0], bounds[:, 2], width, cells[1], samples, aligned)
        first = regions[:, 0].long().view(-1, 1, 1) * (height * width)
        self.corners = [
            (first + (y * width).unsqueeze(2) + x.unsqueeze(1), v.unsqueeze(2) * w.unsqueeze(1))
            for (y, v), (x, w) in product(vertical, horizontal)
        ]

    @staticmethod
    def _taps(
        start: Any, end: Any, size: int, cells: int, samples: int, aligned: bool
    ) -> list[tuple[Any, Any]]:  # fmt: skip
        """For one dimension: positions and weights [regions, cells * samples]."""
        length = end - start if aligned else (end - start).clamp(min=1)
        cell = (length / cells).view(-1, 1, 1)
        fraction = (torch.arange(samples) + 0.5).to(start.dtype) * (cell / samples)
        place = start.view(-1, 1, 1) + torch.arange(cells).view(-1, 1) * cell + fraction
        place = place.flatten(1)
        there = (place >= -1) & (place <= size)
        place = place.clamp(0, size - 1)
        low = place.floor()
        rest = place - low
        return [
            (p.long(), torch.where(there, w, 0)) for p, w in ((low, 1 - rest), ((low + 1).clamp(max=size - 1), rest))
        ]


def roi_align(x: Any, regions: Any, scale: float, height: int, width: int, samples: int, aligned: bool) -> Any:
    """[regions, features, height, width]."""
    if samples <= 0:  # as many as the region's size requires
        return NotImplemented
    rows = x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])
    total: Any = 0
    for place, weight in _Regions(x.shape[2:], regions, scale, (height, width), samples, aligned).corners:
        total = total + rows[place] * weight.unsqueeze(3)
    total = total.view(-1, height, samples, width, samples, x.shape[1]).mean((2, 4))
    return total.permute(0, 3, 1, 2).contiguous()


def roi_align_backward(
    gradient: Any, regions: Any, scale: float, height: int, width: int, batch: int, features: int, rows: int,
    columns: int, samples: int, aligned: bool,
) -> Any:  # fmt: skip
    if samples <= 0:
        return NotImplemented
    total = gradient.new_zeros(batch * rows * columns, features)
    share = (gradient / samples**2).permute(0, 2, 3, 1).view(-1, height, 1, width, 1, features)
    share = share.expand(-1, height, samples, width, samples, features)
    share = share.reshape(-1, height * samples, width * samples, features)
    for place, weight in _Regions((rows, columns), regions, scale, (height, width), samples, aligned).corners:
        total = total.index_put((place,), share * weight.unsqueeze(3), accumulate=True)
    return total.view(batch, rows, columns, features).permute(0, 3, 1, 2).contiguous()
