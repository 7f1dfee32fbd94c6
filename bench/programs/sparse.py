"""Sparse matrices and graphs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental.sparse import BCOO

from ..models.values import integers, normal
from .inputs import graph, uniform
from .registry import program


@program("sparse", graph, nodes=(20000, 12), degree=(10, 3))
def compressed_rows_product(x: Array, columns: Array, rows: Array) -> Array:
    return jax.ops.segment_sum(x[columns, 0] * 0.5, rows, x.shape[0], indices_are_sorted=True)


@program("sparse", graph, nodes=(10000, 12), degree=(8, 3), features=(4, 2))
def coordinate_product(x: Array, columns: Array, rows: Array) -> Array:
    a = BCOO((jnp.ones(rows.size), jnp.stack([rows, columns], 1)), shape=(len(x), len(x)))
    return a @ x


@program("sparse", graph, nodes=(5000, 12), degree=(10, 3))
def page_rank(x: Array, sources: Array, targets: Array) -> Array:
    count = len(x)
    degrees = jnp.maximum(jnp.bincount(sources, length=count), 1)

    def iterate(_: Array, rank: Array) -> Array:
        return 0.15 / count + 0.85 * jnp.zeros(count).at[targets].add((rank / degrees)[sources])

    return lax.fori_loop(0, 30, iterate, jnp.full(count, 1.0 / count))


@program(
    "sparse", lambda **s: [*graph(**s), normal(s["features"], 32)], nodes=(4000, 9), degree=(8, 3), features=(64, 4)
)
def graph_convolution(x: Array, sources: Array, targets: Array, weights: Array) -> Array:
    around = jax.ops.segment_sum(x[sources], targets, len(x))
    return jax.nn.relu((x + around) @ weights)


@program("sparse", graph, nodes=(4000, 9), degree=(8, 3), features=(16, 4))
def graph_attention(x: Array, sources: Array, targets: Array) -> Array:
    score = jnp.sum(x[sources] * x[targets], -1) * 0.1
    most = jax.ops.segment_max(score, targets, len(x))
    weight = jnp.exp(score - most[targets])
    total = jax.ops.segment_sum(weight, targets, len(x))
    return jax.ops.segment_sum(weight[:, None] * x[sources], targets, len(x)) / (total[:, None] + 1e-6)


@program("sparse", lambda n: [integers(0, n, n * 8), uniform(n * 8)], n=(20000, 9))
def coordinates_to_compressed_rows(rows: Array, values: Array) -> tuple[Array, Array]:
    order = jnp.argsort(rows, stable=True)
    count = rows.size // 8
    starts = jnp.searchsorted(rows[order], jnp.arange(count + 1))
    return starts, values[order]


@program("sparse", lambda n: [integers(0, n, n, 8), normal(n, 8), normal(n)], n=(50000, 9))
def padded_rows_product(columns: Array, values: Array, x: Array) -> Array:
    return jnp.sum(values * x[columns], 1)


@program("sparse", lambda n: [uniform(n, n) + 0.01], n=(128, 8))
def shortest_paths(lengths: Array) -> Array:
    """Floyd-Warshall."""
    return lax.fori_loop(0, len(lengths), lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k]), lengths)


@program("sparse", lambda n: [uniform(n * 6), integers(0, n, n * 6), integers(0, n, n * 6, seed=1)], n=(3000, 9))
def relaxed_edges(lengths: Array, sources: Array, targets: Array) -> Array:
    """Bellman-Ford, until nothing changes."""
    count = lengths.size // 6
    start = jnp.full(count, 1e9).at[0].set(0.0)

    def iterate(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reach, _ = state
        new = reach.at[targets].min(reach[sources] + lengths)
        return new, jnp.any(new < reach)

    return lax.while_loop(lambda state: state[1], iterate, (start, True))[0]
