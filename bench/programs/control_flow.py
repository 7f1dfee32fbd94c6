"""Loops and branches: simulators of machines, number theory, dynamic programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..models.values import integers
from .inputs import matrix, uniform
from .registry import program


@program("control flow", lambda n: [integers(0, 4, n)], n=(10_000, 20))
def machine_with_switch(code: Array) -> Array:
    operations = [
        lambda a, b: (a + b, b),
        lambda a, b: (a * 0.5, b + 1),
        lambda a, b: (b, a),
        lambda a, b: (jnp.sin(a), b * 0.9),
    ]

    def iterate(state: tuple[Array, Array], which: Array) -> tuple[tuple[Array, Array], Array]:
        state = lax.switch(which, operations, *state)
        return state, state[0]

    return lax.scan(iterate, (1.0, 2.0), code)[1]


@program("control flow", lambda n: [np.arange(1, n + 1, dtype=np.int32)], n=(10_000, 20))
def collatz_lengths(start: Array) -> Array:
    def one(n: Array) -> Array:
        def iterate(state: tuple[Array, Array]) -> tuple[Array, Array]:
            n, count = state
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

        return lax.while_loop(lambda s: s[0] != 1, iterate, (n, 0))[1]

    return jax.vmap(one)(start)


@program("control flow", lambda side: [np.linspace(-2, 1, side, dtype=np.float32)], side=(256, 8))
def mandelbrot(line: Array) -> Array:
    """Iterations until each point escapes; returns their sum, since rounding may change a point on the edge."""
    x, y = line[None, :], line[:, None] + 0.5

    def iterate(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        a, b, count, k = state
        inside = a * a + b * b < 4
        return jnp.where(inside, a * a - b * b + x, a), jnp.where(inside, 2 * a * b + y, b), count + inside, k + 1

    zeros = jnp.zeros((line.size, line.size))
    return lax.while_loop(lambda s: s[3] < 50, iterate, (zeros, zeros, zeros, 0))[2].sum(1)


@program("control flow", lambda side: [integers(0, 2, side, side)], side=(256, 8))
def game_of_life(cells: Array) -> Array:
    def iterate(_: Array, cells: Array) -> Array:
        p = jnp.pad(cells, 1, mode="wrap")
        side = cells.shape[0]
        around = sum(p[i : i + side, j : j + side] for i in range(3) for j in range(3)) - cells
        return ((around == 3) | ((cells == 1) & (around == 2))).astype(cells.dtype)

    return lax.fori_loop(0, 50, iterate, cells)


@program("control flow", lambda n: [integers(1, 100_000, n), integers(1, 100_000, n, seed=1)], n=(50_000, 10))
def greatest_common_divisors(a: Array, b: Array) -> Array:
    return jnp.gcd(a, b)


@program("control flow", lambda n: [np.array(n, np.int32)], n=(100_000, 50))
def linear_congruential_generator(count: Array) -> tuple[Array, Array]:
    """A while loop of scalars whose trip count is an argument."""

    def iterate(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        k, x, hits = state
        x = x * jnp.uint32(1664525) + jnp.uint32(1013904223)
        return k + 1, x, hits + (x >> 31)

    _, x, hits = lax.while_loop(lambda s: s[0] < count, iterate, (0, jnp.uint32(1), jnp.uint32(0)))
    return x, hits


@program("control flow", lambda n: [np.float32(0.7), np.array(n, np.int32)], n=(200_000, 20), bound=1e-2)
def fixed_point_of_cosine(x: Array, count: Array) -> Array:
    return lax.fori_loop(0, count, lambda _, x: jnp.cos(x), x)


@program("control flow", lambda classes: [*matrix(classes, classes)], classes=(512, 12))
def beam_search(scores: Array) -> Array:
    """The scores of the beams: the order of equal ones is arbitrary."""
    width, size = 8, len(scores)
    table = jax.nn.log_softmax(scores)

    def iterate(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        total, last = state
        total, chosen = lax.top_k((total[:, None] + table[last]).reshape(-1), width)
        return (total, chosen % size), total

    return lax.scan(iterate, tuple(lax.top_k(table[0], width)), None, length=32)[1]


@program("control flow", lambda items: [integers(1, 50, items), uniform(items)], items=(100, 5))
def knapsack(weights: Array, values: Array) -> Array:
    room = jnp.arange(2001)

    def iterate(best: Array, item: tuple[Array, Array]) -> tuple[Array, None]:
        weight, value = item
        with_item = jnp.where(room >= weight, best[jnp.maximum(room - weight, 0)] + value, -1.0)
        return jnp.maximum(best, with_item), None

    return lax.scan(iterate, jnp.zeros(room.size), (weights, values))[0]


@program("control flow", lambda n: [np.array(n, np.int32)], n=(317, 20))
def prime_sieve(limit: Array) -> Array:
    size = 100_000
    numbers = jnp.arange(size)

    def iterate(k: Array, prime: Array) -> Array:
        return jnp.where(prime[k], prime & ~((numbers % k == 0) & (numbers >= k * k)), prime)

    return lax.fori_loop(2, limit, iterate, numbers > 1).sum()


@program("control flow", lambda n: [uniform(n), integers(0, n, 2000)], n=(100_000, 50))
def random_updates(x: Array, places: Array) -> Array:
    """One element changes in each iteration."""

    def iterate(k: Array, x: Array) -> Array:
        return x.at[places[k]].multiply(0.5)

    return lax.fori_loop(0, places.size, iterate, x)


@program("control flow", lambda n: [uniform(n)], n=(2000, 9))
def conditional_clipping(x: Array) -> Array:
    def iterate(_: Array, x: Array) -> Array:
        x = x * 1.1
        return lax.cond(jnp.linalg.norm(x) > 20, lambda x: x / jnp.linalg.norm(x), lambda x: x, x)

    return lax.fori_loop(0, 200, iterate, x)


Position = tuple[Array, Array, Array, Array, Array, Array]  # the row, masks of what is attacked and free, solutions


@program("control flow", lambda n: [np.int32(n)], n=(9, 5))
def queens(n: Array) -> Array:
    """The number of ways to place n queens on a board: a stack of masks, and a branch in each iteration."""
    full = (1 << n) - 1
    none = jnp.zeros(16, jnp.int32)

    def iterate(state: Position) -> Position:
        depth, columns, left, right, free, count = state
        bit = free[depth] & -free[depth]
        free = free.at[depth].set(free[depth] & (free[depth] - 1))

        def put(_: None) -> Position:
            own = columns[depth] | bit, (left[depth] | bit) << 1, (right[depth] | bit) >> 1
            masks = [m.at[depth + 1].set(x) for m, x in zip((columns, left, right), own, strict=True)]
            rest = full & ~(own[0] | own[1] | own[2])
            return depth + 1, *masks, free.at[depth + 1].set(rest), count + (own[0] == full)

        results: Position = lax.cond(bit == 0, lambda _: (depth - 1, columns, left, right, free, count), put, None)
        return results

    start = jnp.int32(0), none, none, none, none.at[0].set(full), jnp.int32(0)
    return lax.while_loop(lambda state: state[0] >= 0, iterate, start)[-1]


@program("control flow", lambda side: [uniform(side, side)], side=(50, 5))
def value_iteration(reward: Array) -> Array:
    """The best walk over a board, where steps may slip: until convergence."""

    def iterate(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        value, _, count = state
        p = jnp.pad(value, 1, mode="edge")
        next_to = jnp.stack([p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]])
        new = reward + 0.95 * (0.8 * next_to.max(0) + 0.2 * next_to.mean(0))
        return new, jnp.abs(new - value).max(), count + 1

    start = jnp.zeros_like(reward), jnp.inf, 0
    return lax.while_loop(lambda state: (state[1] > 1e-3) & (state[2] < 500), iterate, start)[0]
