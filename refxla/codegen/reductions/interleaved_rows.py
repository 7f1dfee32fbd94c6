"""Row reductions whose rows consist of several pieces, with the pieces of neighbouring rows adjacent in memory.

A unit of work is a few neighbouring rows. For each position in the outer reduced groups, it accumulates one piece of
every row, so that memory is read in order; meanwhile the accumulators of the other rows are kept in an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ...analysis.index_expression import Index, constant, variable
from ..index_printer import c_of
from .accumulators import Accumulators, declare
from .row_reduction import RowReduction
from .schedule import Position, ReductionPass


class InterleavedRowReduction(RowReduction):
    """Writes the kernel of a row reduction that interleaves several rows."""

    @property
    def _units_of_rows(self) -> int:
        return -(-self.order.groups[-2].size // self.schedule.interleaved_rows)

    def kept_at(self, unit: Index) -> Position:
        groups = self.schedule.groups(reduced=False)[:-1]
        return self.schedule.kept_position(unit // self._units_of_rows, groups)

    def emit_unit(self, unit: Index, partial: Index) -> None:
        count = self.schedule.interleaved_rows
        (step,), rows = self.schedule.passes, self.order.groups[-2].size
        units, outside = self._units_of_rows, self.kept_at(unit)
        first, limit = self.body.fresh("first"), str(count)
        self.block.line(f"const int {first} = {c_of((unit % units) * count)};")
        if rows % count:
            limit = self.body.fresh("count")
            self.block.line(f"const int {limit} = {rows} - {first} < {count} ? {rows} - {first} : {count};")
        accumulators = count * self.order.lanes
        saved = [declare(self.body, r, accumulators) for r in step.reduces]

        self.accumulate_segments(
            step,
            saved,
            lambda reduces: [declare(self.body, r, accumulators) for r in reduces],
            lambda own: self._accumulate_rows(step, outside, own, (first, limit)),
            lambda: self.body.lanes(accumulators, step.vector),
        )

        with self._each_row(first, limit) as (k, row):
            own = self._restored(step, saved, k)
            at = {**outside, self.schedule.inner - 1: row}
            self.evaluate_broadcasts(0, at)
            self.combine_all_lanes(step, own)
            self.finish(step, own, at)
            self.store_results(at)

    def _accumulate_rows(
        self,
        step: ReductionPass,
        outside: Position,
        saved: Sequence[Accumulators],
        rows: tuple[str, str],
    ) -> None:
        """A pass over all rows of the unit, or over one segment of each."""
        s, (first, limit) = self.schedule, rows
        with ExitStack() as scopes:
            piece = dict(outside)
            for n in s.groups(reduced=True)[:-1]:
                bounds = self.partial_range(n, self.order.groups[n].size, constant(0))
                piece[n] = scopes.enter_context(self.body.loop(n, bounds))
            with self._each_row(first, limit) as (k, row):
                own = self._restored(step, saved, k)
                at = {**piece, s.inner - 1: row}
                self.evaluate_broadcasts(0, at)
                self.accumulate_contiguous(step, at, own, constant(0))
                self._copy(step, own, saved, k, save=True)

    @contextmanager
    def _each_row(self, first: str, limit: str) -> Iterator[tuple[str, Index]]:
        """A loop over the rows of the unit; gives the number of a row in the unit, as C, and its index in its group."""
        k, row = self.body.fresh("k"), self.body.fresh("row")
        with self.block.scope(f"for (int {k} = 0; {k} < {limit}; ++{k})"):
            self.block.line(f"const int {row} = {first} + {k};")
            yield k, variable(row, 0, self.order.groups[-2].size - 1)

    def _restored(self, step: ReductionPass, saved: Sequence[Accumulators], k: str) -> list[Accumulators]:
        """The accumulators of a row, with their saved values."""
        own = [self.declare_lanes(r) for r in step.reduces]
        self._copy(step, own, saved, k, save=False)
        return own

    def _copy(
        self, step: ReductionPass, own: Sequence[Accumulators], saved: Sequence[Accumulators], k: str, *, save: bool
    ) -> None:
        """Copies the accumulators of a row to the array for all rows, or from it."""
        lanes = self.order.lanes
        for accumulators, array in zip(own, saved, strict=True):
            for n in range(len(accumulators.names)):
                with self.body.lanes(lanes, step.vector) as lane:
                    here, there = accumulators.at(lane)[n], array.at(f"{k} * {lanes} + {c_of(lane)}")[n]
                    self.block.line(f"{there} = {here};" if save else f"{here} = {there};")
