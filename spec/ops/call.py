"""The result of a computation on the operands.

The operation is `to_apply(arguments...)`: nothing else happens.
"""

from __future__ import annotations

from ..attributes import BOOL, COMPUTATION, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value
from ..vectorize import Run

INPUTS = {"*arguments": "one value for each parameter of the computation"}
ATTRIBUTES = {
    "to_apply": Attribute(COMPUTATION, REQUIRED, "the computation"),
    "is_composite": Attribute(BOOL, False, "whether the call stands for one named operation; no change of meaning"),
}
CONSTRAINTS = {
    "C1": "the operands have the shapes of the computation's parameters, in number and in order",
    "C2": "the result has the shape of the computation's root",
}


def infer(instruction: Instruction, *arguments: Shape) -> Shape:
    called = instruction.to_apply
    parameters = [p.shape for p in called.parameters]
    fits = len(parameters) == len(arguments) and all(
        t.compatible(a) for t, a in zip(parameters, arguments, strict=True)
    )
    text = ", ".join(map(str, arguments))
    require(fits, "C1", f"{called.name} takes ({', '.join(map(str, parameters))}) and is given ({text})")
    return called.root.shape


def evaluate(instruction: Instruction, *arguments: Value, run: Run) -> Value:
    return run(instruction.to_apply, *arguments)


EXAMPLES = (
    Example(
        """HloModule square_of_three
        square { x = f32[2] parameter(0)
                 ROOT y = f32[2] multiply(x, x) }
        ENTRY main { x = f32[2] parameter(0)
                     ROOT r = f32[2] call(x), to_apply=square }""",
        ("f32[2] {3,-2}",),
        ("f32[2] {9,4}",),
    ),
)

_TWICE = """HloModule counterexample
    twice { x = f32[2] parameter(0)
            ROOT y = f32[2] add(x, x) }
"""

COUNTEREXAMPLES = {
    "C1": _TWICE
    + """ENTRY main { x = f32[3] parameter(0)
                      ROOT r = f32[2] call(x), to_apply=twice }""",
    "C2": _TWICE
    + """ENTRY main { x = f32[2] parameter(0)
                      ROOT r = f32[3] call(x), to_apply=twice }""",
}
