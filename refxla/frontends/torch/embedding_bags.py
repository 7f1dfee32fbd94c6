"""Embedding bags: rows of a table that are looked up by indices and reduced per bag; and their gradients."""

from __future__ import annotations

import math
from typing import Any

import torch

aten = torch.ops.aten


def _bags(indices: Any, offsets: Any, include_last_offset: bool, padding_idx: int) -> tuple[Any, Any, int]:
    """The bag of each index, whether the index is not padding, and the number of bags."""
    starts = offsets[:-1] if include_last_offset else offsets
    place = torch.arange(indices.shape[0], dtype=offsets.dtype)
    return torch.searchsorted(starts, place, right=True) - 1, indices != padding_idx, starts.shape[0]


def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Rows of a table, reduced for each bag to their sum (mode 0), mean (1) or maximum (2); and, for the gradient, the
    bag of each index, how many count in each bag, and the index from which each maximum is."""
    if sparse or scale_grad_by_freq:
        return NotImplemented
    if offsets.shape[0]:
        valid = (offsets[0] == 0) & (offsets[-1] <= indices.shape[0])
        aten._assert_async.msg(valid, "offsets[0] has to be 0, and offsets[-1] no more than there are indices")
    bag, real, bags = _bags(indices, offsets, include_last_offset, padding_idx)
    size = torch.zeros(bags, dtype=torch.long).index_add(0, bag, real.long())
    rows = torch.embedding(weight, indices)
    if mode == 2:
        spread, column = bag.unsqueeze(1).expand(rows.shape), real.unsqueeze(1)
        largest = rows.new_full((bags, rows.shape[1]), -math.inf)
        largest = largest.scatter_reduce(0, spread, rows.masked_fill(~column, -math.inf), "amax")
        count = indices.shape[0]
        place = torch.arange(count).unsqueeze(1).expand(rows.shape)
        place = torch.where((rows == largest[bag]) & column, place, count)
        first = place.new_full(largest.shape, count).scatter_reduce(0, spread, place, "amin")
        source = indices[first.clamp(max=count - 1)] if count else torch.zeros_like(first)
        return largest.masked_fill(size.unsqueeze(1) == 0, 0), bag, size, source
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    total = rows.new_zeros(bags, rows.shape[1]).index_add(0, bag, rows.masked_fill(~real.unsqueeze(1), 0))
    if mode == 1:
        total = total / size.clamp(min=1).unsqueeze(1)
    return total, bag, size, size


def embedding_bag_backward(
    gradient: Any, indices: Any, offsets: Any, bag: Any, size: Any, source: Any, num_weights: int,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """The gradient by the table; `bag`, `size` and `source` are results of `embedding_bag`."""
    if sparse or scale_grad_by_freq:
        return NotImplemented
    table = gradient.new_zeros(num_weights, gradient.shape[1])
    if mode == 2:
        return table.scatter_add(0, source, gradient.masked_fill(size.unsqueeze(1) == 0, 0))
    if mode == 1:
        gradient = gradient / size.clamp(min=1).unsqueeze(1)
    rows = gradient[bag]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return table.index_add(0, indices, rows.masked_fill((indices == padding_idx).unsqueeze(1), 0))


def sample_weights_backward(
    gradient: Any, weight: Any, indices: Any, offsets: Any, bag: Any, mode: int, padding_idx: int = -1
) -> Any:
    """The gradient by the weights of sums (mode 0), one for each index."""
    products = (gradient[bag] * torch.embedding(weight, indices)).sum(1)
    return products.masked_fill(indices == padding_idx, 0)


def embedding_renorm(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """The rows that are looked up, scaled down to a norm if theirs is larger; those of equal indices are equal."""
    indices = indices.flatten()
    rows = torch.embedding(weight, indices)
    norm = torch.linalg.vector_norm(rows, norm_type, dim=1, keepdim=True)
    scale = torch.where(norm > max_norm, max_norm / (norm + 1e-7), 1)
    return weight.index_put((indices,), rows * scale)
