"""The operand itself, at the border between two regions of a program that are placed on devices in different ways."""

from __future__ import annotations

from ..attributes import VERBATIM, Attribute
from ..module import Instruction
from ..operation import Example
from ..types import Shape, Value

INPUTS = {"operand": "any value"}
ATTRIBUTES = {"domain": Attribute(VERBATIM, "", "the kind of regions, and where the two sides are placed")}
CONSTRAINTS = {"C1": "the result has the shape of operand"}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    return operand


def evaluate(instruction: Instruction, operand: Value) -> Value:
    return operand


EXAMPLES = (
    Example(
        """x = f32[2] parameter(0)
           ROOT r = f32[2] domain(x), domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}""",
        ("f32[2] {1,2}",),
        ("f32[2] {1,2}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = f32[2] parameter(0)
             ROOT r = f32[3] domain(x), domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}""",
}
