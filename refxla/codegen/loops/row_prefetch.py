"""Software prefetch of rows that a loop will read from addresses that processors do not predict.

Hardware prefetchers detect that memory is read sequentially. They do not predict where a gather, a transpose or a
reversed row reads next. A loop over rows knows, and prefetches it some rows ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...analysis.access_patterns import Access
from ...analysis.index_expression import Index, constant, delinearize, variable
from ...device.description import LINE, Target
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from . import non_temporal_stores
from .index_space import IndexSpace, Indices
from .strip_mining import StripMinedLoop

ROWS_AHEAD = 12  # rows between the one that is computed and the one that is prefetched
WIDEST_SPAN = 4  # elements of a row for each that a gather reads, up to which the whole row is prefetched
MOST_BYTES = 1024  # of what a gather reads of a row: after them the hardware prefetcher has caught up


class RowPrefetch:
    """The prefetches in the loops over an index space, whose rows are its innermost groups."""

    def __init__(self, space: IndexSpace, target: Target) -> None:
        self.space, self.target = space, target
        self.outer, self.run = space.sizes[:-1], space.sizes[-1]

    def emit_gathered(self, e: ElementalIrEmitter, block: Block, row: Index, rows: StripMinedLoop) -> None:
        """Prefetches what a later row reads at addresses that depend on memory, as in a gather."""
        space = self.space
        inner = f"g{len(self.outer)}"
        reads = [
            a for a in space.accesses
            if a.position.variables & space.starts.keys() and a.position.factor(inner) == 1
            and a.instruction.shape.bytes >= self.target.caches.second
        ]  # fmt: skip
        gathers = any(i.opcode == "gather" for i in space.fusion.instructions)
        if not reads or not gathers or not self.target.capabilities.prefetch or space.iterations > 1 or rows.single:
            return
        most = max(a.instruction.shape.element_type.bits for a in reads) // 8 * self.run
        with block.scope(), e.prefetching(min(most, MOST_BYTES) // LINE + 1):
            later = self._declare_later(e, block, row)
            space.emit_body(e, block, (*delinearize(later, self.outer), constant(0)))

    def emit_distant(self, e: ElementalIrEmitter, block: Block, row: Index, rows: StripMinedLoop) -> None:
        """Prefetches what a later row reads, where it is not contiguous with the row before, as in a transpose."""

        def accesses(at: Index) -> Sequence[Access]:
            return self.space.pattern((*delinearize(at, self.outer), constant(0))).accesses

        here = accesses(row)
        if rows.single or row.name is None:
            return
        distant = [
            n for n, a in enumerate(here)
            if not a.conditional and a.instruction.shape.bytes >= self.target.caches.second
            and a.position.variables == row.variables and a.position.factor(row.name) is None
        ]  # fmt: skip
        if distant:
            reads = accesses(self._declare_later(e, block, row))
            for a in (reads[n] for n in distant):
                lines = self.run * non_temporal_stores.size_of(a.instruction) // LINE + 1
                block.line(f"rx_prefetch((ulong)({e.input(a.instruction)} + ({c_of(a.position)})), {LINE}, {lines});")

    def emit_next(self, e: ElementalIrEmitter, block: Block, at: Indices, piece: int) -> None:
        """Prefetches the next row where a row's elements are read in any order, as in a gather of columns, or reversed:
        with each piece a proportional part of it, so that memory is read sequentially."""
        row, inner = at[-2].name if len(at) > 1 else None, at[-1].name
        if row is None or inner is None:
            return
        pattern, visited = self.space.pattern(at), set()
        for a in pattern.accesses:
            step = a.position.factor(row)
            names = {inner} if a.position.factor(inner) == -1 else pattern.starts
            anywhere = Index(tuple((x, c) for x, c in a.position.terms if x.name in names), 0)
            span, others = anywhere.high - anywhere.low + 1, a.position - anywhere
            if not step or not anywhere.terms or inner in others.variables or a.instruction in visited:
                continue
            if span <= min(abs(step), WIDEST_SPAN * self.run):
                visited.add(a.instruction)
                size = non_temporal_stores.size_of(a.instruction)
                others = e.adopt_index(others, pattern, block)
                begin = f"{c_of(others + anywhere.low + step)} + (long){inner} * {span} / {self.run}"
                lines = -(-piece * span * size // self.run // LINE)
                place = f"{e.input(a.instruction)} + ({begin})"
                block.line(f"rx_prefetch((ulong)({place}), {LINE}, {lines});")

    def _declare_later(self, e: ElementalIrEmitter, block: Block, row: Index) -> Index:
        """Declares the row that is prefetched with this one, even if it belongs to the next item."""
        later, count = e.names.fresh("n"), prod(self.outer)
        here = c_of(row)
        block.line(f"const int {later} = {here} + {ROWS_AHEAD} < {count} ? {here} + {ROWS_AHEAD} : {here};")
        return variable(later, 0, max(2, count) - 1)
