"""TensorFlow: tf.function, whose graph runs on oneDNN, and the same compiled by XLA (jit_compile=True)."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf

from ..parameter_trees import leaves, map_tree, rebuild
from .base import Array, Framework, Function, Tree, with_functions


@with_functions(tf, "exp tanh sqrt where reshape transpose stack split pad zeros sort cumsum maximum argmin sigmoid")
@with_functions(tf.math, "log")
@with_functions(tf.nn, "relu softmax log_softmax")
class TensorFlow(Framework):
    """A graph."""

    name = "tensorflow"
    packages = ("tensorflow-cpu", "tensorflow")
    compiled = False

    concatenate = staticmethod(tf.concat)

    def __init__(self) -> None:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        tf.config.threading.set_intra_op_parallelism_threads(count)
        tf.config.threading.set_inter_op_parallelism_threads(count)

    def place(self, tree: Tree) -> Tree:
        return map_tree(tf.constant, tree)

    def compile(self, function: Function, trains: bool) -> Function:
        compiled: Function = tf.function(function, jit_compile=self.compiled, autograph=False)
        return compiled

    def numpy(self, tree: Tree) -> Tree:
        return map_tree(lambda x: x.numpy(), tree)

    def wait(self, results: Tree) -> None:
        for leaf in leaves(results):
            leaf.numpy()  # for a tensor in the host's memory, a view

    def value_and_grad(self, loss: Function, parameters: Tree, *arguments: Any) -> tuple[Array, Tree]:
        with tf.GradientTape() as tape:
            tape.watch(list(leaves(parameters)))
            value = loss(parameters, *arguments)
        gradients = tape.gradient(value, list(leaves(parameters)))
        return value, rebuild(parameters, iter([tf.convert_to_tensor(g) for g in gradients]))

    def loop(self, count: int, body: Function, state: Tree) -> Tree:
        def step(n: Array, state: Tree) -> tuple[Array, Tree]:
            return n + 1, body(state)

        return tf.while_loop(lambda n, _: n < count, step, (tf.constant(0), state))[1]

    def sum(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return tf.reduce_sum(x, axis, keepdims)

    def mean(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return tf.reduce_mean(x, axis, keepdims)

    def max(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        return tf.reduce_max(x, axis, keepdims)

    def arange(self, count: int) -> Array:
        return tf.range(count)

    def take(self, table: Array, rows: Array) -> Array:
        return tf.gather(table, rows)

    def scatter_add(self, x: Array, rows: Array, updates: Array) -> Array:
        return tf.tensor_scatter_nd_add(x, rows[:, None], updates)

    def convolve(self, x: Array, filters: Array, stride: int, padding: int, groups: int = 1) -> Array:
        sides = [[0, 0], [padding, padding], [padding, padding], [0, 0]]
        if groups > 1:
            depth = tf.transpose(filters, (0, 1, 3, 2))  # one filter for each feature
            return tf.nn.depthwise_conv2d(x, depth, (1, stride, stride, 1), sides)
        return tf.nn.conv2d(x, filters, stride, sides)

    def max_pool(self, x: Array, window: int, stride: int, padding: int = 0) -> Array:
        if padding:
            sides = [[0, 0], [padding, padding], [padding, padding], [0, 0]]
            x = tf.pad(x, sides, constant_values=float("-inf"))
        return tf.nn.max_pool2d(x, window, stride, "VALID")

    def gelu(self, x: Array) -> Array:
        return tf.nn.gelu(x, approximate=True)

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def batch_norm(self, x: Array, scale: Array, offset: Array) -> Array:
        return tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=1e-5)[0]

    def scale_and_shift(self, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
        return tf.compat.v1.nn.fused_batch_norm(x, scale, offset, mean, variance, 1e-5, is_training=False)[0]

    def double(self, x: Array) -> Array:
        return tf.repeat(tf.repeat(x, 2, 1), 2, 2)


class TensorFlowXla(TensorFlow):
    """Compiled by XLA."""

    name = "tensorflow-xla"
    compiled = True
