"""Linear algebra: factorizations, products of many shapes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.linalg import cho_factor, cho_solve, expm, solve_triangular

from .inputs import Arrays, linear_system, matrix, positive_definite, vector
from .registry import program


@program("linear algebra", lambda n: [*matrix(n, 3), *vector(n)], n=(500, 9))
def gaussian_process(x: Array, y: Array) -> Array:
    apart = jnp.sum((x[:, None] - x[None]) ** 2, -1)
    factor = cho_factor(jnp.exp(-0.5 * apart) + 0.1 * jnp.eye(len(x)), lower=True)
    fit = y @ cho_solve(factor, y)
    return -0.5 * fit - jnp.log(jnp.diag(factor[0])).sum()


@program(
    "linear algebra", lambda rows, columns: [*matrix(rows, columns), *vector(rows)], rows=(2000, 20), columns=(64, 4)
)
def least_squares_by_qr(a: Array, b: Array) -> Array:
    q, r = jnp.linalg.qr(a)
    return solve_triangular(r, q.T @ b)


@program("linear algebra", matrix, rows=(1000, 20), columns=(64, 4), bound=1e-2)
def principal_components(x: Array) -> tuple[Array, Array]:
    x = x - x.mean(0)
    values, vectors = jnp.linalg.eigh(x.T @ x / len(x))
    return values, jnp.abs(x @ vectors[:, -4:])


@program("linear algebra", matrix, rows=(200, 9), columns=(100, 6), bound=1e-2)
def low_rank_approximation(x: Array) -> Array:
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    return (u[:, :5] * s[:5]) @ v[:5]


@program("linear algebra", lambda n: [matrix(n, 16)[0].reshape(n, 4, 4) + 4 * np.eye(4, dtype=np.float32)], n=(4096, 5))
def batched_inverse(a: Array) -> Array:
    return jnp.linalg.inv(a)


@program("linear algebra", linear_system, n=(512, 8))
def power_iteration(a: Array, x: Array) -> Array:
    def iterate(_: Array, x: Array) -> Array:
        y = a @ x
        return y / jnp.linalg.norm(y)

    x = lax.fori_loop(0, 100, iterate, x)
    return x @ a @ x


@program("linear algebra", matrix, rows=(64, 5), columns=(64, 5))
def matrix_exponential(a: Array) -> Array:
    return expm(0.1 * a)


@program("linear algebra", lambda n: [matrix(n, 64)[0].reshape(n, 8, 8)], n=(1024, 5), bound=1e-2)
def batched_determinants(a: Array) -> tuple[Array, ...]:
    return tuple(jnp.linalg.slogdet(a))


def _double_system(n: int) -> Arrays:
    return [a.astype(np.float64) for a in (positive_definite(n), *vector(n))]


@program("linear algebra", _double_system, x64=True, n=(1500, 9), bound=1e-8)
def matrix_vector_f64(a: Array, x: Array) -> Array:
    return a @ x


@program("linear algebra", matrix, rows=(256, 12), columns=(64, 5))
def gram_schmidt(a: Array) -> Array:
    def iterate(k: Array, q: Array) -> Array:
        before = jnp.where(jnp.arange(q.shape[1]) < k, q, 0)
        v = q[:, k] - before @ (before.T @ q[:, k])
        return q.at[:, k].set(v / jnp.linalg.norm(v))

    return lax.fori_loop(0, a.shape[1], iterate, a)


@program("linear algebra", lambda n: [matrix(n, n * n)[0].reshape(n, n, n), *matrix(n, n), *matrix(n, n)], n=(64, 4))
def tensor_contraction(t: Array, a: Array, b: Array) -> Array:
    return jnp.einsum("ijk,jl,km->ilm", t, a, b)


@program("linear algebra", lambda n: [np.stack([positive_definite(16)] * n), matrix(n, 16)[0]], n=(512, 3))
def batched_cholesky_solve(a: Array, b: Array) -> Array:
    return jax.vmap(lambda a, b: cho_solve(cho_factor(a, lower=True), b))(a, b)


@program("linear algebra", lambda n: [vector(n)[0], matrix(2, n)[0][0]], n=(16384, 20))
def inner_products(x: Array, y: Array) -> Array:
    """A dot to a scalar in each iteration of a loop."""

    def iterate(_: Array, x: Array) -> Array:
        return x - 0.01 * jnp.vdot(x, y) / jnp.vdot(y, y) * y

    return lax.fori_loop(0, 50, iterate, x)


@program("linear algebra", lambda n: vector(2**n), n=(12, 4))
def quantum_fourier_transform(amplitudes: Array) -> Array:
    """Hadamard gates and rotations that depend on a second quantum bit, on a state with an axis for each bit."""
    bits = len(amplitudes).bit_length() - 1
    state = (amplitudes / jnp.linalg.norm(amplitudes)).astype(jnp.complex64).reshape((2,) * bits)
    hadamard = jnp.array([[1, 1], [1, -1]], jnp.complex64) / np.sqrt(2)
    for bit in range(bits):
        state = jnp.moveaxis(jnp.tensordot(hadamard, state, ((1,), (bit,))), 0, bit)
        for other in range(bit + 1, bits):
            angle = 2 * np.pi / 2 ** (other - bit + 1)
            rotation = jnp.array([[1, 1], [1, np.exp(1j * angle)]], jnp.complex64)
            axes = [2 if axis in (bit, other) else 1 for axis in range(bits)]
            state = state * rotation.reshape(axes)
    return state.reshape(-1)
