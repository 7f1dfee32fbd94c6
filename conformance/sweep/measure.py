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
    """What a sweep of a function found."""

    function: Function
    swept: int  # operands
    error: float  # the largest one in ULP of the result; inf where a result that is to be met exactly is not
    bits: int  # of the operands where that is, the first one's above the second one's
    seconds: float

    @property
    def kept(self) -> bool:
        """Whether the accuracy contract is."""
        return self.error <= self.function.bound

    @property
    def operands(self) -> tuple[np.ndarray, ...]:
        """The worst operands, as scalars of their type."""
        return values_of(self.function, self.bits)


def values_of(function: Function, bits: int) -> tuple[np.ndarray, ...]:
    """The operands with these bits, as scalars of their type."""
    width, dtype = function.operand.bits, function.operand.dtype
    words = [bits >> width * k & (1 << width) - 1 for k in reversed(range(function.arity))]
    return tuple(np.array(word, f"u{dtype.itemsize}").view(dtype)[()] for word in words)


def measure(function: Function, load: Load, sample: int = 1, tick: Callable[[int], None] = lambda done: None) -> Worst:
    """Sweeps all operands, or one stretch in `sample` (a power of two) of them; tick(n) after every n.

    `load` prepares a module to be run (see targets). Whatever it raises goes through.
    """
    start, step = time.monotonic(), min(CHUNK, function.operands)
    count = max(1, step // sample)
    run = load(sweep(function, count))
    chunks = range(0, function.operands, step)
    worst = 0
    for first in chunks:
        (found,) = run([np.array(first, np.uint32)])
        worst = max(worst, int(found))
        tick(step)
    error, bits = worst >> 32, worst & 0xFFFFFFFF
    ulps = float("inf") if error == MISSED else error / UNIT
    return Worst(function, len(chunks) * count, ulps, bits, time.monotonic() - start)
