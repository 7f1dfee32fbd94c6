"""Sorting, selecting, searching, counting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..models.values import integers, normal
from .inputs import Arrays, matrix, uniform, vector
from .registry import program


@program("sorting", vector, n=(1_000_000, 50))
def sort_of_a_vector(x: Array) -> Array:
    return jnp.sort(x)


def _doubles(n: int) -> Arrays:
    return [np.random.default_rng(0).standard_normal(n)]


@program("sorting", _doubles, x64=True, n=(2_000_000, 50), bound=0.0)
def sort_f64(x: Array) -> Array:
    return jnp.sort(x)


@program("sorting", _doubles, x64=True, n=(1_000_000, 50), bound=0.0)
def argsort_f64(x: Array) -> Array:
    return jnp.argsort(x)


@program("sorting", lambda n: [integers(0, 100, n), integers(0, 100, n, seed=1)], n=(100_000, 30))
def sort_by_two_keys(first: Array, second: Array) -> Array:
    return jnp.lexsort((second, first))


@program("sorting", vector, n=(200_000, 40))
def ranks(x: Array) -> Array:
    return jnp.argsort(jnp.argsort(x))


@program("sorting", vector, n=(262_144, 50))
def largest_of_a_vector(x: Array) -> list[Array]:
    results: list[Array] = lax.top_k(x, 25)
    return results


@program("sorting", matrix, rows=(512, 3), columns=(1000, 40))
def largest_of_rows(x: Array) -> list[Array]:
    results: list[Array] = lax.top_k(x, 10)
    return results


@program("sorting", lambda n: [np.sort(uniform(n)), uniform(n, seed=1)], n=(100_000, 30))
def search_in_sorted(table: Array, x: Array) -> Array:
    return jnp.searchsorted(table, x)


@program("sorting", lambda n: [integers(0, n // 4, n)], n=(200_000, 40))
def unique_values(x: Array) -> Array:
    return jnp.unique(x, size=1000, fill_value=-1)


@program("sorting", matrix, rows=(64, 3), columns=(10_000, 40))
def quantiles_of_rows(x: Array) -> Array:
    return jnp.quantile(x, jnp.array([0.05, 0.5, 0.95]), axis=1)


@program("sorting", vector, n=(500_000, 50))
def histogram(x: Array) -> Array:
    return jnp.histogram(x, bins=100, range=(-4.0, 4.0))[0]


@program("sorting", lambda n: [integers(0, 1000, n)], n=(1_000_000, 50))
def count_of_each(x: Array) -> Array:
    return jnp.bincount(x, length=1000)


@program("sorting", vector, n=(1_000_000, 50))
def place_of_the_largest(x: Array) -> tuple[Array, Array]:
    return jnp.argmax(x), jnp.argmin(x)


@program("sorting", matrix, rows=(2000, 3), columns=(1000, 40))
def place_of_the_largest_in_rows(x: Array) -> Array:
    return jnp.argmax(x, 1)


@program("sorting", vector, n=(200_000, 40))
def compaction(x: Array) -> tuple[Array, Array]:
    """Moves positive elements to the front, with their positions."""
    places = jnp.nonzero(x > 0, size=x.size, fill_value=0)[0]
    return x[places], places


@program("sorting", lambda n: [normal(n, 16), normal(500, 16, seed=1)], n=(5000, 30))
def nearest_neighbours(points: Array, queries: Array) -> Array:
    apart = jnp.sum(queries**2, 1)[:, None] - 2 * queries @ points.T + jnp.sum(points**2, 1)
    return lax.top_k(-apart, 5)[0]


@program("sorting", lambda n: [np.sort(uniform(n)), uniform(n, seed=1)], n=(20_000, 16))
def binary_search_loop(table: Array, x: Array) -> Array:
    def one(v: Array) -> Array:
        def halve(state: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = state
            middle = (low + high) // 2
            left = table[middle] < v
            return jnp.where(left, middle + 1, low), jnp.where(left, high, middle)

        return lax.while_loop(lambda s: s[0] < s[1], halve, (0, table.size))[0]

    return jax.vmap(one)(x)


@program("sorting", lambda n: [normal(n, 2)], n=(1024, 12))
def bitonic_network(x: Array) -> Array:
    """Comparisons and exchanges of a network, as array operations."""
    x, count = x[:, 0], len(x)
    size = 1 << (x.size - 1).bit_length()
    x = jnp.pad(x, (0, size - x.size), constant_values=jnp.inf)
    place = jnp.arange(size)
    width = 2
    while width <= size:
        step = width // 2
        while step:
            other = x[place ^ step]
            smaller = ((place & width) == 0) == ((place & step) == 0)
            x = jnp.where(smaller, jnp.minimum(x, other), jnp.maximum(x, other))
            step //= 2
        width *= 2
    return x[:count]
