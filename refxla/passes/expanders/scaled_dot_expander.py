"""scaled-dot in terms of dot."""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.ops.scaled_dot import scaled_type
from refxla_spec.types import Shape

from ...ir.builder import Build

_DIMS = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")


def _dot(b: Build, lhs: Instruction, rhs: Instruction, shape: Shape, dims: dict[str, tuple[int, ...]]) -> Instruction:
    return b.make("dot", lhs, rhs, shape=shape.with_dimensions(shape.dimensions), **dims)


def _scaled(i: Instruction) -> Instruction:
    b = Build(i.name)
    lhs, rhs = (_scaled_operand(b, *pair) for pair in zip(i.operands[:2], i.operands[2:], strict=True))
    return _dot(b, lhs, rhs, i.shape, {name: getattr(i, name) for name in _DIMS})


def _scaled_operand(b: Build, x: Instruction, scale: Instruction) -> Instruction:
    element_type = scaled_type(x.shape.element_type, scale.shape.element_type)
    x, scale = b.convert(x, element_type), b.convert(scale, element_type)
    if scale.shape.is_scalar:
        return b.multiply(x, b.spread(scale, x.shape, ()))
    sizes, counts = x.shape.dimensions, scale.shape.dimensions
    if not x.shape.size:
        return x
    blocks = [n for size, count in zip(sizes, counts, strict=True) for n in (count, size // count)]
    wide = b.spread(scale, Shape(element_type, tuple(blocks)), tuple(range(0, len(blocks), 2)))
    return b.multiply(x, b.reshape(wide, sizes))


EXPANSIONS = {"scaled-dot": _scaled}
