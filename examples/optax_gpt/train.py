"""Trains a small GPT to sort digits, with JAX and Optax: a JAX program without a word of refxla.

pip install './[jax]' optax
JAX_PLATFORMS=refxla python examples/optax_gpt/train.py
"""

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

DIGITS = 8  # of each sequence, which is followed by the same digits in order
WIDTH, HEADS, LAYERS = 64, 4, 2
BATCH, STEPS = 64, 100  # of an epoch
Parameters = Any


def sequences(random: np.random.Generator, count: int) -> np.ndarray:
    digits = random.integers(0, 10, (count, DIGITS), np.int32)
    return np.concatenate([digits, np.sort(digits)], axis=1)


def initial(key: jax.Array) -> Parameters:
    keys = iter(jax.random.split(key, 3 + 4 * LAYERS))

    def matrix(*shape: int) -> jax.Array:
        return 0.02 * jax.random.normal(next(keys), shape)

    layers = [
        {
            "attention": matrix(WIDTH, 3 * WIDTH), "merge": matrix(WIDTH, WIDTH), "before": jnp.ones(WIDTH),
            "widen": matrix(WIDTH, 4 * WIDTH), "narrow": matrix(4 * WIDTH, WIDTH), "between": jnp.ones(WIDTH),
        }
        for _ in range(LAYERS)
    ]  # fmt: skip
    return {
        "words": matrix(10, WIDTH), "places": matrix(2 * DIGITS - 1, WIDTH), "output": matrix(WIDTH, 10),
        "after": jnp.ones(WIDTH), "layers": layers,
    }  # fmt: skip


def norm(scale: jax.Array, x: jax.Array) -> jax.Array:
    return scale * x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def attention(layer: Parameters, x: jax.Array) -> jax.Array:
    split = (*x.shape[:2], HEADS, WIDTH // HEADS)
    query, key, value = (part.reshape(split) for part in jnp.split(x @ layer["attention"], 3, axis=-1))
    return jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(x.shape) @ layer["merge"]


def logits(parameters: Parameters, words: jax.Array) -> jax.Array:
    """f32[batch, length, 10] of the next word at each place, of words s32[batch, length]."""
    x = parameters["words"][words] + parameters["places"][: words.shape[1]]
    for layer in parameters["layers"]:
        x = x + attention(layer, norm(layer["before"], x))
        x = x + jax.nn.gelu(norm(layer["between"], x) @ layer["widen"]) @ layer["narrow"]
    return norm(parameters["after"], x) @ parameters["output"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=6)
    epochs = parser.parse_args().epochs

    schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 50, epochs * STEPS)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.01))
    parameters = initial(jax.random.key(0))
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters, state, words):
        def loss(parameters):
            last = logits(parameters, words[:, :-1])[:, DIGITS - 1 :]  # what precedes cannot be foretold
            return optax.softmax_cross_entropy_with_integer_labels(last, words[:, DIGITS:]).mean()

        value, gradient = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    @jax.jit
    def sort(parameters, digits):
        """Word by word, each the likeliest after those before it."""

        def next_word(n, words):
            likeliest = logits(parameters, words[:, :-1])[:, DIGITS - 1 + n].argmax(-1)
            return words.at[:, DIGITS + n].set(likeliest.astype(words.dtype))

        return jax.lax.fori_loop(0, DIGITS, next_word, jnp.pad(digits, ((0, 0), (0, DIGITS))))[:, DIGITS:]

    print(f"on {jax.devices()[0]}")
    random = np.random.default_rng(1)
    for epoch in range(epochs):
        start, losses = time.perf_counter(), []
        for _ in range(STEPS):
            parameters, state, value = step(parameters, state, sequences(random, BATCH))
            losses.append(value)
        loss = np.mean(losses)  # which waits for them
        print(f"epoch {epoch + 1}: loss {loss:.4f}, {time.perf_counter() - start:.2f} s")
    test = sequences(random, 500)
    right = jnp.mean((sort(parameters, test[:, :DIGITS]) == test[:, DIGITS:]).all(axis=1))
    print(f"accuracy {right:.3f} on {len(test)} sequences that it was not shown")


if __name__ == "__main__":
    main()
