"""One run of a NumPy function on arrays that are not there: what it takes from outside, and what it asks of that.

What a traced function takes from outside are *leaves*: an array or a Python number among the arguments, an array that
the function captures. A leaf is a parameter of the program. But a function may ask for the value of one that is a
number or captured: in an `if`, as a size, or because NumPy computes something of it that has no compiled form. Such a
leaf becomes part of the program, and its value decides, as a shape does, which program a call runs. `Tracing` notes
which leaves were asked for, and the function is then traced again with their values in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import BY_DTYPE, Shape

from ...ir.builder import Build

Leaves = Sequence[Any]


class Tracing(Build):
    """Makes the instructions of a traced function, and its parameters.

    `leaves` are example values; `open` are those whose value may be asked for; `asked` those for which it was.
    `sources` has for each parameter what gives its value, from the leaves of a call.
    """

    def __init__(self, name: str, leaves: Leaves, open_leaves: Iterable[int]) -> None:
        super().__init__(name)
        self.leaves, self.open = leaves, frozenset(open_leaves)
        self.asked: set[int] = set()
        self.parameters: list[Instruction] = []
        self.sources: list[int | Callable[[Leaves], np.ndarray]] = []
        self.origins: dict[Instruction, frozenset[int]] = {}  # of each parameter: the leaves it is made from
        self._numbers: dict[tuple, Instruction] = {}

    def array(self, leaf: int) -> Instruction:
        """The parameter for a leaf that is an array."""
        return self._parameter(Shape.of(self.leaves[leaf]), leaf, frozenset((leaf,)))

    def number(self, number: Any, dtype: np.dtype, convert: Callable[..., np.ndarray] = np.asarray) -> Instruction:
        """The parameter for a Number, converted as NumPy converts Python's numbers: by default an integer that the type
        does not hold is an OverflowError, at each call."""
        evaluate, key = number.evaluate, (number.evaluate, dtype, convert)
        known = self._numbers.get(key)
        if known is None:

            def value(leaves: Leaves) -> np.ndarray:
                return convert(evaluate(leaves), dtype)

            value(self.leaves)
            known = self._parameter(Shape(BY_DTYPE[dtype]), value, number.origins)
            self._numbers[key] = known
        return known

    def _parameter(self, shape: Shape, source: Any, origins: frozenset[int]) -> Instruction:
        number = len(self.parameters)
        self.parameters.append(Instruction(f"arg{number}", "parameter", shape, [], {"number": number}))
        self.sources.append(source)
        self.origins[self.parameters[-1]] = origins
        return self.parameters[-1]

    def origins_of(self, value: Instruction) -> frozenset[int]:
        """The leaves that a value is made from."""
        found: set[int] = set()
        waiting, seen = [value], {value}
        while waiting:
            i = waiting.pop()
            found |= self.origins.get(i, frozenset())
            for operand in i.operands:
                if operand not in seen:
                    seen.add(operand)
                    waiting.append(operand)
        return frozenset(found)

    def ask(self, origins: frozenset[int]) -> bool:
        """Note that a value made from these leaves is needed now. Whether it can be had when the function is traced
        again."""
        if not origins or not origins <= self.open:
            return False
        self.asked |= origins
        return True
