"""Programs that nobody here wrote in HLO: small JAX functions, lowered to HLO text on the fly.

    for program in PROGRAMS:
        text, inputs = program.hlo(), program.inputs()

Each stands for a family met in real models. They lower for a platform that does not exist, which keeps the HLO neutral:
no backend's custom calls. A test module that needs them begins with `pytest.importorskip("programs")`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def lower(function: Callable, *args: Any) -> str:
    """The HLO text that JAX lowers `function` to, for arguments of these shapes and types, constants in full."""
    lowered = jax.jit(function, keep_unused=True).trace(*args).lower(lowering_platforms=("refxla",))
    return lowered.compiler_ir("hlo").as_hlo_text(True)


@dataclass(frozen=True)
class Program:
    """A function and the arguments it is lowered and run for."""

    name: str
    function: Callable
    arguments: tuple[np.ndarray, ...]

    def hlo(self) -> str:
        """The program as HLO text."""
        return lower(self.function, *self.arguments)

    def optimized_hlo(self) -> str:
        """What XLA:CPU made of the program: fused, laid out and scheduled."""
        return jax.jit(self.function, keep_unused=True).lower(*self.arguments).compile().as_text()

    def inputs(self) -> list[np.ndarray]:
        """The arguments, in the order of the entry computation's parameters."""
        return list(self.arguments)

    def __str__(self) -> str:
        return self.name


PROGRAMS: list[Program] = []


