"""Solvers: of linear and nonlinear equations, of differential equations, of optimization problems."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental.ode import odeint
from jax.scipy.optimize import minimize
from jax.scipy.sparse.linalg import bicgstab, cg, gmres

from .inputs import linear_system, matrix, uniform, vector
from .registry import program


@program("solvers", linear_system, n=(512, 16))
def conjugate_gradients(a: Array, b: Array) -> Array:
    return cg(lambda x: a @ x, b, maxiter=50, tol=0.0)[0]


def _laplacian(u: Array) -> Array:
    p = jnp.pad(u, 1)
    return 4 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]


@program("solvers", matrix, rows=(128, 8), columns=(128, 8))
def stencil_conjugate_gradients(f: Array) -> Array:
    return cg(lambda u: _laplacian(u) + 0.05 * u, f, maxiter=100, tol=0.0)[0]


@program("solvers", matrix, rows=(96, 8), columns=(96, 8), bound=1e-2)
def convection_diffusion_bicgstab(f: Array) -> Array:
    def operator(u: Array) -> Array:
        return _laplacian(u) + 0.5 * u + 0.3 * (jnp.roll(u, -1, 0) - jnp.roll(u, 1, 0))

    return bicgstab(operator, f, maxiter=25, tol=0.0)[0]


@program("solvers", linear_system, n=(256, 12), bound=5e-3)
def restarted_gmres(a: Array, b: Array) -> Array:
    return gmres(a + 2 * jnp.eye(len(b)), b, restart=10, maxiter=3, tol=0.0, solve_method="incremental")[0]


@program("solvers", lambda n: [uniform(n) * 0.5 + 0.5], n=(8, 3), bound=5e-2)
def rosenbrock_bfgs(x: Array) -> Array:
    def rosenbrock(x: Array) -> Array:
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    minimum = minimize(rosenbrock, x, method="BFGS", options={"maxiter": 200})
    return minimum.x


@program("solvers", lambda n: [uniform(n, 3) + 0.5], n=(2048, 5))
def batched_newton(x: Array) -> Array:
    """The intersection of a sphere, a plane and a paraboloid, from many starts."""

    def residual(p: Array) -> Array:
        x, y, z = p
        return jnp.array([x * x + y * y + z * z - 3.0, x + y - z - 1.0, x * x + 0.5 * y * y - z - 0.5])

    def step(_: Array, p: Array) -> Array:
        return p - 0.5 * jnp.linalg.solve(jax.jacfwd(residual)(p) + 0.1 * jnp.eye(3), residual(p))

    return jax.vmap(lambda p: lax.fori_loop(0, 12, step, p))(x)


@program("solvers", lambda n: [uniform(n) * 20.0], n=(65536, 9))
def bisection(target: Array) -> Array:
    """x with x exp(x) = target, for each target."""

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        low, high, count = state
        return (count < 60) & jnp.any(high - low > 1e-6)

    def halve(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, count = state
        middle = 0.5 * (low + high)
        above = middle * jnp.exp(middle) > target
        return jnp.where(above, low, middle), jnp.where(above, middle, high), count + 1

    start = (jnp.zeros_like(target), jnp.full_like(target, 4.0), 0)
    low, high, _ = lax.while_loop(unfinished, halve, start)
    return 0.5 * (low + high)


@program("solvers", linear_system, n=(128, 8), bound=1e-2)
def backtracking_gradient_descent(a: Array, b: Array) -> Array:
    def loss(x: Array) -> Array:
        return 0.5 * x @ (a @ x) - b @ x + 0.1 * jnp.sum(jnp.sqrt(1 + x * x))

    def step(_: Array, x: Array) -> Array:
        value, slope = jax.value_and_grad(loss)(x)
        steep = slope @ slope

        def too_long(length: Array) -> Array:
            return (loss(x - length * slope) > value - 0.3 * length * steep) & (length > 1e-4)

        return x - lax.while_loop(too_long, lambda length: length * 0.5, 1.0) * slope

    return loss(lax.fori_loop(0, 50, step, jnp.zeros_like(b)))


@program("solvers", vector, n=(1000, 30))
def levenberg_marquardt(noise: Array) -> Array:
    t = jnp.linspace(0, 4, noise.size)
    data = 2.5 * jnp.exp(-1.3 * t) + 0.5 + 0.05 * noise

    def residual(p: Array) -> Array:
        return p[0] * jnp.exp(-p[1] * t) + p[2] - data

    def step(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        p, damping = state
        r, j = residual(p), jax.jacfwd(residual)(p)
        new = p - jnp.linalg.solve(j.T @ j + damping * jnp.eye(3), j.T @ r)
        better = jnp.sum(residual(new) ** 2) < jnp.sum(r**2)
        return (jnp.where(better, new, p), jnp.where(better, damping * 0.3, damping * 2.0)), None

    return lax.scan(step, (jnp.array([1.0, 1.0, 0.0]), 1.0), None, length=20)[0][0]


@program("solvers", lambda n: [uniform(n) + 0.5], n=(64, 4), bound=1e-2)
def adaptive_runge_kutta(x: Array) -> tuple[Array, Array]:
    """Predators and prey by Dormand and Prince's method, several populations with one step size."""

    def slope(state: tuple[Array, Array], t: Array) -> tuple[Array, Array]:
        prey, hunters = state
        return prey * (1.1 - 0.4 * hunters), hunters * (0.1 * prey - 0.4)

    results: tuple[Array, Array] = odeint(slope, (10 * x, 5 * x), jnp.linspace(0.0, 10.0, 20), rtol=1e-4, atol=1e-4)
    return results


