"""One run of a NumPy function on symbolic arrays: the values that it takes from outside, and those that it needs to
know.

The values that a traced function takes from outside are *leaves*: an array or a Python number among the arguments, an
array that the function captures. A leaf is a parameter of the program. But a function may need the value of one that is
a number or captured: in an `if`, as a size, or because NumPy computes something from it that has no compiled form. Such
a leaf becomes part of the program, and its value decides, as a shape does, which program a call runs. `Tracing` records
which leaves were needed, and the function is then traced again with their values in place.

The bodies of loops and branches are *regions*: instructions created while one is traced belong to it, and are visible
only there and in regions nested in it (control_flow.py closes a region, which makes it a computation).
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES, PRED, Shape

from ...ir.builder import Build, reducer
from ...ir.calling_convention import DerivedNumber, NumberArray
from .location import users_line

Leaves = Sequence[Any]
WARN_INSTRUCTIONS = 20_000  # instructions, after which a warning says how to have fewer
_running = threading.local()


def running() -> Tracing | None:
    """The current trace of this thread."""
    return getattr(_running, "tracing", None)


class Region:
    """The part of a program for a function, or the body of a loop or branch: `name` is its name in messages.

    `checks` has the conditions that must hold when it runs: a pred[], and a function that creates the error that is
    raised otherwise.
    """

    def __init__(self, name: str, parent: Region | None = None) -> None:
        self.name, self.parent = name, parent
        self.checks: list[tuple[Instruction, Callable[[], Exception]]] = []

    def is_within(self, other: Region) -> bool:
        region: Region | None = self
        while region is not None and region is not other:
            region = region.parent
        return region is other


@dataclass(frozen=True)
class NumberSource:
    """The source of a parameter that is a Python number: a function of the leaves of a call, and the same as data."""

    evaluate: Callable[[Leaves], Any]
    data: NumberArray

    @property
    def may_raise(self) -> bool:
        """Whether there are numbers for which Python or NumPy raises an error, also if nothing reads the parameter: an
        integer out of range, an index, a division by zero."""
        is_integer = ELEMENT_TYPES[self.data.element_type].kind in ("signed", "unsigned")
        return isinstance(self.data.number, DerivedNumber) or (is_integer and not self.data.filled)

    def __call__(self, leaves: Leaves) -> np.ndarray:
        value, dtype = self.evaluate(leaves), ELEMENT_TYPES[self.data.element_type].dtype
        return np.full((), value, dtype) if self.data.filled else np.asarray(value, dtype)


class Tracing(Build):
    """Creates the instructions of a traced function, and its parameters.

    `leaves` are example values; `open` are those whose value may be requested; `asked` those for which it was.
    `sources` computes the value of each parameter from the leaves of a call.
    """

    def __init__(self, name: str, leaves: Leaves, open_leaves: Iterable[int]) -> None:
        super().__init__(name)
        self.leaves, self.open = leaves, frozenset(open_leaves)
        self.asked: set[int] = set()
        self.parameters: list[Instruction] = []
        self.sources: list[int | NumberSource] = []
        self.origins: dict[Instruction, frozenset[int]] = {}  # for each parameter: the leaves from which it is computed
        self.written: dict[int, Any] = {}  # arguments whose elements the function changes, by leaf: their storage
        self.ranges: dict[Instruction, int] = {}  # integers that are known to be from 0 to below a number
        self.top = self.region = Region(name)
        self._homes: dict[Instruction, Region] = {}
        self._is_long = False
        self._numbers: dict[tuple[Any, ...], Instruction] = {}
        self.number_functions: dict[tuple[Any, ...], Callable[[Leaves], Any]] = {}  # of computed numbers, by expression

    # -- instructions and their visibility
    def make(self, opcode: str, *operands: Instruction, shape: Shape | None = None, **attributes: Any) -> Instruction:
        instruction = super().make(opcode, *operands, shape=shape, **attributes)
        self._homes[instruction] = self.region
        if self.count >= WARN_INSTRUCTIONS and not self._is_long:
            self._is_long = True
            warnings.warn(
                f"{self.name} has made {WARN_INSTRUCTIONS} instructions, and goes on: each iteration of a Python loop "
                "is traced, which takes long; refxla.fori_loop, refxla.while_loop and refxla.scan are loops of the "
                "program"
                f"{users_line()}",
                stacklevel=2,
            )
        return instruction

    def tuple(self, *elements: Instruction) -> Instruction:
        return self.make("tuple", *elements)

    def stand_in(self, shape: Shape) -> Instruction:
        """A value that is passed to the region."""
        self.count += 1
        instruction = Instruction(f"{self.name}.{self.count}", "parameter", shape, [], {"number": 0})
        self._homes[instruction] = self.region
        return instruction

    def home(self, i: Instruction) -> Region:
        """The region that an instruction belongs to."""
        return self._homes.get(i, self.top)

    def sees(self, i: Instruction) -> bool:
        return self.region.is_within(self.home(i))

    @contextlib.contextmanager
    def runs(self) -> Iterator[None]:
        """Makes this the current trace of this thread."""
        before = running()
        _running.tracing = self
        try:
            yield
        finally:
            _running.tracing = before

    @contextlib.contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """A context in which new instructions belong to a region that was left."""
        before, self.region = self.region, region
        try:
            yield
        finally:
            self.region = before

    @contextlib.contextmanager
    def within(self, name: str) -> Iterator[Region]:
        """A new region, to which instructions belong that are created in this context."""
        before, self.region = self.region, Region(name, self.region)
        try:
            yield self.region
        finally:
            self.region = before

    def check(self, condition: Instruction, error: type[Exception], message: str) -> None:
        """Makes the call raise an error if an element of `condition` is false; it names the line that is traced."""
        if condition.shape.rank:
            every = tuple(range(condition.shape.rank))
            condition = self.make("reduce", condition, self.scalar(True, PRED), dimensions=every,
                                  to_apply=reducer("and", PRED))  # fmt: skip
        where = users_line()
        self.region.checks.append((condition, lambda: error(f"{message}{where}")))

    # -- parameters
    def array(self, leaf: int) -> Instruction:
        """The parameter for a leaf that is an array."""
        return self._parameter(Shape.of(self.leaves[leaf]), leaf, frozenset((leaf,)))

    def number(self, number: Any, dtype: np.dtype, filled: bool = False) -> Instruction:
        """The parameter for a Number, converted as NumPy converts Python numbers: an integer out of the type's range is
        an OverflowError, at each call; `filled`: converted as `np.full` does, which accepts it."""
        key = (number.evaluate, dtype, filled)
        parameter = self._numbers.get(key)
        if parameter is None:
            source = NumberSource(number.evaluate, NumberArray(number.expression, BY_DTYPE[dtype].name, filled))
            source(self.leaves)
            parameter = self._parameter(Shape(BY_DTYPE[dtype]), source, number.origins)
            self._numbers[key] = parameter
        return parameter

    def _parameter(self, shape: Shape, source: Any, origins: frozenset[int]) -> Instruction:
        number = len(self.parameters)
        self.parameters.append(Instruction(f"arg{number}", "parameter", shape, [], {"number": number}))
        self.sources.append(source)
        self.origins[self.parameters[-1]] = origins
        return self.parameters[-1]

    # -- requested values
    def origins_of(self, value: Instruction) -> frozenset[int]:
        """The leaves from which a value is computed; none, and so no way to its value, if it is passed to a region."""
        origins: set[int] = set()
        waiting, visited = [value], {value}
        while waiting:
            i = waiting.pop()
            if i.opcode == "parameter" and i not in self.origins:
                return frozenset()
            origins |= self.origins.get(i, frozenset())
            for operand in i.operands:
                if operand not in visited:
                    visited.add(operand)
                    waiting.append(operand)
        return frozenset(origins)

    def ask(self, origins: frozenset[int]) -> bool:
        """Records that a value computed from these leaves is needed now. Returns whether it will be available when the
        function is traced again."""
        if not origins or not origins <= self.open:
            return False
        self.asked |= origins
        return True
