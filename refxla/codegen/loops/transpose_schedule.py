"""The schedule of a tiled transpose (tiled_transpose.py): the sizes of its blocks, panels and strips, and how their
elements are moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access, AccessPattern, Store
from ...analysis.index_expression import Index, variable
from ...device.description import LINE, Target
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from .non_temporal_stores import is_moved, size_of

REACH = 4  # elements between consecutive reads, from which on they run across memory
FAR = 16  # of them, from which on transposing them one by one in the caches pays
MAX_INPUTS = 4  # whose blocks are transposed
PANEL = 128  # columns of a panel whose results stay in the caches
PAGES = 2048  # columns of a panel otherwise, since each may be in a page of its own
LEAST_PIECE = 64  # rows of a strip with functions in pieces (fast_path_math.py), at least
RUN = 256  # bytes of a column of results that are written at a time
MOST_ROWS = 256  # of a strip then: what is read of them at a time stays in the first-level cache
NON_TEMPORAL_PART = 2  # results of at least this part of the last cache are written past it
NON_TEMPORAL_ITEMS = 2  # for each core then, if there are enough: few long columns are best
EVEN = 1.05  # times the shortest total time, which longer columns may cost
AT_ONCE = 16  # bytes of a row that are read at once
SAME_PLACES = 1024  # bytes: lines at a multiple of this distance compete for few places of a cache


class TransposeNest(Protocol):
    """What is needed of the nest: its groups' sizes, whether it calls functions of fast_path_math.py, and its body at
    indices of the groups."""

    sizes: list[int]
    has_fast_path: bool

    def emit_body(self, e: ElementalIrEmitter, block: Block, at: Sequence[Index]) -> None: ...

    def pattern(self, at: Sequence[Index]) -> AccessPattern: ...


def across(accesses: Sequence[Access], row: str, column: str) -> list[Access]:
    """The accesses that run across memory with the variable `row` and along it with `column`, each once."""
    by_element: dict[tuple[Instruction, tuple[Index, ...]], Access] = {}
    for a in accesses:
        step = a.position.factor(row)
        if a.conditional or step is None or abs(step) < REACH or a.position.factor(column) not in (1, -1):
            continue
        if len(by_element) < MAX_INPUTS:
            by_element[a.instruction, a.indices] = a
    return list(by_element.values())


@dataclass(frozen=True)
class TransposeSchedule:
    """The loops of a nest over blocks of `height` rows and `width` columns, which are transposed.

    Rows are counted by the innermost group of the nest, and columns by `group`; there are so many `rows` and `columns`
    for each of `outer` indices of the other groups. A unit of work is `span` rows of a panel of `panel` columns, and an
    item has `per_item` units. `inputs` are transposed, and `outputs` written. `in_registers`: blocks are transposed in
    vector registers. `non_temporal`: results are written past the caches, a column's whole lines at a time. `straight`:
    the nest only moves elements, and they are transposed directly into the result.
    """

    group: int
    inner: int
    inputs: tuple[Instruction, ...]
    outputs: tuple[Instruction, ...]
    rows: int
    columns: int
    outer: int
    height: int
    width: int
    panel: int
    span: int
    per_item: int
    in_registers: bool
    non_temporal: bool
    straight: bool

    @property
    def panels(self) -> int:
        return -(-self.columns // self.panel)

    @property
    def spans(self) -> int:
        return -(-self.rows // self.span)

    @property
    def units(self) -> int:
        return self.outer * self.panels * self.spans

    @property
    def items(self) -> int:
        return -(-self.units // self.per_item)

    @staticmethod
    def choose(nest: TransposeNest, group: int, chunk: int, target: Target) -> TransposeSchedule | None:
        """The schedule of a nest whose reads run along `group` and across the innermost one, with items of about
        `chunk` elements; None if transposing blocks does not pay."""
        inner, size = len(nest.sizes) - 1, prod(nest.sizes)
        rows, columns = nest.sizes[inner], nest.sizes[group]
        row, column = f"g{inner}", f"g{group}"
        pattern = nest.pattern([variable(f"g{n}", 0, count - 1) for n, count in enumerate(nest.sizes)])
        inputs = across(pattern.accesses, row, column)
        reads = [size_of(a.instruction) for a in inputs]
        writes = [size_of(s.instruction) for s in pattern.stores]
        along = all(s.position.factor(row) == 1 for s in pattern.stores)
        in_registers = target.capabilities.vector_shuffles and all(n <= 8 and AT_ONCE // n <= columns for n in reads)
        large = sum(writes) * size >= target.caches.last // NON_TEMPORAL_PART
        non_temporal = target.capabilities.non_temporal_stores and along and large
        far = any(abs(a.position.stride(row)) >= FAR for a in inputs)
        if not (far or non_temporal or in_registers):
            return None
        height, width = LINE // min(*reads, *writes), max(4, LINE // max(reads))
        if nest.has_fast_path:
            height = max(height, LEAST_PIECE)
        most_columns, chunk = PANEL, max(chunk, height * width)
        if non_temporal:
            height = max(min(RUN // max(writes), MOST_ROWS), LINE // min(writes), 2 * AT_ONCE // min(reads))
            most_columns = PAGES // len(writes)
            chunk = max(chunk, size // (NON_TEMPORAL_ITEMS * target.compute_units))
        parts = -(-columns // max(most_columns, width))
        panel = -(-columns // (parts * width)) * width
        panels, outer = -(-columns // panel), size // (rows * columns)
        parts = max(1, rows * min(panel, columns) // chunk)
        span = -(-rows // (parts * height)) * height
        if non_temporal:
            span = _even_span(rows, span, height, outer * panels, target.compute_units)
        units = outer * panels * -(-rows // span)
        is_single = in_registers and along and len(inputs) == len(pattern.stores) == 1
        moves = is_single and is_moved(inputs[0], pattern.stores[0])
        last_panel = columns - (panels - 1) * panel
        return TransposeSchedule(
            group=group,
            inner=inner,
            inputs=tuple(a.instruction for a in inputs),
            outputs=tuple(s.instruction for s in pattern.stores),
            rows=rows,
            columns=columns,
            outer=outer,
            height=height,
            width=width,
            panel=panel,
            span=span,
            per_item=1 if non_temporal else -(-units // max(1, size // chunk)),
            in_registers=in_registers,
            non_temporal=non_temporal,
            straight=moves and (non_temporal or _is_apart(pattern.stores[0], column, last_panel)),
        )


def _even_span(rows: int, most: int, height: int, panels: int, cores: int) -> int:
    """The most rows of an item, up to a number, with which the last core finishes about as early as with any number;
    strips have `height` rows."""
    spans = range(most, 0, -height)
    makespan = {span: -(-panels * -(-rows // span) // cores) * span for span in spans}
    longest = EVEN * min(makespan.values())
    return next(span for span in spans if makespan[span] <= longest)


def _is_apart(store: Store, column: str, last_panel: int) -> bool:
    """Whether elements can be moved directly into a result: no columns before those of the last panel would be moved
    again, and the lines of a block do not evict each other from their few places in a cache."""
    size = size_of(store.instruction)
    return last_panel >= AT_ONCE // size and store.position.stride(column) * size % SAME_PLACES != 0
