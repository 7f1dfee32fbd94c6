"""Samplers: Markov chains, particles, random numbers of many distributions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax, random

from .inputs import key, keys, matrix, regression, uniform
from .registry import program


@program("samplers", lambda chains: [key(), uniform(chains, 2)], chains=(4096, 6), bound=5e-2)
def metropolis(seed: Array, start: Array) -> tuple[Array, Array, Array]:
    def density(x: Array) -> Array:
        return -0.5 * (x[..., 0] ** 2 + (x[..., 1] - x[..., 0] ** 2) ** 2 / 0.25)

    def step(state: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], Array]:
        x, p = state
        a, b = random.split(k)
        proposed = x + 0.5 * random.normal(a, x.shape)
        q = density(proposed)
        accept = jnp.log(random.uniform(b, p.shape)) < q - p
        return (jnp.where(accept[:, None], proposed, x), jnp.where(accept, q, p)), accept.mean()

    (x, _), rate = lax.scan(step, (start, density(start)), random.split(seed, 100))
    return x.mean(0), x.std(0), rate


@program("samplers", lambda rows, features: [key(), *regression(rows, features)], rows=(1000, 20), features=(25, 3))
def hamiltonian_monte_carlo(seed: Array, x: Array, y: Array) -> Array:
    """The posterior of a logistic regression."""

    def potential(w: Array) -> Array:
        z = x @ w
        return jnp.sum(jnp.logaddexp(0.0, z) - y * z) + 0.5 * w @ w

    slope = jax.grad(potential)

    def step(w: Array, k: Array) -> tuple[Array, None]:
        a, b = random.split(k)
        p = random.normal(a, w.shape)
        h = 0.02

        def leap(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            w, p = state
            p = p - h / 2 * slope(w)
            w = w + h * p
            return w, p - h / 2 * slope(w)

        new, q = lax.fori_loop(0, 10, leap, (w, p))
        change = potential(w) + 0.5 * p @ p - potential(new) - 0.5 * q @ q
        return jnp.where(jnp.log(random.uniform(b)) < change, new, w), None

    return lax.scan(step, jnp.zeros(x.shape[1]), random.split(seed, 20))[0]


@program("samplers", lambda side: [key(), uniform(side, side)], side=(128, 8))
def ising_checkerboard(seed: Array, start: Array) -> tuple[Array, Array]:
    spins = jnp.where(start < 0.5, -1.0, 1.0)
    rows, columns = jnp.indices(spins.shape)

    def step(spins: Array, k: Array) -> tuple[Array, Array]:
        for colour in (0, 1):
            k, own = random.split(k)
            around = sum(jnp.roll(spins, shift, axis) for shift in (1, -1) for axis in (0, 1))
            flip = random.uniform(own, spins.shape) < jnp.exp(-0.8 * spins * around)
            spins = jnp.where(flip & ((rows + columns) % 2 == colour), -spins, spins)
        return spins, spins.mean()

    results: tuple[Array, Array] = lax.scan(step, spins, random.split(seed, 30))
    return results


@program("samplers", lambda rows, features: [key(), *regression(rows, features)], rows=(4096, 64), features=(32, 3))
def stochastic_langevin(seed: Array, x: Array, y: Array) -> Array:
    def loss(w: Array, x: Array, y: Array) -> Array:
        z = x @ w
        return jnp.mean(jnp.logaddexp(0.0, z) - y * z)

    def step(w: Array, k: Array) -> tuple[Array, None]:
        a, b = random.split(k)
        rows = random.randint(a, (64,), 0, x.shape[0])
        w = w - 0.1 * jax.grad(loss)(w, x[rows], y[rows]) + 0.01 * random.normal(b, w.shape)
        return w, None

    return lax.scan(step, jnp.zeros(x.shape[1]), random.split(seed, 200))[0]


@program("samplers", lambda steps: [key(), *matrix(steps, 1)], steps=(50, 4), bound=5e-2)
def particle_filter(seed: Array, observed: Array) -> Array:
    """A random walk seen through noise, with systematic resampling."""
    count = 4096

    def step(particles: Array, item: tuple[Array, Array]) -> tuple[Array, Array]:
        k, y = item
        a, b = random.split(k)
        particles = 0.9 * particles + random.normal(a, (count,))
        weights = jax.nn.softmax(-0.5 * (y[0] - particles) ** 2)
        mean = weights @ particles
        places = (jnp.arange(count) + random.uniform(b)) / count
        chosen = jnp.clip(jnp.searchsorted(jnp.cumsum(weights), places), 0, count - 1)
        return particles[chosen], mean

    return lax.scan(step, random.normal(seed, (count,)), (random.split(seed, len(observed)), observed))[1]


@program("samplers", lambda n: [key(), uniform(n) * 3 + 0.5], n=(20000, 10), bound=1e-2)
def gamma_variates(seed: Array, shape: Array) -> Array:
    return random.gamma(seed, shape)


@program("samplers", lambda rows, classes: [key(), *matrix(rows, classes)], rows=(2048, 5), classes=(256, 7))
def categorical_draws(seed: Array, logits: Array) -> Array:
    return random.categorical(seed, logits)


@program("samplers", keys)
def permutation(seed: Array) -> Array:
    return random.permutation(seed, 100_000)


@program("samplers", keys)
def option_pricing(seed: Array) -> tuple[Array, Array]:
    """An Asian option, 20,000 paths of 64 steps."""
    normals = random.normal(seed, (20_000, 64))
    prices = 100 * jnp.exp(jnp.cumsum(0.02 * normals - 0.0002, 1))
    gain = jnp.maximum(prices.mean(1) - 100, 0)
    return gain.mean(), gain.std()


@program("samplers", keys)
def truncated_normal_variates(seed: Array) -> Array:
    return random.truncated_normal(seed, -1.0, 2.0, (200_000,))


@program("samplers", lambda chains: [key(), uniform(chains)], chains=(2048, 5), bound=5e-2)
def slice_sampler(seed: Array, start: Array) -> Array:
    """Each chain steps out and shrinks its own interval."""

    def density(x: Array) -> Array:
        return -0.25 * x**4 + x**2

    def one(k: Array, x: Array) -> Array:
        def step(x: Array, k: Array) -> tuple[Array, None]:
            a, b, c = random.split(k, 3)
            level = density(x) - random.exponential(a)
            low = x - random.uniform(b)

            def out(state: Array) -> Array:
                return density(state) > level

            low = lax.while_loop(out, lambda v: v - 1.0, low)
            high = lax.while_loop(out, lambda v: v + 1.0, low + 1.0)

            def rejected(state: tuple[Array, Array, Array, Array]) -> Array:
                return density(state[2]) < level

            def shrink(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
                low, high, v, k = state
                low, high = jnp.where(v < x, v, low), jnp.where(v < x, high, v)
                k, own = random.split(k)
                return low, high, low + (high - low) * random.uniform(own), k

            first = low + (high - low) * random.uniform(c)
            return lax.while_loop(rejected, shrink, (low, high, first, c))[2], None

        return lax.scan(step, x, random.split(k, 10))[0]

    return jnp.abs(jax.vmap(one)(random.split(seed, start.size), start)).mean()


@program("samplers", lambda size: [key(), uniform(size, 100) < 0.5], size=(200, 8))
def genetic_search(seed: Array, population: Array) -> tuple[Array, Array]:
    """Tournaments of two, crossover at a random place, and mutation of one bit in a hundred, for 100 generations."""

    def generation(population: Array, k: Array) -> tuple[Array, Array]:
        pairs, cuts, bits = random.split(k, 3)
        fitness = population.sum(1)
        size, length = population.shape
        rivals = random.randint(pairs, (2, size, 2), 0, size)
        parents = jnp.where(fitness[rivals[..., 0]] > fitness[rivals[..., 1]], rivals[..., 0], rivals[..., 1])
        cut = random.randint(cuts, (size, 1), 1, length)
        children = jnp.where(jnp.arange(length) < cut, population[parents[0]], population[parents[1]])
        return children ^ random.bernoulli(bits, 0.01, children.shape), fitness.max()

    results: tuple[Array, Array] = lax.scan(generation, population, random.split(seed, 100))
    return results
