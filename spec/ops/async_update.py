"""A point between async-start and async-done; the value passes as it is."""

from __future__ import annotations

from ..attributes import COMPUTATION, STRING, Attribute
from ..collectives import check_begun
from ..module import Instruction
from ..types import Shape, Value
from . import async_start

INPUTS = {"operand": "the async-start, or another async-update"}
ATTRIBUTES = {
    "calls": Attribute(COMPUTATION, None, "the computation, in older texts; the async-start names it"),
    "async_execution_thread": Attribute(
        STRING, None, "the thread of an implementation that runs it, if not the main one"
    ),
}
CONSTRAINTS = {"C1": "operand is an async-start or an async-update", "C2": "the result has the shape of operand"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    check_begun(instruction, operand, ("async-start", "async-update"), 2, "C1")
    return operand


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand


EXAMPLES = async_start.EXAMPLES[:1]
_BROKEN = """x = f32[2] parameter(0)
             y = ((f32[2]), f32[2]) parameter(1)
             s = ((f32[2]), f32[2]) negate-start(x)
             ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "((f32[2]), f32[2]) async-update(y)",
    "C2": _BROKEN + "((f32[2]), f32[2], u32[]) async-update(s)",
}
