"""The operand of the first member of each group, for all members of the group.

A device that is in no group gets zeros.
"""

from __future__ import annotations

import numpy as np

from ..attributes import BOOL, Attribute
from ..collectives import CHANNEL_ID, REPLICA_GROUPS, check_inside
from ..devices import Device
from ..errors import UnsupportedError
from ..groups import Count
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value

INPUTS = {"operand": "an array"}
ATTRIBUTES = {
    "replica_groups": REPLICA_GROUPS,
    "channel_id": CHANNEL_ID,
    "has_dynamic_root": Attribute(BOOL, False, "whether the last operand names the member that sends"),
}
CONSTRAINTS = {
    "C1": "operand is an array",
    "C2": "replica_groups have no number twice, and no empty group",
    "C3": "the result has the shape of operand",
    "C4": "the numbers in replica_groups are those of replicas (with a channel_id: of partitions) that the module's "
    "header counts, where it counts more than one",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    if instruction.has_dynamic_root:
        raise UnsupportedError(f"{instruction.name}: a collective-broadcast with a dynamic root")
    require(operand.is_array, "C1", f"the operand is {operand}")
    groups = instruction.replica_groups.groups
    named = [n for g in groups for n in g]
    fits = all(groups) and len(set(named)) == len(named)
    require(fits, "C2", f"replica_groups is {instruction.replica_groups}")
    return operand


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    named = (n for g in instruction.replica_groups.groups for n in g)
    check_inside(instruction, named, replicas, partitions, "C4")


def evaluate(instruction: Instruction, operand: np.ndarray, device: Device) -> Value:
    return device.exchange(instruction, operand)[0] if device.group(instruction) else np.zeros_like(operand)


EXAMPLES = (
    Example(
        """HloModule from_the_second, replica_count=4
        ENTRY main { x = s32[] parameter(0)
                     ROOT r = s32[] collective-broadcast(x), replica_groups={{1,0},{2}} }""",
        ("s32[] 10", "s32[] 11", "s32[] 12", "s32[] 13"),
        ("s32[] 11", "s32[] 11", "s32[] 12", "s32[] 0"),
        "the last one is in no group",
    ),
)
_BROKEN = "t = token[] after-all()\nx = f32[2] parameter(0)\nROOT r = "
COUNTEREXAMPLES = {
    "C1": _BROKEN + "token[] collective-broadcast(t), replica_groups={{0,1}}",
    "C2": _BROKEN + "f32[2] collective-broadcast(x), replica_groups={{0,1},{1,2}}",
    "C3": _BROKEN + "f32[4] collective-broadcast(x), replica_groups={{0,1}}",
    "C4": f"HloModule broken, replica_count=2\nENTRY main {{ {_BROKEN}"
    "f32[2] collective-broadcast(x), replica_groups={{1,2}} }",
}
