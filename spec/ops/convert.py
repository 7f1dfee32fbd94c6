"""The operand's values in another element type, the result's.

To pred: whether the value is not zero (NaN is not). From pred: 0 or 1. Among integers: modulo 2^bits. Integer to
float and float to float: rounded once, to nearest, ties to even; beyond the range an infinity, or NaN in types that
have none. Float to integer: towards zero, saturating at the ends of the type, NaN to 0. Real to complex: with
imaginary part +0.
"""

from .. import numerics
from ..dynamic import marked
from ..elementwise import same_dimensions
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type"}
CONSTRAINTS = {
    "C1": "operand and the result are arrays of the same dimensions",
    "C2": "from a complex type only to a complex type; take real or imag before",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    shape = instruction.shape
    require(same_dimensions(operand, shape), "C1", f"operand is {operand}, the result {shape}")
    to_real = operand.element_type.is_complex and not shape.element_type.is_complex
    require(not to_real, "C2", f"operand is {operand}, the result {shape}")
    return marked(shape.element_type, shape.dimensions, operand.marks)


def evaluate(instruction: Instruction, operand: Array) -> Array:
    return numerics.convert(operand, instruction.shape.element_type)


EXAMPLES = (
    Example(
        "x = f32[6] parameter(0)\nROOT y = s8[6] convert(x)",
        ("f32[6] {-1.9, 200, -inf, nan, 0.9, -0}",),
        ("s8[6] {-1, 127, -128, 0, 0, 0}",),
    ),
    Example(
        "x = f64[3] parameter(0)\nROOT y = bf16[3] convert(x)",
        ("f64[3] {1.00390625000001, 1.00390625, 1e39}",),
        ("bf16[3] {1.0078125, 1, inf}",),
        "rounded once: by way of f32 the first would become a tie",
    ),
    Example("x = s32[3] parameter(0)\nROOT y = u8[3] convert(x)", ("s32[3] {-1, 256, 7}",), ("u8[3] {255, 0, 7}",)),
    Example(
        """x = f32[<=3] parameter(0)
           ROOT y = s32[<=3] convert(x)""",
        ("f32[2] {1.5,-2}",),
        ("s32[2] {1,-2}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\nROOT r = s32[3] convert(x)",
    "C2": "x = c64[2] parameter(0)\nROOT r = f32[2] convert(x)",
}
