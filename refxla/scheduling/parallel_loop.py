"""Parallel loops: each core, or each work item of a GPU, runs whole iterations of a loop.

The iterations of some loops do not need each other: a function mapped over the rows of an array (JAX's lax.map), or the
parts of a batch. Such a loop is one phase of a persistent kernel, whose tiles are the iterations. What an iteration
runs, it runs on one core, loops and all, so the cores wait for each other once, not after each kernel. An iteration has
its own memory for the values that it computes, and writes its slices of the results where they belong.

On a GPU, an iteration is a work item, with its values in registers if they are few. It is planned like one of a core,
with kernels for single items. The items do not wait for each other, so there is no barrier, and each iteration has
memory of its own.

An iteration with a loop that may run long is left after a while, since signals are answered between launches
(serial_control_flow.py). Then its memory is its own until it has finished, and the kernel is launched again as long as
any iteration has not. loop_parallelization.py says which loops are run so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from refxla_spec.types import Shape

from ..ir import merged_body as m
from ..ir import plan as p
from .memory_blocks import MemoryBlock
from .persistent_kernel import PERSISTENT_US
from .plan_builder import PlanBuilder, Steps
from .tile_buffers import TileBuffers

RESUMED_TILES = 4  # of each core: iterations in flight that may be left and resumed, each with its own memory


class ParallelLoop:
    """The steps of a parallel loop. `variable` is the block of the counter in the body, and `blocks` are those that an
    iteration has for itself."""

    def __init__(self, builder: PlanBuilder, name: str, variable: MemoryBlock, blocks: Sequence[MemoryBlock]) -> None:
        self.builder, self.name, self.variable, self.blocks = builder, name, variable, blocks
        self.tile = TileBuffers(builder)

    def steps(self, iteration: Sequence[p.Step], us: float, values: np.ndarray) -> Steps:
        """The steps that run `iteration`, the launch for one core that takes so many microseconds, once for each of
        the counter's `values`: with a Loop if it must be launched again, as LaunchMerger.region gives it."""
        builder, cores = self.builder, self.builder.cores
        launch, resumed = _launch_of(iteration)
        trip_count = len(values)
        most = RESUMED_TILES * cores if resumed else max(cores, int(PERSISTENT_US * cores / us) // cores * cores)
        if builder.runs_items:
            most = trip_count
        count = min(trip_count, most)
        chunks, rest = divmod(trip_count, count)
        own = [b for b in self.blocks if b.number not in resumed and b.space == p.ARENA]
        self.tile.assign(self.name, own, (), iteration, count if resumed or builder.runs_items else None)
        self._workspaces(count)
        steps: Steps = []
        if chunks == 1:
            steps += self._launches(
                launch, resumed, builder.memory.constant(f"{self.name}.iterations", values[:count]), count
            )
        else:
            shape = Shape.array(self.variable.shape.element_type.name, (count,))
            some = builder.memory.block(f"{self.name}.counters", shape)
            table = builder.memory.constant(f"{self.name}.iterations", values[: chunks * count])
            inside = self._launches(launch, resumed, some, count)
            steps.append(p.Repeat(chunks, tuple(inside), some.number, table.number))
        if rest:
            table = builder.memory.constant(f"{self.name}.last_iterations", values[-rest:])
            steps += self._launches(launch, resumed, table, rest)
        for block in own:
            block.space = p.TILE
        return steps

    def _workspaces(self, count: int) -> None:
        """Give each core, or each of `count` iterations that are work items, a workspace of its own: that of a kernel
        has counters that its items share."""
        items = self.builder.runs_items
        for block in self.blocks:
            if block.space == p.WORKSPACE:
                size = -(-block.bytes // 64) * 64
                whole = self.builder.memory.workspace(self.name, size * (count if items else self.builder.cores))
                place = m.TileNumberOffset(0, size) if items else m.WorkerOffset(size, 0)
                self.tile.sub_buffers[block.number] = (whole, place)

    def _launches(self, launch: p.Launch, resumed: tuple[int, ...], counters: MemoryBlock, count: int) -> Steps:
        """The steps that run `count` iterations, for which `counters` has the values of the counter."""
        builder = self.builder
        merger = builder.scope.merger
        assert merger is not None  # there are no parallel loops without
        parts = dict(self.tile.sub_buffers)
        size = self.variable.shape.element_type.bytes
        parts[self.variable.number] = (counters.number, m.TileNumberOffset(0, size))
        if not resumed:
            return [merger.iterations(count, parts, launch)]
        progress, unfinished = resumed
        steps: Steps = []
        zeros = builder.memory.constant("zeros", np.zeros(count * m.PROGRESS_BYTES // 8, np.int64))
        each_progress = builder.memory.block(f"{self.name}.progress", zeros.shape)
        builder.copy(steps, zeros, each_progress)
        ones = builder.memory.constant("ones", np.ones(count, np.bool_))
        each_unfinished = builder.memory.block(f"{self.name}.unfinished", ones.shape)
        builder.copy(steps, ones, each_unfinished)
        parts[progress] = (each_progress.number, m.TileNumberOffset(0, m.PROGRESS_BYTES))
        parts[unfinished] = (each_unfinished.number, m.TileNumberOffset(0, 1))
        steps.append(merger.resumed_iterations(count, parts, launch, each_unfinished.number))
        return steps


def _launch_of(iteration: Sequence[p.Step]) -> tuple[p.Launch, tuple[int, ...]]:
    """The launch of an iteration's kernel; of one that can be resumed, the buffers of its progress and of the pred that
    says whether there is more."""
    match tuple(iteration):
        case (p.Launch() as launch,):
            return launch, ()
        case (p.Copy(_, progress), p.Loop((p.Launch() as launch,), more, ())):
            return launch, (progress, more)
    raise TypeError(f"{iteration!r} is no iteration for one core")
