"""Decompositions, systems and transforms of many sizes."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from .sweep import by_shape, sweep

MATRICES = tuple((n, n) for n in (2, 8, 32, 100, 256, 512))
BATCHES = ((10_000, 2, 2), (10_000, 3, 3), (1000, 8, 8), (100, 32, 32))
BOTH = (by_shape(MATRICES), by_shape(BATCHES, name="batch"))


def _dominant(x: Array) -> Array:
    """Well conditioned and symmetric, of any square matrices."""
    n = x.shape[-1]
    return (x + jnp.swapaxes(x, -1, -2)) / n + 3 * jnp.eye(n)


@sweep("linear algebra", *BOTH)
def cholesky(x: Array) -> Array:
    return jnp.linalg.cholesky(_dominant(x))


@sweep("linear algebra", *BOTH)
def solution(x: Array) -> Array:
    return jnp.linalg.solve(_dominant(x), x)


@sweep("linear algebra", *BOTH)
def orthogonal_factors(x: Array) -> Array:
    q, r = jnp.linalg.qr(_dominant(x))
    return q @ r


@sweep("linear algebra", *BOTH)
def symmetric_eigenvalues(x: Array) -> Array:
    return jnp.linalg.eigvalsh(_dominant(x))


@sweep("linear algebra", by_shape(MATRICES[:-1]), by_shape(BATCHES, name="batch"))
def singular_values(x: Array) -> Array:
    return jnp.linalg.svd(_dominant(x), compute_uv=False)


@sweep("linear algebra", *BOTH)
def determinant(x: Array) -> Array:
    return jnp.linalg.slogdet(_dominant(x))[1]


LENGTHS = ((64,), (1000,), (4099,), (65_536,), (1_000_000,), (100, 1000), (1000, 64), (256, 256))


@sweep("linear algebra", by_shape(LENGTHS))
def spectrum(x: Array) -> Array:
    return jnp.abs(jnp.fft.fft(x))


@sweep("linear algebra", by_shape(LENGTHS))
def real_spectrum_and_back(x: Array) -> Array:
    return jnp.fft.irfft(jnp.fft.rfft(x), x.shape[-1])
