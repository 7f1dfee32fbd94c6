"""Programs that are called several times: the result of a call depends on its own arguments, and on no earlier call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from .. import Case, seeded
from ..building import combiner, random_values, structured
from .control import BRANCHES, COUNTING, SWAPPING

CALLS = 3  # before the one that is checked


def cases(thorough: bool) -> Iterator[Case]:
    """Programs for every way in which results and state are kept in memory."""
    yield _again("add", "ROOT r = _ add(p0, p1)", lambda rng: (_f32(rng, 70), _f32(rng, 70)))
    for calls in (1, 2, 3):
        case = _again("add", "ROOT r = _ add(p0, p1)", lambda rng: (_f32(rng, 17), _f32(rng, 17)), f"call_{calls + 1}")
        yield replace(case, before=case.before[:calls])
    yield _again("copy", "ROOT r = _ copy(p0)", lambda rng: (_f32(rng, 3, 5),))
    add = combiner("add", "add", "f32")
    lines = "zero = f32[] constant(0)\nROOT r = _ reduce(p0, zero), dimensions={0}, to_apply=add"
    yield _again("reduce", lines, lambda rng: (_f32(rng, 33, 7),), before=add)
    lines = """d = _ dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
               n = _ negate(d)
               ROOT r = _ tuple(d, p0, n)"""
    yield _again("dot", lines, lambda rng: (_f32(rng, 17, 19), _f32(rng, 19, 18)))
    lines = "ROOT r = _ dynamic-update-slice(p0, p1, p2)"
    yield _again("dynamic-update-slice", lines, lambda rng: (_f32(rng, 9), _f32(rng, 3), _index(rng, 7)))
    lines = """ROOT r = _ scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0},
               scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"""
    yield _again(
        "scatter",
        " ".join(lines.split()),
        lambda rng: (_f32(rng, 9), rng.integers(0, 9, (5, 1)).astype(np.int32), _f32(rng, 5)),
        before=add,
    )
    lines = """zero = s32[] constant(0)
               init = (s32[], f32[4]) tuple(zero, p0)
               ROOT r = _ while(init), condition=more, body=step"""
    yield _again("while", lines, lambda rng: (_f32(rng, 4),), before=COUNTING % 3)
    lines = """zero = s32[] constant(0)
               init = (s32[], f32[3], f32[3]) tuple(zero, p0, p1)
               ROOT r = _ while(init), condition=more, body=step"""
    yield _again("while", lines, lambda rng: (_f32(rng, 3), _f32(rng, 3)), "swapping_again", SWAPPING)
    lines = "ROOT r = _ conditional(p0, p1, p2, p3), branch_computations={first, second, third}"
    yield _again(
        "conditional",
        lines,
        lambda rng: (_index(rng, 4), _f32(rng, 3), _f32(rng, 3), _f32(rng, 3)),
        before=BRANCHES,
    )
    lines = "s = _ sort(p0, p1), dimensions={0}, is_stable=true, to_apply=less\nROOT r = _ tuple(s, p0)"
    less = """less { a = f32[] parameter(0)
                     b = f32[] parameter(1)
                     c = s32[] parameter(2)
                     d = s32[] parameter(3)
                     ROOT r = pred[] compare(a, b), direction=LT }
           """
    yield _again("sort", lines, lambda rng: (_f32(rng, 20), np.arange(20, dtype=np.int32)), before=less)
    lines = "ROOT r = (u64[2], u32[5]) rng-bit-generator(p0), algorithm=rng_three_fry"
    yield _again("rng-bit-generator", lines, lambda rng: (rng.integers(0, 2**60, 2).astype(np.uint64),))
    lines = """low = f32[] constant(0)
               n = f32[6] rng(low, p0), distribution=rng_uniform
               ROOT r = _ add(n, p1)"""
    yield _again("rng", lines, lambda rng: (np.float32(rng.integers(1, 9)), _f32(rng, 6)))


def _f32(rng: np.random.Generator, *dimensions: int) -> np.ndarray:
    return random_values(rng, "f32", dimensions)


def _index(rng: np.random.Generator, below: int) -> np.ndarray:
    return np.asarray(rng.integers(0, below), np.int32)


def _again(
    opcode: str,
    lines: str,
    draw: Callable[[np.random.Generator], Sequence[np.ndarray | np.float32]],
    variant: str = "again",
    before: str = "",
) -> Case:
    """The case, with other arguments for each of the earlier calls: all elements differ, then only the last element of
    each array, then one in the middle, then the order of the elements."""
    *earlier, last = (tuple(np.asarray(v) for v in draw(seeded(f"calls/{opcode}/{n}"))) for n in range(CALLS + 1))
    other = earlier[0]
    for change in (_but_the_last, _but_the_middle, _reversed):
        earlier.append(tuple(change(v, o) for v, o in zip(last, other, strict=True)))
    return replace(structured(opcode, variant, lines, *last, before=before), before=tuple(earlier))


def _but_the_last(value: np.ndarray, other: np.ndarray) -> np.ndarray:
    return _with_one_of(value, other, -1)


def _but_the_middle(value: np.ndarray, other: np.ndarray) -> np.ndarray:
    return _with_one_of(value, other, value.size // 2)


def _with_one_of(value: np.ndarray, other: np.ndarray, place: int) -> np.ndarray:
    """The array with one of its elements from the other; scalars stay, since they are often indices."""
    changed: np.ndarray = value.copy()
    if value.ndim:
        changed.reshape(-1)[place] = other.reshape(-1)[place]
    return changed


def _reversed(value: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The same elements in reverse order."""
    return np.array(np.flip(value))
