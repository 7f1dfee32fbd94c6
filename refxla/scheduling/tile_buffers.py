"""The memory of a tiled fusion: what a tile reads and writes of outside values, and what each core has for itself.

What a tile takes of an outside value is a part of that value's buffer (tiling_analysis.View). The buffers between its
own steps are tile buffers: each core has one of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from refxla_spec.types import Shape

from .._core.buffer_offsets import assign
from ..analysis.tiling_analysis import View
from ..ir import plan as p
from ..ir.merged_body import WorkerOffset
from .merged_kernel import SubBuffers
from .plan_builder import ALIGNMENT, Block, PlanBuilder


class TileBuffers:
    """The blocks of a tiled fusion. `sub_buffers` are those that are parts of others, as LaunchMerger.tiled takes them;
    `shared` those that are the same for every tile along the last axis."""

    def __init__(self, builder: PlanBuilder) -> None:
        self.builder = builder
        self.sub_buffers: SubBuffers = {}
        self.shared: set[Block] = set()

    def part(self, view: View, surrounding: Block, shape: Shape) -> Block:
        """The block of `shape` that a tile has of another one."""
        if view.is_whole:
            self.shared.add(surrounding)
            return surrounding
        made = self.builder.block(surrounding.name, shape, p.TILE)
        self.sub_buffers[self.builder.number[made]] = (self.builder.number[surrounding], view.place)
        if view.strides[-1] == 0:
            self.shared.add(made)
        return made

    def has_part(self, step: p.Launch) -> bool:
        """Whether a launch takes a part of a block."""
        return not self.sub_buffers.keys().isdisjoint(step.buffers)

    def assign(self, name: str, blocks: Sequence[Block]) -> list[Block]:
        """Lay the blocks that a tile has for itself into memory of which each core has a piece; that memory, if any."""
        if not blocks:
            return []
        columns = ([b.start for b in blocks], [b.end for b in blocks], [b.bytes for b in blocks])
        offsets, size = assign(*(np.array(c, np.int64) for c in columns), ALIGNMENT)
        size = -(-int(size) // ALIGNMENT) * ALIGNMENT
        memory = self.builder.block(f"{name}.tile_buffer", Shape.array("u8", (size * self.builder.cores,)))
        memory.start = min(b.start for b in blocks)
        for block, offset in zip(blocks, offsets, strict=True):
            block.space = p.TILE
            place = WorkerOffset(size, int(offset))
            self.sub_buffers[self.builder.number[block]] = (self.builder.number[memory], place)
        return [memory]
