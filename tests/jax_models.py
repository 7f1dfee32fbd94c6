"""Functions as people write them in JAX, with pytrees and random keys, and arguments for each.

Smaller ones, without pytrees, are in programs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from programs import integers, normal

MODELS: dict[str, tuple[Callable, tuple]] = {}
KEY = jax.random.key(7)


def model(*arguments: Any) -> Callable:
    """Enters a function into MODELS under its own name, with its arguments."""

    def enter(function: Callable) -> Callable:
        MODELS[function.__name__] = function, arguments
        return function

    return enter


MLP = {"hidden": {"w": normal(8, 16), "b": normal(16)}, "out": {"w": normal(16, 3), "b": normal(3)}}
BATCH = normal(10, 8), integers(0, 3, 10)


def mlp(p, x):
    return jnp.tanh(x @ p["hidden"]["w"] + p["hidden"]["b"]) @ p["out"]["w"] + p["out"]["b"]


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def mlp_loss(p, x, labels):
    return cross_entropy(mlp(p, x), labels)


@model(MLP, *BATCH)
def mlp_and_sgd(p, x, labels):
    loss, gradients = jax.value_and_grad(mlp_loss)(p, x, labels)
    return loss, jax.tree.map(lambda a, g: a - 0.1 * g, p, gradients)


ZEROS = jax.tree.map(np.zeros_like, MLP)


@model({"p": MLP, "m": ZEROS, "v": ZEROS, "t": np.int32(0)}, *BATCH)
def adam(state, x, labels):
    t = state["t"] + 1
    g = jax.grad(mlp_loss)(state["p"], x, labels)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["v"], g)

    def update(p, m, v):
        return p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)

    return {"p": jax.tree.map(update, state["p"], m, v), "m": m, "v": v, "t": t}


@model(MLP, *BATCH)
def gradient_of_each_example(p, x, labels):
    return jax.vmap(jax.grad(lambda p, x, y: mlp_loss(p, x[None], y[None])), (None, 0, 0))(p, x, labels)


@model(
    {"w": normal(3, 3, 3, 4), "s": normal(4), "o": normal(4), "d": normal(64, 5)}, normal(2, 8, 8, 3), integers(0, 5, 2)
)
def convolution_and_batch_norm(p, x, labels):
    def loss(p):
        h = lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = (h - h.mean((0, 1, 2))) * lax.rsqrt(h.var((0, 1, 2)) + 1e-5) * p["s"] + p["o"]
        h = lax.reduce_window(jax.nn.relu(h), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return cross_entropy(h.reshape(2, -1) @ p["d"], labels)

    return jax.value_and_grad(loss)(p)


@model({"w": normal(5, 16) / 2, "u": normal(4, 16) / 2, "b": normal(16)}, normal(6, 2, 5))
def lstm_gradient(p, inputs):
    def loss(p):
        def cell(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x @ p["w"] + h @ p["u"] + p["b"], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((2, 4))
        return (lax.scan(cell, (zeros, zeros), inputs)[1] ** 2).sum()

    return jax.value_and_grad(loss)(p)


@model(
    normal(2, 6, 8),
    {"qkv": normal(8, 24) / 3, "o": normal(8, 8) / 3, "in": normal(8, 16) / 3, "out": normal(16, 8) / 3},
)
def transformer_block(x, p):
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    q, k, v = (t.reshape(2, 6, 2, 4) for t in jnp.split(norm(x) @ p["qkv"], 3, -1))
    scores = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2, -jnp.inf)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(2, 6, 8) @ p["o"]
    return x + jax.nn.gelu(norm(x) @ p["in"]) @ p["out"]


@model({"e": normal(6, 4), "d": normal(2, 6)}, normal(3, 6), KEY)
def variational_autoencoder(p, x, key):
    def loss(p):
        mean, scale = jnp.split(x @ p["e"], 2, -1)
        z = mean + jnp.exp(scale) * jax.random.normal(key, mean.shape)
        return ((z @ p["d"] - x) ** 2).sum() - (1 + 2 * scale - mean**2 - jnp.exp(2 * scale)).sum() / 2

    return jax.value_and_grad(loss)(p)


@model(normal(8, 4), normal(4, 3), normal(3, 4, 5))
def mixture_of_experts(x, gate, w):
    weight, chosen = lax.top_k(jax.nn.softmax(x @ gate), 2)
    return jnp.einsum("nk,nkd->nd", weight, jnp.einsum("nf,nkfd->nkd", x, w[chosen]))


@model(normal(4))
def second_derivatives(x):
    return jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x[::-1] ** 2))(x), jax.jacfwd(jnp.cumprod)(x)


@model(normal(6))
def custom_derivatives(x):
    @jax.custom_vjp
    def sine(x):
        return jnp.sin(x)

    @jax.custom_jvp
    def square(x):
        return x**2

    sine.defvjp(lambda x: (sine(x), x), lambda x, g: (g * 2 * x,))
    square.defjvp(lambda values, tangents: (square(values[0]), tangents[0] * 3))
    return jax.grad(lambda x: jax.checkpoint(sine)(x).sum())(x), jax.jvp(square, (x,), (x,))


@model(KEY)
def random_numbers(key):
    one, two, three = jax.random.split(key, 3)
    return {
        "normal": jax.random.normal(one, (4, 3)),
        "randint": jax.random.randint(two, (6,), 0, 100),
        "gumbel": jax.random.gumbel(three, (3,)),
        "key": jax.random.fold_in(one, 3),
        "keys": [two, three],
    }


@model(normal(3, 17))
def orders(x):
    return jnp.sort(x), jnp.argsort(x, descending=True), lax.top_k(x, 5), jnp.median(x, 1), jnp.unique(x > 0, size=2)


@model(normal(4, 9) / 2)
def cumulations(x):
    return jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, axis=1), lax.cummin(x), lax.cumlogsumexp(x, axis=1)


@model(normal(12, 3), integers(0, 5, 12))
def segments(x, i):
    return jax.ops.segment_sum(x, i, 5), jax.ops.segment_max(x, i, 5), jnp.zeros((5, 3)).at[i].add(x)


@model(normal(5, 2), normal(3, 2))
def k_means(x, centres):
    def step(centres, _):
        nearest = jnp.argmin(((x[:, None] - centres) ** 2).sum(-1), 1)
        total, count = jax.ops.segment_sum(x, nearest, 3), jax.ops.segment_sum(jnp.ones(5), nearest, 3)
        return jnp.where(count[:, None] > 0, total / jnp.maximum(count, 1)[:, None], centres), nearest

    return lax.scan(step, centres, None, length=4)


@model(normal(3), np.float32(0.1))
def runge_kutta(y, h):
    def change(y):
        return jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

    def step(_, y):
        a = change(y)
        b = change(y + h / 20 * a)
        c = change(y + h / 20 * b)
        d = change(y + h / 10 * c)
        return y + h / 60 * (a + 2 * b + 2 * c + d)

    return lax.fori_loop(0, 5, step, y)


@model(normal(16), normal(16))
def state_space(a, b):
    return lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (jax.nn.sigmoid(a), b))


@model(normal(5, 5))
def life(x):
    def step(cells, _):
        around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        n = sum(jnp.roll(cells, shift, (0, 1)) for shift in around)
        return ((n == 3) | (cells & (n == 2))).astype(jnp.int32), None

    return lax.scan(step, (x > 0).astype(jnp.int32), None, length=5)[0]


@model(normal(3, 8, 8, 2))
def images(x):
    return jax.image.resize(x, (3, 16, 12, 2), "bilinear"), jnp.rot90(x[0]), jnp.pad(x[0, :, :, 0], 2, mode="reflect")


@model(normal(20), abs(normal(20)) + np.float32(0.1))
def special_functions(x, p):
    s = jax.scipy.special
    return s.gammaln(p), s.digamma(p), s.erfinv(x / 9), s.i0e(x), s.log_ndtr(x), s.zeta(p + 1, p), s.gammainc(p, p)


@model(normal(3, 4).astype(jnp.bfloat16), normal(4, 5).astype(jnp.bfloat16))
def bfloat16_gradient(x, w):
    return jax.value_and_grad(lambda w: jax.nn.silu(x @ w).astype(jnp.float32).sum())(w)


@model(integers(-100, 100, 30, dtype=np.int8), integers(0, 2**31, 30, dtype=np.uint32))
def narrow_integers(a, b):
    return a + a, a // jnp.int8(7), jnp.gcd(a, jnp.int8(12)), b * b, b % jnp.uint32(17), b << 40, jnp.packbits(a > 0)
