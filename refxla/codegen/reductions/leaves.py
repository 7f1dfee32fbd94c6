"""Reductions of which each result is the work of several items: the totals of leaves, and who combines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from refxla_spec.module import Instruction

from .. import scalar
from ..elemental import accumulator_types
from .accumulators import Slots

if TYPE_CHECKING:
    from .reduction import _Reduction


def partials(owner: _Reduction) -> tuple[dict[tuple[Instruction, int], int], int]:
    """Where the totals of each accumulator lie in the workspace, behind a counter for each unit; and its size."""
    t = owner.tree
    places, end = {}, 4 * t.units
    for r in owner.reduces:
        for n, name in enumerate(accumulator_types(r.attributes["to_apply"])):
            places[r, n] = end = -(-end // 64) * 64
            end += (16 if name == "c128" else 8) * t.units * t.leaves * t.strip
    return places, end


def finish_leaves(owner: _Reduction, phase: Sequence[Instruction], totals: dict) -> None:
    """Totals go to the workspace; the last leaf of the unit to finish takes all of them, in order."""
    t, e, block = owner.tree, owner.elements, owner.block
    # RX_ARRIVE orders all reads and writes where it is clang's; volatile ones could not become vectors.
    memory = "__global" if owner.target.clang else "volatile __global"
    slots, (places, _) = t.strip, partials(owner)
    parts: list[tuple[Instruction, list[str]]] = []
    for r in phase:
        names = []
        for n, name in enumerate(accumulator_types(r.attributes["to_apply"])):
            c_type = scalar.register_type(name)
            names.append(e.names.fresh("part"))
            block.line(
                f"{memory} {c_type}* {names[-1]} = "
                f"({memory} {c_type}*)({owner.workspace} + {places[r, n]}) + unit * {t.leaves * slots};"
            )
        parts.append((r, names))
    with Slots(owner) as slot:  # one loop for all reduces: each takes a compiler milliseconds
        for r, names in parts:
            for name, part in zip(totals[r], names, strict=True):
                block.line(f"{part}[leaf * {slots} + {slot}] = {name}{owner._lane_slot(slot)};")
    counter = f"((volatile __global int*){owner.workspace} + unit)"
    block.line(f"if (RX_ARRIVE({counter}) != {t.leaves - 1}) return;")
    block.line(f"*{counter} = 0;")
    with Slots(owner) as slot:
        for r, names in parts:
            for name, part in zip(totals[r], names, strict=True):
                block.line(f"{name}{owner._lane_slot(slot)} = {part}[{slot}];")
    with block.scope(f"for (int leaf = 1; leaf < {t.leaves}; ++leaf)"), Slots(owner) as slot:
        for r, names in parts:
            taken = []
            for part, name in zip(names, accumulator_types(r.attributes["to_apply"]), strict=True):
                taken.append(e.assign(name, f"{part}[leaf * {slots} + {slot}]", block))
            owner._combine_into(r, [f"{name}{owner._lane_slot(slot)}" for name in totals[r]], taken)
