"""Programs of one kernel or a few."""

from __future__ import annotations

import numpy as np

from ..frameworks.base import Array, Framework
from .values import integers, normal


def increment(xp: Framework, x: Array) -> Array:
    return x + 1


def sum_of_products(xp: Framework, x: Array, y: Array, z: Array) -> Array:
    return xp.sum(x + y * z)


def tanh_chain(xp: Framework, x: Array, y: Array, z: Array) -> Array:
    return xp.tanh(x + y * z) + xp.exp(-x)


def matmul(xp: Framework, x: Array, y: Array) -> Array:
    return x @ y


def transpose(xp: Framework, x: Array) -> Array:
    return xp.transpose(x, (1, 0)) * 2.0


def column_mean(xp: Framework, x: Array) -> Array:
    return xp.mean(x, 0)


def softmax(xp: Framework, x: Array) -> Array:
    return xp.softmax(x)


def layer_norm(xp: Framework, x: Array, scale: Array, offset: Array) -> Array:
    return xp.layer_norm(x, scale, offset)


def sort(xp: Framework, x: Array) -> Array:
    return xp.sort(x)


def cumulative_sum(xp: Framework, x: Array) -> Array:
    return xp.cumsum(x, 1)


def scatter_add(xp: Framework, x: Array, rows: Array, updates: Array) -> Array:
    return xp.scatter_add(x, rows, updates)


def one(n: int) -> list[np.ndarray]:
    return [normal(n)]


def three(n: int) -> list[np.ndarray]:
    return [normal(n, seed=seed) for seed in range(3)]


def matrix(rows: int, columns: int) -> list[np.ndarray]:
    return [normal(rows, columns)]


def matrices(n: int) -> list[np.ndarray]:
    return [normal(n, n), normal(n, n, seed=1)]


def rows_and_features(rows: int, columns: int) -> list[np.ndarray]:
    return [normal(rows, columns), 1 + normal(columns) / 10, normal(columns) / 10]


def table_and_updates(rows: int, columns: int, updates: int) -> list[np.ndarray]:
    return [normal(rows, columns), integers(0, rows, updates), normal(updates, columns, seed=1)]
