"""The gain of `tune=True`: matrix products with the rules' blocking, and with the best one measured."""

from __future__ import annotations

import numpy as np

GEMM = """HloModule gemm
ENTRY main {{
  x = f32[{m},{k}] parameter(0)
  y = f32[{k},{n}] parameter(1)
  ROOT r = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""


class Tuning:
    """One call; its first setup searches (some ten seconds per shape), later ones find the result on disk."""

    params = [["rules", "tuned"], [(128, 128, 128), (32, 784, 128), (512, 512, 512)]]
    param_names = ["blocks", "m, k, n"]
    timeout = 300

    def setup(self, blocks: str, shape: tuple[int, int, int]) -> None:
        import refxla

        m, k, n = shape
        self.run = refxla.compile(GEMM.format(m=m, k=k, n=n), tune=blocks == "tuned")
        random = np.random.default_rng(0)
        self.arguments = [random.standard_normal(s, dtype=np.float32) for s in ((m, k), (k, n))]
        self.run(*self.arguments)

    def time_call(self, blocks: str, shape: tuple[int, int, int]) -> None:
        self.run(*self.arguments)
