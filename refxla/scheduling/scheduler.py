"""From an optimized module to a plan: fusions, kernels, steps, and memory.

Each computation that runs by itself (the entry, the bodies and conditions of loops, the branches of conditionals) is
planned by a ComputationScheduler; what they share is a PlanBuilder, which then gives each block of memory its offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from refxla_spec.module import Instruction, Module

from ..analysis.donation import donated_parameters
from ..device.description import Costs
from ..ir import plan as p
from ..passes import host_call_threading
from ..passes.winograd_convolution import WinogradDecision
from .computation_scheduler import ComputationScheduler
from .fusion_group import Refusal
from .memory_blocks import MemoryBlock
from .merged_kernel import MergedLaunch
from .plan_builder import Emit, PlanBuilder
from .predication import Predication
from .scheduling_options import SchedulingOptions
from .tiled_fusion import TilingDecision

_DEFAULTS = SchedulingOptions()


@dataclass
class PlanningResult:
    """A plan, and the decisions that led to it, for `explain`. `winograd` says of each convolution whether it is
    computed in tiles, where that was asked for."""

    plan: p.Plan
    refusals: list[Refusal] = field(default_factory=list)
    merged_launches: list[MergedLaunch] = field(default_factory=list)
    winograd: tuple[WinogradDecision, ...] = ()
    tiled_fusions: list[TilingDecision] = field(default_factory=list)
    costs: Costs = field(default_factory=Costs)


def make_plan(
    module: Module,
    emit: Emit,
    options: SchedulingOptions = _DEFAULTS,
    on_kernel: Callable[[p.Kernel], object] | None = None,
    emit_serial: Emit | None = None,
) -> PlanningResult:
    """Plan a module that the passes have prepared (see passes/pipeline.py); `emit` turns a fusion into kernels.

    `on_kernel` is called with each kernel that is sure to be launched by itself, when it is emitted. `emit_serial`
    emits kernels for single work items of a GPU, which then run whole iterations of loops; None: they do not.
    """
    builder = PlanBuilder(module, emit, options, on_kernel, emit_serial)
    entry = module.entry
    single = entry.root.opcode != "tuple"
    threaded = host_call_threading.STATE_RESULT in module.attributes
    values: dict[Instruction, MemoryBlock] = {}
    for n, i in enumerate(entry.parameters):
        values[i] = builder.memory.block(i.name, i.shape, p.PARAMETER, index=n)
    donated = {values[entry.parameters[n]]: result for n, result in donated_parameters(module).items()}
    scheduler = ComputationScheduler(builder, entry, values, owned=set(donated))
    results = scheduler.roots
    if threaded:  # the last result has to be computed, but is not returned
        results = results[:-1]
        single = module.attributes[host_call_threading.STATE_RESULT] == "single"
    scheduler.blocks.assign_output_buffers(
        {
            result: (block, entry.parameters[block.index])
            for block, result in donated.items()
            if result is not None and result < len(results)
        }
    )
    steps = scheduler.run()
    outputs: set[MemoryBlock] = set()
    aliases: list[tuple[int, int]] = []
    for n, leaf in enumerate(results):
        block = scheduler.blocks.values[leaf]
        if block in donated and block not in outputs and block.shape.without_layout() == leaf.shape.without_layout():
            aliases.append((n, block.index))
        elif block.space == p.ARENA and block not in outputs:
            block.space, block.index = p.RESULT, n
        else:
            target = builder.memory.block(f"result.{n}", leaf.shape, p.RESULT, index=n)
            builder.copy(steps, block, target)
            block = target
        outputs.add(block)
    planned: Sequence[p.Step] = builder.merge(steps)
    if options.predication and options.merging.group:
        planned = Predication(builder, options.merging.group).steps(planned)
    return PlanningResult(
        builder.finish(planned, results, single, aliases, [b.index for b in donated]),
        builder.refusals,
        [] if builder.scope.merger is None else builder.scope.merger.launches.merged,
        tiled_fusions=builder.tiling_decisions,
        costs=options.costs,
    )
