"""Row reductions: the elements of a result are contiguous in memory.

A unit of work is a row. Its lanes are accumulated together, and combined at the end of the row:

    for each reduced group outside of the innermost one
        for each chunk of as many elements as there are lanes
            for each lane
                accumulate
    combine the lanes; then the partial results, where the row is split
    store the results; then go over the row again for outputs as large as the operand
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, variable
from .. import scalar
from ..element_builder import type_name
from ..index_printer import c_of
from ..loops import non_temporal_stores
from ..loops.index_set_splitting import Range, Test
from .accumulators import Accumulators, declare
from .horizontal_reduction import combine_lanes, fill_lanes
from .kernel_body import KernelBody
from .partial_reductions import add_partial, combine_partials, declare_partials, sequential_partials
from .schedule import CachedOperand, Position, ReductionPass
from .software_prefetch import prefetch
from .unit_emitter import UnitEmitter, clipped

LEAST_TAIL = 8  # elements after the last whole chunk, from which on their functions are computed in pieces, too


class RowReduction(UnitEmitter):
    """Writes the kernel of a row reduction."""

    def __init__(self, body: KernelBody) -> None:
        super().__init__(body)
        self._cache_arrays: dict[Instruction, str] = {}

    def declare_arrays(self) -> None:
        for c in self.schedule.cached:
            if c.output is None:
                name = self._cache_arrays[c.instruction] = self.body.fresh("row")
                c_type = scalar.register_type(type_name(c.instruction))
                self.block.line(f"{c_type} {name}[{self.schedule.inner_size}];")

    def kept_at(self, unit: Index) -> Position:
        return self.schedule.kept_position(unit, self.schedule.groups(reduced=False))

    def emit_unit(self, unit: Index, partial: Index) -> None:
        at = self.kept_at(unit)
        self.evaluate_broadcasts(0, at)
        for step in self.schedule.passes:
            if self.schedule.sequential_partials:
                totals = self._accumulate_all_partials(step, at)
            else:
                totals = self._accumulate_unit(step, at, partial)
            self.finish(step, totals, at)
        self.store_results(at)
        if self.dataflow.epilogue_outputs:
            self._emit_epilogue(at)

    def bind_results(self, at: Position) -> None:
        """Nothing: the results are bound once for the whole row."""

    def cached_place(self, cached: CachedOperand, at: Position) -> str:
        if cached.output is None:
            return f"{self._cache_arrays[cached.instruction]}[{c_of(at[self.schedule.inner])}]"
        return self.memory_place(cached.output, at)

    # Passes over a row.

    def _accumulate_unit(self, step: ReductionPass, at: Position, partial: Index) -> list[Accumulators]:
        """A pass over the row, or over this item's part of it, after which the last item continues alone."""
        split = self.schedule.partials > 1
        partials = declare_partials(self.body, step.reduces) if split else {}
        totals = [self.declare_lanes(r) for r in step.reduces]
        self._accumulate_segments(step, at, totals, partial)
        self.combine_all_lanes(step, totals)
        if split:
            totals = combine_partials(self.body, totals, partials, _only_lane, in_workspace=False)
        return totals

    def _accumulate_all_partials(self, step: ReductionPass, at: Position) -> list[Accumulators]:
        """A pass over the row that computes its partial results one after the other."""
        totals = [self.declare_lanes(r) for r in step.reduces]
        with sequential_partials(self.body) as number:
            own = [self.declare_lanes(r) for r in step.reduces]
            self._accumulate_segments(step, at, own, variable(number, 0, self.order.partials - 1))
            for total, part in zip(totals, own, strict=True):
                combine_lanes(self.body, part, step.vector)
                add_partial(self.body, number, total, part, _only_lane)
        return totals

    def declare_lanes(self, reduce: Instruction) -> Accumulators:
        """Declares the accumulators of a row."""

        def fill(name: str, array: str, start: str) -> None:
            if not self.schedule.unfilled:
                fill_lanes(self.body, name, array, start)

        return declare(self.body, reduce, self.order.lanes, fill)

    def combine_all_lanes(self, step: ReductionPass, totals: Sequence[Accumulators]) -> None:
        """Combines the totals of all lanes into the first ones."""
        for t in totals:
            combine_lanes(self.body, t, step.vector)

    def _accumulate_segments(
        self, step: ReductionPass, at: Position, totals: Sequence[Accumulators], partial: Index
    ) -> None:
        """A pass over the row, or a partial result, segment by segment."""
        self.accumulate_segments(
            step,
            totals,
            lambda reduces: [self.declare_lanes(r) for r in reduces],
            lambda own: self._accumulate(step, at, own, partial),
            lambda: self.body.lanes(self.order.lanes, step.vector),
        )

    def _accumulate(self, step: ReductionPass, at: Position, totals: Sequence[Accumulators], partial: Index) -> None:
        """The loops of a pass over the row."""
        with ExitStack() as scopes:
            position = dict(at)
            for n in self.schedule.groups(reduced=True)[:-1]:
                bounds = self.partial_range(n, self.order.groups[n].size, partial)
                position[n] = scopes.enter_context(self.body.loop(n, bounds))
            self.accumulate_contiguous(step, position, totals, partial)

    def accumulate_contiguous(
        self, step: ReductionPass, at: Position, totals: Sequence[Accumulators], partial: Index
    ) -> None:
        """A contiguous piece of the row, in chunks of as many elements as there are lanes, and the remainder."""
        s, inner, lanes = self.schedule, self.schedule.inner, self.order.lanes
        if s.rows_unrolled:
            for k in range(s.inner_size):
                position = {**at, inner: constant(k)}
                prefetch(self.body, step, position, 1)
                with self.body.lanes(1) as lane:
                    is_first = s.unfilled and k < lanes
                    self.accumulate_element(step, totals, position, lane + k % lanes, is_first=is_first)
            return
        chunks, tail = divmod(s.inner_size, lanes)

        def emit_chunks(chunk: Index, count: int) -> None:
            prefetch(self.body, step, {**at, inner: chunk * lanes}, count * lanes)

            def position(k: int) -> Callable[[Index], Position]:
                return lambda lane: {**at, inner: (chunk + k) * lanes + lane}

            with self.body.lanes(lanes, step.vector) as lane:
                for k in range(count):
                    is_first = s.unfilled and k == 0 and count == min(s.unroll, chunks)
                    self.accumulate_element(step, totals, position(k)(lane), lane, is_first=is_first)

        def element(k: Index) -> Position:
            return {**at, inner: k}

        ranges = [(0, chunks - 1)] if self.order.partials > 1 else self._chunk_ranges(step, at, chunks)
        for first, last in ranges:
            low, end = self.partial_range(inner, chunks, partial)
            if len(ranges) > 1:
                low, end = clipped(low, end, (first, last))
            span = (first * lanes, (last + 1) * lanes - 1)
            if functions := self.fast_path_functions(step, element, span):
                bounds = "int", f"{lanes} * ({low})", f"{lanes} * ({end})"
                self._accumulate_pieces(step, totals, functions, bounds, span, element)
            else:
                self.unrolled_loop((low, end), last - first + 1, emit_chunks, first)
        if not tail:
            return
        with ExitStack() as scopes:
            if condition := self.last_range(inner, partial):
                scopes.enter_context(self.block.scope(f"if ({condition})"))
            span = (chunks * lanes, s.inner_size - 1)
            if functions := self.fast_path_functions(step, element, span, LEAST_TAIL):
                bounds = "int", str(span[0]), str(s.inner_size)
                self._accumulate_pieces(step, totals, functions, bounds, span, element)
                return
            masked = tail > 1 and step.masked_tail
            loop = self.body.padded_lanes(tail, step.vector) if masked else self.body.lanes(tail)
            lane = scopes.enter_context(loop)
            mask = f"{c_of(lane)} < {tail}" if masked else ""
            self.accumulate_element(step, totals, {**at, inner: lane + chunks * lanes}, lane, mask)

    def _accumulate_pieces(
        self,
        step: ReductionPass,
        totals: Sequence[Accumulators],
        functions: Sequence[Instruction],
        bounds: tuple[str, str, str],
        span: Range,
        position: Callable[[Index], Position],
    ) -> None:
        """Chunks of the row, or the remainder, that need these functions: see `pieces`."""
        lanes = self.order.lanes
        count = min(lanes, span[1] - span[0] + 1)
        # Of several chunks, and of the remainder after them, the lanes have totals already.
        is_first = self.schedule.unfilled and span[0] == 0 and span[1] < lanes
        with self.pieces(step, functions, bounds, span, position) as piece:
            chunk = self.body.fresh("c")
            with (
                self.block.scope(f"for (int {chunk} = {piece.start}; {chunk} < {piece.end}; {chunk} += {lanes})"),
                self.body.lanes(count, step.vector) as lane,
            ):
                k = variable(chunk, span[0], span[1] - count + 1) + lane
                piece.bind(k)
                self.accumulate_element(step, totals, position(k), c_of(lane), is_first=is_first)

    def _chunk_ranges(self, step: ReductionPass, at: Position, chunks: int) -> list[Range]:
        """The bounds of ranges of chunks in which the tests of pads and concatenates are decided, so that clang can
        vectorize the lanes; chunks in which they are not are ranges, too."""
        s = self.schedule
        lane = variable("lane", 0, self.order.lanes - 1)

        def tests(ranges: Sequence[Range]) -> Sequence[Test]:
            chunk = variable("g0", *ranges[0])  # the name that `cut` asks for
            return self.operand_pattern(step, {**at, s.inner: chunk * self.order.lanes + lane}).tests

        return self.cut((0, chunks - 1), tests) if chunks > 1 else [(0, chunks - 1)]

    def _emit_epilogue(self, at: Position) -> None:
        inner = self.schedule.inner
        if not self.schedule.non_temporal:
            with ExitStack() as scopes:
                position, groups = dict(at), self.schedule.groups(reduced=True)
                for n in groups[:-1]:
                    position[n] = scopes.enter_context(self.body.loop(n))
                if self.schedule.rows_unrolled:
                    for k in range(self.schedule.inner_size):  # so that cached values are not an array
                        with self.block.scope():
                            self.store_epilogue_element({**position, inner: constant(k)})
                    return
                position[inner] = scopes.enter_context(self.body.loop(inner))
                self.store_epilogue_element(position)
            return

        def at_column(name: str) -> Position:
            return {**at, inner: variable(name, 0, self.schedule.inner_size - 1)}

        bounds = "int", "0", str(self.schedule.inner_size)
        pieces = non_temporal_stores.pieces(
            self.elements,
            self.block,
            bounds,
            self.dataflow.epilogue_outputs,
            lambda name: self.epilogue_stores(at_column(name)),
        )
        with pieces as name:
            self.store_epilogue_element(at_column(name))


def _only_lane() -> nullcontext[Index]:
    """The scope of the accumulators that hold a row's totals: the first lane."""
    return nullcontext(constant(0))
