"""Turns a scatter of a single block into an operation with which producers and users of the result can be fused.

JAX lowers x.at[1:-1].set(y) to a scatter with a single, constant index vector. It writes one block, so that no element
is written twice. If the block does not lie inside the array, a scatter does nothing, whereas a dynamic-update-slice
would move the block inside: such a scatter stays.

    scatter(x, {1}, y), to_apply=<the update>   ->  dynamic-update-slice(x, y, 1)
    scatter(x, {1}, y), to_apply=add            ->  dynamic-update-slice(x, add(dynamic-slice(x, 1), y), 1)

A scatter of one element to an array of a few, or to each row of a few, such as a permutation of the rows of a small
matrix, is a selection, which does nothing either where the index is outside:

    scatter(x, {k}, y), to_apply=add            ->  select(iota == k, add(x, y), x)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from refxla_spec.elementwise import is_elementwise
from refxla_spec.module import Instruction, Module
from refxla_spec.types import Shape

from .._core.shapes import make
from ..analysis import index_expression
from ..analysis.index_values import known_value
from ..ir.builder import Build
from .algebraic_simplifier import constant
from .call_inliner import mapped
from .dce import rewrite

_FEW = 4  # elements of a row that are all written, instead of one of them


def run(module: Module) -> int:
    """Rewrites all such scatters. Returns their number."""
    return sum(rewrite(c, _as_update) for c in module.computations)


def _as_update(i: Instruction) -> Instruction | None:
    """A scatter as an update of a slice, or a selection; None if it is neither."""
    if i.opcode != "scatter" or len(i.operands) != 3 or not i.shape.is_array or not i.shape.size:
        return None
    operand, indices, updates = i.operands
    vectors = prod(n for d, n in enumerate(indices.shape.dimensions) if d != i.index_vector_dim)
    if not updates.shape.size or not _is_simple(i):
        return None
    selection = _as_selection(i)
    if selection is not None:
        return selection
    sizes = _block_sizes(i)
    starts = _starts(i, sizes) if vectors == 1 else None
    if starts is None:
        return None
    block = make("reshape", updates, name=f"{i.name}.block", shape=updates.shape.with_dimensions(sizes))
    root = i.to_apply.root
    if root.opcode == "parameter":
        if root.attributes["number"] == 0:
            return operand
        if sizes == operand.shape.dimensions:
            return block
    else:
        old = make("dynamic-slice", operand, *starts, name=f"{i.name}.old", dynamic_slice_sizes=sizes)
        (block,) = mapped(i.to_apply, [old, block], block, i.name)
    return make("dynamic-update-slice", operand, block, *starts, name=i.name)


def _as_selection(i: Instruction) -> Instruction | None:
    """A scatter that writes one of a few places of each row as a selection among all of them, where a row has the last
    dimensions, which are indexed, and each row an index of its own, or all have the same; None for another scatter."""
    operand, indices, updates = i.operands
    indexed, batching = i.scatter_dims_to_operand_dims, i.input_batching_dims
    sizes = _block_sizes(i)
    whole = all(sizes[d] == n for d, n in enumerate(operand.shape.dimensions) if d not in (*indexed, *batching))
    vectors = prod(n for d, n in enumerate(indices.shape.dimensions) if d != i.index_vector_dim)
    last = prod(operand.shape.dimensions[min(indexed, default=0) :])
    places = prod(operand.shape.dimensions[d] for d in indexed)
    if not (whole and places == last <= _FEW and all(sizes[d] == 1 for d in indexed)):
        return None
    if vectors != prod(operand.shape.dimensions[d] for d in batching):
        return None
    b = Build(i.name)
    new = _along(b, updates, _dimensions_of_updates(i), operand.shape)
    root = i.to_apply.root
    if root.opcode == "parameter":
        new = new if root.attributes["number"] else operand
    else:
        (new,) = mapped(i.to_apply, [operand, new], new, i.name)
    for k, d in enumerate(indexed):
        index = indices
        if i.index_vector_dim < indices.shape.rank:
            start = tuple(k if n == i.index_vector_dim else 0 for n in range(indices.shape.rank))
            limit = tuple(k + 1 if n == i.index_vector_dim else s for n, s in enumerate(indices.shape.dimensions))
            index = b.slice(indices, start, limit)
        pairs = dict(zip(i.scatter_indices_batching_dims, batching, strict=True))
        index = _along(b, index, [pairs.get(n) for n in range(indices.shape.rank)], operand.shape)
        number = b.iota(indices.shape.element_type, operand.shape.dimensions, d)
        new = b.select(b.compare(number, index, direction="EQ"), new, operand)
    return new


def _dimensions_of_updates(i: Instruction) -> list[int | None]:
    """For each dimension of the updates, that of the operand along which it runs; None where it has one element."""
    operand, indices, updates = i.operands
    left_out = i.inserted_window_dims + i.input_batching_dims
    window = iter(d for d in range(operand.shape.rank) if d not in left_out)
    pairs = dict(zip(i.scatter_indices_batching_dims, i.input_batching_dims, strict=True))
    vectors = (pairs.get(d) for d in range(indices.shape.rank) if d != i.index_vector_dim)
    return [next(window) if d in i.update_window_dims else next(vectors) for d in range(updates.shape.rank)]


def _along(b: Build, x: Instruction, dimensions: Sequence[int | None], shape: Shape) -> Instruction:
    """x broadcast to a shape, along which its dimensions run; those that are None have one element."""
    kept = [n for n, d in enumerate(dimensions) if d is not None and x.shape.dimensions[n] == shape.dimensions[d]]
    x = b.reshape(x, tuple(x.shape.dimensions[n] for n in kept))
    targets = [d for n in kept if (d := dimensions[n]) is not None]
    order = tuple(sorted(range(len(targets)), key=targets.__getitem__))
    return b.spread(b.transposed(x, order), shape, tuple(targets[n] for n in order))


def _is_simple(i: Instruction) -> bool:
    """Whether an update replaces the old value, or is combined with it by a single operation that rounds once.
    (Products of complex numbers round more often than those of a scatter.)"""
    inside = [x for x in i.to_apply.instructions if x.opcode != "parameter"]
    if len(inside) > 1 or any(not is_elementwise(x.opcode) for x in inside):
        return False
    return not any(x.opcode in ("multiply", "divide") and x.shape.element_type.is_complex for x in inside)


def _block_sizes(i: Instruction) -> tuple[int, ...]:
    """The sizes of the block in the operand's dimensions."""
    operand, _, updates = i.operands
    extents = iter(updates.shape.dimensions[d] for d in i.update_window_dims)
    left_out = i.inserted_window_dims + i.input_batching_dims
    return tuple(1 if d in left_out else next(extents) for d in range(operand.shape.rank))


def _starts(i: Instruction, sizes: tuple[int, ...]) -> list[Instruction] | None:
    """The start of the block in each dimension; None if it is not constant, or the block does not lie inside the
    operand."""
    operand, indices, _ = i.operands
    starts = [0] * operand.shape.rank
    for k, d in enumerate(i.scatter_dims_to_operand_dims):
        at = [index_expression.constant(k if n == i.index_vector_dim else 0) for n in range(indices.shape.rank)]
        start = known_value(indices, tuple(at))
        if start is None or not 0 <= start <= operand.shape.dimensions[d] - sizes[d]:
            return None
        starts[d] = start
    kind = np.int32 if max(operand.shape.dimensions, default=0) < 1 << 31 else np.int64
    return [constant(kind(s), f"{i.name}.start.{d}") for d, s in enumerate(starts)]
