"""Trains a convolutional network on handwritten digits, with Flax and Optax: a JAX program without a word of refxla.

pip install './[jax]' flax optax scikit-learn
JAX_PLATFORMS=refxla python examples/flax_digits/train.py
"""

import argparse
import time

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits


class Network(nn.Module):
    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Logits[batch, 10] of images[batch, 8, 8, 1]."""
        x = nn.relu(nn.Conv(16, (3, 3))(images))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(32, (3, 3))(x))
        x = x.reshape(len(x), -1)
        return nn.Dense(10)(nn.relu(nn.Dense(64)(x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=8)
    epochs = parser.parse_args().epochs

    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1536], order[1536:]

    network, optimizer = Network(), optax.adam(2e-3)
    parameters = network.init(jax.random.key(0), images[:1])
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters, state, images, labels):
        def loss(parameters):
            logits = network.apply(parameters, images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradient = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(parameters, updates), state, value

    @jax.jit
    def accuracy(parameters, images, labels):
        return jnp.mean(network.apply(parameters, images).argmax(-1) == labels)

    print(f"on {jax.devices()[0]}")
    shuffle = np.random.default_rng(1)
    for epoch in range(epochs):
        start, losses = time.perf_counter(), []
        for batch in shuffle.permutation(train).reshape(-1, 64):
            parameters, state, value = step(parameters, state, images[batch], labels[batch])
            losses.append(value)
        loss = np.mean(losses)  # which waits for them
        print(f"epoch {epoch + 1}: loss {loss:.4f}, {time.perf_counter() - start:.2f} s")
    right = accuracy(parameters, images[test], labels[test])
    print(f"accuracy {right:.3f} on {len(test)} images that it was not shown")


if __name__ == "__main__":
    main()
