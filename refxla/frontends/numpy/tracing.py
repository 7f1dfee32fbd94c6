"""One run of a NumPy function on arrays that are not there: what it takes from outside, and what it asks of that.

What a traced function takes from outside are *leaves*: an array or a Python number among the arguments, an array that
the function captures. A leaf is a parameter of the program. But a function may ask for the value of one that is a
number or captured: in an `if`, as a size, or because NumPy computes something of it that has no compiled form. Such a
leaf becomes part of the program, and its value decides, as a shape does, which program a call runs. `Tracing` notes
which leaves were asked for, and the function is then traced again with their values in place.

The bodies of loops and branches are *regions*: instructions that are made while one is traced belong to it, and are
seen there and in regions within it alone (control_flow.py closes a region, which makes it a computation).
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
from ...ir.calling_convention import NumberArray
from .location import users_line

Leaves = Sequence[Any]
WARN_INSTRUCTIONS = 20_000  # instructions, after which a warning says what makes fewer
_running = threading.local()


def running() -> Tracing | None:
    """The trace that goes on in this thread."""
    return getattr(_running, "tracing", None)


class Region:
    """The part of a program that a function, or the body of a loop or branch, is: `name` is what messages call it.

    `checks` has what must hold when it runs: a pred[], and what makes the error that is raised if it does not.
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
    """What gives the value of a parameter that is a Python number: called with the leaves of a call, and the same as
    data."""

    evaluate: Callable[[Leaves], Any]
    data: NumberArray

    def __call__(self, leaves: Leaves) -> np.ndarray:
        value, dtype = self.evaluate(leaves), ELEMENT_TYPES[self.data.element_type].dtype
        return np.full((), value, dtype) if self.data.filled else np.asarray(value, dtype)


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
        self.sources: list[int | NumberSource] = []
        self.origins: dict[Instruction, frozenset[int]] = {}  # of each parameter: the leaves it is made from
        self.written: dict[int, Any] = {}  # arguments whose elements the function changes, by leaf: their storage
        self.ranges: dict[Instruction, int] = {}  # integers that are known to be from 0 to below a number
        self.top = self.region = Region(name)
        self._homes: dict[Instruction, Region] = {}
        self._is_long = False
        self._numbers: dict[tuple[Any, ...], Instruction] = {}
        self.number_functions: dict[tuple[Any, ...], Callable[[Leaves], Any]] = {}  # of computed numbers, by expression

    # -- instructions and where they are seen
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
        """A value that the region is given."""
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
        """Let this be the trace that goes on in this thread."""
        before = running()
        _running.tracing = self
        try:
            yield
        finally:
            _running.tracing = before

    @contextlib.contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """Let what is made belong to a region that was left."""
        before, self.region = self.region, region
        try:
            yield
        finally:
            self.region = before

    @contextlib.contextmanager
    def within(self, name: str) -> Iterator[Region]:
        """A new region, to which belongs what is made until the end."""
        before, self.region = self.region, Region(name, self.region)
        try:
            yield self.region
        finally:
            self.region = before

    def check(self, condition: Instruction, error: type[Exception], message: str) -> None:
        """Let the call raise an error where an element of `condition` is false; it names the line that is traced."""
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
        """The parameter for a Number, converted as NumPy converts Python's numbers: an integer that the type does not
        hold is an OverflowError, at each call; `filled`: as `np.full` does, which takes it."""
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

    # -- values that are asked for
    def origins_of(self, value: Instruction) -> frozenset[int]:
        """The leaves that a value is made from; none, and so no way to its value, if a region is given it."""
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
        """Note that a value made from these leaves is needed now. Whether it can be had when the function is traced
        again."""
        if not origins or not origins <= self.open:
            return False
        self.asked |= origins
        return True
