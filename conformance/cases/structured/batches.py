"""Nine and seventy batches of whatever is batched: products, rows, matrices, groups, features, windows.

With two or three batches, an index is not distinguished from its low bits, nor the first block of batches from the
second.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import Case, seeded
from ..building import combiner, comparator, random_values, several, structured
from .algebra import positive

COUNTS = (9, 70)


def cases(thorough: bool) -> Iterator[Case]:
    """Products, linear algebra, rows, then gathers and scatters."""
    for n in COUNTS:
        yield from _products(n)
        yield from _algebra(n)
        yield from _rows(n)
        yield from _indexing(n)


def _products(n: int) -> Iterator[Case]:
    rng = seeded(f"batches/products/{n}")
    a, b = random_values(rng, "f32", (n, 3, 4)), random_values(rng, "f32", (n, 4, 2))
    line = "ROOT r = _f32 dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
    yield structured("dot", f"batches_{n}", line + "rhs_contracting_dims={1}", a, b)
    a, b = random_values(rng, "f32", (2, n, 4, 3)), random_values(rng, "f32", (n, 4, 2, 5))
    line = "ROOT r = _f32 dot(p0, p1), lhs_batch_dims={1,0}, rhs_batch_dims={0,2}, lhs_contracting_dims={2}, "
    yield structured("dot", f"batches_2x{n}", line + "rhs_contracting_dims={1}", a, b)
    x, kernel = random_values(rng, "f32", (n, 5, 3)), random_values(rng, "f32", (2, 3, 4))
    line = "ROOT r = _f32 convolution(p0, p1), window={size=2}, dim_labels="
    yield structured("convolution", f"batches_{n}", line + "b0f_0io->b0f", x, kernel)
    x, kernel = random_values(rng, "f32", (2, 5, 2 * n)), random_values(rng, "f32", (2, 2, 2 * n))
    groups = f"b0f_0io->b0f, feature_group_count={n}"
    yield structured("convolution", f"groups_{n}", line + groups, x, kernel)
    x, kernel = random_values(rng, "f32", (2 * n, 5, 2)), random_values(rng, "f32", (2, 2, n))
    groups = f"b0f_0io->b0f, batch_group_count={n}"
    yield structured("convolution", f"batch_groups_{n}", line + groups, x, kernel)


def _algebra(n: int) -> Iterator[Case]:
    rng = seeded(f"batches/algebra/{n}")
    a, b = positive(rng, "f32", (n, 3, 3)), random_values(rng, "f32", (n, 3, 2))
    line = f"""l = _ cholesky(p0), lower=true
               i = s32[{n},3,3] iota(), iota_dimension=1
               j = s32[{n},3,3] iota(), iota_dimension=2
               inside = pred[{n},3,3] compare(i, j), direction=GE
               z = f32[] constant(0)
               zeros = f32[{n},3,3] broadcast(z), dimensions={{}}
               ROOT r = _ select(inside, l, zeros)"""
    yield structured("cholesky", f"batches_{n}", line, a)
    line = "ROOT r = _ triangular-solve(p0, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"
    yield structured("triangular-solve", f"batches_{n}", line, a, b)
    z, x = random_values(rng, "c64", (n, 6)), random_values(rng, "f32", (n, 6))
    lines = ["_c64 fft(p0), fft_type=FFT, fft_length={6}", "_c64 fft(p1), fft_type=RFFT, fft_length={6}"]
    yield several("fft", f"batches_{n}", lines, z, x)


def _rows(n: int) -> Iterator[Case]:
    """Rows that are sorted, summed, windowed and normalised."""
    rng = seeded(f"batches/rows/{n}")
    x = random_values(rng, "f32", (n, 5))
    yield structured("sort", f"batches_{n}", "ROOT r = _ sort(p0), dimensions={1}, to_apply=before", x,
                     before=comparator("before", "LT", "f32"))  # fmt: skip
    yield structured("topk", f"batches_{n}", f"ROOT r = (f32[{n},2], s32[{n},2]) topk(p0), k=2, largest=true", x)
    zero, add = "zero = f32[] constant(0)\n", combiner("add", "add", "f32")
    lines = [f"_ reduce(p{k}, zero), dimensions={{{k + 1}}}, to_apply=add" for k in (0, 1)]
    yield several("reduce", f"batches_{n}", lines, x, random_values(rng, "f32", (n, 2, 3)), before=add, constants=zero)
    line = f"{zero}ROOT r = _ reduce-window(p0, zero), window={{size=1x3}}, to_apply=add"
    yield structured("reduce-window", f"batches_{n}", line, x, before=add)
    line = f"{zero}ROOT r = _ select-and-scatter(p0, p1, zero), window={{size=1x3}}, select=above, scatter=add"
    before = add + comparator("above", "GE", "f32")
    yield structured("select-and-scatter", f"batches_{n}", line, x, random_values(rng, "f32", (n, 3)), before=before)
    scale, offset, mean = (random_values(rng, "f32", (n,)) for _ in range(3))
    variance = np.abs(random_values(rng, "f32", (n,))) + np.float32(0.5)
    suffix = "epsilon=0.01, feature_index=0"
    line = f"ROOT r = _ batch-norm-training(p0, p1, p2), {suffix}"
    yield structured("batch-norm-training", f"features_{n}", line, x, scale, offset)
    line = f"ROOT r = _ batch-norm-inference(p0, p1, p2, p3, p4), {suffix}"
    yield structured("batch-norm-inference", f"features_{n}", line, x, scale, offset, mean, variance)
    line = f"ROOT r = _ batch-norm-grad(p0, p1, p2, p3, p4), {suffix}"
    yield structured(
        "batch-norm-grad", f"features_{n}", line, x, scale, mean, variance, random_values(rng, "f32", (n, 5))
    )


def _indexing(n: int) -> Iterator[Case]:
    """Gathers and scatters of many rows, and of one row in each of many batches."""
    rng = seeded(f"batches/indexing/{n}")
    x, i = random_values(rng, "f32", (n, 3)), rng.permutation(n).astype(np.int32)
    line = "ROOT r = _ gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    yield structured("gather", f"rows_{n}", line + "index_vector_dim=1, slice_sizes={1,3}", x, i)
    y, k = random_values(rng, "f32", (n, 4)), rng.integers(0, 4, (n, 2)).astype(np.int32)
    batching = "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}"
    line = f"ROOT r = _ gather(p0, p1), offset_dims={{}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, {batching}"
    yield structured("gather", f"batches_{n}", line, y, k)
    add, updates = combiner("add", "add", "f32"), random_values(rng, "f32", (n, 3))
    line = "ROOT r = _ scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
    line += "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
    yield structured("scatter", f"rows_{n}", line, x, i, updates, before=add)
    batching = "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add"
    line = "ROOT r = _ scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={1}, "
    line += f"scatter_dims_to_operand_dims={{1}}, {batching}"
    yield structured("scatter", f"batches_{n}", line, y, k, random_values(rng, "f32", (n, 2)), before=add)
