"""Writes step.hlo and predict.hlo: a classifier's training step (softmax cross-entropy, SGD with momentum) and its
prediction. Needs jax.

python examples/mlp/make.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from inputs import PIXELS, inputs, momenta, parameters

RATE, MOMENTUM = 0.1, 0.9
TESTED = 297  # images that predict.hlo takes at once


def logits(parameters, images):
    w1, b1, w2, b2 = parameters
    return jax.nn.relu(images @ w1 + b1) @ w2 + b2


def loss(parameters, images, labels):
    chosen = jax.nn.one_hot(labels, 10)
    return -(chosen * jax.nn.log_softmax(logits(parameters, images))).sum(axis=1).mean()


def step(parameters, momenta, images, labels):
    """(parameters, momenta, images, labels) -> (parameters, momenta, loss), the lists flattened in order."""
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
    momenta = [MOMENTUM * m + g for m, g in zip(momenta, gradients, strict=True)]
    return [p - RATE * m for p, m in zip(parameters, momenta, strict=True)], momenta, value


def predict(parameters, images):
    return jnp.argmax(logits(parameters, images), axis=1).astype(jnp.int32)


def write(name, function, *arguments):
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("refxla",))
    path = Path(__file__).with_name(name)
    path.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    *_, images, labels = inputs()
    write("step.hlo", step, parameters(), momenta(), images, labels)
    write("predict.hlo", predict, parameters(), np.zeros((TESTED, PIXELS), np.float32))
