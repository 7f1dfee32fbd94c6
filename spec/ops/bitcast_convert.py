"""The operand's bits read as another element type, the result's; nothing is computed.

Where the types have the same width the dimensions stay. From a wider to a narrower type the result has one more
dimension, the last, over the parts of each element, the least significant first; from a narrower to a wider one the
last dimension is joined in the same way. The parts of a c128 are a c64 that holds the bits of its real part, and one
that holds those of its imaginary part. pred is 8 bits wide, 0 or 1, and any non-zero byte read as pred is true;
elements below 8 bits count by their own width.
"""

from .. import numerics
from ..dynamic import marked
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type"}
CONSTRAINTS = {
    "C1": "operand and the result are both of complex types or neither is",
    "C2": "element types of the same width: the result has the dimensions of operand",
    "C3": "to a narrower type: its width divides the other, and the result has the dimensions of operand and one more, "
    "of the quotient of the widths",
    "C4": "to a wider type: the other width divides it, and operand has the dimensions of the result and one more, "
    "of the quotient of the widths",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    shape = instruction.shape
    both = operand.is_array and shape.is_array and operand.element_type.is_complex == shape.element_type.is_complex
    require(both, "C1", f"operand is {operand}, the result {shape}")
    have, want = operand.element_type.bits, shape.element_type.bits
    message = f"operand is {operand}, the result {shape}"
    if have == want:
        require(operand.dimensions == shape.dimensions, "C2", message)
    elif have > want:
        fits = have % want == 0 and shape.dimensions == (*operand.dimensions, have // want)
        require(fits, "C3", message)
    else:
        fits = want % have == 0 and operand.dimensions == (*shape.dimensions, want // have)
        require(fits, "C4", message)
    return marked(shape.element_type, shape.dimensions, (*operand.marks, False)[: shape.rank])


def evaluate(instruction: Instruction, operand: Array) -> Array:
    want = instruction.shape.element_type
    have = numerics.type_of(operand)
    dimensions = operand.shape
    if have.bits > want.bits:
        dimensions = (*dimensions, have.bits // want.bits)
    elif have.bits < want.bits:
        dimensions = dimensions[:-1]
    return numerics.from_bits(numerics.to_bits(operand), want).reshape(dimensions)


EXAMPLES = (
    Example(
        "x = f32[3] parameter(0)\nROOT y = u32[3] bitcast-convert(x)",
        ("f32[3] {1, -0, inf}",),
        ("u32[3] {1065353216, 2147483648, 2139095040}",),
    ),
    Example(
        "x = u32[1] parameter(0)\nROOT y = u8[1,4] bitcast-convert(x)", ("u32[1] {258}",), ("u8[1,4] {{2, 1, 0, 0}}",)
    ),
    Example("x = u16[2] parameter(0)\nROOT y = s32[] bitcast-convert(x)", ("u16[2] {1, 2}",), ("s32[] 131073",)),
    Example(
        """x = c64[2] parameter(0)
           y = c128[] bitcast-convert(x)
           ROOT r = c64[2] bitcast-convert(y)""",
        ("c64[2] {(1, -0), (0, 2)}",),
        ("c64[2] {(1, -0), (0, 2)}",),
        "of both parts the bits are kept",
    ),
    Example(
        "x = c128[] parameter(0)\nROOT y = c64[2] bitcast-convert(x)",
        ("c128[] (1, -2)",),
        ("c64[2] {(0, 1.875), (0, -2)}",),
    ),
    Example(
        """x = f32[<=3] parameter(0)
           ROOT y = u16[<=3,2] bitcast-convert(x)""",
        ("f32[1] {1}",),
        ("u16[1,2] {{0,16256}}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = c64[2] parameter(0)\nROOT r = f64[2] bitcast-convert(x)",
    "C2": "x = f32[2] parameter(0)\nROOT r = s32[3] bitcast-convert(x)",
    "C3": "x = f32[2] parameter(0)\nROOT r = u8[2,3] bitcast-convert(x)",
    "C4": "x = u8[2,3] parameter(0)\nROOT r = f32[2] bitcast-convert(x)",
}
