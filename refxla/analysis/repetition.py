"""Finds where a sequence of instructions repeats, as the iterations of a traced loop of the host language do.

    x1 = f(x0, 1); x2 = f(x1, 2); x3 = f(x2, 3); ...    with f of p instructions    ->    a period of p

Two instructions are alike if they apply the same operation to operands that are the same, or alike and p apart;
literals and starts of slices may differ. Whether they form a loop is decided later (traced_loop.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.module import Instruction

from .traced_loop import TracedProgram

FEWEST = 3  # iterations
LOOP = 32  # instructions that a loop costs
MOST_PERIODS = 16  # that are tried, those at which most instructions recur
LONGEST = 64  # consecutive instructions that are matched at once, at most

_LITERAL = -1
_UNKNOWN = np.int64(1) << 40  # more than any distance between two instructions
_Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Repetition:
    """Instructions of a sequence, from `start` to before `end`, that recur after `period` instructions. Those before
    them, from `alike` on, apply the same operations to other operands: they may be of a first iteration, whose operands
    are the initial values of the loop."""

    start: int
    end: int
    period: int
    alike: int

    @property
    def count(self) -> int:
        return (self.end - self.start) // self.period

    @property
    def saved(self) -> int:
        """The instructions that its loop removes, without those that it costs."""
        return (self.count - 1) * self.period - LOOP


class Repeats:
    """The periods of a program; its literals are operands that may differ between iterations."""

    def __init__(self, program: TracedProgram) -> None:
        others: dict[Instruction, int] = {}

        def number(o: Instruction) -> int:
            if o in program.place:
                return program.place[o]
            return _LITERAL if o in program.literals else _LITERAL - 1 - others.setdefault(o, len(others))

        counts = [len(i.operands) for i in program.sequence]
        self._kinds: _Numbers = np.array([program.kind(i) for i in program.sequence], np.int64)
        self._first: _Numbers = np.cumsum([0, *counts])
        self._owner: _Numbers = np.repeat(np.arange(len(counts)), counts)
        self._operands: _Numbers = np.array([number(o) for i in program.sequence for o in i.operands], np.int64)

    def candidates(self, least: int) -> Iterator[list[Repetition]]:
        """The repetitions of each period that would save at least `least` instructions, in order of what they save. One
        that is several iterations of a divisor of its period is replaced by that of the divisor."""
        by_period = {period: self._of_period(period) for period in self._periods()}
        gone = {p: sum(r.saved for r in rs) for p, rs in by_period.items()}
        for period in sorted(gone, key=lambda p: -gone[p]):
            if gone[period] >= least:
                divisors = [d for d in range(1, period) if period % d == 0]
                for d in divisors:
                    if d not in by_period:
                        by_period[d] = self._of_period(d)
                shorter = [r for d in divisors for r in by_period[d]]
                yield [next((s for s in shorter if _covers(s, r)), r) for r in by_period[period]]

    def _periods(self) -> list[int]:
        """The distances at which most instructions recur, alone or as the first of so many alike."""
        periods: set[int] = set()
        numbers = np.unique(self._kinds, return_inverse=True)[1].astype(np.uint64)
        factor = np.uint64(0x9E3779B97F4A7C15)  # odd, of mixed bits: hardly ever do different parts get one number
        length = 1
        while length <= len(numbers) and length <= LONGEST:
            order = np.argsort(numbers, kind="stable")
            apart = np.diff(order)[numbers[order][1:] == numbers[order][:-1]]
            distances, counts = np.unique(apart, return_counts=True)
            chosen = np.argsort(-counts * distances, kind="stable")[:MOST_PERIODS]
            periods.update(int(distances[n]) for n in chosen)
            for _ in range(2):  # of pairs, and of pairs of those
                numbers = numbers[:-length] * factor + (numbers[length:] ^ (numbers[length:] >> np.uint64(29)))
                length *= 2
        return sorted(periods)

    def _of_period(self, period: int) -> list[Repetition]:
        same_kind = self._kinds[:-period] == self._kinds[period:]
        starts, ends = _runs(same_kind)
        if not np.any(ends - starts >= period * (FEWEST - 1)):
            return []
        same = self._same_operands(period, same_kind)
        found = list[Repetition]()
        for start, end in zip(*_runs(same), strict=True):
            if end - start >= period * (FEWEST - 1) and (not found or start >= found[-1].end):
                alike = max(
                    int(starts[np.searchsorted(starts, start, side="right") - 1]), found[-1].end if found else 0
                )
                found.append(Repetition(int(start), int(end) + period, period, alike))
        return found

    def _same_operands(self, period: int, same_kind: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Which instructions have operands that are alike with those of the instruction a period later."""
        count = len(same_kind)
        mine = np.arange(self._first[count])[same_kind[self._owner[: self._first[count]]]]
        owner = self._owner[mine]
        next_one = self._first[owner + period] + mine - self._first[owner]
        here, there = self._operands[mine], self._operands[next_one]
        apart = there - here
        following, preceding = (np.full(len(self._operands), _UNKNOWN) for _ in range(2))
        following[mine], preceding[next_one] = apart, apart
        steady = (following[next_one] == apart) | (preceding[mine] == apart)  # as from the values of another loop
        inside = (here >= 0) & (there >= 0)
        kinds = (self._kinds[np.where(inside, o, 0)] for o in (here, there))  # of what is outside there is none
        alike = (here == there) | inside & np.equal(*kinds) & ((apart == period) | steady)
        unlike = np.bincount(owner[~alike], minlength=count)
        same: np.ndarray[Any, Any] = same_kind & (unlike == 0)
        return same


def _covers(shorter: Repetition, longer: Repetition) -> bool:
    """Whether the longer period consists of several iterations of the shorter one."""
    return shorter.start <= longer.start and longer.end <= shorter.end


def _runs(holds: np.ndarray[Any, Any]) -> tuple[_Numbers, _Numbers]:
    """The starts and the ends of the runs in which it holds."""
    changes = np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8))
    return np.flatnonzero(changes == 1), np.flatnonzero(changes == -1)
