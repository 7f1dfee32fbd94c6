"""A builder of the program for one device. A value of the old program is one instruction, or one for each device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from refxla_spec.module import Computation, Instruction, clone_computation
from refxla_spec.types import Shape

from ..._core.shapes import make


@dataclass(frozen=True)
class PerDevice:
    """A value that differs between devices."""

    values: tuple[Instruction, ...]


Value = Instruction | PerDevice  # a single instruction is a global value


class OneDeviceBuilder:
    """Writes a computation that computes what `count` devices do; `order` has its instructions so far."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.order: dict[Instruction, None] = {}
        self._device: int | None = None  # see `only`
        self._copies: dict[Computation, Computation] = {}  # of computations that stay as they are

    def add(self, i: Instruction) -> Instruction:
        """Adds an instruction, and before it those of its operands that are new."""
        stack = [i]
        while stack:
            top = stack[-1]
            waiting = [o for o in top.operands if o not in self.order]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            self.order[top] = None
        return i

    def elements(self, whole: Instruction) -> list[Instruction]:
        """The elements of a tuple."""
        return [self.add(make("get-tuple-element", whole, index=k)) for k in range(len(whole.shape.elements))]

    @contextmanager
    def only(self, device: int) -> Iterator[None]:
        """While this context is open, a computation is written that belongs to one device, for which all values are
        single instructions."""
        before, self._device = self._device, device
        try:
            yield
        finally:
            self._device = before

    def each(self, value: Callable[[int], Instruction]) -> Value:
        """A value that is `value(d)` on device d."""
        if self._device is not None:
            return self.add(value(self._device))
        return PerDevice(tuple(self.add(value(d)) for d in range(self.count)))

    def part(self, value: Value, device: int) -> Instruction:
        """What a value is on a device."""
        return value.values[device] if isinstance(value, PerDevice) else value

    def computation(self, name: str, shape: Shape, body: Callable[[Instruction], Instruction]) -> Computation:
        """A new computation of one parameter, besides the one that is being written."""
        outside, self.order = self.order, {}
        try:
            root = body(self.add(Instruction("state", "parameter", shape, [], {"number": 0})))
            return Computation(name, list(self.order), root)
        finally:
            self.order = outside

    def parts(self, value: Value, per_device: bool | None = None) -> tuple[list[Instruction], bool]:
        """The instructions of a value, and whether it differs between devices. With `per_device`, there is one for each
        device in any case."""
        if isinstance(value, PerDevice) or per_device:
            return [self.part(value, d) for d in range(self.count)], True
        return [value], False

    def value_of(self, parts: list[Instruction], per_device: bool) -> Value:
        """The value of what `parts` returned."""
        return PerDevice(tuple(parts)) if per_device else parts[0]

    def copy(self, i: Instruction, operands: Sequence[Instruction]) -> Instruction:
        """An instruction of the old program with operands of the new one."""
        attributes = {k: self._attribute(v) for k, v in i.attributes.items()}
        return Instruction(
            i.name, i.opcode, i.shape, list(operands), attributes, i.metadata, backend_config=i.backend_config
        )

    def _attribute(self, value: Any) -> Any:
        """An attribute, with its computations replaced by copies."""
        if isinstance(value, tuple):
            return tuple(map(self._attribute, value))
        return self.own(value) if isinstance(value, Computation) else value

    def own(self, source: Computation) -> Computation:
        """The copy of a computation of the source; the same one for each call."""
        if source not in self._copies:
            self._copies[source] = clone_computation(source, self.own)
        return self._copies[source]
