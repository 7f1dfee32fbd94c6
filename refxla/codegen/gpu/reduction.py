"""The kernels of kind "reduction" for GPUs.

    rows whose sums have one part     one kernel, with all that reads the row again (softmax, layer norm)
    sums that are split               two: partial results, and those combined in order (partial_totals.py)
    few sums of many elements         the same, by work-groups that share them (staged_reduction.py)
    columns that are read again,
    and split rows that are           one or two kernels for each level of reduces, and one for the outputs that are as
                                      large as the operand (reduction_levels.py)

The order of each sum is that of analysis/reduction_order.py, so that it has the same bits as on a CPU.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from ...analysis.reduction_order import ReductionOrder, reduction_order
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from ..kernel_arguments import input_argument, output_argument
from ..reductions.dataflow import dataflow
from ..reductions.kernel_body import KernelBody
from ..reductions.schedule import CachedOperand, Schedule
from ..reductions.schedule_rules import schedule, values_read_again
from . import elementwise, staged_reduction
from .fusion_parts import parts
from .lane_reduction import LaneReduction
from .partial_totals import PartialTotals, scratch_arguments
from .reduction_levels import by_levels
from .staged_reduction import StagedReduction
from .work_groups import group_size

SHORT_COLUMN = 64  # elements of a result, up to which columns that are read again are one kernel
CACHED_ELEMENTS = 32  # of a row that an item keeps in registers for the next pass, at most


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a fusion around reduces of operands with the same dimensions over the same dimensions.

    Raises UnsupportedError where its reduces or outputs do not belong together.
    """
    flow = dataflow(fusion)
    order = reduction_order(flow.dimensions, flow.reduced)
    if len(flow.results) == len(fusion.outputs) and not flow.reads_operand_again:
        several = parts(fusion, scratch_per_output=int(order.partials > 1))
        if len(several) > 1:
            return tuple(k for part in several for k in emit(part, target))
    if flow.reads_operand_again and (order.partials > 1 or not order.is_row and order.reduced_size > SHORT_COLUMN):
        return by_levels(flow, lambda f: emit(f, target), lambda f: elementwise.emit(f, target))
    s = _cached(schedule(fusion, target), order)
    return _split(s) if order.partials > 1 else (_whole(s),)


def _cached(s: Schedule, order: ReductionOrder) -> Schedule:
    """The schedule that keeps those values of a short row in registers that several passes read: inputs, and expensive
    ones."""
    short = order.is_row and order.reduces_one_group
    if not short or not s.dataflow.reads_operand_again or order.groups[-1].size > CACHED_ELEMENTS * order.lanes:
        return s
    again = values_read_again(s.dataflow, also_inputs=True)
    return replace(s, cached=tuple(CachedOperand(i, number) for i, number in again.items()))


def _whole(s: Schedule) -> Kernel:
    body = KernelBody(s)
    emitter = _lanes(s)(body)
    if emitter.numbers:
        emitter.emit()
    return _kernel(s, "", body, emitter, [])


def _lanes(s: Schedule) -> type[LaneReduction]:
    """The writer of the kernel that accumulates elements of the operand."""
    return StagedReduction if staged_reduction.pays(s) else LaneReduction


def _split(s: Schedule) -> tuple[Kernel, ...]:
    """The kernel that stores partial results in scratch memory, and the one that combines them."""
    scratch = scratch_arguments(s)
    arguments = list(chain.from_iterable(scratch.values()))
    kernels = []
    for suffix, kind in ((".partial", _lanes(s)), ("", PartialTotals)):
        body = KernelBody(s)
        first = len(body.pointers)
        names = iter(range(first, first + len(arguments)))
        emitter = kind(body, {r: [f"a{next(names)}" for _ in own] for r, own in scratch.items()})
        emitter.emit()
        kernels.append(_kernel(s, suffix, body, emitter, arguments))
    return tuple(kernels)


def _kernel(
    s: Schedule, suffix: str, body: KernelBody, emitter: LaneReduction | PartialTotals, scratch: list[Argument]
) -> Kernel:
    fusion, size = s.dataflow.fusion, group_size(s.target)
    arguments = [*map(input_argument, s.inputs), *map(output_argument, fusion.outputs), *scratch]
    name, text = fusion.name + suffix, body.block.text()
    return Kernel(name, text, tuple(arguments), emitter.items, work_group=size, local_bytes=emitter.local_bytes)
