"""Reductions of which each result is the work of several items: the totals of leaves, and who combines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from refxla_spec.module import Instruction

from ...device.description import LINE
from .. import scalar
from ..elemental_rules import accumulator_types
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


def declare_parts(owner: _Reduction, phase: Sequence[Instruction]) -> dict[Instruction, list[str]]:
    """Pointers to the totals of this unit's leaves in the workspace, behind each other."""
    t, (places, _) = owner.tree, partials(owner)
    # RX_ARRIVE orders all reads and writes where it is clang's; volatile ones could not become vectors.
    memory = "__global" if owner.target.clang else "volatile __global"
    parts: dict[Instruction, list[str]] = {}
    for r in phase:
        parts[r] = []
        for n, name in enumerate(accumulator_types(r.attributes["to_apply"])):
            pointer = f"{memory} {scalar.register_type(name)}*"
            parts[r].append(owner.elements.names.fresh("part"))
            owner.block.line(
                f"{pointer} {parts[r][-1]} = "
                f"({pointer})({owner.workspace} + {places[r, n]}) + unit * {t.leaves * t.strip};"
            )
    return parts


def in_place(owner: _Reduction) -> bool:
    """Whether the accumulators of a leaf are its totals in the workspace, which saves copying them: where they are no
    registers, and no two leaves write to the same line of a cache."""
    t = owner.tree
    return t.style == "column" and owner.filled == 1 and t.strip % LINE == 0 and owner.target.clang


def finish_leaves(owner: _Reduction, phase: Sequence[Instruction], totals: dict, parts: dict) -> None:
    """Totals go to the workspace; the last leaf of the unit to finish takes all of them, in order."""
    t, e, block = owner.tree, owner.elements, owner.block
    slots, here = t.strip, in_place(owner)
    pairs = [pair for r in phase for pair in zip(totals[r], parts[r], strict=True)]
    if not here:
        with Slots(owner) as slot:  # one loop for all reduces: each takes a compiler milliseconds
            for name, part in pairs:
                block.line(f"{part}[leaf * {slots} + {slot}] = {name}{owner._lane_slot(slot)};")
    counter = f"((volatile __global int*){owner.workspace} + unit)"
    block.line(f"if (RX_ARRIVE({counter}) != {t.leaves - 1}) return;")
    block.line(f"*{counter} = 0;")
    if here:
        totals.update(parts)
    else:
        with Slots(owner) as slot:
            for name, part in pairs:
                block.line(f"{name}{owner._lane_slot(slot)} = {part}[{slot}];")
    with block.scope(f"for (int leaf = 1; leaf < {t.leaves}; ++leaf)"), Slots(owner) as slot:
        for r in phase:
            taken = []
            for part, name in zip(parts[r], accumulator_types(r.attributes["to_apply"]), strict=True):
                taken.append(e.assign(name, f"{part}[leaf * {slots} + {slot}]", block))
            owner._combine_into(r, [f"{name}{owner._lane_slot(slot)}" for name in totals[r]], taken)
