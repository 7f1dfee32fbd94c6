"""One of two values, as pred says, element by element.

    select(pred, on_true, on_false) = on_true where pred is true, on_false elsewhere

The value not chosen has no effect, a NaN neither. A scalar pred chooses one whole array.
"""

import numpy as np

from ..dynamic import union
from ..elementwise import same_dimensions
from ..module import Instruction
from ..operation import Example, require
from ..types import PRED, Array, Shape

INPUTS = {
    "pred": "pred array of the dimensions of on_true, or a scalar",
    "on_true": "array of any element type",
    "on_false": "array of the same element type and dimensions",
}
CONSTRAINTS = {
    "C1": "the element type of pred is pred",
    "C2": "pred has the dimensions of on_true or is a scalar",
    "C3": "on_true and on_false have the same element type and dimensions",
    "C4": "the result has the shape of on_true",
}


def infer(instruction: Instruction, pred: Shape, on_true: Shape, on_false: Shape) -> Shape:
    require(pred.element_type is PRED, "C1", f"pred is {pred}; compare it with something")
    require(pred.is_scalar or same_dimensions(pred, on_true), "C2", f"pred is {pred} and on_true is {on_true}")
    alike = same_dimensions(on_true, on_false) and on_true.element_type is on_false.element_type
    require(alike, "C3", f"on_true is {on_true} and on_false is {on_false}")
    return union(on_true, on_false, pred)


def evaluate(instruction: Instruction, pred: Array, on_true: Array, on_false: Array) -> Array:
    return np.where(pred, on_true, on_false)


EXAMPLES = (
    Example(
        "p = pred[3] parameter(0)\nx = f32[3] parameter(1)\ny = f32[3] parameter(2)\nROOT z = f32[3] select(p, x, y)",
        ("pred[3] {true, false, false}", "f32[3] {-0, nan, 3}", "f32[3] {nan, 2, inf}"),
        ("f32[3] {-0, 2, inf}",),
    ),
    Example(
        "p = pred[] parameter(0)\nx = s8[2] parameter(1)\ny = s8[2] parameter(2)\nROOT z = s8[2] select(p, x, y)",
        ("pred[] false", "s8[2] {1, 2}", "s8[2] {-1, -128}"),
        ("s8[2] {-1, -128}",),
    ),
    Example(
        """p = pred[<=3] parameter(0)
           x = f32[3] parameter(1)
           y = f32[3] parameter(2)
           ROOT z = f32[<=3] select(p, x, y)""",
        ("pred[2] {true,false}", "f32[3] {1,2,3}", "f32[3] {4,5,6}"),
        ("f32[2] {1,5}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": """p = s32[2] parameter(0)
             x = f32[2] parameter(1)
             y = f32[2] parameter(2)
             ROOT r = f32[2] select(p, x, y)""",
    "C2": """p = pred[3] parameter(0)
             x = f32[2] parameter(1)
             y = f32[2] parameter(2)
             ROOT r = f32[2] select(p, x, y)""",
    "C3": """p = pred[2] parameter(0)
             x = f32[2] parameter(1)
             y = s32[2] parameter(2)
             ROOT r = f32[2] select(p, x, y)""",
    "C4": """p = pred[2] parameter(0)
             x = f32[2] parameter(1)
             y = f32[2] parameter(2)
             ROOT r = f32[3] select(p, x, y)""",
}
