"""Text: bytes and tokens."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..models.values import integers
from .inputs import text
from .registry import program


@program("text", text, length=(1_000_000, 100))
def byte_histogram(data: Array) -> Array:
    return jnp.zeros(256, jnp.int32).at[data].add(1)


@program("text", text, length=(500_000, 100))
def hashed_trigrams(data: Array) -> Array:
    d = data.astype(jnp.uint32)
    value = (d[:-2] * 961 + d[1:-1] * 31 + d[2:]) * jnp.uint32(2654435761)
    return jnp.bincount((value >> 20).astype(jnp.int32), length=4096)


@program("text", text, length=(50_000, 40))
def checksum(data: Array) -> Array:
    """CRC-32 by its table."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(0xEDB88320) ^ (table >> 1), table >> 1).astype(np.uint32)
    lookup = jnp.asarray(table)

    def iterate(crc: Array, byte: Array) -> tuple[Array, None]:
        return lookup[(crc ^ byte) & 0xFF] ^ (crc >> 8), None

    return ~lax.scan(iterate, jnp.uint32(0xFFFFFFFF), data.astype(jnp.uint32))[0]


@program("text", lambda n: [text(n)[0], np.roll(text(n)[0], 3)], n=(400, 9))
def edit_distance(a: Array, b: Array) -> Array:
    place = jnp.arange(1, b.size + 1)

    def row(above: Array, item: tuple[Array, Array]) -> tuple[Array, None]:
        letter, k = item
        substituted = above[:-1] + (b != letter)
        best = jnp.minimum(substituted, above[1:] + 1)
        across = jnp.minimum(lax.cummin(best - place), k) + place
        return jnp.concatenate([k[None], across]), None

    first = jnp.arange(b.size + 1)
    return lax.scan(row, first, (a, jnp.arange(1, a.size + 1)))[0][-1]


@program("text", lambda documents, length: [integers(0, 2000, documents, length)], documents=(200, 3), length=(200, 9))
def term_weights(tokens: Array) -> Array:
    """Term frequencies by inverse document frequencies."""
    documents = len(tokens)
    rows = jnp.broadcast_to(jnp.arange(documents)[:, None], tokens.shape)
    counts = jnp.zeros((documents, 2000)).at[rows, tokens].add(1.0)
    weights = counts * jnp.log((1 + documents) / (1 + (counts > 0).sum(0)))
    return weights / jnp.linalg.norm(weights, axis=1, keepdims=True)


@program("text", text, length=(500_000, 60))
def word_lengths(data: Array) -> Array:
    """The number of words of each length."""
    letter = (data >= 97) & (data <= 122)
    place = jnp.arange(data.size)
    start = lax.cummax(jnp.where(letter, -1, place))
    ends = letter & ~jnp.concatenate([letter[1:], jnp.zeros(1, bool)])
    return jnp.bincount(jnp.where(ends, jnp.minimum(place - start, 31), 0), length=32)[1:]


@program("text", text, length=(500_000, 60))
def matches_of_a_word(data: Array) -> tuple[Array, Array]:
    word = jnp.frombuffer(b"the", jnp.uint8)
    places = jnp.arange(data.size - word.size + 1)
    matches = jnp.all(data[places[:, None] + jnp.arange(word.size)] == word, 1)
    return matches.sum(), jnp.nonzero(matches, size=100, fill_value=-1)[0]


@program("text", text, length=(200_000, 60))
def rolling_hash(data: Array) -> Array:
    def combine(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return first[0] * second[0], first[1] * second[0] + second[1]

    powers = jnp.full(data.shape, 31, jnp.uint32)
    return lax.associative_scan(combine, (powers, data.astype(jnp.uint32)))[1]


@program("text", lambda n: [integers(0, 4, n), integers(0, 4, n, seed=1)], n=(400, 9))
def local_alignment(a: Array, b: Array) -> Array:
    """Smith and Waterman's score of two strands, with gaps of cost 1: a row of the table in each step."""
    number = jnp.arange(len(b))

    def row(above: Array, same: Array) -> tuple[Array, Array]:
        diagonal = jnp.concatenate([jnp.zeros(1), above[:-1]]) + same
        best = jnp.maximum(jnp.maximum(diagonal, above - 1.0), 0.0)
        best = lax.cummax(best + number) - number  # gaps along the row
        return best, best.max()

    return lax.scan(row, jnp.zeros(len(b)), jnp.where(a[:, None] == b, 3.0, -2.0))[1].max()


@program("text", text, length=(2000, 20))
def suffix_ranks(data: Array) -> Array:
    """The ranks of all suffixes, by doubling: pairs of ranks in each step."""
    n = len(data)

    def double(k: Array, rank: Array) -> Array:
        second = jnp.where(jnp.arange(n) + (1 << k) < n, jnp.roll(rank, -(1 << k)), -1)
        order = jnp.lexsort((second, rank))
        a, b = rank[order], second[order]
        differs = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
        dense = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(differs.astype(jnp.int32))])
        return jnp.zeros_like(rank).at[order].set(dense)

    return lax.fori_loop(0, max(1, (n - 1).bit_length()), double, data.astype(jnp.int32))
