"""Whether a dynamic-update-slice may be made in place by a kernel that reads the array, too."""

from __future__ import annotations

from collections.abc import Callable, Collection

from refxla_spec.module import Instruction

from ..ir.op_table import ELEMENTWISE, class_of, is_slice_at


def reads_where_it_writes(
    hero: Instruction, members: Collection[Instruction], is_updated: Callable[[Instruction], bool]
) -> bool:
    """Of a dynamic-update-slice and the members of its fusion: whether all that these read of the array, whose names
    `is_updated` knows, are slices of the place that is written, and each element of the update takes that element of
    the slice alone. So does `y[s:s+n] += x`.
    """
    update, *starts = hero.operands[1:]
    waiting = [(update, True), *((s, False) for s in starts)]  # whether the element is that of the update
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
    """Whether an element is computed of the operand's element in the same place, counted row by row."""
    if i.opcode == "reshape":
        return True
    is_elementwise = class_of(i) == ELEMENTWISE
    return is_elementwise and operand.shape.dimensions == i.shape.dimensions
