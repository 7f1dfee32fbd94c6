"""The result of an all-reduce that an all-reduce-start began."""

from __future__ import annotations

from ..module import Instruction
from ..operation import require
from ..types import Shape, Value
from . import all_reduce_start

INPUTS = {"operand": "the all-reduce-start"}
CONSTRAINTS = {"C1": "operand is an all-reduce-start", "C2": "the result has the shape of operand"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    opcode = instruction.operands[0].opcode
    require(opcode == "all-reduce-start", "C1", f"the operand is {opcode}")
    return operand


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand


EXAMPLES = all_reduce_start.EXAMPLES
_BROKEN = """HloModule broken
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[2] parameter(0)
                     s = f32[2] all-reduce-start(x), replica_groups={{0,1}}, to_apply=add
                     """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "ROOT r = f32[2] all-reduce-done(x) }",
    "C2": _BROKEN + "ROOT r = f32[1,2] all-reduce-done(s) }",
}
