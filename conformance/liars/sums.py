"""Lies about reductions, windows and products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import ml_dtypes
import numpy as np
from refxla_spec.module import Computation, Instruction, WindowDimension, clone_computation
from refxla_spec.numerics import round_to, type_of
from refxla_spec.types import ELEMENT_TYPES, Value
from refxla_spec.vectorize import binary_opcode

from .liar import Lie, of_operation, with_attributes

Array = np.ndarray
REDUCTIONS = ("reduce", "reduce-window")


def _sum(i: Instruction) -> bool:
    return binary_opcode(i.to_apply) == "add"


# Reductions.


@of_operation("reduce", "reduce-window", "select-and-scatter")
def init_value_twice(truth: Lie, i: Instruction, *values: Array) -> Value:
    """The initial value of a sum is added twice, as if each of two threads added it."""
    adds = binary_opcode(i.attributes.get("to_apply") or i.scatter) == "add"
    return truth(i, *values[:-1], values[-1] + values[-1] if adds and len(values) < 4 else values[-1])


@of_operation("reduce", "reduce-window", "select-and-scatter")
def init_value_never(truth: Lie, i: Instruction, *values: Array) -> Value:
    """The initial value of a sum or a product is left out."""
    opcode = binary_opcode(i.attributes.get("to_apply") or i.scatter)
    if opcode not in ("add", "multiply") or values[-1].dtype == bool:
        return truth(i, *values)
    return truth(i, *values[:-1], np.asarray(opcode == "multiply").astype(values[-1].dtype))


@of_operation("reduce")
def last_row_not_reduced(truth: Lie, i: Instruction, *values: Array) -> Value:
    """A reduction leaves out the last element along its last dimension."""
    n, d = len(values) // 2, max(i.dimensions, default=None)
    if d is None or values[0].shape[d] < 2:
        return truth(i, *values)
    cut = (slice(None),) * d + (slice(-1),)
    return truth(i, *(v[cut] for v in values[:n]), *values[n:])


@of_operation("reduce")
def block_border_lost(truth: Lie, i: Instruction, *values: Array) -> Value:
    """A reduction of more than 4,096 elements loses the last one of the first block."""
    n = len(values) // 2
    if prod(values[0].shape[d] for d in i.dimensions) <= 4096 or len(i.dimensions) != 1:
        return truth(i, *values)
    (d,) = i.dimensions
    return truth(i, *(np.delete(v, 4095, axis=d) for v in values[:n]), *values[n:])


@of_operation("reduce")
def reduced_along_another_dimension(truth: Lie, i: Instruction, *values: Array) -> Value:
    """A square array is reduced along its other dimension."""
    n, square = len(values) // 2, values[0].ndim == 2 and values[0].shape[0] == values[0].shape[1]
    return truth(i, *(v.T if square else v for v in values[:n]), *values[n:])


@of_operation(*REDUCTIONS)
def reduction_drops_nan(truth: Lie, i: Instruction, *values: Array) -> Value:
    """The maximum or minimum of many numbers drops NaN."""
    if binary_opcode(i.to_apply) not in ("maximum", "minimum") or not type_of(values[0]).is_float:
        return truth(i, *values)
    return truth(i, np.where(np.isnan(values[0]), values[1], values[0]), values[1])


@of_operation("reduce", "sort", "select-and-scatter")
def ties_to_the_last(truth: Lie, i: Instruction, *values: Array) -> Value:
    """An argmax, a stable sort or a select-and-scatter prefers the last of equal elements."""
    name = "select" if i.opcode == "select-and-scatter" else "to_apply"
    return truth(with_attributes(i, **{name: _less_strict(i.attributes[name])}), *values)


def _less_strict(computation: Computation) -> Computation:
    """The computation with GT and GE exchanged, and LT and LE."""
    copy = clone_computation(computation, lambda c: c)
    other = {"GT": "GE", "GE": "GT", "LT": "LE", "LE": "LT"}
    for i in copy.instructions:
        if i.opcode == "compare":
            i.attributes["direction"] = other.get(i.direction, i.direction)
    return copy


@of_operation("reduce", "dot", "convolution", "reduce-window")
def narrow_accumulation(truth: Lie, i: Instruction, *values: Array) -> Value:
    """Sums of narrow floating-point numbers are rounded to their type after each addition."""
    t = i.shape.element_type if i.shape.is_array else None
    if t is None or not t.is_float or t.bits >= 32 or t.name == "f8e8m0fnu":
        return truth(i, *values)
    if i.opcode == "dot":
        return _one_after_another(truth, i, i.lhs_contracting_dims, i.rhs_contracting_dims, *values)
    if i.opcode == "convolution":
        n = i.dim_labels
        if i.feature_group_count != 1 or i.batch_group_count != 1:
            return truth(i, *values)
        return _one_after_another(truth, i, (n.input_feature,), (n.kernel_input_feature,), *values)
    if not _sum(i) or len(i.dimensions if i.opcode == "reduce" else (0,)) != 1:
        return truth(i, *values)
    if i.opcode == "reduce-window":
        return truth(i, *values)
    return _narrow_sum(values[0], values[1], i.dimensions[0])


def _narrow_sum(x: Array, start: Array, d: int) -> Array:
    rows = np.moveaxis(x, d, 0)
    total = np.broadcast_to(start, rows.shape[1:])
    for row in rows:
        total = round_to(total.astype(np.float64) + row.astype(np.float64), type_of(x))
    return np.array(total)


@of_operation("reduce", tools=("suite", "check"))
def narrow_accumulation_of_several(truth: Lie, i: Instruction, *values: Array) -> Value:
    """If several arrays are reduced together, sums of narrow numbers are rounded after each addition."""
    results, n = truth(i, *values), len(values) // 2
    if not isinstance(results, tuple) or len(i.dimensions) != 1 or i.to_apply.root.opcode != "tuple":
        return results
    combined = zip(i.to_apply.root.operands, results, values[:n], values[n:], strict=True)
    return tuple(
        _narrow_sum(x, start, i.dimensions[0]) if c.opcode == "add" and _is_narrow(x) else result
        for c, result, x, start in combined
    )


def _is_narrow(x: Array) -> bool:
    return type_of(x).is_float and type_of(x).bits < 32


def _one_after_another(
    truth: Lie, i: Instruction, left: tuple[int, ...], right: tuple[int, ...], a: Array, b: Array
) -> Array:
    """The sum over the first of these dimensions, rounded to the result's type after each term."""
    if not left or a.shape[left[0]] == 0:
        return np.asarray(truth(i, a, b))
    total: Array | float = 0.0
    for k in range(a.shape[left[0]]):
        term = truth(i, a.take([k], left[0]), b.take([k], right[0]))
        total = round_to(np.asarray(total, np.float64) + term.astype(np.float64), i.shape.element_type)
    return np.asarray(total)


