"""Where a sequence of instructions repeats: what a loop of the host's language left when it was traced.

    x1 = f(x0, 1); x2 = f(x1, 2); x3 = f(x2, 3); ...    with f of p instructions    ->    a period of p

Two instructions are alike if they do the same to operands that are alike, p apart, or the same; numbers, and where a
slice begins, may differ. Whether they form a loop is for the pass to see that makes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.module import Instruction

FEWEST = 4  # iterations
LOOP = 32  # instructions that a loop is worth
MOST_PERIODS = 48  # that are tried, of those at which most instructions come again

_LITERAL = -1
_Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Repetition:
    """Instructions of a sequence, from `start` to before `end`, that come again after `period` others. Those before
    them, from `alike` on, only do the same to other operands: they may be of a first iteration, whose operands are
    those that the loop begins with."""

    start: int
    end: int
    period: int
    alike: int

    @property
    def count(self) -> int:
        return (self.end - self.start) // self.period


class Repeats:
    """The periods of a sequence of instructions, each of which follows its operands.

    `kinds` are equal for instructions that do the same; literals are the operands that may be other numbers in each
    iteration.
    """

    def __init__(self, sequence: Sequence[Instruction], kinds: Sequence[int], literals: Mapping[Instruction, Any]):
        place = {i: n for n, i in enumerate(sequence)}
        others: dict[Instruction, int] = {}
        self._kinds: _Numbers = np.array(kinds, np.int64)
        self._first: _Numbers = np.cumsum([0, *(len(i.operands) for i in sequence)])
        self._owner: _Numbers = np.repeat(np.arange(len(sequence)), np.diff(self._first))
        self._operands: _Numbers = np.array(
            [
                place[o] if o in place else _LITERAL if o in literals else -2 - others.setdefault(o, len(others))
                for i in sequence
                for o in i.operands
            ],
            np.int64,
        )

    def found(self, least: int) -> Iterator[list[Repetition]]:
        """The repetitions of a period, those of its divisors in their places, for each period after which at least
        `least` instructions fewer are left: first those after which the fewest are."""
        by_period = {period: self._of_period(period) for period in self._periods()}
        gone = {p: sum((r.count - 1) * p - LOOP for r in rs) for p, rs in by_period.items()}
        for period in sorted(gone, key=lambda p: -gone[p]):
            if gone[period] >= least:
                divisors = [d for d in range(1, period) if period % d == 0]
                shorter = [r for d in divisors for r in by_period.get(d) or self._of_period(d)]
                yield [next((s for s in shorter if _covers(s, r)), r) for r in by_period[period]]

    def _periods(self) -> list[int]:
        """The distances at which most instructions have one of their kind next."""
        order = np.argsort(self._kinds, kind="stable")
        apart = np.diff(order)[np.diff(self._kinds[order]) == 0]
        distances, counts = np.unique(apart, return_counts=True)
        chosen = np.argsort(-counts * distances, kind="stable")[:MOST_PERIODS]
        return sorted(int(distances[n]) for n in chosen)

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
        """Of which instructions the operands, too, are like those of the one that is a period later."""
        count = len(same_kind)
        mine = np.arange(self._first[count])[same_kind[self._owner[: self._first[count]]]]
        owner = self._owner[mine]
        here = self._operands[mine]
        there = self._operands[self._first[owner + period] + mine - self._first[owner]]
        inside = (here >= 0) & (there >= 0)
        alike = (here == there) | inside & (self._kinds[here] == self._kinds[there])
        unlike = np.bincount(owner[~alike], minlength=count)
        same: np.ndarray[Any, Any] = same_kind & (unlike == 0)
        return same


def _covers(shorter: Repetition, longer: Repetition) -> bool:
    """Whether the longer period is one of several iterations of the shorter one."""
    return shorter.start <= longer.start and longer.end <= shorter.end


def _runs(holds: np.ndarray[Any, Any]) -> tuple[_Numbers, _Numbers]:
    """Where it begins to hold, and where it ends to."""
    changes = np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8))
    return np.flatnonzero(changes == 1), np.flatnonzero(changes == -1)
