"""Removes layouts: bitcast, the one operation that depends on them, becomes transposes, reshapes and a bitcast-convert.

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
    """Returns how many bitcasts there were."""
    read = {i: i.operands[0].shape for i in module.instructions() if i.opcode == "bitcast"}
    return expanders.run(module, {"bitcast": lambda i: _reinterpreted(i, read[i])}) if read else 0


def _reinterpreted(i: Instruction, operand: Shape) -> Instruction:
    """What stands for a bitcast whose operand lies in memory as that shape says."""
    b, x, shape = Build(i.name), i.operands[0], i.shape
    written, read = _major_to_minor(i, operand), _major_to_minor(i, shape)
    if written != tuple(range(x.shape.rank)):
        x = b.make("transpose", x, dimensions=written)
    flat = tuple(shape.dimensions[d] for d in read)
    if shape.element_type is not x.shape.element_type:
        x = _converted(b, i, x)
    x = b.reshape(x, flat)
    if read != tuple(range(shape.rank)):
        places = tuple(sorted(range(shape.rank), key=read.__getitem__))
        x = b.make("transpose", x, dimensions=places)
    return x


def _converted(b: Build, i: Instruction, x: Instruction) -> Instruction:
    """The bits of x, in row-major order, as elements of the type of the bitcast i."""
    given, wanted = x.shape.element_type, i.shape.element_type
    if given.is_complex or wanted.is_complex or max(given.bits, wanted.bits) % min(given.bits, wanted.bits):
        raise UnsupportedError(
            f"{i.name}: a bitcast from {given} to {wanted} is not compiled; take complex numbers apart by real and "
            "imag, and make types of 6 bits by convert"
        )
    dimensions = x.shape.dimensions
    if given.bits < wanted.bits:  # as many as fill a wide element come to stand beside each other
        x, dimensions = b.reshape(x, (i.shape.size, wanted.bits // given.bits)), (i.shape.size,)
    elif given.bits > wanted.bits:
        dimensions = (*dimensions, given.bits // wanted.bits)
    return b.make("bitcast-convert", x, shape=Shape(wanted, dimensions))


def _major_to_minor(i: Instruction, shape: Shape) -> tuple[int, ...]:
    if shape.layout is None:
        return tuple(range(shape.rank))
    if "T(" in shape.layout.rest:
        raise UnsupportedError(f"{i.name}: a bitcast of the tiled layout {shape}; remove the tiles from the layout")
    return shape.layout.minor_to_major[::-1]
