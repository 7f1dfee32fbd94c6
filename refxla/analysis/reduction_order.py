"""The shape of a reduction: a function of the operand's dimensions alone, so that a sum has the same bits everywhere.

Dimensions of size 1 are dropped and neighbours of one kind joined: what remains are groups, alternately kept and
reduced. If the innermost group is reduced (style "row"), `lanes` accumulators take turns along it:

    lane l:  x[l], x[l + lanes], x[l + 2 lanes], ...  in order, the other reduced groups' loops outside
    total:   lane l with lane l + lanes/2, then with l + lanes/4, ..., 1

If it is kept (style "column"), each element has one accumulator that goes through the reduced indices in row-major
order. Where few elements come out of much input, the largest reduced group falls into `leaves` parts, whose totals are
combined in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

LANES = 32
STRIP = 1024  # columns that are accumulated side by side: as many as are read on in memory
WIDEST = 4096  # columns, where that leaves enough units of work
MANY = 32  # units of work
SPLIT_FROM = 1 << 17  # elements behind one result (or strip of them) from which on they are parted into leaves
LEAF = 1 << 14  # elements of a leaf, at least
LEAF_ROWS = 64  # rows of a leaf of style "column", at least: its totals are as long as one row
MAX_LEAVES = 1024
PANEL = 1 << 17  # elements of a panel of columns that a kernel goes over again: half of a cache of 1 MB
WIDE = 512  # columns of one, where there are as many: shorter pieces of far rows are read slowly
NEAR = 5 << 18  # bytes of a panel of fewer, of which the next ones are fetched meanwhile
FEWEST, LINES = 64, 32  # columns of that, at least, and what they are a multiple of: whole lines of a cache


@dataclass(frozen=True)
class Group:
    """Neighbouring dimensions of the operand, joined; `size` elements."""

    dimensions: tuple[int, ...]
    size: int
    reduced: bool


@dataclass(frozen=True)
class Tree:
    """How the elements of a reduction are combined; see the module's docstring.

    `split` is the number of the group that falls into leaves. `strip` is the number of columns in a unit of work of
    style "column" (1 for rows); it has no influence on the value.
    """

    groups: tuple[Group, ...]
    style: str
    lanes: int
    strip: int
    leaves: int
    split: int

    @property
    def units(self) -> int:
        """Rows, or strips of columns, that can be reduced independently of each other."""
        kept = [g.size for g in self.groups if not g.reduced]
        if self.style == "column":
            return prod(kept[:-1]) * -(-kept[-1] // self.strip)
        return prod(kept)

    @property
    def reduced_size(self) -> int:
        """How many elements make one result."""
        return prod(g.size for g in self.groups if g.reduced)

    @property
    def single(self) -> bool:
        """Whether one group has all that makes a result."""
        return sum(g.reduced for g in self.groups) == 1


def tree(dimensions: Sequence[int], reduced: Sequence[int]) -> Tree:
    """The tree of a reduce of an operand with these dimensions over the dimensions `reduced`."""
    groups: list[Group] = []
    for d, size in enumerate(dimensions):
        if size == 1:
            continue
        if groups and groups[-1].reduced == (d in reduced):
            groups[-1] = Group((*groups[-1].dimensions, d), groups[-1].size * size, groups[-1].reduced)
        else:
            groups.append(Group((d,), size, d in reduced))
    if not any(g.reduced for g in groups):
        groups.insert(len(groups) - 1 if groups else 0, Group((), 1, True))
    style = "row" if groups[-1].reduced else "column"
    inner = groups[-1].size
    strip = 1 if style == "row" else max(1, min(inner, STRIP))
    lanes = 1 if style == "column" or inner < 8 else min(LANES, 1 << (inner.bit_length() - 1))
    split = max((n for n, g in enumerate(groups) if g.reduced), key=lambda n: groups[n].size)
    whole = Tree(tuple(groups), style, lanes, strip, 1, split)
    behind = whole.reduced_size * strip
    if style == "row":
        parts = groups[split].size // (lanes if split == len(groups) - 1 else 1)
    else:
        parts = min(groups[split].size, whole.reduced_size // LEAF_ROWS)
    leaves = min(MAX_LEAVES // max(whole.units, 1), behind // LEAF, parts) if behind >= SPLIT_FROM else 1
    leaves = max(leaves, 1)
    if style == "column":
        strip = _widest(strip, inner, leaves * prod(g.size for g in groups[:-1] if not g.reduced))
    return Tree(tuple(groups), style, lanes, strip, leaves, split)


def panel(t: Tree, size: int) -> int:
    """The columns of a strip that is gone over again: what it reads and writes stays in a cache; 0 if it cannot.

    `size`: bytes of an element.
    """
    return min(t.strip, _panel(t.reduced_size, t.groups[-1].size, size))


def columns_fit(dimensions: Sequence[int], kept: Sequence[int], size: int = 4) -> int:
    """Whether a kernel may go over the operand of a reduce again that keeps these dimensions, the innermost among them:
    whether parts of its rows fit into a cache together, and there are many such panels, or little to do.

    0: no. 1: yes, but in parts so short that they take about as long as reading all again. 2: yes.
    `size`: bytes of an element.
    """
    inner = max((d for d, n in enumerate(dimensions) if n > 1), default=-1)
    if inner not in kept:
        return 0
    total, results = prod(dimensions), prod(dimensions[d] for d in kept)
    reduced = total // max(results, 1)
    columns = _panel(reduced, dimensions[inner], size)
    if not columns or total > SPLIT_FROM and results < MANY * columns:
        return 0
    return 2 if _is_wide(reduced, dimensions[inner]) else 1


def _panel(reduced: int, columns: int, size: int) -> int:
    """The columns of a panel: many in half of a cache, or else some in most of it; 0 if there is no room."""
    if _is_wide(reduced, columns):
        return min(columns, PANEL // max(reduced, 1))
    some = min(NEAR // (reduced * size), WIDE) // LINES * LINES
    return min(columns, some) if some >= FEWEST else 0


def _is_wide(reduced: int, columns: int) -> bool:
    """Whether many columns, or all, have room in half of a cache."""
    return reduced * min(columns, WIDE) <= PANEL


def _widest(strip: int, columns: int, parts: int) -> int:
    """The strip, made wider while MANY units of work are left: long stretches of memory are read faster."""
    wide = min(columns, 2 * strip)
    while strip < wide <= WIDEST and parts * -(-columns // wide) >= MANY:
        strip, wide = wide, min(columns, 2 * wide)
    return strip
