"""The first half of an all-gather that runs while other instructions do; all-gather-done gives its result.

result = (operand, all-gather(operand)), or for several operands (operands, all-gather(operands)), both as tuples
"""

from __future__ import annotations

from ..collectives import one_or_tuple
from ..devices import Device
from ..groups import Count
from ..module import Instruction
from ..operation import Example
from ..types import Array, Shape, Value
from . import all_gather
from .all_gather import ATTRIBUTES, INPUTS

__all__ = ["ATTRIBUTES", "CONSTRAINTS", "COUNTEREXAMPLES", "EXAMPLES", "INPUTS", "check_devices", "evaluate", "infer"]

CONSTRAINTS = {
    **{label: rule for label, rule in all_gather.CONSTRAINTS.items() if label < "C5"},
    "C5": "the result is a tuple of the operand and of what all-gather makes of it, each a tuple for several operands",
    "C6": all_gather.CONSTRAINTS["C6"],
}


def _results(instruction: Instruction, count: int) -> tuple[Shape, ...]:
    """The results that are stated for `count` operands."""
    stated = instruction.shape.elements[1:2]
    return stated[0].elements if stated and count > 1 else stated


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    gathered = all_gather.gathered(instruction, operands, _results(instruction, len(operands)))
    return Shape.tuple_of(one_or_tuple(operands), one_or_tuple(gathered))


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    all_gather.check_gathered(instruction, replicas, partitions, _results(instruction, len(instruction.operands)))


def evaluate(instruction: Instruction, *operands: Array, device: Device) -> Value:
    return one_or_tuple(operands), one_or_tuple(all_gather.gather(instruction, operands, device))


EXAMPLES = (
    Example(
        """HloModule begun_and_ended, replica_count=2
        ENTRY main { x = f32[1] parameter(0)
                     s = (f32[1], f32[2]) all-gather-start(x), replica_groups={{1,0}}, dimensions={0}
                     ROOT r = f32[2] all-gather-done(s) }""",
        ("f32[1] {1}", "f32[1] {2}"),
        ("f32[2] {2,1}",) * 2,
    ),
    Example(
        """HloModule two_at_once, num_partitions=2
        ENTRY main { x = f32[1] parameter(0)
                     s = ((f32[1], f32[1]), (f32[2], f32[2])) all-gather-start(x, x), channel_id=1, replica_groups={},
                       dimensions={0}
                     ROOT r = (f32[2], f32[2]) all-gather-done(s) }""",
        ("f32[1] {1}", "f32[1] {2}"),
        ("f32[2] {1,2}", "f32[2] {1,2}") * 2,
    ),
)
_BROKEN = "t = token[] after-all()\nx = f32[2] parameter(0)\nROOT r = "
_ON_TWO = f"HloModule broken, replica_count=2\nENTRY main {{ {_BROKEN}"
COUNTEREXAMPLES = {
    "C1": _BROKEN + "((f32[2], token[]), (f32[4], token[])) all-gather-start(x, t), dimensions={0}",
    "C2": _BROKEN + "(f32[2], f32[4]) all-gather-start(x), replica_groups={{0,1},{2}}, dimensions={0}",
    "C3": _BROKEN + "(f32[2], f32[4]) all-gather-start(x), dimensions={0}, channel_id=1, use_global_device_ids=true",
    "C4": _BROKEN + "(f32[2], f32[4]) all-gather-start(x), replica_groups={{0,1}}, dimensions={1}",
    "C5": _BROKEN + "f32[4] all-gather-start(x), replica_groups={{0,1}}, dimensions={0}",
    "C6": _ON_TWO + "(f32[2], f32[6]) all-gather-start(x), replica_groups={{0,1,2}}, dimensions={0} }",
}
