"""rng-bit-generator: each algorithm, result types of every width, shapes of odd and even sizes, counters that wrap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import Case
from ..building import array_types, shape, structured

SHAPES = ((8,), (7,), (3, 4), (3, 5), (4, 3), (1,), (), (0,), (2, 3, 5), (5, 1, 2, 3))
FULL = (1 << 64) - 1


def cases(thorough: bool) -> Iterator[Case]:
    """Every shape of u32, some thousand numbers, one shape of every integer type; states at the end of their range."""
    for algorithm, size in (("rng_three_fry", 2), ("rng_philox", 3), ("rng_philox", 2), ("rng_default", 2)):
        state = np.array([0x0123456789ABCDEF, 42, 7][:size], np.uint64)
        label = f"{algorithm[4:]}_{size}"
        for n, dims in enumerate(SHAPES):
            if thorough or algorithm != "rng_default":
                yield _bits(f"{label}_{n}", algorithm, state, "u32", dims)
        yield _bits(f"{label}_medium", algorithm, state, "u32", (1031,))
        for t in array_types("signed", "unsigned"):
            if t.bits >= 8 and (thorough or algorithm == "rng_three_fry" or t.bits in (16, 64)):
                yield _bits(f"{label}_{t}", algorithm, state, t.name, (3, 5))
        for n, ends in enumerate(([1, FULL - 1, 5], [FULL, FULL, FULL], [0, (1 << 32) - 1, 0])):
            yield _bits(f"{label}_wraps_{n}", algorithm, np.array(ends[:size], np.uint64), "u64", (9,))


def _bits(variant: str, algorithm: str, state: np.ndarray, t: str, dims: tuple[int, ...]) -> Case:
    result = f"(u64[{len(state)}], {shape(t, dims)})"
    line = f"ROOT r = {result} rng-bit-generator(p0), algorithm={algorithm}"
    return structured("rng-bit-generator", variant, line, state)
