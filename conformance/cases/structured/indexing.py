"""gather, scatter, dynamic-slice and dynamic-update-slice: indices inside, outside, repeated, of every integer type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from refxla_spec.types import ELEMENT_TYPES, ElementType

from .. import Case, seeded
from ..building import (
    Program,
    array_types,
    braces,
    by_type,
    combiner,
    comparator,
    not_finite,
    random_values,
    several,
    small_integers,
    structured,
)

GATHERS = (  # operand, indices, attributes
    (
        (5, 3),
        (4,),
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    ),
    (
        (5, 3),
        (4, 1),
        "offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    ),
    (
        (5, 6),
        (2, 3),
        "offset_dims={1,2}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,3}",
    ),
    (
        (5, 6),
        (3, 2),
        "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
    ),
    (
        (4, 5, 6),
        (2, 3, 2),
        "offset_dims={1,3}, collapsed_slice_dims={1}, start_index_map={0,2}, index_vector_dim=2, slice_sizes={2,1,3}",
    ),
    (
        (7,),
        (),
        "offset_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={3}",
    ),
    (
        (3, 4, 5),
        (3, 2),
        "offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
        "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,5}",
    ),
    (
        (2, 3, 4),
        (3, 2, 1),
        "offset_dims={2}, start_index_map={2}, operand_batching_dims={0,1}, "
        "start_indices_batching_dims={1,0}, index_vector_dim=2, slice_sizes={1,1,2}",
    ),
    (
        (5, 3),
        (0,),
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    ),
    (
        (5, 3),
        (4,),
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,0}",
    ),
    (
        (5, 3),
        (4, 0),
        "offset_dims={1,2}, start_index_map={}, index_vector_dim=1, slice_sizes={2,3}",
    ),
    (
        (2, 3, 2, 3, 2, 2),
        (2, 2),
        "offset_dims={1,2,3}, collapsed_slice_dims={0,2,4}, start_index_map={0,3}, index_vector_dim=1, "
        "slice_sizes={1,3,1,2,1,2}",
    ),
)

SCATTERS = (  # operand, indices, updates, attributes
    (
        (5, 3),
        (4,),
        (4, 3),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    (
        (5, 3),
        (4, 1),
        (3, 4),
        "update_window_dims={0}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    (
        (5, 6),
        (2, 3),
        (3, 2, 3),
        "update_window_dims={1,2}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0",
    ),
    (
        (5, 6),
        (9, 2),
        (9,),
        "inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1",
    ),
    (
        (7,),
        (),
        (3,),
        "update_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0",
    ),
    (
        (7,),
        (9,),
        (9,),
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    (
        (3, 4, 5),
        (3, 2),
        (3, 2, 5),
        "update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
        "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2",
    ),
    (
        (2, 3, 4),
        (3, 2, 1),
        (3, 2, 2),
        "update_window_dims={2}, scatter_dims_to_operand_dims={2}, input_batching_dims={0,1}, "
        "scatter_indices_batching_dims={1,0}, index_vector_dim=2",
    ),
    (
        (5, 3),
        (0,),
        (0, 3),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    (
        (4, 5, 6),
        (2, 2),
        (2, 2, 3),
        "update_window_dims={1,2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={0,2}, index_vector_dim=1",
    ),
)

SECOND = "op {{ a = {0}[] parameter(0)\n  ROOT b = {0}[] parameter(1) }}\n"
LINEAR = """op {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] constant(2)
  d = f32[] multiply(b, c)
  ROOT e = f32[] add(a, d)
}
"""
BOTH = """op {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  c = f32[] maximum(a, b)
  k = s32[] add(i, j)
  ROOT r = (f32[], s32[]) tuple(c, k)
}
"""


def cases(thorough: bool) -> Iterator[Case]:
    """gather, scatter, then the dynamic slices."""
    yield from _gathers(thorough)
    yield from _scatters(thorough)
    yield from _dynamic(thorough)
    yield from _far()
    yield from _leaving()
    yield from _used_again()
    yield from _without_elements()


def _without_elements() -> Iterator[Case]:
    """Several index vectors without elements: each reads, or is combined into, the same place of its batch."""
    rng = seeded("without elements")
    x, y, rows = (random_values(rng, "f32", dims) for dims in ((2, 7), (2,), (2, 2, 7)))
    constants = "i = s32[2,0] constant({ {}, {} })\n"
    batched = "input_batching_dims={0}, scatter_indices_batching_dims={0}"
    last = "scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=op"
    lines = [
        f"_ scatter(p0, i, p1), update_window_dims={{}}, inserted_window_dims={{1}}, {batched}, {last}",
        f"_ scatter(p0, i, p2), update_window_dims={{1,2}}, inserted_window_dims={{}}, {last}",
    ]
    yield several(
        "scatter", "without_elements", lines, x, y, rows, before=combiner("op", "add", "f32"), constants=constants
    )
    batched = "operand_batching_dims={0}, start_indices_batching_dims={0}"
    last = "start_index_map={}, index_vector_dim=1"
    lines = [
        f"_ gather(p0, i), offset_dims={{1}}, collapsed_slice_dims={{}}, {batched}, {last}, slice_sizes={{1,3}}",
        f"_ gather(p0, i), offset_dims={{1,2}}, collapsed_slice_dims={{}}, {last}, slice_sizes={{2,7}}",
    ]
    yield several("gather", "without_elements", lines, x, constants=constants)


def _leaving() -> Iterator[Case]:
    """Slices of several elements that exceed the array: their starts are clamped."""
    rng = seeded("leaving")
    x, y = random_values(rng, "f32", (10,)), random_values(rng, "f32", (5, 7))
    at = np.array([-3, 0, 5, 6, 7, 8, 9, 10, 99, -1], np.int32)
    both = np.stack([at, at[::-1]], axis=1)
    lines = [
        "_ gather(p0, p2), offset_dims={1}, start_index_map={0}, index_vector_dim=1, slice_sizes={4}",
        "_ gather(p1, p3), offset_dims={1,2}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,3}",
        "_ gather(p1, p2), offset_dims={1,2}, start_index_map={1}, index_vector_dim=1, slice_sizes={5,4}",
    ]
    yield several("gather", "leaving", lines, x, y, at[:, None].copy(), both)


def _used_again() -> Iterator[Case]:
    """Updates that could be done in place of an operand that is not a parameter, and that is needed afterwards."""
    rng = seeded("used_again")
    x, u = random_values(rng, "f32", (9,)), random_values(rng, "f32", (4,))
    at = np.array([[7], [1], [1], [0]], np.int32)
    before = combiner("op", "add", "f32") + comparator("before", "LT", "f32")
    each = {
        "scatter": "_ scatter(y, p2, p1), inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=op",
        "sort": "_ sort(y), dimensions={0}, to_apply=before",
        "reverse": "_ reverse(y), dimensions={0}",
        "dynamic-update-slice": "_ dynamic-update-slice(y, p1, k)",
    }
    for opcode, line in each.items():
        lines = f"k = s32[] constant(2)\ny = f32[9] negate(p0)\nz = {line}\nw = f32[9] add(y, z)\n"
        yield structured(opcode, "used_again", f"{lines}ROOT r = _ tuple(w, y, z)", x, u, at, before=before)


def _far() -> Iterator[Case]:
    """Indices of more than 8 bits, and of more than 16."""
    for n, t in ((301, "u16"), (301, "s16"), (70_001, "s32"), (70_001, "u64")):
        rng = seeded(f"far/{n}_{t}")
        counted = f"x = s32[{n}] iota(), iota_dimension=0\n"
        i = np.array([n - 1, 255, 256, 257, *rng.integers(0, n, 37)], ELEMENT_TYPES[t].dtype)
        line = "_ gather(x, p0), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        yield several("gather", f"far_{n}_{t}", [line + "slice_sizes={1}"], i, constants=counted)
        starts = [i[k].reshape(()) for k in (0, 2, 5, 9)]
        lines = [f"_ dynamic-slice(x, p{k}), dynamic_slice_sizes={{3}}" for k in range(4)]
        yield several("dynamic-slice", f"far_{n}_{t}", lines, *starts, constants=counted)
        u = random_values(rng, "s32", (3,))
        lines = [f"_ dynamic-update-slice(x, p2, p{k})" for k in range(2)]
        yield several("dynamic-update-slice", f"far_{n}_{t}", lines, *starts[:2], u, constants=counted)
        line = "_ scatter(x, p0, p1), update_window_dims={}, inserted_window_dims={0}, "
        line += "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=op"
        updates, before = random_values(rng, "s32", i.shape), combiner("op", "add", "s32")
        yield several("scatter", f"far_{n}_{t}", [line], i, updates, before=before, constants=counted)


def _indices(rng: np.random.Generator, dims: tuple[int, ...], t: str = "s32") -> np.ndarray:
    """Indices of which about a third are out of range (small sizes are between 3 and 7), on either side if signed."""
    return small_integers(rng, t, dims, -2, 7)


def _gathers(thorough: bool) -> Iterator[Case]:
    for n, (operand, indices, attributes) in enumerate(GATHERS):
        rng = seeded(f"gather/{n}")
        x, i = random_values(rng, "f32", operand), _indices(rng, indices)
        case = structured("gather", f"form_{n}", f"ROOT r = _ gather(p0, p1), {attributes}", x, i)
        yield case
        if n in (0, 3, 4):
            yield from not_finite(case)
        if i.ndim and (thorough or n in (0, 3)):
            i = np.sort(i, axis=0)
            line = f"ROOT r = _ gather(p0, p1), {attributes}, indices_are_sorted=true"
            yield structured("gather", f"sorted_{n}", line, x, i)

    def types(t: ElementType, first: int) -> Program:
        rng = seeded(f"gather/{t}")
        inputs: list[np.ndarray] = []
        lines = []
        for operand, indices, attributes in GATHERS if thorough else GATHERS[4:5]:
            lines.append(f"_ gather(p{first + len(inputs)}, p{first + len(inputs) + 1}), {attributes}")
            inputs += [random_values(rng, t, operand), _indices(rng, indices)]
        return inputs, lines, ""

    yield from by_type("gather", "", thorough, types)
    for t in array_types("signed", "unsigned"):  # the extremes of an index's type are clamped
        if t.bits < 8:
            continue
        i = np.array([0, 1, 4, 5, 100, np.iinfo(t.dtype).max, np.iinfo(t.dtype).min], t.dtype)
        x = random_values(seeded("gather/limits"), "f32", (5, 3))
        line = f"ROOT r = _ gather(p0, p1), {GATHERS[0][2]}"
        yield structured("gather", f"limits_{t}", line, x, i)
        line = """ROOT r = _ gather(p0, p1), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
                  index_vector_dim=1, slice_sizes={1}"""
        yield structured("gather", f"scalars_{t}", " ".join(line.split()), x[:, 0].copy(), i)


def _scatters(thorough: bool) -> Iterator[Case]:
    for n, (operand, indices, updates, attributes) in enumerate(SCATTERS):
        for opcode in ("add", "second") if not thorough else ("add", "second", "multiply", "maximum", "minimum"):
            rng = seeded(f"scatter/{opcode}_{n}")
            i = _distinct(rng, indices, operand, attributes) if opcode == "second" else _indices(rng, indices)
            inputs = random_values(rng, "f32", operand), i, random_values(rng, "f32", updates)
            before = SECOND.format("f32") if opcode == "second" else combiner("op", opcode, "f32")
            more = ", unique_indices=true" if opcode == "second" else ""
            line = f"ROOT r = _ scatter(p0, p1, p2), {attributes}{more}, to_apply=op"
            case = structured("scatter", f"{opcode}_{n}", line, *inputs, before=before)
            yield case
            if n in (0, 3, 5):
                yield from not_finite(case)

    def types(t: ElementType, first: int) -> Program:
        rng = seeded(f"scatter/{t}")
        opcode = "or" if t.kind == "pred" else "maximum" if t.name == "f8e8m0fnu" else "add"
        inputs: list[np.ndarray] = []
        lines = []
        for operand, indices, updates, attributes in SCATTERS if thorough else SCATTERS[3:4]:
            names = ", ".join(f"p{first + len(inputs) + n}" for n in range(3))
            lines.append(f"_ scatter({names}), {attributes}, to_apply={opcode}_{t}")
            inputs += [random_values(rng, t, operand), _indices(rng, indices), random_values(rng, t, updates)]
        return inputs, lines, combiner(f"{opcode}_{t}", opcode, t)

    yield from by_type("scatter", "", thorough, types)
    for t in array_types("signed", "unsigned"):
        if t.bits < 8:
            continue
        i = np.array([0, 1, 4, 5, 100, np.iinfo(t.dtype).max, np.iinfo(t.dtype).min, 1, 1], t.dtype)
        rng = seeded("scatter/limits")
        x, u = random_values(rng, "f32", (7,)), random_values(rng, "f32", (9,))
        line = f"ROOT r = _ scatter(p0, p1, p2), {SCATTERS[5][3]}, to_apply=op"
        yield structured("scatter", f"limits_{t}", line, x, i, u, before=combiner("op", "add", "f32"))
    rng = seeded("scatter/more")
    operand, indices, updates, attributes = SCATTERS[0]
    x, i, u = random_values(rng, "f32", operand), _indices(rng, indices), random_values(rng, "f32", updates)
    line = f"ROOT r = _ scatter(p0, p1, p2), {attributes}, to_apply=op"
    yield structured("scatter", "linear", line, x, np.array([3, 0, 4, 1], np.int32), u, before=LINEAR)
    line = f"ROOT r = _ scatter(p0, p1, p2), {attributes}, indices_are_sorted=true, to_apply=op"
    yield structured("scatter", "sorted", line, x, np.sort(i), u, before=combiner("op", "add", "f32"))
    y, v = random_values(rng, "s32", operand), random_values(rng, "s32", updates)
    line = f"ROOT r = _ scatter(p0, p1, p2, p3, p4), {attributes}, to_apply=op"
    yield structured("scatter", "two_operands", line, x, y, i, u, v, before=BOTH)


def _distinct(rng: np.random.Generator, dims: tuple[int, ...], operand: tuple[int, ...], attributes: str) -> np.ndarray:
    """Distinct index vectors, so that the order of updates does not matter; some are out of range."""
    if "index_vector_dim=0" in attributes or "batching" in attributes or 0 in dims or not dims:
        count = dims[-1] if dims else 1
        base = np.arange(count, dtype=np.int32) * 3 if dims else np.array(2, np.int32)
        return np.array(np.broadcast_to(base, dims), np.int32)
    if len(dims) == 1 or dims[1] == 1:
        return rng.permutation(9)[: dims[0]].astype(np.int32).reshape(dims) - 1
    picks = rng.permutation(4 * operand[-1])[: dims[0]] if dims[0] > 2 else np.array([0, 2 * operand[-1] + 3])
    return np.stack([picks // operand[-1], picks % operand[-1]], axis=1).astype(np.int32)


def _dynamic(thorough: bool) -> Iterator[Case]:
    """Starts inside, at the ends, and beyond them on either side: the block is clamped."""
    starts = [np.array(v, np.int32) for v in (1, 3, -2, 9)]
    pairs = ((0, 1), (2, 0), (1, 3), (3, 2))  # which of these

    def slices(t: ElementType, n: int) -> Program:
        x = random_values(seeded(f"dynamic-slice/{t}"), t, (5, 6))
        attributes = "dynamic_slice_sizes={2,3}"
        lines = [f"_ dynamic-slice(p{n}, p{n + 1 + a}, p{n + 1 + b}), {attributes}" for a, b in pairs]
        return [x, *starts], lines, ""

    def updates(t: ElementType, n: int) -> Program:
        rng = seeded(f"dynamic-update-slice/{t}")
        x, u = random_values(rng, t, (5, 6)), random_values(rng, t, (2, 3))
        lines = [f"_ dynamic-update-slice(p{n}, p{n + 1}, p{n + 2 + a}, p{n + 2 + b})" for a, b in pairs]
        return [x, u, *starts], lines, ""

    yield from by_type("dynamic-slice", "", thorough, slices)
    yield from by_type("dynamic-update-slice", "", thorough, updates)
    for t in array_types("signed", "unsigned"):
        if t.bits < 8:
            continue
        limits = np.iinfo(t.dtype)
        rng = seeded(f"dynamic-slice/limits_{t}")
        x, u = random_values(rng, "f32", (40,)), random_values(rng, "f32", (7,))
        starts = [np.array(v, t.dtype) for v in (limits.min, limits.max, 33, 34, 5)]
        lines = [f"_ dynamic-slice(p0, p{n}), dynamic_slice_sizes={{7}}" for n in range(1, 6)]
        yield several("dynamic-slice", f"limits_{t}", lines, x, *starts)
        lines = [f"_ dynamic-update-slice(p0, p6, p{n})" for n in range(1, 6)]
        yield several("dynamic-update-slice", f"limits_{t}", lines, x, *starts, u)
    x, u = random_values(seeded("dynamic-slice/floats"), "f32", (12, 10)), random_values(rng, "f32", (2, 3))
    starts = [np.array(v, np.int32) for v in (1, 1)]
    line = "ROOT r = _ dynamic-slice(p0, p1, p2), dynamic_slice_sizes={11,9}"
    yield from not_finite(structured("dynamic-slice", "floats", line, x, *starts))
    line = "ROOT r = _ dynamic-update-slice(p0, p1, p2, p3)"
    yield from not_finite(structured("dynamic-update-slice", "floats", line, x, u, *starts))
    for n in range(60 if thorough else 10):
        rng = seeded(f"dynamic-slice/random_{n}")
        dims = tuple(int(rng.choice((1, 2, 3, 5))) for _ in range(n % 7))
        sizes = tuple(int(rng.integers(0 if n % 5 == 0 else 1, d + 1)) for d in dims)
        x, u = random_values(rng, "s32", dims), random_values(rng, "s32", sizes)
        starts = [np.array(rng.integers(-2, d + 2), np.int32) for d in dims]
        names = "".join(f", p{k + 1}" for k in range(len(dims)))
        line = f"ROOT r = _ dynamic-slice(p0{names}), dynamic_slice_sizes={braces(sizes)}"
        yield structured("dynamic-slice", f"random_{n}", line, x, *starts)
        names = "".join(f", p{k + 2}" for k in range(len(dims)))
        yield structured(
            "dynamic-update-slice", f"random_{n}", f"ROOT r = _ dynamic-update-slice(p0, p1{names})", x, u, *starts
        )
