"""Networks of images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..frameworks.base import Array, Framework, Tree
from .training import adam, adam_state, sgd
from .values import integers, normal, ones, weights, zeros

CLASSES = 1000
# ResNet-50: blocks, and their inner channels; their outputs have four times as many
STAGES = [(3, 64), (4, 128), (6, 256), (3, 512)]
MOBILE = [(1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512), *[(1, 512)] * 5, (2, 1024), (1, 1024)]


# A small network as Keras's tutorials have it: two convolutions, two dense layers.


def cnn(xp: Framework, p: Tree, images: Array) -> Array:
    x = images
    for layer in p["convolutions"]:
        x = xp.max_pool(xp.relu(xp.convolve(x, layer["filter"], 1, 0) + layer["bias"]), 2, 2)
    x = xp.reshape(x, (x.shape[0], x.shape[1] * x.shape[2] * x.shape[3]))
    x = xp.relu(x @ p["hidden"]["w"] + p["hidden"]["b"])
    return x @ p["out"]["w"] + p["out"]["b"]


def cnn_loss(xp: Framework, p: Tree, images: Array, labels: Array) -> Array:
    return xp.cross_entropy(cnn(xp, p, images), labels)


cnn_step = adam(cnn_loss)


def cnn_arguments(batch: int, side: int) -> list[Any]:
    size = (((side - 2) // 2) - 2) // 2
    parameters = {
        "convolutions": [
            {"filter": weights(3, 3, 3, 16), "bias": zeros(16)},
            {"filter": weights(3, 3, 16, 32), "bias": zeros(32)},
        ],
        "hidden": {"w": weights(size * size * 32, 64), "b": zeros(64)},
        "out": {"w": weights(64, 10), "b": zeros(10)},
    }
    return [adam_state(parameters), normal(batch, side, side, 3), integers(0, 10, batch)]


# ResNet-50 and MobileNet: convolutions, each with its batch-norm.


def _layer(window: int, entering: int, leaving: int, seed: int) -> Tree:
    return {
        "filter": weights(window, window, entering, leaving, seed=seed),
        "scale": 1 + normal(leaving, seed=seed) / 10,
        "offset": normal(leaving, seed=seed + 1) / 10,
        "mean": normal(leaving, seed=seed + 2) / 10,
        "variance": 1 + normal(leaving, seed=seed + 3) ** 2 / 10,
    }


def _infer(xp: Framework, layer: Tree, x: Array) -> Array:
    return xp.scale_and_shift(x, layer["scale"], layer["offset"], layer["mean"], layer["variance"])


def _train(xp: Framework, layer: Tree, x: Array) -> Array:
    return xp.batch_norm(x, layer["scale"], layer["offset"])


def resnet(xp: Framework, p: Tree, x: Array, normalize: Any = _infer) -> Array:
    layers: Iterator[Tree] = iter(p["layers"])

    def apply(x: Array, stride: int = 1) -> Array:
        layer = next(layers)
        return normalize(xp, layer, xp.convolve(x, layer["filter"], stride, xp.side(layer["filter"]) // 2))

    x = xp.max_pool(xp.relu(apply(x, 2)), 3, 2, 1)
    for stage, (blocks, _) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = xp.relu(apply(x))
            y = xp.relu(apply(y, stride))
            y = apply(y)
            x = xp.relu(y + (apply(x, stride) if block == 0 else x))
    return xp.mean_pool(x) @ p["out"]["w"] + p["out"]["b"]


def resnet_loss(xp: Framework, p: Tree, images: Array, labels: Array) -> Array:
    return xp.cross_entropy(resnet(xp, p, images, _train), labels)


resnet_step = sgd(resnet_loss)


def _resnet_parameters() -> Tree:
    shapes = [(7, 3, 64)]
    entering = 64
    for blocks, inner in STAGES:
        for block in range(blocks):
            shapes += [(1, entering, inner), (3, inner, inner), (1, inner, 4 * inner)]
            if block == 0:
                shapes.append((1, entering, 4 * inner))
            entering = 4 * inner
    layers = [_layer(*shape, seed=n) for n, shape in enumerate(shapes)]
    return {"layers": layers, "out": {"w": weights(2048, CLASSES), "b": zeros(CLASSES)}}


def resnet_arguments(batch: int, side: int = 224) -> list[Any]:
    return [_resnet_parameters(), normal(batch, side, side, 3)]


def resnet_step_arguments(batch: int, side: int = 224) -> list[Any]:
    parameters = _resnet_parameters()
    for layer in parameters["layers"]:  # running statistics are not trained
        del layer["mean"], layer["variance"]
    return [parameters, normal(batch, side, side, 3), integers(0, CLASSES, batch)]


def mobilenet(xp: Framework, p: Tree, x: Array) -> Array:
    """MobileNet's first version: depthwise convolutions alternating with 1 x 1 convolutions."""

    def apply(x: Array, layer: Tree, stride: int = 1, groups: int = 1) -> Array:
        filters = layer["filter"]
        return xp.relu(_infer(xp, layer, xp.convolve(x, filters, stride, xp.side(filters) // 2, groups)))

    x = apply(x, p["first"], 2)
    for (stride, _), block in zip(MOBILE, p["blocks"], strict=True):
        x = apply(x, block["depthwise"], stride, x.shape[3])
        x = apply(x, block["pointwise"])
    return xp.mean_pool(x) @ p["out"]["w"] + p["out"]["b"]


def mobilenet_arguments(batch: int, side: int = 224) -> list[Any]:
    blocks, entering = [], 32
    for seed, (_, leaving) in enumerate(MOBILE):
        blocks.append({"depthwise": _layer(3, 1, entering, seed), "pointwise": _layer(1, entering, leaving, seed)})
        entering = leaving
    out = {"w": weights(entering, CLASSES), "b": zeros(CLASSES)}
    return [{"first": _layer(3, 3, 32, 99), "blocks": blocks, "out": out}, normal(batch, side, side, 3)]


# A small U-Net: three levels down, and up again with skip connections.


def unet(xp: Framework, p: Tree, images: Array) -> Array:
    def block(x: Array, layers: list[Tree]) -> Array:
        for layer in layers:
            x = xp.relu(xp.convolve(x, layer["filter"], 1, 1) + layer["bias"])
        return x

    x, skips = images, []
    for layers in p["down"]:
        x = block(x, layers)
        skips.append(x)
        x = xp.max_pool(x, 2, 2)
    x = block(x, p["middle"])
    for layers in p["up"]:
        x = block(xp.concatenate([xp.double(x), skips.pop()], 3), layers)
    return xp.convolve(x, p["out"]["filter"], 1, 0) + p["out"]["bias"]


def unet_loss(xp: Framework, p: Tree, images: Array, target: Array) -> Array:
    return xp.mean((unet(xp, p, images) - target) ** 2)


unet_step = sgd(unet_loss)


def unet_arguments(batch: int, side: int, width: int) -> list[Any]:
    def block(entering: int, leaving: int, seed: int) -> list[Tree]:
        return [
            {"filter": weights(3, 3, a, leaving, seed=seed, gain=2), "bias": zeros(leaving)}
            for a in (entering, leaving)
        ]

    down = [block(3, width, 0), block(width, 2 * width, 1), block(2 * width, 4 * width, 2)]
    up = [block(12 * width, 4 * width, 3), block(6 * width, 2 * width, 4), block(3 * width, width, 5)]
    parameters = {
        "down": down,
        "middle": block(4 * width, 8 * width, 6),
        "up": up,
        "out": {"filter": weights(1, 1, width, 1), "bias": zeros(1)},
    }
    return [parameters, normal(batch, side, side, 3), normal(batch, side, side, 1, seed=1)]


def batch_norm_arguments(batch: int, side: int, features: int) -> list[Any]:
    return [normal(batch, side, side, features), ones(features), zeros(features)]


def batch_norm(xp: Framework, x: Array, scale: Array, offset: Array) -> Array:
    return xp.relu(xp.batch_norm(x, scale, offset))
