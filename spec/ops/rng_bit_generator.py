"""Random bits from a state, and the next state; the same state gives the same bits, everywhere.

rng_three_fry is Threefry-2x32 with 20 rounds, rng_philox Philox-4x32 with 10 (Salmon and others, Parallel random
numbers: as easy as 1, 2, 3, 2011); rng_default is rng_philox. state[0] is the key, low word first, and the rest is a
counter: 64 bits in state[1] for Threefry; 128 bits for Philox, in state[1] (low) and state[2] (high), or in state[1]
and state[0] where the state has two elements. Block n of bits is the cipher of counter + n, and the next state is the
counter after the last block.

Threefry makes two words from a block. For 64 bits they are one number, low word first, at row-major index n. For 32
bits they are neighbours along one dimension, the first one of even size, or if there is none the largest one (the
first such), rounded up to an even size: n is the row-major index in the array with that dimension halved. Philox makes
four words from a block: four numbers of 32 bits at the row-major indices from 4n on, or two of 64 bits, low words
first, from 2n on. Numbers of fewer bits are the low bits of those of 32.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..attributes import ENUM, REQUIRED, Attribute
from ..module import Instruction
from ..numerics import wrap
from ..operation import Example, require
from ..types import U64, Shape

ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")
INPUTS = {"initial_state": "u64[2], or u64[3] for rng_philox"}
ATTRIBUTES = {"algorithm": Attribute(ENUM, REQUIRED, "rng_default, rng_three_fry or rng_philox")}
CONSTRAINTS = {
    "C1": "algorithm is rng_default, rng_three_fry or rng_philox",
    "C2": "initial_state is u64[2]; for rng_philox and rng_default it may be u64[3]",
    "C3": "the result is a tuple of initial_state's shape and an array of integers",
}

_WORD = np.uint64(0xFFFFFFFF)  # words are computed in u64 and masked, so that products and carries fit
_32 = np.uint64(32)


def infer(instruction: Instruction, initial_state: Shape) -> Shape:
    algorithm, result = instruction.algorithm, instruction.shape
    require(algorithm in ALGORITHMS, "C1", f"algorithm is {algorithm}")
    sizes = ((2,),) if algorithm == "rng_three_fry" else ((2,), (3,))
    fits = initial_state.element_type is U64 and initial_state.dimensions in sizes
    require(fits, "C2", f"initial_state is {initial_state}, algorithm is {algorithm}")
    fits = result.is_tuple and len(result.elements) == 2 and result.elements[0].compatible(initial_state)
    fits = fits and result.elements[1].element_type.is_integer
    require(fits, "C3", f"the result is {result}, initial_state is {initial_state}")
    return Shape.tuple_of(*(e.with_dimensions(e.dimensions) for e in result.elements))


def evaluate(instruction: Instruction, initial_state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = instruction.shape.elements[1]
    wide = shape.element_type.bits == 64
    generate = _three_fry_bits if instruction.algorithm == "rng_three_fry" else _philox_bits
    with np.errstate(over="ignore"):
        state, numbers = generate(initial_state, shape.dimensions, wide)
    return state, wrap(numbers, shape.element_type)


def _three_fry_bits(state: np.ndarray, dimensions: tuple[int, ...], wide: bool) -> tuple[np.ndarray, np.ndarray]:
    if wide:
        blocks = prod(dimensions)
        low, high = _three_fry(state[0], state[1] + np.arange(blocks, dtype=np.uint64))
        numbers = (low | high << _32).reshape(dimensions)
    else:
        dims = dimensions or (1,)
        even = [d for d, size in enumerate(dims) if size % 2 == 0]
        split = even[0] if even else dims.index(max(dims))
        before, half, after = prod(dims[:split]), -(-dims[split] // 2), prod(dims[split + 1 :])
        blocks = before * half * after
        words = _three_fry(state[0], state[1] + np.arange(blocks, dtype=np.uint64))
        pairs = np.stack([w.reshape(before, half, after) for w in words], axis=2)
        numbers = pairs.reshape(before, 2 * half, after)[:, : dims[split]].reshape(dimensions)
    return np.array([state[0], state[1] + np.uint64(blocks)]), numbers


def _three_fry(key: np.uint64, counter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def _philox_bits(state: np.ndarray, dimensions: tuple[int, ...], wide: bool) -> tuple[np.ndarray, np.ndarray]:
    size = prod(dimensions)
    blocks = -(-size // (2 if wide else 4))
    low, high = state[1], state[2] if len(state) == 3 else state[0]
    counters = low + np.arange(blocks, dtype=np.uint64)
    words = _philox(state[0], counters, high + (counters < low))
    if wide:
        words = [words[0] | words[1] << _32, words[2] | words[3] << _32]
    numbers = np.stack(words, axis=1).reshape(-1)[:size].reshape(dimensions)
    after = low + np.uint64(blocks)
    return np.array([state[0], after, high + np.uint64(after < low)][: len(state)]), numbers


def _philox(key: np.uint64, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """The four words of each block."""
    x = [low & _WORD, low >> _32, high & _WORD, high >> _32]
    k = [key & _WORD, key >> _32]
    for _ in range(10):
        p, q = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [q >> _32 ^ x[1] ^ k[0], q & _WORD, p >> _32 ^ x[3] ^ k[1], p & _WORD]
        k = [(k[0] + np.uint64(0x9E3779B9)) & _WORD, (k[1] + np.uint64(0xBB67AE85)) & _WORD]
    return x


EXAMPLES = (
    Example(
        """s = u64[2] parameter(0)
           ROOT r = (u64[2], u32[2]) rng-bit-generator(s), algorithm=rng_three_fry""",
        ("u64[2] {0, 0}",),
        ("u64[2] {0, 1}", "u32[2] {1797259609, 2579123966}"),
        "the published test vector of Threefry-2x32 for zeros",
    ),
    Example(
        """s = u64[3] parameter(0)
           ROOT r = (u64[3], u32[4]) rng-bit-generator(s), algorithm=rng_philox""",
        ("u64[3] {0, 0, 0}",),
        ("u64[3] {0, 1, 0}", "u32[4] {1713891541, 3781805453, 3159862348, 2600524760}"),
        "the published test vector of Philox-4x32 for zeros",
    ),
    Example(
        """s = u64[3] parameter(0)
           ROOT r = (u64[3], u64[0]) rng-bit-generator(s), algorithm=rng_philox""",
        ("u64[3] {1, 18446744073709551615, 7}",),
        ("u64[3] {1, 18446744073709551615, 7}", "u64[0] {}"),
        "no bits leave the state as it is",
    ),
)
