"""The last pass over a unit of work: outputs as large as the operand, of what its reduces made.

Those that are larger than caches are written past them (loops/non_temporal_stores.py): a row in pieces; what belongs to
columns is gathered in an array, where its place also holds what earlier passes keep (cached_operands.py), and written a
few rows at a time. What does not fill the last line of a row is moved before what comes next in memory: the next row,
where a unit has all columns, or else the row itself, until the same item comes to the next strip.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, linearize, variable
from ...device.description import LINE
from ..elemental_ir_emitter import Store
from ..loops import non_temporal_stores

if TYPE_CHECKING:
    from .reduction import _Reduction

ROWS = 8  # of columns, that are computed before they are written: what was just stored is not read well
MOST_GATHERED = 13 << 17  # bytes: those of a panel (reduction_order.py), and a line before each row


def is_streamed(owner: _Reduction) -> bool:
    """Whether the late outputs are written past the caches."""
    t, late, target = owner.tree, owner.late, owner.target
    if target.kind != "cpu" or not target.clang or not 0 < len(late) <= non_temporal_stores.MOST_RESULTS:
        return False
    if not t.single or any(o.shape.dimensions != owner.dims for o in late):
        return False
    if sum(o.shape.bytes for o in late) < non_temporal_stores.NON_TEMPORAL_BYTES:
        return False
    sizes = [non_temporal_stores.size_of(o) for o in late]
    if not is_strip(owner) and not any(owner.expensive(o) for o in late):
        return False  # there is no arithmetic to hide that what is written so waits for memory
    if t.style == "row":
        return t.groups[-1].size * min(sizes) >= non_temporal_stores.LEAST_RUN
    if any(LINE % size or t.strip * size < LINE or is_strip(owner) and t.strip * size % LINE for size in sizes):
        return False
    return t.reduced_size * sum(_pitch(owner, o) * non_temporal_stores.size_of(o) for o in late) <= MOST_GATHERED


def is_strip(owner: _Reduction) -> bool:
    """Whether a unit has some of the columns."""
    return owner.tree.style == "column" and owner.tree.strip < owner.tree.groups[-1].size


def declare_gathered(owner: _Reduction) -> None:
    """The arrays of the late outputs of columns."""
    for o in owner.late if owner.streamed and owner.tree.style == "column" else ():
        owner.gathered[o] = owner.elements.names.fresh("gathered")
        size = (owner.tree.reduced_size + 1) * _pitch(owner, o)
        owner.block.line(
            f"{non_temporal_stores.storage(o)} {owner.gathered[o]}[{size}] __attribute__((aligned({LINE})));"
        )


def gathered_place(owner: _Reduction, o: Instruction, at: dict[int, Index]) -> str:
    """Where the element of a late output is gathered, as C."""
    (row,) = (at[n] for n, g in enumerate(owner.tree.groups) if g.reduced)
    column = at[len(owner.tree.groups) - 1] - owner.first_column()
    return f"{owner.gathered[o]}[{row * _pitch(owner, o) + column + LINE // non_temporal_stores.size_of(o)}]"


def emit_late(owner: _Reduction) -> None:
    """The statements of the pass, for the unit at `owner.at`."""
    t, inner = owner.tree, len(owner.tree.groups) - 1
    if owner.gathered:
        _emit_gathered(owner)
        return
    if owner.streamed:

        def at_column(name: str) -> dict[int, Index]:
            return {**owner.at, inner: variable(name, 0, t.groups[inner].size - 1)}

        bounds = "int", "0", str(t.groups[inner].size)
        with non_temporal_stores.pieces(
            owner.elements, owner.block, bounds, lambda name: _stores(owner, at_column(name))
        ) as name:
            _emit_element(owner, at_column(name))
        return
    with ExitStack() as scopes:
        at = dict(owner.at)
        for n in (n for n, g in enumerate(t.groups) if g.reduced):
            name = owner.elements.names.fresh("r")
            scopes.enter_context(owner.block.scope(f"for (int {name} = 0; {name} < {t.groups[n].size}; ++{name})"))
            at[n] = variable(name, 0, t.groups[n].size - 1)
        if t.style == "column":
            at[inner] = owner.enter_columns(scopes)
        _emit_element(owner, at)


def _emit_gathered(owner: _Reduction) -> None:
    """A few rows of columns at a time: computed in place, then written."""
    t, e, block = owner.tree, owner.elements, owner.block
    inner, (rows,) = len(t.groups) - 1, (n for n, g in enumerate(t.groups) if g.reduced)
    begin, end, name, size = e.names.fresh("b"), e.names.fresh("e"), e.names.fresh("r"), t.groups[rows].size
    row, first = variable(name, 0, size - 1), owner.first_column()
    starts, ends = ("starts", "ends") if is_strip(owner) else (f"{name} == 0", f"{name} == {size - 1}")
    with block.scope(f"for (int {begin} = 0; {begin} < {size}; {begin} += {ROWS})"):
        block.line(f"const int {end} = {begin} + {ROWS} < {size} ? {begin} + {ROWS} : {size};")
        loop = f"for (int {name} = {begin}; {name} < {end}; ++{name})"
        with block.scope(loop), ExitStack() as scopes:
            at = {**owner.at, rows: row, inner: owner.enter_columns(scopes)}
            for o in owner.late:
                e.gather(o, gathered_place(owner, o, at))
            _emit_element(owner, at)
        for o in owner.late:
            e.gather(o, None)
        with block.scope(loop):
            for store in _stores(owner, {**owner.at, rows: row, inner: first}):
                o, follows = store.instruction, 0 if is_strip(owner) else 1
                lines, left = (f"(ulong)({owner.gathered[o]} + {x * _pitch(owner, o)})" for x in (row, row + follows))
                count, bits = non_temporal_stores.words(o, str(t.strip))
                to = f"(ulong)({non_temporal_stores.place(e, store)})"
                block.line(f"rx_store_strip_u{bits}({to}, {lines}, {left}, {count}, {starts}, {ends});")


def _pitch(owner: _Reduction, o: Instruction) -> int:
    """Elements between the rows of what is gathered: whole lines, and one before them."""
    line = LINE // non_temporal_stores.size_of(o)
    return -(-owner.tree.strip // line) * line + line


def _stores(owner: _Reduction, at: dict[int, Index]) -> list[Store]:
    position = linearize(owner.indices(at), owner.dims)
    return [Store(o, position, "") for o in owner.late]


def _emit_element(owner: _Reduction, at: dict[int, Index]) -> None:
    full = owner.indices(at)
    owner.held.bind(len(owner.phases), at, full)
    owner.bind_columns(at)
    owner.store_full(owner.late, full)