def _runge_kutta(slope: Callable[[Array], Array], p: Array, h: float) -> Array:
    """The state after a step of length h, by the classical method of the fourth order."""
    a = slope(p)
    b = slope(p + h / 2 * a)
    c = slope(p + h / 2 * b)
    d = slope(p + h * c)
    return p + h / 6 * (a + 2 * b + 2 * c + d)


@program("solvers", lambda n: [uniform(n, 3) + 1.0], n=(1000, 4), bound=1e-2)
def lorenz_runge_kutta(start: Array) -> Array:
    def slope(p: Array) -> Array:
        x, y, z = p[..., 0], p[..., 1], p[..., 2]
        return jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z], -1)

    def step(p: Array, _: None) -> tuple[Array, Array]:
        p = _runge_kutta(slope, p, 0.01)
        return p, p.mean(0)

    return lax.scan(step, start, None, length=200)[1]


@program("solvers", lambda n: [2 * uniform(n, 4)], n=(512, 4), bound=1e-2)
def mapped_double_pendulums(starts: Array) -> Array:
    """Runge-Kutta steps of one pendulum, mapped over many."""

    def slope(p: Array) -> Array:
        pull = 0.3 * jnp.sin(p[0] - p[1])
        return jnp.stack([p[2], p[3], -jnp.sin(p[0]) - pull, -jnp.sin(p[1]) + pull])

    def step(p: Array, _: None) -> tuple[Array, Array]:
        p = _runge_kutta(slope, p, 0.01)
        return p, p

    return jax.vmap(lambda start: lax.scan(step, start, None, length=200)[1])(starts)


