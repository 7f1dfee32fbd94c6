"""The first half of a collective-permute that runs while others do; collective-permute-done gives its result.

    result = (operand, collective-permute(operand), contexts...)

For several operands the first two are tuples; with slice_sizes the first is input. Contexts are integers that an
implementation keeps there: here they are 0.
"""

from __future__ import annotations

from ..collectives import contexts, one_or_tuple, started
from ..devices import Device
from ..groups import Count
from ..module import Instruction
from ..operation import Example
from ..types import Shape, Value
from . import collective_permute
from .collective_permute import ATTRIBUTES, INPUTS

__all__ = ["ATTRIBUTES", "CONSTRAINTS", "COUNTEREXAMPLES", "EXAMPLES", "INPUTS", "check_devices", "evaluate", "infer"]

CONSTRAINTS = {
    **{label: rule for label, rule in collective_permute.CONSTRAINTS.items() if label < "C4"},
    "C4": "contexts are scalars of integers",
    "C5": "the result is a tuple of the operand, of what collective-permute makes of it, and of contexts",
    "C6": collective_permute.CONSTRAINTS["C5"],
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    arriving = one_or_tuple(collective_permute.permuted(instruction, operands))
    sent = operands[:1] if instruction.slice_sizes else operands
    return Shape.tuple_of(one_or_tuple(sent), arriving, *contexts(instruction, 2, "C4"))


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    collective_permute.check_pairs(instruction, replicas, partitions, "C6")


def evaluate(instruction: Instruction, *operands: Value, device: Device) -> Value:
    arrived = one_or_tuple(collective_permute.permute(instruction, operands, device))
    sent = operands[:1] if instruction.slice_sizes else operands
    return started(instruction, one_or_tuple(sent), arrived)


EXAMPLES = (
    Example(
        """HloModule around, replica_count=3
        ENTRY main { x = s32[1] parameter(0)
                     s = (s32[1], s32[1], u32[], u32[]) collective-permute-start(x),
                       source_target_pairs={{0,1},{1,2},{2,0}}
                     ROOT r = s32[1] collective-permute-done(s) }""",
        ("s32[1] {10}", "s32[1] {11}", "s32[1] {12}"),
        ("s32[1] {12}", "s32[1] {10}", "s32[1] {11}"),
    ),
    Example(
        """HloModule two_at_once, num_partitions=2
        ENTRY main { x = s32[1] parameter(0)
                     y = s32[] parameter(1)
                     s = ((s32[1], s32[]), (s32[1], s32[])) collective-permute-start(x, y), channel_id=1,
                       source_target_pairs={{1,0}}
                     ROOT r = (s32[1], s32[]) collective-permute-done(s) }""",
        ("s32[1] {1}", "s32[] 2", "s32[1] {3}", "s32[] 4"),
        ("s32[1] {3}", "s32[] 4", "s32[1] {0}", "s32[] 0"),
    ),
)
_BROKEN = """t = token[] after-all()
             x = f32[2] parameter(0)
             zero = s32[] constant(0)
             i = (s32[]) tuple(zero)
             ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(token[], token[]) collective-permute-start(t), source_target_pairs={{0,1}}",
    "C2": _BROKEN + "(f32[2], f32[2]) collective-permute-start(x), source_target_pairs={{0,1},{2,1}}",
    "C3": _BROKEN
    + "(f32[2], f32[2]) collective-permute-start(x, x, i, i), source_target_pairs={{0,1}}, slice_sizes={{3}}",
    "C4": _BROKEN + "(f32[2], f32[2], f32[]) collective-permute-start(x), source_target_pairs={{0,1}}",
    "C5": _BROKEN + "f32[2] collective-permute-start(x), source_target_pairs={{0,1}}",
    "C6": f"HloModule broken, replica_count=2\nENTRY main {{ {_BROKEN}"
    "(f32[2], f32[2]) collective-permute-start(x), source_target_pairs={{0,1},{1,2}} }",
}
