"""NumPy, an operation at a time: for kernels and models without gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..parameter_trees import map_tree
from .base import Array, Framework, Tree


class Numpy(Framework):
    """Without convolutions, pooling and gradients."""

    name = "numpy"
    packages = ("numpy",)

    exp, log, tanh, sqrt, where = map(staticmethod, (np.exp, np.log, np.tanh, np.sqrt, np.where))
    maximum, sum, mean, max, argmin = map(staticmethod, (np.maximum, np.sum, np.mean, np.max, np.argmin))
    reshape, transpose, concatenate = map(staticmethod, (np.reshape, np.transpose, np.concatenate))
    stack, split, pad, sort, cumsum = map(staticmethod, (np.stack, np.split, np.pad, np.sort, np.cumsum))

    def place(self, tree: Tree) -> Tree:
        return tree

    def compile(self, function: Callable, trains: bool) -> Callable:
        if trains:
            raise NotImplementedError("NumPy takes no gradients")
        return lambda *arguments: _whole(function(*arguments))

    def arange(self, count: int) -> Array:
        return np.arange(count, dtype=np.int32)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        return np.zeros(shape, np.float32)

    def take(self, table: Array, rows: Array) -> Array:
        return table[rows]

    def scatter_add(self, x: Array, rows: Array, updates: Array) -> Array:
        x = x.copy()
        np.add.at(x, rows, updates)
        return x


def _whole(results: Tree) -> Tree:
    """Converts views (of a transpose) to arrays, as every other framework returns them."""
    return map_tree(lambda x: np.asarray(x, order="C"), results)
