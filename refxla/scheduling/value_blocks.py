"""The blocks of memory of a computation's values, and which of them may be overwritten.

Blocks are shared where a value may be updated in place: the state of a loop, the operand of a dynamic-update-slice or
scatter that nobody reads later, an input of a loop kernel that is read only at the index that is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refxla_spec.module import Instruction

from ..ir import plan as p
from .grouped_computation import GroupedComputation
from .memory_blocks import MemoryBlock
from .plan_builder import PlanBuilder, Steps


class ValueBlocks:
    """The block of each value. `owned` are those that may be overwritten once their value is read for the last time:
    the computation's own, and some that it is given, such as the state of the loop whose body it is."""

    def __init__(
        self,
        builder: PlanBuilder,
        grouped: GroupedComputation,
        values: dict[Instruction, MemoryBlock],
        owned: set[MemoryBlock],
    ) -> None:
        self.builder, self.grouped, self.values, self.owned = builder, grouped, values, set(owned)
        self.targets: dict[Instruction, MemoryBlock] = {}  # values that are to be written to a given block

    def block_of(self, i: Instruction) -> MemoryBlock:
        """The block of a value; a constant gets one when it is first requested."""
        i = self.grouped.base(i)
        if i not in self.values and i.opcode == "constant":
            self.values[i] = self.builder.memory.constant(i.name, i.literal)
        return self.values[i]

    def is_last_use(self, i: Instruction, group: int) -> bool:
        """Whether no later group reads a value, and this computation owns its block, so that it can be reused."""
        if self.grouped.base(i).opcode == "constant":  # it may have no block, if no kernel reads it from memory
            return False
        return self.grouped.last_use[self.grouped.base(i)] <= group and self.block_of(i) in self.owned

    def new_block(self, i: Instruction) -> MemoryBlock:
        if i in self.targets:
            block = self.targets[i]
        else:
            block = self.builder.memory.block(i.name, i.shape)
            self.owned.add(block)
        self.values[i] = block
        return block

    def output(
        self,
        n: int,
        fusion: p.Fusion,
        i: Instruction,
        steps: Steps,
        updated: Instruction | None = None,
        read_too: bool = False,
    ) -> MemoryBlock:
        """The block an output is written to: a new one, or one that may be overwritten.

        `updated` is the value that is to lie there already, which the kernel also reads elsewhere if `read_too`; where
        it has to be copied there first, `steps` get the copy.
        """
        if updated is not None:
            source = self.block_of(updated)
            if self.is_last_use(updated, n) and not read_too and i not in self.targets:
                return source
            target = self.new_block(i)
            if source is not target:
                self.builder.copy(steps, source, target)
            return target
        if i in self.targets or len(fusion.outputs) > 1:
            return self.new_block(i)
        for candidate in fusion.inputs:
            if self.is_last_use(candidate, n):
                block, alike = self.block_of(candidate), candidate.shape.element_type is i.shape.element_type
                if alike and block.bytes == i.shape.bytes and self.grouped.in_place(self.grouped.groups[n], candidate):
                    return block
        return self.new_block(i)

    def assign_output_buffers(self, blocks: Mapping[int, tuple[MemoryBlock, Instruction | None]]) -> None:
        """Makes kernels overwrite the old values of results, if no later kernel reads these. `blocks` has, by the
        number of a result, the block and its old value, or None if it is not read: the state of a loop, or a parameter
        that is donated."""
        makers = self.grouped.makers
        bases = [self.grouped.base(root) for root in self.grouped.roots]
        for k, (block, old) in blocks.items():
            base = bases[k]
            if base in self.targets or base not in makers or bases.count(base) > 1:
                continue
            n = makers[base]
            if self.grouped.is_made_in_place(n) or base.shape.bytes != block.bytes:
                continue
            last = -1 if old is None else self.grouped.last_use.get(old, -1)
            if last < n or (last == n and old is not None and self.grouped.replaces(self.grouped.groups[n], base, old)):
                self.targets[base] = block
                self.owned.discard(block)

    def assign_new_output_buffers(self, results: Sequence[MemoryBlock | None]) -> None:
        """Makes kernels write results into new blocks; None for those that are written elsewhere."""
        makers = self.grouped.makers
        for root, block in zip(self.grouped.roots, results, strict=True):
            base = self.grouped.base(root)
            if not block or base not in makers or base in self.targets or base.shape.bytes != block.bytes:
                continue
            if not self.grouped.is_made_in_place(makers[base]):
                self.targets[base] = block
