"""Training steps: one loss, one optimiser's update, the new state."""

from __future__ import annotations

import numpy as np

from ..frameworks.base import Array, Framework, Function, Tree
from ..parameter_trees import map_tree

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-7


def sgd(loss: Function) -> Function:
    """A step(xp, parameters, *batch) -> (loss, parameters) by plain gradient descent."""

    def step(xp: Framework, parameters: Tree, *batch: Array) -> tuple[Array, Tree]:
        value, gradients = xp.value_and_grad(lambda p, *b: loss(xp, p, *b), parameters, *batch)
        return value, xp.map(lambda p, g: p - RATE * g, parameters, gradients)

    return step


def adam(loss: Function) -> Function:
    """A step(xp, state, *batch) -> (loss, state) by Adam; `adam_state` creates a state."""

    def step(xp: Framework, state: Tree, *batch: Array) -> tuple[Array, Tree]:
        value, gradients = xp.value_and_grad(lambda p, *b: loss(xp, p, *b), state["parameters"], *batch)
        count = state["count"] + 1.0
        rate = RATE * xp.sqrt(1 - BETA2**count) / (1 - BETA1**count)
        means = xp.map(lambda m, g: m + (1 - BETA1) * (g - m), state["means"], gradients)
        squares = xp.map(lambda s, g: s + (1 - BETA2) * (g * g - s), state["squares"], gradients)
        parameters = xp.map(lambda p, m, s: p - rate * m / (xp.sqrt(s) + EPSILON), state["parameters"], means, squares)
        return value, {"parameters": parameters, "means": means, "squares": squares, "count": count}

    return step


def adam_state(parameters: Tree) -> Tree:
    """Adam's state after some steps: means and mean squares of gradients are made up."""
    rng = np.random.default_rng(0)
    return {
        "parameters": parameters,
        "means": map_tree(lambda p: rng.normal(0, 1e-2, p.shape).astype(np.float32), parameters),
        "squares": map_tree(lambda p: rng.uniform(1e-5, 1e-3, p.shape).astype(np.float32), parameters),
        "count": np.float32(5),
    }
