"""dot, ragged-dot and scaled-dot: batch and contracting dimensions anywhere, sizes of zero and one, all types, mixed
types, precisions; groups of rows, of terms and of batches; scales of blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
from refxla_spec.operation import Violation
from refxla_spec.types import ELEMENT_TYPES

from .. import Case, seeded
from ..building import array_types, braces, not_finite, random_values, small_integers, structured

BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
Form = tuple[tuple[int, ...], tuple[int, ...], str]  # lhs, rhs, attributes
FORMS: tuple[Form, ...] = (
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
NOT_FINITE = {  # types, and the forms whose operands have NaN and infinities
    ("f32", "f32", "f32"): (0, 1, 3, 7, 15, 18),
    ("f64", "f64", "f64"): (7, 18),
    ("f16", "f16", "f16"): (7, 15),
    ("bf16", "bf16", "bf16"): (7, 15),
    ("f8e5m2", "f8e5m2", "f8e5m2"): (15,),
    ("f8e4m3fn", "f8e4m3fn", "f8e4m3fn"): (15,),
    ("c64", "c64", "c64"): (15,),
}


def cases(thorough: bool) -> Iterator[Case]:
    """Every form as f32; every type and mixture of types on one form; random forms."""
    for n, form in enumerate(FORMS):
        yield _dot(f"form_{n}", form, "f32", "f32", "f32")
    for t in array_types():
        for n in range(len(FORMS)) if thorough else (7,):
            yield from _if_allowed(f"{t}_{n}", FORMS[n], t.name, t.name, t.name)
    for types in MIXED:
        for n in range(len(FORMS)) if thorough else (0,):
            yield from _if_allowed(f"{'_'.join(types)}_{n}", FORMS[n], *types)
    yield from _extremes()
    for types, forms in NOT_FINITE.items():
        for n in forms:
            # the parts of complex infinities are not specified
            labels = ("nan",) if types[0] == "c64" else ("nan", "inf")
            yield from not_finite(_dot(f"{types[0]}_{n}", FORMS[n], *types), labels)
    for precision in ("default,default", "high,high", "highest,highest", "default,highest"):
        lhs, rhs, attributes = FORMS[0]
        more = f"{attributes}, operand_precision={{{precision}}}"
        yield _dot(f"precision_{precision.replace(',', '_')}", (lhs, rhs, more), "f32", "f32", "f32")
    for n in range(400 if thorough else 24):
        yield _random(n)
    yield from _ragged()
    yield from _scaled()


def _if_allowed(variant: str, form: Form, lhs_type: str, rhs_type: str, result: str) -> Iterator[Case]:
    """The case, or none: not all mixtures of types are allowed."""
    with contextlib.suppress(Violation):
        yield _dot(variant, form, lhs_type, rhs_type, result)


def _dot(variant: str, form: Form, lhs_type: str, rhs_type: str, result: str) -> Case:
    lhs, rhs, attributes = form
    rng = seeded(f"dot/{variant}")
    a, b = random_values(rng, lhs_type, lhs), random_values(rng, rhs_type, rhs)
    line = f"ROOT r = _{result} dot(p0, p1){', ' if attributes else ''}{attributes}"
    return structured("dot", variant, line, a, b)


def _extremes() -> Iterator[Case]:
    """Extreme 8-bit integers: two products do not fit 16 bits, and many do not fit the result."""
    for n, types in enumerate((("u8", "s8", "s32"), ("s8", "s8", "s32"), ("u8", "u8", "s32"), ("s8", "s8", "s8"))):
        rng = seeded(f"dot/extremes_{n}")
        limits = [np.iinfo(ELEMENT_TYPES[t].array_dtype) for t in types[:2]]
        ends = [np.array((i.min, i.max), i.dtype) for i in limits]
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
        place = rng.permutation(len(sizes))  # the position of each dimension
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


RAGGED = (  # lhs, rhs, sizes of groups (an empty one among them), attributes
    (
        (11, 7),
        (4, 7, 5),
        (3, 0, 7, 1),
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    (
        (2, 11, 7),
        (4, 2, 7, 5),
        (3, 0, 6, 1),
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, "
        "lhs_ragged_dims={1}, rhs_group_dims={0}",
    ),
    ((5, 11), (11, 6), (3, 0, 6, 1), "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}"),
    ((9, 3, 4), (9, 4, 2), (3, 6), f"{BATCHED}, lhs_ragged_dims={{0}}"),
    (
        (100, 33),
        (12, 33, 9),
        (8, 9, 7, 0, 0, 17, 1, 20, 3, 11, 5, 12),
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
)


def _ragged() -> Iterator[Case]:
    """Every form as f32, some with rows or terms that are in no group, and the first one in other types."""
    for t in ("f32", "f64", "bf16", "s32"):
        for n, (lhs, rhs, sizes, attributes) in enumerate(RAGGED if t == "f32" else RAGGED[:1]):
            rng = seeded(f"ragged-dot/{t}_{n}")
            inputs = random_values(rng, t, lhs), random_values(rng, t, rhs), np.array(sizes, np.int32)
            case = structured("ragged-dot", f"{t}_{n}", f"ROOT r = _{t} ragged-dot(p0, p1, p2), {attributes}", *inputs)
            yield case
            if t == "f32" and n in (0, 2, 3):
                yield from not_finite(case)


SCALED = (  # lhs, rhs, scale of lhs, scale of rhs: types and dimensions; result
    ("f8e4m3fn", (5, 64), "f8e4m3fn", (64, 6), "f8e8m0fnu", (5, 2), "f8e8m0fnu", (2, 6), "f32"),
    ("f8e5m2", (5, 64), "f8e4m3fn", (64, 6), "f8e8m0fnu", (5, 2), "f8e8m0fnu", (), "bf16"),
    ("f4e2m1fn", (5, 64), "f4e2m1fn", (64, 6), "f8e8m0fnu", (5, 4), "f8e8m0fnu", (4, 6), "f32"),
    ("bf16", (7, 33), "bf16", (33, 9), "f32", (7, 1), "f32", (1, 9), "f32"),
    ("f32", (7, 33), "f32", (33, 9), "f32", (), "f32", (33, 9), "f32"),
)


def _scaled() -> Iterator[Case]:
    """Scales of blocks, rows and elements, and of all of them together."""
    for n, form in enumerate(SCALED):
        rng, result = seeded(f"scaled-dot/{n}"), form[-1]
        inputs = [random_values(rng, t, dims) for t, dims in zip(form[0:8:2], form[1:8:2], strict=True)]
        line = f"ROOT r = _{result} scaled-dot(p0, p1, p2, p3), {FORMS[0][2]}"
        case = structured("scaled-dot", f"form_{n}", line, *inputs)
        yield case
        if n in (1, 3):
            yield from not_finite(case)
