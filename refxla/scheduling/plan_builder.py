"""Builds a plan: its blocks of memory (memory_blocks.py) and its kernels.

All computations of a program share one PlanBuilder. Once all steps are planned, `finish` assigns the buffers: the live
ranges of the blocks (analysis/liveness.py) decide which of them may overlap in the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from refxla_spec.module import Computation, Instruction, Module

from ..analysis.cost_analysis import kernel_us
from ..analysis.liveness import live_ranges
from ..ir import plan as p
from .computation_cost import ComputationCosts
from .fusion_group import Refusal
from .launch_costs import MergingOptions
from .launch_merging import LaunchMerger
from .memory_blocks import MemoryBlock, MemoryBlocks, assign_offsets
from .merged_kernel import uses
from .scheduling_options import SchedulingOptions
from .tiled_fusion import TilingDecision

Emit = Callable[[p.Fusion], "tuple[p.Kernel, ...]"]
Steps = list[p.Step]


@dataclass(frozen=True)
class ExecutionScope:
    """What steps are planned for: the whole device, or a single core of it (a work item of a GPU).

    `emit` emits kernels for it, and `merger` merges their launches, if they are. `tiled_fusion` and `parallel_loops`
    say whether cores share tiled fusions and the iterations of a loop.
    """

    emit: Emit
    merger: LaunchMerger | None
    tiled_fusion: bool = False
    parallel_loops: bool = False


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
        self.module, self.options, self.on_kernel = module, options, on_kernel
        self.costs, merging = options.costs, options.merging
        self.cores = merging.units
        self.computation_costs = ComputationCosts(options)
        self.memory = MemoryBlocks()
        self.kernels: list[p.Kernel] = []
        self.fusions: list[p.Fusion] = []
        self.refusals: list[Refusal] = []
        self.tiling_decisions: list[TilingDecision] = []
        self.runs_items = merging.units > 0 and merging.group > 0 and emit_serial is not None
        self.scope = self._device_scope(emit)
        one_core = self._merger(MergingOptions(units=1, by_item=self.runs_items), None)
        self._core_scope = ExecutionScope(emit_serial or emit, one_core)

    def _merger(self, merging: MergingOptions, workspace: Callable[[int], int] | None) -> LaunchMerger:
        memory = self.memory
        return LaunchMerger(self.kernels, memory.size, self.costs, merging, memory.scratch, memory.zeros, workspace)

    def _device_scope(self, emit: Emit) -> ExecutionScope:
        options, merging = self.options, self.options.merging
        if not merging.units:
            return ExecutionScope(emit, None)
        merger = self._merger(merging, partial(self.memory.workspace, "barrier") if merging.persistent else None)
        persistent = merger.has_persistent_kernels
        parallel_loops = options.parallel_loops and options.fusion and (persistent or self.runs_items)
        return ExecutionScope(emit, merger, options.tiled_fusion and options.fusion and persistent, parallel_loops)

    @contextmanager
    def one_core(self) -> Iterator[LaunchMerger]:
        """While this context is open, what is planned is for one core, or one work item of a GPU, by the merger that it
        gives."""
        device, core = self.scope, self._core_scope
        assert device.merger is not None and core.merger is not None  # or there would be no parallel loops
        core.merger.launches.merged = device.merger.launches.merged
        self.scope = core
        try:
            yield core.merger
        finally:
            self.scope = device

    def checkpoint(self) -> Callable[[], None]:
        """A function that takes back what is recorded for `explain` from now on: of a plan that is not used."""
        merged = [] if self.scope.merger is None else self.scope.merger.launches.merged
        records: list[list[Any]] = [self.fusions, self.refusals, self.tiling_decisions, merged]
        lengths = [len(record) for record in records]

        def take_back() -> None:
            for record, length in zip(records, lengths, strict=True):
                del record[length:]

        return take_back

    def copy(self, steps: Steps, source: MemoryBlock, target: MemoryBlock) -> None:
        if source is not target and source.bytes:
            steps.append(p.Copy(source.number, target.number))

    def merge(self, steps: Steps) -> tuple[p.Step, ...]:
        """The steps of a computation, with small launches merged."""
        return tuple(steps) if self.scope.merger is None else self.scope.merger.run(steps)

    def internal(self, block_count: int, outside: Sequence[p.Step] = ()) -> set[int]:
        """The buffers of the arena after the first `block_count`, without those that the steps `outside` use."""
        used = {b for step in outside for side in uses(step, self.kernels) for b in side}
        numbers = range(block_count, len(self.memory.blocks))
        return {b for b in numbers if self.memory.blocks[b].space == p.ARENA and b not in used}

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
            if self.scope.merger is None or self.scope.merger.launches.stands_alone(kernel):
                self.on_kernel(kernel)

    def finish(
        self,
        steps: Sequence[p.Step],
        results: Sequence[Instruction],
        single: bool,
        aliases: Sequence[tuple[int, int]] = (),
        donated: Sequence[int] = (),
    ) -> p.Plan:
        memory = self.memory
        total = assign_offsets([b for b in memory.blocks if b.space == p.ARENA], live_ranges(steps, self.kernels))
        renumbered, kernels = p.renumbered(tuple(steps), self.kernels)
        all_buffers = [p.Buffer(b.name, b.shape, b.bytes, b.space, b.index, b.offset) for b in memory.blocks]
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
            tuple(memory.constant_values),
            memory.constant_bytes,
            total,
            memory.workspace_bytes,
            single,
            tuple(self.fusions),
            tuple(aliases),
            tuple(sorted(overwritten)),
            tuple(sorted(donated)),
        )


def written_buffers(steps: Sequence[p.Step], kernels: Sequence[p.Kernel]) -> set[int]:
    """The numbers of the buffers that steps write."""
    return {b for step in steps for b in uses(step, kernels)[1]}
