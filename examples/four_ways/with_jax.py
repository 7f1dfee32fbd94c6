"""An MLP, a CNN and a GPT written with JAX: python examples/four_ways/with_jax.py [MODEL ...]

A program of JAX alone, but for the one line that has refxla compile its step. (With JAX_PLATFORMS=refxla not even that
line is needed: `JAX_PLATFORMS=refxla python examples/four_ways/with_jax.py --plain`.)
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from problems import HEADS, LAYERS, MOMENTUM, NORM_EPSILON, Parameters, Problem, epochs, main

import refxla


def train(problem: Problem, count: int, compiled: bool) -> list[float]:
    """The mean loss of each of `count` epochs."""

    def loss_of(parameters: Parameters, inputs: jax.Array, labels: jax.Array) -> jax.Array:
        scores = jax.nn.log_softmax(MODELS[problem.name](parameters, inputs))
        return -jnp.take_along_axis(scores, labels[..., None], axis=-1).mean()

    @jax.jit
    def step(parameters: Parameters, momenta: Parameters, inputs: jax.Array, labels: jax.Array) -> Any:
        """The parameters and momenta after a step, and the loss before it."""
        loss, gradients = jax.value_and_grad(loss_of)(parameters, inputs, labels)
        momenta = jax.tree.map(lambda m, g: MOMENTUM * m + g, momenta, gradients)
        return jax.tree.map(lambda p, m: p - problem.rate * m, parameters, momenta), momenta, loss

    if compiled:
        step = refxla.compile(step)  # the line

    parameters = problem.parameters
    momenta = jax.tree.map(np.zeros_like, parameters)

    def train_on(inputs: np.ndarray, labels: np.ndarray) -> float:
        nonlocal parameters, momenta
        parameters, momenta, loss = step(parameters, momenta, inputs, labels)
        return float(loss)

    return epochs(problem, count, train_on)


def dense(p: Parameters, name: str, x: jax.Array) -> jax.Array:
    return x @ p[f"{name}.weights"] + p[f"{name}.bias"]


def mlp(p: Parameters, images: jax.Array) -> jax.Array:
    return dense(p, "output", jax.nn.relu(dense(p, "hidden", images.reshape(len(images), -1))))


def cnn(p: Parameters, images: jax.Array) -> jax.Array:
    x = images
    for name in ("first", "second"):
        x = lax.conv_general_dilated(
            x, p[f"{name}.weights"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + p[f"{name}.bias"])
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return dense(p, "output", x.reshape(len(x), -1))


def norm(p: Parameters, name: str, x: jax.Array) -> jax.Array:
    x = x - x.mean(axis=-1, keepdims=True)
    x = x * lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + NORM_EPSILON)
    return x * p[f"{name}.scale"] + p[f"{name}.bias"]


def attention(p: Parameters, layer: int, x: jax.Array) -> jax.Array:
    n, length, width = x.shape
    query, key, value = (
        dense(p, f"{layer}.{part}", x).reshape(n, length, HEADS, width // HEADS) for part in ("query", "key", "value")
    )
    return dense(p, f"{layer}.merge", jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(x.shape))


def gpt(p: Parameters, words: jax.Array) -> jax.Array:
    x = p["words"][words] + p["places"]
    for layer in range(LAYERS):
        x = x + attention(p, layer, norm(p, f"{layer}.before", x))
        x = x + dense(p, f"{layer}.narrow", jax.nn.gelu(dense(p, f"{layer}.widen", norm(p, f"{layer}.between", x))))
    return dense(p, "output", norm(p, "after", x))


MODELS = {"mlp": mlp, "cnn": cnn, "gpt": gpt}

if __name__ == "__main__":
    main(train, "JAX")
