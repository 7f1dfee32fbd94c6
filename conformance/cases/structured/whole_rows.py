"""Blocks that fill every dimension but one and have a computed start along that one: a row of a matrix, a position of a
cache, a frame of a buffer. A contiguous block may be copied in one piece, which is another path through an
implementation than a block that is smaller in each dimension; and operands without elements, between others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from refxla_spec.types import ElementType

from .. import Case, seeded
from ..building import Program, braces, by_type, random_values, several

ARRAYS: tuple[tuple[int, ...], ...] = ((9, 5), (6, 4, 5), (3, 7, 2, 5))
TYPES = ("s4", "s8", "bf16", "f32", "f64", "c128")  # one of each width
PARTS: tuple[tuple[int, ...], ...] = ((3, 0, 2), (0, 4, 0, 1), (2, 5, 0, 0, 3), (0, 0, 0))  # sizes along a dimension


def cases(thorough: bool) -> Iterator[Case]:
    """dynamic-slice and dynamic-update-slice of each width, then concatenates with empty operands."""
    for t in TYPES:
        yield from _moved(t)
    yield from by_type("concatenate", "_empty", thorough, _joined)


def _moved(t: str) -> Iterator[Case]:
    """Along each dimension of arrays of two to four, blocks of one and of several: at the start, inside, at the end and
    outside. Each start is a separate parameter."""
    rng = seeded(f"whole_rows/{t}")
    arrays = [random_values(rng, t, dims) for dims in ARRAYS]
    inputs: list[np.ndarray] = [*arrays, np.array(0, np.int32)]  # the last one: the start where no block moves
    slices, updates, blocks = [], [], []
    for n, dims in enumerate(ARRAYS):
        for d, size in enumerate(dims):
            for k, (count, start) in enumerate(((1, size // 2), (max(1, size - 2), 1), (1, size - 1), (1, size + 3))):
                sizes = [count if m == d else full for m, full in enumerate(dims)]
                names = ", ".join(f"p{len(inputs)}" if m == d else f"p{len(arrays)}" for m in range(len(dims)))
                inputs.append(np.array(start, np.int32))
                slices.append(f"_ dynamic-slice(p{n}, {names}), dynamic_slice_sizes={braces(sizes)}")
                if k != 2:
                    updates.append((n, names))
                    blocks.append(random_values(rng, t, sizes))
    yield several("dynamic-slice", f"whole_rows_{t}", slices, *inputs)
    first = len(inputs)
    lines = [f"_ dynamic-update-slice(p{n}, p{first + k}, {names})" for k, (n, names) in enumerate(updates)]
    yield several("dynamic-update-slice", f"whole_rows_{t}", lines, *inputs, *blocks)


def _joined(t: ElementType, first: int) -> Program:
    """Empty operands before, between and behind others, along the first and the last dimension."""
    rng = seeded(f"whole_rows/concatenate/{t}")
    inputs: list[np.ndarray] = []
    lines = []
    for parts in PARTS:
        for d, others in ((0, (3,)), (1, (2,))):
            names = ", ".join(f"p{first + len(inputs) + n}" for n in range(len(parts)))
            inputs += [random_values(rng, t, (*others[:d], size, *others[d:])) for size in parts]
            lines.append(f"_ concatenate({names}), dimensions={{{d}}}")
    return inputs, lines, ""
