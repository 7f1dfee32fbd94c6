"""Small networks: layers, steps of training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..models.values import integers, normal
from .inputs import Arrays, image, matrix, uniform
from .registry import program

Weights = tuple[Array, Array]  # of two layers


def _layers(batch: int, width: int) -> Arrays:
    return [normal(batch, 64), integers(0, 10, batch), normal(64, width) * 0.1, normal(width, 10) * 0.1]


@program("nets", _layers, batch=(256, 4), width=(256, 8))
def perceptron_steps_with_adam(x: Array, labels: Array, first: Array, second: Array) -> Array:
    def loss(p: Weights) -> Array:
        scores = jax.nn.relu(x @ p[0]) @ p[1]
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()

    def iterate(state: tuple[Weights, Weights, Weights], k: Array) -> tuple[tuple[Weights, Weights, Weights], None]:
        p, m, v = state
        g = jax.grad(loss)(p)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        p = jax.tree.map(lambda p, m, v: p - 0.01 * m / (jnp.sqrt(v) + 1e-3), p, m, v)
        return (p, m, v), None

    start = (first, second)
    zeros = jax.tree.map(jnp.zeros_like, start)
    return loss(lax.scan(iterate, (start, zeros, zeros), jnp.arange(10))[0][0])


@program("nets", lambda length, width: [normal(length, 3 * width)], length=(512, 6), width=(64, 8))
def causal_attention(packed: Array) -> Array:
    q, k, v = jnp.split(packed, 3, 1)
    scores = q @ k.T / jnp.sqrt(1.0 * q.shape[1])
    mask = jnp.tril(jnp.ones(scores.shape, bool))
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v


@program("nets", matrix, rows=(4096, 5), columns=(768, 16), bound=2e-2)
def layer_norm_bf16(x: Array) -> Array:
    x = x.astype(jnp.bfloat16)
    mean = x.mean(-1, keepdims=True)
    variance = jnp.var(x, -1, keepdims=True)
    return ((x - mean) * lax.rsqrt(variance + 1e-5)).astype(jnp.float32)


def _dense(batch: int, width: int) -> Arrays:
    return [normal(batch, width), normal(width, 4 * width) * 0.05, normal(4 * width, width) * 0.05]


@program("nets", _dense, batch=(256, 16), width=(256, 64), bound=2e-2)
def dense_layers_bf16(x: Array, first: Array, second: Array) -> Array:
    x, first, second = (v.astype(jnp.bfloat16) for v in (x, first, second))
    return (x + jax.nn.gelu(x @ first) @ second).astype(jnp.float32)


@program("nets", lambda side: [image(side)[0][None], normal(3, 3, 3, 16), normal(3, 3, 16, 32) * 0.1], side=(64, 12))
def small_convolutions(x: Array, first: Array, second: Array) -> Array:
    names = ("NHWC", "HWIO", "NHWC")
    for filters in (first, second):
        x = jax.nn.relu(lax.conv_general_dilated(x, filters, (1, 1), "SAME", dimension_numbers=names))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.mean((1, 2))


@program(
    "nets",
    lambda length, width: [normal(length, 8, width), normal(2 * width, 3 * width) * 0.1],
    length=(100, 4),
    width=(64, 4),
)
def gated_recurrent_unit(x: Array, weights: Array) -> Array:
    width = x.shape[-1]

    def iterate(h: Array, x: Array) -> tuple[Array, Array]:
        r, z, _ = jnp.split(jax.nn.sigmoid(jnp.concatenate([x, h], -1) @ weights), 3, -1)
        n = jnp.tanh(jnp.concatenate([x, r * h], -1) @ weights[:, 2 * width :])
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(iterate, jnp.zeros(x.shape[1:]), x)[1]


@program("nets", lambda rows, bags: [normal(rows, 64), integers(0, rows, bags, 20)], rows=(50_000, 20), bags=(2000, 3))
def embedding_bags(table: Array, indices: Array) -> Array:
    return table[indices].mean(1)


@program("nets", lambda batch: [normal(batch, 1000), integers(0, 1000, batch)], batch=(1024, 3))
def cross_entropy_gradient(scores: Array, labels: Array) -> tuple[Array, Array]:
    def loss(s: Array) -> Array:
        return -jnp.take_along_axis(jax.nn.log_softmax(s), labels[:, None], 1).mean()

    results: tuple[Array, Array] = jax.value_and_grad(loss)(scores)
    return results


@program(
    "nets",
    lambda n: [integers(-127, 128, n, n).astype("int8"), integers(-127, 128, n, n, seed=1).astype("int8")],
    n=(512, 12),
)
def quantized_product(a: Array, b: Array) -> Array:
    total = lax.dot(a, b, preferred_element_type=jnp.int32)
    return jnp.clip(jnp.round(total * 1e-3), -127, 127).astype(jnp.int8)


def _decoder(length: int, width: int) -> Arrays:
    tables = [normal(1, width), normal(8, length, width // 8), normal(8, length, width // 8, seed=1)]
    return [*tables, normal(width, 3 * width) * 0.05, normal(width, width) * 0.05]


@program("nets", _decoder, length=(512, 8), width=(256, 16))
def decoding_steps(x: Array, keys: Array, values: Array, into: Array, out: Array) -> Array:
    """A layer's attention over a cache that grows by a row in each step."""
    heads, length, size = keys.shape

    def iterate(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, keys, values = state
        q, new_key, new_value = jnp.split((x @ into).reshape(3 * heads, size), 3)
        keys = lax.dynamic_update_slice(keys, new_key[:, None], (0, k, 0))
        values = lax.dynamic_update_slice(values, new_value[:, None], (0, k, 0))
        scores = jnp.einsum("hd,hld->hl", q, keys) / jnp.sqrt(1.0 * size)
        weights = jax.nn.softmax(jnp.where(jnp.arange(length) <= k, scores, -1e9))
        context = jnp.einsum("hl,hld->hd", weights, values).reshape(1, -1)
        return jnp.tanh(context @ out), keys, values

    return lax.fori_loop(0, 8, iterate, (x, keys, values))[0]


@program("nets", lambda batch: [uniform(batch, 16, 16, 32)], batch=(32, 2))
def batch_statistics(x: Array) -> Array:
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return jax.nn.gelu((x - mean) * lax.rsqrt(variance + 1e-5))


@program("nets", lambda tokens: [normal(tokens, 256), normal(4, 256, 256) * 0.05], tokens=(512, 8))
def expert_mixture(x: Array, experts: Array) -> Array:
    """Every expert sees every token; a softmax weighs what they say."""
    gates = jax.nn.softmax(x[:, : len(experts)])
    return jnp.einsum("te,etd->td", gates, jnp.einsum("td,edf->etf", x, experts))
