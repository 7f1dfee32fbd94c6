"""Networks of sequences: an LSTM and transformers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..frameworks.base import Array, Framework, Tree
from .dense import apply, linear
from .training import adam, adam_state, sgd
from .values import integers, normal, ones, weights, zeros

# A long short-term memory.


def lstm(xp: Framework, p: Tree, x: Array) -> Array:
    return xp.lstm(x, p["weights"], p["recurrent"], p["bias"])


def lstm_loss(xp: Framework, p: Tree, x: Array, target: Array) -> Array:
    y = xp.sum(lstm(xp, p, x) * p["readout"], -1)
    return xp.mean((y - target) ** 2)


lstm_step = sgd(lstm_loss)


def lstm_arguments(time: int, batch: int, features: int, hidden: int) -> list[Any]:
    parameters = {
        "weights": weights(features, 4 * hidden),
        "recurrent": weights(hidden, 4 * hidden, seed=1),
        "bias": normal(4 * hidden, scale=0.1),
        "readout": weights(hidden, 1)[:, 0],
    }
    return [parameters, normal(time, batch, features)]


def lstm_step_arguments(time: int, batch: int, features: int, hidden: int) -> list[Any]:
    return [*lstm_arguments(time, batch, features, hidden), normal(time, batch, seed=1)]


# Blocks of transformers, normalised before each part.


def block_parameters(width: int, seed: int) -> Tree:
    return {
        "scale1": ones(width),
        "offset1": zeros(width),
        "qkv": linear(width, 3 * width, seed),
        "project": linear(width, width, seed),
        "scale2": ones(width),
        "offset2": zeros(width),
        "up": linear(width, 4 * width, seed),
        "down": linear(4 * width, width, seed),
    }


def heads_of(xp: Framework, x: Array, heads: int) -> Array:
    """[batch, time, width] -> [batch, heads, time, width / heads]"""
    batch, time, width = x.shape
    return xp.transpose(xp.reshape(x, (batch, time, heads, width // heads)), (0, 2, 1, 3))


def queries_keys_values(xp: Framework, p: Tree, x: Array, heads: int) -> list[Array]:
    normalized = xp.layer_norm(x, p["scale1"], p["offset1"])
    return [heads_of(xp, t, heads) for t in xp.split(apply(p["qkv"], normalized), 3, -1)]


def after_attention(xp: Framework, p: Tree, x: Array, mixed: Array) -> Array:
    x = x + apply(p["project"], xp.reshape(xp.transpose(mixed, (0, 2, 1, 3)), tuple(x.shape)))
    y = xp.layer_norm(x, p["scale2"], p["offset2"])
    return x + apply(p["down"], xp.gelu(apply(p["up"], y)))


def block(xp: Framework, p: Tree, x: Array, heads: int, causal: bool) -> Array:
    q, k, v = queries_keys_values(xp, p, x, heads)
    return after_attention(xp, p, x, xp.attention(q, k, v, causal))


# GPT: predicts the next token at every position.

HEAD = 64  # features of an attention head


def gpt_parameters(vocabulary: int, time: int, width: int, blocks: int) -> Tree:
    return {
        "tokens": normal(vocabulary, width, scale=0.02),
        "places": normal(time, width, scale=0.02),
        "blocks": [block_parameters(width, n) for n in range(blocks)],
        "scale": ones(width),
        "offset": zeros(width),
    }


def gpt_loss(xp: Framework, p: Tree, tokens: Array, following: Array) -> Array:
    batch, time = tokens.shape
    x = xp.take(p["tokens"], tokens) + p["places"]
    width = x.shape[2]
    for parameters in p["blocks"]:
        x = block(xp, parameters, x, max(1, width // HEAD), causal=True)
    x = xp.reshape(xp.layer_norm(x, p["scale"], p["offset"]), (batch * time, width))
    return xp.cross_entropy(x @ xp.transpose(p["tokens"], (1, 0)), xp.reshape(following, (batch * time,)))


gpt_step = adam(gpt_loss)


def gpt_arguments(batch: int, vocabulary: int, time: int, width: int, blocks: int) -> list[Any]:
    state = adam_state(gpt_parameters(vocabulary, time, width, blocks))
    return [state, integers(0, vocabulary, batch, time), integers(0, vocabulary, batch, time, seed=1)]


def gpt_decode(xp: Framework, p: Tree, caches: Tree, token: Array, place: Array) -> tuple[Array, Tree]:
    """One more token: its scores f32[batch, vocabulary], and the extended keys and values."""
    x = xp.take(p["tokens"], token)[:, None, :] + xp.take(p["places"], place[None])[None]
    width = x.shape[2]
    new_caches = []
    for parameters, cache in zip(p["blocks"], caches, strict=True):
        q, k, v = queries_keys_values(xp, parameters, x, max(1, width // HEAD))
        keys, values = xp.put(cache["k"], place, k), xp.put(cache["v"], place, v)
        new_caches.append({"k": keys, "v": values})
        scores = q @ xp.transpose(keys, (0, 1, 3, 2)) * (q.shape[-1] ** -0.5)
        scores = xp.where(xp.arange(keys.shape[2])[None, None, None, :] <= place, scores, -1e30)
        x = after_attention(xp, parameters, x, xp.softmax(scores) @ values)
    x = xp.layer_norm(x, p["scale"], p["offset"])[:, 0]
    return x @ xp.transpose(p["tokens"], (1, 0)), new_caches


def gpt_decode_arguments(batch: int, vocabulary: int, time: int, width: int, blocks: int) -> list[Any]:
    heads = max(1, width // HEAD)
    shape = (batch, heads, time, width // heads)
    caches = [{"k": normal(*shape, seed=n), "v": normal(*shape, seed=n + 99)} for n in range(blocks)]
    parameters = gpt_parameters(vocabulary, time, width, blocks)
    return [parameters, caches, integers(0, vocabulary, batch), np.int32(time // 2)]


# A vision transformer: patches of images as tokens.


def vit(xp: Framework, p: Tree, patches: Array) -> Array:
    x = apply(p["into"], patches) + p["places"]
    for parameters in p["blocks"]:
        x = block(xp, parameters, x, max(1, x.shape[2] // HEAD), causal=False)
    return apply(p["out"], xp.mean(xp.layer_norm(x, p["scale"], p["offset"]), 1))


def vit_arguments(batch: int, patches: int, width: int, blocks: int) -> list[Any]:
    parameters = {
        "into": linear(768, width),
        "places": normal(patches, width, scale=0.02),
        "blocks": [block_parameters(width, n) for n in range(blocks)],
        "scale": ones(width),
        "offset": zeros(width),
        "out": linear(width, 1000),
    }
    return [parameters, normal(batch, patches, 768)]
