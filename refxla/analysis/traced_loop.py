"""Whether instructions that repeat are iterations of a loop, and where each iteration takes its operands from.

An operand of the k-th instruction of an iteration is the same value in all iterations, a literal that differs between
them, a value that is computed in the same iteration or some iterations before, or data movement of values from before
the loop. With any other operand, there is no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import Shape

from ..ir.op_table import ELEMENTWISE, class_of

MOST_ATTEMPTS = 8  # to find a loop by leaving out first or last iterations
MOST_BACK = 4  # iterations over which a value is carried
MOST_STACKED = 1 << 16  # bytes of outside values that are stacked, so that each iteration reads one
MOST_NUMBERS = 1 << 24  # bytes of a table of literals
MOST_COLLECTED = 1 << 26  # bytes of collected values of which few are read

_MOVEMENTS = ("slice", "reshape", "broadcast", "transpose", "convert")


class TracedProgram:
    """Instructions, each after its operands. `kind` has equal numbers for instructions that differ at most in the start
    of a slice; `literals` has the arrays of constants."""

    def __init__(
        self,
        sequence: Sequence[Instruction],
        kind: Callable[[Instruction], int],
        literals: Mapping[Instruction, Any],
        users: Mapping[Instruction, Sequence[Instruction]],
    ) -> None:
        self.sequence, self.kind, self.literals, self.users = sequence, kind, literals, users
        self.place = {i: n for n, i in enumerate(sequence)}

    def reordered(self, sequence: Sequence[Instruction]) -> TracedProgram:
        """The same program with its instructions in another order, again each after its operands."""
        return TracedProgram(sequence, self.kind, self.literals, self.users)


class NotALoop(Exception):
    """Raised where instructions are alike, but not iterations of a loop; those before `iteration`, or from it on, may
    be."""

    def __init__(self, iteration: int | None = None) -> None:
        super().__init__(iteration)
        self.iteration = iteration


@dataclass(frozen=True)
class Invariant:
    """An outside value that is the same in every iteration."""

    value: Instruction


@dataclass(frozen=True)
class LoopLiterals:
    """A literal of each iteration."""

    arrays: Sequence[Any]
    shape: Shape

    @property
    def is_splat(self) -> bool:
        """Whether each of them is a splat."""
        return all(a.size and not any(a.strides) for a in self.arrays)

    @property
    def differ(self) -> bool:
        """Whether their bits differ."""
        arrays = [a.flat[0] for a in self.arrays] if self.is_splat else self.arrays
        return any(a.tobytes() != arrays[0].tobytes() for a in arrays)


@dataclass(frozen=True)
class CarriedValue:
    """The value of the `place`-th instruction of an iteration: the same iteration or, with `first`, as many iterations
    before as `first` has elements; these are the operands of the first iterations."""

    place: int
    first: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class MovedValues:
    """Data movement of outside values, one for each iteration."""

    row: Sequence[Instruction]
    operands: Sequence[LoopOperand]


@dataclass(frozen=True)
class StackedValues:
    """Small outside values, one for each iteration."""

    row: tuple[Instruction, ...]


LoopOperand = Invariant | LoopLiterals | CarriedValue | MovedValues | StackedValues


class TracedLoop:
    """`count` iterations of `period` instructions of a program, from `start` on.

    `rows[k]` has the k-th instructions of all iterations, `operands[k]` their operands, and `read[k]` the iterations
    whose values are read outside of the loop. Raises NotALoop where an iteration takes its operands from elsewhere than
    the others.
    """

    def __init__(self, program: TracedProgram, start: int, period: int, count: int) -> None:
        self.program, self.start, self.period, self.count = program, start, period, count
        end = start + period * count
        self.rows = [program.sequence[start + k : end : period] for k in range(period)]
        if all(row[0].opcode in _MOVEMENTS for row in self.rows):
            raise NotALoop
        self.operands = [
            [self._operand([i.operands[n] for i in row]) for n in range(len(row[0].operands))] for row in self.rows
        ]
        self.read = [self._read(row) for row in self.rows]
        if not any(self.read):  # dead code
            raise NotALoop

    def holds(self, i: Instruction) -> bool:
        """Whether an instruction belongs to an iteration."""
        return self.start <= self.program.place.get(i, -1) < self.start + self.period * self.count

    @property
    def computes_with_numbers(self) -> bool:
        """Whether arithmetic has literals that differ between iterations, some of which may make it simpler."""
        return any(
            isinstance(o, LoopLiterals) and o.is_splat and o.differ
            for row, operands in zip(self.rows, self.operands, strict=True)
            if class_of(row[0]) == ELEMENTWISE
            for o in operands
        )

    def _read(self, row: Sequence[Instruction]) -> list[int]:
        users = self.program.users
        read = [n for n, i in enumerate(row) if any(u is i or not self.holds(u) for u in users[i])]
        if read and (row[0].shape.is_tuple or self._would_waste(read, row[0].shape)):
            raise NotALoop
        return read

    def _would_waste(self, read: Sequence[int], shape: Shape) -> bool:
        """Whether much memory would be wasted on values that nobody reads."""
        few = 4 * len(read) < self.count and read[0] < self.count - 1
        return few and self.count * shape.bytes > MOST_COLLECTED

    def _operand(self, values: Sequence[Instruction]) -> LoopOperand:
        """The kind of an operand of a row's instructions."""
        literals = self.program.literals
        if all(v in literals for v in values):
            numbers = LoopLiterals([np.asarray(literals[v]) for v in values], values[0].shape)
            own = len({id(literals[v]) for v in values})
            if own > 1 and not numbers.is_splat and own * values[0].shape.bytes > MOST_NUMBERS:
                raise NotALoop
            return numbers
        places = [self.program.place.get(v, -1) - self.start for v in values]
        if places[-1] < 0:
            return self._from_outside(values, places)
        at = places[-1] - (self.count - 1) * self.period
        back = -(at // self.period)
        if back and values[-1].shape.is_tuple:
            raise NotALoop
        if back > MOST_BACK:
            raise NotALoop(1)
        unlike = [n for n, p in enumerate(places) if p != at + n * self.period and (n >= back or p >= 0)]
        if unlike:
            raise NotALoop(unlike[-1] + 1)
        return CarriedValue(at % self.period, tuple(values[:back]))

    def _from_outside(self, values: Sequence[Instruction], places: Sequence[int]) -> LoopOperand:
        inside = [n for n, p in enumerate(places) if p >= 0]
        if inside:
            raise NotALoop(inside[-1] + 1)
        first = values[0]
        if all(v is first for v in values):
            return Invariant(first)
        kind = self.program.kind
        if first.opcode in _MOVEMENTS and all(kind(v) == kind(first) for v in values):
            operands = [self._operand([v.operands[n] for v in values]) for n in range(len(first.operands))]
            return MovedValues(values, operands)
        if first.shape.is_tuple or self.count * first.shape.bytes > MOST_STACKED:
            raise NotALoop
        return StackedValues(tuple(values))


def slice_steps(i: Instruction) -> list[tuple[int, int]]:
    """For each dimension of a slice: the extent from its first to its last element, both included, and its stride."""
    if i.opcode != "slice":
        return []
    return [((n - 1) * s.stride + 1 if n else 0, s.stride) for n, s in zip(i.shape.dimensions, i.slice, strict=True)]


def longest_loop(program: TracedProgram, start: int, period: int, count: int, least: int) -> TracedLoop | None:
    """The longest loop among so many iterations; None where fewer than `least` instructions would be saved."""
    for _ in range(MOST_ATTEMPTS):
        if (count - 1) * period < least:
            break
        try:
            return TracedLoop(program, start, period, count)
        except NotALoop as found:
            if found.iteration is None:
                return None
            before, behind = found.iteration, count - found.iteration
            start, count = (start, before) if before > behind else (start + before * period, behind)
    return None
