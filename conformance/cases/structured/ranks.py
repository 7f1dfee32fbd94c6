"""Arrays of seven and of nine dimensions, for every operation that takes any number of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import Case, seeded
from ..building import combiner, comparator, random_values, several, structured
from .algebra import positive

SEVEN = (2, 1, 3, 2, 2, 1, 3)
NINE = (1, 2, 2, 1, 3, 2, 1, 2, 2)
BOTH = (("rank_7", SEVEN, (4, 6, 0, 2, 5, 3, 1)), ("rank_9", NINE, (8, 2, 0, 5, 7, 3, 1, 4, 6)))


def cases(thorough: bool) -> Iterator[Case]:
    """Elementwise operations, movement, indexing, then sums and products."""
    for variant, dims, order in BOTH:
        yield from _elementwise(variant, dims)
        yield from _movement(variant, dims, order)
        yield from _indexing(variant, dims)
        yield from _reductions(variant, dims)
        yield from _rows(variant, dims)
    yield from _products()
    yield from _algebra()


def _text(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _elementwise(variant: str, dims: tuple[int, ...]) -> Iterator[Case]:
    rng, d = seeded(f"ranks/elementwise/{variant}"), _text(dims)
    x, y = random_values(rng, "f32", dims), random_values(rng, "f32", dims)
    yield structured("add", variant, "ROOT r = _ add(p0, p1)", x, y)
    yield structured("exponential", variant, "ROOT r = _ exponential(p0)", x)
    yield structured("compare", variant, f"ROOT r = pred[{d}] compare(p0, p1), direction=LT", x, y)
    which = random_values(rng, "pred", dims)
    yield structured("select", variant, "ROOT r = _ select(p0, p1, p2)", which, x, y)
    low, high = np.float32(-0.5), np.float32(0.5)
    yield structured("clamp", variant, "ROOT r = _ clamp(p0, p1, p2)", low, x, high)
    yield structured("convert", variant, f"ROOT r = bf16[{d}] convert(p0)", x)
    yield structured("bitcast-convert", variant, f"ROOT r = u8[{d},4] bitcast-convert(p0)", x)
    before = "twice { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = f32[] add(a, a)\n"
    before += "  ROOT r = f32[] subtract(c, b) }\n"
    every = _text(tuple(range(len(dims))))
    yield structured(
        "map", variant, f"ROOT r = _ map(p0, p1), dimensions={{{every}}}, to_apply=twice", x, y, before=before
    )


def _movement(variant: str, dims: tuple[int, ...], order: tuple[int, ...]) -> Iterator[Case]:
    rng, d, rank = seeded(f"ranks/movement/{variant}"), _text(dims), len(dims)
    x, y = random_values(rng, "f32", dims), random_values(rng, "f32", dims)
    pads = "x".join(f"{k % 3}_{(k + 1) % 2}_{int(k == 2)}" for k in range(rank))
    yield structured("pad", variant, f"ROOT r = _ pad(p0, p1), padding={pads}", x, np.float32(7))
    limits = ", ".join(f"[{int(n > 2)}:{n}:{1 + int(n > 2)}]" for n in dims)
    yield structured("slice", variant, f"ROOT r = _ slice(p0), slice={{{limits}}}", x)
    yield structured("transpose", variant, f"ROOT r = _ transpose(p0), dimensions={{{_text(order)}}}", x)
    yield structured("reverse", variant, f"ROOT r = _ reverse(p0), dimensions={{{_text(order[::2])}}}", x)
    lines = [f"_ concatenate(p0, p1), dimensions={{{k}}}" for k in (0, rank // 2, rank - 1)]
    yield several("concatenate", variant, lines, x, y)
    flat, turned = x.size, _text(dims[::-1])
    lines = [f"f32[{flat}] reshape(p0)", f"f32[{turned}] reshape(p0)", f"f32[1,{d},1] reshape(p0)"]
    yield several("reshape", variant, lines, x)
    lines = [f"f32[{flat}] bitcast(p0)", f"f32[{turned}] bitcast(p0)"]
    yield several("bitcast", variant, lines, x)
    yield structured("copy", variant, "ROOT r = _ copy(p0)", x)
    some = random_values(rng, "f32", tuple(dims[k] for k in (1, 2, rank - 1)))
    line = f"ROOT r = f32[{d}] broadcast(p0), dimensions={{1,2,{rank - 1}}}"
    yield structured("broadcast", variant, line, some)
    lines = [f"s32[{d}] iota(), iota_dimension={k}" for k in range(rank) if dims[k] > 1]
    yield several("iota", variant, lines)


def _indexing(variant: str, dims: tuple[int, ...]) -> Iterator[Case]:
    """Dynamic slices, and gathers and scatters over two of the dimensions, with the others as a window."""
    rng, rank = seeded(f"ranks/indexing/{variant}"), len(dims)
    x = random_values(rng, "f32", dims)
    sizes = tuple(max(1, n - 1) for n in dims)
    starts = [np.array(n - 1, np.int32) for n in dims]
    names = "".join(f", p{k + 1}" for k in range(rank))
    line = f"ROOT r = _ dynamic-slice(p0{names}), dynamic_slice_sizes={{{_text(sizes)}}}"
    yield structured("dynamic-slice", variant, line, x, *starts)
    names = "".join(f", p{k + 2}" for k in range(rank))
    line = f"ROOT r = _ dynamic-update-slice(p0, p1{names})"
    yield structured("dynamic-update-slice", variant, line, x, random_values(rng, "f32", sizes), *starts)
    indexed = (2, rank - 1)
    others = tuple(k for k in range(rank) if k not in indexed)
    indices = np.array([[0, 2], [2, 1], [1, 0], [0, 0]], np.int32)
    slices = tuple(1 if k in indexed else n for k, n in enumerate(dims))
    window = _text(tuple(range(1, rank - 1)))
    line = f"""ROOT r = _ gather(p0, p1), offset_dims={{{window}}}, collapsed_slice_dims={{{_text(indexed)}}},
               start_index_map={{{_text(indexed)}}}, index_vector_dim=1, slice_sizes={{{_text(slices)}}}"""
    yield structured("gather", variant, " ".join(line.split()), x, indices)
    updates = random_values(rng, "f32", (4, *(dims[k] for k in others)))
    line = f"""ROOT r = _ scatter(p0, p1, p2), update_window_dims={{{window}}},
               inserted_window_dims={{{_text(indexed)}}}, scatter_dims_to_operand_dims={{{_text(indexed)}}},
               index_vector_dim=1, to_apply=add"""
    before = combiner("add", "add", "f32")
    yield structured("scatter", variant, " ".join(line.split()), x, indices, updates, before=before)


def _reductions(variant: str, dims: tuple[int, ...]) -> Iterator[Case]:
    rng, rank = seeded(f"ranks/reductions/{variant}"), len(dims)
    x, add = random_values(rng, "f32", dims), combiner("add", "add", "f32")
    zero = "zero = f32[] constant(0)\n"
    some = ((0,), (rank - 1,), tuple(range(1, rank, 2)), tuple(range(0, rank, 2)))
    lines = [f"_ reduce(p0, zero), dimensions={{{_text(axes)}}}, to_apply=add" for axes in some]
    yield several("reduce", variant, lines, x, before=add, constants=zero)
    size = "x".join("2" if n > 1 else "1" for n in dims)
    pad = "x".join(f"{int(n == 3)}_0" for n in dims)
    line = f"{zero}ROOT r = _ reduce-window(p0, zero), window={{size={size} pad={pad}}}, to_apply=add"
    yield structured("reduce-window", variant, line, x, before=add)
    source = random_values(rng, "f32", tuple(n - 1 if n > 1 else 1 for n in dims))
    line = f"{zero}ROOT r = _ select-and-scatter(p0, p1, zero), window={{size={size}}}, select=above, scatter=add"
    yield structured("select-and-scatter", variant, line, x, source, before=add + comparator("above", "GE", "f32"))


def _rows(variant: str, dims: tuple[int, ...]) -> Iterator[Case]:
    """Operations along one dimension: sort, topk, scan, batch normalisations."""
    rng, rank = seeded(f"ranks/rows/{variant}"), len(dims)
    x = random_values(rng, "f32", dims)
    before = comparator("before", "LT", "f32")
    for d in (2, rank - 1):
        line = f"ROOT r = _ sort(p0), dimensions={{{d}}}, to_apply=before"
        yield structured("sort", f"{variant}_{d}", line, x, before=before)
    wide = random_values(rng, "f32", (*dims[:-1], 5))
    result = _text((*dims[:-1], 2))
    line = f"ROOT r = (f32[{result}], s32[{result}]) topk(p0), k=2, largest=true"
    yield structured("topk", variant, line, wide)
    feature = dims[2:3]
    scale, offset, mean = (random_values(rng, "f32", feature) for _ in range(3))
    variance = np.abs(random_values(rng, "f32", feature)) + np.float32(0.5)
    suffix = "epsilon=0.01, feature_index=2"
    line = f"ROOT r = _ batch-norm-training(p0, p1, p2), {suffix}"
    yield structured("batch-norm-training", variant, line, x, scale, offset)
    line = f"ROOT r = _ batch-norm-inference(p0, p1, p2, p3, p4), {suffix}"
    yield structured("batch-norm-inference", variant, line, x, scale, offset, mean, variance)
    line = f"ROOT r = _ batch-norm-grad(p0, p1, p2, p3, p4), {suffix}"
    g = random_values(rng, "f32", dims)
    yield structured("batch-norm-grad", variant, line, x, scale, mean, variance, g)


def _products() -> Iterator[Case]:
    """Dots of many batch, contracting and free dimensions, and convolutions over five dimensions of space."""
    rng = seeded("ranks/products")
    a, b = random_values(rng, "f32", (2, 3, 2, 1, 4, 2, 3)), random_values(rng, "f32", (3, 2, 2, 4, 1, 2, 5))
    line = """ROOT r = _f32 dot(p0, p1), lhs_batch_dims={0,3}, lhs_contracting_dims={1,4}, rhs_batch_dims={1,4},
              rhs_contracting_dims={0,3}"""
    yield structured("dot", "rank_7", " ".join(line.split()), a, b)
    x, kernel = random_values(rng, "f32", (1, 3, 2, 3, 2, 3, 2)), random_values(rng, "f32", (2, 1, 2, 2, 2, 2, 3))
    window = "size=2x1x2x2x2 pad=0_1x0_0x1_0x0_0x0_0"
    line = f"ROOT r = _f32 convolution(p0, p1), window={{{window}}}, dim_labels=b01234f_01234io->b01234f"
    yield structured("convolution", "rank_7", line, x, kernel)


def _algebra() -> Iterator[Case]:
    """Matrices and transforms in batches of five dimensions and more."""
    rng, batch = seeded("ranks/algebra"), (1, 2, 1, 2, 2)
    a = positive(rng, "f32", (*batch, 3, 3))
    d = _text(a.shape)
    line = f"""l = _ cholesky(p0), lower=true
               i = s32[{d}] iota(), iota_dimension=5
               j = s32[{d}] iota(), iota_dimension=6
               inside = pred[{d}] compare(i, j), direction=GE
               z = f32[] constant(0)
               zeros = f32[{d}] broadcast(z), dimensions={{}}
               ROOT r = _ select(inside, l, zeros)"""
    yield structured("cholesky", "rank_7", line, a)
    line = """ROOT r = _ triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=false,
              transpose_a=NO_TRANSPOSE"""
    yield structured("triangular-solve", "rank_7", " ".join(line.split()), a, random_values(rng, "f32", (*batch, 3, 2)))
    z = random_values(rng, "c64", (*batch, 3, 4))
    lines = [f"_c64 fft(p0), fft_type={kind}, fft_length={{3,4}}" for kind in ("FFT", "IFFT")]
    yield several("fft", "rank_7", lines, z)
