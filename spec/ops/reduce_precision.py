"""The operand rounded to a floating-point format with fewer bits, in its own type.

The format has `exponent_bits` and `mantissa_bits` (the leading one not counted), and infinities and NaN as IEEE 754
has them, but no subnormals. Values are rounded to `mantissa_bits`, ties to even; what is then above the largest
number of the format becomes an infinity, what was below its smallest normal number (in the operand's exponent) a
zero, each of the same sign. NaN stays NaN. Where the format has at least the operand's exponent bits, the exponent
is left alone, subnormals are kept and rounded in their own steps.
"""

import numpy as np

from .. import numerics
from ..attributes import INT, REQUIRED, Attribute
from ..elementwise import FLOAT
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

# (exponent bits, mantissa bits) of the types with infinities and NaN as in IEEE 754
FORMATS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "f32": (8, 23),
    "f64": (11, 52),
    "f8e5m2": (5, 2),
    "f8e4m3": (4, 3),
    "f8e3m4": (3, 4),
}

INPUTS = {"operand": f"array of {FLOAT} type"}
ATTRIBUTES = {
    "exponent_bits": Attribute(INT, REQUIRED, "bits of the exponent"),
    "mantissa_bits": Attribute(INT, REQUIRED, "bits of the mantissa, without the leading one"),
}
CONSTRAINTS = {
    "C1": f"the element type of operand is one of {', '.join(FORMATS)}",
    "C2": "exponent_bits >= 1",
    "C3": "mantissa_bits >= 0",
    "C4": "the result has the shape of operand",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    require(operand.element_type.name in FORMATS, "C1", f"operand is {operand}")
    require(instruction.exponent_bits >= 1, "C2", f"exponent_bits is {instruction.exponent_bits}")
    require(instruction.mantissa_bits >= 0, "C3", f"mantissa_bits is {instruction.mantissa_bits}")
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: Array) -> Array:
    element_type = numerics.type_of(operand)
    exponent_bits, mantissa_bits = FORMATS[element_type.name]
    bits = numerics.to_bits(operand).view(np.dtype(f"u{operand.dtype.itemsize}")).reshape(operand.shape)
    word = bits.dtype.type
    sign = bits & word(1 << (element_type.bits - 1))
    magnitude = bits ^ sign
    infinity = word(((1 << exponent_bits) - 1) << mantissa_bits)
    rounded = magnitude
    dropped = mantissa_bits - instruction.mantissa_bits
    if dropped > 0:  # add half of the last place kept, less one where that place is even, and cut off
        even = (magnitude >> word(dropped)) & word(1)
        rounded = (magnitude + even + word((1 << (dropped - 1)) - 1)) & ~word((1 << dropped) - 1)
    if instruction.exponent_bits < exponent_bits:
        bias, narrow_bias = (1 << (exponent_bits - 1)) - 1, (1 << (instruction.exponent_bits - 1)) - 1
        exponent = (rounded >> word(mantissa_bits)).astype(np.int64) - bias
        rounded = np.where(exponent > narrow_bias, infinity, np.where(exponent <= -narrow_bias, word(0), rounded))
    result = np.where(magnitude >= infinity, magnitude, rounded) | sign  # infinities and NaN stay
    return numerics.from_bits(result.astype(word).reshape(-1).view(np.uint8), element_type).reshape(operand.shape)


EXAMPLES = (
    Example(
        "x = f32[5] parameter(0)\nROOT y = f32[5] reduce-precision(x), exponent_bits=5, mantissa_bits=10",
        ("f32[5] {1.00048828125, 65520, -1e-5, nan, -0}",),
        ("f32[5] {1, inf, -0, nan, -0}",),
    ),
    Example(
        "x = f32[3] parameter(0)\nROOT y = f32[3] reduce-precision(x), exponent_bits=8, mantissa_bits=7",
        ("f32[3] {3.3961775e38, 1.0117188, -inf}",),
        ("f32[3] {inf, 1.015625, -inf}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = s32[2] parameter(0)\nROOT r = s32[2] reduce-precision(x), exponent_bits=5, mantissa_bits=10",
    "C2": "x = f32[2] parameter(0)\nROOT r = f32[2] reduce-precision(x), exponent_bits=0, mantissa_bits=10",
    "C3": "x = f32[2] parameter(0)\nROOT r = f32[2] reduce-precision(x), exponent_bits=5, mantissa_bits=-1",
    "C4": "x = f32[2] parameter(0)\nROOT r = f16[2] reduce-precision(x), exponent_bits=5, mantissa_bits=10",
}
