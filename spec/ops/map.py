"""A scalar computation applied to the elements of arrays, at each index.

    result[i..] = to_apply(operands[i..] ...)

The result has the element type that to_apply gives.
"""

from __future__ import annotations

from ..attributes import COMPUTATION, INTS, REQUIRED, Attribute
from ..dynamic import marked, meet
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape
from ..vectorize import Run, run_vectorized

INPUTS = {"*operands": "arrays of equal dimensions"}
ATTRIBUTES = {
    "dimensions": Attribute(INTS, (), "all dimensions of the operands, in order, or nothing"),
    "to_apply": Attribute(COMPUTATION, REQUIRED, "takes one scalar for each operand, gives a scalar"),
}
CONSTRAINTS = {
    "C1": "there is at least one operand, and all have the same dimensions",
    "C2": "dimensions, if there are any, are 0, 1, ... up to the rank of the operands",
    "C3": "to_apply takes a scalar of each operand's type and gives a scalar",
    "C4": "the result has the dimensions of the operands and the element type that to_apply gives",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    text = ", ".join(map(str, operands))
    require(len({o.dimensions for o in operands}) == 1, "C1", f"the operands are ({text})")
    dimensions = instruction.dimensions
    fits = dimensions in ((), tuple(range(operands[0].rank)))
    require(fits, "C2", f"dimensions is {dimensions}, the operands are ({text})")
    called = instruction.to_apply
    parameters = [p.shape for p in called.parameters]
    fits = len(parameters) == len(operands) and called.root.shape.is_scalar
    fits = fits and all(t.compatible(Shape(o.element_type)) for t, o in zip(parameters, operands, strict=True))
    takes = ", ".join(map(str, parameters))
    require(fits, "C3", f"{called.name} takes ({takes}) and gives {called.root.shape}; the operands are ({text})")
    return marked(called.root.shape.element_type, operands[0].dimensions, operands[0].marks)


def evaluate(instruction: Instruction, *operands: Array, run: Run) -> Array:
    return run_vectorized(instruction.to_apply, *meet(operands), run=run)


EXAMPLES = (
    Example(
        """HloModule squares_plus_one
        f { x = s32[] parameter(0)
            one = s32[] constant(1)
            y = s32[] multiply(x, x)
            ROOT z = s32[] add(y, one) }
        ENTRY main { x = s32[3] parameter(0)
                     ROOT r = s32[3] map(x), dimensions={0}, to_apply=f }""",
        ("s32[3] {1,2,3}",),
        ("s32[3] {2,5,10}",),
    ),
    Example(
        """HloModule dynamic
        square { x = s32[] parameter(0)
                 ROOT y = s32[] multiply(x, x) }
        ENTRY main { x = s32[<=3] parameter(0)
                     ROOT r = s32[<=3] map(x), dimensions={0}, to_apply=square }""",
        ("s32[2] {2,3}",),
        ("s32[2] {4,9}",),
    ),
)

_ADD = """HloModule counterexample
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
"""

COUNTEREXAMPLES = {
    "C1": _ADD
    + """ENTRY main { x = f32[2] parameter(0)
                      y = f32[3] parameter(1)
                      ROOT r = f32[2] map(x, y), dimensions={0}, to_apply=add }""",
    "C2": _ADD
    + """ENTRY main { x = f32[2,2] parameter(0)
                      y = f32[2,2] parameter(1)
                      ROOT r = f32[2,2] map(x, y), dimensions={1,0}, to_apply=add }""",
    "C3": _ADD
    + """ENTRY main { x = f32[2] parameter(0)
                      y = s32[2] parameter(1)
                      ROOT r = f32[2] map(x, y), dimensions={0}, to_apply=add }""",
    "C4": _ADD
    + """ENTRY main { x = f32[2] parameter(0)
                      y = f32[2] parameter(1)
                      ROOT r = s32[2] map(x, y), dimensions={0}, to_apply=add }""",
}
