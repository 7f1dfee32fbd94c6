"""Reductions with a work item for each lane of a row's sum, or for each column.

The items of a work-group have the lanes of several rows, with those of a row adjacent, so that a row is read
contiguously; or, where it is adjacent rows that are contiguous in memory, with the same lane of those adjacent; or
neighbouring columns. An item accumulates the same elements as a lane or column on a CPU, in the same
order, and the lanes of a row are combined through local memory in the same tree (analysis/reduction_order.py). Short
rows that are read again stay in private memory, which the device's compiler keeps in registers.

    number   of a result, or of a partial result where sums are split; the items of a row share it
    lane     of a row; a column has one

Items of the last work-group may have no number. They compute the last result once more, so that all items reach each
barrier, but store nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from math import prod

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, variable
from .. import scalar
from ..element_builder import type_name
from ..index_printer import c_of
from ..reductions.accumulators import Accumulators, combine_into, declare, types
from ..reductions.kernel_body import KernelBody
from ..reductions.schedule import CachedOperand, Position, ReductionPass
from ..reductions.unit_emitter import UnitEmitter
from .transposed_operands import SECTOR, SUB_GROUP
from .vector_access import size_of
from .work_groups import BARRIER, LocalMemory, group_size, register_bytes

UNROLL, MOST_UNROLLED = 8, 32  # elements of a lane or column that are loaded at a time: more if items are few
BYTES_ON_THE_WAY = 48 << 10  # loads in flight for each compute unit that keep memory busy
MOST_LOCAL_BYTES = 16384  # of local memory, in which the lanes of so many accumulators are combined together


class LaneReduction(UnitEmitter):
    """Writes the kernel of a reduction; of one that is split, the kernel that stores partial results in the scratch
    memory at `partials`, C pointers for each reduce (partial_totals.py)."""

    def __init__(self, body: KernelBody, partials: dict[Instruction, Sequence[str]] | None = None) -> None:
        super().__init__(body)
        self.partials = partials
        self.group = group_size(body.schedule.target)
        self.lanes = self.order.lanes if self.order.is_row else 1
        self.parts = 1 if partials is None else self.order.partials
        self.numbers = prod(self.dataflow.kept_sizes) * self.parts
        self.per_group = self.group // self.lanes
        self.lane_distance = 1  # of the items of adjacent lanes
        self.local_bytes = 0
        self._cache_arrays: dict[Instruction, str] = {}
        self._live = ""  # the C condition that an item has a number; "" if all have

    @property
    def items(self) -> int:
        """The number of work items."""
        return -(-self.numbers // self.per_group) * self.group

    def declare_arrays(self) -> None:
        for c in self.schedule.cached:
            name = self._cache_arrays[c.instruction] = self.body.fresh("row")
            count = -(-self.schedule.inner_size // self.lanes)
            self.block.line(f"{scalar.register_type(type_name(c.instruction))} {name}[{count}];")

    def emit(self) -> None:
        """The statements of an item."""
        self.declare_arrays()
        row, lane = f"item / {self.lanes}", f"item % {self.lanes}"
        if self._has_contiguous_rows():
            self.lane_distance = self.per_group
            row, lane = f"item % {self.per_group}", f"item / {self.per_group}"
        first = f"group * {self.per_group} + {row if self.lanes > 1 else 'item'}"
        if self.numbers % self.per_group:
            self.block.line(f"const int live = {first} < {self.numbers};")
            first, self._live = f"live ? {first} : {self.numbers - 1}", "live"
        self.block.line(f"const int number = {first};")
        if self.lanes > 1:
            self.block.line(f"const int lane = {lane};")
        number = variable("number", 0, self.numbers - 1)
        columns = 1 if self.order.is_row else self.schedule.inner_size
        if self.parts > 1:
            self.block.line(f"const int partial = {c_of(number // columns % self.parts)};")
        unit = number // columns // self.parts * columns + number % columns
        self.emit_unit(unit, variable("partial", 0, self.parts - 1))

    def _has_contiguous_rows(self) -> bool:
        """Whether a sub-group touches fewer sectors of memory if adjacent items have the same lane of adjacent rows."""
        if not 1 < self.lanes < self.group or self.parts > 1 or not self.numbers:
            return False
        lane = variable("lane", 0, min(self.lanes, self.schedule.inner_size) - 1)
        if all(position.factor("lane") in (0, 1) for _, position in self._places(constant(0), lane)):
            return False

        def sectors(items: Sequence[tuple[int, int]]) -> int:
            touched = set[tuple[int, int]]()
            for row, lane in items:
                own = min(row, self.numbers - 1), min(lane, self.schedule.inner_size - 1)  # a row may be shorter
                for n, (size, position) in enumerate(self._places(*map(constant, own))):
                    touched.add((n, position.low * size // SECTOR))
            return len(touched)

        items, rows = range(SUB_GROUP), self.per_group
        return sectors([(n % rows, n // rows) for n in items]) < sectors([divmod(n, self.lanes) for n in items])

    def _places(self, row: Index, lane: Index) -> list[tuple[int, Index]]:
        """What is loaded and stored for the first element of a lane: the bytes, and the position in memory."""
        at = self.schedule.kept_position(row, self.schedule.groups(reduced=False))
        at |= dict.fromkeys(self.schedule.groups(reduced=True), constant(0)) | {self.schedule.inner: lane}
        passes = self.schedule.passes
        last = replace(passes[-1], number=len(passes), reduces=(), outputs=self.dataflow.epilogue_outputs)
        places = [
            (size_of(a.instruction), a.position)
            for step in (*passes, last)
            for a in self.operand_pattern(step, at).accesses
        ]
        return [*places, *((size_of(s.instruction), s.position) for s in self.epilogue_stores(at))]

    def emit_unit(self, unit: Index, partial: Index) -> None:
        at = self.schedule.kept_position(unit, self.schedule.groups(reduced=False))
        self.evaluate_broadcasts(0, at)
        for step in self.schedule.passes:
            totals = self._accumulate_unit(step, at, partial)
            if self.partials is not None:
                self._store_partials(totals)
                return
            self.finish(step, totals, at)
        if self.dataflow.results:
            with self._by_one_item():
                self.store_results(at)
        if self.dataflow.epilogue_outputs:
            with self._live_items():
                self._each_element(at, constant(0), self.store_epilogue_element)

    def bind_results(self, at: Position) -> None:
        """(They are bound once for all elements.)"""

    def cached_place(self, cached: CachedOperand, at: Position) -> str:
        return f"{self._cache_arrays[cached.instruction]}[{c_of(at[self.schedule.inner] // self.lanes)}]"

    # Passes over the operand.

    def _accumulate_unit(self, step: ReductionPass, at: Position, partial: Index) -> list[Accumulators]:
        totals = [declare(self.body, r, 1) for r in step.reduces]

        def accumulate(own: Sequence[Accumulators]) -> None:
            self._each_element(at, partial, lambda position: self.accumulate_element(step, own, position, "0"))

        with self._live_items() if step.outputs else nullcontext():
            self.accumulate_segments(
                step,
                totals,
                lambda reduces: [declare(self.body, r, 1) for r in reduces],
                accumulate,
                lambda: nullcontext("0"),
            )
        if self.lanes > 1:
            self._combine_lanes(totals)
        return totals

    def _each_element(self, at: Position, partial: Index, emit: Callable[[Position], None]) -> None:
        """Loops over the elements of an item: `emit` writes the statements for one."""
        *outer, inner = self.schedule.groups(reduced=True)
        with ExitStack() as scopes:
            position = dict(at)
            for n in outer:
                bounds = self.partial_range(n, self.order.groups[n].size, partial)
                position[n] = scopes.enter_context(self.body.loop(n, bounds))
            lane = variable("lane", 0, self.lanes - 1)
            chunks, tail = divmod(self.order.groups[inner].size, self.lanes)
            if chunks:
                name, (low, high) = self.body.fresh("c"), self.partial_range(inner, chunks, partial)
                if chunks > 1:
                    self.block.line(
                        "#pragma unroll" if self._cache_arrays else f"#pragma unroll {self._unroll(chunks)}"
                    )
                with self.block.scope(f"for (int {name} = {low}; {name} < {high}; ++{name})"):
                    emit({**position, inner: variable(name, 0, chunks - 1) * self.lanes + lane})
            if tail:
                condition = f"lane < {tail}"
                if last := self.last_range(inner, partial):
                    condition += f" && {last}"
                with self.block.scope(f"if ({condition})"):
                    emit({**position, inner: variable("lane", 0, tail - 1) + chunks * self.lanes})

    def _unroll(self, count: int) -> int:
        """How many of `count` elements an item is to load at a time, so that few items keep memory busy, too."""
        read = sum(i.shape.element_type.bits // 8 for i in self.schedule.inputs if i.shape.size >= self.dataflow.size)
        wanted = BYTES_ON_THE_WAY * self.schedule.target.compute_units // max(1, read * self.items)
        most = min(MOST_UNROLLED, count // 8)
        return max(UNROLL, 1 << max(min(wanted, most), 1).bit_length() - 1)

    def _live_items(self) -> AbstractContextManager[None]:
        """The scope of statements for items that have a number."""
        return self.block.scope(f"if ({self._live})") if self._live else nullcontext()

    def _by_one_item(self) -> AbstractContextManager[None]:
        """The scope of statements for one item of each number."""
        conditions = ([self._live] if self._live else []) + (["lane == 0"] if self.lanes > 1 else [])
        return self.block.scope(f"if ({' && '.join(conditions)})") if conditions else nullcontext()

    def _store_partials(self, totals: Sequence[Accumulators]) -> None:
        assert self.partials is not None
        with self._by_one_item():
            for t in totals:
                for place, total in zip(self.partials[t.reduce], t.at("0"), strict=True):
                    self.block.line(f"{place}[number] = {total};")

    # The lanes of a row.

    def _combine_lanes(self, totals: Sequence[Accumulators]) -> None:
        """Combines the lanes of a row, and gives each the total: as many accumulators at a time as fit in local
        memory."""
        batch: list[Accumulators] = []
        for t in totals:
            if batch and self._lanes_bytes([*batch, t]) > MOST_LOCAL_BYTES:
                self._combine_batch(batch)
                batch = []
            batch.append(t)
        self._combine_batch(batch)

    def _lanes_bytes(self, totals: Sequence[Accumulators]) -> int:
        return sum(register_bytes(name) * self.group for t in totals for name in types(t.reduce))

    def _combine_batch(self, totals: Sequence[Accumulators]) -> None:
        block, memory = self.block, LocalMemory()
        if self.local_bytes:
            block.line(BARRIER)  # all have read the old values
        arrays = {
            t.reduce: [
                memory.declare(block, self.body.fresh("lanes"), scalar.register_type(n), register_bytes(n), self.group)
                for n in types(t.reduce)
            ]
            for t in totals
        }
        self.local_bytes = max(self.local_bytes, memory.bytes)

        def write() -> None:
            for t in totals:
                for array, total in zip(arrays[t.reduce], t.at("0"), strict=True):
                    block.line(f"{array}[item] = {total};")

        write()
        block.line(BARRIER)
        half = self.lanes // 2
        while half:
            place = f"item + {half * self.lane_distance}"
            with block.scope(f"if (lane < {half})"):
                for t in totals:
                    pairs = zip(types(t.reduce), arrays[t.reduce], strict=True)
                    others = [self.elements.assign(n, f"{array}[{place}]", block) for n, array in pairs]
                    combine_into(self.body, t.reduce, t.at("0"), others)
                write()
            block.line(BARRIER)
            half //= 2
        first = f"lane * {self.lane_distance}" if self.lane_distance > 1 else "lane"
        for t in totals:
            for array, total in zip(arrays[t.reduce], t.at("0"), strict=True):
                block.line(f"{total} = {array}[item - {first}];")
