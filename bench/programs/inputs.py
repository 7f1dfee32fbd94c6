"""Inputs that several programs share: the same at every call and on every machine."""

from __future__ import annotations

import numpy as np

from ..models.values import integers, normal

Arrays = list[np.ndarray]


def vector(n: int) -> Arrays:
    """[f32[n]], normal."""
    return [normal(n)]


def matrix(rows: int, columns: int) -> Arrays:
    """[f32[rows, columns]], normal."""
    return [normal(rows, columns)]


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    """f32[shape] in [0, 1)."""
    return np.random.default_rng((seed, *shape)).random(shape, dtype=np.float32)


def key(seed: int = 0) -> np.ndarray:
    """A random key as JAX's functions take it: u32[2]."""
    return np.array([0, seed], np.uint32)


def keys() -> Arrays:
    return [key()]


def positive_definite(n: int) -> np.ndarray:
    """A symmetric matrix f32[n, n] whose eigenvalues lie in about [0.1, 4]."""
    a = normal(n, n, seed=1).astype(np.float64)
    return np.asarray(a @ a.T / n + 0.1 * np.eye(n), np.float32)


def linear_system(n: int) -> Arrays:
    """[f32[n, n] positive definite, f32[n]]."""
    return [positive_definite(n), normal(n)]


def regression(rows: int, features: int) -> Arrays:
    """[f32[rows, features], f32[rows] of 0 and 1]: classes separated by a noisy line."""
    x = normal(rows, features)
    y = x @ normal(features, seed=2) + normal(rows, seed=3) > 0
    return [x, y.astype(np.float32)]


def graph(nodes: int, degree: int, features: int = 1) -> Arrays:
    """[f32[nodes, features], s32[edges] sources, s32[edges] targets]: a random directed graph, with edges sorted by
    target."""
    edges = nodes * degree
    targets = np.sort(integers(0, nodes, edges, seed=5))
    return [normal(nodes, features), integers(0, nodes, edges, seed=4), targets]


def grid(side: int) -> Arrays:
    """[f32[side, side]] in [0, 1)."""
    return [uniform(side, side)]


def image(side: int) -> Arrays:
    """[f32[side, side, 3]] in [0, 1)."""
    return [uniform(side, side, 3)]


def text(length: int) -> Arrays:
    """[u8[length]]: letters and spaces, some much more frequent than others."""
    letters = np.frombuffer(b"etaoin shrdlu, cmfwyp vbgkjq xz.\n", np.uint8)
    rank = np.random.default_rng(0).geometric(0.15, length) % letters.size
    return [letters[rank]]
