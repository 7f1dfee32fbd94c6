"""bitcast: a reinterpretation of bytes under layouts becomes transposes and reshapes of dense row-major arrays."""

from __future__ import annotations

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction
from refxla_spec.types import Shape

from ...build import Build


def _bitcast(i: Instruction) -> Instruction:
    b, x, shape = Build(i.name), i.operands[0], i.shape
    written, read = _major_to_minor(i, x.shape), _major_to_minor(i, shape)
    if written != tuple(range(x.shape.rank)):
        x = b.make("transpose", x, dimensions=written)
    flat = tuple(shape.dimensions[d] for d in read)
    if shape.element_type is not x.shape.element_type:
        narrow, wide = x.shape.element_type.bits, shape.element_type.bits
        if narrow != wide:
            raise UnsupportedError(
                f"{i.name}: a bitcast from {i.operands[0].shape} to {shape} changes the width of elements; "
                "use bitcast-convert"
            )
        x = b.make("bitcast-convert", x, shape=x.shape.with_element_type(shape.element_type))
    x = b.reshape(x, flat)
    if read != tuple(range(shape.rank)):
        places = tuple(sorted(range(shape.rank), key=read.__getitem__))
        x = b.make("transpose", x, dimensions=places)
    return x


def _major_to_minor(i: Instruction, shape: Shape) -> tuple[int, ...]:
    if shape.layout is None:
        return tuple(range(shape.rank))
    if "T(" in shape.layout.rest:
        raise UnsupportedError(f"{i.name}: a bitcast of the tiled layout {shape}; remove the tiles from the layout")
    return shape.layout.minor_to_major[::-1]


EXPANSIONS = {"bitcast": _bitcast}
