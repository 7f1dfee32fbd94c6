"""Rows of a reduction that go together: the parts of a row lie far apart, and those of its neighbours beside them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...analysis.index_expression import Index, constant, delinearize, variable

if TYPE_CHECKING:
    from .reduction import _Reduction


def emit_rows(owner: _Reduction, unit: Index, kept: Sequence[int]) -> None:
    """A unit of several rows, whose accumulators wait in an array while other rows have their turn."""
    t, block, names = owner.tree, owner.block, owner.elements.names
    rows, lanes, (phase,) = t.groups[-2].size, t.lanes, owner.phases
    parts = -(-rows // owner.together)
    outer = delinearize(unit // parts, [t.groups[n].size for n in kept[:-1]])
    owner.at.update(zip(kept[:-1], outer, strict=True))
    first, count = names.fresh("first"), str(owner.together)
    block.line(f"const int {first} = {(unit % parts) * owner.together};")
    if rows % owner.together:
        count = names.fresh("count")
        block.line(f"const int {count} = {rows} - {first} < {owner.together} ? {rows} - {first} : {owner.together};")
    waiting = {r: owner._accumulators(r, owner.together * lanes) for r in phase}

    def exchange(own: dict, row: str, back: bool) -> None:
        for r in phase:
            for a, b in zip(own[r], waiting[r], strict=True):
                with owner._lanes(lanes, owner._vector(phase)) as lane:
                    here, there = f"{a}{owner._lane_slot(lane)}", f"{b}[{row} * {lanes} + {lane}]"
                    block.line(f"{there} = {here};" if back else f"{here} = {there};")

    def each(last: bool) -> None:
        row = names.fresh("k")
        with block.scope(f"for (int {row} = 0; {row} < {count}; ++{row})"):
            number = names.fresh("row")
            block.line(f"const int {number} = {first} + {row};")
            at = {**outside, len(t.groups) - 2: variable(number, 0, rows - 1)}
            own = {r: owner._accumulators(r) for r in phase}
            exchange(own, row, False)
            owner._evaluate_broadcasts(0, at)
            if not last:
                owner._accumulate_row(at, 0, phase, own, constant(0))
                exchange(own, row, True)
                return
            owner.at = at
            for r in phase:
                owner._combine_lanes(r, own[r])
            owner._finish(phase, own)
            owner._evaluate_invariants(1)
            owner._store()

    with ExitStack() as scopes:
        outside = dict(owner.at)
        for n in (n for n, g in enumerate(t.groups[:-1]) if g.reduced):
            name = names.fresh("r")
            scopes.enter_context(block.scope(f"for (int {name} = 0; {name} < {t.groups[n].size}; ++{name})"))
            outside[n] = variable(name, 0, t.groups[n].size - 1)
        each(False)
    outside = dict(owner.at)
    each(True)
