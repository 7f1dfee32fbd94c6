"""sort and topk: comparators, ties, several operands, NaN and signed zeros, any dimension."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from refxla_spec.types import ElementType

from .. import Case, seeded
from ..building import Program, by_type, comparator, random_values, several, shape, small_integers, structured
from ..values import edges

SORTS = (
    ((7,), 0),
    ((3, 5), 1),
    ((3, 5), 0),
    ((2, 4, 3), 1),
    ((0,), 0),
    ((3, 0), 0),
    ((1,), 0),
    ((4, 0), 1),
    ((2, 1, 2, 2, 3, 2), 4),
    ((200,), 0),
    ((6, 6), 0),
    ((6, 6), 1),
)
DESCENDING_KEYS = """before {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  x = f32[] parameter(2)
  y = f32[] parameter(3)
  above = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  less = pred[] compare(x, y), direction=LT, order=TOTAL
  tie = pred[] and(same, less)
  ROOT r = pred[] or(above, tie)
}
"""
FIRST_OF_THREE = """before {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  x = f32[] parameter(2)
  y = f32[] parameter(3)
  m = u8[] parameter(4)
  n = u8[] parameter(5)
  ROOT r = pred[] compare(a, b), direction=LT
}
"""
BY_SIZE = """before {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  x = f32[] abs(a)
  y = f32[] abs(b)
  ROOT r = pred[] compare(x, y), direction=LT
}
"""


def cases(thorough: bool) -> Iterator[Case]:
    """sort, then topk."""
    for n, (dims, d) in enumerate(SORTS):
        rng = seeded(f"sort/form_{n}")
        x = small_integers(rng, "f32", dims, -20, 20)
        line = f"ROOT r = _ sort(p0), dimensions={{{d}}}, to_apply=before"
        yield structured("sort", f"form_{n}", line, x, before=comparator("before", "LT", "f32"))
        keys, second = small_integers(rng, "s32", dims), random_values(rng, "f32", dims)
        line = f"ROOT r = _ sort(p0, p1), dimensions={{{d}}}, to_apply=before"
        yield structured("sort", f"two_keys_{n}", line, keys, second, before=DESCENDING_KEYS)
        if thorough or n in (0, 2, 9):
            third = random_values(rng, "u8", dims)
            line = f"ROOT r = _ sort(p0, p1, p2), dimensions={{{d}}}, is_stable=true, to_apply=before"
            yield structured("sort", f"stable_{n}", line, keys, second, third, before=FIRST_OF_THREE)

    def types(t: ElementType, first: int) -> Program:
        table = edges(t, few=not thorough)
        x = table[seeded(f"sort/{t}").permutation(len(table))]
        order = ", order=TOTAL" if t.is_float else ""
        lines = [f"_ sort(p{first}), dimensions={{0}}, to_apply={d}_{t}" for d in ("LT", "GT")]
        return [x], lines, "\n".join(comparator(f"{d}_{t}", d, t, order) for d in ("LT", "GT")) + "\n"

    yield from by_type("sort", "", thorough, types, "pred", "signed", "unsigned", "float")
    rng = seeded("sort/by_size")
    x = small_integers(rng, "f32", (4, 9))
    line = "ROOT r = _ sort(p0), dimensions={1}, is_stable=true, to_apply=before"
    yield structured("sort", "by_size", line, x, before=BY_SIZE)
    yield from _topks(thorough)


def _topks(thorough: bool) -> Iterator[Case]:
    def types(t: ElementType, first: int) -> Program:
        rng = seeded(f"topk/{t}")
        table = edges(t, few=not thorough)
        x = np.stack([table[rng.permutation(len(table))] for _ in range(3)])
        counts = [0, 1, len(table) // 2, len(table)] if thorough else [max(1, len(table) // 2)]
        lines = []
        for k in counts:
            for largest in ("true", "false"):
                result = f"({shape(t, (3, k))}, {shape('s32', (3, k))})"
                lines.append(f"{result} topk(p{first}), k={k}, largest={largest}, is_stable=true")
        return [x], lines, ""

    yield from by_type("topk", "", thorough, types, "pred", "signed", "unsigned", "float")
    for n, dims in enumerate(((9,), (2, 3, 5), (0, 4), (3, 1))):
        x = small_integers(seeded(f"topk/ties_{n}"), "f32", dims)
        k = min(2, dims[-1])
        result = f"({shape('f32', (*dims[:-1], k))}, {shape('s32', (*dims[:-1], k))})"
        yield several("topk", f"ties_{n}", [f"{result} topk(p0), k={k}, largest=true"], x)
    yield from _long_ties()


def _long_ties() -> Iterator[Case]:
    """Rows of a few distinct numbers, so that nearly all have ties, and many are requested: an implementation may use
    another algorithm from some k or some length on."""
    for length, k in ((70, 1), (70, 20), (70, 70), (700, 33), (5000, 3), (5000, 2500)):
        x = small_integers(seeded(f"topk/long_ties/{length}"), "f32", (2, length))
        result = f"(f32[2,{k}], s32[2,{k}])"
        lines = [f"{result} topk(p0), k={k}, largest={largest}, is_stable=true" for largest in ("true", "false")]
        yield several("topk", f"ties_{k}_of_{length}", lines, x)
