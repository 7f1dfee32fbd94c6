"""A complex number from its real and imaginary parts.

    complex(x, y) = x + i y

Both parts keep all their bits: no arithmetic is done.
"""

from .. import numerics
from ..dynamic import union
from ..elementwise import same_dimensions
from ..module import Instruction
from ..operation import Example, require
from ..types import C64, C128, F32, F64, Array, Shape

INPUTS = {
    "lhs": "f32 or f64 array: the real parts",
    "rhs": "array of the same type and dimensions: the imaginary parts",
}
CONSTRAINTS = {
    "C1": "the element type of lhs is f32 or f64",
    "C2": "lhs and rhs have the same element type",
    "C3": "lhs and rhs have the same dimensions",
    "C4": "the result is c64 for f32 and c128 for f64, with the dimensions of lhs",
}


def infer(instruction: Instruction, lhs: Shape, rhs: Shape) -> Shape:
    require(lhs.element_type in (F32, F64), "C1", f"lhs is {lhs}; convert it to f32 or f64")
    require(lhs.element_type is rhs.element_type, "C2", f"lhs is {lhs} and rhs is {rhs}; convert one of them")
    require(same_dimensions(lhs, rhs), "C3", f"lhs is {lhs} and rhs is {rhs}; broadcast or reshape one of them")
    return union(lhs, rhs).with_element_type(C64 if lhs.element_type is F32 else C128)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    return numerics.make_complex(lhs, rhs)


EXAMPLES = (
    Example(
        "x = f32[3] parameter(0)\ny = f32[3] parameter(1)\nROOT z = c64[3] complex(x, y)",
        ("f32[3] {1, -0, nan}", "f32[3] {-inf, 0, 2}"),
        ("c64[3] {(1, -inf), (-0, 0), (nan, 2)}",),
    ),
    Example(
        "x = f64[0] parameter(0)\ny = f64[0] parameter(1)\nROOT z = c128[0] complex(x, y)",
        ("f64[0] {}", "f64[0] {}"),
        ("c128[0] {}",),
    ),
    Example(
        """x = f32[2] parameter(0)
           y = f32[<=2] parameter(1)
           ROOT z = c64[<=2] complex(x, y)""",
        ("f32[2] {1,2}", "f32[1] {3}"),
        ("c64[1] {(1,3)}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f16[2] parameter(0)\ny = f16[2] parameter(1)\nROOT r = c64[2] complex(x, y)",
    "C2": "x = f32[2] parameter(0)\ny = f64[2] parameter(1)\nROOT r = c64[2] complex(x, y)",
    "C3": "x = f32[2] parameter(0)\ny = f32[] parameter(1)\nROOT r = c64[2] complex(x, y)",
    "C4": "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nROOT r = c128[2] complex(x, y)",
}