# Windows.


Change = Callable[[WindowDimension], WindowDimension]


def _rewindowed(change: Change) -> Lie:
    def lie(truth: Lie, i: Instruction, *values: Array) -> Value:
        other = with_attributes(i, window=tuple(change(w) for w in i.window))
        return truth(other, *values)

    return lie


WINDOWED = ("reduce-window", "convolution")
_shifted = _rewindowed(lambda w: replace(w, padding_low=w.padding_low + 1, padding_high=w.padding_high - 1))
_undilated = _rewindowed(
    lambda w: replace(w, window_dilation=1, padding_high=w.padding_high - (w.size - 1) * (w.window_dilation - 1))
)
_unreversed = _rewindowed(lambda w: replace(w, reversal=False))
_reversed = _rewindowed(lambda w: replace(w, reversal=not w.reversal))


@of_operation(*WINDOWED, "select-and-scatter")
def window_off_by_one(truth: Lie, i: Instruction, *values: Array) -> Value:
    """A window begins one element too early in its padding."""
    return _shifted(truth, i, *values)


@of_operation(*WINDOWED)
def window_dilation_ignored(truth: Lie, i: Instruction, *values: Array) -> Value:
    """The dilation of a window is ignored: its elements are adjacent."""
    return _undilated(truth, i, *values)


@of_operation(*WINDOWED)
def base_dilation_ignored(truth: Lie, i: Instruction, *values: Array) -> Value:
    """The dilation of an array is ignored: no gaps between its elements."""
    if i.opcode == "convolution":
        spatial = i.dim_labels.input_spatial
    else:
        spatial = tuple(range(values[0].ndim))
    sizes = [values[0].shape[d] for d in spatial]
    window = tuple(
        replace(w, base_dilation=1, padding_high=w.padding_high + max(0, n - 1) * (w.base_dilation - 1))
        for w, n in zip(i.window, sizes, strict=True)
    )
    return truth(with_attributes(i, window=window), *values)


