"""The copy that a copy-start began: the first element of its tuple."""

from __future__ import annotations

from ..collectives import check_begun
from ..module import Instruction
from ..types import Shape, Value
from . import copy_start

INPUTS = {"operand": "the copy-start"}
CONSTRAINTS = {"C1": "operand is a copy-start", "C2": "the result has the shape of its first element"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    check_begun(instruction, operand, ("copy-start",), 1, "C1")
    return operand.elements[0]


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand[0]


EXAMPLES = copy_start.EXAMPLES
_BROKEN = """x = f32[2] parameter(0)
             y = (f32[2], f32[2], u32[]) parameter(1)
             s = (f32[2], f32[2], u32[]) copy-start(x)
             ROOT r = """
COUNTEREXAMPLES = {"C1": _BROKEN + "f32[2] copy-done(y)", "C2": _BROKEN + "f32[3] copy-done(s)"}
