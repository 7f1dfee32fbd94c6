"""Padded arrays with their actual sizes, and the operations on them that the rules for dynamic shapes use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, PaddingDimension, WindowDimension
from refxla_spec.types import S32, Shape
from refxla_spec.vectorize import binary_opcode

from ...ir.builder import Build

Size = Instruction | None  # an s32[], or None: the size is the bound


@dataclass(frozen=True)
class SizedArray:
    """A static array and, for each dimension, its size at run time; elements beyond the sizes are arbitrary."""

    array: Instruction
    sizes: tuple[Size, ...]

    @staticmethod
    def whole(array: Instruction) -> SizedArray:
        """An array without padding."""
        return SizedArray(array, (None,) * array.shape.rank)

    @property
    def is_dynamic(self) -> bool:
        return any(s is not None for s in self.sizes)


Value = SizedArray | list[SizedArray]  # of an array, or of a flat tuple
Rule = Callable[..., Value]  # of an operation: (builder, instruction, *operands)


def unsupported(i: Instruction, what: str) -> UnsupportedError:
    """The error for an operation that cannot be compiled for the dynamic sizes that it is given."""
    operands = ", ".join(str(o.shape.without_layout()) for o in i.operands)
    return UnsupportedError(
        f"{i.name}: {i.opcode} of ({operands}), {what}, is not compiled; run the program on the reference with "
        "device='reference', or give it static shapes"
    )


def least(b: Build, *sizes: Size) -> Size:
    """The smallest of sizes of dimensions that must be equal, all with the same bound."""
    candidates = list(dict.fromkeys(s for s in sizes if s is not None))
    if not candidates:
        return None
    result = candidates[0]
    for s in candidates[1:]:
        result = b.minimum(result, s)
    return result


def met(b: Build, values: Iterable[SizedArray]) -> tuple[Size, ...]:
    """The sizes of arrays of one rank that are combined elementwise; scalars are ignored."""
    return tuple(least(b, *each) for each in zip(*(v.sizes for v in values if v.sizes), strict=True))


def number(b: Build, v: SizedArray, d: int) -> Instruction:
    """The size of dimension d as an s32[]."""
    size = v.sizes[d]
    return b.scalar(v.array.shape.dimensions[d], S32) if size is None else size


def live(b: Build, dimensions: tuple[int, ...], sizes: tuple[Size, ...]) -> Instruction | None:
    """A mask (pred) of the elements of an array of these dimensions that lie within the sizes; None where all do."""
    result = None
    for d, size in enumerate(sizes):
        if size is not None:
            shape = Shape(S32, dimensions)
            inside = b.compare(b.iota(S32, dimensions, d), b.spread(size, shape, ()), direction="LT")
            result = inside if result is None else b.and_(result, inside)
    return result


def masked(b: Build, v: SizedArray, fill: Instruction, dimensions: Iterable[int] | None = None) -> Instruction:
    """The array with its elements beyond the sizes in these dimensions (all) replaced by a scalar."""
    chosen = range(len(v.sizes)) if dimensions is None else set(dimensions)
    sizes = tuple(s if d in chosen else None for d, s in enumerate(v.sizes))
    inside = live(b, v.array.shape.dimensions, sizes)
    if inside is None:
        return v.array
    return b.select(inside, v.array, b.spread(fill, v.array.shape, ()))


def zero(b: Build, v: SizedArray) -> Instruction:
    return b.scalar(0, v.array.shape.element_type)


def shifted(b: Build, x: Instruction, dimension: int, offset: Instruction) -> Instruction:
    """result[i] = x[i + offset] along a dimension; beyond the end of x, zeros."""
    size = x.shape.dimensions[dimension]
    more = [size if d == dimension else 0 for d in range(x.shape.rank)]
    return b.part(b.pad(x, *more), dimension, offset, size)


def padded(b: Build, x: Instruction, low: dict[int, int], high: dict[int, int]) -> Instruction:
    """x with zeros in front of and after it."""
    padding = tuple(PaddingDimension(low.get(d, 0), high.get(d, 0)) for d in range(x.shape.rank))
    return b.make("pad", x, b.scalar(0, x.shape.element_type), padding=padding)


def placings(b: Build, size: Size, w: WindowDimension) -> Size:
    """How many positions a window dimension has in `size` elements."""
    if size is None or w == WindowDimension(1):
        return size
    base = size
    if w.base_dilation > 1:
        spread = b.add(b.multiply(b.subtract(size, 1), w.base_dilation), 1)
        base = b.select(b.compare(size, 0, direction="GT"), spread, b.scalar(0, S32))
    # How far the window can move; negative where it does not fit.
    extent = (w.size - 1) * w.window_dilation + 1
    room = b.add(base, w.padding_low + w.padding_high - extent)
    count = b.add(b.divide(room, w.stride), 1) if w.stride > 1 else b.add(room, 1)
    return b.select(b.compare(room, 0, direction="LT"), b.scalar(0, S32), count)


# The neutral element of each reducer's operation, which changes no bit of the other operand.
_NEUTRAL = {"add": -0.0, "multiply": 1, "xor": 0}


def neutral(b: Build, i: Instruction, reducer: Computation, x: Instruction, init: Instruction) -> Instruction:
    """A scalar of x's type that is neutral for a reducer; the initial value where no better one is known."""
    opcode, element_type = binary_opcode(reducer), x.shape.element_type
    if opcode in _NEUTRAL:
        value: Any = _NEUTRAL[opcode]
        if element_type.is_complex and opcode == "add":
            value = complex(-0.0, -0.0)
        elif element_type.kind in ("pred", "signed", "unsigned"):
            value = int(value)
        literal = np.asarray(value).astype(element_type.dtype)
        if element_type.is_float and np.isnan(literal):
            raise unsupported(i, f"of {element_type}, which has no {value:g} to stand for what is not there")
        return b.make("constant", shape=Shape(element_type), literal=literal)
    if init.shape.element_type is not element_type:
        raise unsupported(i, "whose initial value is of another type than the elements")
    return init