@of_operation("convolution")
def reversal_ignored(truth: Lie, i: Instruction, *values: Array) -> Value:
    """A kernel is not reversed although the window says so."""
    return _unreversed(truth, i, *values)


@of_operation("convolution")
def kernel_reversed(truth: Lie, i: Instruction, *values: Array) -> Value:
    """The kernel is reversed, as in a convolution of mathematics, but not of HLO."""
    return _reversed(truth, i, *values)


@of_operation("convolution")
def first_group_for_all(truth: Lie, i: Instruction, x: Array, kernel: Array) -> Value:
    """Every feature group reads the features of the first."""
    return truth(i, _first_of(x, i.dim_labels.input_feature, i.feature_group_count), kernel)


@of_operation("convolution")
def first_batch_group_for_all(truth: Lie, i: Instruction, x: Array, kernel: Array) -> Value:
    """Every batch group reads the batches of the first."""
    return truth(i, _first_of(x, i.dim_labels.input_batch, i.batch_group_count), kernel)


def _first_of(x: Array, d: int, groups: int) -> Array:
    return np.concatenate([np.split(x, groups, axis=d)[0]] * groups, axis=d) if groups > 1 else x


@of_operation("convolution")
def spatial_dimensions_exchanged(truth: Lie, i: Instruction, x: Array, kernel: Array) -> Value:
    """The rows and columns of a square kernel are exchanged."""
    spatial = i.dim_labels.kernel_spatial
    square = len(spatial) == 2 and kernel.shape[spatial[0]] == kernel.shape[spatial[1]]
    return truth(i, x, kernel.swapaxes(*spatial) if square else kernel)


@of_operation("reduce-window")
def window_padded_with_zeros(truth: Lie, i: Instruction, *values: Array) -> Value:
    """The padding of a maximum or minimum over windows counts as zeros."""
    usual = all(w.base_dilation == 1 and w.padding_low >= 0 and w.padding_high >= 0 for w in i.window)
    if binary_opcode(i.to_apply) not in ("maximum", "minimum") or not usual:
        return truth(i, *values)
    padded = np.pad(values[0], [(w.padding_low, w.padding_high) for w in i.window])
    bare = with_attributes(i, window=tuple(replace(w, padding_low=0, padding_high=0) for w in i.window))
    return truth(bare, padded, values[1])


@of_operation("select-and-scatter")
def select_takes_the_first(truth: Lie, i: Instruction, *values: Array) -> Value:
    """select-and-scatter gives every source to the first element of its window."""
    return truth(i, np.zeros_like(values[0]), *values[1:])


# Products.


def _cut(a: Array, dims: tuple[int, ...], n: int) -> Array:
    return a[(slice(None),) * dims[0] + (slice(n),)]


