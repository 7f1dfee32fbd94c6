"""The blocks of control flow: those of a loop's state, and those of a conditional's results.

A body reads the state in the blocks into which it writes the next state, and a branch updates the arrays that it is
given, where that is safe. What cannot be written there directly is copied at the end (`write_back`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from refxla_spec.module import Computation, Instruction

from ..analysis.conditional_analysis import returned_elements, root_leaves
from ..analysis.while_loop_analysis import state_values
from .memory_blocks import MemoryBlock
from .plan_builder import PlanBuilder, Steps
from .value_blocks import ValueBlocks


class LoopState(NamedTuple):
    """The block of each element of a loop's state; those that the loop may overwrite; and those of loop-invariant
    values, which lie where they lay before the loop."""

    blocks: list[MemoryBlock]
    owned: set[MemoryBlock]
    invariant: set[MemoryBlock]


def loop_state(
    i: Instruction, n: int, body: Computation, counter: int | None, values: ValueBlocks, steps: Steps
) -> LoopState:
    """The blocks of the state of loop `i`, the instruction of group `n`; `steps` get the copies of initial values that
    need one. `counter` is the element that the runtime counts, if there is one."""
    builder, init = values.builder, i.operands[0].operands
    inside, roots = state_values(body), root_leaves(body)
    unread = values.grouped.overwritten.get(i, ())
    sources = [None if k in unread else values.block_of(value) for k, value in enumerate(init)]
    state = LoopState([], set(), set())
    for k, (value, source) in enumerate(zip(init, sources, strict=True)):
        is_invariant = inside.get(k) is roots[k]
        if k == counter or source is None:  # every iteration writes its part of it
            block = builder.memory.block(f"{i.name}.{k}", value.shape)
        elif is_invariant or (values.is_last_use(value, n) and sources.count(source) == 1):
            block = source
        else:
            block = builder.memory.block(f"{i.name}.{k}", value.shape)
            builder.copy(steps, source, block)
        state.blocks.append(block)
        if is_invariant and block is source:
            state.invariant.add(block)
        elif k != counter:
            state.owned.add(block)
    return state


def copied_bytes(body: ValueBlocks, state: Sequence[MemoryBlock]) -> int:
    """The bytes of a loop's state that each iteration copies back, and that two iterations, of which the second writes
    what the first reads, would not: arrays that kernels write elsewhere, because they read all over the old ones, and
    arrays that only change places. `body` has the blocks of the body before it is planned."""
    grouped = body.grouped
    copied = 0
    bases = [grouped.base(root) for root in grouped.roots]
    for base, block in zip(bases, state, strict=True):
        if base in body.values:
            is_copied = body.values[base] is not block and body.values[base] in state
        else:
            alone = base in grouped.makers and bases.count(base) == 1 and base not in body.targets
            is_copied = alone and not grouped.is_made_in_place(grouped.makers[base])
        copied += block.bytes if is_copied else 0
    return copied


def write_back(
    builder: PlanBuilder, results: Sequence[MemoryBlock], targets: Sequence[MemoryBlock], steps: Steps
) -> None:
    """Copies results that do not lie in their targets there; those in the target of another one go through a new
    block."""
    moves = [(source, target) for source, target in zip(results, targets, strict=True) if source is not target]
    safe = []
    for source, target in moves:
        if source in targets and any(other is not source and block is source for other, block in moves):
            between = builder.memory.block(f"{target.name}.next", target.shape)
            builder.copy(steps, source, between)
            source = between
        safe.append((source, target))
    for source, target in safe:
        builder.copy(steps, source, target)


def overwritable_operands(i: Instruction, n: int, values: ValueBlocks) -> set[MemoryBlock]:
    """The blocks of the operands of conditional `i`, the instruction of group `n`, whose values nobody reads after it,
    and which no branch has twice."""
    branches = [[(o, values.block_of(o)) for o in operand.operands] for operand in i.operands[1:]]
    excluded = {values.block_of(i.operands[0])}
    for operands in branches:
        blocks = [block for _, block in operands]
        excluded |= {block for o, block in operands if not values.is_last_use(o, n) or blocks.count(block) > 1}
    return {block for operands in branches for _, block in operands} - excluded


def updated_operands(i: Instruction, owned: Collection[MemoryBlock], values: ValueBlocks) -> list[MemoryBlock | None]:
    """For each result of a conditional the block of an operand that some branch returns, unchanged or with slices
    updated, if that may be overwritten; None for a result that needs a new one."""
    places: list[MemoryBlock | None] = []
    for k, shape in enumerate(i.shape.elements):
        alike = (v for v in returned_elements(i, k) if v.shape.element_type is shape.element_type)
        blocks = (b for b in map(values.block_of, alike) if b in owned and b.bytes == shape.bytes and b not in places)
        places.append(next(blocks, None))
    return places
