"""What the four programs of this folder share: data, first weights and settings, as arrays of NumPy.

There are three problems, each a pair of a model and its data: `mlp` and `cnn` tell ten noisy patterns apart, and `gpt`
continues sequences. All programs start from the same weights and see the same batches, so that their losses agree.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

BATCH = 32
BATCHES = 16  # of an epoch
MOMENTUM = 0.9
RATES = {"mlp": 0.05, "cnn": 0.02, "gpt": 0.05}

SIZE, CLASSES = 8, 10  # images are [SIZE, SIZE, 1]
HIDDEN = 64
CHANNELS = (8, 16)
WORDS, LENGTH, WIDTH, HEADS, LAYERS = 16, 12, 32, 2, 2
NORM_EPSILON = 1e-5

Parameters = dict[str, np.ndarray]


class Problem(NamedTuple):
    """`inputs` and `labels` are those of an epoch, one batch behind the other: images f32[n, SIZE, SIZE, 1] and classes
    s32[n], or words s32[n, LENGTH] and the words that follow s32[n, LENGTH]. `rate` is the learning rate."""

    name: str
    parameters: Parameters
    inputs: np.ndarray
    labels: np.ndarray
    rate: float


def problem(name: str) -> Problem:
    """The problem of this name; the same one at every call."""
    rng = np.random.default_rng(7)
    parameters = {"mlp": _mlp, "cnn": _cnn, "gpt": _gpt}[name](rng)
    inputs, labels = (_sequences if name == "gpt" else _patterns)(rng, BATCH * BATCHES)
    return Problem(name, parameters, inputs, labels, RATES[name])


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    fan_in = int(np.prod(shape[:-1]))
    return rng.normal(0, fan_in**-0.5, shape).astype(np.float32)


def _zeros(size: int) -> np.ndarray:
    return np.zeros(size, np.float32)


def _mlp(rng: np.random.Generator) -> Parameters:
    return {
        "hidden.weights": _weights(rng, SIZE * SIZE, HIDDEN),
        "hidden.bias": _zeros(HIDDEN),
        "output.weights": _weights(rng, HIDDEN, CLASSES),
        "output.bias": _zeros(CLASSES),
    }


def _cnn(rng: np.random.Generator) -> Parameters:
    """Filters are [height, width, channels in, channels out]."""
    first, second = CHANNELS
    return {
        "first.weights": _weights(rng, 3, 3, 1, first),
        "first.bias": _zeros(first),
        "second.weights": _weights(rng, 3, 3, first, second),
        "second.bias": _zeros(second),
        "output.weights": _weights(rng, (SIZE // 4) ** 2 * second, CLASSES),
        "output.bias": _zeros(CLASSES),
    }


def _gpt(rng: np.random.Generator) -> Parameters:
    parameters = {"words": 0.1 * _weights(rng, WORDS, WIDTH), "places": 0.1 * _weights(rng, LENGTH, WIDTH)}
    for layer in range(LAYERS):
        for part in ("query", "key", "value", "merge"):
            parameters |= {
                f"{layer}.{part}.weights": _weights(rng, WIDTH, WIDTH),
                f"{layer}.{part}.bias": _zeros(WIDTH),
            }
        for part, rows, columns in (("widen", WIDTH, 4 * WIDTH), ("narrow", 4 * WIDTH, WIDTH)):
            parameters |= {
                f"{layer}.{part}.weights": _weights(rng, rows, columns),
                f"{layer}.{part}.bias": _zeros(columns),
            }
    for norm in (*(f"{layer}.{part}" for layer in range(LAYERS) for part in ("before", "between")), "after"):
        parameters |= {f"{norm}.scale": np.ones(WIDTH, np.float32), f"{norm}.bias": _zeros(WIDTH)}
    return parameters | {"output.weights": _weights(rng, WIDTH, WORDS), "output.bias": _zeros(WORDS)}


def _patterns(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of ten patterns with noise, and which pattern each is."""
    patterns = rng.normal(size=(CLASSES, SIZE, SIZE, 1))
    labels = rng.integers(0, CLASSES, count)
    return (patterns[labels] + rng.normal(0, 1, (count, SIZE, SIZE, 1))).astype(np.float32), labels.astype(np.int32)


def _sequences(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences in which each word is a fixed step behind the one before, the step another one in each sequence."""
    starts, steps = rng.integers(0, WORDS, (count, 1)), rng.integers(1, 5, (count, 1))
    words = ((starts + steps * np.arange(LENGTH + 1)) % WORDS).astype(np.int32)
    return words[:, :-1], words[:, 1:]


def epochs(problem: Problem, count: int, step: Callable[[np.ndarray, np.ndarray], float]) -> list[float]:
    """Call `step`, which trains on a batch and gives its loss, on each batch `count` times; the mean loss of each
    epoch."""
    losses = []
    for _ in range(count):
        batches = zip(np.split(problem.inputs, BATCHES), np.split(problem.labels, BATCHES), strict=True)
        losses.append(float(np.mean([step(*batch) for batch in batches])))
    return losses


def main(train: Callable[[Problem, int, bool], list[float]], framework: str) -> None:
    """The command of each program: `train(problem, epochs, compiled)` gives the mean loss of each epoch."""
    parser = argparse.ArgumentParser(description=f"Trains an MLP, a CNN and a GPT, written for {framework}.")
    parser.add_argument("models", nargs="*", default=list(RATES), metavar="MODEL", help=f"of {', '.join(RATES)} (all)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--plain", action="store_true", help=f"by {framework} alone, without the line for refxla")
    options = parser.parse_args()
    for name in options.models:
        if name not in RATES:
            parser.error(f"there is no model {name}; there are {', '.join(RATES)}")
        for epoch, loss in enumerate(train(problem(name), options.epochs, not options.plain)):
            print(f"{name}, epoch {epoch + 1}: loss {loss:.5f}", flush=True)
