"""Turns a scatter of a single block into a dynamic-update-slice, into which the producers of the update can be fused.

JAX lowers x.at[1:-1].set(y) to a scatter with a single, constant index vector. It writes one block, so that no element
is written twice. If the block does not lie inside the array, a scatter does nothing, whereas a dynamic-update-slice
would move the block inside: such a scatter stays.

    scatter(x, {1}, y), to_apply=<the update>   ->  dynamic-update-slice(x, y, 1)
    scatter(x, {1}, y), to_apply=add            ->  dynamic-update-slice(x, add(dynamic-slice(x, 1), y), 1)
"""

from __future__ import annotations

from math import prod

import numpy as np
from refxla_spec.elementwise import is_elementwise
from refxla_spec.module import Instruction, Module

from .._core.shapes import make
from ..analysis import index_expression
from ..analysis.index_values import known_value
from .algebraic_simplifier import constant
from .call_inliner import mapped
from .dce import rewrite


def run(module: Module) -> int:
    """Rewrites all such scatters. Returns their number."""
    return sum(rewrite(c, _as_update) for c in module.computations)


def _as_update(i: Instruction) -> Instruction | None:
    """A scatter as an update of a slice; None if it is not a scatter of one block, or not a simple one."""
    if i.opcode != "scatter" or len(i.operands) != 3 or not i.shape.is_array or not i.shape.size:
        return None
    operand, indices, updates = i.operands
    vectors = prod(n for d, n in enumerate(indices.shape.dimensions) if d != i.index_vector_dim)
    if vectors != 1 or not updates.shape.size or not _is_simple(i):
        return None
    sizes = _block_sizes(i)
    starts = _starts(i, sizes)
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
