"""The result of an all-gather that all-gather-start began: the second element of its tuple."""

from __future__ import annotations

from ..collectives import check_begun
from ..module import Instruction
from ..types import Shape, Value
from . import all_gather_start

INPUTS = {"operand": "the all-gather-start"}
CONSTRAINTS = {"C1": "operand is an all-gather-start", "C2": "the result has the shape of its second element"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    check_begun(instruction, operand, ("all-gather-start",), 2, "C1")
    return operand.elements[1]


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand[1]


EXAMPLES = all_gather_start.EXAMPLES
_BROKEN = """x = f32[1] parameter(0)
             y = (f32[1], f32[2]) parameter(1)
             s = (f32[1], f32[2]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}
             ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "f32[2] all-gather-done(y)",
    "C2": _BROKEN + "f32[1] all-gather-done(s)",
}
