"""A short way to write instructions: what an expansion is made of reads like the formula it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction, SliceDimension
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape

from ..._core.shapes import make


class Build:
    """Makes instructions named after the one that is expanded.

    Elementwise operations are methods by their opcodes with `_` for `-` (`b.shift_left(x, 3)`); a Python number among
    the operands is spread over the shape of the others.
    """

    def __init__(self, expanded: Instruction) -> None:
        self.name, self.count = expanded.name, 0

    def make(self, opcode: str, *operands: Instruction, shape: Shape | None = None, **attributes: Any) -> Instruction:
        self.count += 1
        return make(opcode, *operands, name=f"{self.name}.{self.count}", shape=shape, **attributes)

    def __getattr__(self, opcode: str) -> Any:
        if opcode.startswith("__"):
            raise AttributeError(opcode)

        def apply(*operands: Any, **attributes: Any) -> Instruction:
            like = next(o for o in operands if isinstance(o, Instruction))
            spread = [o if isinstance(o, Instruction) else self.full(o, like.shape) for o in operands]
            return self.make(opcode.rstrip("_").replace("_", "-"), *spread, **attributes)

        return apply

    def scalar(self, value: float | int, element_type: ElementType) -> Instruction:
        literal = np.asarray(value).astype(element_type.dtype)
        return self.make("constant", shape=Shape(element_type), literal=literal)

    def full(self, value: float | int, shape: Shape) -> Instruction:
        """An array of one number."""
        scalar = self.scalar(value, shape.element_type)
        return self.spread(scalar, shape.with_dimensions(shape.dimensions), ()) if shape.rank else scalar

    def spread(self, x: Instruction, shape: Shape, dimensions: tuple[int, ...]) -> Instruction:
        """A broadcast of x to the dimensions of `shape`; x's own become `dimensions` there."""
        wide = Shape(x.shape.element_type, shape.dimensions)
        return self.make("broadcast", x, shape=wide, dimensions=dimensions)

    def convert(self, x: Instruction, element_type: ElementType | str) -> Instruction:
        if isinstance(element_type, str):
            element_type = ELEMENT_TYPES[element_type]
        if x.shape.element_type is element_type:
            return x
        return self.make("convert", x, shape=x.shape.with_element_type(element_type))

    def reshape(self, x: Instruction, dimensions: tuple[int, ...]) -> Instruction:
        return self.make("reshape", x, shape=x.shape.with_dimensions(dimensions))

    def slice(self, x: Instruction, start: tuple[int, ...], limit: tuple[int, ...]) -> Instruction:
        return self.make("slice", x, slice=tuple(SliceDimension(s, e, 1) for s, e in zip(start, limit, strict=True)))

    def iota(self, element_type: ElementType | str, dimensions: tuple[int, ...], dimension: int) -> Instruction:
        return self.make("iota", shape=Shape.array(element_type, dimensions), iota_dimension=dimension)

    def sum(self, x: Instruction, dimensions: tuple[int, ...]) -> Instruction:
        zero = self.scalar(0, x.shape.element_type)
        return self.make("reduce", x, zero, dimensions=dimensions, to_apply=adder(x.shape.element_type))

    def tuple(self, *elements: Instruction) -> Instruction:
        return make("tuple", *elements, name=self.name)


def adder(element_type: ElementType) -> Computation:
    """The reducer of a sum."""
    a, b = (Instruction(n, "parameter", Shape(element_type), [], {"number": k}) for k, n in enumerate("ab"))
    root = make("add", a, b, name="sum")
    return Computation(f"add.{element_type}", [a, b, root], root)
