"""Like tiles.py, for whatever adds, compares or solves: reductions, windows, sorts, products, linear algebra. Sums are
short, or of integers, so that a missing term shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import Case, seeded
from ..building import combiner, comparator, random_values, several, shape, small_integers, structured
from .algebra import positive
from .scans import SUM
from .tiles import ARRAYS, TYPED, Dims

TERMS = 3  # of a short sum
DOTS = (  # lhs, rhs, attributes
    ("rank_2", (131, 9), (9, 241), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("batches", (17, 33, 9), (17, 9, 35), "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}"),
    ("two_batches", (3, 5, 33, 8), (3, 5, 8, 37), "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
     "lhs_contracting_dims={3}, rhs_contracting_dims={2}"),
    ("attention", (2, 33, 5, 19), (2, 41, 5, 19), "lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, "
     "lhs_contracting_dims={3}, rhs_contracting_dims={3}"),
    ("values", (2, 5, 33, 41), (2, 41, 5, 19), "lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, "
     "lhs_contracting_dims={3}, rhs_contracting_dims={1}"),
    ("rank_5", (5, 7, 9, 4), (4, 8, 13), "lhs_contracting_dims={3}, rhs_contracting_dims={0}"),
    ("three_batches", (2, 3, 4, 19, 5), (2, 3, 4, 5, 23), "lhs_batch_dims={0,1,2}, rhs_batch_dims={0,1,2}, "
     "lhs_contracting_dims={4}, rhs_contracting_dims={3}"),
)  # fmt: skip
CONVOLUTIONS = (  # lhs, rhs, attributes
    ("rows", (3, 5, 1031), (7, 5, 3), "window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0"),
    ("nhwc", (2, 33, 37, 5), (3, 3, 5, 17), "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    ("nchw", (2, 5, 33, 37), (17, 5, 3, 3), "window={size=3x3 pad=1_1x0_2}, dim_labels=bf01_oi01->bf01"),
    ("strided", (2, 43, 41, 5), (3, 3, 5, 19), "window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f"),
    ("depthwise", (2, 33, 29, 11), (3, 3, 1, 11), "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=11"),
    ("space", (1, 9, 11, 13, 3), (2, 2, 2, 3, 17), "window={size=2x2x2 pad=1_0x0_1x1_0}, "
     "dim_labels=b012f_012io->b012f"),
)  # fmt: skip
RAGGED = (  # lhs, rhs, sizes of groups, attributes
    ("rank_2", (300, 17), (5, 17, 65), (33, 0, 130, 64, 73), "lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
     "lhs_ragged_dims={0}, rhs_group_dims={0}"),
    ("rank_3", (5, 60, 9), (4, 5, 9, 31), (17, 0, 33, 10), "lhs_batch_dims={0}, rhs_batch_dims={1}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"),
)  # fmt: skip


def cases(thorough: bool) -> Iterator[Case]:
    """Reductions and windows of each rank and type; operations along one dimension; products; linear algebra."""
    for rank, t in TYPED:
        dims, variant = ARRAYS[rank], f"tiles_{rank}_{t}"
        yield _reduced(variant, t, dims)
        yield from _windows(variant, t, dims)
        yield from _sorted(variant, t, dims)
    for rank, dims in ARRAYS.items():
        yield from _along(f"tiles_{rank}", dims)
    for t in ("f32", "bf16", "f64", "s32"):
        yield from _products(t)
    yield from _more_products()
    yield from _algebra()


def _reduced(variant: str, t: str, dims: Dims) -> Case:
    """Results of these dimensions: sums along a short dimension that comes first, in the middle, and last."""
    rng, rank = seeded(f"tiles/reduced/{variant}"), len(dims)
    at = sorted({0, rank // 2, rank})
    inputs = [small_integers(rng, t, (*dims[:d], TERMS, *dims[d:])) for d in at]
    lines = [f"_ reduce(p{n}, zero), dimensions={{{d}}}, to_apply=add" for n, d in enumerate(at)]
    largest = np.asarray(random_values(rng, t, (*dims, TERMS)))
    lines.append(f"_ reduce(p{len(inputs)}, p{len(inputs) + 1}), dimensions={{{rank}}}, to_apply=most")
    least = np.asarray(-100).astype(largest.dtype)
    before = combiner("add", "add", t) + combiner("most", "maximum", t)
    return several("reduce", variant, lines, *inputs, largest, least, before=before, constants=_zero(t))


def _windows(variant: str, t: str, dims: Dims) -> Iterator[Case]:
    """Windows that overlap, cumulative sums, and pools and their gradients."""
    rng = seeded(f"tiles/windows/{variant}")
    x = small_integers(rng, t, dims)
    size = "x".join("2" if n > 2 else "1" for n in dims)
    pad = "x".join("1_0" if n > 2 else "0_0" for n in dims)
    lines = [f"_ reduce-window(p0, zero), window={{size={size} pad={pad}}}, to_apply=add"]
    if len(dims) > 1:  # medium.py has those of one dimension
        so_far = "x".join(["1"] * (len(dims) - 1) + [str(dims[-1])])
        before_it = "x".join(["0_0"] * (len(dims) - 1) + [f"{dims[-1] - 1}_0"])
        lines.append(f"_ reduce-window(p0, zero), window={{size={so_far} pad={before_it}}}, to_apply=add")
    add = combiner("add", "add", t)
    narrow = t in ("s8", "bf16")
    yield several("reduce-window", variant, lines[: 1 if narrow else 2], x, before=add, constants=_zero(t))
    source = small_integers(rng, t, [n // 2 if n > 2 else n for n in dims], 1, 9)
    window = f"window={{size={size} stride={size}}}"
    line = f"{_zero(t)}ROOT r = _ select-and-scatter(p0, p1, zero), {window}, select=above, scatter=add"
    yield structured("select-and-scatter", variant, line, x, source, before=add + comparator("above", "GE", t))


def _zero(t: str) -> str:
    return f"zero = {t}[] constant(0)\n"


def _sorted(variant: str, t: str, dims: Dims) -> Iterator[Case]:
    """Along the first, the last and a dimension in the middle, and with the positions of the sorted elements."""
    rng, rank = seeded(f"tiles/sorted/{variant}"), len(dims)
    x, places = random_values(rng, t, dims), random_values(rng, "s32", dims)
    before = comparator("before", "LT", t)
    pairs = f"pairs {{ a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  c = s32[] parameter(2)\n"
    pairs += "  d = s32[] parameter(3)\n  ROOT r = pred[] compare(a, b), direction=GT }\n"
    lines = [f"_ sort(p0), dimensions={{{d}}}, to_apply=before" for d in sorted({0, rank // 2, rank - 1})]
    yield several("sort", variant, lines, x, before=before)
    line = f"ROOT r = _ sort(p0, p1), dimensions={{{rank - 1}}}, is_stable=true, to_apply=pairs"
    yield structured("sort", f"{variant}_values", line, x, places, before=pairs)


def _along(variant: str, dims: Dims) -> Iterator[Case]:
    """The largest of rows, running sums, batch normalisations, random bits."""
    rng, rank = seeded(f"tiles/along/{variant}"), len(dims)
    x, g = random_values(rng, "f32", dims), random_values(rng, "f32", dims)
    k = dims[-1] * 2 // 3 if rank > 1 else 1009
    result = (*dims[:-1], k)
    line = f"ROOT r = ({shape('f32', result)}, {shape('s32', result)}) topk(p0), k={k}, largest=true"
    yield structured("topk", variant, line, x)
    d = rank // 2
    if rank > 1:  # a scan of one number at a time is slow in interpreters: scans.py has some of 2,001 steps
        yield _running_sums(variant, dims, d)
    scale, offset, mean = (random_values(rng, "f32", dims[d : d + 1]) for _ in range(3))
    variance = np.abs(random_values(rng, "f32", dims[d : d + 1])) + np.float32(0.5)
    suffix = f"epsilon=0.01, feature_index={d}"
    line = f"ROOT r = _ batch-norm-training(p0, p1, p2), {suffix}"
    if rank > 1:
        yield structured("batch-norm-training", variant, line, x, scale, offset)
        line = f"ROOT r = _ batch-norm-grad(p0, p1, p2, p3, p4), {suffix}"
        yield structured("batch-norm-grad", variant, line, x, scale, mean, variance, g)
    line = f"ROOT r = _ batch-norm-inference(p0, p1, p2, p3, p4), {suffix}"
    yield structured("batch-norm-inference", variant, line, x, scale, offset, mean, variance)
    state = np.array([0x0123456789ABCDEF, 42], np.uint64)
    line = f"ROOT r = (u64[2], {shape('u32', dims)}) rng-bit-generator(p0), algorithm=rng_three_fry"
    yield structured("rng-bit-generator", variant, line, state)


def _running_sums(variant: str, dims: Dims, d: int) -> Case:
    x = small_integers(seeded(f"tiles/scan/{variant}"), "f32", dims)
    of_all, of_one = shape("f32", dims), shape("f32", (*dims[:d], *dims[d + 1 :]))
    line = f"ROOT r = ({of_all}, {of_one}) scan(p0, p1), dimensions={{{d}}}, num_carries=1, to_apply=step"
    return structured("scan", variant, line, x, np.zeros_like(x.take(0, d)), before=SUM.format(of_one))


def _products(t: str) -> Iterator[Case]:
    """Integers, whose sums are exact in every order. Each form in f32; in other types those of four dimensions."""
    for opcode, forms in (("dot", DOTS), ("convolution", CONVOLUTIONS)):
        for label, lhs, rhs, attributes in forms if t == "f32" else forms[2:4]:
            rng = seeded(f"tiles/{opcode}/{label}_{t}")
            a, b = small_integers(rng, t, lhs, -1, 1), small_integers(rng, t, rhs, -1, 1)
            yield structured(opcode, f"tiles_{label}_{t}", f"ROOT r = _{t} {opcode}(p0, p1), {attributes}", a, b)


def _more_products() -> Iterator[Case]:
    for label, lhs, rhs, sizes, attributes in RAGGED:
        rng = seeded(f"tiles/ragged-dot/{label}")
        a, b = small_integers(rng, "f32", lhs), small_integers(rng, "f32", rhs)
        line = f"ROOT r = _f32 ragged-dot(p0, p1, p2), {attributes}"
        yield structured("ragged-dot", f"tiles_{label}", line, a, b, np.array(sizes, np.int32))
    rng = seeded("tiles/scaled-dot")
    a, b = small_integers(rng, "f8e4m3fn", (131, 64)), small_integers(rng, "f8e4m3fn", (64, 241))
    scales = [random_values(rng, "f8e8m0fnu", dims) for dims in ((131, 2), (2, 241))]
    line = "ROOT r = _f32 scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    yield structured("scaled-dot", "tiles", line, a, b, *scales)


def _algebra() -> Iterator[Case]:
    """Batches of one and of two dimensions of matrices and signals."""
    for batch in ((37,), (5, 9)):
        rng, rank = seeded(f"tiles/algebra/{len(batch)}"), len(batch) + 2
        a = positive(rng, "f32", (*batch, 11, 11))
        d = ",".join(map(str, a.shape))
        lines = f"""l = _ cholesky(p0), lower=true
                    i = s32[{d}] iota(), iota_dimension={rank - 2}
                    j = s32[{d}] iota(), iota_dimension={rank - 1}
                    inside = pred[{d}] compare(i, j), direction=GE
                    z = f32[] constant(0)
                    zeros = f32[{d}] broadcast(z), dimensions={{}}
                    ROOT r = _ select(inside, l, zeros)"""
        yield structured("cholesky", f"tiles_{rank}", lines, a)
        line = """ROOT r = _ triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=false,
                  transpose_a=NO_TRANSPOSE"""
        b = random_values(rng, "f32", (*batch, 11, 23))
        yield structured("triangular-solve", f"tiles_{rank}", " ".join(line.split()), a, b)
        z, x = random_values(rng, "c64", (*batch, 15, 21)), random_values(rng, "f32", (*batch, 15, 21))
        transforms = [
            "_c64 fft(p0), fft_type=FFT, fft_length={21}",
            "_c64 fft(p0), fft_type=IFFT, fft_length={15,21}",
            "_c64 fft(p1), fft_type=RFFT, fft_length={15,21}",
        ]
        yield several("fft", f"tiles_{rank}", transforms, z, x)
