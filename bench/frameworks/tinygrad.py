"""tinygrad on the OpenCL device that refxla uses: TinyJit, with its default kernels (no beam search)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl

os.environ.setdefault("DEV", "CL")
_BUNDLED = sorted(Path(pyopencl.__file__).parent.glob(".libs/libOpenCL*.so*"))
if _BUNDLED:
    os.environ.setdefault("OPENCL_PATH", str(_BUNDLED[0]))
pyopencl.get_platforms()  # pyopencl tells the bundled loader where PoCL is

from tinygrad import Tensor, TinyJit, dtypes  # noqa: E402

from ..parameter_trees import leaves, map_tree, rebuild  # noqa: E402
from .base import Array, Framework, Function, Tree, with_functions  # noqa: E402


@with_functions(Tensor, "exp log tanh sqrt maximum reshape cumsum relu sigmoid softmax log_softmax argmin pad")
class Tinygrad(Framework):
    """A jitted function of tensors."""

    name = "tinygrad"
    packages = ("tinygrad",)

    transpose = staticmethod(Tensor.permute)

    def place(self, tree: Tree) -> Tree:
        # a scalar must have its own memory, too
        return map_tree(lambda a: Tensor(np.asarray(a)).clone().realize(), tree)

    def compile(self, function: Function, trains: bool) -> Function:
        def call(*arguments: Any) -> Tree:
            results = function(*arguments)
            flat = [leaf.contiguous() for leaf in leaves(results)]
            Tensor.realize(*flat)
            return rebuild(results, iter(flat))

        compiled: Function = TinyJit(call)
        return compiled

    def wait(self, results: Tree) -> None:
        from tinygrad import Device

        Device[Device.DEFAULT].synchronize()

    def numpy(self, tree: Tree) -> Tree:
        return map_tree(Tensor.numpy, tree)

    def value_and_grad(self, loss: Function, parameters: Tree, *arguments: Any) -> tuple[Array, Tree]:
        value = loss(parameters, *arguments)
        return value, rebuild(parameters, iter(value.gradient(*leaves(parameters))))

    def loop(self, count: int, body: Function, state: Tree) -> Tree:
        for _ in range(count):
            state = map_tree(Tensor.contiguous, body(state))
        return state

    def where(self, condition: Array, x: Array, y: Any) -> Array:
        return condition.where(x, y)

    def sum(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return x.sum(axis, keepdim=keepdims)

    def mean(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return x.mean(axis, keepdim=keepdims)

    def max(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        return x.max(axis, keepdim=keepdims)

    def concatenate(self, arrays: list[Array], axis: int) -> Array:
        return arrays[0].cat(*arrays[1:], dim=axis)

    def stack(self, arrays: list[Array], axis: int) -> Array:
        return arrays[0].stack(*arrays[1:], dim=axis)

    def split(self, x: Array, count: int, axis: int) -> list[Array]:
        return list(x.chunk(count, axis))

    def arange(self, count: int) -> Array:
        return Tensor.arange(count, dtype=dtypes.int32)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        return Tensor.zeros(*shape)

    def take(self, table: Array, rows: Array) -> Array:
        return table[rows]

    def scatter_add(self, x: Array, rows: Array, updates: Array) -> Array:
        return x.scatter_reduce(0, rows[:, None].expand(*updates.shape), updates, "sum")

    def sort(self, x: Array) -> Array:
        return x.sort()[0]

    def gelu(self, x: Array) -> Array:
        return x.gelu()

    def convolve(self, x: Array, filters: Array, stride: int, padding: int, groups: int = 1) -> Array:
        filters = filters.permute(3, 2, 0, 1)
        return x.permute(0, 3, 1, 2).conv2d(filters, None, groups, stride, 1, padding).permute(0, 2, 3, 1)

    def max_pool(self, x: Array, window: int, stride: int, padding: int = 0) -> Array:
        return x.permute(0, 3, 1, 2).max_pool2d((window, window), stride, 1, padding).permute(0, 2, 3, 1)
