"""The two counter-based ciphers behind random bits: rng-bit-generator's page describes them, and rng uses one."""

from __future__ import annotations

from math import prod

import numpy as np

from .types import Array

_WORD = np.uint64(0xFFFFFFFF)  # words are computed in u64 and masked, so that products and carries fit
_32 = np.uint64(32)


def three_fry_bits(state: Array, dimensions: tuple[int, ...], wide: bool) -> tuple[Array, Array]:
    """The next state and u64[dimensions] of 64 random bits each if `wide`, else of 32; the state is u64[2]."""
    if wide:
        blocks = prod(dimensions)
        low, high = three_fry(state[0], state[1] + np.arange(blocks, dtype=np.uint64))
        numbers = (low | high << _32).reshape(dimensions)
    else:
        dims = dimensions or (1,)
        even = [d for d, size in enumerate(dims) if size % 2 == 0]
        split = even[0] if even else dims.index(max(dims))
        before, half, after = prod(dims[:split]), -(-dims[split] // 2), prod(dims[split + 1 :])
        blocks = before * half * after
        words = three_fry(state[0], state[1] + np.arange(blocks, dtype=np.uint64))
        pairs = np.stack([w.reshape(before, half, after) for w in words], axis=2)
        numbers = pairs.reshape(before, 2 * half, after)[:, : dims[split]].reshape(dimensions)
    return np.array([state[0], state[1] + np.uint64(blocks)]), numbers


def three_fry(key: np.uint64, counter: Array) -> tuple[Array, Array]:
    """The two words of each block."""
    first, second = key & _WORD, key >> _32
    keys = (first, second, first ^ second ^ np.uint64(0x1BD11BDA))
    x, y = (counter + first) & _WORD, ((counter >> _32) + second) & _WORD
    for group in range(5):
        for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) & _WORD
            y = (y << np.uint64(distance) | y >> np.uint64(32 - distance)) & _WORD ^ x
        x = (x + keys[(group + 1) % 3]) & _WORD
        y = (y + keys[(group + 2) % 3] + np.uint64(group + 1)) & _WORD
    return x, y


def philox_bits(state: Array, dimensions: tuple[int, ...], wide: bool) -> tuple[Array, Array]:
    """The same by Philox; the state is u64[2] or u64[3]."""
    size = prod(dimensions)
    blocks = -(-size // (2 if wide else 4))
    low, high = state[1], state[2] if len(state) == 3 else state[0]
    counters = low + np.arange(blocks, dtype=np.uint64)
    words = philox(state[0], counters, high + (counters < low))
    if wide:
        words = [words[0] | words[1] << _32, words[2] | words[3] << _32]
    numbers = np.stack(words, axis=1).reshape(-1)[:size].reshape(dimensions)
    after = low + np.uint64(blocks)
    return np.array([state[0], after, high + np.uint64(after < low)][: len(state)]), numbers


def philox(key: np.uint64, low: Array, high: Array) -> list[Array]:
    """The four words of each block."""
    x = [low & _WORD, low >> _32, high & _WORD, high >> _32]
    k = [key & _WORD, key >> _32]
    for _ in range(10):
        p, q = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [q >> _32 ^ x[1] ^ k[0], q & _WORD, p >> _32 ^ x[3] ^ k[1], p & _WORD]
        k = [(k[0] + np.uint64(0x9E3779B9)) & _WORD, (k[1] + np.uint64(0xBB67AE85)) & _WORD]
    return x
