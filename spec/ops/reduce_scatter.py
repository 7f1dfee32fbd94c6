"""The operands of all devices of a group, combined element by element; each member gets its part of the result.

    results[n] = part k along dimensions[0] of to_apply over operands[n] of the members of this device's group,

cut into as many equal parts as the group has members; this device is member k of its group. Order and rounding are
those of all-reduce. With several operands each is treated by itself, and the result is a tuple.
"""

from __future__ import annotations

import numpy as np

from ..attributes import COMPUTATION, INTS, REQUIRED, Attribute
from ..collectives import (
    ALL_NAMED_RULE,
    EQUAL_GROUPS_RULE,
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
from ..errors import plural
from ..groups import Count, meeting
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape, Value
from ..vectorize import Run
from .all_gather import ratio

INPUTS = {"*operands": "arrays"}
ATTRIBUTES = {
    "dimensions": Attribute(INTS, REQUIRED, "the one dimension that is cut into parts"),
    **OF_REPLICAS,
    "to_apply": Attribute(COMPUTATION, REQUIRED, "combines two elements"),
}
CONSTRAINTS = {
    "C1": "there is at least one operand, and all are arrays",
    "C2": EQUAL_GROUPS_RULE,
    "C3": MODE_RULE,
    "C4": "dimensions is one dimension of the operands, whose size the number of devices that meet divides",
    "C5": REDUCER_RULE,
    "C6": "the result is the operand's shape with that dimension divided by the number of devices that meet; for "
    "several operands a tuple of such shapes",
    "C7": ALL_NAMED_RULE,
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    check_arrays(operands, "C1")
    check_groups(instruction, "C2")
    check_mode(instruction, "C3")
    dimensions = instruction.dimensions
    fits = len(dimensions) == 1 and all(0 <= dimensions[0] < o.rank for o in operands)
    require(fits, "C4", f"dimensions is {dimensions}, the operands are ({', '.join(map(str, operands))})")
    d = dimensions[0]
    stated = instruction.shape.elements[:1] or (instruction.shape,)
    if meeting(instruction) is None and (stated[0].rank <= d or not stated[0].dimensions[d]):
        count = 1
    else:
        count = meeting(instruction) or ratio(operands[:1], stated, d)
    for o in operands:
        require(o.dimensions[d] % count == 0, "C4", f"{count} devices meet, dimension {d} of an operand is {o}")
    check_reducer(instruction, operands, "C5")
    return one_or_tuple([_divided(o, d, count) for o in operands])


def _divided(shape: Shape, d: int, count: int) -> Shape:
    sizes = list(shape.dimensions)
    sizes[d] //= count
    return shape.with_dimensions(tuple(sizes))


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    check_all_named(instruction, replicas, partitions, "C7")
    met, d = meeting(instruction, replicas, partitions), instruction.dimensions[0]
    results = instruction.shape.elements or (instruction.shape,)
    for o, result in zip(instruction.operands, results, strict=True):
        size = o.shape.dimensions[d]
        require(
            met is None or size % met == 0,
            "C4",
            f"each group has {plural(met or 0, 'device')}, and dimension {d} of an operand is {size}",
        )
        fits = met is None or met * result.dimensions[d] == size
        require(fits, "C6", f"each group has {plural(met or 0, 'device')}, and {o.shape} cannot become {result} there")


def evaluate(instruction: Instruction, *operands: Array, run: Run, device: Device) -> Value:
    d = instruction.dimensions[0]
    met = device.exchange(instruction, operands)
    k = device.group(instruction).index(device.number)
    parts = [[np.split(v, len(met), axis=d)[k] for v in values] for values in zip(*met, strict=True)]
    return one_or_tuple([combined(instruction.to_apply, values, run) for values in parts])


_ADD = """add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }"""
EXAMPLES = (
    Example(
        f"""HloModule each_its_half, replica_count=2
        {_ADD}
        ENTRY main {{ x = f32[4] parameter(0)
                     ROOT r = f32[2] reduce-scatter(x), replica_groups={{{{0,1}}}}, dimensions={{0}},
                       to_apply=add }}""",
        ("f32[4] {1,2,3,4}", "f32[4] {10,20,30,40}"),
        ("f32[2] {11,22}", "f32[2] {33,44}"),
    ),
    Example(
        f"""HloModule parts_in_the_order_of_the_group, num_partitions=2
        {_ADD}
        ENTRY main {{ x = f32[1,2] parameter(0)
                     ROOT r = (f32[1,1], f32[1,1]) reduce-scatter(x, x), channel_id=1, replica_groups={{{{1,0}}}},
                       dimensions={{1}}, use_global_device_ids=true, to_apply=add }}""",
        ("f32[1,2] {{1,2}}", "f32[1,2] {{10,20}}"),
        ("f32[1,1] {{22}}", "f32[1,1] {{22}}", "f32[1,1] {{11}}", "f32[1,1] {{11}}"),
    ),
)
_BROKEN = """HloModule broken, replica_count=2
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[4] parameter(0)
                     t = token[] after-all()
                     n = s32[4] constant({1,2,3,4})
                     ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(f32[2], token[]) reduce-scatter(x, t), replica_groups={{0,1}}, dimensions={0}, to_apply=add }",
    "C2": _BROKEN + "f32[2] reduce-scatter(x), replica_groups={{0,1},{2}}, dimensions={0}, to_apply=add }",
    "C3": _BROKEN + "f32[2] reduce-scatter(x), dimensions={0}, use_global_device_ids=true, to_apply=add }",
    "C4": _BROKEN + "f32[1] reduce-scatter(x), replica_groups={{0,1,2}}, dimensions={0}, to_apply=add }",
    "C5": _BROKEN + "s32[2] reduce-scatter(n), replica_groups={{0,1}}, dimensions={0}, to_apply=add }",
    "C6": _BROKEN + "f32[4] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=add }",
    "C7": _BROKEN + "f32[1] reduce-scatter(x), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add }",
}
