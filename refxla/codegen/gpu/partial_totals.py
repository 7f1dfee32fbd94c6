"""Split sums: the work-groups store partial results in scratch memory, and a second kernel adds them in order.

The partial results of a result are in the order in which they are combined; those of columns are adjacent, so that the
reads of a sub-group are coalesced:

    scratch[(outer * partials + partial) * columns + column]         (rows: one column)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, variable
from ...ir.plan import Argument
from .. import scalar
from ..index_printer import c_of
from ..reductions.accumulators import combine_into, declare, types
from ..reductions.kernel_body import KernelBody
from ..reductions.schedule import CachedOperand, Position, Schedule
from ..reductions.unit_emitter import UnitEmitter
from .work_groups import BARRIER, LocalMemory, group_size, register_bytes

AT_A_TIME = 8  # partial results of a column that an item loads at a time

# For each reduce and each of its accumulators: the C expression of a partial result, given that of its number.
Places = dict[Instruction, list[Callable[[str], str]]]


def scratch_arguments(schedule: Schedule) -> dict[Instruction, list[Argument]]:
    """The scratch memory for the partial results, by reduce: an argument for each of its accumulators."""
    flow, order = schedule.dataflow, schedule.order
    count = prod(flow.kept_sizes) * order.partials
    arguments: dict[Instruction, list[Argument]] = {}
    for step in schedule.passes:
        for r in step.reduces:
            arguments[r] = []
            for name in types(r):
                number = sum(map(len, arguments.values()))
                ctype, bytes_each = scalar.register_type(name), register_bytes(name)
                scratch = f"{flow.fusion.name}.partial{number}"
                arguments[r].append(Argument("scratch", ctype, bytes=count * bytes_each, scratch=scratch))
    return arguments


class PartialTotals(UnitEmitter):
    """Writes the kernel that combines the partial results at `partials`, C pointers for each reduce, and stores what
    depends on them.

    A row has a work-group, whose items load its partial results for the first one; a column has an item.
    """

    def __init__(self, body: KernelBody, partials: Mapping[Instruction, Sequence[str]]) -> None:
        super().__init__(body)
        self.partials = partials
        self.group = group_size(body.schedule.target)
        self.results = prod(self.dataflow.kept_sizes)
        self.local_bytes = 0

    @property
    def items(self) -> int:
        """The number of work items."""
        groups = self.results if self.order.is_row else -(-self.results // self.group)
        return groups * self.group

    def emit(self) -> None:
        """The statements of an item."""
        if self.order.is_row:
            self.block.line("const int unit = group;")
            places, head = self._local_copies(), "if (item == 0)"
        else:
            self.block.line(f"const int unit = group * {self.group} + item;")
            places, head = self._columns(), f"if (unit < {self.results})" if self.results % self.group else ""
        with self.block.scope(head):
            self._combine(places)

    def _combine(self, places: Places) -> None:
        """Adds the partial results of a unit in order, and stores what depends on them."""
        (step,), order, block = self.schedule.passes, self.order, self.block
        totals = [declare(self.body, r, 1) for r in step.reduces]
        for t in totals:
            for total, place in zip(t.at("0"), places[t.reduce], strict=True):
                block.line(f"{total} = {place('0')};")
        block.line(f"#pragma unroll {AT_A_TIME}")
        with block.scope(f"for (int partial = 1; partial < {order.partials}; ++partial)"):
            for t in totals:
                pairs = zip(types(t.reduce), places[t.reduce], strict=True)
                values = [self.elements.assign(name, place("partial"), block) for name, place in pairs]
                combine_into(self.body, t.reduce, t.at("0"), values)
        at = self.schedule.kept_position(variable("unit", 0, self.results - 1), self.schedule.groups(reduced=False))
        self.finish(step, totals, at)
        self.store_results(at)

    def _columns(self) -> Places:
        """The partial results of a column, in the scratch memory."""
        columns, parts = self.schedule.inner_size, self.order.partials
        unit = variable("unit", 0, self.results - 1)
        first = unit // columns * (parts * columns) + unit % columns
        self.block.line(f"const {'int' if first.fits_int else 'long'} first = {c_of(first)};")

        def place(array: str) -> Callable[[str], str]:
            return lambda partial: f"{array}[first + {partial} * {columns}]"

        return {r: [place(array) for array in arrays] for r, arrays in self.partials.items()}

    def _local_copies(self) -> Places:
        """The partial results of a row in local memory, where all items of the work-group load them."""
        block, parts, copies = self.block, self.order.partials, {}
        memory = LocalMemory()
        for r, arrays in self.partials.items():
            copies[r] = [
                memory.declare(block, self.body.fresh("parts"), scalar.register_type(n), register_bytes(n), parts)
                for n in types(r)
            ]
            with block.scope(f"for (int n = item; n < {parts}; n += {self.group})"):
                for to, array in zip(copies[r], arrays, strict=True):
                    block.line(f"{to}[n] = {array}[unit * {parts} + n];")
        block.line(BARRIER)
        self.local_bytes = memory.bytes

        def place(array: str) -> Callable[[str], str]:
            return lambda partial: f"{array}[{partial}]"

        return {r: [place(array) for array in arrays] for r, arrays in copies.items()}

    def declare_arrays(self) -> None:
        """(There are none.)"""

    def emit_unit(self, unit: Index, partial: Index) -> None:
        """(A unit is an item, or a work-group.)"""

    def bind_results(self, at: Position) -> None:
        """(They are bound once.)"""

    def cached_place(self, cached: CachedOperand, at: Position) -> str:
        raise AssertionError("nothing is cached where elements are not read")
