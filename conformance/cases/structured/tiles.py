"""Arrays of one to five dimensions and some thousand to forty thousand elements, for whatever moves elements: there are
full tiles, blocks and vectors, and partial ones at the end of every dimension. The arrays of ranks.py and of most other
files fit into one tile. No size here is a multiple of a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from math import prod

import numpy as np

from .. import Case, seeded
from ..building import braces, combiner, comparator, random_values, several, shape, small_integers, structured

Dims = tuple[int, ...]

ARRAYS: dict[int, Dims] = {1: (20011,), 2: (131, 241), 3: (17, 33, 65), 4: (3, 11, 40, 29), 5: (2, 3, 8, 9, 41)}
# Which rank in which type: every rank in f32, and types of one byte, two and eight.
TYPED = (*((rank, "f32") for rank in ARRAYS), (4, "s8"), (3, "bf16"), (3, "f64"))
REARRANGED = (*TYPED, (5, "s8"), (2, "c128"), (4, "c128"))
ORDERS: dict[int, tuple[Dims, ...]] = {
    2: ((1, 0),),
    3: ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)),
    4: ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 3, 2)),
    5: ((0, 2, 1, 3, 4), (0, 2, 3, 4, 1), (4, 3, 2, 1, 0), (1, 0, 4, 2, 3)),
}
IMAGES = (  # with as many rows as columns
    ("nchw_to_nhwc", (2, 19, 21, 21), (0, 2, 3, 1)),
    ("nhwc_to_nchw", (2, 21, 21, 19), (0, 3, 1, 2)),
    ("nchw_to_hwcn", (3, 37, 13, 13), (2, 3, 1, 0)),
    ("heads", (2, 33, 5, 37), (0, 2, 1, 3)),  # of attention: batch, position, head, feature
    ("keys", (2, 33, 5, 37), (0, 2, 3, 1)),
)
PERMUTED = (  # each array in all orders of its dimensions
    ("unequal", (2, 5, 3, 7)),
    ("nchw_square", (2, 3, 6, 6)),
    ("nhwc_square", (2, 6, 6, 3)),
    ("cube", (4, 4, 4, 4)),
    ("unequal_3", (5, 3, 7)),
    ("cube_3", (5, 5, 5)),
)


def cases(thorough: bool) -> Iterator[Case]:
    """Movement of each rank and type, transposes of images, all permutations, elementwise operations."""
    for rank, t in REARRANGED:
        yield from _rearranged(f"tiles_{rank}_{t}", t, ARRAYS[rank])
    for rank, t in TYPED:
        dims, variant = ARRAYS[rank], f"tiles_{rank}_{t}"
        yield from _resized(variant, t, dims)
        yield from _indexed(variant, t, dims)
        yield from _reshaped(variant, t, dims)
        yield from _updated(variant, t, dims)
    for rank, dims in ARRAYS.items():
        yield from _elementwise(f"tiles_{rank}", dims)
    yield from _images()
    yield from _permutations()
    yield _elements()


def _some(dims: Dims) -> list[int]:
    """The first dimension, one in the middle, the last."""
    return sorted({0, len(dims) // 2, len(dims) - 1})


def _rearranged(variant: str, t: str, dims: Dims) -> Iterator[Case]:
    rng, rank = seeded(f"tiles/rearranged/{variant}"), len(dims)
    x = random_values(rng, t, dims)
    lines = [f"_ transpose(p0), dimensions={braces(order)}" for order in ORDERS.get(rank, ())]
    if lines:
        yield several("transpose", variant, lines, x)
    turned = list(dict.fromkeys(((rank - 1,), tuple(range(rank)), tuple(range(0, rank, 2)))))
    yield several("reverse", variant, [f"_ reverse(p0), dimensions={braces(ds)}" for ds in turned], x)
    yield structured("copy", variant, "ROOT r = _ copy(p0)", x)
    others = [random_values(rng, t, (*dims[:d], dims[d] // 2 + 1, *dims[d + 1 :])) for d in _some(dims)]
    lines = [f"_ concatenate(p0, p{n + 1}, p0), dimensions={{{d}}}" for n, d in enumerate(_some(dims))]
    yield several("concatenate", variant, lines, x, *others)


def _resized(variant: str, t: str, dims: Dims) -> Iterator[Case]:
    """Slices that begin after the first element and end with the last one; padding; broadcasts."""
    rng, rank = seeded(f"tiles/resized/{variant}"), len(dims)
    x = random_values(rng, t, dims)
    ends = [f"[{int(n > 2)}:{n}]" for n in dims]
    strided = [*ends[:-1], f"[1:{dims[-1]}:2]"]
    yield several("slice", variant, [f"_ slice(p0), slice={{{', '.join(q)}}}" for q in (ends, strided)], x)
    around = "x".join(["1_2"] * rank)
    apart = "x".join(["0_1_1", *["-1_0"] * (rank - 1)][::-1])
    lines = [f"_ pad(p0, p1), padding={padding}" for padding in (around, apart)]
    yield several("pad", variant, lines, x, random_values(rng, t))
    kept = list(dict.fromkeys(((), (0,), (rank - 1,), tuple(range(0, rank, 2)), tuple(range(1, rank)))))
    inputs = [random_values(rng, t, [dims[d] for d in ds]) for ds in kept]
    lines = [f"{shape(t, dims)} broadcast(p{n}), dimensions={braces(ds)}" for n, ds in enumerate(kept)]
    yield several("broadcast", variant, lines, *inputs)


def _reshaped(variant: str, t: str, dims: Dims) -> Iterator[Case]:
    rng, size = seeded(f"tiles/reshaped/{variant}"), prod(dims)
    x = random_values(rng, t, dims)
    results = list(dict.fromkeys(((size,), dims[::-1], (1, *dims, 1), (dims[0], size // dims[0]))))
    for opcode in ("reshape", "bitcast"):
        yield several(opcode, variant, [f"{shape(t, d)} {opcode}(p0)" for d in results], x)
    yield several("iota", variant, [f"{shape(t, dims)} iota(), iota_dimension={d}" for d in range(len(dims))])


def _indexed(variant: str, t: str, dims: Dims) -> Iterator[Case]:
    """Slices with computed starts, and permuted rows of some dimensions, some of them repeated."""
    rng, rank = seeded(f"tiles/indexed/{variant}"), len(dims)
    x, sizes = random_values(rng, t, dims), [max(1, n - 1) for n in dims]
    starts = [np.array(int(n > 2), np.int32) for n in dims]
    names = "".join(f", p{d + 1}" for d in range(rank))
    line = f"ROOT r = _ dynamic-slice(p0{names}), dynamic_slice_sizes={braces(sizes)}"
    yield structured("dynamic-slice", variant, line, x, *starts)
    places = [rng.integers(-1, dims[d] + 1, dims[d]).astype(np.int32) for d in _some(dims)]
    lines = []
    for n, d in enumerate(_some(dims)):
        rest = [k for k in range(rank) if k != d]
        one = braces([1 if k == d else m for k, m in enumerate(dims)])
        lines.append(f"_ gather(p0, p{n + 1}), offset_dims={braces(rest)}, collapsed_slice_dims={{{d}}}, "
                     f"start_index_map={{{d}}}, index_vector_dim=1, slice_sizes={one}")  # fmt: skip
    yield several("gather", variant, lines, x, *places)


def _updated(variant: str, t: str, dims: Dims) -> Iterator[Case]:
    """A block that reaches the last element, and rows that are added, some of them repeated."""
    rng, rank = seeded(f"tiles/updated/{variant}"), len(dims)
    x, u = small_integers(rng, t, dims), random_values(rng, t, [max(1, n - 1) for n in dims])
    starts = [np.array(int(n > 2), np.int32) for n in dims]
    names = "".join(f", p{d + 2}" for d in range(rank))
    yield structured("dynamic-update-slice", variant, f"ROOT r = _ dynamic-update-slice(p0, p1{names})", x, u, *starts)
    inputs, lines = [x], []
    for d in _some(dims):
        rest, first = [k for k in range(rank) if k != d], len(inputs)
        inputs += [rng.integers(0, dims[d], dims[d]).astype(np.int32), small_integers(rng, t, dims)]
        lines.append(f"_ scatter(p0, p{first}, p{first + 1}), update_window_dims={braces(rest)}, "
                     f"inserted_window_dims={{{d}}}, scatter_dims_to_operand_dims={{{d}}}, index_vector_dim=1, "
                     f"to_apply=add")  # fmt: skip
    yield several("scatter", variant, lines, *inputs, before=combiner("add", "add", t))


def _elements() -> Case:
    """An array of three dimensions whose elements are looked up individually."""
    rng, dims = seeded("tiles/elements"), ARRAYS[3]
    table, at = random_values(rng, "f32", (31, 41)), rng.integers(-1, 42, (*dims, 2)).astype(np.int32)
    line = """ROOT r = _ gather(p0, p1), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},
              index_vector_dim=3, slice_sizes={1,1}"""
    return structured("gather", "tiles_elements", " ".join(line.split()), table, at)


def _images() -> Iterator[Case]:
    """The transposes of images and of attention, each by itself."""
    for t in ("f32", "bf16"):
        for label, dims, order in IMAGES:
            x = random_values(seeded(f"tiles/images/{label}"), t, dims)
            line = f"ROOT r = _ transpose(p0), dimensions={braces(order)}"
            yield structured("transpose", f"{label}_{t}", line, x)


def _permutations() -> Iterator[Case]:
    """Each element is a different number, so that all orders are distinguished."""
    for label, dims in PERMUTED:
        x = seeded(f"tiles/permutations/{label}").permutation(prod(dims)).astype(np.int32).reshape(dims)
        orders = permutations(range(len(dims)))
        lines = [f"_ transpose(p0), dimensions={braces(order)}" for order in orders]
        yield several("transpose", f"permutations_{label}", lines, x)


def _elementwise(variant: str, dims: Dims) -> Iterator[Case]:
    rng = seeded(f"tiles/elementwise/{variant}")
    x, y, row = (random_values(rng, "f32", d) for d in (dims, dims, dims[-1:]))
    spread = f"b = {shape('f32', dims)} broadcast(p1), dimensions={{{len(dims) - 1}}}\n"
    yield structured("multiply", variant, f"{spread}ROOT r = _ multiply(p0, b)", x, row)
    yield structured("select", variant, "ROOT r = _ select(p0, p1, p2)", random_values(rng, "pred", dims), x, y)
    yield structured("compare", variant, f"ROOT r = {shape('pred', dims)} compare(p0, p1), direction=LT", x, y)
    yield structured("convert", variant, f"ROOT r = {shape('bf16', dims)} convert(p0)", x)
    yield structured("bitcast-convert", variant, f"ROOT r = {shape('u8', (*dims, 4))} bitcast-convert(p0)", x)
    yield structured("clamp", variant, "ROOT r = _ clamp(p0, p1, p2)", np.float32(-0.5), x, np.float32(0.5))
    line = f"ROOT r = _ map(p0, p1), dimensions={braces(range(len(dims)))}, to_apply=below"
    yield structured("map", variant, line, x, y, before=comparator("below", "LT", "f32"))
