"""The hidden state that `rng` and `rng-get-and-update-state` share: a counter of 128 bits.

HLO says only that there is such a state. Here each run of a module begins with the same one, and every instruction that
uses it takes the numbers that it needs, in the order in which the instructions are executed: that of the instructions
in their computation, each turn of a loop and each call anew. So a program gives the same results in every run, and on
every implementation that keeps to this. A program that wants other numbers takes a seed as an argument, and uses
rng-bit-generator.
"""

from __future__ import annotations

import numpy as np

from .types import Array

INITIAL = 0x7012395  # what XLA:CPU begins with, too
KEY = 0  # of the cipher that makes numbers of this counter
_MASK = 2**64 - 1


class RandomState:
    """The counter of one run."""

    def __init__(self) -> None:
        self.counter = INITIAL

    def take(self, delta: int) -> Array:
        """The counter as u64[2], its low 64 bits first; after it the counter is larger by delta, modulo 2^128."""
        before = self.counter
        self.counter = (before + delta) % 2**128
        return np.array([before & _MASK, before >> 64], np.uint64)
