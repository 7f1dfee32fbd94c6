"""PyTorch: an operation at a time, and by torch.compile."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from ..parameter_trees import leaves, map_tree, named_leaves, rebuild
from .base import Array, Framework, Function, Tree, with_functions


@with_functions(torch, "exp log tanh where stack argmin cumsum relu sigmoid")
class Torch(Framework):
    """Eager. Filters have the layout that PyTorch prefers for images whose features are innermost (channels last)."""

    name = "torch"
    packages = ("torch",)

    concatenate = staticmethod(torch.cat)

    def __init__(self) -> None:
        torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)

    def place(self, tree: Tree) -> Tree:
        flat = []
        for key, leaf in named_leaves(tree):
            tensor = torch.from_numpy(np.array(leaf))
            if key == "filter":
                tensor = tensor.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
            flat.append(tensor)
        return rebuild(tree, iter(flat))

    def numpy(self, tree: Tree) -> Tree:
        flat = [
            leaf.detach().permute(2, 3, 1, 0) if key == "filter" else leaf.detach() for key, leaf in named_leaves(tree)
        ]
        return rebuild(tree, iter([np.asarray(leaf) for leaf in flat]))

    def compile(self, function: Function, trains: bool) -> Function:
        if trains:
            return function

        def call(*arguments: Any) -> Any:
            with torch.inference_mode():
                return map_tree(torch.Tensor.contiguous, function(*arguments))

        return call

    def value_and_grad(self, loss: Function, parameters: Tree, *arguments: Any) -> tuple[Array, Tree]:
        parameters = map_tree(lambda p: p.detach().requires_grad_(), parameters)
        value = loss(parameters, *arguments)
        gradients = torch.autograd.grad(value, list(leaves(parameters)))
        return value.detach(), rebuild(parameters, iter(gradients))

    def map(self, function: Function, tree: Tree, *others: Tree) -> Tree:
        with torch.no_grad():
            return map_tree(function, tree, *others)

    def sqrt(self, x: Any) -> Any:
        return torch.sqrt(x) if isinstance(x, torch.Tensor) else x**0.5

    def maximum(self, x: Array, y: Any) -> Array:
        return torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp(x, min=y)

    def sum(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return torch.sum(x) if axis is None else torch.sum(x, axis, keepdim=keepdims)

    def mean(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return torch.mean(x) if axis is None else torch.mean(x, axis, keepdim=keepdims)

    def max(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        return torch.amax(x, axis, keepdim=keepdims)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        return torch.reshape(x, shape)

    def transpose(self, x: Array, axes: tuple[int, ...]) -> Array:
        return x.permute(axes)

    def split(self, x: Array, count: int, axis: int) -> list[Array]:
        return list(torch.chunk(x, count, axis))

    def pad(self, x: Array, widths: tuple[tuple[int, int], ...]) -> Array:
        return functional.pad(x, [n for low_high in reversed(widths) for n in low_high])

    def arange(self, count: int) -> Array:
        return torch.arange(count, dtype=torch.int32)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        return torch.zeros(shape)

    def take(self, table: Array, rows: Array) -> Array:
        return functional.embedding(rows, table)

    def scatter_add(self, x: Array, rows: Array, updates: Array) -> Array:
        return x.index_add(0, rows, updates)

    def sort(self, x: Array) -> Array:
        return torch.sort(x).values

    def side(self, filters: Array) -> int:
        return int(filters.shape[2])

    def convolve(self, x: Array, filters: Array, stride: int, padding: int, groups: int = 1) -> Array:
        y = functional.conv2d(x.permute(0, 3, 1, 2), filters, None, stride, padding, 1, groups)
        return y.permute(0, 2, 3, 1)

    def max_pool(self, x: Array, window: int, stride: int, padding: int = 0) -> Array:
        return functional.max_pool2d(x.permute(0, 3, 1, 2), window, stride, padding).permute(0, 2, 3, 1)

    def gelu(self, x: Array) -> Array:
        return functional.gelu(x, approximate="tanh")

    def softmax(self, x: Array) -> Array:
        return torch.softmax(x, -1)

    def log_softmax(self, x: Array) -> Array:
        return torch.log_softmax(x, -1)

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        return functional.cross_entropy(logits, labels.long())

    def layer_norm(self, x: Array, scale: Array, offset: Array) -> Array:
        return functional.layer_norm(x, x.shape[-1:], scale, offset, 1e-5)

    def batch_norm(self, x: Array, scale: Array, offset: Array) -> Array:
        x = x.permute(0, 3, 1, 2)
        return functional.batch_norm(x, None, None, scale, offset, True, eps=1e-5).permute(0, 2, 3, 1)

    def scale_and_shift(self, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
        x = x.permute(0, 3, 1, 2)
        return functional.batch_norm(x, mean, variance, scale, offset, False, eps=1e-5).permute(0, 2, 3, 1)

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def lstm(self, x: Array, weights: Array, recurrent: Array, bias: Array) -> Array:
        start = torch.zeros(1, x.shape[1], recurrent.shape[0])
        flat = [weights.t().contiguous(), recurrent.t().contiguous(), bias, torch.zeros_like(bias)]
        return torch.lstm(x, (start, start), flat, True, 1, 0.0, torch.is_grad_enabled(), False, False)[0]

    def put(self, cache: Array, position: Array, new: Array) -> Array:
        return cache.index_copy(2, position.long()[None], new)

    def double(self, x: Array) -> Array:
        return functional.interpolate(x.permute(0, 3, 1, 2), scale_factor=2.0).permute(0, 2, 3, 1)


class TorchCompile(Torch):
    """torch.compile of a forward pass, or of a loss (including its gradient)."""

    name = "torch-compile"

    def __init__(self) -> None:
        super().__init__()
        self._compiled: dict[str, Function] = {}

    def compile(self, function: Function, trains: bool) -> Function:
        self._compiled.clear()
        torch._dynamo.reset()
        return super().compile(function if trains else torch.compile(function, dynamic=False), trains)

    def _once(self, what: str, function: Function) -> Function:
        """The function compiled at its first call; later ones are new closures of the same code."""
        if what not in self._compiled:
            self._compiled[what] = torch.compile(function, dynamic=False)
        return self._compiled[what]

    def value_and_grad(self, loss: Function, parameters: Tree, *arguments: Any) -> tuple[Array, Tree]:
        return super().value_and_grad(self._once("loss", loss), parameters, *arguments)

    def lstm(self, *arguments: Array) -> Array:
        return Framework.lstm(self, *arguments)  # its own operation is not one for the compiler
