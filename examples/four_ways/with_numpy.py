"""An MLP, a CNN and a GPT written with NumPy, gradients by hand: python examples/four_ways/with_numpy.py [MODEL ...]

A program of NumPy alone, but for the one line that has refxla compile its step.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from problems import HEADS, LAYERS, MOMENTUM, NORM_EPSILON, WIDTH, WORDS, Parameters, Problem, epochs, main

import refxla

Array = Any  # np.ndarray, or what stands for one while the step is compiled
Backward = Callable[[Array], Array]  # from the gradient of a layer's result to that of its input


def train(problem: Problem, count: int, compiled: bool) -> list[float]:
    """The mean loss of each of `count` epochs."""

    def step(parameters: Parameters, momenta: Parameters, inputs: Array, labels: Array) -> Any:
        """The parameters and momenta after a step, and the loss before it."""
        tape = Tape(parameters)
        logits = MODELS[problem.name](tape, inputs)
        loss, gradient = cross_entropy(logits, labels)
        gradients = tape.gradients(gradient)
        momenta = {name: MOMENTUM * momenta[name] + gradients[name] for name in parameters}
        return {name: p - problem.rate * momenta[name] for name, p in parameters.items()}, momenta, loss

    if compiled:
        step = refxla.compile(step)  # the line

    parameters = problem.parameters
    momenta = {name: np.zeros_like(p) for name, p in parameters.items()}

    def train_on(inputs: np.ndarray, labels: np.ndarray) -> float:
        nonlocal parameters, momenta
        parameters, momenta, loss = step(parameters, momenta, inputs, labels)
        return float(loss)

    return epochs(problem, count, train_on)


class Tape:
    """The layers that a model is made of, as they are called, and their gradients from the last one back.

    Each method is a layer: it takes its input and gives its result. `residual` has layers whose result is added to
    their input.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._backward: list[Backward] = []
        self._gradients: dict[str, Array] = {}

    def gradients(self, gradient: Array) -> dict[str, Array]:
        """Of each parameter, where `gradient` is that of the last layer's result."""
        self._run(self._backward, gradient)
        return self._gradients

    @staticmethod
    def _run(backward: list[Backward], gradient: Array) -> Array:
        for back in reversed(backward):
            gradient = back(gradient)
        return gradient

    def residual(self, x: Array, layers: Callable[[Array], Array]) -> Array:
        outer, self._backward = self._backward, []
        y = x + layers(x)
        inner, self._backward = self._backward, outer
        self._backward.append(lambda d: d + self._run(inner, d))
        return y

    def dense(self, name: str, x: Array) -> Array:
        weights, bias = self.parameters[f"{name}.weights"], self.parameters[f"{name}.bias"]

        def back(d: Array) -> Array:
            rows = d.reshape(-1, d.shape[-1])
            self._gradients[f"{name}.weights"] = x.reshape(-1, x.shape[-1]).T @ rows
            self._gradients[f"{name}.bias"] = rows.sum(axis=0)
            return d @ weights.T

        self._backward.append(back)
        return x @ weights + bias

    def relu(self, x: Array) -> Array:
        self._backward.append(lambda d: np.where(x > 0, d, np.float32(0)))
        return np.maximum(x, np.float32(0))

    def gelu(self, x: Array) -> Array:
        """By its usual approximation: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
        factor = np.float32(np.sqrt(2 / np.pi))
        tanh = np.tanh(factor * (x + np.float32(0.044715) * x**3))
        slope = factor * (1 + np.float32(3 * 0.044715) * x**2)
        self._backward.append(lambda d: d * np.float32(0.5) * (1 + tanh + x * (1 - tanh**2) * slope))
        return np.float32(0.5) * x * (1 + tanh)

    def flatten(self, x: Array) -> Array:
        self._backward.append(lambda d: d.reshape(x.shape))
        return x.reshape(len(x), -1)

    def convolution(self, name: str, x: Array) -> Array:
        """3 x 3, of images with a border of zeros: a sum of nine products of shifted images."""
        weights, bias = self.parameters[f"{name}.weights"], self.parameters[f"{name}.bias"]
        height, width = x.shape[1:3]
        places = [(i, j) for i in range(3) for j in range(3)]
        shifted = _shifted(x, places)

        def back(d: Array) -> Array:
            rows = d.reshape(-1, d.shape[-1])
            filters = [s.reshape(-1, s.shape[-1]).T @ rows for s in shifted]
            self._gradients[f"{name}.weights"] = np.stack(filters).reshape(weights.shape)
            self._gradients[f"{name}.bias"] = rows.sum(axis=0)
            moved = _shifted(d, [(2 - i, 2 - j) for i, j in places])
            return sum(m @ weights[i, j].T for m, (i, j) in zip(moved, places, strict=True))

        self._backward.append(back)
        y = sum(s @ weights[i, j] for s, (i, j) in zip(shifted, places, strict=True)) + bias
        assert y.shape[1:3] == (height, width)
        return y

    def pool(self, x: Array) -> Array:
        """The largest of each 2 x 2 pixels, which the gradient goes to."""
        n, height, width, channels = x.shape
        windows = x.reshape(n, height // 2, 2, width // 2, 2, channels)
        y = windows.max(axis=(2, 4), keepdims=True)
        self._backward.append(lambda d: np.where(windows == y, d.reshape(y.shape), np.float32(0)).reshape(x.shape))
        return y.reshape(n, height // 2, width // 2, channels)

    def norm(self, name: str, x: Array) -> Array:
        """Rows of mean 0 and variance 1, then scaled and moved."""
        scale, bias = self.parameters[f"{name}.scale"], self.parameters[f"{name}.bias"]
        centered = x - x.mean(axis=-1, keepdims=True)
        inverse = 1 / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
        unit = centered * inverse

        def back(d: Array) -> Array:
            self._gradients[f"{name}.scale"] = (d * unit).reshape(-1, d.shape[-1]).sum(axis=0)
            self._gradients[f"{name}.bias"] = d.reshape(-1, d.shape[-1]).sum(axis=0)
            d = d * scale
            along = (d * unit).mean(axis=-1, keepdims=True)
            return (d - d.mean(axis=-1, keepdims=True) - unit * along) * inverse

        self._backward.append(back)
        return unit * scale + bias

    def embed(self, words: Array) -> Array:
        table, places = self.parameters["words"], self.parameters["places"]

        def back(d: Array) -> Array:
            chosen = (words[..., None] == np.arange(WORDS)).astype(np.float32).reshape(-1, WORDS)
            self._gradients["words"] = chosen.T @ d.reshape(-1, WIDTH)
            self._gradients["places"] = d.sum(axis=0)
            return d

        self._backward.append(back)
        return table[words] + places

    def attention(self, layer: int, x: Array) -> Array:
        """Each place attends to itself and those before it."""
        n, length, width = x.shape
        depth = width // HEADS
        before, self._backward = self._backward, []
        backs, heads = [], []
        for part in ("query", "key", "value"):
            heads.append(self.dense(f"{layer}.{part}", x).reshape(n, length, HEADS, depth).transpose(0, 2, 1, 3))
            backs.append(self._backward.pop())
        query, key, value = heads
        scale = np.float32(depth**-0.5)
        scores = query @ key.transpose(0, 1, 3, 2) * scale
        scores = np.where(np.tri(length, dtype=bool), scores, np.float32(-1e9))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        self._backward = before

        def back(d: Array) -> Array:
            d = d.reshape(n, length, HEADS, depth).transpose(0, 2, 1, 3)
            through = d @ value.transpose(0, 1, 3, 2)
            through = weights * (through - (through * weights).sum(axis=-1, keepdims=True)) * scale
            parts = (through @ key, through.transpose(0, 1, 3, 2) @ query, weights.transpose(0, 1, 3, 2) @ d)
            joined = [part.transpose(0, 2, 1, 3).reshape(n, length, width) for part in parts]
            return sum(back(part) for back, part in zip(backs, joined, strict=True))

        self._backward.append(back)
        return self.dense(f"{layer}.merge", (weights @ value).transpose(0, 2, 1, 3).reshape(n, length, width))


def _shifted(x: Array, places: list[tuple[int, int]]) -> list[Array]:
    """Images[n, height, width, channels] seen through a window whose corner lies at each place of a border of zeros."""
    height, width = x.shape[1:3]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return [padded[:, i : i + height, j : j + width] for i, j in places]


def cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """The mean loss of rows of logits, and its gradient."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=-1, keepdims=True)
    chosen = (labels[..., None] == np.arange(logits.shape[-1])).astype(np.float32)
    count = np.float32(labels.size)
    return ((np.log(total) - shifted) * chosen).sum() / count, (exponentials / total - chosen) / count


# Models: from inputs to logits ---------------------------------------------------------------------------------------


def mlp(tape: Tape, images: Array) -> Array:
    return tape.dense("output", tape.relu(tape.dense("hidden", tape.flatten(images))))


def cnn(tape: Tape, images: Array) -> Array:
    x = images
    for name in ("first", "second"):
        x = tape.pool(tape.relu(tape.convolution(name, x)))
    return tape.dense("output", tape.flatten(x))


def gpt(tape: Tape, words: Array) -> Array:
    x = tape.embed(words)
    for layer in range(LAYERS):

        def attend(x: Array, layer: int = layer) -> Array:
            return tape.attention(layer, tape.norm(f"{layer}.before", x))

        def think(x: Array, layer: int = layer) -> Array:
            return tape.dense(
                f"{layer}.narrow", tape.gelu(tape.dense(f"{layer}.widen", tape.norm(f"{layer}.between", x)))
            )

        x = tape.residual(tape.residual(x, attend), think)
    return tape.dense("output", tape.norm("after", x))


MODELS = {"mlp": mlp, "cnn": cnn, "gpt": gpt}

if __name__ == "__main__":
    main(train, "NumPy")
