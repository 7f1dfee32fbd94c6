"""The operand kept between a lower and an upper bound.

    clamp(min, x, max) = minimum(maximum(x, min), max)

So max wins where min > max, and the result is NaN where any of the three is. Complex numbers are ordered as `maximum`
and `minimum` order them. The bounds are of the operand's shape or scalars, which apply to every element.
"""

import numpy as np

from .. import numerics
from ..elementwise import same_dimensions
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape
from . import maximum, minimum

INPUTS = {
    "min": "array of the operand's element type, of its dimensions or a scalar",
    "operand": "array of pred, integer, floating-point or complex type",
    "max": "as min",
}
CONSTRAINTS = {
    "C1": "operand is an array",
    "C2": "min, operand and max have the same element type",
    "C3": "min has the dimensions of operand or is a scalar",
    "C4": "max has the dimensions of operand or is a scalar",
    "C5": "the result has the shape of operand",
}


def infer(instruction: Instruction, low: Shape, operand: Shape, high: Shape) -> Shape:
    require(operand.is_array, "C1", f"operand is {operand}")
    same_type = low.element_type is operand.element_type is high.element_type
    require(same_type, "C2", f"min is {low}, operand is {operand} and max is {high}; convert some of them")
    require(low.is_scalar or same_dimensions(low, operand), "C3", f"min is {low} and operand is {operand}")
    require(high.is_scalar or same_dimensions(high, operand), "C4", f"max is {high} and operand is {operand}")
    return operand.without_layout()


def evaluate(instruction: Instruction, low: Array, operand: Array, high: Array) -> Array:
    if operand.dtype == bool:
        return (operand | low) & high
    if numerics.type_of(operand).is_complex:
        return minimum.evaluate(instruction, maximum.evaluate(instruction, operand, low), high)
    if numerics.type_of(operand).is_integer:
        return numerics.integer(lambda x, a, b: np.minimum(np.maximum(x, a), b), operand, low, high)
    return numerics.exact(lambda x, a, b: numerics.minimum(numerics.maximum(x, a), b), operand, low, high)


EXAMPLES = (
    Example(
        "a = f32[] parameter(0)\nx = f32[5] parameter(1)\nb = f32[] parameter(2)\nROOT y = f32[5] clamp(a, x, b)",
        ("f32[] -1", "f32[5] {-2, 0.5, inf, nan, -0}", "f32[] 1"),
        ("f32[5] {-1, 0.5, 1, nan, -0}",),
    ),
    Example(
        "a = s32[2] parameter(0)\nx = s32[2] parameter(1)\nb = s32[2] parameter(2)\nROOT y = s32[2] clamp(a, x, b)",
        ("s32[2] {5, 0}", "s32[2] {1, 9}", "s32[2] {3, 4}"),
        ("s32[2] {3, 4}",),
        "the upper bound wins over a lower bound above it",
    ),
    Example(
        "a = c64[] parameter(0)\nx = c64[3] parameter(1)\nb = c64[] parameter(2)\nROOT y = c64[3] clamp(a, x, b)",
        ("c64[] (1,0)", "c64[3] {(1,1),(1,-1),(2,5)}", "c64[] (2,1)"),
        ("c64[3] {(1,1),(1,0),(2,1)}",),
        "by the real parts, then by the imaginary parts",
    ),
    Example(
        """a = f32[] parameter(0)
           x = f32[<=3] parameter(1)
           b = f32[] parameter(2)
           ROOT z = f32[<=3] clamp(a, x, b)""",
        ("f32[] 0", "f32[2] {-1,5}", "f32[] 1"),
        ("f32[2] {0,1}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": """x = (f32[2]) parameter(0)
             low = f32[] parameter(1)
             high = f32[] parameter(2)
             ROOT r = (f32[2]) clamp(low, x, high)""",
    "C2": """x = f32[2] parameter(0)
             low = s32[] parameter(1)
             high = f32[] parameter(2)
             ROOT r = f32[2] clamp(low, x, high)""",
    "C3": """x = f32[2] parameter(0)
             low = f32[3] parameter(1)
             high = f32[] parameter(2)
             ROOT r = f32[2] clamp(low, x, high)""",
    "C4": """x = f32[2] parameter(0)
             low = f32[] parameter(1)
             high = f32[3] parameter(2)
             ROOT r = f32[2] clamp(low, x, high)""",
    "C5": """x = f32[2] parameter(0)
             low = f32[] parameter(1)
             high = f32[] parameter(2)
             ROOT r = f32[3] clamp(low, x, high)""",
}
