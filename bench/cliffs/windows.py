"""Reductions over windows, and their gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .sweep import by_number, by_shape, sweep

IMAGES = ((1, 512, 512, 1), (8, 112, 112, 64), (64, 28, 28, 8), (8, 7, 7, 512))


def _pool(x: Array, window: int, stride: int) -> Array:
    return lax.reduce_window(x, -np.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), "SAME")


@sweep("windows", by_shape(IMAGES))
def largest_of_windows(x: Array) -> Array:
    return _pool(x, 2, 2)


@sweep("windows", by_shape(IMAGES))
def largest_of_overlapping_windows(x: Array) -> Array:
    return _pool(x, 3, 2)


@sweep("windows", by_shape(IMAGES))
def gradient_of_largest(x: Array) -> Array:
    return jax.grad(lambda y: jnp.sum(_pool(y, 2, 2) * 0.5))(x)


@sweep("windows", by_number("window", (2, 5, 17, 101), (100_000,)))
def moving_sum(x: Array, window: int) -> Array:
    return lax.reduce_window(x, 0.0, lax.add, (window,), (1,), "VALID")


@sweep("windows", by_number("window", (2, 5, 17, 101), (100_000,)))
def moving_maximum(x: Array, window: int) -> Array:
    return lax.reduce_window(x, -np.inf, lax.max, (window,), (1,), "VALID")
