"""Apply a computation again and again, for as long as a condition on its result holds.

    value = init; while condition(value): value = body(value); the result is value

A condition that never turns false never ends.
"""

from __future__ import annotations

from ..attributes import COMPUTATION, REQUIRED, Attribute
from ..module import Instruction
from ..operation import Example, require
from ..types import PRED, Shape, Value
from ..vectorize import Run

INPUTS = {"init": "any value, in most programs a tuple"}
ATTRIBUTES = {
    "condition": Attribute(COMPUTATION, REQUIRED, "takes the value, says whether to go on: pred[]"),
    "body": Attribute(COMPUTATION, REQUIRED, "takes the value, gives the next one"),
}
CONSTRAINTS = {
    "C1": "the condition takes one parameter of the value's shape and gives pred[]",
    "C2": "the body takes one parameter of the value's shape and gives that shape",
    "C3": "the result has the shape of init",
}


def infer(instruction: Instruction, init: Shape) -> Shape:
    for label, called, result in (("C1", instruction.condition, Shape(PRED)), ("C2", instruction.body, init)):
        parameters = [p.shape for p in called.parameters]
        fits = len(parameters) == 1 and parameters[0].compatible(init)
        require(fits, label, f"{called.name} takes {', '.join(map(str, parameters)) or 'nothing'}; the value is {init}")
        shape = called.root.shape
        require(shape.compatible(result), label, f"{called.name} gives {shape}, not {result}")
    return init


def evaluate(instruction: Instruction, value: Value, *, run: Run) -> Value:
    while run(instruction.condition, value):
        value = run(instruction.body, value)
    return value


EXAMPLES = (
    Example(
        """HloModule double_until_large
        body { x = s32[] parameter(0)
               ROOT y = s32[] add(x, x) }
        condition { x = s32[] parameter(0)
                    limit = s32[] constant(100)
                    ROOT p = pred[] compare(x, limit), direction=LT }
        ENTRY main { x = s32[] parameter(0)
                     ROOT r = s32[] while(x), condition=condition, body=body }""",
        ("s32[] 3",),
        ("s32[] 192",),
    ),
    Example(
        """HloModule dynamic
        body { x = s32[<=4] parameter(0)
               n = s32[] get-dimension-size(x), dimensions={0}
               one = s32[] constant(1)
               m = s32[] subtract(n, one)
               ROOT y = s32[<=4] set-dimension-size(x, m), dimensions={0} }
        condition { x = s32[<=4] parameter(0)
                    n = s32[] get-dimension-size(x), dimensions={0}
                    one = s32[] constant(1)
                    ROOT p = pred[] compare(n, one), direction=GT }
        ENTRY main { x = s32[<=4] parameter(0)
                     ROOT r = s32[<=4] while(x), condition=condition, body=body }""",
        ("s32[3] {1,2,3}",),
        ("s32[1] {1}",),
        "the size changes from turn to turn",
    ),
)

_COMPUTATIONS = """HloModule counterexample
    twice { x = s32[] parameter(0)
            ROOT y = s32[] add(x, x) }
    is_small { x = s32[] parameter(0)
               limit = s32[] constant(100)
               ROOT y = pred[] compare(x, limit), direction=LT }
"""

COUNTEREXAMPLES = {
    "C1": _COMPUTATIONS
    + """ENTRY main { x = s32[] parameter(0)
                      ROOT r = s32[] while(x), condition=twice, body=twice }""",
    "C2": _COMPUTATIONS
    + """ENTRY main { x = s32[] parameter(0)
                      ROOT r = s32[] while(x), condition=is_small, body=is_small }""",
    "C3": _COMPUTATIONS
    + """ENTRY main { x = s32[] parameter(0)
                      ROOT r = s64[] while(x), condition=is_small, body=twice }""",
}
