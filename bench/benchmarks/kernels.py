"""Programs of one kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .peers import PEERS, compiled

SUM = """HloModule fused_sum
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  x = f32[{n}] parameter(0)
  y = f32[{n}] parameter(1)
  z = f32[{n}] parameter(2)
  yz = f32[{n}] multiply(y, z)
  s = f32[{n}] add(x, yz)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(s, zero), dimensions={{0}}, to_apply=add }}"""

CHAIN = """HloModule chain
ENTRY main {{
  x = f32[{n}] parameter(0)
  y = f32[{n}] parameter(1)
  z = f32[{n}] parameter(2)
  yz = f32[{n}] multiply(y, z)
  s = f32[{n}] add(x, yz)
  t = f32[{n}] tanh(s)
  m = f32[{n}] negate(x)
  e = f32[{n}] exponential(m)
  ROOT r = f32[{n}] add(t, e) }}"""

GEMM = """HloModule gemm
ENTRY main {{
  x = f32[{n},{n}] parameter(0)
  y = f32[{n},{n}] parameter(1)
  ROOT r = f32[{n},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def size(n: int) -> str:
    """A power of two in its unit."""
    return f"{n >> 20} M" if n >= 1 << 20 else f"{n >> 10} K"


class _Case:
    """One call of a program of `n` elements, or n a side; a subclass names it twice, as HLO and as a function."""

    HLO = ""

    def setup(self, peer: str, n: int) -> None:
        self.call = compiled(peer, self.HLO.format(n=n), self.function, self.arguments(n))

    @staticmethod
    def function() -> Callable:
        raise NotImplementedError

    @staticmethod
    def arguments(n: int) -> list[np.ndarray]:
        return [normal(n), normal(n), normal(n)]


class FusedSum(_Case):
    """sum(x + y * z)"""

    HLO = SUM
    params = [PEERS, [1 << 10, 1 << 16, 1 << 20, 1 << 24]]
    param_names = ["peer", "elements"]

    @staticmethod
    def title(n: int) -> str:
        return f"sum(x + y * z), {size(n)}"

    @staticmethod
    def function() -> Callable:
        import jax.numpy as jnp

        return lambda x, y, z: jnp.sum(x + y * z)

    def time_call(self, peer: str, n: int) -> None:
        self.call()


class ElementwiseChain(_Case):
    """tanh(x + y * z) + exp(-x)"""

    HLO = CHAIN
    params = [PEERS, [1 << 16, 1 << 20, 1 << 24]]
    param_names = ["peer", "elements"]

    @staticmethod
    def title(n: int) -> str:
        return f"tanh(x + y * z) + exp(-x), {size(n)}"

    @staticmethod
    def function() -> Callable:
        import jax.numpy as jnp

        return lambda x, y, z: jnp.tanh(x + y * z) + jnp.exp(-x)

    def time_call(self, peer: str, n: int) -> None:
        self.call()


class Gemm(_Case):
    """x @ y"""

    HLO = GEMM
    params = [PEERS, [256, 1024]]
    param_names = ["peer", "side"]

    @staticmethod
    def title(n: int) -> str:
        return f"x @ y, {n} x {n}"

    @staticmethod
    def function() -> Callable:
        return lambda x, y: x @ y

    @staticmethod
    def arguments(n: int) -> list[np.ndarray]:
        return [normal(n, n), normal(n, n)]

    def time_call(self, peer: str, n: int) -> None:
        self.call()
