"""Whether a dynamic-update-slice can be computed in place by a kernel that also reads the array."""

from __future__ import annotations

from collections.abc import Callable, Collection

from refxla_spec.module import Instruction

from ..ir.op_table import ELEMENTWISE, class_of, is_slice_at


def reads_where_it_writes(
    hero: Instruction, members: Collection[Instruction], is_updated: Callable[[Instruction], bool]
) -> bool:
    """Whether the members of a dynamic-update-slice's fusion read only slices of the updated block from the array
    (`is_updated` knows its names), and each element of the update depends on no element of the slice but its own, as in
    `y[s:s+n] += x`.
    """
    update, *starts = hero.operands[1:]
    waiting = [(update, True), *((s, False) for s in starts)]  # whether the element has the update's indices
    seen = set()
    while waiting:
        i, aligned = waiting.pop()
        if (i, aligned) in seen:
            continue
        seen.add((i, aligned))
        if i not in members:
            if is_updated(i):
                return False
        elif i.opcode == "dynamic-slice" and is_updated(i.operands[0]):
            if not (aligned and is_slice_at(i, update, starts)):
                return False
            waiting += [(s, False) for s in i.operands[1:]]
        else:
            waiting += [(o, aligned and _keeps_places(i, o)) for o in i.operands]
    return True


def _keeps_places(i: Instruction, operand: Instruction) -> bool:
    """Whether each element depends on the operand's element with the same row-major number."""
    if i.opcode == "reshape":
        return True
    is_elementwise = class_of(i) == ELEMENTWISE
    return is_elementwise and operand.shape.dimensions == i.shape.dimensions
