"""The way to a program and back, with next to nothing in it."""

from __future__ import annotations

import numpy as np

from .peers import PEERS, compiled

HLO = """HloModule increment
ENTRY main {
  x = f32[8] parameter(0)
  one = f32[] constant(1)
  ones = f32[8] broadcast(one), dimensions={}
  ROOT y = f32[8] add(x, ones) }"""


class TinyProgram:
    """x + 1 on eight numbers."""

    params = [PEERS]
    param_names = ["peer"]

    def setup(self, peer: str) -> None:
        self.call = compiled(peer, HLO, lambda: lambda x: x + 1, [np.arange(8, dtype=np.float32)])

    def time_call(self, peer: str) -> None:
        self.call()
