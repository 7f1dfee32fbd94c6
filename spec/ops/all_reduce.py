"""The operands of all devices of a group, combined element by element: each member gets the result.

    results[n] = to_apply over operands[n] of the members of this device's group (see groups.py)

to_apply must be associative and commutative, since the order in which it is applied is not part of the meaning. Here it
follows the order of the group; floating-point sums and products are computed in a wider type and rounded once. With
several operands each is combined by itself, and the result is a tuple.
"""

from __future__ import annotations

from ..attributes import COMPUTATION, REQUIRED, Attribute
from ..collectives import (
    ALL_NAMED_RULE,
    GROUPS_RULE,
    MODE_RULE,
    OF_REPLICAS,
    REDUCER_RULE,
    check_all_named,
    check_arrays,
    check_groups,
    check_mode,
    check_reducer,
    combined,
    one_or_tuple,
)
from ..devices import Device
from ..groups import Count
from ..module import Instruction
from ..operation import Example
from ..types import Array, Shape, Value
from ..vectorize import Run

INPUTS = {"*operands": "arrays"}
ATTRIBUTES = {**OF_REPLICAS, "to_apply": Attribute(COMPUTATION, REQUIRED, "combines two elements")}
CONSTRAINTS = {
    "C1": "there is at least one operand, and all are arrays",
    "C2": GROUPS_RULE,
    "C3": MODE_RULE,
    "C4": REDUCER_RULE,
    "C5": "the result is of the operand's shape, or for several operands a tuple of their shapes",
    "C6": ALL_NAMED_RULE,
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    check_arrays(operands, "C1")
    check_groups(instruction, "C2", equal=False)
    check_mode(instruction, "C3")
    check_reducer(instruction, operands, "C4")
    return one_or_tuple(operands)


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    check_all_named(instruction, replicas, partitions, "C6")


def evaluate(instruction: Instruction, *operands: Array, run: Run, device: Device) -> Value:
    met = device.exchange(instruction, operands)
    return one_or_tuple([combined(instruction.to_apply, list(values), run) for values in zip(*met, strict=True)])


_ADD = """add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }"""
EXAMPLES = (
    Example(
        f"""HloModule sum_over_all, replica_count=3
        {_ADD}
        ENTRY main {{ x = f32[2] parameter(0)
                     ROOT r = f32[2] all-reduce(x), replica_groups={{}}, to_apply=add }}""",
        ("f32[2] {1,2}", "f32[2] {10,20}", "f32[2] {100,200}"),
        ("f32[2] {111,222}",) * 3,
    ),
    Example(
        f"""HloModule in_two_groups, num_partitions=4
        {_ADD}
        ENTRY main {{ x = f32[] parameter(0)
                     ROOT r = f32[] all-reduce(x), channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0),
                       use_global_device_ids=true, to_apply=add }}""",
        ("f32[] 1", "f32[] 2", "f32[] 10", "f32[] 20"),
        ("f32[] 11", "f32[] 22", "f32[] 11", "f32[] 22"),
        "devices 0 and 2, devices 1 and 3",
    ),
    Example(
        """HloModule replicas_with_all_partitions, replica_count=2, num_partitions=2
        most { a = s32[] parameter(0)
               b = s32[] parameter(1)
               ROOT c = s32[] maximum(a, b) }
        ENTRY main { x = s32[] parameter(0)
                     y = s32[1] parameter(1)
                     ROOT r = (s32[], s32[1]) all-reduce(x, y), channel_id=1, replica_groups={{0},{1}},
                       to_apply=most }""",
        ("s32[] 1", "s32[1] {8}", "s32[] 2", "s32[1] {7}", "s32[] 3", "s32[1] {6}", "s32[] 4", "s32[1] {5}"),
        ("s32[] 2", "s32[1] {8}", "s32[] 2", "s32[1] {8}", "s32[] 4", "s32[1] {6}", "s32[] 4", "s32[1] {6}"),
        "two operands; a group is a replica with both of its partitions",
    ),
    Example(
        f"""HloModule on_one_device
        {_ADD}
        ENTRY main {{ x = f32[2] parameter(0)
                     ROOT r = f32[2] all-reduce(x), replica_groups={{{{0}}}}, to_apply=add }}""",
        ("f32[2] {1,-0}",),
        ("f32[2] {1,-0}",),
    ),
)
_BROKEN = """HloModule broken, replica_count=2
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[2] parameter(0)
                     t = token[] after-all()
                     n = s32[2] constant({1,2})
                     ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(f32[2], token[]) OPCODE(x, t), replica_groups={}, to_apply=add }",
    "C2": _BROKEN + "f32[2] OPCODE(x), replica_groups={{0,1},{1,2}}, to_apply=add }",
    "C3": _BROKEN + "f32[2] OPCODE(x), replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add }",
    "C4": _BROKEN + "s32[2] OPCODE(n), replica_groups={{0,1}}, to_apply=add }",
    "C5": _BROKEN + "f32[3] OPCODE(x), replica_groups={{0,1}}, to_apply=add }",
    "C6": _BROKEN + "f32[2] OPCODE(x), replica_groups={{0}}, to_apply=add }",
}
