"""JAX (XLA:CPU), and refxla, which compiles the same functions of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .base import Array, Framework, Function, Tree, with_functions

jax.config.update("jax_platforms", "cpu")

_IMAGES = ("NHWC", "HWIO", "NHWC")


@with_functions(
    jnp,
    "exp log tanh sqrt where maximum sum mean max argmin reshape transpose concatenate stack split pad zeros sort "
    "cumsum arange",
)
@with_functions(jax.nn, "relu sigmoid gelu softmax log_softmax")
class Jax(Framework):
    """jax.jit."""

    name = "jax"
    packages = ("jax", "jaxlib")

    def wide_types(self, on: bool) -> None:
        jax.config.update("jax_enable_x64", on)

    def place(self, tree: Tree) -> Tree:
        return jax.tree.map(jax.device_put, tree)

    def compile(self, function: Function, trains: bool) -> Function:
        compiled: Function = jax.jit(function)
        return compiled

    def wait(self, results: Tree) -> None:
        jax.block_until_ready(results)

    def value_and_grad(self, loss: Function, parameters: Tree, *arguments: Any) -> tuple[Array, Tree]:
        value, gradient = jax.value_and_grad(loss)(parameters, *arguments)
        return value, gradient

    def loop(self, count: int, body: Function, state: Tree) -> Tree:
        return lax.fori_loop(0, count, lambda _, s: body(s), state)

    def take(self, table: Array, rows: Array) -> Array:
        return table[rows]

    def scatter_add(self, x: Array, rows: Array, updates: Array) -> Array:
        return x.at[rows].add(updates)

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    def convolve(self, x: Array, filters: Array, stride: int, padding: int, groups: int = 1) -> Array:
        sides = [(padding, padding)] * 2
        return lax.conv_general_dilated(
            x, filters, (stride, stride), sides, dimension_numbers=_IMAGES, feature_group_count=groups
        )

    def max_pool(self, x: Array, window: int, stride: int, padding: int = 0) -> Array:
        sides = ((0, 0), (padding, padding), (padding, padding), (0, 0))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), sides)

    def lstm(self, x: Array, weights: Array, recurrent: Array, bias: Array) -> Array:
        def cell(state: Any, x: Array) -> Any:
            hidden, memory = state
            i, f, g, o = jnp.split(x @ weights + hidden @ recurrent + bias, 4, -1)
            memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
            return (hidden, memory), hidden

        start = jnp.zeros((x.shape[1], recurrent.shape[0]))
        return lax.scan(cell, (start, start), x)[1]

    def put(self, cache: Array, position: Array, new: Array) -> Array:
        return lax.dynamic_update_slice_in_dim(cache, new, position, 2)

    def double(self, x: Array) -> Array:
        return jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)


class Refxla(Jax):
    """refxla.compile of jax.jit of the function: JAX traces, refxla compiles and runs."""

    name = "refxla"
    packages = ("pyopencl", "pocl-binary-distribution")
    without: tuple[str, ...] = ()
    device: str | None = None

    def __init__(self) -> None:
        import refxla

        devices = [d for d in refxla.devices() if self.device in (None, d.name)]
        if not devices:
            raise ImportError(f"there is no OpenCL device {self.device!r}")
        _ = devices[0].target  # the properties of a device are probed once per installation, not per program

    def place(self, tree: Tree) -> Tree:
        return jax.tree.map(np.asarray, tree)

    def compile(self, function: Function, trains: bool) -> Function:
        import refxla

        compiled: Function = refxla.compile(jax.jit(function), without=self.without, device=self.device)
        return compiled

    def wait(self, results: Tree) -> None:
        """Results are there when the call returns."""


class RefxlaUnfused(Refxla):
    """The same, operation by operation: each is a separate kernel, and its result is in memory."""

    name = "refxla-unfused"
    without = ("fusion",)


class RefxlaIntel(Refxla):
    """The same on Intel's OpenCL runtime for CPUs instead of PoCL."""

    name = "refxla-intel"
    packages = ("pyopencl", "intel-opencl-rt")
    device = "intel"
