"""Simulations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..models.values import normal
from .inputs import grid, uniform
from .registry import program


@program("physics", lambda n: [normal(n, 3), 0.1 * normal(n, 3, seed=1)], n=(256, 6), bound=1e-2)
def gravity(x: Array, v: Array) -> tuple[Array, Array]:
    def force(x: Array) -> Array:
        apart = x[None] - x[:, None]
        near = jnp.sum(apart**2, -1) + 0.1
        return jnp.sum(apart / (near * jnp.sqrt(near))[..., None], 1) / len(x)

    def iterate(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, v = state
        v = v + 0.005 * force(x)
        x = x + 0.01 * v
        return x, v + 0.005 * force(x)

    results: tuple[Array, Array] = lax.fori_loop(0, 10, iterate, (x, v))
    return results


@program("physics", grid, side=(512, 10))
def heat_stencil(u: Array) -> Array:
    def iterate(_: Array, u: Array) -> Array:
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].set(inner + 0.2 * (around - 4 * inner))

    return lax.fori_loop(0, 50, iterate, u)


@program("physics", grid, side=(256, 10))
def wave_equation(u: Array) -> tuple[tuple[Array, Array], Array]:
    def iterate(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        now, before = state
        around = sum(jnp.roll(now, shift, axis) for shift in (1, -1) for axis in (0, 1))
        new = 2 * now - before + 0.2 * (around - 4 * now)
        return (new, now), jnp.sum(new**2)

    results: tuple[tuple[Array, Array], Array] = lax.scan(iterate, (u, u), None, length=50)
    return results


@program("physics", lambda side: [uniform(9, side, side) * 0.1 + 1], side=(128, 8))
def lattice_boltzmann(f: Array) -> Array:
    ways = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)

    def iterate(_: Array, f: Array) -> Array:
        mass = f.sum(0)
        speed = jnp.einsum("kd,kxy->dxy", ways.astype(np.float32), f) / mass
        along = jnp.einsum("kd,dxy->kxy", ways.astype(np.float32), speed)
        rest = mass * weights[:, None, None] * (1 + 3 * along + 4.5 * along**2 - 1.5 * jnp.sum(speed**2, 0))
        f = f + (rest - f) / 0.8
        return jnp.stack([jnp.roll(f[k], tuple(way), (0, 1)) for k, way in enumerate(ways.tolist())])

    return lax.fori_loop(0, 20, iterate, f)


@program("physics", lambda n: [uniform(n, n, 3)], n=(64, 6))
def cloth_springs(x: Array) -> tuple[Array, Array]:
    """A square of masses; the gradient of the energy is the force."""

    def energy(x: Array) -> Array:
        along = jnp.sqrt(jnp.sum((x[1:] - x[:-1]) ** 2, -1) + 1e-6)
        across = jnp.sqrt(jnp.sum((x[:, 1:] - x[:, :-1]) ** 2, -1) + 1e-6)
        return jnp.sum((along - 0.1) ** 2) + jnp.sum((across - 0.1) ** 2) + 0.1 * jnp.sum(x[..., 2])

    def iterate(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, v = state
        v = 0.99 * v - 0.01 * jax.grad(energy)(x)
        return x + 0.1 * v, v

    results: tuple[Array, Array] = lax.fori_loop(0, 100, iterate, (x, jnp.zeros_like(x)))
    return results


@program("physics", lambda n: [uniform(n, 4)], n=(4096, 5), bound=1e-2)
def double_pendulums(state: Array) -> Array:
    def slope(s: Array) -> Array:
        a, b, u, v = s[..., 0], s[..., 1], s[..., 2], s[..., 3]
        d = a - b
        below = 3 - jnp.cos(2 * d)
        first = -29.43 * jnp.sin(a) - 9.81 * jnp.sin(a - 2 * b) - 2 * jnp.sin(d) * (v * v + u * u * jnp.cos(d))
        second = 2 * jnp.sin(d) * (2 * u * u + 19.62 * jnp.cos(a) + v * v * jnp.cos(d))
        return jnp.stack([u, v, first / below, second / below], -1)

    def iterate(s: Array, _: None) -> tuple[Array, None]:
        middle = s + 0.005 * slope(s)
        return s + 0.01 * slope(middle), None

    return lax.scan(iterate, state, None, length=50)[0]


@program("physics", lambda side: [normal(2, side, side, seed=3) * 0.5, *grid(side)], side=(128, 8), bound=1e-2)
def stable_fluid(speed: Array, ink: Array) -> tuple[Array, Array]:
    """Back-tracing by interpolation, then pressure by Jacobi's iteration."""
    side = ink.shape[0]
    places = jnp.stack(jnp.meshgrid(jnp.arange(side) * 1.0, jnp.arange(side) * 1.0, indexing="ij"))

    def carried(field: Array, speed: Array) -> Array:
        return jax.scipy.ndimage.map_coordinates(field, list(places - speed), order=1, mode="wrap")

    def iterate(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        speed, ink = state
        speed = jnp.stack([carried(speed[0], speed), carried(speed[1], speed)])
        source = sum(jnp.roll(speed[d], -1, d) - jnp.roll(speed[d], 1, d) for d in (0, 1)) * 0.5

        def relax(_: Array, p: Array) -> Array:
            return 0.25 * (sum(jnp.roll(p, shift, axis) for shift in (1, -1) for axis in (0, 1)) - source)

        p = lax.fori_loop(0, 20, relax, jnp.zeros_like(ink))
        slope = jnp.stack([(jnp.roll(p, -1, d) - jnp.roll(p, 1, d)) * 0.5 for d in (0, 1)])
        speed = speed - slope
        return speed, carried(ink, speed)

    results: tuple[Array, Array] = lax.fori_loop(0, 3, iterate, (speed, ink))
    return results


@program("physics", lambda n: [np.sin(np.linspace(0, 2 * np.pi, n, endpoint=False, dtype=np.float32))], n=(512, 16))
def spectral_burgers(u: Array) -> Array:
    wave = jnp.fft.rfftfreq(u.size, 1.0 / u.size)
    mask = wave < u.size / 3

    def iterate(_: Array, spectrum: Array) -> Array:
        u = jnp.fft.irfft(spectrum * mask)
        change = -0.5j * wave * jnp.fft.rfft(u * u)
        return (spectrum + 0.001 * change) * jnp.exp(-0.00005 * wave**2)

    return jnp.fft.irfft(lax.fori_loop(0, 50, iterate, jnp.fft.rfft(u)))


@program("physics", lambda side: [np.linspace(-1, 1, side, dtype=np.float32)], side=(256, 8), bound=1e-2)
def ray_marching(line: Array) -> Array:
    """Distances to a sphere and a torus, along rays."""
    x, y = jnp.meshgrid(line, line)
    way = jnp.stack([x, y, jnp.ones_like(x)], -1)
    way = way / jnp.linalg.norm(way, axis=-1, keepdims=True)

    def distance(p: Array) -> Array:
        ball = jnp.linalg.norm(p - jnp.array([0.5, 0.0, 3.0]), axis=-1) - 0.8
        q = p - jnp.array([-0.5, 0.0, 3.0])
        ring = jnp.sqrt((jnp.hypot(q[..., 0], q[..., 1]) - 0.7) ** 2 + q[..., 2] ** 2) - 0.25
        return jnp.minimum(ball, ring)

    def iterate(_: Array, far: Array) -> Array:
        return jnp.minimum(far + distance(far[..., None] * way), 10.0)

    return lax.fori_loop(0, 40, iterate, jnp.zeros_like(x))


@program("physics", lambda n: [uniform(n, 2)], n=(2000, 10), bound=1e-2)
def cell_list_density(x: Array) -> Array:
    """Particles are binned into cells, and each examines its neighbourhood."""
    cells = 32
    place = jnp.clip((x * cells).astype(jnp.int32), 0, cells - 1)
    count = jnp.zeros((cells, cells)).at[place[:, 0], place[:, 1]].add(1.0)
    around = lax.reduce_window(count, 0.0, lax.add, (3, 3), (1, 1), "SAME")
    return around[place[:, 0], place[:, 1]]


@program(
    "physics",
    lambda side: [
        np.stack(np.meshgrid(*[np.arange(side, dtype=np.float32)] * 2), -1).reshape(-1, 2)
        + 0.1 * normal(side * side, 2)
    ],
    side=(14, 3),
    bound=1e-2,
)
def lennard_jones_fluid(x: Array) -> tuple[Array, Array]:
    """Forces are gradients of a pairwise energy in a periodic box."""
    side, others = round(len(x) ** 0.5), 1 - jnp.eye(len(x))

    def energy(x: Array) -> Array:
        apart = x[:, None] - x[None]
        apart = apart - side * jnp.round(apart / side)
        sixth = jnp.maximum(jnp.sum(apart**2, -1), 0.5) ** -3
        return 2 * jnp.sum((sixth * sixth - sixth) * others)

    def step(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        x, v = state
        v = v - 5e-4 * jax.grad(energy)(x)
        x = x + 1e-3 * v
        return (x, v - 5e-4 * jax.grad(energy)(x)), None

    results: tuple[Array, Array] = lax.scan(step, (x, jnp.zeros_like(x)), None, length=20)[0]
    return results


@program("physics", lambda side: [100 + 0.1 * normal(side, side)], side=(180, 12), bound=5e-3)
def shallow_water(height: Array) -> tuple[Array, Array, Array]:
    """Height and currents of a rotating sea on a staggered grid; the interior of each array is updated in place."""
    spacing, dt, gravitation, rotation = 5000.0, 20.0, 9.81, 2e-4
    inside = (slice(1, -1), slice(1, -1))
    east, north = (slice(1, -1), slice(2, None)), (slice(2, None), slice(1, -1))
    west, south = (slice(1, -1), slice(None, -2)), (slice(None, -2), slice(1, -1))

    def around(v: Array) -> Array:
        """The mean of the four neighbours' values."""
        return 0.25 * (v[east] + v[west] + v[north] + v[south])

    def step(state: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        h, u, v = state
        along_x = jnp.zeros_like(h).at[inside].set(0.5 * (h[inside] + h[east]) * u[inside])
        along_y = jnp.zeros_like(h).at[inside].set(0.5 * (h[inside] + h[north]) * v[inside])
        flow = along_x[inside] - along_x[west] + along_y[inside] - along_y[south]
        h = h.at[inside].add(-dt / spacing * flow)
        new_u = dt * (rotation * around(v) - gravitation * (h[east] - h[inside]) / spacing)
        new_v = dt * (-rotation * around(u) - gravitation * (h[north] - h[inside]) / spacing)
        return (h, u.at[inside].add(new_u), v.at[inside].add(new_v)), None

    still = jnp.zeros_like(height)
    results: tuple[Array, Array, Array] = lax.scan(step, (height, still, still), None, length=100)[0]
    return results


@program("physics", lambda n: [normal(n, 3), normal(n, 3, seed=1)], n=(50_000, 40))
def turned_about_axes(axes: Array, points: Array) -> Array:
    """Rotations by the angles and about the axes that vectors give, applied to points."""
    angle = jnp.linalg.norm(axes, axis=-1)[:, None, None]
    x, y, z = axes.T
    nothing = jnp.zeros_like(x)
    cross = jnp.stack([nothing, -z, y, z, nothing, -x, -y, x, nothing], -1).reshape(-1, 3, 3)
    turns = jnp.eye(3) + jnp.sin(angle) / angle * cross + (1 - jnp.cos(angle)) / angle**2 * (cross @ cross)
    return (turns @ points[..., None])[..., 0]
