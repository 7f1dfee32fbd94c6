"""Arrays sorted along one dimension by a comparator, all of them in the order that it finds.

Along `dimensions`, for each index in the other dimensions, the N operands are a list of N-tuples. The result has the
same tuples in an order in which to_apply(next, previous) is false for all neighbours, where

    to_apply(a0, b0, a1, b1, ...) says whether the tuple (a0, a1, ..) comes before (b0, b1, ..)

It must be a strict weak order. Tuples of which neither comes before the other keep their order if is_stable; here
they always do.
"""

from __future__ import annotations

import numpy as np

from ..attributes import BOOL, COMPUTATION, INTS, REQUIRED, Attribute
from ..dynamic import marked, meet
from ..module import Instruction
from ..operation import Example, require
from ..sorting import sorted_order
from ..types import PRED, Array, Shape, Value
from ..vectorize import Run

INPUTS = {"*operands": "N arrays of equal dimensions"}
ATTRIBUTES = {
    "dimensions": Attribute(INTS, REQUIRED, "the one dimension to sort along"),
    "is_stable": Attribute(BOOL, False, "whether equals keep their order"),
    "to_apply": Attribute(COMPUTATION, REQUIRED, "takes N pairs of scalars, gives pred[]"),
}
CONSTRAINTS = {
    "C1": "there is at least one operand, and all have the same dimensions",
    "C2": "dimensions is one dimension of the operands",
    "C3": "to_apply takes two scalars of each operand's type, operand by operand, and gives pred[]",
    "C4": "the result has the shape of the operand, or is the tuple of their shapes if there are several",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    text = ", ".join(map(str, operands))
    require(len({o.dimensions for o in operands}) == 1, "C1", f"the operands are ({text})")
    dims = instruction.dimensions
    require(len(dims) == 1 and 0 <= dims[0] < operands[0].rank, "C2", f"dimensions is {dims}; operands ({text})")
    parameters, result = [p.shape for p in instruction.to_apply.parameters], instruction.to_apply.root.shape
    pairs = [Shape(o.element_type) for o in operands for _ in range(2)]
    fits = len(parameters) == len(pairs) and all(t.compatible(p) for t, p in zip(parameters, pairs, strict=True))
    fits = fits and result.compatible(Shape(PRED))
    signature = f"{instruction.to_apply.name} takes ({', '.join(map(str, parameters))}) and gives {result}"
    require(fits, "C3", f"{signature}; the operands are ({text})")
    results = tuple(marked(o.element_type, o.dimensions, o.marks) for o in operands)
    return results[0] if len(results) == 1 else Shape.tuple_of(*results)


def evaluate(instruction: Instruction, *operands: Array, run: Run) -> Value:
    (dimension,) = instruction.dimensions
    rows = [np.moveaxis(o, dimension, -1) for o in meet(operands)]
    shape = rows[0].shape
    flat = [r.reshape(-1, shape[-1]) if r.size else r.reshape(0, shape[-1]) for r in rows]
    order = sorted_order(instruction.to_apply, flat, run)
    arrays = [np.take_along_axis(f, order, axis=1).reshape(shape) for f in flat]
    results = tuple(np.moveaxis(t, -1, dimension) for t in arrays)
    return results[0] if len(results) == 1 else results


EXAMPLES = (
    Example(
        """HloModule by_key
        less { a = s32[] parameter(0)
               b = s32[] parameter(1)
               x = f32[] parameter(2)
               y = f32[] parameter(3)
               ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY main { k = s32[4] parameter(0)
                     v = f32[4] parameter(1)
                     ROOT r = (s32[4], f32[4]) sort(k, v), dimensions={0}, is_stable=true, to_apply=less }""",
        ("s32[4] {3,1,3,-2}", "f32[4] {10,20,30,40}"),
        ("s32[4] {-2,1,3,3}", "f32[4] {40,20,10,30}"),
        "values follow their keys; equals keep their order",
    ),
    Example(
        """HloModule descending
        greater { a = f32[] parameter(0)
                  b = f32[] parameter(1)
                  ROOT c = pred[] compare(a, b), direction=GT, order=TOTAL }
        ENTRY main { x = f32[5,1] parameter(0)
                     ROOT r = f32[5,1] sort(x), dimensions={0}, to_apply=greater }""",
        ("f32[5,1] {{-0},{nan},{0},{inf},{-1}}",),
        ("f32[5,1] {{nan},{inf},{0},{-0},{-1}}",),
        "the total order of IEEE 754",
    ),
    Example(
        """HloModule dynamic
        less { a = s32[] parameter(0)
               b = s32[] parameter(1)
               ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY main { x = s32[<=5] parameter(0)
                     ROOT r = s32[<=5] sort(x), dimensions={0}, to_apply=less }""",
        ("s32[3] {3,1,2}",),
        ("s32[3] {1,2,3}",),
    ),
)

_LESS = """HloModule counterexample
    less { a = f32[] parameter(0)
           b = f32[] parameter(1)
           ROOT c = pred[] compare(a, b), direction=LT }
"""

COUNTEREXAMPLES = {
    "C1": _LESS
    + """ENTRY main { x = f32[2] parameter(0)
                      y = f32[3] parameter(1)
                      ROOT r = (f32[2], f32[3]) sort(x, y), dimensions={0}, to_apply=less }""",
    "C2": _LESS
    + """ENTRY main { x = f32[2] parameter(0)
                      ROOT r = f32[2] sort(x), dimensions={1}, to_apply=less }""",
    "C3": _LESS
    + """ENTRY main { x = s32[2] parameter(0)
                      ROOT r = s32[2] sort(x), dimensions={0}, to_apply=less }""",
    "C4": _LESS
    + """ENTRY main { x = f32[2] parameter(0)
                      ROOT r = f32[3] sort(x), dimensions={0}, to_apply=less }""",
}
