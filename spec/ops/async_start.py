"""Begins a computation that runs while other instructions do; async-done gives its result.

    result = ((operands...), calls(operands...), contexts...)

Contexts are integers that an implementation keeps there: here they are 0. (In short text the opcode of the one
operation that the computation holds stands in the place of async, as in slice-start: see asynchronous.py.) When it
is computed does not show in its value; here that is at once. Its collectives meet those of the same computation on
other devices.
"""

from __future__ import annotations

from ..attributes import COMPUTATION, REQUIRED, STRING, VERBATIM, Attribute
from ..collectives import contexts, started
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value
from ..vectorize import Run

INPUTS = {"*operands": "one value for each parameter of the computation"}
ATTRIBUTES = {
    "calls": Attribute(COMPUTATION, REQUIRED, "the computation"),
    "output_to_operand_aliasing": Attribute(VERBATIM, "", "which results may live in which operand's memory"),
    "async_execution_thread": Attribute(
        STRING, None, "the thread of an implementation that runs it, if not the main one"
    ),
}
CONSTRAINTS = {
    "C1": "the operands have the shapes of the computation's parameters, in number and in order",
    "C2": "contexts are scalars of integers",
    "C3": "the result is a tuple of the operands, as a tuple, of the computation's result, and of contexts",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    called = instruction.calls
    parameters = [p.shape for p in called.parameters]
    fits = len(parameters) == len(operands) and all(t.compatible(o) for t, o in zip(parameters, operands, strict=True))
    text = ", ".join(map(str, operands))
    require(fits, "C1", f"{called.name} takes ({', '.join(map(str, parameters))}) and is given ({text})")
    return Shape.tuple_of(Shape.tuple_of(*operands), called.root.shape, *contexts(instruction, 2, "C2"))


def evaluate(instruction: Instruction, *operands: Value, run: Run) -> Value:
    return started(instruction, operands, run(instruction.calls, *operands))


EXAMPLES = (
    Example(
        """HloModule begun_and_ended
        twice { x = f32[2] parameter(0)
                ROOT y = f32[2] add(x, x) }
        ENTRY main { x = f32[2] parameter(0)
                     s = ((f32[2]), f32[2], u32[]) async-start(x), calls=twice
                     u = ((f32[2]), f32[2], u32[]) async-update(s)
                     ROOT r = f32[2] async-done(u) }""",
        ("f32[2] {3,-2}",),
        ("f32[2] {6,-4}",),
    ),
    Example(
        """x = f32[4] parameter(0)
           s = ((f32[4]), f32[2]) slice-start(x), slice={[1:3]}
           ROOT r = f32[2] slice-done(s)""",
        ("f32[4] {1,2,3,4}",),
        ("f32[2] {2,3}",),
        "in short",
    ),
)
_BROKEN = """HloModule broken
        twice { x = f32[2] parameter(0)
                ROOT y = f32[2] add(x, x) }
        ENTRY main { x = f32[2] parameter(0)
                     ROOT s = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "((f32[2], f32[2]), f32[2]) async-start(x, x), calls=twice }",
    "C2": _BROKEN + "((f32[2]), f32[2], f32[]) async-start(x), calls=twice }",
    "C3": _BROKEN + "((f32[2]), f32[3], u32[]) async-start(x), calls=twice }",
}
