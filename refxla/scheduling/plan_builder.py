"""Builds a plan: its blocks of memory, its kernels, and its constants.

All computations of a program share one PlanBuilder. Once all steps are planned, `finish` assigns the buffers: the live
ranges of the blocks (analysis/liveness.py) decide which of them may overlap in the arena.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import Shape

from .._core.buffer_offsets import assign
from ..analysis.cost_analysis import kernel_us
from ..analysis.liveness import Range, live_ranges
from ..ir import plan as p
from .computation_cost import ComputationCosts
from .fusion_group import Refusal
from .launch_costs import MergingOptions
from .launch_merging import LaunchMerger
from .merged_kernel import uses
from .scheduling_options import SchedulingOptions
from .tiled_fusion import TilingDecision

ALIGNMENT = 64
Emit = Callable[[p.Fusion], "tuple[p.Kernel, ...]"]
Steps = list[p.Step]


@dataclass(eq=False)
class MemoryBlock:
    """A piece of memory, and its place."""

    name: str
    shape: Shape
    bytes: int
    space: str = p.ARENA
    index: int = 0
    offset: int = 0


class PlanBuilder:
    """See the module; the arguments are those of scheduler.make_plan."""

    def __init__(
        self,
        module: Module,
        emit: Emit,
        options: SchedulingOptions,
        on_kernel: Callable[[p.Kernel], object] | None,
        emit_serial: Emit | None = None,
    ) -> None:
        self.module, self.emit, self.options, self.on_kernel = module, emit, options, on_kernel
        self._emit_serial = emit_serial or emit
        self.costs, merging = options.costs, options.merging
        self.computation_costs = ComputationCosts(options)
        self.blocks: list[MemoryBlock] = []
        self.number: dict[MemoryBlock, int] = {}
        self.kernels: list[p.Kernel] = []
        self.fusions: list[p.Fusion] = []
        self.refusals: list[Refusal] = []
        self.constants: dict[tuple[str, tuple[int, ...], bytes], MemoryBlock] = {}
        self.constant_values: list[tuple[int, np.ndarray]] = []
        self.constant_bytes = self.workspace_bytes = 0
        self.launch_merger: LaunchMerger | None = None
        size = lambda b: self.blocks[b].bytes  # noqa: E731
        if merging.units:
            workspace = partial(self.workspace, "barrier") if merging.persistent else None
            self.launch_merger = LaunchMerger(
                self.kernels, size, self.costs, merging, self.scratch, self.zeros, workspace
            )
        self.cores = merging.units
        has_persistent_kernels = self.launch_merger is not None and self.launch_merger.has_persistent_kernels
        self.tiled = options.tiled_fusion and options.fusion and has_persistent_kernels
        self.runs_items = self.launch_merger is not None and merging.group > 0 and emit_serial is not None
        can_be_parallel = has_persistent_kernels or self.runs_items
        self.has_parallel_loops = options.parallel_loops and options.fusion and can_be_parallel
        self.tiling_decisions: list[TilingDecision] = []
        one_core = MergingOptions(units=1, by_item=self.runs_items)
        self._one_core_merger = LaunchMerger(self.kernels, size, self.costs, one_core, self.scratch, self.zeros)

    def block(
        self, name: str, shape: Shape, space: str = p.ARENA, index: int = 0, bytes: int | None = None
    ) -> MemoryBlock:
        memory_block = MemoryBlock(name, shape, shape.bytes if bytes is None else bytes, space, index)
        self.number[memory_block] = len(self.blocks)
        self.blocks.append(memory_block)
        return memory_block

    def constant(self, name: str, value: np.ndarray) -> MemoryBlock:
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (str(array.dtype), array.shape, hashlib.sha256(array.reshape(-1).view(np.uint8).data).digest())
        if key not in self.constants:
            block = self.block(name, Shape.of(array), p.CONSTANT)
            block.offset = self.constant_bytes
            self.constant_values.append((block.offset, array))
            self.constant_bytes += _aligned(block.bytes)
            self.constants[key] = block
        return self.constants[key]

    @contextmanager
    def one_core(self) -> Iterator[LaunchMerger]:
        """While this context is open, what is planned is for one core, or one work item of a GPU, by the merger that it
        gives."""
        before = self.launch_merger, self.tiled, self.has_parallel_loops, self.emit
        assert before[0] is not None  # there are no parallel loops where launches are not merged
        self._one_core_merger.launches.merged = before[0].launches.merged
        self.launch_merger, self.tiled, self.has_parallel_loops = self._one_core_merger, False, False
        self.emit = self._emit_serial
        try:
            yield self._one_core_merger
        finally:
            self.launch_merger, self.tiled, self.has_parallel_loops, self.emit = before

    def checkpoint(self) -> Callable[[], None]:
        """A function that takes back what is recorded for `explain` from now on: of a plan that is not used."""
        merged = [] if self.launch_merger is None else self.launch_merger.launches.merged
        records: list[list[Any]] = [self.fusions, self.refusals, self.tiling_decisions, merged]
        lengths = [len(record) for record in records]

        def take_back() -> None:
            for record, length in zip(records, lengths, strict=True):
                del record[length:]

        return take_back

    def workspace(self, name: str, bytes: int) -> int:
        """The number of a new block of memory that is zeroed once."""
        block = self.block(f"{name}.workspace", Shape.array("u8", (bytes,)), p.WORKSPACE)
        block.offset = self.workspace_bytes
        self.workspace_bytes += _aligned(bytes)
        return self.number[block]

    def scratch(self, name: str, element_type: str, count: int) -> int:
        """The number of a new block of so many elements."""
        return self.number[self.block(name, Shape.array(element_type, (count,)))]

    def zeros(self, count: int) -> int:
        """The number of a constant of zeros of type s64."""
        return self.number[self.constant("zeros", np.zeros(count, np.int64))]

    def copy(self, steps: Steps, source: MemoryBlock, target: MemoryBlock) -> None:
        if source is not target and source.bytes:
            steps.append(p.Copy(self.number[source], self.number[target]))

    def merge(self, steps: Steps) -> tuple[p.Step, ...]:
        """The steps of a computation, with small launches merged."""
        return tuple(steps) if self.launch_merger is None else self.launch_merger.run(steps)

    def internal(self, block_count: int, outside: Sequence[p.Step] = ()) -> set[int]:
        """The buffers of the arena after the first `block_count`, without those that the steps `outside` use."""
        used = {b for step in outside for side in uses(step, self.kernels) for b in side}
        numbers = range(block_count, len(self.blocks))
        return {b for b in numbers if self.blocks[b].space == p.ARENA and b not in used}

    def us_of(self, fusion: p.Fusion, kernel: p.Kernel, last: bool) -> float:
        """The microseconds that a kernel takes on one core; the last of a fusion does the work, others move values."""
        if last:
            return kernel_us(fusion, self.costs)
        moved = sum(a.instruction.shape.bytes if a.instruction is not None else a.bytes for a in kernel.arguments)
        return moved * self.costs.byte / 1e3

    def report_kernel(self, kernel: p.Kernel, computation: Computation) -> None:
        """Pass a kernel that is certain to be launched alone to `on_kernel`, which may begin to compile it. Those of
        loops and branches may still be merged, so only kernels of the entry computation are."""
        if self.on_kernel is not None and kernel.items and computation is self.module.entry:
            if self.launch_merger is None or self.launch_merger.launches.stands_alone(kernel):
                self.on_kernel(kernel)

    def finish(
        self,
        steps: Sequence[p.Step],
        results: Sequence[Instruction],
        single: bool,
        aliases: Sequence[tuple[int, int]] = (),
        donated: Sequence[int] = (),
    ) -> p.Plan:
        total = assign_offsets(
            [b for b in self.blocks if b.space == p.ARENA], self.number, live_ranges(steps, self.kernels)
        )
        renumbered, kernels = p.renumbered(tuple(steps), self.kernels)
        all_buffers = [p.Buffer(b.name, b.shape, b.bytes, b.space, b.index, b.offset) for b in self.blocks]
        buffers, final = p.without_tiles(all_buffers, renumbered)
        written = (buffers[b] for b in written_buffers(final, kernels))
        overwritten = {b.index for b in written if b.space == p.PARAMETER} | {parameter for _, parameter in aliases}
        return p.Plan(
            self.module.name,
            kernels,
            buffers,
            final,
            tuple(i.shape for i in self.module.entry.parameters),
            tuple(i.shape for i in results),
            tuple(self.constant_values),
            self.constant_bytes,
            total,
            self.workspace_bytes,
            single,
            tuple(self.fusions),
            tuple(aliases),
            tuple(sorted(overwritten)),
            tuple(sorted(donated)),
        )


def written_buffers(steps: Sequence[p.Step], kernels: Sequence[p.Kernel]) -> set[int]:
    """The numbers of the buffers that steps write."""
    return {b for step in steps for b in uses(step, kernels)[1]}


def assign_offsets(
    blocks: Sequence[MemoryBlock], number: Mapping[MemoryBlock, int], ranges: Mapping[int, Range]
) -> int:
    """Assigns an offset to each block, such that blocks that are live at the same time do not overlap. Returns the
    total bytes. `number` has the blocks' numbers, by which `ranges` has their live ranges; a block without one is not
    used."""
    used = [b for b in blocks if number[b] in ranges]
    starts, ends = ([ranges[number[b]][side] for b in used] for side in (0, 1))
    begin, end, size = (np.array(column, np.int64) for column in (starts, ends, [b.bytes for b in used]))
    offsets, total = assign(begin, end, size, ALIGNMENT)
    for block, offset in zip(used, offsets, strict=True):
        block.offset = int(offset)
    return int(total)


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
