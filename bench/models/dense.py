"""Networks of matrix products."""

from __future__ import annotations

from typing import Any

from ..frameworks.base import Array, Framework, Tree
from .training import adam, adam_state, sgd
from .values import integers, normal, ones, weights, zeros


def linear(entering: int, leaving: int, seed: int = 0) -> Tree:
    return {"w": weights(entering, leaving, seed=seed), "b": zeros(leaving)}


def apply(layer: Tree, x: Array) -> Array:
    return x @ layer["w"] + layer["b"]


# A classifier of digits.


def mlp_loss(xp: Framework, p: Tree, x: Array, labels: Array) -> Array:
    for layer in p[:-1]:
        x = xp.relu(apply(layer, x))
    return xp.cross_entropy(apply(p[-1], x), labels)


mlp_step = adam(mlp_loss)


def mlp_arguments(batch: int, width: int) -> list[Any]:
    parameters = [linear(784, width), linear(width, width, 1), linear(width, 10)]
    return [adam_state(parameters), normal(batch, 784), integers(0, 10, batch)]


# A variational autoencoder; its noise is an argument, so that every framework has the same.


def vae_loss(xp: Framework, p: Tree, x: Array, noise: Array) -> Array:
    encoded = xp.relu(apply(p["encode"], x))
    mean, deviation = apply(p["mean"], encoded), apply(p["deviation"], encoded)
    code = mean + xp.exp(0.5 * deviation) * noise
    y = xp.sigmoid(apply(p["out"], xp.relu(apply(p["decode"], code))))
    likelihood = xp.sum(x * xp.log(y + 1e-6) + (1 - x) * xp.log(1 - y + 1e-6), 1)
    divergence = -0.5 * xp.sum(1 + deviation - mean**2 - xp.exp(deviation), 1)
    return xp.mean(divergence - likelihood)


vae_step = adam(vae_loss)


def vae_arguments(batch: int, width: int, code: int) -> list[Any]:
    parameters = {
        "encode": linear(784, width),
        "mean": linear(width, code),
        "deviation": linear(width, code, 1),
        "decode": linear(code, width),
        "out": linear(width, 784),
    }
    images = 1 / (1 + abs(normal(batch, 784)))
    return [adam_state(parameters), images, normal(batch, code, seed=1)]


# An MLP-mixer: dense layers over the patches of an image and over their features, alternately.


def mixer_loss(xp: Framework, p: Tree, patches: Array, labels: Array) -> Array:
    x = apply(p["into"], patches)
    for block in p["blocks"]:
        y = xp.transpose(xp.layer_norm(x, block["scale1"], block["offset1"]), (0, 2, 1))
        y = apply(block["tokens2"], xp.gelu(apply(block["tokens1"], y)))
        x = x + xp.transpose(y, (0, 2, 1))
        y = xp.layer_norm(x, block["scale2"], block["offset2"])
        x = x + apply(block["features2"], xp.gelu(apply(block["features1"], y)))
    x = xp.mean(xp.layer_norm(x, p["scale"], p["offset"]), 1)
    return xp.cross_entropy(apply(p["out"], x), labels)


mixer_step = sgd(mixer_loss)


def mixer_arguments(batch: int, patches: int, width: int, blocks: int) -> list[Any]:
    def block(seed: int) -> Tree:
        return {
            "scale1": ones(width),
            "offset1": zeros(width),
            "tokens1": linear(patches, width // 2, seed),
            "tokens2": linear(width // 2, patches, seed),
            "scale2": ones(width),
            "offset2": zeros(width),
            "features1": linear(width, 4 * width, seed),
            "features2": linear(4 * width, width, seed),
        }

    parameters = {
        "into": linear(192, width),
        "blocks": [block(n) for n in range(blocks)],
        "scale": ones(width),
        "offset": zeros(width),
        "out": linear(width, 10),
    }
    return [parameters, normal(batch, patches, 192), integers(0, 10, batch)]


# A recommender like DLRM: embeddings of categories, their pairwise products, dense layers below and above.


def dlrm_loss(xp: Framework, p: Tree, numbers: Array, categories: Array, clicked: Array) -> Array:
    x = numbers
    for layer in p["below"]:
        x = xp.relu(apply(layer, x))
    features = [x] + [xp.take(table, categories[:, n]) for n, table in enumerate(p["tables"])]
    stacked = xp.stack(features, 1)
    products = stacked @ xp.transpose(stacked, (0, 2, 1))
    count = len(features)
    y = xp.concatenate([x, xp.reshape(products, (x.shape[0], count * count))], 1)
    for layer in p["above"]:
        y = xp.relu(apply(layer, y))
    chance = xp.sigmoid(apply(p["out"], y))[:, 0]
    return -xp.mean(clicked * xp.log(chance + 1e-6) + (1 - clicked) * xp.log(1 - chance + 1e-6))


dlrm_step = sgd(dlrm_loss)


def dlrm_arguments(batch: int, tables: int, rows: int, width: int) -> list[Any]:
    parameters = {
        "tables": [normal(rows, width, seed=n, scale=0.1) for n in range(tables)],
        "below": [linear(13, 128), linear(128, width)],
        "above": [linear(width + (tables + 1) ** 2, 256), linear(256, 128)],
        "out": linear(128, 1),
    }
    clicked = integers(0, 2, batch).astype("float32")
    return [parameters, normal(batch, 13), integers(0, rows, batch, tables), clicked]