@program("solvers", lambda n: [4 * uniform(n, 2) - 2], n=(16384, 8), bound=1.0)
def escape_times(points: Array) -> Array:
    """Of the Mandelbrot set: a loop that ends by itself for each point."""

    def escape(c: Array) -> Array:
        def goes_on(s: tuple[Array, Array, Array]) -> Array:
            return (s[2] < 200) & (s[0] ** 2 + s[1] ** 2 < 4)

        def step(s: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, y, count = s
            return x * x - y * y + c[0], 2 * x * y + c[1], count + 1

        return lax.while_loop(goes_on, step, (0.0, 0.0, 0))[2]

    return jax.vmap(escape)(points)


@program("solvers", lambda n: [uniform(n, n), uniform(n) + 0.1, uniform(n, seed=1) + 0.1], n=(256, 8))
def sinkhorn(cost: Array, rows: Array, columns: Array) -> Array:
    """Optimal transport with entropy, in logarithms."""
    a, b, scale = jnp.log(rows / rows.sum()), jnp.log(columns / columns.sum()), 0.05

    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        f, g = state
        f = scale * (a - jax.nn.logsumexp((g[None, :] - cost) / scale, 1))
        g = scale * (b - jax.nn.logsumexp((f[:, None] - cost) / scale, 0))
        return f, g

    f, g = lax.fori_loop(0, 50, step, (jnp.zeros_like(a), jnp.zeros_like(b)))
    return jnp.sum(jnp.exp((f[:, None] + g[None, :] - cost) / scale) * cost)


@program("solvers", lambda rows, columns: [*matrix(rows, columns), *vector(rows)], rows=(256, 12), columns=(512, 20))
def fista_lasso(a: Array, b: Array) -> Array:
    length = 1.0 / (a.shape[0] + a.shape[1]) / 2

    def step(state: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        x, y, t = state
        moved = y - length * (a.T @ (a @ y - b))
        new = jnp.sign(moved) * jnp.maximum(jnp.abs(moved) - 5.0 * length, 0)
        u = 0.5 * (1 + jnp.sqrt(1 + 4 * t * t))
        return (new, new + (t - 1) / u * (new - x), u), None

    zeros = jnp.zeros(a.shape[1])
    return lax.scan(step, (zeros, zeros, jnp.float32(1)), None, length=100)[0][0]


@program("solvers", lambda n: [uniform(n)], n=(1000, 12))
def implicit_heat(u: Array) -> Array:
    """Crank-Nicolson steps, each a tridiagonal system."""
    r = 0.4
    off = jnp.full_like(u, -r / 2)
    lower, upper, diagonal = off.at[0].set(0), off.at[-1].set(0), jnp.full_like(u, 1 + r)

    def step(u: Array, _: None) -> tuple[Array, None]:
        p = jnp.pad(u, 1)
        right = (1 - r) * u + r / 2 * (p[:-2] + p[2:])
        return lax.linalg.tridiagonal_solve(lower, diagonal, upper, right[:, None])[:, 0], None

    return lax.scan(step, u, None, length=50)[0]


@program("solvers", matrix, rows=(128, 16), columns=(128, 16))
def multigrid_cycles(f: Array) -> Array:
    """Poisson's equation by V-cycles with damped Jacobi smoothing."""

    def smooth(u: Array, f: Array, iterations: int) -> Array:
        return lax.fori_loop(0, iterations, lambda _, u: u + 0.2 * (f - _laplacian(u)), u)

    def cycle(u: Array, f: Array) -> Array:
        u = smooth(u, f, 3)
        side = f.shape[0]
        if side <= 8:
            return smooth(u, f, 10)
        rest = f - _laplacian(u)
        coarse = 4 * rest.reshape(side // 2, 2, side // 2, 2).mean((1, 3))
        fine = jnp.repeat(jnp.repeat(cycle(jnp.zeros_like(coarse), coarse), 2, 0), 2, 1)
        return smooth(u + 0.5 * fine, f, 3)

    u = jnp.zeros_like(f)
    for _ in range(2):
        u = cycle(u, f)
    return u


@program("solvers", lambda cells: [1 + 0.1 * uniform(cells)], cells=(10_000, 9))
def stiff_kinetics(first: Array) -> Array:
    """Robertson's three reactions in each cell: implicit steps, each with Newton's iteration on 3 x 3 systems."""

    def rates(y: Array) -> Array:
        slow, middle, fast = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return jnp.stack([middle - slow, slow - middle - fast, fast])

    def step(y: Array, _: None) -> tuple[Array, None]:
        size = 0.01

        def newton(z: Array, _: None) -> tuple[Array, None]:
            jacobian = jnp.eye(3) - size * jax.vmap(jax.jacfwd(rates), 1)(z)
            residual = z - y - size * rates(z)
            return z - jnp.linalg.solve(jacobian, residual.T[..., None])[..., 0].T, None

        return lax.scan(newton, y, None, length=3)[0], None

    return lax.scan(step, jnp.stack([first, 0 * first, 0 * first]), None, length=10)[0]


@program("solvers", matrix, rows=(512, 5), columns=(100, 7))
def simplex_projections(v: Array) -> Array:
    """The nearest point with nonnegative coordinates that sum to one, for each row."""
    sorted_rows = -jnp.sort(-v, -1)
    excess = jnp.cumsum(sorted_rows, -1) - 1
    number = jnp.arange(1, v.shape[1] + 1)
    last = jnp.sum(sorted_rows > excess / number, -1, keepdims=True)
    return jnp.maximum(v - jnp.take_along_axis(excess, last - 1, 1) / last, 0)


@program("solvers", linear_system, n=(128, 12))
def damped_jacobi(a: Array, b: Array) -> Array:
    """The matrix without its diagonal is the same in each iteration."""

    def iterate(_: Array, x: Array) -> Array:
        diagonal = jnp.diag(a)
        return 0.5 * x + 0.5 * (b - (a - jnp.diag(diagonal)) @ x) / (2 * diagonal)

    return lax.fori_loop(0, 50, iterate, b)


@program("solvers", lambda places: [uniform(places)], places=(400, 24))
def shock_reconstruction(density: Array) -> Array:
    """Advection: weighted essentially non-oscillatory values at faces, and three stages of a Runge-Kutta step."""

    def rate(u: Array) -> Array:
        far_left, left, right, far_right = (jnp.roll(u, shift) for shift in (2, 1, -1, -2))
        smoothness = [
            13 / 12 * (a - 2 * b + c) ** 2 + 0.25 * slope**2
            for a, b, c, slope in (
                (far_left, left, u, far_left - 4 * left + 3 * u),
                (left, u, right, left - right),
                (u, right, far_right, 3 * u - 4 * right + far_right),
            )
        ]
        weights = [ideal / (1e-6 + s) ** 2 for ideal, s in zip((0.1, 0.6, 0.3), smoothness, strict=True)]
        values = [2 * far_left - 7 * left + 11 * u, 5 * u - left + 2 * right, 2 * u + 5 * right - far_right]
        face = sum(w * v for w, v in zip(weights, values, strict=True)) / (6 * sum(weights))
        return jnp.roll(face, 1) - face

    def step(u: Array, _: None) -> tuple[Array, None]:
        first = u + 0.2 * rate(u)
        second = 0.75 * u + 0.25 * (first + 0.2 * rate(first))
        return u / 3 + 2 / 3 * (second + 0.2 * rate(second)), None

    return lax.scan(step, density, None, length=200)[0]
