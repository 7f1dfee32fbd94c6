"""One function swept: the worst operand and its error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from refxla_spec.module import Module

from .functions import Function
from .program import MISSED, UNIT, sweep

CHUNK = 1 << 22  # operands of one call
Loaded = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
Load = Callable[[Module], Loaded]


@dataclass(frozen=True)
class Worst:
    """The result of a function's sweep. Operands are given by their bits, the first one's above the second one's."""

    function: Function
    swept: int  # operands
    error: float  # the largest one in ULP of the result, over the results that need not be exact
    bits: int  # of the operands with that error
    missed: int | None  # the last operands whose result must be exact and is not
    seconds: float

    @property
    def is_kept(self) -> bool:
        """Whether the accuracy contract is broken."""
        return self.missed is None and self.error <= self.function.bound

    @property
    def operands(self) -> tuple[np.ndarray, ...]:
        """The operands that matter: those with a wrong exact result, or the worst ones."""
        return values_of(self.function, self.bits if self.missed is None else self.missed)


def values_of(function: Function, bits: int | np.ndarray) -> tuple[np.ndarray, ...]:
    """The operands with these bits, scalars for a number."""
    width, dtype = function.operand.bits, function.operand.array_dtype
    bits = np.asarray(bits, np.uint64)
    words = [bits >> np.uint64(width * k) & np.uint64(2**width - 1) for k in reversed(range(function.arity))]
    return tuple(np.asarray(word).astype(f"u{dtype.itemsize}").view(dtype)[()] for word in words)


def measure(
    function: Function,
    load: Load,
    sample: int = 1,
    normal: bool = False,
    tick: Callable[[int], None] = lambda count: None,
) -> Worst:
    """Sweeps all operands, or one in `sample` (a power of two) of more than CHUNK, spread over all of them; calls
    tick(n) after every n.

    `load` prepares a module to be run (see targets). With `normal`, subnormal operands and results do not count.
    Exceptions of `load` and of the loaded program are passed on.
    """
    start, step = time.monotonic(), min(CHUNK, function.operands)
    count = step if function.operands <= CHUNK else max(1, step // sample)

    def largest(regular: bool) -> int:
        run, most = load(sweep(function, count, regular, normal, step // count)), 0
        for first in range(0, function.operands, step):
            (word,) = run([np.array(first, np.uint32)])
            most = max(most, int(word))
            tick(step)
        return most

    worst, missed = largest(False), None
    if worst >> 32 == MISSED:
        missed = worst & 0xFFFFFFFF
        tick(-function.operands)
        worst = largest(True) if function.bound else 0
    error = float("inf") if worst >> 32 == MISSED else (worst >> 32) / UNIT
    swept = function.operands // step * count
    return Worst(function, swept, error, worst & 0xFFFFFFFF, missed, time.monotonic() - start)
