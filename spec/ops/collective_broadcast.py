"""The operands of one member of each group, for all members of the group.

It is the first member, or with `has_dynamic_root` for operand n the member that stands in the group at place root[n]
(from 0 on): root is then the last operand, and the same on all members. With several operands, root not counted, the
result is a tuple. A device that is in no group gets zeros.
"""

from __future__ import annotations

import numpy as np

from ..collectives import CHANNEL_ID, DYNAMIC_ROOT, REPLICA_GROUPS, check_inside, data_shapes, one_or_tuple, rooted
from ..devices import Device
from ..groups import Count
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape, Value

INPUTS = {"*operands": "arrays, and with has_dynamic_root after them s32[n], n being how many they are"}
ATTRIBUTES = {"replica_groups": REPLICA_GROUPS, "channel_id": CHANNEL_ID, "has_dynamic_root": DYNAMIC_ROOT}
CONSTRAINTS = {
    "C1": "there is at least one operand, root not counted, and all are arrays",
    "C2": "replica_groups have no number twice, and no empty group",
    "C3": "the result has the shape of the operand, or is the tuple of the shapes of several; root not counted",
    "C4": "the numbers in replica_groups are those of replicas (with a channel_id: of partitions) that the module's "
    "header counts, where it counts more than one",
    "C5": "with has_dynamic_root the last operand is s32[n], for n operands before it",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    data = data_shapes(instruction, operands, "C1", "C5")
    groups = instruction.replica_groups.groups
    numbers = [n for g in groups for n in g]
    fits = all(groups) and len(set(numbers)) == len(numbers)
    require(fits, "C2", f"replica_groups is {instruction.replica_groups}")
    return one_or_tuple(data)


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    numbers = (n for g in instruction.replica_groups.groups for n in g)
    check_inside(instruction, numbers, replicas, partitions, "C4")


def evaluate(instruction: Instruction, *operands: Array, device: Device) -> Value:
    data, places = rooted(instruction, operands, device)
    if not device.group(instruction):
        return one_or_tuple([np.zeros_like(x) for x in data])
    met = device.exchange(instruction, data)
    return one_or_tuple([met[place][n] for n, place in enumerate(places)])


EXAMPLES = (
    Example(
        """HloModule from_the_second, replica_count=4
        ENTRY main { x = s32[] parameter(0)
                     ROOT r = s32[] collective-broadcast(x), replica_groups={{1,0},{2}} }""",
        ("s32[] 10", "s32[] 11", "s32[] 12", "s32[] 13"),
        ("s32[] 11", "s32[] 11", "s32[] 12", "s32[] 0"),
        "the last one is in no group",
    ),
    Example(
        """HloModule each_from_another, replica_count=2
        ENTRY main { x = s32[] parameter(0)
                     y = s32[1] parameter(1)
                     root = s32[2] parameter(2)
                     ROOT r = (s32[], s32[1]) collective-broadcast(x, y, root), replica_groups={{1,0}},
                       has_dynamic_root=true }""",
        ("s32[] 10", "s32[1] {20}", "s32[2] {0,1}", "s32[] 11", "s32[1] {21}", "s32[2] {0,1}"),
        ("s32[] 11", "s32[1] {20}", "s32[] 11", "s32[1] {20}"),
        "x of the first of the group, which is device 1, and y of the second",
    ),
)
_BROKEN = "t = token[] after-all()\nx = f32[2] parameter(0)\nROOT r = "
COUNTEREXAMPLES = {
    "C1": _BROKEN + "token[] collective-broadcast(t), replica_groups={{0,1}}",
    "C2": _BROKEN + "f32[2] collective-broadcast(x), replica_groups={{0,1},{1,2}}",
    "C3": _BROKEN + "f32[4] collective-broadcast(x), replica_groups={{0,1}}",
    "C4": f"HloModule broken, replica_count=2\nENTRY main {{ {_BROKEN}"
    "f32[2] collective-broadcast(x), replica_groups={{1,2}} }",
    "C5": _BROKEN + "f32[2] collective-broadcast(x, x), replica_groups={{0,1}}, has_dynamic_root=true",
}
