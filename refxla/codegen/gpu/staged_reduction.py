"""Reductions with few accumulators of many elements each.

An accumulator adds its elements serially; with one item for each, there would be few items, which would wait for memory
most of the time. Here a work-group has some neighbouring accumulators: columns, or the lanes of a row. All of its items
evaluate elements for them, some at a time, and store them in local memory, from which one item for each accumulator
adds them in order:

    item = row * columns + column      evaluates the elements  row, row + rows, ...  of a block of its column, or lane
    row 0                              adds the block

The next elements are evaluated while a block is added. All values of an item are loaded before the first one is stored,
since outputs may be in the memory of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import prod

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, delinearize, linearize, variable
from .. import scalar
from ..element_builder import type_name
from ..reductions.accumulators import Accumulators, combine_into, declare
from ..reductions.dataflow import inputs_and_initial_values
from ..reductions.kernel_body import KernelBody
from ..reductions.schedule import Position, ReductionPass, Schedule
from .lane_reduction import LaneReduction
from .work_groups import BARRIER, LocalMemory, group_size, register_bytes

COLUMNS = 32  # of a work-group, at most
ROWS_OF_ITEM = 8  # elements that an item evaluates at a time
FEW_ITEMS = 512  # accumulators for each compute unit, below which they are few
LEAST_ELEMENTS = 64  # of an accumulator
MOST_LOCAL_BYTES = 32768


def pays(s: Schedule) -> bool:
    """Whether a reduction should be computed in this way."""
    order, flow = s.order, s.dataflow
    numbers = prod(flow.kept_sizes) * order.partials
    accumulators = numbers * order.lanes
    return (
        order.reduces_one_group
        and (order.lanes == COLUMNS or not order.is_row)
        and not flow.reads_operand_again
        and not flow.epilogue_outputs
        and 0 < accumulators < FEW_ITEMS * s.target.compute_units
        and order.reduced_size // (order.partials * order.lanes) >= LEAST_ELEMENTS
        and sum(register_bytes(type_name(o)) for o in _added_operands(s.passes[0])) * group_size(s.target)
        <= MOST_LOCAL_BYTES
    )


def _added_operands(step: ReductionPass) -> list[Instruction]:
    """The operands whose elements a pass adds, one for each accumulator."""
    return [o for r in step.reduces for o in inputs_and_initial_values(r)[0]]


class StagedReduction(LaneReduction):
    """Writes the kernel of such a reduction; of one that is split, the kernel that stores partial results."""

    def __init__(self, body: KernelBody, partials: dict[Instruction, Sequence[str]] | None = None) -> None:
        super().__init__(body, partials)
        rows = self.order.is_row
        self.width = 1 if rows else self.schedule.inner_size  # of adjacent results
        self.columns = self.lanes if rows else min(COLUMNS, 1 << (self.width.bit_length() - 1))
        self.rows = self.group // self.columns
        self.strips = 1 if rows else -(-self.width // self.columns)
        bytes_each = sum(register_bytes(type_name(o)) for o in _added_operands(self.schedule.passes[0]))
        self.rows_of_item = max(1, min(ROWS_OF_ITEM, MOST_LOCAL_BYTES // (self.group * bytes_each)))
        self._live = "live" if not rows and self.width % self.columns else ""

    @property
    def items(self) -> int:
        """The number of work items."""
        return self.numbers // self.width * self.strips * self.group

    def emit(self) -> None:
        """The statements of an item."""
        block, parts = self.block, self.parts
        block.line(f"const int row = item / {self.columns};")
        block.line(f"const int outer = group / {self.strips * parts}, partial = group / {self.strips} % {parts};")
        outer = variable("outer", 0, self.numbers // self.width // parts - 1)
        if self.order.is_row:
            block.line(f"const int lane = item % {self.lanes}, number = group;")
            self.emit_unit(outer, variable("partial", 0, parts - 1))
            return
        column = f"group % {self.strips} * {self.columns} + item % {self.columns}"
        if self._live:
            block.line(f"const int live = {column} < {self.width};")
            column = f"live ? {column} : {self.width - 1}"
        block.line(f"const int column = {column};")
        block.line(f"const int number = (outer * {parts} + partial) * {self.width} + column;")
        self.emit_unit(outer * self.width + variable("column", 0, self.width - 1), variable("partial", 0, parts - 1))

    def _by_one_item(self) -> AbstractContextManager[None]:
        """The scope of statements for one item of each result."""
        return self._adding_items("lane == 0 && row == 0" if self.order.is_row else "row == 0")

    def _adding_items(self, condition: str = "row == 0") -> AbstractContextManager[None]:
        """The scope of statements for the items that add, or those of them that satisfy a condition."""
        return self.block.scope(f"if ({self._live} && {condition})" if self._live else f"if ({condition})")

    def _accumulate_unit(self, step: ReductionPass, at: Position, partial: Index) -> list[Accumulators]:
        block, fresh = self.block, self.body.fresh
        totals = [declare(self.body, r, 1) for r in step.reduces]
        segmented = self.segmented(step)
        own = [declare(self.body, r, 1) if r in segmented else t for r, t in zip(step.reduces, totals, strict=True)]
        (reduced,) = self.schedule.groups(reduced=True)
        count, tail = divmod(self.order.groups[reduced].size, self.lanes)
        low, high = self.partial_range(reduced, count, partial)
        first, end = fresh("first"), fresh("end")
        block.line(f"const int {first} = {low}, {end} = {high};")
        bound, next_bound = self._first_segment(reduced, count, partial) if segmented else ("", "")
        registers = {o: fresh("value") for o in dict.fromkeys((*_added_operands(step), *step.outputs))}
        for o, name in registers.items():
            block.line(f"{scalar.register_type(type_name(o))} {name}[{self.rows_of_item}];")
        memory = LocalMemory()
        stage = {
            o: memory.declare(
                block, fresh("stage"), scalar.register_type(type_name(o)), register_bytes(type_name(o)),
                self.group * self.rows_of_item,
            )
            for o in dict.fromkeys(_added_operands(step))
        }  # fmt: skip
        self.local_bytes = memory.bytes
        base, rows = fresh("base"), self.rows * self.rows_of_item
        self._evaluate(at, registers, first, end, count)
        with block.scope(f"for (int {base} = {first}; {base} < {end}; {base} += {rows})"):
            self._store(step, at, registers, stage, base, end, count)
            block.line(BARRIER)
            self._evaluate(at, registers, f"{base} + {rows}", end, count)
            with self._adding_items():
                j, last = fresh("j"), fresh("last")
                block.line(f"const int {last} = {end} - {base} < {rows} ? {end} - {base} : {rows};")
                if segmented:
                    with self._each_segment(totals, own, base, j, last, bound, next_bound):
                        self._add_staged(own, stage, j)
                else:
                    block.line("#pragma unroll 8")
                    with block.scope(f"for (int {j} = 0; {j} < {last}; ++{j})"):
                        self._add_staged(own, stage, j)
            block.line(BARRIER)
        if tail:
            condition = f"row == 0 && lane < {tail}"
            if last := self.last_range(reduced, partial):
                condition += f" && {last}"
            with block.scope(f"if ({condition})"):
                inner = variable("lane", 0, tail - 1) + count * self.lanes
                self.accumulate_element(step, own, {**at, reduced: inner}, "0")
        self.add_segments(totals, own, "0")
        if self.lanes > 1:
            self._combine_lanes(totals)
        return totals

    def _first_segment(self, reduced: int, count: int, partial: Index) -> tuple[str, str]:
        """Declares the end of the first segment; gives its name, and the statement that makes it that of the next."""
        number, bound = self.body.fresh("segment"), self.body.fresh("bound")
        self.block.line(f"int {number} = 0;")
        with self.segment(number):
            _, end = self.partial_range(reduced, count, partial)
        self.block.line(f"int {bound} = {end};")
        return bound, f"++{number}; {bound} = {end};"

    def _add_staged(self, own: Sequence[Accumulators], stage: dict[Instruction, str], j: str) -> None:
        """Adds the element in row `j` of a block."""
        for t in own:
            values = [
                self.elements.assign(type_name(o), f"{stage[o]}[{j} * {self.columns} + item]", self.block)
                for o in inputs_and_initial_values(t.reduce)[0]
            ]
            combine_into(self.body, t.reduce, t.at("0"), values)

    @contextmanager
    def _each_segment(
        self, totals: Sequence[Accumulators], own: Sequence[Accumulators], base: str, j: str, last: str, bound: str,
        next_bound: str,
    ) -> Iterator[None]:  # fmt: skip
        """The loop over the rows `j` of a block, in one loop for each of its segments, so that no element is tested for
        being the first of one. Where a segment ends, its sum is added to the total, and the next one begins."""
        block, stop = self.block, self.body.fresh("stop")
        block.line(f"int {j} = 0;")
        with block.scope(f"while ({j} < {last})"):
            with block.scope(f"if ({base} + {j} == {bound})"):
                self.add_segments(totals, own, "0")
                for total, part in zip(totals, own, strict=True):
                    if part is not total:
                        block.line(" ".join(f"{n} = {s};" for n, s in zip(part.names, part.starts, strict=True)))
                block.line(next_bound)
            block.line(f"const int {stop} = {bound} - {base} < {last} ? {bound} - {base} : {last};")
            block.line("#pragma unroll 8")
            with block.scope(f"for (; {j} < {stop}; ++{j})"):
                yield

    def _each_row(self, base: str, end: str, count: int, u: str, c: str) -> AbstractContextManager[None]:
        """The statements for each row `c`, number `u`, that an item evaluates of the block at `base`."""
        self.block.line("#pragma unroll")
        line = f"for (int {u} = 0, {c} = {base} + row; {u} < {self.rows_of_item}; ++{u}, {c} += {self.rows})"
        live = f" && {self._live}" if self._live else ""
        return self.block.scope(f"{line} if ({c} < {end}{live})")

    def _evaluate(self, at: Position, registers: dict[Instruction, str], base: str, end: str, count: int) -> None:
        """Evaluates an item's rows of the block at `base` into registers."""
        u, c = self.body.fresh("u"), self.body.fresh("c")
        with self._each_row(base, end, count, u, c):
            indices = self.schedule.operand_indices(self._position(at, c, count))
            for o, name in registers.items():
                value = self.elements.value(o, self._own(o, indices), self.block)
                self.block.line(f"{name}[{u}] = {value};")

    def _store(
        self, step: ReductionPass, at: Position, registers: dict[Instruction, str], stage: dict[Instruction, str],
        base: str, end: str, count: int,
    ) -> None:  # fmt: skip
        """Stores the evaluated values: outputs to memory, and operands of the accumulators to local memory."""
        u, c = self.body.fresh("u"), self.body.fresh("c")
        with self._each_row(base, end, count, u, c):
            for o, name in stage.items():
                self.block.line(f"{name}[{u} * {self.group} + item] = {registers[o]}[{u}];")
            indices = self.schedule.operand_indices(self._position(at, c, count))
            for o in step.outputs:
                self.elements.bind(o, self._own(o, indices), f"{registers[o]}[{u}]")
                self.elements.store(o, self._own(o, indices), self.block)

    def _position(self, at: Position, c: str, count: int) -> Position:
        (reduced,) = self.schedule.groups(reduced=True)
        if not self.order.is_row:
            return {**at, reduced: variable(c, 0, count - 1)}
        return {**at, reduced: variable(c, 0, count - 1) * self.lanes + variable("lane", 0, self.lanes - 1)}

    def _own(self, o: Instruction, indices: Sequence[Index]) -> Sequence[Index]:
        """The indices of an operand's or an output's element, which may be a reshape."""
        sizes = self.dataflow.dimensions
        return indices if o.shape.dimensions == sizes else delinearize(linearize(indices, sizes), o.shape.dimensions)
