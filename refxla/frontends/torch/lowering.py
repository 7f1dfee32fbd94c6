"""Lowers single ATen operations to HLO instructions: the table, and helpers of its functions.

A lowering is a function of a Lowering, called `b`, and of the operation's arguments as ATen declares them: tensors are
instructions, everything else is as in the graph. `b.result` is the shape (or the list of shapes) that PyTorch gives the
result, `b.fakes` the arguments as PyTorch's fake tensors. A case without a form in HLO raises NotLowered, and the
operation runs in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from refxla_spec.module import Computation, Instruction, Metadata, PaddingDimension, SliceDimension
from refxla_spec.types import ELEMENT_TYPES, F32, PRED, ElementType, Shape
from torch._ops import HigherOrderOperator, OpOverload

from ...ir.builder import Build

F8E4M3FN, F8E8M0FNU = ELEMENT_TYPES["f8e4m3fn"], ELEMENT_TYPES["f8e8m0fnu"]
# Whether the installed PyTorch converts large numbers to the largest one of f8e4m3fn (2.14 does), not to nan.
F8E4M3FN_SATURATES = not torch.tensor(1e4, device="cpu").to(torch.float8_e4m3fn).float().isnan().item()
I = Instruction  # noqa: E741 - the type of every value below
Operand = Any  # an Instruction, or a Python number
Rule = Callable[..., Any]

LOWERINGS: dict[Any, Rule] = {}  # for each overload
_UNKNOWN: dict[str, Rule] = {}  # by names that PyTorch did not have yet: some of its operations come with later imports
DRAWN = "random numbers are PyTorch's own"  # why an operation that draws random numbers is not lowered
LINEAR_ALGEBRA = "linalg."  # the beginning of the messages of checks that raise a LinAlgError
INDEX = "an index is out of range"  # part of the messages of checks that raise an IndexError


class NotLowered(Exception):
    """An operation, or this case of it, has no lowering; the message says why."""


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Registers a function for operations such as "add.Tensor"; without a dot, the default overload. Those that the
    installed PyTorch does not have wait until it has them."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            overload = overload_of(name)
            if overload is not None:
                LOWERINGS[overload] = rule
            else:
                _UNKNOWN[name] = rule
        return rule

    return enter


def rule_of(target: Any) -> Rule | None:
    """The lowering of an operation; None if it has none."""
    if target not in LOWERINGS and isinstance(target, OpOverload):
        rule = next((r for name, r in _UNKNOWN.items() if overload_of(name) is target), None)
        if rule is not None:
            LOWERINGS[target] = rule
    return LOWERINGS.get(target)


def overload_of(name: str) -> Any:
    """The overload of ATen, or of another namespace as in "prims::exp2", by its name; None if there is none.
    Higher-order operators ("higher_order::with_effects") have no overloads, and are returned themselves."""
    space, _, rest = name.rpartition("::")
    base, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, space or "aten"), base)
        return packet if isinstance(packet, HigherOrderOperator) else getattr(packet, overload or "default")
    except AttributeError:
        return None


class Lowering(Build):
    """Creates the instructions of a graph; `result`, `fakes`, `target` and `metadata` are those of the current node.

    `checks` has the conditions that must hold at run time: a pred[], and what is wrong if it is false.
    """

    result: Any
    fakes: Sequence[Any]
    target: str

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.metadata: Metadata | None = None
        self.origin = ""  # the operation that the current node is, or is a part of
        self.checks: list[tuple[I, str]] = []

    def make(self, opcode: str, *operands: I, shape: Shape | None = None, **attributes: Any) -> I:
        instruction = super().make(opcode, *operands, shape=shape, **attributes)
        instruction.metadata = self.metadata
        return instruction

    # -- types

    def cast(self, x: Operand, element_type: ElementType) -> I:
        """A value converted to another type: numbers become scalars, to pred is != 0, and from complex takes the real
        part."""
        if not isinstance(x, Instruction):
            return self.scalar(x, element_type)
        own = x.shape.element_type
        if own is element_type:
            return x
        if own.is_complex and not element_type.is_complex:
            if element_type is PRED:
                return self.compare(x, 0, direction="NE")
            x = self.real(x)
        if element_type in (F8E4M3FN, F8E8M0FNU):
            x = self._within(x, element_type)
        return self.convert(x, element_type)

    def _within(self, x: I, element_type: ElementType) -> I:
        """A real value to be converted to a type that does not have all of its numbers, where PyTorch takes the nearest
        one that is there, and HLO nan: f8e4m3fn ends at 448, and f8e8m0fnu has no zero and no sign."""
        own = x.shape.element_type
        x = self.convert(x, wide(own) if own.is_float else F32)
        own = x.shape.element_type
        if element_type is F8E8M0FNU:
            return self.make("maximum", self.make("abs", x), self.full(2.0**-127, x.shape))
        if F8E4M3FN_SATURATES:
            return self.make("clamp", self.scalar(-448, own), x, self.scalar(448, own))
        return x

    def constant(self, array: np.ndarray[Any, Any]) -> I:
        return self.make("constant", shape=Shape.of(array), literal=array)

    def operands(self, *values: Operand, of: ElementType | None = None) -> list[I]:
        """Values converted to one type, by default the result's, and broadcast to the result's dimensions."""
        element_type = self.result.element_type if of is None else of
        return [self.expand(self.cast(x, element_type), self.result.dimensions) for x in values]

    def common(self, x: Operand, y: Operand) -> list[I]:
        """Two operands in their common type in PyTorch, such as those of a comparison."""
        from .tensors import element_type

        return self.operands(x, y, of=element_type(torch.result_type(*self.fakes[:2])))

    # -- shapes

    def expand(self, x: I, dimensions: tuple[int, ...]) -> I:
        """Broadcasting: the last dimensions are aligned, those of size 1 repeat."""
        own = x.shape.dimensions
        if own == tuple(dimensions):
            return x
        lead = len(dimensions) - len(own)
        dims = [d for d, n in enumerate(own) if n == dimensions[lead + d]]
        if len(dims) < len(own):
            x = self.reshape(x, tuple(own[d] for d in dims))
        return self.spread(x, Shape(x.shape.element_type, tuple(dimensions)), tuple(lead + d for d in dims))

    def permute(self, x: I, order: Sequence[int]) -> I:
        order = tuple(order)
        return x if order == tuple(range(len(order))) else self.make("transpose", x, dimensions=order)

    def view(self, x: I, dimensions: tuple[int, ...]) -> I:
        return x if x.shape.dimensions == tuple(dimensions) else self.reshape(x, tuple(dimensions))

    def cut(self, x: I, dimension: int, start: int, limit: int, step: int = 1) -> I:
        """Elements start, start + step, ... below limit along one dimension."""
        sizes = x.shape.dimensions
        if (start, limit, step) == (0, sizes[dimension], 1):
            return x
        whole = [SliceDimension(0, n, 1) for n in sizes]
        whole[dimension] = SliceDimension(start, limit, step)
        return self.make("slice", x, slice=tuple(whole))

    def padded(self, x: I, value: float, *dimensions: tuple[int, int, int]) -> I:
        """x with elements of one value below, above and between in each dimension (below and above may be negative)."""
        if all(d == (0, 0, 0) for d in dimensions):
            return x
        fill = self.scalar(value, x.shape.element_type)
        return self.make("pad", x, fill, padding=tuple(PaddingDimension(*d) for d in dimensions))

    def concatenate(self, parts: Sequence[I], dimension: int) -> I:
        return parts[0] if len(parts) == 1 else self.make("concatenate", *parts, dimensions=(dimension,))

    # -- checks

    def check(self, condition: I, message: str) -> None:
        """Makes the call raise if an element of `condition` is false."""
        if condition.shape.rank:
            every = tuple(range(condition.shape.rank))
            condition = self.reduce(condition, True, every, reducer("and", PRED))
        self.checks.append((condition, message))


def reducer(opcode: str, element_type: ElementType) -> Computation:
    """A computation of two scalars."""
    inner = Build(f"{opcode}.{element_type}")
    a, b = (Instruction(n, "parameter", Shape(element_type), [], {"number": k}) for k, n in enumerate("ab"))
    root = inner.make(opcode, a, b)
    return Computation(f"{opcode}.{element_type}", [a, b, root], root)


def newest(b: Lowering, x: I) -> Computation:
    """The reducer that keeps the new value."""
    kind = Shape(x.shape.element_type)
    p = [Instruction(n, "parameter", kind, [], {"number": k}) for k, n in enumerate("ab")]
    b.count += 1
    return Computation(f"{b.name}.new.{b.count}", p, p[1])


def lowest(element_type: ElementType) -> Any:
    """A value that no element is below."""
    if element_type is PRED:
        return False
    dtype = element_type.dtype
    assert dtype is not None
    return -np.inf if element_type.is_float else np.iinfo(dtype).min


def highest(element_type: ElementType) -> Any:
    """A value that no element is above."""
    if element_type is PRED:
        return True
    dtype = element_type.dtype
    assert dtype is not None
    return np.inf if element_type.is_float else np.iinfo(dtype).max


def wide(element_type: ElementType) -> ElementType:
    """The type in which PyTorch computes: f32 for narrower floating-point types."""
    return F32 if element_type.is_float and element_type.bits < 32 else element_type


def real_of(element_type: ElementType) -> ElementType:
    """The type of a complex number's parts."""
    return ELEMENT_TYPES["f32" if element_type.bits == 64 else "f64"] if element_type.is_complex else element_type


def axis(dimension: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dimension % rank if rank else 0
