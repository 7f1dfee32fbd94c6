"""The memory of a tiled fusion: what a tile reads and writes of outside values, and what each core has for itself.

What a tile takes of an outside value is a part of that value's buffer (tiling_analysis.TileView). The buffers between
its own steps are tile buffers: each core has one of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.types import Shape

from ..analysis.liveness import live_ranges
from ..analysis.tiling_analysis import TileView
from ..ir import plan as p
from ..ir.merged_body import TileNumberOffset, WorkerOffset
from .memory_blocks import ALIGNMENT, MemoryBlock, assign_offsets
from .merged_kernel import SubBuffers
from .plan_builder import PlanBuilder


class TileBuffers:
    """The blocks of a tiled fusion. `sub_buffers` are those that are parts of others, as PersistentLaunches.tiled takes
    them; `shared` those that are the same for every tile along the last axis."""

    def __init__(self, builder: PlanBuilder) -> None:
        self.builder = builder
        self.sub_buffers: SubBuffers = {}
        self.shared: set[MemoryBlock] = set()

    def part(self, view: TileView, surrounding: MemoryBlock, shape: Shape) -> MemoryBlock:
        """The block of `shape` that a tile has of another one."""
        if view.is_whole:
            self.shared.add(surrounding)
            return surrounding
        memory_block = self.builder.memory.block(surrounding.name, shape, p.TILE)
        self.sub_buffers[memory_block.number] = (surrounding.number, view.place)
        if view.strides[-1] == 0:
            self.shared.add(memory_block)
        return memory_block

    def has_part(self, step: p.Launch) -> bool:
        """Whether a launch takes a part of a block."""
        return not self.sub_buffers.keys().isdisjoint(step.buffers)

    def assign(
        self,
        name: str,
        blocks: Sequence[MemoryBlock],
        once: Sequence[p.Step],
        each: Sequence[p.Step],
        tiles: int | None = None,
    ) -> None:
        """Lay the blocks that a tile has for itself into memory of which each core has a piece, or each of so many
        `tiles`, which then keep their values from one launch to the next. They are what the steps `each` of a tile use
        alone, and those `once` before some of the tiles."""
        if not blocks:
            return
        ranges = live_ranges((*once, *each), self.builder.kernels)
        last = max(end for _, end in ranges.values())
        for buffer in live_ranges(once, self.builder.kernels):  # what is done once is there for all tiles
            ranges[buffer] = 0, last
        size = -(-assign_offsets(blocks, ranges) // ALIGNMENT) * ALIGNMENT
        pieces = self.builder.cores if tiles is None else tiles
        memory = self.builder.memory.block(f"{name}.tile_buffer", Shape.array("u8", (size * pieces,)))
        for block in blocks:
            block.space = p.TILE
            place = WorkerOffset(size, block.offset) if tiles is None else TileNumberOffset(0, size, block.offset)
            self.sub_buffers[block.number] = (memory.number, place)
