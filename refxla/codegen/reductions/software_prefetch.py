"""What a reduction over much memory fetches into a cache before its turn."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, linearize
from ...analysis.reduction_order import LANES
from ...device.description import LINE
from .cached_operands import ROW_LIMIT
from .second_pass_outputs import is_strip

if TYPE_CHECKING:
    from .reduction import _Reduction

SHORT = 256  # columns, up to which rows that follow are fetched before their turn
AHEAD = 4096  # elements that they then lie behind
PARTS = 512  # elements of the parts of rows that go together, up to which the next ones are fetched
ROWS_AHEAD = 16  # rows of a strip, far from each other, that are fetched before their turn

Fetched = list[tuple[Instruction, int, str]]


def fetched(owner: _Reduction) -> dict[int, Fetched]:
    """In which passes: of which operands and outputs, how many elements behind those at hand, and by what.

    The second pass over a row, which lies in a cache, fetches from memory meanwhile: the next row of what is read, and
    this one of what is then written; over a panel of columns, the next one. Where rows go together, the next part of
    each is fetched. Where a strip has whole, short rows, or some columns of long ones, what lies some rows behind is:
    processors do not see far enough by themselves.
    """
    t, inputs = owner.tree, [i for i in owner.inputs if i.shape.dimensions == owner.dims]
    if owner.target.kind != "cpu" or not owner.target.clang:
        return {}
    if is_strip(owner) and owner.streamed:
        rows = [(i, ROWS_AHEAD * t.groups[-1].size, "RX_PREFETCH") for i in inputs]
        return {0: rows, 1: [(i, t.strip, "RX_PREFETCH") for i in inputs]}
    if t.style == "column" and owner.streamed:
        return {1: [(i, t.reduced_size * t.strip, "RX_PREFETCH") for i in inputs]}
    if t.style == "column":
        short = t.strip == t.groups[-1].size <= SHORT
        behind = [(i, AHEAD, "RX_PREFETCH") for i in inputs if short]
        return dict.fromkeys(range(len(owner.phases)), behind)
    if owner.together > 1:
        some = inputs if LANES <= t.groups[-1].size <= PARTS else ()  # shorter ones take longer to add
        return {0: [(i, prod(g.size for g in t.groups[-2:]), "RX_PREFETCH") for i in some]}
    if t.leaves > 1 or not t.single or t.reduced_size > ROW_LIMIT:
        return {}
    written = [o for o in owner.late if o.shape.dimensions == owner.dims and not owner.streamed]
    return {
        1: [(i, t.reduced_size, "RX_PREFETCH") for i in inputs] + [(o, 0, "RX_PREFETCH_FOR_WRITE") for o in written]
    }


def emit_fetches(owner: _Reduction, number: int, full: tuple[Index, ...], count: int) -> None:
    """Fetches what pass `number` does of so many elements from these indices on."""
    place = linearize(full, owner.dims)
    for i, behind, fetch in owner.fetched.get(number, ()):
        line = LINE * 8 // i.shape.element_type.bits
        last = [count - 1] if is_strip(owner) else []  # what comes next begins where the last line ends, or far away
        for n in (*range(0, count, line), *last):
            owner.block.line(f"{fetch}({owner.pointers[i]} + ({place + behind + n}));")
