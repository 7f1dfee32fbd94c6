"""Cumulative operations and recurrences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..models.values import integers, normal
from .inputs import grid, matrix, uniform, vector
from .registry import program


@program("scans", vector, n=(1_000_000, 50))
def cumulative_sum_of_floats(x: Array) -> Array:
    return jnp.cumsum(x)


@program("scans", lambda n: [np.random.default_rng(0).random(n)], x64=True, n=(500_000, 50), bound=1e-10)
def cumulative_sum_f64(x: Array) -> Array:
    return jnp.cumsum(x)


@program("scans", lambda n: [integers(0, 5, n)], n=(1_000_000, 50), bound=0.0)
def cumulative_sum_of_integers(x: Array) -> Array:
    return jnp.cumsum(x)


@program("scans", vector, n=(300_000, 40))
def running_maximum(x: Array) -> tuple[Array, Array]:
    return lax.cummax(x), lax.cummin(x)


@program("scans", lambda n: [1 + 0.001 * vector(n)[0]], n=(100_000, 40))
def cumulative_product(x: Array) -> Array:
    return jnp.cumprod(x)


@program("scans", vector, n=(100_000, 40))
def cumulative_logsumexp(x: Array) -> Array:
    return lax.cumlogsumexp(x)


@program("scans", matrix, rows=(4096, 9), columns=(256, 5))
def cumulative_sum_of_columns(x: Array) -> Array:
    return jnp.cumsum(x, 0)


@program("scans", matrix, rows=(64, 3), columns=(16384, 30))
def cumulative_sum_of_rows(x: Array) -> Array:
    return jnp.cumsum(x, 1)


@program("scans", lambda n: [uniform(n, 16), uniform(n, 16, seed=1)], n=(4096, 9))
def linear_recurrence(a: Array, b: Array) -> Array:
    """A diagonal state-space layer."""

    def combine(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(combine, (a, b))[1]


@program("scans", vector, n=(50_000, 30))
def running_variance(x: Array) -> Array:
    """Welford's updates."""

    def iterate(state: tuple[Array, Array, Array], x: Array) -> tuple[tuple[Array, Array, Array], Array]:
        count, mean, square = state
        count = count + 1
        change = x - mean
        mean = mean + change / count
        square = square + change * (x - mean)
        return (count, mean, square), square / count

    return lax.scan(iterate, (0.0, 0.0, 0.0), x)[1]


@program("scans", grid, side=(1024, 12), bound=5e-3)
def integral_image(pixels: Array) -> Array:
    total = jnp.pad(jnp.cumsum(jnp.cumsum(pixels, 0), 1), ((1, 0), (1, 0)))
    r = 8
    side = pixels.shape[0]
    low, high = jnp.clip(jnp.arange(side) - r, 0, side), jnp.clip(jnp.arange(side) + r + 1, 0, side)
    rows = total[high] - total[low]
    return (rows[:, high] - rows[:, low]) / (2 * r + 1) ** 2


@program("scans", lambda n: [vector(n)[0], integers(0, 40, n) == 0], n=(65536, 30))
def segmented_sum(x: Array, starts: Array) -> Array:
    def combine(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return jnp.where(second[1], second[0], first[0] + second[0]), first[1] | second[1]

    return lax.associative_scan(combine, (x, starts))[0]


@program("scans", lambda n: [vector(n)[0]], n=(10_000, 20))
def recurrent_gates(x: Array) -> Array:
    def iterate(h: Array, x: Array) -> tuple[Array, Array]:
        gate = jax.nn.sigmoid(1.5 * x + 0.5 * h)
        h = gate * h + (1 - gate) * jnp.tanh(x - 0.3 * h)
        return h, h

    return lax.scan(iterate, 0.0, x)[1]


@program(
    "scans",
    lambda batch, steps, classes: [normal(batch, steps, classes), integers(1, classes, batch, steps // 4)],
    batch=(64, 3),
    steps=(50, 9),
    classes=(30, 5),
)
def temporal_classification(scores: Array, labels: Array) -> Array:
    """Connectionist temporal classification: the probability of labels, with blanks (0) between them."""
    scores, never = jax.nn.log_softmax(scores), -1e30
    symbols = jnp.pad(labels[..., None], ((0, 0), (0, 0), (1, 0))).reshape(len(labels), -1)
    symbols = jnp.pad(symbols, ((0, 0), (0, 1)))
    emissions = jnp.take_along_axis(scores, symbols[:, None], 2)
    skips = (symbols != 0) & (symbols != jnp.roll(symbols, 2, 1)) & (jnp.arange(symbols.shape[1]) > 1)

    def behind(x: Array, count: int) -> Array:
        return jnp.pad(x, ((0, 0), (count, 0)), constant_values=never)[:, :-count]

    def step(state: Array, now: Array) -> tuple[Array, None]:
        two = jnp.where(skips, behind(state, 2), never)
        return jnp.logaddexp(jnp.logaddexp(state, behind(state, 1)), two) + now, None

    start = jnp.where(jnp.arange(symbols.shape[1]) < 2, emissions[:, 0], never)
    end = lax.scan(step, start, emissions[:, 1:].swapaxes(0, 1))[0]
    return jnp.logaddexp(end[:, -1], end[:, -2])
