"""Value numbering: instructions with the same number have the same value."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from refxla_spec.module import Instruction

from .cse import IMPURE, attribute_key


class ValueNumbers:
    """The numbers of instructions of any computations, assigned on demand.

    Equal operations on operands with equal numbers have the same number. A parameter, or an operation that is not a
    function of its operands, has a unique number unless one was `set`. A tuple is identified by the numbers of its
    elements.
    """

    def __init__(self) -> None:
        self._numbers: dict[Instruction, int] = {}
        self._by_key: dict[Hashable, int] = {}
        self._elements: dict[int, tuple[int, ...]] = {}  # of numbers of tuples

    def key(self, key: Hashable) -> int:
        """The number of a key."""
        return self._by_key.setdefault(key, len(self._by_key))

    def tuple_of(self, numbers: Sequence[int]) -> int:
        """The number of a tuple whose elements have these numbers."""
        number = self.key(("tuple", *numbers))
        self._elements[number] = tuple(numbers)
        return number

    def elements(self, i: Instruction) -> tuple[int, ...]:
        """The numbers of a tuple's elements."""
        return tuple(self._element(self.of(i), n) for n in range(len(i.shape.elements)))

    def set(self, i: Instruction, number: int) -> None:
        """Assigns a number to an instruction."""
        self._numbers[i] = number

    def of(self, i: Instruction) -> int:
        """The number of an instruction."""
        waiting = [i]
        while waiting:
            now = waiting[-1]
            missing = [] if now in self._numbers else [o for o in now.operands if o not in self._numbers]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if now not in self._numbers:
                self._numbers[now] = self._new(now, [self._numbers[o] for o in now.operands])
        return self._numbers[i]

    def _new(self, i: Instruction, operands: list[int]) -> int:
        if i.opcode == "tuple":
            return self.tuple_of(operands)
        if i.opcode == "get-tuple-element":
            return self._element(operands[0], i.index)
        if i.opcode in IMPURE:
            return self.key(i)
        attributes = tuple(sorted((k, attribute_key(v, {})) for k, v in i.attributes.items()))
        return self.key((i.opcode, i.shape.without_layout(), *operands, attributes))

    def _element(self, number: int, index: int) -> int:
        elements = self._elements.get(number)
        return elements[index] if elements else self.key(("get-tuple-element", number, index))
