"""Loops of few and many iterations, of scalars, vectors and matrices, of known and unknown trip counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from .sweep import by_argument, by_number, sweep

TRIPS = (1, 10, 1000, 100_000)
FEWER = (1, 10, 1000)


@sweep("loops", by_argument("trips", TRIPS))
def scalar_recurrence(x: Array, trips: Array) -> Array:
    return lax.fori_loop(0, trips, lambda i, s: jnp.cos(s) + 0.1, x[0])


@sweep("loops", by_number("trips", TRIPS, (16,)))
def scalar_recurrence_of_known_length(x: Array, trips: int) -> Array:
    return lax.fori_loop(0, trips, lambda i, s: jnp.cos(s) + 0.1, x[0])


@sweep("loops", by_argument("trips", TRIPS))
def integer_recurrence(x: Array, trips: Array) -> Array:
    return lax.fori_loop(0, trips, lambda i, s: s * jnp.uint32(1664525) + jnp.uint32(1013904223), jnp.uint32(7))


@sweep("loops", by_argument("trips", TRIPS, (3,)))
def small_vector_recurrence(x: Array, trips: Array) -> Array:
    return lax.fori_loop(0, trips, lambda i, v: v + 0.01 * jnp.roll(v, 1) * (1 - v), x)


@sweep("loops", by_argument("trips", FEWER, (4096,)))
def vector_recurrence(x: Array, trips: Array) -> Array:
    return lax.fori_loop(0, trips, lambda i, v: v + 0.01 * (jnp.roll(v, 1) - v), x)


@sweep("loops", by_argument("trips", FEWER, (100, 100)))
def matrix_powers(x: Array, trips: Array) -> Array:
    return lax.fori_loop(0, trips, lambda i, v: v @ x / 100, x)


@sweep("loops", by_argument("trips", FEWER, (100_000,)))
def updates_of_one_element(x: Array, trips: Array) -> Array:
    return lax.fori_loop(0, trips, lambda i, v: v.at[(i * 7919) % v.size].add(1.0), x)


@sweep("loops", by_number("length", TRIPS[1:], (16,)))
def scan_that_keeps_all(x: Array, length: int) -> tuple[Array, Array]:
    results: tuple[Array, Array] = lax.scan(lambda s, _: ((s * 1.1) % 1.0, s), x, None, length=length)
    return results


@sweep("loops", by_number("steps", (10, 100, 1000), (64, 32)))
def recurrent_cell(x: Array, steps: int) -> tuple[Array, Array]:
    w = jnp.eye(32) * 0.5 + 0.01

    def step(h: Array, _: None) -> tuple[Array, Array]:
        h = jnp.tanh(h @ w + x)
        return h, jnp.sum(h)

    results: tuple[Array, Array] = lax.scan(step, x, None, length=steps)
    return results


@sweep("loops", by_number("steps", (10, 100, 1000), (64,)))
def gradient_through_a_scan(x: Array, steps: int) -> Array:
    def loss(v: Array) -> Array:
        last, _ = lax.scan(lambda s, _: (jnp.sin(s) + 0.1 * v, None), v, None, length=steps)
        return jnp.sum(last)

    return jax.grad(loss)(x)


@sweep("loops", by_argument("trips", TRIPS[:-1]))
def switch_in_a_loop(x: Array, trips: Array) -> Array:
    branches = [lambda v: v + 1.0, lambda v: v * 0.5, lambda v: -v, jnp.sin]
    return lax.fori_loop(0, trips, lambda i, v: lax.switch(i % 4, branches, v), x[0])


@sweep("loops", by_number("depth", (10, 100, 1000), (16, 16)))
def chain_of_elementwise_operations(x: Array, depth: int) -> Array:
    for n in range(depth):
        x = jnp.tanh(x) * 0.5 + (x if n % 2 else jnp.abs(x))
    return x
