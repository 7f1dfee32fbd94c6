"""The operands of all devices of a group, combined element by element, for one member of the group; others get zeros.

It is the first member, or with `has_dynamic_root` for operand n the member that stands in the group at place root[n]
(from 0 on): root is then the last operand, and the same on all members. Order and rounding are those of all-reduce.
With several operands, root not counted, each is combined by itself, and the result is a tuple.
"""

from __future__ import annotations

import numpy as np

from ..attributes import COMPUTATION, REQUIRED, Attribute
from ..collectives import (
    ALL_NAMED_RULE,
    DYNAMIC_ROOT,
    GROUPS_RULE,
    MODE_RULE,
    OF_REPLICAS,
    check_all_named,
    check_groups,
    check_mode,
    check_reducer,
    combined,
    data_shapes,
    one_or_tuple,
    rooted,
)
from ..devices import Device
from ..groups import Count
from ..module import Instruction
from ..operation import Example
from ..types import Array, Shape, Value
from ..vectorize import Run

INPUTS = {"*operands": "arrays, and with has_dynamic_root after them s32[n], n being how many they are"}
ATTRIBUTES = {
    **OF_REPLICAS,
    "has_dynamic_root": DYNAMIC_ROOT,
    "to_apply": Attribute(COMPUTATION, REQUIRED, "combines two elements"),
}
CONSTRAINTS = {
    "C1": "there is at least one operand, root not counted, and all are arrays",
    "C2": GROUPS_RULE,
    "C3": MODE_RULE,
    "C4": "to_apply takes two scalars of the element type of every operand, root not counted, and gives one",
    "C5": "the result has the shape of the operand, or is the tuple of the shapes of several; root not counted",
    "C6": ALL_NAMED_RULE,
    "C7": "with has_dynamic_root the last operand is s32[n], for n operands before it",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    data = data_shapes(instruction, operands, "C1", "C7")
    check_groups(instruction, "C2", equal=False)
    check_mode(instruction, "C3")
    check_reducer(instruction, data, "C4")
    return one_or_tuple(data)


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    check_all_named(instruction, replicas, partitions, "C6")


def evaluate(instruction: Instruction, *operands: Array, run: Run, device: Device) -> Value:
    data, places = rooted(instruction, operands, device)
    met = device.exchange(instruction, data)
    own = device.group(instruction).index(device.number)
    return one_or_tuple(
        [
            combined(instruction.to_apply, list(values), run) if place == own else np.zeros_like(values[0])
            for values, place in zip(zip(*met, strict=True), places, strict=True)
        ]
    )


_ADD = """add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }"""
EXAMPLES = (
    Example(
        f"""HloModule for_the_first, replica_count=3
        {_ADD}
        ENTRY main {{ x = f32[2] parameter(0)
                     ROOT r = f32[2] collective-reduce(x), replica_groups={{{{2,0}},{{1}}}}, to_apply=add }}""",
        ("f32[2] {1,2}", "f32[2] {10,20}", "f32[2] {100,200}"),
        ("f32[2] {0,0}", "f32[2] {10,20}", "f32[2] {101,202}"),
    ),
    Example(
        f"""HloModule each_for_another, replica_count=2
        {_ADD}
        ENTRY main {{ x = f32[] parameter(0)
                     y = f32[1] parameter(1)
                     root = s32[2] constant({{1,0}})
                     ROOT r = (f32[], f32[1]) collective-reduce(x, y, root), replica_groups={{{{0,1}}}},
                       has_dynamic_root=true, to_apply=add }}""",
        ("f32[] 1", "f32[1] {2}", "f32[] 10", "f32[1] {20}"),
        ("f32[] 0", "f32[1] {22}", "f32[] 11", "f32[1] {0}"),
    ),
    Example(
        f"""HloModule on_one_device
        {_ADD}
        ENTRY main {{ x = f32[2] parameter(0)
                     root = s32[1] constant({{0}})
                     ROOT r = f32[2] collective-reduce(x, root), replica_groups={{{{0}}}}, has_dynamic_root=true,
                       to_apply=add }}""",
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
    "C1": _BROKEN + "(f32[2], token[]) collective-reduce(x, t), replica_groups={{0,1}}, to_apply=add }",
    "C2": _BROKEN + "f32[2] collective-reduce(x), replica_groups={{0,0}}, to_apply=add }",
    "C3": _BROKEN + "f32[2] collective-reduce(x), use_global_device_ids=true, to_apply=add }",
    "C4": _BROKEN + "s32[2] collective-reduce(n), replica_groups={{0,1}}, to_apply=add }",
    "C5": _BROKEN + "f32[4] collective-reduce(x), replica_groups={{0,1}}, to_apply=add }",
    "C6": _BROKEN + "f32[2] collective-reduce(x), replica_groups={{0,1,2}}, to_apply=add }",
    "C7": _BROKEN + "f32[2] collective-reduce(x, n), replica_groups={{0,1}}, has_dynamic_root=true, to_apply=add }",
}