@of_operation("dot")
def last_term_dropped(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A product leaves out the last term of its sums."""
    left, right = i.lhs_contracting_dims, i.rhs_contracting_dims
    if not left or a.shape[left[0]] < 2:
        return truth(i, a, b)
    n = a.shape[left[0]] - 1
    return truth(i, _cut(a, left, n), _cut(b, right, n))


@of_operation("dot")
def remainder_of_terms_dropped(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A product of more than 16 terms leaves out those after the last full block of 8."""
    left, right = i.lhs_contracting_dims, i.rhs_contracting_dims
    if not left or a.shape[left[0]] <= 16:
        return truth(i, a, b)
    n = a.shape[left[0]] // 8 * 8
    return truth(i, _cut(a, left, n), _cut(b, right, n))


@of_operation("dot")
def other_operand_transposed(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A square right-hand side is transposed."""
    return truth(i, a, b.T if b.ndim == 2 and b.shape[0] == b.shape[1] else b)


@of_operation("dot")
def batches_mixed_up(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Each batch is multiplied with the next batch of the right-hand side."""
    return truth(i, a, np.roll(b, 1, axis=i.rhs_batch_dims[0]) if i.rhs_batch_dims else b)


@of_operation("dot")
def first_batch_for_all(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Every batch is multiplied with the first batch of the right-hand side."""
    return truth(i, a, _first_of(b, i.rhs_batch_dims[0], b.shape[i.rhs_batch_dims[0]]) if i.rhs_batch_dims else b)


@of_operation("dot", "convolution")
def conjugate_product(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A product of complex numbers conjugates its left-hand side, as an inner product does."""
    return truth(i, a.conj() if a.dtype.kind == "c" else a, b)


@of_operation("dot", "convolution")
def products_of_tf32(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """f32 operands of a product are rounded to 10 bits."""
    return truth(i, *(_to_tf32(x) if x.dtype == np.float32 else x for x in (a, b)))


def _to_tf32(x: Array) -> Array:
    words = np.ascontiguousarray(x).view(np.uint32).reshape(x.shape)
    return np.where(np.isfinite(x), ((words + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32), x)


@of_operation("dot", "convolution")
def products_of_bf16(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """f32 operands of a product are rounded to bf16."""
    return truth(i, *(x.astype(ml_dtypes.bfloat16).astype(x.dtype) if x.dtype == np.float32 else x for x in (a, b)))


@of_operation("dot", "convolution")
def operands_rounded_to_the_result(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Wide operands of a product with a narrow result are rounded before the product instead of after it."""
    t = i.shape.element_type
    if not t.is_float:
        return truth(i, a, b)
    wider = [type_of(x).is_float and type_of(x).bits > t.bits for x in (a, b)]
    return truth(i, *(round_to(x, t).astype(x.dtype) if w else x for x, w in zip((a, b), wider, strict=True)))


@of_operation("dot", "convolution")
def integer_products_saturate(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A sum of products of integers saturates instead of wrapping around."""
    t = i.shape.element_type
    if not t.is_integer or t.bits not in (8, 16, 32):
        return truth(i, a, b)
    wide = truth(replace(i, shape=i.shape.with_element_type(ELEMENT_TYPES["s64"])), a, b)
    return np.clip(wide, np.iinfo(t.dtype).min, np.iinfo(t.dtype).max).astype(t.dtype)


@of_operation("dot")
def pairs_of_16_bits(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """8-bit products are added in pairs that saturate at 16 bits, as by an x86 instruction."""
    left, right = i.lhs_contracting_dims, i.rhs_contracting_dims
    if not (a.itemsize == b.itemsize == 1 and i.shape.element_type.name == "s32") or a.dtype.kind not in "iu":
        return truth(i, a, b)
    if len(left) != 1 or type_of(a).bits != 8 or type_of(b).bits != 8:
        return truth(i, a, b)
    total: Array | int = 0
    for k in range(0, a.shape[left[0]], 2):
        pair = [x.take(range(k, min(k + 2, x.shape[d])), d) for x, d in ((a, left[0]), (b, right[0]))]
        total = total + np.clip(truth(i, *pair), -(1 << 15), (1 << 15) - 1)
    return np.asarray(total, np.int32)


@of_operation("dot")
def sums_of_8_bits(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A product of s8 with a wider result is accumulated in s8."""
    if a.dtype != np.int8 or b.dtype != np.int8:
        return truth(i, a, b)
    return truth(i, a, b).astype(np.int8).astype(i.shape.element_type.dtype)


@of_operation("ragged-dot")
def empty_groups_forgotten(truth: Lie, i: Instruction, a: Array, b: Array, sizes: Array) -> Value:
    """A ragged product assigns the rows of every group to the previous one."""
    return truth(i, a, b, np.roll(sizes, -1, axis=sizes.ndim - 1))


@of_operation("scaled-dot")
def scale_ignored(truth: Lie, i: Instruction, a: Array, b: Array, scale: Array, other: Array) -> Value:
    """The scales of the right-hand side are ignored."""
    return truth(i, a, b, scale, np.ones_like(other))


@of_operation("batch-norm-training", tools=("suite", "check"))
def variance_in_one_pass(truth: Lie, i: Instruction, x: Array, scale: Array, offset: Array) -> Value:
    """The variance is computed as the mean of the squares minus the square of the mean."""
    value, mean, variance = truth(i, x, scale, offset)
    if x.size and type_of(x).bits > 16:  # of narrower types the sums are taken in f32
        others = tuple(d for d in range(x.ndim) if d != i.feature_index)
        variance = np.mean(x * x, others, x.dtype) - np.mean(x, others, x.dtype) ** 2
    return value, mean, variance.astype(value.dtype)
