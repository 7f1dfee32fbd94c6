"""The way to a program and back, with next to nothing in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .peers import PEERS, compiled

HLO = """HloModule increment
ENTRY main {
  x = f32[8] parameter(0)
  one = f32[] constant(1)
  ones = f32[8] broadcast(one), dimensions={}
  ROOT y = f32[8] add(x, ones) }"""


def function() -> Callable:
    return lambda x: x + 1


def arguments() -> list[np.ndarray]:
    return [np.arange(8, dtype=np.float32)]


class TinyProgram:
    """x + 1 on eight numbers."""

    params = [PEERS]
    param_names = ["peer"]

    def setup(self, peer: str) -> None:
        self.call = compiled(peer, HLO, function, arguments())

    def time_call(self, peer: str) -> None:
        self.call()
