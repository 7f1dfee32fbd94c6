"""The bytes of the operand in memory read as the result's shape: the one operation whose meaning depends on layouts.

The elements of the operand are written in the order of its layout (row-major where it has none), least significant
byte first, and read as elements of the result's type in the order of the result's layout. Compilers put it where a
reshape or a transpose moves nothing.
"""

from .. import numerics
from ..errors import UnsupportedError
from ..module import Instruction
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "array of any element type"}

CONSTRAINTS = {
    "C1": "operand and the result are arrays",
    "C2": "the result takes as many bits as operand",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    shape = instruction.shape
    require(operand.is_array and shape.is_array, "C1", f"operand is {operand}, the result {shape}")
    have, want = (s.size * s.element_type.bits for s in (operand, shape))
    require(have == want, "C2", f"operand is {operand} of {have} bits, the result {shape} of {want}")
    return shape


def evaluate(instruction: Instruction, operand: Array) -> Array:
    shape = instruction.shape
    if operand.shape != instruction.operands[0].shape.dimensions:
        raise UnsupportedError(f"{instruction.name}: a bitcast of a dynamic shape: use reshape or transpose")
    source = _major_to_minor(instruction.operands[0].shape)
    target = _major_to_minor(shape)
    flat = numerics.from_bits(numerics.to_bits(operand.transpose(source)), shape.element_type)
    places = sorted(range(shape.rank), key=target.__getitem__)
    flat = flat.reshape(-1)[: shape.size]  # elements below 8 bits end inside a byte
    return flat.reshape([shape.dimensions[d] for d in target]).transpose(places)


def _major_to_minor(shape: Shape) -> tuple[int, ...]:
    """The dimensions from the slowest-varying in memory to the fastest."""
    if shape.layout is None:
        return tuple(range(shape.rank))
    if "T(" in shape.layout.rest:
        raise UnsupportedError(f"a bitcast of the tiled layout {shape}: remove the tiles from the layout")
    return shape.layout.minor_to_major[::-1]


EXAMPLES = (
    Example(
        "x = s32[2,3]{1,0} parameter(0)\nROOT y = s32[3,2]{0,1} bitcast(x)",
        ("s32[2,3] {{1, 2, 3}, {4, 5, 6}}",),
        ("s32[3,2] {{1, 4}, {2, 5}, {3, 6}}",),
        "a transpose that moves nothing",
    ),
    Example(
        "x = s32[2,3]{1,0} parameter(0)\nROOT y = s32[6]{0} bitcast(x)",
        ("s32[2,3] {{1, 2, 3}, {4, 5, 6}}",),
        ("s32[6] {1, 2, 3, 4, 5, 6}",),
    ),
    Example("x = f32[1] parameter(0)\nROOT y = u32[] bitcast(x)", ("f32[1] {-0}",), ("u32[] 2147483648",)),
)

COUNTEREXAMPLES = {
    "C1": "x = (f32[2]) parameter(0)\nROOT r = f32[2] bitcast(x)",
    "C2": "x = f32[2] parameter(0)\nROOT r = f32[3] bitcast(x)",
}
