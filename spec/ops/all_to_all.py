"""Each device of a group gives every member a part of its own, and gets one from each.

With `dimensions` there is one operand, which is cut along this dimension into as many equal parts as the group has
members. This device is member k of its group:

    result = concatenate(part k of the operand of each member, in the group's order), along dimensions[0]

Without, there is one operand for each member, and the result is a tuple of as many:

    result[n] = operands[k] of member n
"""

from __future__ import annotations

import numpy as np

from ..attributes import INTS, Attribute
from ..collectives import (
    ALL_NAMED_RULE,
    CHANNEL_ID,
    EQUAL_GROUPS_RULE,
    LAYOUT,
    REPLICA_GROUPS,
    check_all_named,
    check_arrays,
    check_groups,
)
from ..devices import Device
from ..errors import plural
from ..groups import Count, meeting
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape, Value

INPUTS = {"*operands": "an array that is cut, or an array for each member"}
ATTRIBUTES = {
    "dimensions": Attribute(INTS, (), "the one dimension that is cut, if the operand is cut"),
    "replica_groups": REPLICA_GROUPS,
    "channel_id": CHANNEL_ID,
    "constrain_layout": LAYOUT,
}
CONSTRAINTS = {
    "C1": "there is at least one operand, all are arrays, and all have the same shape",
    "C2": EQUAL_GROUPS_RULE,
    "C3": "with dimensions, there is one operand, and it is one of its dimensions, whose size a group's size divides",
    "C4": "without dimensions, there are as many operands as a group has members",
    "C5": "the result is of the operand's shape, or without dimensions a tuple of the operands' shapes",
    "C6": ALL_NAMED_RULE,
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    check_arrays(operands, "C1")
    same = all(o.compatible(operands[0]) for o in operands)
    require(same, "C1", f"the operands are ({', '.join(map(str, operands))})")
    check_groups(instruction, "C2")
    _check_parts(instruction, operands, meeting(instruction))
    return operands[0] if instruction.dimensions else Shape.tuple_of(*operands)


def _check_parts(instruction: Instruction, operands: tuple[Shape, ...], size: int | None) -> None:
    """C3 and C4, for groups of `size` members (None: of a size that is not known)."""
    dimensions = instruction.dimensions
    if not dimensions:
        fits = size is None or len(operands) == size
        require(fits, "C4", f"{plural(len(operands), 'operand')} for groups of {size}")
        return
    fits = len(dimensions) == 1 and len(operands) == 1 and 0 <= dimensions[0] < operands[0].rank
    fits = fits and operands[0].dimensions[dimensions[0]] % (size or 1) == 0
    text = f"dimensions is {dimensions}, the operands are ({', '.join(map(str, operands))})"
    require(fits, "C3", f"{text}, and each group has {size or 'all'} devices")


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    check_all_named(instruction, replicas, partitions, "C6")
    shapes = tuple(o.shape for o in instruction.operands)
    _check_parts(instruction, shapes, meeting(instruction, replicas, partitions))


def evaluate(instruction: Instruction, *operands: Array, device: Device) -> Value:
    met = device.exchange(instruction, operands)
    k = device.group(instruction).index(device.number)
    if not instruction.dimensions:
        return tuple(values[k] for values in met)
    d = instruction.dimensions[0]
    return np.concatenate([np.split(x, len(met), axis=d)[k] for (x,) in met], axis=d)


EXAMPLES = (
    Example(
        """HloModule halves_exchanged, replica_count=2
        ENTRY main { x = f32[4] parameter(0)
                     ROOT r = f32[4] all-to-all(x), replica_groups={{0,1}}, dimensions={0} }""",
        ("f32[4] {1,2,3,4}", "f32[4] {10,20,30,40}"),
        ("f32[4] {1,2,10,20}", "f32[4] {3,4,30,40}"),
    ),
    Example(
        """HloModule an_operand_for_each, num_partitions=2
        ENTRY main { x = s32[1] parameter(0)
                     y = s32[1] parameter(1)
                     ROOT r = (s32[1], s32[1]) all-to-all(x, y), channel_id=1, replica_groups={{1,0}} }""",
        ("s32[1] {1}", "s32[1] {2}", "s32[1] {10}", "s32[1] {20}"),
        ("s32[1] {20}", "s32[1] {2}", "s32[1] {10}", "s32[1] {1}"),
        "partition 1 is the first member: it gets the first operands",
    ),
)
_BROKEN = "y = f32[2] parameter(1)\nx = f32[4] parameter(0)\nROOT r = "
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(f32[4], f32[2]) all-to-all(x, y), replica_groups={{0,1}}",
    "C2": _BROKEN + "f32[4] all-to-all(x), replica_groups={{0,1},{0,1}}, dimensions={0}",
    "C3": _BROKEN + "f32[4] all-to-all(x), replica_groups={{0,1,2}}, dimensions={0}",
    "C4": _BROKEN + "(f32[4], f32[4]) all-to-all(x, x), replica_groups={{0,1,2}}",
    "C5": _BROKEN + "f32[2,2] all-to-all(x), replica_groups={{0,1}}, dimensions={0}",
    "C6": f"HloModule broken, replica_count=4\nENTRY main {{ {_BROKEN}"
    "f32[4] all-to-all(x), replica_groups={{0,1}}, dimensions={0} }",
}
