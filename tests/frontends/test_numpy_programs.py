"""Small programs as users of NumPy write them, compiled unchanged: results, and what they change, are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import refxla
from refxla.frontends.numpy.trees import leaves

RANDOM = np.random.default_rng(0)
Z, V, K = RANDOM.random((10, 10)), RANDOM.random(10), RANDOM.integers(0, 10, 10)


def border(a):
    a[:, [0, -1]] = 0
    a[[0, -1], :] = 1
    return a


def checkerboard(a):
    z = np.zeros((8, 8), dtype=int)
    z[1::2, ::2] = a
    z[::2, 1::2] = 2 * a
    return z


def smoothed(a):
    y = np.empty(len(a))
    y[0] = a[0]
    for i in range(1, len(a)):
        y[i] = 0.9 * y[i - 1] + 0.1 * a[i]
    return y


def interleaved(a):
    made = np.zeros(len(a) + (len(a) - 1) * 3)
    made[::4] = a
    return made


def heat(u, n):
    for _ in range(n):
        u[1:-1, 1:-1] += 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])


def life(z):
    n = sum(np.roll(z, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - z
    z[...] = (n == 3) | ((z == 1) & (n == 2))
    return np.sum(z)


def one_hot(k):
    made = np.zeros((len(k), 10))
    made[np.arange(len(k)), k] = 1
    return made


def k_means(points, centres):
    for _ in range(3):
        distances = np.sqrt(((points[:, None] - centres) ** 2).sum(-1))
        nearest = np.argmin(distances, axis=1)
        centres = np.array([np.mean(np.where((nearest == c)[:, None], points, 0), axis=0) for c in range(len(centres))])
    return centres, nearest


def cholesky_by_hand(a):
    n = len(a)
    lower = np.zeros_like(a)
    for j in range(n):
        lower[j, j] = np.sqrt(a[j, j] - np.dot(lower[j, :j], lower[j, :j]))
        lower[j + 1 :, j] = (a[j + 1 :, j] - lower[j + 1 :, :j] @ lower[j, :j]) / lower[j, j]
    return lower


def collected(a):
    rows = []
    for n, row in enumerate(a):
        rows.append(row.sum() * n)
    return np.array(rows), np.sum(rows), {"max": np.max(rows), "pairs": np.c_[rows, rows], "row": np.r_[0, rows, 1:3]}


def clipped_in_place(a):
    a[a > 0.7] = 0.7
    np.subtract(a, 0.5, out=a)
    np.abs(a, out=a)
    a[a.argmax()] = 0
    a.sort()
    return a[::2], a[a > 0.1].mean()


def sorted_rows(a):
    return a[a[:, 1].argsort()], np.add.reduceat(a, [0, 4, 7]), np.apply_over_axes(np.sum, a, [0, 1])


def grid(a):
    x, y = np.meshgrid(np.linspace(-1, 1, 10), np.linspace(-1, 1, 8))
    return np.exp(-((np.sqrt(x * x + y * y) * a - 0.5) ** 2) / 2), np.mgrid[0:3, 0:2] * a


def stencil_by_names(a):
    top, bottom = a[0], a[-1]  # views
    top += 1
    bottom[:] = top
    a[1], a[2] = a[2].copy(), a[1].copy()
    return a


PROGRAMS = [
    (border, Z), (checkerboard, 3), (smoothed, V), (interleaved, V), (heat, Z, 3), (life, (Z > 0.5).astype(int)),
    (one_hot, K), (k_means, Z[:, :2], Z[:3, :2]), (cholesky_by_hand, Z @ Z.T + np.eye(10)), (collected, Z),
    (clipped_in_place, V), (sorted_rows, Z), (grid, 2.0), (stencil_by_names, Z),
]  # fmt: skip


@pytest.mark.parametrize("n", range(len(PROGRAMS)), ids=[p[0].__name__ for p in PROGRAMS])
def test_gives_and_changes_what_numpy_does(n):
    function, *arguments = PROGRAMS[n]
    own, others = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
    wanted, got = function(*own), refxla.compile(function)(*others)
    for a, b in zip([*leaves(got), *others], [*leaves(wanted), *own], strict=True):
        if isinstance(b, (np.ndarray, np.generic)):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, 1e-9, 1e-12)
        else:
            assert a == b
