"""NumPy, an operation at a time: for kernels and models without gradients."""

from __future__ import annotations

import numpy as np

from ..parameter_trees import map_tree
from .base import Array, Framework, Function, Tree, with_functions


@with_functions(
    np,
    "exp log tanh sqrt where maximum sum mean max argmin reshape transpose concatenate stack split pad sort cumsum",
)
class Numpy(Framework):
    """Without convolutions, pooling and gradients."""

    name = "numpy"
    packages = ("numpy",)

    def place(self, tree: Tree) -> Tree:
        return tree

    def compile(self, function: Function, trains: bool) -> Function:
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
