"""The vocabulary of the suite's models: the operations that frameworks share; each framework implements them.

A model is a function of a Framework (called `xp`) and arrays. So it is written once, and each framework runs its own
operations: if one has a faster or more usual form (torch its fused layer-norm, TensorFlow its batch-norm), its class
overrides the composite here. Arrays have Python's operators (+ - * / ** @ comparisons, indexing by slices). Images are
NHWC, filters HWIO under the key "filter"; a framework that uses another layout converts them when it places them.
Operations that a framework does not have raise NotImplementedError, and its cell of the table stays empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..parameter_trees import map_tree

Array = Any
Tree = Any
Function = Callable[..., Any]  # of arrays and trees of them


_Kind = TypeVar("_Kind", bound="type[Framework]")


def with_functions(source: object, names: str) -> Callable[[_Kind], _Kind]:
    """A decorator that takes functions of these names, of a module or a class, as a framework's operations."""

    def take(framework: _Kind) -> _Kind:
        for name in names.split():
            setattr(framework, name, staticmethod(getattr(source, name)))
        return framework

    return take


class Framework:
    """A way to run models: `place` arguments, `compile` a function of (arguments), call it, `wait` for the results."""

    name = ""
    packages: tuple[str, ...] = ()  # whose versions are reported

    # How it runs.

    def wide_types(self, on: bool) -> None:
        """Enables 64-bit types, if a framework narrows them by default; call it before `place`."""

    def place(self, tree: Tree) -> Tree:
        """NumPy arrays as the framework's own."""
        raise NotImplementedError

    def compile(self, function: Function, trains: bool) -> Function:
        """The function of placed arguments as this framework runs it; `trains`: it computes gradients."""
        return function

    def wait(self, results: Tree) -> None:
        """Returns when the results are computed."""

    def numpy(self, tree: Tree) -> Tree:
        """Results as NumPy arrays, in the layout of `place`'s arguments."""
        return map_tree(np.asarray, tree)

    # Required operations: as in NumPy, except where stated otherwise.

    def value_and_grad(self, loss: Function, parameters: Tree, *arguments: Any) -> tuple[Array, Tree]:
        """(loss(parameters, *arguments), its gradient by the parameters)."""
        raise NotImplementedError

    def exp(self, x: Array) -> Array:
        raise NotImplementedError

    def log(self, x: Array) -> Array:
        raise NotImplementedError

    def tanh(self, x: Array) -> Array:
        raise NotImplementedError

    def sqrt(self, x: Array) -> Array:
        raise NotImplementedError

    def maximum(self, x: Array, y: Array) -> Array:
        raise NotImplementedError

    def where(self, condition: Array, x: Array, y: Array) -> Array:
        raise NotImplementedError

    def sum(self, x: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
        raise NotImplementedError

    def mean(self, x: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
        raise NotImplementedError

    def max(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        raise NotImplementedError

    def argmin(self, x: Array, axis: int) -> Array:
        raise NotImplementedError

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        raise NotImplementedError

    def transpose(self, x: Array, axes: tuple[int, ...]) -> Array:
        raise NotImplementedError

    def concatenate(self, arrays: list[Array], axis: int) -> Array:
        raise NotImplementedError

    def stack(self, arrays: list[Array], axis: int) -> Array:
        raise NotImplementedError

    def split(self, x: Array, count: int, axis: int) -> list[Array]:
        raise NotImplementedError

    def pad(self, x: Array, widths: tuple[tuple[int, int], ...]) -> Array:
        """With zeros."""
        raise NotImplementedError

    def arange(self, count: int) -> Array:
        """s32[count]."""
        raise NotImplementedError

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """f32[shape]."""
        raise NotImplementedError

    def take(self, table: Array, rows: Array) -> Array:
        """table[rows]: whole rows."""
        raise NotImplementedError

    def scatter_add(self, x: Array, rows: Array, updates: Array) -> Array:
        """x with updates[n] added to its row rows[n], for every n."""
        raise NotImplementedError

    def sort(self, x: Array) -> Array:
        """Along the last axis, ascending."""
        raise NotImplementedError

    def cumsum(self, x: Array, axis: int) -> Array:
        raise NotImplementedError

    def convolve(self, x: Array, filters: Array, stride: int, padding: int, groups: int = 1) -> Array:
        """x [batch, height, width, features]; filters [height, width, features in / groups, features out]; `padding`
        rows and columns of zeros on each side."""
        raise NotImplementedError

    def max_pool(self, x: Array, window: int, stride: int, padding: int = 0) -> Array:
        raise NotImplementedError

    # Operations with a default implementation.

    def map(self, function: Function, tree: Tree, *others: Tree) -> Tree:
        """function(leaf, ...) for each leaf: an optimiser's update."""
        return map_tree(function, tree, *others)

    def loop(self, count: int, body: Function, state: Tree) -> Tree:
        """body(state), repeated `count` times."""
        for _ in range(count):
            state = body(state)
        return state

    def side(self, filters: Array) -> int:
        """The height and width of filters."""
        return int(filters.shape[0])

    def relu(self, x: Array) -> Array:
        return self.maximum(x, 0.0)

    def sigmoid(self, x: Array) -> Array:
        return 1.0 / (1.0 + self.exp(-x))

    def gelu(self, x: Array) -> Array:
        """The approximation by tanh."""
        return 0.5 * x * (1.0 + self.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def softmax(self, x: Array) -> Array:
        """Along the last axis."""
        e = self.exp(x - self.max(x, -1, keepdims=True))
        return e / self.sum(e, -1, keepdims=True)

    def log_softmax(self, x: Array) -> Array:
        shifted = x - self.max(x, -1, keepdims=True)
        return shifted - self.log(self.sum(self.exp(shifted), -1, keepdims=True))

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        """The mean over rows of -log softmax(logits)[row, labels[row]]."""
        classes = self.arange(logits.shape[-1])[None, :]
        chosen = self.where(labels[:, None] == classes, self.log_softmax(logits), 0.0)
        return -self.mean(self.sum(chosen, -1))

    def layer_norm(self, x: Array, scale: Array, offset: Array) -> Array:
        centred = x - self.mean(x, -1, keepdims=True)
        variance = self.mean(centred * centred, -1, keepdims=True)
        return centred / self.sqrt(variance + 1e-5) * scale + offset

    def batch_norm(self, x: Array, scale: Array, offset: Array) -> Array:
        """With the batch's own statistics, as in training."""
        axes = tuple(range(len(x.shape) - 1))
        centred = x - self.mean(x, axes)
        return centred / self.sqrt(self.mean(centred * centred, axes) + 1e-5) * scale + offset

    def scale_and_shift(self, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
        """Batch-norm with known statistics, as in inference."""
        return (x - mean) * (scale / self.sqrt(variance + 1e-5)) + offset

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        """[batch, heads, time, features] each."""
        scores = q @ self.transpose(k, (0, 1, 3, 2)) * (q.shape[-1] ** -0.5)
        if causal:
            time = self.arange(q.shape[2])
            scores = self.where(time[:, None] >= time[None, :], scores, -1e30)
        return self.softmax(scores) @ v

    def lstm(self, x: Array, weights: Array, recurrent: Array, bias: Array) -> Array:
        """x [time, batch, features] -> hidden states [time, batch, hidden]; gates in the order i, f, g, o."""
        hidden = memory = self.zeros((x.shape[1], recurrent.shape[0]))
        states = []
        for t in range(x.shape[0]):
            i, f, g, o = self.split(x[t] @ weights + hidden @ recurrent + bias, 4, -1)
            memory = self.sigmoid(f) * memory + self.sigmoid(i) * self.tanh(g)
            hidden = self.sigmoid(o) * self.tanh(memory)
            states.append(hidden)
        return self.stack(states, 0)

    def put(self, cache: Array, position: Array, new: Array) -> Array:
        """cache [batch, heads, time, features] with new [batch, heads, 1, features] at a time s32[]."""
        time = self.arange(cache.shape[2])[None, None, :, None]
        return self.where(time == position, new, cache)

    def mean_pool(self, x: Array) -> Array:
        """[batch, height, width, features] -> [batch, features]."""
        return self.mean(x, (1, 2))

    def double(self, x: Array) -> Array:
        """[batch, height, width, features] -> twice as high and wide, with each pixel four times."""
        batch, height, width, features = x.shape
        x = self.stack([x, x], 2)
        x = self.reshape(x, (batch, 2 * height, width, features))
        x = self.stack([x, x], 3)
        return self.reshape(x, (batch, 2 * height, 2 * width, features))
