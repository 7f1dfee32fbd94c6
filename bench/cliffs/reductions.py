"""Reductions of rows, columns and everything, functions based on them, and cumulative ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from .sweep import NUMBERS, ORDERED, PLANES, REALS, by_shape, by_size, by_type, sweep

FEW_COLUMNS = ((1000, 64, 3), (4000, 50, 2), (2000, 30, 5), (1000, 64, 20), (500, 64, 33))
SHORT_ROWS = ((30_000, 3), (30_000, 5), (20_000, 8), (10_000, 16))
BLOCKS = ((4, 250_000, 1), (16, 64, 1000), (1000, 10, 100), (1000, 100, 10), (100_000, 2, 5))


@sweep("reductions", by_size(), by_type(shape=(50_000,)))
def sum_of_all(x: Array) -> Array:
    return jnp.sum(x)


@sweep("reductions", by_shape(), by_type(NUMBERS))
def sum_of_rows(x: Array) -> Array:
    return jnp.sum(x, 1)


@sweep("reductions", by_shape(((64, 3), (256, 3), (1024, 3))))
def distances_in_a_periodic_box(x: Array) -> Array:
    apart = (x[:, None] - x[None] + 0.25) % 0.5 - 0.25
    return jnp.sum(jnp.sqrt(jnp.sum(apart**2.0, 2) + 1e-3), 1)


@sweep("reductions", by_shape(), by_type(NUMBERS))
def sum_of_columns(x: Array) -> Array:
    return jnp.sum(x, 0)


@sweep("reductions", by_shape(BLOCKS))
def sum_of_the_middle(x: Array) -> Array:
    return jnp.sum(x, 1)


@sweep("reductions", by_shape(BLOCKS))
def sum_of_the_outer(x: Array) -> Array:
    return jnp.sum(x, (0, 2))


@sweep("reductions", by_shape(), by_type(ORDERED))
def largest(x: Array) -> Array:
    return jnp.max(x, 1)


@sweep("reductions", by_shape(FEW_COLUMNS), by_type(ORDERED, shape=FEW_COLUMNS[0]))
def extent(x: Array) -> tuple[Array, Array]:
    return jnp.min(x, 1), jnp.max(x, 1)


@sweep("reductions", by_shape(FEW_COLUMNS))
def any_of_the_middle(x: Array) -> Array:
    return jnp.any(x > 1, 1)


@sweep("reductions", by_shape(SHORT_ROWS))
def softmax_of_short_rows(x: Array) -> Array:
    return jax.nn.softmax(x, 1)


@sweep("reductions", by_shape(SHORT_ROWS))
def directions(x: Array) -> Array:
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


@sweep("reductions", by_shape(), by_type(ORDERED))
def place_of_the_largest(x: Array) -> Array:
    return jnp.argmax(x, 1)


@sweep("reductions", by_shape(), by_type(REALS))
def place_in_columns(x: Array) -> Array:
    return jnp.argmax(x, 0)


@sweep("reductions", by_type(("pred",)))
def any_and_all(x: Array) -> tuple[Array, Array]:
    return jnp.any(x, 1), jnp.all(x, 0)


@sweep("reductions", by_shape(), by_type(REALS))
def softmax(x: Array) -> Array:
    return jax.nn.softmax(x, 1)


@sweep("reductions", by_shape(PLANES[2:5]))
def softmax_of_columns(x: Array) -> Array:
    return jax.nn.softmax(x, 0)


@sweep("reductions", by_shape(), by_type(REALS))
def normalised_rows(x: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5)


@sweep("reductions", by_shape(), by_type(REALS))
def variance_of_columns(x: Array) -> Array:
    return jnp.var(x, 0)


@sweep("reductions", by_shape(), by_type(REALS))
def log_sum_of_exponentials(x: Array) -> Array:
    return jax.scipy.special.logsumexp(x, 1)


@sweep("reductions", by_size(), by_type(NUMBERS, (50_000,)))
def cumulative_sum(x: Array) -> Array:
    return jnp.cumsum(x)


@sweep("reductions", by_shape())
def cumulative_sum_of_rows(x: Array) -> Array:
    return jnp.cumsum(x, 1)


@sweep("reductions", by_shape())
def cumulative_sum_of_columns(x: Array) -> Array:
    return jnp.cumsum(x, 0)


@sweep("reductions", by_size(), by_type(ORDERED, (1_000_000,)))
def cumulative_maximum(x: Array) -> Array:
    return lax.cummax(x)


@sweep("reductions", by_shape(arrays=2))
def distance_of_rows(x: Array, y: Array) -> Array:
    return jnp.sqrt(jnp.sum((x - y) ** 2, 1))
