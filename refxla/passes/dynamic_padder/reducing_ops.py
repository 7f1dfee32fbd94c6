"""The rules of operations that combine elements: padding is masked, or sorted to the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from refxla_spec.module import Computation, Instruction, WindowDimension
from refxla_spec.types import F32, S32, Shape

from ...ir.builder import Build
from .dimension_sizes import (
    Rule,
    Size,
    SizedArray,
    least,
    live,
    masked,
    met,
    neutral,
    number,
    placings,
    unsupported,
    zero,
)
from .select_and_scatter_padding import select_and_scatter


def elementwise(b: Build, i: Instruction, *xs: SizedArray) -> SizedArray:
    result = b.make(i.opcode, *(x.array for x in xs), shape=i.shape.static(), **i.attributes)
    return SizedArray(result, met(b, xs))


def bitcast_convert(b: Build, i: Instruction, x: SizedArray) -> SizedArray:
    result = b.make(i.opcode, x.array, shape=i.shape.static())
    sizes = (*x.sizes, None)[: result.shape.rank]
    if x.sizes[result.shape.rank :] != (None,) * max(0, len(x.sizes) - result.shape.rank):
        raise unsupported(i, "joined along a dynamic dimension")
    return SizedArray(result, sizes)


def reduce(b: Build, i: Instruction, *values: SizedArray) -> SizedArray | list[SizedArray]:
    xs, inits = values[: len(values) // 2], values[len(values) // 2 :]
    sizes = met(b, xs)
    arrays = [
        masked(b, SizedArray(x.array, sizes), neutral(b, i, i.to_apply, x.array, init.array), i.dimensions)
        if any(sizes[d] is not None for d in i.dimensions)
        else x.array
        for x, init in zip(xs, inits, strict=True)
    ]
    result = b.make("reduce", *arrays, *(v.array for v in inits), dimensions=i.dimensions, to_apply=i.to_apply)
    remaining = tuple(s for d, s in enumerate(sizes) if d not in i.dimensions)
    return _results(b, result, remaining)


def reduce_window(b: Build, i: Instruction, *values: SizedArray) -> SizedArray | list[SizedArray]:
    xs, inits = values[: len(values) // 2], values[len(values) // 2 :]
    sizes = met(b, xs)
    sliding = [d for d, w in enumerate(i.window) if sizes[d] is not None and w != WindowDimension(1)]
    arrays = [
        masked(b, SizedArray(x.array, sizes), neutral(b, i, i.to_apply, x.array, init.array), sliding)
        if sliding
        else x.array
        for x, init in zip(xs, inits, strict=True)
    ]
    result = b.make("reduce-window", *arrays, *(v.array for v in inits), window=i.window, to_apply=i.to_apply)
    return _results(b, result, tuple(placings(b, s, w) for s, w in zip(sizes, i.window, strict=True)))


def _results(b: Build, result: Instruction, sizes: tuple[Size, ...]) -> SizedArray | list[SizedArray]:
    if not result.shape.is_tuple:
        return SizedArray(result, sizes)
    return [SizedArray(b.make("get-tuple-element", result, index=n), sizes) for n in range(len(result.shape.elements))]


def dot(b: Build, i: Instruction, x: SizedArray, y: SizedArray) -> SizedArray:
    lb, rb, lc, rc = i.lhs_batch_dims, i.rhs_batch_dims, i.lhs_contracting_dims, i.rhs_contracting_dims
    x, y = _paired(b, x, y, zip(lc, rc, strict=True))
    left, right = _without_the_rest(b, x, lc), _without_the_rest(b, y, rc)
    batch = [least(b, x.sizes[d], y.sizes[e]) for d, e in zip(lb, rb, strict=True)]
    sizes = batch + [s for d, s in enumerate(x.sizes) if d not in lb + lc]
    sizes += [s for d, s in enumerate(y.sizes) if d not in rb + rc]
    return SizedArray(b.make("dot", left, right, shape=i.shape.static(), **i.attributes), tuple(sizes))


def _without_the_rest(b: Build, x: SizedArray, dimensions: Iterable[int]) -> Instruction:
    """A factor of sums of products with zeros beyond its sizes. f8e8m0fnu has no zero and is converted to f32, which
    has all its numbers."""
    dimensions = tuple(dimensions)
    element_type = x.array.shape.element_type
    cut = any(x.sizes[d] is not None for d in dimensions)
    if cut and element_type.is_float and np.isnan(np.zeros((), np.float32).astype(element_type.array_dtype)):
        x = SizedArray(b.convert(x.array, F32), x.sizes)
    return masked(b, x, zero(b, x), dimensions)


def _paired(b: Build, x: SizedArray, y: SizedArray, pairs: Iterable[tuple[int, int]]) -> tuple[SizedArray, SizedArray]:
    """Both operands with the smaller of their sizes in corresponding dimensions."""
    left, right = list(x.sizes), list(y.sizes)
    for d, e in pairs:
        left[d] = right[e] = least(b, left[d], right[e])
    return SizedArray(x.array, tuple(left)), SizedArray(y.array, tuple(right))


def convolution(b: Build, i: Instruction, x: SizedArray, y: SizedArray) -> SizedArray:
    n = i.dim_labels
    if i.feature_group_count == 1:
        x, y = _paired(b, x, y, [(n.input_feature, n.kernel_input_feature)])
    elif x.sizes[n.input_feature] is not None or y.sizes[n.kernel_input_feature] is not None:
        raise unsupported(i, "groups of a dynamic number of features")
    if any(y.sizes[d] is not None for d in n.kernel_spatial) or y.sizes[n.kernel_output_feature] is not None:
        raise unsupported(i, "a kernel of dynamic size")
    if i.batch_group_count > 1 and x.sizes[n.input_batch] is not None:
        raise unsupported(i, "groups of a dynamic batch")
    left = _without_the_rest(b, x, (n.input_feature, *n.input_spatial))
    right = _without_the_rest(b, y, (n.kernel_input_feature,))
    sizes: list[Size] = [None] * len(x.sizes)
    sizes[n.output_batch] = x.sizes[n.input_batch]
    for d, source, w in zip(n.output_spatial, n.input_spatial, i.window, strict=True):
        sizes[d] = placings(b, x.sizes[source], replace(w, reversal=False))
    return SizedArray(b.make("convolution", left, right, shape=i.shape.static(), **i.attributes), tuple(sizes))


def sort(b: Build, i: Instruction, *xs: SizedArray) -> SizedArray | list[SizedArray]:
    """Elements beyond the size are sorted to the end: whether an element is one of them is the first key."""
    (along,) = i.dimensions
    sizes, shape = met(b, xs), xs[0].array.shape
    arrays, comparator = [x.array for x in xs], i.to_apply
    if sizes[along] is not None:
        inside = live(b, shape.dimensions, tuple(s if d == along else None for d, s in enumerate(sizes)))
        arrays.append(b.convert(b.not_(inside), S32))
        comparator = _dead_last(b, comparator)
    result = b.make("sort", *arrays, dimensions=i.dimensions, is_stable=i.is_stable, to_apply=comparator)
    results = _results(b, result, sizes)
    if not isinstance(results, list):
        return results
    return results[: len(xs)] if len(xs) > 1 else results[0]


def _dead_last(b: Build, comparator: Computation) -> Computation:
    """The comparator with two more operands, which are compared first."""
    count = len(comparator.parameters)
    keys = [Instruction(f"dead.{n}", "parameter", Shape(S32), [], {"number": count + n}) for n in range(2)]
    before, same = b.compare(*keys, direction="LT"), b.compare(*keys, direction="EQ")
    root = b.or_(before, b.and_(same, comparator.root))
    both = root.operands[1]
    return Computation(f"{comparator.name}.live", [*comparator.instructions, *keys, before, same, both, root], root)


def gather(b: Build, i: Instruction, x: SizedArray, start: SizedArray) -> SizedArray:
    """Indices are clamped to the size, not to the bound."""
    if i.operand_batching_dims and any(x.sizes[d] is not None for d in i.operand_batching_dims):
        raise unsupported(i, "a dynamic dimension of the operand among the batch")
    whole = [s == n for s, n in zip(i.slice_sizes, x.array.shape.dimensions, strict=True)]
    indices = start.array
    limits: list[Instruction | None] = []
    for d in i.start_index_map:
        cut = x.sizes[d] is not None and not whole[d]
        limits.append(b.maximum(b.subtract(x.sizes[d], i.slice_sizes[d]), 0) if cut else None)
    if any(limit is not None for limit in limits):
        indices = b.minimum(_as_s32(b, i, indices), _along(b, indices, i.index_vector_dim, limits, (1 << 31) - 1))
    result = b.make("gather", x.array, indices, **i.attributes)
    left_out = i.collapsed_slice_dims + i.operand_batching_dims
    block = iter([x.sizes[d] if whole[d] else None for d in range(len(whole)) if d not in left_out])
    batch = iter([s for d, s in enumerate(start.sizes) if d != i.index_vector_dim])
    return SizedArray(
        result, tuple(next(block) if d in i.offset_dims else next(batch) for d in range(result.shape.rank))
    )


def _as_s32(b: Build, i: Instruction, indices: Instruction) -> Instruction:
    """Indices of any integer type as s32, saturated."""
    element_type = indices.shape.element_type
    if element_type.bits > 32 or (element_type.bits == 32 and element_type.kind == "unsigned"):
        indices = b.minimum(indices, (1 << 31) - 1)
        if element_type.kind == "signed":
            indices = b.maximum(indices, -1)
    return b.convert(indices, S32)


def _along(b: Build, like: Instruction, dim: int, values: list[Instruction | None], other: int) -> Instruction:
    """An s32 array with the dimensions of `like`: values[n] where the index along `dim` is n, `other` for None."""
    shape = like.shape.with_element_type(S32).static()
    instruction = b.full(other, shape)
    for n, value in enumerate(values):
        if value is not None:
            wide = b.spread(value, shape, ()) if shape.rank else value
            at = b.compare(b.iota(S32, shape.dimensions, dim), n, direction="EQ") if dim < shape.rank else None
            instruction = wide if at is None else b.select(at, wide, instruction)
    return instruction


def scatter(b: Build, i: Instruction, *values: SizedArray) -> SizedArray | list[SizedArray]:
    """An update beyond the updates' sizes, or not within the operand's sizes, gets an index out of bounds."""
    n = len(values) // 2
    xs, indices, updates = values[:n], values[n], values[n + 1 :]
    if i.input_batching_dims:
        raise unsupported(i, "with batching dimensions")
    sizes, shape = met(b, xs), xs[0].array.shape
    update_sizes, window = met(b, updates), i.update_window_dims
    extents = [d for d in range(shape.rank) if d not in i.inserted_window_dims]
    for d, w in zip(extents, window, strict=True):
        whole = shape.dimensions[d] == updates[0].array.shape.dimensions[w]
        if update_sizes[w] is not None and (not whole or update_sizes[w] is not sizes[d]):
            raise unsupported(i, "blocks of dynamic size")
        if sizes[d] is not None and not whole and d not in i.scatter_dims_to_operand_dims:
            raise unsupported(i, "blocks that are a part of a dynamic dimension without an index")
    rows = [d for d in range(len(indices.sizes)) if d != i.index_vector_dim]
    columns = [d for d in range(len(update_sizes)) if d not in window]
    count = list(indices.sizes)
    for d, c in zip(rows, columns, strict=True):
        count[d] = least(b, count[d], update_sizes[c])
    at = _as_s32(b, i, indices.array)
    limits: list[Instruction | None] = []
    for d in i.scatter_dims_to_operand_dims:
        length = 1
        if d in extents:
            length = updates[0].array.shape.dimensions[window[extents.index(d)]]
        cut = sizes[d] is not None and length != shape.dimensions[d]
        limits.append(b.subtract(number(b, SizedArray(xs[0].array, sizes), d), length) if cut else None)
    outside = b.full(-1, at.shape)
    if any(limit is not None for limit in limits):
        limit = _along(b, at, i.index_vector_dim, limits, (1 << 31) - 1)
        at = b.select(b.compare(at, limit, direction="GT"), outside, at)
    if any(s is not None for s in count):
        if not i.scatter_dims_to_operand_dims:
            raise unsupported(i, "a dynamic number of updates of one place")
        at = b.select(live(b, at.shape.dimensions, tuple(count)), at, outside)
    result = b.make("scatter", *(x.array for x in xs), at, *(u.array for u in updates), **i.attributes)
    return _results(b, result, sizes)


def batch(fixed: int) -> Rule:
    """The rule of a batched operation: on the last `fixed` dimensions, for each index in the dimensions before."""

    def rule(b: Build, i: Instruction, *xs: SizedArray) -> SizedArray | list[SizedArray]:
        last = len(i.fft_length) if i.opcode == "fft" else fixed
        if any(s is not None for x in xs for s in x.sizes[len(x.sizes) - last :]):
            raise unsupported(i, "a dynamic size of what it works on as a whole")
        result = b.make(i.opcode, *(x.array for x in xs), shape=i.shape.static(), **i.attributes)
        sizes = (*met(b, [SizedArray(x.array, x.sizes[: len(x.sizes) - last]) for x in xs]), *(None,) * last)
        return _results(b, result, sizes)

    return rule


def batch_norm_inference(b: Build, i: Instruction, x: SizedArray, *features: SizedArray) -> SizedArray:
    if x.sizes[i.feature_index] is not None or any(f.is_dynamic for f in features):
        raise unsupported(i, "a dynamic number of features")
    result = b.make(i.opcode, x.array, *(f.array for f in features), **i.attributes)
    return SizedArray(result, x.sizes)


RULES: dict[str, Rule] = {
    "batch-norm-inference": batch_norm_inference,
    "bitcast-convert": bitcast_convert,
    "cholesky": batch(2),
    "convolution": convolution,
    "dot": dot,
    "fft": batch(1),
    "gather": gather,
    "reduce": reduce,
    "reduce-window": reduce_window,
    "scatter": scatter,
    "select-and-scatter": select_and_scatter,
    "sort": sort,
    "topk": batch(1),
    "triangular-solve": batch(2),
}
