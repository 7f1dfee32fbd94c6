"""The result of a collective-permute that collective-permute-start began: the second element of its tuple."""

from __future__ import annotations

from ..collectives import check_begun
from ..module import Instruction
from ..types import Shape, Value
from . import collective_permute_start

INPUTS = {"operand": "the collective-permute-start"}
CONSTRAINTS = {"C1": "operand is a collective-permute-start", "C2": "the result has the shape of its second element"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    check_begun(instruction, operand, ("collective-permute-start",), 2, "C1")
    return operand.elements[1]


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand[1]


EXAMPLES = collective_permute_start.EXAMPLES
_BROKEN = """x = f32[1] parameter(0)
             y = (f32[1], f32[1]) parameter(1)
             s = (f32[1], f32[1]) collective-permute-start(x), source_target_pairs={{0,1}}
             ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "f32[1] collective-permute-done(y)",
    "C2": _BROKEN + "f32[2] collective-permute-done(s)",
}
