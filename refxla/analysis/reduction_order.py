"""The order in which a reduction adds its terms: a function of shapes alone, so a sum has the same bits everywhere.

Dimensions of size 1 are dropped, and neighbouring dimensions of one kind are joined: what remains are groups,
alternately kept and reduced. If the innermost group is reduced (a *row reduction*), each result has `lanes`
accumulators, which share out its elements:

    lane l:  x[l], x[l + lanes], x[l + 2 lanes], ...  in order, the loops over the other reduced groups outside
    total:   lane l with lane l + lanes/2, then with l + lanes/4, ..., 1

(passes/ordered_reductions.py makes reducers commute, or replaces the reductions.)

If the innermost group is kept (a *column reduction*), each result has one accumulator, which adds the elements in
row-major order of their reduced indices. Where few results are computed from many elements, the largest reduced group
is split into ranges; each gives a partial result, and the partial results are combined in order.

A sum of floats loses digits as the square root of the length of its chain, in the worst case as the length. So an
accumulator of more than ONE_CHAIN elements (of each partial result) has segments: ranges of the outermost reduced group
that is long enough, so that memory is still read in order. Each segment is a sum from zero, and an accumulator adds the
sums of its segments in order, also from zero. Other reducers have no segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..device.description import Caches

LANES = 32
STRIP_COLUMNS = 1024  # columns that are accumulated together: enough to read memory at full speed
MAX_STRIP = 4096  # columns of a strip where that leaves MIN_UNITS units of work
MIN_UNITS = 32  # units of work that there should be for the cores
SPLIT_FROM = 1 << 17  # elements of a result, or of a strip of results, from which on it is split into partial results
MIN_PARTIAL = 1 << 14  # elements of a partial result, at least
MIN_PARTIAL_ROWS = 64  # rows of a partial result of columns, at least: the result itself is as long as one row
MAX_PARTIALS = 1024
ONE_CHAIN = 512  # elements of an accumulator up to which a sum is one chain
SEGMENT = 128  # elements of an accumulator in a segment, at least: two chains of that length lose few digits
# Elements of a panel of columns that a kernel reads more than once, for each byte of a core's own caches.
PANEL = 1 / 8
WIDE_PANEL = 512  # columns of a panel, if so many fit: shorter pieces of distant rows are read slowly
NARROW_PANEL = 5 / 4  # bytes of a panel of fewer columns, while the next one is prefetched, likewise
MIN_PANEL, PANEL_STEP = 64, 32  # columns of such a panel, at least, and their divisor: whole cache lines


@dataclass(frozen=True)
class DimensionGroup:
    """Neighbouring dimensions of the operand, joined; `size` elements."""

    dimensions: tuple[int, ...]
    size: int
    reduced: bool


@dataclass(frozen=True)
class ReductionOrder:
    """How the elements of a reduction are combined; see the module's docstring.

    `partials` is the number of partial results, and `split_group` the number of the group that is split into their
    ranges; `segments` and `segment_group` are those of the segments of each partial result. `strip` is the number of
    columns in a unit of work of a column reduction (1 for rows); it has no influence on the value.
    """

    groups: tuple[DimensionGroup, ...]
    lanes: int
    strip: int
    partials: int
    split_group: int
    segments: int = 1
    segment_group: int = -1

    @property
    def is_row(self) -> bool:
        """Whether the elements of a result are contiguous in memory (row reduction), and not the results (column
        reduction)."""
        return self.groups[-1].reduced

    @property
    def has_strips(self) -> bool:
        """Whether a unit of work has some of the columns, not all."""
        return not self.is_row and self.strip < self.groups[-1].size

    @property
    def units(self) -> int:
        """The number of rows, or strips of columns, which can be reduced independently."""
        sizes = [g.size for g in self.groups if not g.reduced]
        if self.is_row:
            return prod(sizes)
        return prod(sizes[:-1]) * -(-sizes[-1] // self.strip)

    @property
    def reduced_size(self) -> int:
        """The number of elements of one result."""
        return prod(g.size for g in self.groups if g.reduced)

    @property
    def key(self) -> tuple[object, ...]:
        """What determines the order of the elements of one result: orders of operands of other sizes along the
        dimensions that are kept are the same if their keys are."""
        sizes = tuple(g.size for g in self.groups if g.reduced)

        def number(group: int) -> int:  # of a reduced group among those that are
            return sum(g.reduced for g in self.groups[:group])

        split = number(self.split_group) if self.partials > 1 else -1
        segment = number(self.segment_group) if self.segments > 1 else -1
        return self.is_row, self.lanes, self.partials, split, self.segments, segment, sizes

    @property
    def reduces_one_group(self) -> bool:
        """Whether all elements of a result lie in one group."""
        return sum(g.reduced for g in self.groups) == 1


def reduction_order(dimensions: Sequence[int], reduced: Sequence[int]) -> ReductionOrder:
    """The order of a reduce of an operand with these dimensions over the dimensions `reduced`."""
    groups: list[DimensionGroup] = []
    for d, size in enumerate(dimensions):
        if size == 1:
            continue
        if groups and groups[-1].reduced == (d in reduced):
            groups[-1] = DimensionGroup((*groups[-1].dimensions, d), groups[-1].size * size, groups[-1].reduced)
        else:
            groups.append(DimensionGroup((d,), size, d in reduced))
    if not any(g.reduced for g in groups):
        groups.insert(len(groups) - 1 if groups else 0, DimensionGroup((), 1, True))
    is_row, inner = groups[-1].reduced, groups[-1].size
    strip = 1 if is_row else max(1, min(inner, STRIP_COLUMNS))
    lanes = min(LANES, 1 << (inner.bit_length() - 1)) if is_row and inner >= 8 else 1
    split = max((n for n, g in enumerate(groups) if g.reduced), key=lambda n: groups[n].size)
    whole = ReductionOrder(tuple(groups), lanes, strip, 1, split)
    behind = whole.reduced_size * strip
    if is_row:
        most = groups[split].size // (lanes if split == len(groups) - 1 else 1)
    else:
        most = min(groups[split].size, whole.reduced_size // MIN_PARTIAL_ROWS)
    partials = 1
    if behind >= SPLIT_FROM:
        partials = max(1, min(MAX_PARTIALS // max(whole.units, 1), behind // MIN_PARTIAL, most))
    if not is_row:
        strip = _widened(strip, inner, partials * prod(g.size for g in groups[:-1] if not g.reduced))
    segments, segment_group = _segments(groups, lanes, partials, split)
    return ReductionOrder(tuple(groups), lanes, strip, partials, split, segments, segment_group)


def _segments(groups: Sequence[DimensionGroup], lanes: int, partials: int, split: int) -> tuple[int, int]:
    """The number of segments, such that a segment has about as many elements of an accumulator, and their group."""
    chain = prod(g.size for g in groups if g.reduced) // (lanes * partials)
    if chain <= ONE_CHAIN:
        return 1, -1
    wanted, last = chain // max(SEGMENT, 1 << chain.bit_length() // 2), len(groups) - 1
    most = {
        n: g.size // (lanes if n == last else 1) // (partials if n == split else 1)
        for n, g in enumerate(groups)
        if g.reduced
    }
    group = next((n for n, size in most.items() if size >= wanted), max(most, key=lambda n: most[n]))
    return max(1, min(wanted, most[group])), group


def panel_columns(order: ReductionOrder, element_bytes: int, caches: Caches) -> int:
    """The columns of a strip that a kernel reads more than once, such that its inputs and outputs stay in a cache; 0 if
    no such strip fits."""
    return min(order.strip, _panel(order.reduced_size, order.groups[-1].size, element_bytes, caches))


def columns_fit(dimensions: Sequence[int], result_dimensions: Sequence[int], element_bytes: int, caches: Caches) -> int:
    """Whether a kernel may read the operand of a column reduction more than once: whether panels of its columns fit
    into a cache, and there are many panels or little work. `result_dimensions` are those that are not reduced.

    0: no. 1: yes, but in pieces so short that reading from memory again takes about as long. 2: yes.
    """
    inner = max((d for d, n in enumerate(dimensions) if n > 1), default=-1)
    if inner not in result_dimensions:
        return 0
    total, results = prod(dimensions), prod(dimensions[d] for d in result_dimensions)
    reduced = total // max(results, 1)
    columns = _panel(reduced, dimensions[inner], element_bytes, caches)
    if not columns or total > SPLIT_FROM and results < MIN_UNITS * columns:
        return 0
    return 2 if _fits_wide_panel(reduced, dimensions[inner], caches) else 1


def _panel(reduced: int, columns: int, element_bytes: int, caches: Caches) -> int:
    """The columns of a panel: many within PANEL, otherwise fewer within NARROW_PANEL; 0 if none fit."""
    if _fits_wide_panel(reduced, columns, caches):
        return min(columns, int(PANEL * caches.second) // max(reduced, 1))
    some = int(NARROW_PANEL * caches.second) // (reduced * element_bytes)
    some = min(some, WIDE_PANEL) // PANEL_STEP * PANEL_STEP
    return min(columns, some) if some >= MIN_PANEL else 0


def _fits_wide_panel(reduced: int, columns: int, caches: Caches) -> bool:
    """Whether many columns, or all, fit within PANEL."""
    return reduced * min(columns, WIDE_PANEL) <= PANEL * caches.second


def _widened(strip: int, columns: int, parts: int) -> int:
    """The strip, widened as long as there are MIN_UNITS units of work: long runs of memory are read faster."""
    wide = min(columns, 2 * strip)
    while strip < wide <= MAX_STRIP and parts * -(-columns // wide) >= MIN_UNITS:
        strip, wide = wide, min(columns, 2 * wide)
    return strip
