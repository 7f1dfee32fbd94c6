"""A value that the program states.

In text the value stands where operands would: `constant({1, 2, inf})`. Floating-point numbers are rounded to the
nearest value of the element type; integers must fit it.
"""

from ..attributes import LITERAL, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value

INPUTS: dict[str, str] = {}
ATTRIBUTES = {"literal": Attribute(LITERAL, REQUIRED, "the value")}
CONSTRAINTS = {"C1": "the literal has the shape of the result"}


def infer(instruction: Instruction) -> Shape:
    shape = Shape.of(instruction.literal)
    require(instruction.shape.compatible(shape), "C1", f"the literal is {shape}, the result {instruction.shape}")
    return instruction.shape


def evaluate(instruction: Instruction) -> Value:
    return instruction.literal


EXAMPLES = (
    Example("ROOT c = f32[4] constant({-0, inf, nan, 1e-45})", (), ("f32[4] {-0, inf, nan, 1e-45}",)),
    Example("ROOT c = s8[2,1] constant({{-128}, {127}})", (), ("s8[2,1] {{-128}, {127}}",)),
    Example("ROOT c = bf16[] constant(1.00390625)", (), ("bf16[] 1",), "a tie is rounded to even"),
)

COUNTEREXAMPLES = {
    "C1": "ROOT r = f32[2] constant({1, 2, 3})",
}
