"""Statistics: estimates, fits, tests, clusters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax, random
from jax.scipy.special import betainc, gammaln
from jax.scipy.stats import norm

from ..models.values import normal
from .inputs import key, matrix, regression, uniform, vector
from .registry import program


@program("statistics", lambda n: [*vector(n), uniform(500, seed=1) * 6 - 3], n=(5000, 20))
def kernel_density(data: Array, at: Array) -> Array:
    return jnp.mean(norm.pdf((at[:, None] - data) / 0.2), 1) / 0.2


@program("statistics", lambda n: [key(), *vector(n)], n=(1000, 20))
def bootstrap_of_the_mean(seed: Array, x: Array) -> tuple[Array, Array]:
    rows = random.randint(seed, (1000, x.size), 0, x.size)
    means = x[rows].mean(1)
    return means.std(), jnp.percentile(means, jnp.array([2.5, 97.5]))


@program("statistics", matrix, rows=(10_000, 40), columns=(8, 2))
def k_means(x: Array) -> Array:
    def iterate(_: Array, centres: Array) -> Array:
        apart = jnp.sum(x**2, 1)[:, None] - 2 * x @ centres.T + jnp.sum(centres**2, 1)
        nearest = jax.nn.one_hot(apart.argmin(1), len(centres))
        return nearest.T @ x / jnp.maximum(nearest.sum(0), 1)[:, None]

    return lax.fori_loop(0, 10, iterate, x[:16])


@program("statistics", matrix, rows=(5000, 30), columns=(4, 2), bound=1e-2)
def gaussian_mixture(x: Array) -> Array:
    """Expectation and maximization, with diagonal variances."""

    def iterate(state: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], Array]:
        weight, mean, variance = state
        score = -0.5 * (((x[:, None] - mean) ** 2 / variance) + jnp.log(variance)).sum(-1) + jnp.log(weight)
        belongs = jax.nn.softmax(score)
        total = belongs.sum(0) + 1e-3
        mean = belongs.T @ x / total[:, None]
        variance = belongs.T @ x**2 / total[:, None] - mean**2 + 1e-2
        return (total / len(x), mean, variance), jax.nn.logsumexp(score, 1).mean()

    start = (jnp.full(5, 0.2), x[:5], jnp.ones((5, x.shape[1])))
    return lax.scan(iterate, start, None, length=20)[1]


@program("statistics", regression, rows=(5000, 40), features=(20, 3))
def logistic_regression_newton(x: Array, y: Array) -> Array:
    def iterate(_: Array, w: Array) -> Array:
        p = jax.nn.sigmoid(x @ w)
        curve = (x * (p * (1 - p))[:, None]).T @ x + jnp.eye(len(w))
        return w - jnp.linalg.solve(curve, x.T @ (p - y) + w)

    return lax.fori_loop(0, 8, iterate, jnp.zeros(x.shape[1]))


@program("statistics", matrix, rows=(5000, 20), columns=(128, 5))
def correlation_matrix(x: Array) -> Array:
    return jnp.corrcoef(x, rowvar=False)


@program("statistics", lambda n: [vector(n)[0], normal(n, seed=7)], n=(500_000, 30))
def two_sample_test(x: Array, y: Array) -> tuple[Array, Array]:
    error = jnp.sqrt(jnp.var(x, ddof=1) / x.size + jnp.var(y, ddof=1) / y.size)
    t = (x.mean() - y.mean()) / error
    return t, 2 * norm.sf(jnp.abs(t))


@program("statistics", lambda n: [uniform(n) * 10 + 0.5, uniform(n, seed=1)], n=(10_000, 20))
def beta_probabilities(a: Array, x: Array) -> tuple[Array, Array]:
    return betainc(a, a + 1, x), gammaln(a)


@program("statistics", vector, n=(4096, 64), bound=1e-2)
def autocorrelation(x: Array) -> Array:
    x = x - x.mean()
    spectrum = jnp.fft.rfft(x, 2 * x.size)
    return jnp.fft.irfft(jnp.abs(spectrum) ** 2)[: x.size] / jnp.sum(x * x)


@program("statistics", regression, rows=(1000, 20), features=(40, 3))
def ridge_path(x: Array, y: Array) -> Array:
    """Ridge regressions of 32 penalties."""

    def fit(penalty: Array) -> Array:
        return jnp.linalg.solve(x.T @ x + penalty * jnp.eye(x.shape[1]), x.T @ y)

    return jax.vmap(fit)(jnp.logspace(-1, 3, 32))


@program("statistics", lambda n: [normal(n, 3)], n=(1500, 10), bound=5e-3)
def pair_distances(x: Array) -> tuple[Array, Array, Array]:
    apart = jnp.sqrt(jnp.sum((x[:, None] - x[None]) ** 2, -1) + 1e-9)
    return apart.mean(), apart.max(), (apart < 1).sum()
