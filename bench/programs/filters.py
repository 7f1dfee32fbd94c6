"""Filters of signals and of states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..models.values import normal
from .inputs import Arrays, grid, matrix, vector
from .registry import program

Gaussian = tuple[Array, Array]  # mean and covariance


def _motion() -> tuple[Array, Array, Array, Array]:
    step = jnp.array([[1.0, 0.0, 0.1, 0.0], [0.0, 1.0, 0.0, 0.1], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    observation = jnp.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    return step, observation, 0.01 * jnp.eye(4), 0.5 * jnp.eye(2)


@program("filters", matrix, rows=(1000, 5), columns=(2, 2))
def kalman_filter(observed: Array) -> Array:
    step, observation, noise, error = _motion()

    def iterate(state: tuple[Array, Array], y: Array) -> tuple[tuple[Array, Array], Array]:
        mean, spread = state
        mean, spread = step @ mean, step @ spread @ step.T + noise
        total = observation @ spread @ observation.T + error
        gain = jnp.linalg.solve(total, observation @ spread).T
        mean = mean + gain @ (y - observation @ mean)
        return (mean, spread - gain @ observation @ spread), mean

    return lax.scan(iterate, (jnp.zeros(4), jnp.eye(4)), observed)[1]


@program("filters", matrix, rows=(512, 4), columns=(2, 2), bound=1e-2)
def parallel_kalman_means(observed: Array) -> Array:
    """The affine recursion of a filter with a constant gain, as an associative scan."""
    step, observation, _, _ = _motion()
    gain = 0.2 * observation.T
    a = jnp.broadcast_to(step - gain @ observation @ step, (len(observed), 4, 4)) * 0.99
    b = observed @ gain.T

    def combine(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return second[0] @ first[0], jnp.einsum("nij,nj->ni", second[0], first[1]) + second[1]

    return lax.associative_scan(combine, (a, b))[1]


@program("filters", vector, n=(20000, 16))
def biquad(signal: Array) -> Array:
    def iterate(state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        one, two = state
        y = 0.2 * x + one
        return (0.3 * x + 0.5 * y + two, 0.2 * x - 0.2 * y), y

    return lax.scan(iterate, (0.0, 0.0), signal)[1]


@program("filters", lambda n, taps: [*vector(n), *vector(taps)], n=(100_000, 64), taps=(101, 5))
def finite_response(signal: Array, taps: Array) -> Array:
    return jnp.convolve(signal, taps, mode="same")


@program("filters", grid, side=(512, 12))
def median_of_nine(pixels: Array) -> Array:
    p = jnp.pad(pixels, 1, mode="edge")
    side = pixels.shape[0]
    around = jnp.stack([p[i : i + side, j : j + side] for i in range(3) for j in range(3)], -1)
    return jnp.median(around, -1)


@program("filters", vector, n=(16384, 50))
def exponential_average(signal: Array) -> Array:
    def combine(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(combine, (jnp.full_like(signal, 0.95), 0.05 * signal))[1]


def _chain(steps: int, states: int) -> Arrays:
    return [*matrix(states, states), *matrix(steps, states)]


@program("filters", _chain, steps=(500, 5), states=(32, 4))
def hidden_markov_forward(transitions: Array, scores: Array) -> Array:
    move = jax.nn.log_softmax(transitions)

    def iterate(alpha: Array, score: Array) -> tuple[Array, None]:
        return jax.nn.logsumexp(alpha[:, None] + move, 0) + score, None

    alpha, _ = lax.scan(iterate, scores[0], scores[1:])
    return jax.nn.logsumexp(alpha)


@program("filters", _chain, steps=(500, 5), states=(48, 4))
def viterbi(transitions: Array, scores: Array) -> tuple[Array, Array]:
    def forward(best: Array, score: Array) -> tuple[Array, Array]:
        paths = best[:, None] + transitions
        return paths.max(0) + score, paths.argmax(0)

    last, came_from = lax.scan(forward, scores[0], scores[1:])

    def back(state: Array, pointers: Array) -> tuple[Array, Array]:
        state = pointers[state]
        return state, state

    final = last.argmax()
    return last.max(), lax.scan(back, final, came_from, reverse=True)[1]


@program("filters", vector, n=(65536, 1024))
def power_spectrum(signal: Array) -> Array:
    """Welch's estimate: overlapping windows with averaged spectra."""
    frame, hop = 256, 128
    starts = jnp.arange(0, signal.size - frame + 1, hop)
    frames = signal[starts[:, None] + jnp.arange(frame)] * jnp.hanning(frame)
    return jnp.mean(jnp.abs(jnp.fft.rfft(frames)) ** 2, 0)


@program("filters", matrix, rows=(200, 4), columns=(3, 3), bound=1e-2)
def unscented_filter(observed: Array) -> Array:
    size = 3

    def iterate(state: tuple[Array, Array], y: Array) -> tuple[tuple[Array, Array], Array]:
        mean, spread = state
        root = jnp.linalg.cholesky(spread * (size + 1.0) + 1e-4 * jnp.eye(size))
        points = jnp.concatenate([mean[None], mean + root.T, mean - root.T])
        weights = jnp.full(2 * size + 1, 0.5 / (size + 1.0)).at[0].set(1 / (size + 1.0))
        moved = 0.9 * points + 0.1 * jnp.sin(points)
        mean = weights @ moved
        apart = moved - mean
        spread = (apart * weights[:, None]).T @ apart + 0.05 * jnp.eye(size)
        gain = jnp.linalg.solve(spread + 0.3 * jnp.eye(size), spread)
        return (mean + gain.T @ (y - mean), spread - spread @ gain), mean

    return lax.scan(iterate, (jnp.zeros(size), jnp.eye(size)), observed)[1]


@program("filters", matrix, rows=(200, 5), columns=(2, 2), bound=1e-2)
def smoothed_states(observed: Array) -> Array:
    """Rauch, Tung and Striebel's smoother: a Kalman filter, and a backward recurrence."""
    step, observation, noise, error = _motion()

    def forward(state: Gaussian, y: Array) -> tuple[Gaussian, tuple[Array, Array, Array, Array]]:
        m, p = state
        m, p = step @ m, step @ p @ step.T + noise
        gain = jnp.linalg.solve(observation @ p @ observation.T + error, observation @ p).T
        after = m + gain @ (y - observation @ m), p - gain @ observation @ p
        return after, (*after, m, p)

    def back(state: Gaussian, estimates: tuple[Array, Array, Array, Array]) -> tuple[Gaussian, Array]:
        (m, p), (m_now, p_now, m_next, p_next) = state, estimates
        gain = jnp.linalg.solve(p_next, step @ p_now).T
        m, p = m_now + gain @ (m - m_next), p_now + gain @ (p - p_next) @ gain.T
        return (m, p), m

    last, (m, p, m_next, p_next) = lax.scan(forward, (jnp.zeros(4), jnp.eye(4)), observed)
    return lax.scan(back, last, (m[:-1], p[:-1], m_next[1:], p_next[1:]), reverse=True)[1]


@program("filters", lambda frames: [normal(16, frames, 128), normal(256, 128, 1)], frames=(9, 2))
def filter_bank_synthesis(spectra: Array, responses: Array) -> Array:
    """Each band of each frame adds its response to the signal, half of which overlaps that of the next frame."""
    dimensions = ("NHC", "HIO", "NHC")
    return lax.conv_transpose(spectra, responses, (128,), "VALID", dimension_numbers=dimensions)
