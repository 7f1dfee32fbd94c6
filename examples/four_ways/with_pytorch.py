"""An MLP, a CNN and a GPT written with PyTorch: python examples/four_ways/with_pytorch.py [MODEL ...]

A program of PyTorch alone, but for the backend that it names to torch.compile.
"""

from collections.abc import Callable

import numpy as np
import torch
from problems import (
    CHANNELS,
    CLASSES,
    HEADS,
    HIDDEN,
    LAYERS,
    LENGTH,
    MOMENTUM,
    NORM_EPSILON,
    SIZE,
    WIDTH,
    WORDS,
    Parameters,
    Problem,
    epochs,
    main,
)
from torch import nn
from torch.nn import functional


def train(problem: Problem, count: int, compiled: bool) -> list[float]:
    """The mean loss of each of `count` epochs."""
    model = {"mlp": MLP, "cnn": CNN, "gpt": GPT}[problem.name]()
    set_parameters(model, problem.parameters)
    optimizer = torch.optim.SGD(model.parameters(), problem.rate, MOMENTUM)
    called: Callable[..., torch.Tensor] = model
    if compiled:
        called = torch.compile(model, backend="refxla")  # the line

    def train_on(inputs: np.ndarray, labels: np.ndarray) -> float:
        logits = called(torch.from_numpy(inputs))
        loss = functional.cross_entropy(logits.flatten(0, -2), torch.from_numpy(labels).long().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return epochs(problem, count, train_on)


def set_parameters(model: nn.Module, parameters: Parameters) -> None:
    """Give a model the weights of a problem, whose names are those of its modules. PyTorch's matrices are [out, in] and
    its filters [out, in, height, width]."""
    names = {"weights": "weight", "scale": "weight", "bias": "bias"}
    with torch.no_grad():
        for name, value in parameters.items():
            path, _, kind = name.rpartition(".")
            if not path:  # a table of embeddings
                path, kind = name, "scale"
            turned = np.moveaxis(value, (-1, -2), (0, 1)) if kind == "weights" else value
            if name == "output.weights" and isinstance(model, CNN):  # the pixels lie behind the channels here
                turned = value.reshape(SIZE // 4, SIZE // 4, CHANNELS[1], CLASSES).transpose(3, 2, 0, 1)
                turned = turned.reshape(CLASSES, -1)
            model.get_parameter(f"{path}.{names[kind]}").copy_(torch.from_numpy(np.array(turned)))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.output = nn.Linear(SIZE * SIZE, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.output(torch.relu(self.hidden(images.flatten(1))))


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, CHANNELS[0], 3, padding=1)
        self.second = nn.Conv2d(*CHANNELS, 3, padding=1)
        self.output = nn.Linear((SIZE // 4) ** 2 * CHANNELS[1], CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = images.permute(0, 3, 1, 2)
        for layer in (self.first, self.second):
            x = functional.max_pool2d(torch.relu(layer(x)), 2)
        return self.output(x.flatten(1))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH, NORM_EPSILON), nn.LayerNorm(WIDTH, NORM_EPSILON)
        self.query, self.key, self.value, self.merge = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        heads = (part(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.merge(attended.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.widen(self.between(x)), approximate="tanh"))


class GPT(nn.Sequential):
    """Its blocks are named 0, 1, ..., as the problem's parameters are."""

    def __init__(self) -> None:
        super().__init__(*(Block() for _ in range(LAYERS)))
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.after, self.output = nn.LayerNorm(WIDTH, NORM_EPSILON), nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places.weight
        for layer in range(LAYERS):
            x = self[layer](x)
        return self.output(self.after(x))


if __name__ == "__main__":
    main(train, "PyTorch")
