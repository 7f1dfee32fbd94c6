"""Operations that move elements, for each element width except four bytes and each rank up to five: a loop that moves
bytes, words or halves of a byte differs for each width, and so does its remainder. No size is a multiple of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .. import Case, seeded
from ..building import braces, random_values, several, shape

Dims = tuple[int, ...]
Lines = tuple[list[np.ndarray], list[str]]  # inputs in addition to the arrays, and a line for each array

TYPES = ("s4", "s8", "f16", "f64", "c128")  # four bits, one byte, two, eight, sixteen; f32 has tiles.py
ARRAYS: tuple[Dims, ...] = ((1009,), (13, 37), (5, 7, 19), (3, 4, 5, 11), (2, 3, 4, 5, 7))
FIRST = len(ARRAYS)  # the first parameter after the arrays


def cases(thorough: bool) -> Iterator[Case]:
    """For each operation and type a program with one result for each rank."""
    for t in TYPES:
        for opcode, program in PROGRAMS.items():
            rng = seeded(f"widths/{opcode}/{t}")
            arrays = [random_values(rng, t, dims) for dims in ARRAYS]
            more, lines = program(rng, t)
            yield several(opcode, f"widths_{t}", lines, *arrays, *more)


def _attributes(opcode: str, attributes: Callable[[Dims], str]) -> Callable[[np.random.Generator, str], Lines]:
    """An operation of one array, whose attributes follow from its dimensions."""
    return lambda rng, t: ([], [f"_ {opcode}(p{n}), {attributes(dims)}" for n, dims in enumerate(ARRAYS)])


def _inner(dims: Dims) -> str:
    """A slice without the first and the last elements, with every second one of the last dimension."""
    return f"slice={{{', '.join(f'[1:{d - 1}:{1 + (n == len(dims) - 1)}]' for n, d in enumerate(dims))}}}"


def _copies(rng: np.random.Generator, t: str) -> Lines:
    return [], [f"_ copy(p{n})" for n in range(FIRST)]


def _reshapes(rng: np.random.Generator, t: str) -> Lines:
    return [], [f"{shape(t, dims[::-1] + (1,))} reshape(p{n})" for n, dims in enumerate(ARRAYS)]


def _broadcasts(rng: np.random.Generator, t: str) -> Lines:
    """Along a new last dimension, and along a new first one."""
    pairs = list(enumerate(ARRAYS))
    lines = [f"{shape(t, (*d, 5))} broadcast(p{n}), dimensions={braces(range(len(d)))}" for n, d in pairs]
    lines += [f"{shape(t, (3, *d))} broadcast(p{n}), dimensions={braces(range(1, len(d) + 1))}" for n, d in pairs]
    return [], lines


def _pads(rng: np.random.Generator, t: str) -> Lines:
    lines = [f"_ pad(p{n}, p{FIRST}), padding={'x'.join(['-1_3', '2_1_1', '1_2', '1_-2', '0_1'][: len(dims)][::-1])}"
             for n, dims in enumerate(ARRAYS)]  # fmt: skip
    return [random_values(rng, t)], lines


def _concatenates(rng: np.random.Generator, t: str) -> Lines:
    """Along the first and the last dimension, with a part of another size in between."""
    more: list[np.ndarray] = []
    lines = []
    for n, dims in enumerate(ARRAYS):
        for d in sorted({0, len(dims) - 1}):
            lines.append(f"_ concatenate(p{n}, p{FIRST + len(more)}, p{n}), dimensions={{{d}}}")
            more.append(random_values(rng, t, (*dims[:d], 3, *dims[d + 1 :])))
    return more, lines


def _starts(dims: Dims) -> tuple[list[np.ndarray], Sequence[int]]:
    """Where blocks start, one of them out of range, and the size of such a block."""
    starts = [np.array(1 if n else 9999, np.int32) for n in range(len(dims))]
    return starts, [max(1, d - 2) for d in dims]


def _dynamic_slices(rng: np.random.Generator, t: str) -> Lines:
    more: list[np.ndarray] = []
    lines = []
    for n, dims in enumerate(ARRAYS):
        starts, sizes = _starts(dims)
        names = ", ".join(f"p{FIRST + len(more) + k}" for k in range(len(starts)))
        lines.append(f"_ dynamic-slice(p{n}, {names}), dynamic_slice_sizes={braces(sizes)}")
        more += starts
    return more, lines


def _updates(rng: np.random.Generator, t: str) -> Lines:
    more: list[np.ndarray] = []
    lines = []
    for n, dims in enumerate(ARRAYS):
        starts, sizes = _starts(dims)
        names = ", ".join(f"p{FIRST + len(more) + k}" for k in range(len(starts) + 1))
        lines.append(f"_ dynamic-update-slice(p{n}, {names})")
        more += [random_values(rng, t, sizes), *starts]
    return more, lines


def _gathers(rng: np.random.Generator, t: str) -> Lines:
    """Permuted rows, some repeated, and elements of the last dimension likewise."""
    more: list[np.ndarray] = []
    lines = []
    for n, dims in enumerate(ARRAYS):
        for d in sorted({0, len(dims) - 1}):
            one = braces([1 if k == d else m for k, m in enumerate(dims)])
            rest = braces([k for k in range(len(dims)) if k != d])
            lines.append(f"_ gather(p{n}, p{FIRST + len(more)}), offset_dims={rest}, collapsed_slice_dims={{{d}}}, "
                         f"start_index_map={{{d}}}, index_vector_dim=1, slice_sizes={one}")  # fmt: skip
            more.append(rng.integers(-1, dims[d] + 1, dims[d] + 2).astype(np.int32))
    return more, lines


def _selects(rng: np.random.Generator, t: str) -> Lines:
    """Between an array and another one."""
    more = [random_values(rng, kind, dims) for dims in ARRAYS for kind in ("pred", t)]
    return more, [f"_ select(p{FIRST + 2 * n}, p{n}, p{FIRST + 2 * n + 1})" for n in range(FIRST)]


PROGRAMS: dict[str, Callable[[np.random.Generator, str], Lines]] = {
    "copy": _copies,
    "reshape": _reshapes,
    "broadcast": _broadcasts,
    "reverse": _attributes("reverse", lambda dims: f"dimensions={braces(range(0, len(dims), 2))}"),
    "transpose": _attributes("transpose", lambda dims: f"dimensions={braces(range(len(dims))[::-1])}"),
    "slice": _attributes("slice", _inner),
    "pad": _pads,
    "concatenate": _concatenates,
    "dynamic-slice": _dynamic_slices,
    "dynamic-update-slice": _updates,
    "gather": _gathers,
    "select": _selects,
}
