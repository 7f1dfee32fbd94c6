"""From a module to its plan: the passes, fusion and scheduling, and code generation; nothing is built yet."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Module

from ..codegen.gpu.work_groups import group_size
from ..device.description import Target
from ..ir.plan import Kernel
from ..passes.pipeline import FUSION, LAUNCH_MERGING, PARALLEL_LOOPS, PREDICATION, TILED_FUSION, optimize
from ..passes.winograd_convolution import apply_winograd
from ..scheduling.kernel_deduplication import KernelDeduplicator
from ..scheduling.launch_costs import MergingOptions
from ..scheduling.scheduler import PlanningResult, make_plan
from ..scheduling.scheduling_options import SchedulingOptions
from .diagnostics import check_values, emit, with_source_location


def plan_module(
    module: Module,
    target: Target,
    without: Collection[str] = (),
    on_kernel: Callable[[Kernel], object] | None = None,
) -> tuple[Module, PlanningResult]:
    """The optimized module and its plan for a target; nothing is built yet. `on_kernel` is called with each kernel that
    is certain to be launched, as soon as it is emitted.

    Raises UnsupportedError for operations without an emitter, with the line of the text from which they were parsed.
    """
    try:
        rewritten, decisions = apply_winograd(module) if target.winograd else (module, ())
        optimized = optimize(rewritten, without, library_calls=target.library_calls)
        check_values(optimized)
        fuse = FUSION not in without
        merge = fuse and LAUNCH_MERGING not in without
        units = target.compute_units if merge and target.capabilities.launch_merging else 0
        group = group_size(target) if target.capabilities.work_groups else 0
        merging = MergingOptions(units, target.persistent, group, target.handover)
        emitter = KernelDeduplicator(partial(emit, target=target))
        serial = KernelDeduplicator(partial(emit, target=target.of_one_item)) if group else None
        options = SchedulingOptions(
            target.costs,
            fuse,
            TILED_FUSION not in without,
            PARALLEL_LOOPS not in without,
            PREDICATION not in without,
            merging,
        )
        planned = make_plan(optimized, emitter, options, on_kernel, serial)
        planned.winograd = decisions
        return optimized, planned
    except UnsupportedError as problem:
        raise with_source_location(problem, module) from None
