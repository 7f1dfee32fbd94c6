"""What a reduction over much memory fetches into a cache before its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refxla_spec.module import Instruction

from ..indexing import Index, linearize
from ..target import LINE
from .held import ROW_LIMIT

if TYPE_CHECKING:
    from .reduction import _Reduction

SHORT = 256  # columns, up to which rows that follow are fetched before their turn
AHEAD = 4096  # elements that they then lie behind


def fetched(owner: _Reduction) -> list[tuple[Instruction, int, str]]:
    """Of which operands and outputs, how many elements behind those at hand, and by what.

    The second pass over a row, which lies in a cache, fetches from memory meanwhile: the next row of what is read, and
    this one of what is then written. Where a strip has whole, short rows, what lies some rows behind is fetched:
    processors do not see far enough by themselves.
    """
    t, inputs = owner.tree, [i for i in owner.inputs if i.shape.dimensions == owner.dims]
    if owner.target.kind != "cpu" or not owner.target.clang:
        return []
    if t.style == "column":
        return [(i, AHEAD, "RX_FETCH") for i in inputs if t.strip == t.groups[-1].size <= SHORT]
    if t.leaves > 1 or not t.single or t.reduced_size > ROW_LIMIT or len(owner.phases) == 1:
        return []
    read = [(i, t.reduced_size, "RX_FETCH") for i in inputs]
    return read + [(o, 0, "RX_FETCH_OWN") for o in owner.late if o.shape.dimensions == owner.dims]


def emit_fetches(owner: _Reduction, full: tuple[Index, ...], count: int) -> None:
    """Fetches what lies behind so many elements from these indices on."""
    place = linearize(full, owner.dims)
    for i, behind, fetch in owner.fetched:
        for n in range(0, count, LINE * 8 // i.shape.element_type.bits):
            owner.block.line(f"{fetch}({owner.pointers[i]} + ({place + behind + n}));")
