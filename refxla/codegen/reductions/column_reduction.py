"""Column reductions: the results are contiguous in memory, the elements of a result are not.

A unit of work is a strip of columns, each with an accumulator. It visits the reduced indices in row-major order:

    for each reduced group
        for each column of the strip
            accumulate
    combine the partial results, where the reduced indices are split
    store the results; then go over the strip again for outputs as large as the operand
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, variable
from ...device.description import LINE
from ..index_printer import c_of
from ..loops.index_set_splitting import Range, Test
from .accumulators import Accumulators, declare, finished, initial_values
from .kernel_body import KernelBody
from .output_buffers import OutputBuffers
from .partial_reductions import add_partial, combine_partials, declare_partials, sequential_partials
from .schedule import UNSPECIFIED, CachedOperand, Position, ReductionPass, Vector
from .software_prefetch import prefetch
from .unit_emitter import UnitEmitter, clipped

BUFFERED_ROWS = 8  # computed before they are written: reading what was just stored is slow


@dataclass(frozen=True)
class _Strip:
    """The columns `first` ... `end` - 1, both C expressions, of `size` in all."""

    first: str
    end: str
    size: int

    @property
    def first_index(self) -> Index:
        return constant(0) if self.first == "0" else variable(self.first, 0, self.size - 1)

    @property
    def count(self) -> str:
        """The number of columns, as C."""
        return self.end if self.first == "0" else f"{self.end} - {self.first}"

    def offset(self, column: Index) -> str:
        """The number of a column in the strip, as C."""
        return c_of(column) if self.first == "0" else f"{c_of(column)} - {self.first}"


class ColumnReduction(UnitEmitter):
    """Writes the kernel of a column reduction."""

    def __init__(self, body: KernelBody) -> None:
        super().__init__(body)
        self._buffers = OutputBuffers(body)
        self._strip = _Strip("0", str(self.schedule.inner_size), self.schedule.inner_size)
        self._totals: list[Accumulators] = []  # of the passes so far
        self._initial: dict[Instruction, Sequence[str]] = {}  # initial values not yet combined with the totals

    def declare_arrays(self) -> None:
        self._buffers.declare()

    @property
    def _strips(self) -> int:
        return -(-self.schedule.inner_size // self.order.strip)

    def kept_at(self, unit: Index) -> Position:
        return self.schedule.kept_position(unit // self._strips, self.schedule.groups(reduced=False)[:-1])

    def emit_unit(self, unit: Index, partial: Index) -> None:
        at, strips = self.kept_at(unit), self._strips
        self._totals, self._initial = [], {}
        if strips > 1:
            self._declare_strip(unit % strips, strips)
        for step in self.schedule.passes:
            if self.schedule.sequential_partials:
                totals = self._accumulate_all_partials(step, at)
            else:
                totals = self._accumulate_unit(step, at, partial)
            self._finish(step, totals)
        if self.dataflow.results:
            with self._each_column() as column:
                position = {**at, self.schedule.inner: column}
                self.bind_results(position)
                self.store_results(position)
        if self.schedule.non_temporal:
            self._emit_buffered_epilogue(at)
        elif self.dataflow.epilogue_outputs:
            self._emit_epilogue(at)

    def bind_results(self, at: Position) -> None:
        offset = self._strip.offset(at[self.schedule.inner])
        for t in self._totals:
            values: Sequence[str] = t.at(offset)
            if t.reduce in self._initial:
                values = finished(self.body, t.reduce, self._initial[t.reduce], values)
            self.bind(t.reduce, at, values)

    def cached_place(self, cached: CachedOperand, at: Position) -> str:
        assert cached.output is not None  # arrays cache rows alone
        if cached.output not in self._buffers:
            return self.memory_place(cached.output, at)
        (rows,) = self.schedule.groups(reduced=True)
        return self._buffers.place(cached.output, at[rows], at[self.schedule.inner] - self._strip.first_index)

    # The strip of a unit.

    def _declare_strip(self, number: Index, strips: int) -> None:
        """Declares the bounds of the strip with that number."""
        size, strip = self.schedule.inner_size, self.order.strip
        self.block.line(f"int begin = {c_of(number * strip)};")
        end = f"begin + {strip}"
        if self.schedule.non_temporal:  # the last strip overlaps the previous one, so that no strip has fewer columns
            self.block.line(f"begin = begin < {size - strip} ? begin : {size - strip};")
        elif size % strip:
            end = f"{end} < {size} ? {end} : {size}"
        self.block.line(f"const int end = {end};")
        self._strip = _Strip("begin", "end", size)
        if self.schedule.non_temporal:
            # Whether this item has not written the previous strip of the same rows, and will not write the next one.
            cut = size % strip > 0
            overlaps = f" || {c_of(number)} == {strips - 1}" if cut else ""
            self.block.line(f"const int starts = unit == {self.body.first_unit} || {c_of(number)} == 0{overlaps};")
            self.block.line(
                f"const int ends = unit + 1 == {self.body.last_unit} || {c_of(number)} >= {strips - 1 - cut};"
            )

    def _each_column(self) -> AbstractContextManager[Index]:
        """A loop over the columns of the strip; gives the index of one."""
        return self.body.vector_loop(self._strip.first, self._strip.end, self._strip.size)

    @contextmanager
    def _each_row_and_column(self, low: int, high: int) -> Iterator[Index]:
        """The columns of the strip in two loops, where that saves index divisions: over rows low ... high of
        `column_row` columns each, and over the columns of one."""
        size, strip = self.schedule.column_row, self._strip
        row, begin, end = (self.body.fresh(name) for name in ("row", "from", "to"))
        first, more = f"{strip.first} / {size}", f"{row} * {size} < {strip.end}"
        if (low, high) != (0, strip.size // size - 1):
            first, more = f"({first} > {low} ? {first} : {low})", f"{more} && {row} <= {high}"
        with self.block.scope(f"for (int {row} = {first}; {more}; ++{row})"):
            left, right = f"{strip.first} - {row} * {size}", f"{strip.end} - {row} * {size}"
            self.block.line(
                f"const int {begin} = {left} > 0 ? {left} : 0, {end} = {right} < {size} ? {right} : {size};"
            )
            with self.body.vector_loop(begin, end, size) as column:
                yield variable(row, low, high) * size + column

    def _each_total(self) -> AbstractContextManager[Index]:
        """A loop over the columns of the strip; gives the number of one in the strip."""
        return self.body.vector_loop("0", self._strip.count, self.order.strip)

    @contextmanager
    def _each_padded_column(self, vector: Vector) -> Iterator[tuple[Index, Index, str]]:
        """A loop over all accumulators of the strip in whole vectors; gives the number of one, its column, and the C
        condition that the column exists ("" if it always does)."""
        s, strip = self.schedule, self._strip
        with self.body.padded_lanes(self.order.strip, vector) as lane:
            padded = s.accumulators > self.order.strip
            if strip.first == "0":
                yield lane, lane, f"{c_of(lane)} < {self.order.strip}" if padded else ""
                return
            name = self.body.fresh("column")
            self.block.line(f"const long {name} = {strip.first} + {c_of(lane)};")
            short = strip.size % self.order.strip and not s.non_temporal
            yield lane, variable(name, 0, strip.size - 1), f"{name} < {strip.end}" if short or padded else ""

    @contextmanager
    def _each_stored_column(self) -> Iterator[Index]:
        """A loop over the columns of the strip, in whole vectors where they are padded."""
        if self.schedule.vector_columns == 1:
            with self._each_column() as column:
                yield column
            return
        with ExitStack() as scopes:
            _, column, mask = scopes.enter_context(self._each_padded_column(UNSPECIFIED))
            if mask:
                scopes.enter_context(self.block.scope(f"if ({mask})"))
            yield column

    # Passes over a strip.

    def _accumulate_unit(self, step: ReductionPass, at: Position, partial: Index) -> list[Accumulators]:
        """A pass over the strip, or over this item's part of it, after which the last item continues alone."""
        split = self.schedule.partials > 1
        partials = declare_partials(self.body, step.reduces) if split else {}
        in_workspace = split and self._accumulates_in_workspace()
        totals = self._declare_filled(step.reduces, partials if in_workspace else {})
        self._accumulate_segments(step, at, totals, partial)
        if split:
            totals = combine_partials(self.body, totals, partials, self._each_total, in_workspace)
        return totals

    def _accumulates_in_workspace(self) -> bool:
        """Whether the accumulators of an item are its partial results in the workspace, which saves copying them: if
        they are not in registers, and no two items write to the same cache line."""
        has_whole_lines = self.schedule.vector_columns == 1 and self.order.strip % LINE == 0
        return has_whole_lines and self.schedule.target.capabilities.clang_builtins

    def _accumulate_all_partials(self, step: ReductionPass, at: Position) -> list[Accumulators]:
        """A pass over the strip that computes its partial results one after the other."""
        count = self.schedule.accumulators
        totals = self._declare_filled(step.reduces, {})
        with sequential_partials(self.body) as number:
            own = [declare(self.body, r, count) for r in step.reduces]
            self._accumulate_segments(step, at, own, variable(number, 0, self.order.partials - 1))
            for total, part in zip(totals, own, strict=True):
                add_partial(self.body, number, total, part, self._each_total)
        return totals

    def _declare_filled(
        self, reduces: Sequence[Instruction], partials: dict[Instruction, tuple[str, ...]]
    ) -> list[Accumulators]:
        """Declares the accumulators of reduces of a pass, as this item's `partials` where those are given, and
        fills them in one loop: clang takes milliseconds for each."""
        count, fills, totals = self.schedule.accumulators, [], []

        def fill(name: str, array: str, start: str) -> None:
            fills.append(f"{array}[l] = {start};")

        for r in reduces:
            arrays = [f"{p} + partial * {count}" for p in partials.get(r, ())]
            totals.append(declare(self.body, r, count, fill, arrays))
        self.block.line(f"for (int l = 0; l < {count}; ++l) {{ {' '.join(fills)} }}")
        return totals

    def _accumulate_segments(
        self, step: ReductionPass, at: Position, totals: Sequence[Accumulators], partial: Index
    ) -> None:
        """A pass over the strip, or a partial result, segment by segment."""
        self.accumulate_segments(
            step,
            totals,
            lambda reduces: self._declare_filled(reduces, {}),
            lambda own: self._accumulate(step, at, own, partial),
            self._each_total,
        )

    def _accumulate(self, step: ReductionPass, at: Position, totals: Sequence[Accumulators], partial: Index) -> None:
        """The loops of a pass over the strip."""
        s, inner, strip = self.schedule, self.schedule.inner, self._strip
        *outer, rows = s.groups(reduced=True)
        with ExitStack() as scopes:
            position = dict(at)
            for n in outer:
                bounds = self.partial_range(n, self.order.groups[n].size, partial)
                position[n] = scopes.enter_context(self.body.loop(n, bounds))

            def at_column(place: Position) -> Callable[[Index], Position]:
                return lambda column: {**place, inner: column}

            def emit_rows(row: Index, count: int) -> None:
                places = [{**position, rows: row + k} for k in range(count)]
                for place in places:  # values that are broadcast along the columns, once for a strip
                    self.evaluate_broadcasts(0, place)
                self._prefetch(step, [{**p, inner: self._strip.first_index} for p in places])
                span = (0, strip.size - 1)
                functions = self.fast_path_functions(step, at_column(places[0]), span)
                if functions and s.column_row == 1:
                    bounds = "int", strip.first, strip.end
                    for place in places:
                        with self.pieces(step, functions, bounds, span, at_column(place)) as piece:
                            with piece.elements() as column:
                                self.accumulate_element(step, totals, at_column(place)(column), strip.offset(column))
                    return
                if s.vector_columns > 1:
                    with self._each_padded_column(step.vector) as (lane, column, mask):
                        self.accumulate_element(step, totals, {**places[0], inner: column}, lane, mask)
                    return
                for columns in self._ranges(step, [at_column(place) for place in places]):
                    with columns as column:
                        for place in places:
                            self.accumulate_element(step, totals, {**place, inner: column}, strip.offset(column))

            size = self.order.groups[rows].size
            if 1 < size < self.schedule.joined_rows:
                emit_rows(constant(0), size)
            else:
                bounds = self.partial_range(rows, size, partial)
                ranges = self._row_ranges(step, position, rows)
                for low, high in ranges:
                    own = clipped(*bounds, (low, high)) if len(ranges) > 1 else bounds
                    with self.within((low, high), size):
                        self.unrolled_loop(own, high - low + 1, emit_rows, low)

    def _row_ranges(self, step: ReductionPass, position: Position, rows: int) -> list[Range]:
        """Ranges of the rows, each with elements of a single operand of a concatenate."""
        column = variable("c", 0, self.schedule.inner_size - 1)

        def tests(ranges: Sequence[Range]) -> Sequence[Test]:
            at = {**position, rows: variable("g0", *ranges[0]), self.schedule.inner: column}
            return self.operand_pattern(step, at).tests

        return self.cut((0, self.order.groups[rows].size - 1), tests)

    def _ranges(
        self, step: ReductionPass, positions: Sequence[Callable[[Index], Position]]
    ) -> list[AbstractContextManager[Index]]:
        """Loops over the columns of the strip for reading operands: one for each range in which the tests of pads and
        concatenates are decided. Unrolled rows may be neighbours along the columns: see rx_hidden_s32."""
        strip, size = self._strip, self.schedule.column_row
        neighbours = strip.first == "0" and 1 < len(positions) < self.schedule.joined_rows

        def tests(ranges: Sequence[Range]) -> Sequence[Test]:
            column = variable("g0", *ranges[0]) * size + variable("column", 0, size - 1)
            return [test for at in positions for test in self.operand_pattern(step, at(column)).tests]

        parts = self.cut((0, strip.size // size - 1), tests)
        if size > 1:
            return [self._each_row_and_column(*part) for part in parts]
        if len(parts) == 1 and not neighbours:
            return [self._each_column()]
        loops: list[AbstractContextManager[Index]] = []
        for low, high in parts:
            first, end = clipped(strip.first, strip.end, (low, high))
            if strip.first == "0" and len(positions) > 1:
                first = f"rx_hidden_s32({low})"
            loops.append(self.body.vector_loop(first, end, high + 1, low=low))
        return loops

    def _prefetch(self, step: ReductionPass, places: Sequence[Position]) -> None:
        """Prefetches for rows of the strip that are accumulated together; whole rows are contiguous and prefetched at
        once."""
        strip = self.order.strip
        if self.order.has_strips and (self.schedule.non_temporal or len(places) > 1):
            for place in places:
                prefetch(self.body, step, place, strip)
        elif self.schedule.non_temporal or len(places) > 1:
            prefetch(self.body, step, places[0], len(places) * strip)

    def _finish(self, step: ReductionPass, totals: Sequence[Accumulators]) -> None:
        """Combines totals with the initial values and rounds them to the results' types: in a loop, if the operand is
        read again, otherwise where the results are stored."""
        self._totals += totals
        self._initial |= {t.reduce: initial_values(self.body, t.reduce) for t in totals}
        if not self.dataflow.epilogue_outputs and step is self.schedule.passes[-1]:
            return
        with self._each_column() as column:
            for t in totals:
                places = t.at(self._strip.offset(column))
                values = finished(self.body, t.reduce, self._initial[t.reduce], places)
                for place, value in zip(places, values, strict=True):
                    if place != value:
                        self.block.line(f"{place} = {value};")
        self._initial = {}

    # The epilogue pass.

    def _emit_epilogue(self, at: Position) -> None:
        with ExitStack() as scopes:
            position = dict(at)
            for n in self.schedule.groups(reduced=True):
                position[n] = scopes.enter_context(self.body.loop(n))
            column = scopes.enter_context(self._each_stored_column())
            self.store_epilogue_element({**position, self.schedule.inner: column})

    def _emit_buffered_epilogue(self, at: Position) -> None:
        """A few rows at a time are computed in the buffers, then written."""
        (rows,), inner, fresh = self.schedule.groups(reduced=True), self.schedule.inner, self.body.fresh
        begin, end, name, size = fresh("b"), fresh("e"), fresh("r"), self.order.groups[rows].size
        row, first = variable(name, 0, size - 1), self._strip.first_index
        starts, ends = ("starts", "ends") if self.order.has_strips else (f"{name} == 0", f"{name} == {size - 1}")
        with self.block.scope(f"for (int {begin} = 0; {begin} < {size}; {begin} += {BUFFERED_ROWS})"):
            last = f"{begin} + {BUFFERED_ROWS}"
            self.block.line(f"const int {end} = {last} < {size} ? {last} : {size};")
            each_row = f"for (int {name} = {begin}; {name} < {end}; ++{name})"
            with self.block.scope(each_row), self._each_stored_column() as column:
                self._buffers.redirect(row, column - first)
                self.store_epilogue_element({**at, rows: row, inner: column})
            self._buffers.restore()
            with self.block.scope(each_row):
                for store in self.epilogue_stores({**at, rows: row, inner: first}):
                    self._buffers.write(store, row, starts, ends)
