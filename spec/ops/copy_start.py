"""The first half of a copy that runs while other instructions do; copy-done gives its result.

    result = (copy(operand), operand, context)

The context is an integer that an implementation keeps there: here it is 0.
"""

from __future__ import annotations

from ..attributes import INT, Attribute
from ..collectives import CONTEXT, started
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value

INPUTS = {"operand": "an array"}
ATTRIBUTES = {
    "cross_program_prefetch_index": Attribute(INT, None, "of the prefetches from one run to the next, which this is"),
}
CONSTRAINTS = {"C1": "operand is an array", "C2": "the result is a tuple of twice the shape of operand and u32[]"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    require(operand.is_array, "C1", f"the operand is {operand}")
    return Shape.tuple_of(operand, operand, CONTEXT)


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return started(instruction, operand, operand)


EXAMPLES = (
    Example(
        """x = f32[2] parameter(0)
           s = (f32[2], f32[2], u32[]) copy-start(x)
           ROOT r = f32[2] copy-done(s)""",
        ("f32[2] {1,-0}",),
        ("f32[2] {1,-0}",),
    ),
)
_BROKEN = "x = f32[2] parameter(0)\nt = token[] after-all()\nROOT r = "
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(token[], token[], u32[]) copy-start(t)",
    "C2": _BROKEN + "(f32[2], f32[2]) copy-start(x)",
}
