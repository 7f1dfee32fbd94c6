"""Removes layouts: a `bitcast`, the only operation that depends on them, becomes transposes, reshapes and a
`bitcast-convert`.

This pass runs before any pass that replaces instructions, because a replacement for a bitcast's operand has the same
value but need not have the same layout.
"""

from __future__ import annotations

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction, Module
from refxla_spec.types import Shape

from ..ir.builder import Build
from . import expanders


def run(module: Module) -> int:
    """Rewrites all bitcasts. Returns their number."""
    shapes = {i: i.operands[0].shape for i in module.instructions() if i.opcode == "bitcast"}
    return expanders.run(module, {"bitcast": lambda i: _reinterpreted(i, shapes[i])}) if shapes else 0


def _reinterpreted(i: Instruction, operand: Shape) -> Instruction:
    """The replacement of a bitcast whose operand has the layout of that shape."""
    b, x, shape = Build(i.name), i.operands[0], i.shape
    operand_order, order = _major_to_minor(i, operand), _major_to_minor(i, shape)
    x = b.transposed(x, operand_order)
    flat = tuple(shape.dimensions[d] for d in order)
    if shape.element_type is not x.shape.element_type:
        x = _converted(b, i, x)
    return b.transposed(b.reshape(x, flat), tuple(sorted(range(shape.rank), key=order.__getitem__)))


def _converted(b: Build, i: Instruction, x: Instruction) -> Instruction:
    """The bits of x, in row-major order, as elements of the type of the bitcast i."""
    source, target = x.shape.element_type, i.shape.element_type
    if source.is_complex or target.is_complex or max(source.bits, target.bits) % min(source.bits, target.bits):
        raise UnsupportedError(
            f"{i.name}: a bitcast from {source} to {target} is not compiled; take complex numbers apart by real and "
            "imag, and make types of 6 bits by convert"
        )
    dimensions = x.shape.dimensions
    if source.bits < target.bits:  # those that fill a wide element become neighbours
        x, dimensions = b.reshape(x, (i.shape.size, target.bits // source.bits)), (i.shape.size,)
    elif source.bits > target.bits:
        dimensions = (*dimensions, source.bits // target.bits)
    return b.make("bitcast-convert", x, shape=Shape(target, dimensions))


def _major_to_minor(i: Instruction, shape: Shape) -> tuple[int, ...]:
    if shape.layout is None:
        return tuple(range(shape.rank))
    if "T(" in shape.layout.rest:
        raise UnsupportedError(f"{i.name}: a bitcast of the tiled layout {shape}; remove the tiles from the layout")
    return shape.layout.minor_to_major[::-1]
