"""What one work item of an elementwise kernel computes of a loop nest (loop_nest.py): a part of a row, or some rows.

A nest has one schedule, of these or of tiled_transpose.py and interleaved_row_copy.py: `items` is the number of items,
and `emit` writes the statements of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Protocol

from ...analysis.access_patterns import AccessPattern, FunctionCall, Store
from ...analysis.index_expression import Index, constant, delinearize, variable
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from . import fast_path_math, non_temporal_stores
from .index_set_splitting import Cut
from .row_prefetch import RowPrefetch
from .strip_mining import StripMinedLoop

SHORT_ROW = 256  # elements of a row, up to which its functions are worth vectors of those of several rows


class ItemSchedule(Protocol):
    """See the module."""

    items: int

    def emit(self, e: ElementalIrEmitter, block: Block, number: Index) -> None:
        """Adds the statements of the item of this number."""


class RowNest(Protocol):
    """What schedules need of the nest. Its innermost group of dimensions is a row."""

    sizes: list[int]
    chunk: int
    cut: Cut | None
    is_unrolled: bool
    is_stacked: bool
    has_fast_path: bool
    prefetch: RowPrefetch

    def pattern(self, at: Sequence[Index]) -> AccessPattern: ...

    def emit_body(self, e: ElementalIrEmitter, block: Block, at: Sequence[Index]) -> None: ...

    def emit_moved(self, e: ElementalIrEmitter, block: Block, at: Sequence[Index]) -> tuple[str, str]: ...

    def emit_row(self, e: ElementalIrEmitter, block: Block, row: Index, spelled_out: bool = False) -> None: ...

    def emit_strip(
        self, e: ElementalIrEmitter, block: Block, outer: Sequence[Index], strip: StripMinedLoop, cut: Cut | None
    ) -> None: ...


class PartOfRow:
    """An item computes a part of a row."""

    def __init__(self, nest: RowNest) -> None:
        self.nest = nest
        self.parts = -(-nest.sizes[-1] // nest.chunk)
        self.items = prod(nest.sizes[:-1]) * self.parts

    def emit(self, e: ElementalIrEmitter, block: Block, number: Index) -> None:
        """Adds the statements of an item."""
        sizes = self.nest.sizes
        outer = delinearize(number // self.parts, sizes[:-1])
        strip = StripMinedLoop(e, block, number % self.parts, self.nest.chunk, sizes[-1])
        self.nest.emit_strip(e, block, outer, strip, self.nest.cut)


class WholeRows:
    """An item computes one or several rows."""

    def __init__(self, nest: RowNest) -> None:
        self.nest, self.count = nest, prod(nest.sizes[:-1])
        self.per_item = max(1, nest.chunk // nest.sizes[-1])
        self.items = -(-self.count // self.per_item)

    def emit(self, e: ElementalIrEmitter, block: Block, number: Index) -> None:
        """Adds the statements of an item."""
        self.emit_loop(e, block, StripMinedLoop(e, block, number, self.per_item, self.count))

    def emit_loop(self, e: ElementalIrEmitter, block: Block, rows: StripMinedLoop) -> None:
        """Adds the loop over rows. Where they are short, it runs in pieces if functions are expensive for large
        operands: those of whole rows or, in rows that are unrolled, those of single elements, if there are others."""
        outer, run = self.nest.sizes[:-1], self.nest.sizes[-1]
        of_any = [variable("?", 0, run - 1)]

        def calls(row: Index, adopted: bool = True, inner: Sequence[Index] = of_any) -> list[FunctionCall]:
            patterns = [self.nest.pattern((*delinearize(row, outer), n)) for n in inner]
            of_rows = [
                (c, pattern)
                for pattern in patterns
                for c in pattern.calls
                if not any("?" in x.variables for x in c.indices)
            ]
            parts = fast_path_math.pieces([c for c, _ in of_rows], row)
            if not adopted:
                return parts
            origin = {id(c): pattern for c, pattern in of_rows}
            return [e.adopt(call, origin[id(call)], block) for call in parts]

        def index(name: str) -> Index:
            return variable(name, 0, rows.limit - 1)

        has_pieces = not self.nest.is_stacked or self.count >= fast_path_math.FROM
        in_pieces = self.nest.has_fast_path and self.nest.sizes[-1] <= SHORT_ROW and has_pieces
        functions = [c.instruction for c in calls(index("i"), False)] if in_pieces else []
        inner = of_any
        if in_pieces and self.nest.is_unrolled:
            of_each = [constant(n) for n in range(run)]
            single = [c.instruction for c in calls(index("i"), False, of_each)]
            if len(single) > len(functions):
                functions, inner = single, of_each
        if functions:
            at = partial(calls, inner=inner)
            with (
                fast_path_math.pieces_of(e, block, rows.bounds(), index, functions, at) as piece,
                piece.elements() as row,
            ):
                self.nest.emit_row(e, block, row, spelled_out=inner is not of_any)
        else:
            with rows.loop() as row:
                self.nest.prefetch.emit_gathered(e, block, row, rows)
                self.nest.emit_row(e, block, row)


class ContiguousRows(WholeRows):
    """An item writes one or several rows that are contiguous in memory, past the caches."""

    def stores(self, e: ElementalIrEmitter, block: Block, rows: StripMinedLoop) -> list[Store]:
        """The stores of the first element."""
        first = constant(0) if rows.whole else variable(rows.first, 0, self.count - 1)
        pattern = self.nest.pattern((*delinearize(first, self.nest.sizes[:-1]), constant(0)))
        return [e.adopt(s, pattern, block) for s in pattern.stores]


class AppendedRows(ContiguousRows):
    """Rows that are only moved are appended one by one."""

    def emit_loop(self, e: ElementalIrEmitter, block: Block, rows: StripMinedLoop) -> None:
        """Adds the loop over rows."""
        outer, run = self.nest.sizes[:-1], self.nest.sizes[-1]
        stores = self.stores(e, block, rows)
        with non_temporal_stores.appended(e, block, stores[0], run) as append, rows.loop() as row:
            self.nest.prefetch.emit_gathered(e, block, row, rows)
            self.nest.prefetch.emit_distant(e, block, row, rows)
            _, source = self.nest.emit_moved(e, block, (*delinearize(row, outer), constant(0)))
            append(source, f"{c_of(row)} == {rows.first}")


class JoinedRows(ContiguousRows):
    """Rows are joined into longer runs first."""

    def emit_loop(self, e: ElementalIrEmitter, block: Block, rows: StripMinedLoop) -> None:
        """Adds the loop over rows."""
        outer, run = self.nest.sizes[:-1], self.nest.sizes[-1]
        stores = self.stores(e, block, rows)
        with (
            non_temporal_stores.joined(e, block, stores, run, self.nest.is_unrolled) as elements_of,
            rows.loop() as row,
        ):
            self.nest.prefetch.emit_gathered(e, block, row, rows)
            self.nest.prefetch.emit_distant(e, block, row, rows)
            with elements_of() as name:
                self.nest.emit_body(e, block, (*delinearize(row, outer), variable(name, 0, run - 1)))
