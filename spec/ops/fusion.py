"""The result of a computation on the operands, which an implementation means to compute in one kernel.

The meaning is that of `call`: calls(operands...). `kind` tells how the fusion was formed.
"""

from __future__ import annotations

from ..attributes import COMPUTATION, ENUM, REQUIRED, VERBATIM, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value
from ..vectorize import Run

KINDS = ("kLoop", "kInput", "kOutput", "kCustom")
INPUTS = {"*operands": "one value for each parameter of the computation"}
ATTRIBUTES = {
    "kind": Attribute(ENUM, REQUIRED, "kLoop, kInput, kOutput or kCustom"),
    "calls": Attribute(COMPUTATION, REQUIRED, "the computation"),
    "output_to_operand_aliasing": Attribute(VERBATIM, "", "which results may live in which operand's memory"),
}
CONSTRAINTS = {
    "C1": "the operands have the shapes of the computation's parameters, in number and in order",
    "C2": "kind is kLoop, kInput, kOutput or kCustom",
    "C3": "the result has the shape of the computation's root",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    called = instruction.calls
    parameters = [p.shape for p in called.parameters]
    fits = len(parameters) == len(operands) and all(t.compatible(o) for t, o in zip(parameters, operands, strict=True))
    text = ", ".join(map(str, operands))
    require(fits, "C1", f"{called.name} takes ({', '.join(map(str, parameters))}) and is given ({text})")
    require(instruction.kind in KINDS, "C2", f"kind is {instruction.kind}")
    return called.root.shape


def evaluate(instruction: Instruction, *operands: Value, run: Run) -> Value:
    return run(instruction.calls, *operands)


EXAMPLES = (
    Example(
        """HloModule multiply_and_add
        fused { x = f32[2] parameter(0)
                y = f32[2] parameter(1)
                p = f32[2] multiply(x, y)
                ROOT r = f32[2] add(p, x) }
        ENTRY main { x = f32[2] parameter(0)
                     y = f32[2] parameter(1)
                     ROOT r = f32[2] fusion(x, y), kind=kLoop, calls=fused }""",
        ("f32[2] {1,2}", "f32[2] {3,4}"),
        ("f32[2] {4,10}",),
    ),
)

_TWICE = """HloModule counterexample
    twice { x = f32[2] parameter(0)
            ROOT y = f32[2] add(x, x) }
"""

COUNTEREXAMPLES = {
    "C1": _TWICE
    + """ENTRY main { x = f32[3] parameter(0)
                      ROOT r = f32[2] fusion(x), kind=kLoop, calls=twice }""",
    "C2": _TWICE
    + """ENTRY main { x = f32[2] parameter(0)
                      ROOT r = f32[2] fusion(x), kind=kLop, calls=twice }""",
    "C3": _TWICE
    + """ENTRY main { x = f32[2] parameter(0)
                      ROOT r = f32[3] fusion(x), kind=kLoop, calls=twice }""",
}
