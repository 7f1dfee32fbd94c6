"""The operands of all devices of a group, one after the other along one dimension: each member gets all of them.

    results[n] = concatenate(operands[n] of each member of this device's group, in its order), along dimensions[0]

With several operands each is gathered by itself, and the result is a tuple.
"""

from __future__ import annotations

import numpy as np

from ..attributes import INTS, REQUIRED, Attribute
from ..collectives import (
    ALL_NAMED_RULE,
    EQUAL_GROUPS_RULE,
    MODE_RULE,
    OF_REPLICAS,
    check_all_named,
    check_arrays,
    check_groups,
    check_mode,
    one_or_tuple,
)
from ..devices import Device
from ..errors import plural
from ..groups import Count, meeting
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape, Value

INPUTS = {"*operands": "arrays"}
ATTRIBUTES = {"dimensions": Attribute(INTS, REQUIRED, "the one dimension that grows"), **OF_REPLICAS}
CONSTRAINTS = {
    "C1": "there is at least one operand, and all are arrays",
    "C2": EQUAL_GROUPS_RULE,
    "C3": MODE_RULE,
    "C4": "dimensions is one dimension of the operands",
    "C5": "the result is the operand's shape with that dimension as many times as large as devices meet; for several "
    "operands a tuple of such shapes",
    "C6": ALL_NAMED_RULE,
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    stated = instruction.shape.elements if len(operands) > 1 else (instruction.shape,)
    return one_or_tuple(gathered(instruction, operands, stated))


def gathered(instruction: Instruction, operands: tuple[Shape, ...], stated: tuple[Shape, ...]) -> list[Shape]:
    """The shape of each operand's result. Where the instruction does not say how many devices meet, `stated` does."""
    check_arrays(operands, "C1")
    check_groups(instruction, "C2")
    check_mode(instruction, "C3")
    dimensions = instruction.dimensions
    fits = len(dimensions) == 1 and all(0 <= dimensions[0] < o.rank for o in operands)
    require(fits, "C4", f"dimensions is {dimensions}, the operands are ({', '.join(map(str, operands))})")
    count = meeting(instruction) or ratio(stated[:1], operands[:1], dimensions[0])
    return [scaled(o, dimensions[0], count) for o in operands]


def ratio(wide: tuple[Shape, ...], narrow: tuple[Shape, ...], d: int) -> int:
    """How many times as large dimension d of the first of `wide` is as that of `narrow`; 1 where that is no number."""
    if not wide or wide[0].rank <= d or not narrow[0].dimensions[d]:
        return 1
    return max(1, wide[0].dimensions[d] // narrow[0].dimensions[d])


def scaled(shape: Shape, d: int, count: int) -> Shape:
    """The shape with dimension d `count` times as large."""
    sizes = list(shape.dimensions)
    sizes[d] *= count
    return shape.with_dimensions(tuple(sizes))


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    check_gathered(instruction, replicas, partitions, instruction.shape.elements or (instruction.shape,))


def check_gathered(instruction: Instruction, replicas: Count, partitions: Count, results: tuple[Shape, ...]) -> None:
    """C6, and C5 for results of as many times the size as devices meet."""
    check_all_named(instruction, replicas, partitions, "C6")
    met, d = meeting(instruction, replicas, partitions), instruction.dimensions[0]
    for o, result in zip(instruction.operands, results, strict=True):
        fits = met is None or result.dimensions[d] == met * o.shape.dimensions[d]
        require(fits, "C5", f"each group has {plural(met or 0, 'device')}, and {o.shape} cannot become {result} there")


def evaluate(instruction: Instruction, *operands: Array, device: Device) -> Value:
    return one_or_tuple(gather(instruction, operands, device))


def gather(instruction: Instruction, operands: tuple[Array, ...], device: Device) -> list[Array]:
    """The operands of all members of the group, concatenated."""
    d = instruction.dimensions[0]
    met = device.exchange(instruction, operands)
    return [np.concatenate(values, axis=d) for values in zip(*met, strict=True)]


EXAMPLES = (
    Example(
        """HloModule rows_of_all, replica_count=2
        ENTRY main { x = f32[1,2] parameter(0)
                     ROOT r = f32[2,2] all-gather(x), replica_groups={{0,1}}, dimensions={0} }""",
        ("f32[1,2] {{1,2}}", "f32[1,2] {{3,4}}"),
        ("f32[2,2] {{1,2},{3,4}}",) * 2,
    ),
    Example(
        """HloModule in_the_order_of_the_group, num_partitions=3
        ENTRY main { x = s32[1] parameter(0)
                     y = s8[1,2] parameter(1)
                     ROOT r = (s32[3], s8[3,2]) all-gather(x, y), channel_id=1, replica_groups={{2,0,1}},
                       dimensions={0}, use_global_device_ids=true }""",
        ("s32[1] {0}", "s8[1,2] {{0,0}}", "s32[1] {1}", "s8[1,2] {{1,1}}", "s32[1] {2}", "s8[1,2] {{2,-2}}"),
        ("s32[3] {2,0,1}", "s8[3,2] {{2,-2},{0,0},{1,1}}") * 3,
    ),
    Example(
        """HloModule of_one_device
        ENTRY main { x = f32[2] parameter(0)
                     ROOT r = f32[2] all-gather(x), replica_groups={{0}}, dimensions={0} }""",
        ("f32[2] {1,2}",),
        ("f32[2] {1,2}",),
    ),
)
_BROKEN = "t = token[] after-all()\nx = f32[2] parameter(0)\nROOT r = "
_ON_TWO = f"HloModule broken, replica_count=2\nENTRY main {{ {_BROKEN}"
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(f32[4], token[]) all-gather(x, t), replica_groups={{0,1}}, dimensions={0}",
    "C2": _BROKEN + "f32[4] all-gather(x), replica_groups={{0,1},{2}}, dimensions={0}",
    "C3": _BROKEN + "f32[4] all-gather(x), dimensions={0}, channel_id=1, use_global_device_ids=true",
    "C4": _BROKEN + "f32[4] all-gather(x), replica_groups={{0,1}}, dimensions={1}",
    "C5": _BROKEN + "f32[6] all-gather(x), replica_groups={{0,1}}, dimensions={0}",
    "C6": _ON_TWO + "f32[6] all-gather(x), replica_groups={{0,1,2}}, dimensions={0} }",
}
