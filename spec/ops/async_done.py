"""The result of a computation that an async-start began: the second element of its tuple."""

from __future__ import annotations

from ..collectives import check_begun
from ..module import Instruction
from ..types import Shape, Value
from . import async_start
from .async_update import ATTRIBUTES

__all__ = ["ATTRIBUTES", "CONSTRAINTS", "COUNTEREXAMPLES", "EXAMPLES", "INPUTS", "evaluate", "infer"]

INPUTS = {"operand": "the async-start, or an async-update"}
CONSTRAINTS = {
    "C1": "operand is an async-start or an async-update",
    "C2": "the result has the shape of its second element",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    check_begun(instruction, operand, ("async-start", "async-update"), 2, "C1")
    return operand.elements[1]


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand[1]


EXAMPLES = async_start.EXAMPLES
_BROKEN = """x = f32[2] parameter(0)
             y = ((f32[2]), f32[2]) parameter(1)
             s = ((f32[2]), f32[2]) negate-start(x)
             ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "f32[2] async-done(y)",
    "C2": _BROKEN + "f32[3] async-done(s)",
}
