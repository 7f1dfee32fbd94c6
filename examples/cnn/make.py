"""Writes step.hlo: a Keras-style convolutional network's training step on 64 x 64 images, with Adam. Needs jax.

python examples/cnn/make.py [--batch N] [--output FILE]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
from inputs import BATCH, CLASSES, inputs

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-7


def convolve(x, filters):
    return jax.lax.conv_general_dilated(x, filters, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def loss(parameters, images, labels):
    w1, b1, w2, b2, w3, b3, w4, b4 = parameters
    x = max_pool(jax.nn.relu(convolve(images, w1) + b1))
    x = max_pool(jax.nn.relu(convolve(x, w2) + b2))
    x = jax.nn.relu(x.reshape(x.shape[0], -1) @ w3 + b3)
    logits = x @ w4 + b4
    return -(jax.nn.one_hot(labels, CLASSES) * jax.nn.log_softmax(logits)).sum(axis=1).mean()


def step(parameters, means, squares, steps, images, labels):
    """(parameters, means, squares, steps, images, labels) -> (parameters, means, squares, steps, loss), flattened."""
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
    steps = steps + 1
    count = steps.astype(jnp.float32)
    rate = RATE * jnp.sqrt(1 - BETA2**count) / (1 - BETA1**count)
    means = [m + (1 - BETA1) * (g - m) for m, g in zip(means, gradients, strict=True)]
    squares = [s + (1 - BETA2) * (g * g - s) for s, g in zip(squares, gradients, strict=True)]
    parameters = [p - rate * m / (jnp.sqrt(s) + EPSILON) for p, m, s in zip(parameters, means, squares, strict=True)]
    return parameters, means, squares, steps, value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("step.hlo"))
    options = parser.parse_args()
    flat = inputs(batch=options.batch)
    arguments = [flat[0:8], flat[8:16], flat[16:24], *flat[24:]]
    lowered = jax.jit(step).trace(*arguments).lower(lowering_platforms=("refxla",))
    options.output.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{options.output}: {options.output.stat().st_size} bytes")
