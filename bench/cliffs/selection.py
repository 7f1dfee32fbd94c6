"""Sorting, selecting, searching, counting."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from .sweep import ORDERED, PLANES, by_number, by_shape, by_size, by_type, sweep


@sweep("selection", by_size(), by_type(ORDERED, (100_000,)))
def sort(x: Array) -> Array:
    return jnp.sort(x)


@sweep("selection", by_shape(), by_type(("s32", "bf16", "f32"), (1000, 100)))
def sort_of_rows(x: Array) -> Array:
    return jnp.sort(x, 1)


@sweep("selection", by_shape(PLANES[2:5]))
def sort_of_columns(x: Array) -> Array:
    return jnp.sort(x, 0)


@sweep("selection", by_size(), by_type(ORDERED, (100_000,)))
def order(x: Array) -> Array:
    return jnp.argsort(x)


@sweep(
    "selection", by_number("k", (1, 2, 10, 50, 1000), (100_000,)), by_number("k", (1, 5, 50), (1000, 1000), "k in rows")
)
def largest_few(x: Array, k: int) -> list[Array]:
    results: list[Array] = lax.top_k(x, k)
    return results


@sweep("selection", by_number("k", (1, 10, 50), (100_000,)), by_number("k", (1, 10, 50), (1000, 1000), "k in rows"))
def start_of_sorted(x: Array, k: int) -> Array:
    return jnp.sort(x)[..., :k]


@sweep("selection", by_size((16, 1000, 65_536, 1_000_003)))
def median(x: Array) -> Array:
    return jnp.median(x)


@sweep("selection", by_size((16, 1000, 65_536, 1_000_003), 2))
def searched(x: Array, y: Array) -> Array:
    return jnp.searchsorted(jnp.sort(x), y)


@sweep("selection", by_number("bins", (4, 64, 4096), (1_000_000,)))
def histogram(x: Array, bins: int) -> Array:
    return jnp.histogram(x, bins, (0.5, 1.5))[0]


@sweep("selection", by_number("bins", (4, 64, 4096), (1_000_000,)))
def counts(x: Array, bins: int) -> Array:
    return jnp.bincount((x * bins).astype(jnp.int32) % bins, length=bins)
