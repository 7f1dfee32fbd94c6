"""dot: batch and contracting dimensions anywhere, sizes of zero and one, all types, mixed types, precisions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from refxla_spec.operation import Violation

from .. import Case, seeded
from ..building import array_types, braces, random_values, small_integers, structured

BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
FORMS = (  # lhs, rhs, attributes
    ((3, 4), (4, 5), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ((4, 3), (5, 4), "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
    ((7,), (7,), "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    ((5, 7), (7,), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ((2, 3), (4,), ""),
    ((), (), ""),
    ((), (3, 2), ""),
    (
        (2, 3, 4),
        (2, 4, 5),
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    ((2, 3), (2, 3), "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}"),
    ((2, 3), (3, 2), "lhs_batch_dims={1,0}, rhs_batch_dims={0,1}"),
    (
        (3, 2, 4),
        (4, 2, 3),
        "lhs_batch_dims={1,0}, rhs_batch_dims={1,2}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    (
        (2, 3, 4, 5),
        (5, 2, 6, 4),
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2,3}, rhs_contracting_dims={3,0}",
    ),
    ((2, 0), (0, 3), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ((0, 3), (3, 2), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ((1, 1), (1, 1), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ((17, 33), (33, 9), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ((19, 5, 24), (16, 5, 24), "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,2}"),
    ((5, 19, 8), (5, 16, 8), "lhs_contracting_dims={0,2}, rhs_contracting_dims={0,2}"),
    (
        (2, 70, 65),
        (2, 65, 40),
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
)

MIXED = (  # lhs, rhs, result
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s4", "s8", "s32"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("bf16", "f32", "f32"),
    ("f32", "f32", "f64"),
    ("f8e4m3fn", "f8e5m2", "f32"),
    ("f8e4m3fn", "f8e4m3fn", "bf16"),
    ("s32", "f32", "f32"),
    ("f32", "c64", "c64"),
    ("pred", "pred", "s32"),
    ("f32", "f32", "bf16"),
)


def cases(thorough: bool) -> Iterator[Case]:
    """Every form as f32; every type and mixture of types on one form; random forms."""
    for n, form in enumerate(FORMS):
        yield _dot(f"form_{n}", form, "f32", "f32", "f32")
    for t in array_types():
        for n in range(len(FORMS)) if thorough else (7,):
            made = _dot(f"{t}_{n}", FORMS[n], t.name, t.name, t.name)
            if made:
                yield made
    for types in MIXED:
        for n in range(len(FORMS)) if thorough else (0,):
            made = _dot(f"{'_'.join(types)}_{n}", FORMS[n], *types)
            if made:
                yield made
    yield from _extremes()
    for precision in ("default,default", "high,high", "highest,highest", "default,highest"):
        lhs, rhs, attributes = FORMS[0]
        more = f"{attributes}, operand_precision={{{precision}}}"
        yield _dot(f"precision_{precision.replace(',', '_')}", (lhs, rhs, more), "f32", "f32", "f32")
    for n in range(400 if thorough else 24):
        yield _random(n)


def _dot(variant: str, form: tuple, lhs_type: str, rhs_type: str, result: str) -> Case | None:
    lhs, rhs, attributes = form
    rng = seeded(f"dot/{variant}")
    a, b = random_values(rng, lhs_type, lhs), random_values(rng, rhs_type, rhs)
    line = f"ROOT r = _{result} dot(p0, p1){', ' if attributes else ''}{attributes}"
    try:
        return structured("dot", variant, line, a, b)
    except Violation:
        return None  # not all mixtures of types are allowed


def _extremes() -> Iterator[Case]:
    """Integers of 8 bits at their ends: two products do not fit 16 bits, and many do not fit the result."""
    for n, types in enumerate((("u8", "s8", "s32"), ("s8", "s8", "s32"), ("u8", "u8", "s32"), ("s8", "s8", "s8"))):
        rng = seeded(f"dot/extremes_{n}")
        ends = [
            np.array((np.iinfo(t).min, np.iinfo(t).max), t) for t in map(dict(u8="uint8", s8="int8").get, types[:2])
        ]
        a, b = (rng.choice(e, dims) for e, dims in zip(ends, ((7, 24), (24, 5)), strict=True))
        line = f"ROOT r = _{types[2]} dot(p0, p1), {FORMS[0][2]}"
        yield structured("dot", f"extremes_{'_'.join(types)}", line, a, b)


def _random(n: int) -> Case:
    """Any number of batch, contracting and free dimensions, each anywhere."""
    rng = seeded(f"dot/random_{n}")
    batch, contracting, left, right = (
        [int(rng.integers(0, 5)) or 1 for _ in range(rng.integers(0, 3))] for _ in range(4)
    )
    if n % 8 == 0 and contracting:
        contracting[0] = 0
    arrays, lists = [], []
    for free in (left, right):
        sizes = [*batch, *contracting, *free]
        place = rng.permutation(len(sizes))  # the dimension that each lies at
        dims = [0] * len(sizes)
        for size, at in zip(sizes, place, strict=True):
            dims[at] = size
        arrays.append(dims)
        lists.append(([int(p) for p in place[: len(batch)]], [int(p) for p in place[len(batch) :][: len(contracting)]]))
    t = ("f32", "s32", "f64", "bf16", "c64", "f16", "u8", "pred")[n % 8]
    values = small_integers if t in ("s32", "pred") else random_values
    (lb, lc), (rb, rc) = lists
    line = (
        f"ROOT r = _{t} dot(p0, p1), lhs_batch_dims={braces(lb)}, lhs_contracting_dims={braces(lc)}, "
        f"rhs_batch_dims={braces(rb)}, rhs_contracting_dims={braces(rc)}"
    )
    inputs: list[np.ndarray] = [values(rng, t, dims) for dims in arrays]
    return structured("dot", f"random_{n}", line, *inputs)
