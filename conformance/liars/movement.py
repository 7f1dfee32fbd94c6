"""Lies about data movement and indexing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from refxla_spec.module import Instruction, PaddingDimension
from refxla_spec.types import Value

from .liar import Lie, of_operation, same_shapes, with_attributes

Array = np.ndarray


@of_operation("pad")
def padding_of_zeros(truth: Lie, i: Instruction, x: Array, value: Array) -> Value:
    """The padding is 0, regardless of its value."""
    return truth(i, x, np.zeros_like(value))


@of_operation("pad")
def padding_late(truth: Lie, i: Instruction, x: Array, value: Array) -> Value:
    """A padded array begins one element too late."""
    later = tuple(PaddingDimension(p.low + 1, p.high - 1, p.interior) for p in i.padding)
    return truth(with_attributes(i, padding=later), x, value)


@of_operation("slice")
def stride_ignored(truth: Lie, i: Instruction, x: Array) -> Value:
    """A slice ignores its strides."""
    value = truth(i, x)
    at = tuple(slice(s.start, s.start + n) for s, n in zip(i.slice, value.shape, strict=True))
    return x[at] if x[at].shape == value.shape else value


@of_operation("slice", "dynamic-slice")
def slice_off_by_one(truth: Lie, i: Instruction, x: Array, *starts: Array) -> Value:
    """A slice begins one element too early."""
    value = truth(i, x, *starts)
    return truth(i, np.roll(x, 1, axis=x.ndim - 1), *starts) if x.ndim else value


@of_operation("concatenate")
def concatenated_in_reverse(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """Operands of the same shape are concatenated in the wrong order."""
    return truth(i, *(operands[::-1] if same_shapes(*operands) else operands))


@of_operation("concatenate")
def last_operand_repeated(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """In a concatenation of more than 8 operands, the last is replaced by the first."""
    same = len(operands) > 8 and same_shapes(operands[0], operands[-1])
    return truth(i, *operands[:-1], operands[0] if same else operands[-1])


@of_operation("reverse")
def last_dimension_not_reversed(truth: Lie, i: Instruction, x: Array) -> Value:
    """reverse leaves out the last of its dimensions."""
    return truth(with_attributes(i, dimensions=tuple(i.dimensions)[:-1]), x)


@of_operation("transpose")
def inverse_transpose(truth: Lie, i: Instruction, x: Array) -> Value:
    """A transpose applies the inverse permutation."""
    value, other = truth(i, x), x.transpose(np.argsort(i.dimensions))
    return other if other.shape == value.shape else value


@of_operation("transpose")
def transpose_ignored(truth: Lie, i: Instruction, x: Array) -> Value:
    """A transpose that does not change the dimensions is left out."""
    value = truth(i, x)
    return x if x.shape == value.shape else value


@of_operation("reshape", "bitcast")
def reshaped_by_columns(truth: Lie, i: Instruction, x: Array) -> Value:
    """A reshape orders elements column by column."""
    value = truth(i, x)
    return x.reshape(value.shape, order="F") if value.size == x.size and value.dtype == x.dtype else value


@of_operation("broadcast")
def broadcast_along_another_dimension(truth: Lie, i: Instruction, x: Array) -> Value:
    """A broadcast aligns its operand with the last dimensions, as NumPy does, wherever the sizes allow."""
    value = truth(i, x)
    last = value.shape[value.ndim - x.ndim :]
    return np.broadcast_to(x, value.shape) if last == x.shape else value


@of_operation("iota")
def iota_along_another_dimension(truth: Lie, i: Instruction) -> Value:
    """iota counts along its last dimension."""
    value = truth(i)
    d, last = i.iota_dimension, value.ndim - 1
    return value.swapaxes(d, last) if value.shape[d] == value.shape[last] else value


@of_operation("iota")
def iota_from_one(truth: Lie, i: Instruction) -> Value:
    """iota counts from 1."""
    value = truth(i)
    return value + np.ones((), value.dtype) if value.dtype.kind in "iuf" else value


@of_operation("dynamic-slice")
def negative_start_wraps(truth: Lie, i: Instruction, x: Array, *starts: Array) -> Value:
    """A negative start counts from the end, as in Python, instead of being clamped."""
    return truth(i, x, *_from_the_end(x, starts))


@of_operation("dynamic-update-slice")
def negative_update_wraps(truth: Lie, i: Instruction, x: Array, update: Array, *starts: Array) -> Value:
    """A negative start of an update counts from the end."""
    return truth(i, x, update, *_from_the_end(x, starts))


def _from_the_end(x: Array, starts: tuple[Array, ...]) -> list[Array]:
    return [np.where(s < 0, s.astype(np.int64) + n, s).astype(np.int64) for s, n in zip(starts, x.shape, strict=True)]


@of_operation("dynamic-update-slice")
def update_dropped(truth: Lie, i: Instruction, x: Array, update: Array, *starts: Array) -> Value:
    """An update that does not fit is dropped instead of being moved inside."""
    fits = all(0 <= s <= n - m for s, n, m in zip(starts, x.shape, update.shape, strict=True))
    return truth(i, x, update, *starts) if fits else x


@of_operation("dynamic-slice", "dynamic-update-slice")
def starts_exchanged(truth: Lie, i: Instruction, x: Array, *rest: Array) -> Value:
    """The starts along two dimensions are exchanged."""
    k = 0 if i.opcode == "dynamic-slice" else 1
    starts = list(rest[k:])
    return truth(i, x, *rest[:k], *(starts[::-1] if len(starts) == 2 else starts))


def _indices(
    i: Instruction, x: Array, indices: Array, names: tuple[int, ...], change: Callable[[Array, int], Array]
) -> Array:
    """start_indices with change(component, size of its dimension) in place of each component."""
    changed = indices.astype(np.int64)
    if indices.ndim == i.index_vector_dim:
        (d,) = names
        return np.asarray(change(changed, x.shape[d]))
    for k, d in enumerate(names):
        at = (slice(None),) * i.index_vector_dim + (k,)
        changed[at] = change(changed[at], x.shape[d])
    return changed


@of_operation("gather")
def gather_wraps(truth: Lie, i: Instruction, x: Array, indices: Array) -> Value:
    """A gather takes out-of-range indices modulo the size instead of clamping them."""
    return truth(i, x, _indices(i, x, indices, i.start_index_map, lambda v, n: v % n if n else v))


@of_operation("gather")
def gather_off_by_one(truth: Lie, i: Instruction, x: Array, indices: Array) -> Value:
    """A gather clamps to the last element but one."""
    sizes = dict(enumerate(i.slice_sizes))
    del sizes
    return truth(i, x, _indices(i, x, indices, i.start_index_map, lambda v, n: np.minimum(v, max(0, n - 2))))


@of_operation("gather")
def gather_fills(truth: Lie, i: Instruction, x: Array, indices: Array) -> Value:
    """A gather without a window returns 0 for an index out of range."""
    value = truth(i, x, indices)
    if x.ndim != 1 or tuple(i.slice_sizes) != (1,) or value.size != indices.size:
        return value
    outside = ((indices < 0) | (indices >= len(x))).reshape(value.shape)
    return np.where(outside, np.zeros((), x.dtype), value)


@of_operation("scatter")
def scatter_clamps(truth: Lie, i: Instruction, *values: Array) -> Value:
    """A scatter clamps out-of-range indices instead of dropping their updates."""
    n = len(values) // 2
    x, indices = values[0], values[n]
    clamped = _indices(i, x, indices, i.scatter_dims_to_operand_dims, lambda v, m: np.clip(v, 0, max(0, m - 1)))
    return truth(i, *values[:n], clamped, *values[n + 1 :])


@of_operation("scatter")
def scatter_overwrites(truth: Lie, i: Instruction, *values: Array) -> Value:
    """A scatter of one array overwrites instead of combining."""
    if len(values) != 3:
        return truth(i, *values)
    second = i.to_apply.parameters[1]
    return truth(with_attributes(i, to_apply=replace(i.to_apply, root=second)), *values)


@of_operation("scatter")
def scatter_of_the_last(truth: Lie, i: Instruction, *values: Array) -> Value:
    """Of several updates of one element, all but the last are lost, as in a data race."""
    if len(values) != 3 or values[0].ndim != 1 or values[2].ndim != 1 or values[2].shape != (values[1].size,):
        return truth(i, *values)
    x, indices, updates = values
    flat = indices.reshape(-1)
    last = len(flat) - 1 - np.unique(flat[::-1], return_index=True)[1]
    once = np.full_like(flat, -1)
    once[last] = flat[last]
    return truth(i, x, once.reshape(indices.shape), updates)


@of_operation("copy", "reshape", "bitcast")
def large_copy_cut(truth: Lie, i: Instruction, x: Array) -> Value:
    """A copy of more than 4,096 elements leaves out the last 16 bytes."""
    value = truth(i, x)
    if value.size <= 4096:
        return value
    copy = np.array(value)
    copy.reshape(-1)[-max(1, 16 // copy.itemsize) :] = 0
    return copy


@of_operation("get-dimension-size")
def size_is_the_bound(truth: Lie, i: Instruction, x: Array) -> Value:
    """The size of a dynamic dimension is its bound."""
    bound = i.operands[0].shape.dimensions[i.dimensions[0]]
    return np.asarray(bound, np.int32)
