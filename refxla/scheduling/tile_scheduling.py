"""The launch of a tiled fusion, and the memory that each core has for a tile.

What a tile reads and writes of outside values are parts of their buffers (tiling_analysis.View). The buffers between
its own steps are tile buffers: each core has one of each. The steps become one launch (LaunchMerger.tiled). What is the
same for every tile, such as the panels of weights, is computed before; what is the same along the last axis, such as
the panels of the keys of one head, once for each position of the other axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from refxla_spec.types import Shape

from .._core.buffer_offsets import assign
from ..analysis.tiling_analysis import View
from ..ir import plan as p
from ..ir.merged_body import WorkerOffset
from .merged_kernel import SubBuffers
from .tiled_fusion import TiledFusion

if TYPE_CHECKING:
    from .scheduler import Block, ComputationScheduler


def plan_tiled_fusion(frame: ComputationScheduler, name: str, tiled: TiledFusion, alignment: int) -> None:
    """Add the launch of a tiled fusion to the steps of a frame, and what comes before it."""
    planner, body = frame.planner, tiled.body
    results = [frame.new_block(i) for i in body.results]
    begin, known = planner.time, len(planner.blocks)
    planner.time += 1
    sub_buffers: SubBuffers = {}
    same: set[Block] = set()

    def part(view: View, around: Block, shape: Shape) -> Block:
        """The block that a tile has of another one."""
        if view.is_whole:
            same.add(around)
            return around
        made = planner.block(around.name, shape, p.TILE)
        sub_buffers[planner.number[made]] = (planner.number[around], view.place)
        if view.strides[-1] == 0:
            same.add(made)
        return made

    values, bases = {}, []
    for parameter, view in zip(body.computation.parameters, body.views, strict=True):
        starts = None if view.value is not None else body.axes[view.table].starts()
        bases.append(frame.block_of(view.value) if starts is None else planner.constant(f"{name}.starts", starts))
        values[parameter] = part(view, bases[-1], parameter.shape)
    inner = frame.inside(body.computation, values, prod(a.count for a in body.axes), same)
    targets = [part(v, b, i.shape) for v, b, i in zip(body.written, results, inner.roots, strict=True)]
    inner.aim_fresh(targets)
    steps = inner.run()
    for leaf, target in zip(inner.roots, targets, strict=True):
        planner.copy(steps, inner.block_of(leaf), target)
    # A stage that reads no part of anything is the same for every tile.
    stages = [s for _, s in inner.preheader.steps]
    first = [s for s in stages if sub_buffers.keys().isdisjoint(s.buffers)]
    once = [s for s in stages if not sub_buffers.keys().isdisjoint(s.buffers)]
    frame.steps += [(begin, step) for step in first]
    for block in inner.preheader.filled:
        block.start, block.end = begin, planner.time
    outside = {b for s in first for b in s.buffers}
    own = [b for b in planner.blocks[known:] if b.space == p.ARENA and planner.number[b] not in outside]
    tile_buffer = _tile_buffers(frame, name, own, sub_buffers, alignment)
    step = planner.merging.tiled(body.axes, sub_buffers, once, [s for _, s in steps])
    for block in planner.blocks[:known]:
        if block.end >= begin:
            block.end = planner.time
    for block in (*bases, *results, *tile_buffer):
        planner.touch(block)
    frame.steps.append((begin, step))
    planner.time += 1


def _tile_buffers(
    frame: ComputationScheduler, name: str, own: Sequence[Block], sub_buffers: SubBuffers, alignment: int
) -> list[Block]:
    """Lay blocks that a tile has for itself into memory of which each core has a piece; that memory, if any."""
    planner = frame.planner
    if not own:
        return []
    columns = ([b.start for b in own], [b.end for b in own], [b.bytes for b in own])
    offsets, size = assign(*(np.array(c, np.int64) for c in columns), alignment)
    size = -(-int(size) // alignment) * alignment
    tile_buffer = planner.block(f"{name}.tile_buffer", Shape.array("u8", (size * planner.cores,)))
    tile_buffer.start = min(b.start for b in own)
    for block, offset in zip(own, offsets, strict=True):
        block.space = p.TILE
        sub_buffers[planner.number[block]] = (planner.number[tile_buffer], WorkerOffset(size, int(offset)))
    return [tile_buffer]
