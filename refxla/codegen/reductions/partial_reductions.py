"""Reductions split among work items: each leaves a partial result in the workspace, and the last one combines them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index
from .. import scalar
from ..index_printer import c_of
from .accumulators import Accumulators, combine_into, types
from .kernel_body import KernelBody
from .schedule import Schedule

_ALIGNMENT = 64  # of the partial results of a reduce in the workspace, in bytes

# The scope of a loop over the totals of a unit: one for a row, or one for each column of a strip.
Totals = Callable[[], AbstractContextManager[Index]]


def workspace_bytes(schedule: Schedule) -> int:
    """The size of the workspace: a counter for each unit, and the partial results of all reduces."""
    return _places(schedule)[1]


def declare_partials(body: KernelBody, reduces: Sequence[Instruction]) -> dict[Instruction, tuple[str, ...]]:
    """Declares a pointer to the partial results of this unit, which are contiguous, for each result of the reduces."""
    order, (places, _) = body.schedule.order, _places(body.schedule)
    body.global_only = True
    # With clang, RX_ARRIVE orders all reads and writes; volatile ones could not be vectorized.
    memory = "__global" if body.schedule.target.capabilities.clang_builtins else "volatile __global"
    partials: dict[Instruction, tuple[str, ...]] = {}
    for r in reduces:
        names = []
        for n, name in enumerate(types(r)):
            pointer = f"{memory} {scalar.register_type(name)}*"
            names.append(body.fresh("part"))
            place = f"({pointer})({body.workspace} + {places[r, n]}) + unit * {order.partials * order.strip}"
            body.block.line(f"{pointer} {names[-1]} = {place};")
        partials[r] = tuple(names)
    return partials


def combine_partials(
    body: KernelBody,
    totals: Sequence[Accumulators],
    partials: dict[Instruction, tuple[str, ...]],
    each_total: Totals,
    in_workspace: bool,
) -> list[Accumulators]:
    """Stores the totals of this item in the workspace; the last item of the unit combines those of all, in order, and
    continues.

    With `in_workspace` they are there already. Returns the accumulators with the result.
    """
    block, order = body.block, body.schedule.order
    if not in_workspace:
        with each_total() as index:  # one loop for all reduces: clang takes milliseconds for each
            for name, partial in _pairs(totals, partials, index):
                block.line(f"{partial}[partial * {order.strip} + {c_of(index)}] = {name};")
    counter = f"((volatile __global int*){body.workspace} + unit)"
    block.line(f"if (RX_ARRIVE({counter}) != {order.partials - 1}) return;")
    block.line(f"*{counter} = 0;")
    if in_workspace:
        totals = [replace(t, names=partials[t.reduce]) for t in totals]
    else:
        with each_total() as index:
            for name, partial in _pairs(totals, partials, index):
                block.line(f"{name} = {partial}[{c_of(index)}];")
    with block.scope(f"for (int partial = 1; partial < {order.partials}; ++partial)"), each_total() as index:
        for t in totals:
            other = [f"{p}[partial * {order.strip} + {c_of(index)}]" for p in partials[t.reduce]]
            values = [body.elements.assign(name, o, block) for name, o in zip(types(t.reduce), other, strict=True)]
            combine_into(body, t.reduce, t.at(index), values)
    return list(totals)


@contextmanager
def sequential_partials(body: KernelBody) -> Iterator[str]:
    """A loop over the partial results of a unit, which one item computes one after the other; gives the C name of the
    number."""
    name = body.fresh("partial")
    with body.block.scope(f"for (int {name} = 0; {name} < {body.schedule.order.partials}; ++{name})"):
        yield name


def add_partial(body: KernelBody, number: str, total: Accumulators, partial: Accumulators, each_total: Totals) -> None:
    """Combines the partial result with that number into the total; the first one becomes the total."""
    with body.block.scope(f"if ({number} == 0)"), each_total() as index:
        for name, own in zip(total.at(index), partial.at(index), strict=True):
            body.block.line(f"{name} = {own};")
    with body.block.scope("else"), each_total() as index:
        combine_into(body, total.reduce, total.at(index), partial.at(index))


def _places(schedule: Schedule) -> tuple[dict[tuple[Instruction, int], int], int]:
    """The offset of each accumulator's partial results in the workspace, after a counter for each unit; and the
    workspace's size."""
    order = schedule.order
    places, end = {}, 4 * order.units
    for step in schedule.passes:
        for r in step.reduces:
            for n, name in enumerate(types(r)):
                places[r, n] = end = -(-end // _ALIGNMENT) * _ALIGNMENT
                end += (16 if name == "c128" else 8) * order.units * order.partials * order.strip
    return places, end


def _pairs(
    totals: Sequence[Accumulators], partials: dict[Instruction, tuple[str, ...]], index: Index
) -> list[tuple[str, str]]:
    """Each accumulator with the pointer to its partial results."""
    return [pair for t in totals for pair in zip(t.at(index), partials[t.reduce], strict=True)]