def program(*arguments: Any) -> Callable:
    """Enters a function into PROGRAMS under its own name, with its arguments."""

    def enter(function: Callable) -> Callable:
        PROGRAMS.append(Program(function.__name__, function, tuple(np.asarray(a) for a in arguments)))
        return function

    return enter


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Standard normal numbers, the same at every call."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def integers(low: int, high: int, *shape: int, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    """Integers of [low, high), the same at every call."""
    return np.random.default_rng((seed, *shape)).integers(low, high, shape).astype(dtype)


# Models.


@program(normal(2, 5, 4, 8), normal(2, 5, 4, 8, seed=1), normal(2, 5, 4, 8, seed=2))
def attention(q, k, v):
    """Causal attention over (batch, time, heads, features)."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(8).astype(np.float32)
    scores = jnp.where(jnp.tril(jnp.ones((5, 5), bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


@program(normal(4, 6, 6, 3), normal(3), normal(3, seed=1))
def batch_norm_gradient(x, scale, offset):
    def loss(x, scale, offset):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        y = (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset
        return jnp.sum(jnp.tanh(y) * y)

    return jax.value_and_grad(loss, argnums=(0, 1, 2))(x, scale, offset)


@program(normal(6, 16), normal(16), normal(16, seed=1))
def layer_norm_gradient(x, scale, offset):
    def loss(x, scale, offset):
        centred = x - x.mean(-1, keepdims=True)
        y = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * scale + offset
        return (jax.nn.gelu(y) ** 2).sum()

    return jax.grad(loss, argnums=(0, 1, 2))(x, scale, offset)


@program(normal(7, 5), integers(0, 5, 7))
def cross_entropy_gradient(logits, labels):
    def loss(logits):
        picked = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return (jax.nn.logsumexp(logits, axis=-1) - picked).mean()

    return jax.value_and_grad(loss)(logits)


@program(normal(11, 4), integers(0, 11, 3, 5), normal(3, 5, 4, seed=1))
def embedding_gradient(table, tokens, cotangent):
    """The gradient of a look-up: rows that repeat are added."""
    return jax.vjp(lambda t: t[tokens], table)[1](cotangent)[0]


@program(normal(5, 2), normal(2, 12, seed=1), normal(3, 12, seed=2))
def lstm(inputs, weights, recurrent):
    def cell(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ weights + h @ recurrent, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros(3, jnp.float32)
    return lax.scan(cell, (zeros, zeros), inputs)


@program(normal(4, 3), normal(4, 3, seed=1), normal(4, 3, seed=2), np.float32(3))
def adam(parameter, gradient, moment, step):
    mean = 0.9 * moment + 0.1 * gradient
    square = 0.999 * jnp.abs(moment) + 0.001 * gradient**2
    corrected = mean / (1 - 0.9**step) / (jnp.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return parameter - 1e-3 * corrected, mean, square


# Convolutions and windows.


def _conv_gradients(x, w, **options):
    def loss(x, w):
        numbers = ("NHWC", "HWIO", "NHWC")
        return (lax.conv_general_dilated(x, w, dimension_numbers=numbers, **options) ** 2).sum()

    return jax.value_and_grad(loss, argnums=(0, 1))(x, w)


@program(normal(2, 8, 7, 3), normal(3, 2, 3, 4))
def dilated_conv_gradients(x, w):
    return _conv_gradients(x, w, window_strides=(2, 1), padding=((1, 2), (0, 1)), rhs_dilation=(2, 1))


@program(normal(2, 6, 6, 4), normal(3, 3, 2, 6))
def grouped_conv_gradients(x, w):
    return _conv_gradients(x, w, window_strides=(1, 1), padding="SAME", feature_group_count=2)


@program(normal(1, 6, 6, 3), normal(3, 3, 1, 6))
def depthwise_conv_gradients(x, w):
    return _conv_gradients(x, w, window_strides=(2, 2), padding="VALID", feature_group_count=3)


@program(normal(2, 4, 5, 2), normal(3, 3, 2, 3))
def transposed_conv(x, w):
    return lax.conv_transpose(x, w, strides=(2, 2), padding="SAME")


@program(normal(2, 9, 3), normal(4, 3, 5))
def conv_1d(x, w):
    return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


@program(normal(1, 4, 5, 4, 2), normal(2, 2, 2, 2, 3))
def conv_3d(x, w):
    return lax.conv_general_dilated(x, w, (1, 2, 1), "VALID", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))


@program(normal(2, 6, 6, 3))
def max_pool_gradient(x):
    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    return jax.value_and_grad(lambda x: (pool(x) ** 3).sum())(x)


@program(normal(2, 6, 5, 3))
def average_pool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 0), (0, 1), (0, 0))) / 4


# Sorting, searching, cumulating.


@program(normal(3, 20))
def top_k(x):
    return lax.top_k(x, 4)


@program(normal(4, 33))
def cumulative_sum(x):
    return jnp.cumsum(x, axis=1), lax.cummax(x, axis=1, reverse=True)


@program(integers(0, 4, 3, 17), normal(3, 17), integers(0, 99, 3, 17, seed=1))
def sort_several(keys, values, others):
    return lax.sort((keys, values, others), dimension=1, num_keys=2)


@program(normal(5, 9))
def argmax_and_argmin(x):
    return jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argsort(x[0])


@program(np.sort(normal(16)), normal(7, seed=1))
def search_sorted(a, v):
    return jnp.searchsorted(a, v)


@program(integers(0, 8, 40))
def histogram(x):
    return jnp.bincount(x, length=8)


# Random numbers.


@program(np.array([0, 42], np.uint32))
def random_normal(key):
    return jax.random.normal(key, (3, 5))


@program(np.array([7, 42], np.uint32))
def random_permutation_and_dropout(key):
    first, second = jax.random.split(key)
    return jax.random.permutation(first, 9), jax.random.bernoulli(second, 0.3, (4, 6))


@program(np.array([1, 2], np.uint32))
def random_categorical(key):
    return jax.random.categorical(key, jnp.log(jnp.array([0.1, 0.2, 0.7], jnp.float32)), shape=(11,))


# Indexing.


@program(normal(6, 5, 4), integers(-6, 6, 3), integers(0, 4, 3, seed=1))
def fancy_indexing(x, i, j):
    return x[i, :, j], x[1:5:2, ::-1, None], x.at[i, 0].set(1.5)


@program(normal(8, 6), np.int32(3), normal(2, 2, seed=1))
def dynamic_slices(x, i, y):
    return lax.dynamic_slice(x, (i, i + 1), (3, 4)), lax.dynamic_update_slice(x, y, (i * 3, 0))


@program(normal(5, 3), integers(0, 5, 8), normal(8, 3, seed=1))
def scatter_kinds(x, i, y):
    return x.at[i].max(y), x.at[i].multiply(y), jax.ops.segment_sum(y, i, 6)


@program(integers(0, 6, 4), normal(3, 4))
def one_hot_and_clip(labels, x):
    return jax.nn.one_hot(labels, 6), jnp.clip(x, -0.5, 0.5), jnp.pad(x, ((1, 0), (2, 3)), constant_values=7)


@program(normal(4, 6), normal(4, 6, seed=1))
def data_movement(x, y):
    z = jnp.concatenate([x, y[::-1], jnp.roll(x, 2, 1)], 0)
    return z.T.reshape(8, 9), jnp.tile(x, (1, 2)), jnp.repeat(y, 3, axis=0), jnp.stack([x, y], 1)[:, 1]


# Linear algebra.


@program(normal(3, 4, 5), normal(3, 6, 5, seed=1), normal(5, 3, seed=2))
def einsum(x, y, z):
    return jnp.einsum("bij,bkj->bik", x, y), jnp.einsum("bij,jb->i", x, z), jnp.einsum("bij,bij->bj", x, x)


@program(normal(6, 6), normal(6))
def conjugate_gradient(a, b):
    matrix = a @ a.T + 6 * jnp.eye(6, dtype=a.dtype)

    def step(_, state):
        x, r, p = state
        q = matrix @ p
        alpha = (r @ r) / (p @ q)
        s = r - alpha * q
        return x + alpha * p, s, s + (s @ s) / (r @ r) * p

    return lax.fori_loop(0, 4, step, (jnp.zeros_like(b), b, b))[0]


@program(normal(5, 5))
def power_iteration(a):
    """A while loop whose length depends on its data."""
    matrix = a @ a.T

    def going_on(state):
        _, change, n = state
        return (change > 1e-2) & (n < 50)

    def step(state):
        v, _, n = state
        w = matrix @ v
        w = w / jnp.sqrt((w * w).sum())
        return w, jnp.abs(w - v).max(), n + 1

    return lax.while_loop(going_on, step, (jnp.ones(5, jnp.float32) / 5, jnp.float32(1), jnp.int32(0)))


# Control flow, types.


@program(normal(7), np.int32(2))
def branches(x, i):
    smaller = lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x)
    return smaller, lax.switch(i, [jnp.sin, jnp.cos, jnp.abs], x)


@program(integers(-50, 50, 13), integers(1, 9, 13, seed=1), integers(0, 256, 13, seed=2, dtype=np.uint8))
def integer_arithmetic(a, b, c):
    bits = (a << 3) ^ (a >> 1) | lax.shift_right_logical(a, b) & ~b
    return a // b, a % b, lax.div(a, b), lax.rem(a, b), bits, lax.population_count(c), lax.clz(b), c * c + c


@program(normal(9, dtype=np.float16), normal(9, seed=1, dtype=np.float16))
def half_precision(x, y):
    z = x * y + x
    return z, jax.nn.softmax(z), (x @ y).astype(jnp.float32), z.astype(jnp.bfloat16), jnp.tanh(x.astype(jnp.bfloat16))


@program(normal(4, 6, dtype=np.float32).astype(jnp.bfloat16), normal(6, 5, seed=1).astype(jnp.bfloat16))
def bfloat16_dense(x, w):
    return jax.nn.relu(jnp.dot(x, w, preferred_element_type=jnp.float32)).astype(jnp.bfloat16), x.sum(0)


@program(np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-3, 88.0, 0.5], np.float32))
def elementary_functions(x):
    functions = [jnp.exp, jnp.log, jnp.log1p, jnp.expm1, jnp.tanh, jnp.sin, jnp.cos, jnp.sqrt, lax.rsqrt, jnp.cbrt]
    functions += [lax.logistic, jnp.floor, jnp.ceil, jnp.round, jnp.sign, lax.erf, jnp.isfinite, jnp.arctan]
    return [f(x) for f in functions]


@program(normal(8), normal(8, seed=1))
def complex_numbers(a, b):
    z = lax.complex(a, b)
    return z * z.conj(), jnp.exp(z), jnp.abs(z), z / (1 + z), (z @ z).real
