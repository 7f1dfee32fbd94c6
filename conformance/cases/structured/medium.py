"""Arrays of some thousand elements: errors from the second block, tile or work-group on, and at the end of the last
one. The arrays of the other cases are smaller, or have a million elements; edges.py has such arrays for elementwise
operations. No size here is a multiple of anything.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from refxla_spec.types import ELEMENT_TYPES

from .. import Case, seeded
from ..building import combiner, comparator, random_values, several, small_integers, structured
from .algebra import positive

LENGTH = 2053  # a prime
TERMS = (257, 300, 1031)  # of sums and products
FEW = (19,)  # if a target may round after each term: with many terms, any result would be valid
SQUARE = (70, 67)  # more than one tile of 64, and a partial one at the end


def cases(thorough: bool) -> Iterator[Case]:
    """Movement, indexing, sorting; sums and products; linear algebra."""
    yield from _movement()
    yield from _indexing()
    yield from _rows()
    yield from _sums()
    yield from _products()
    yield from _algebra()


def _movement() -> Iterator[Case]:
    rng = seeded("medium/movement")
    for t in ("s4", "u8", "pred", "bf16", "f32", "f64", "c64", "c128"):
        x = random_values(rng, t, SQUARE)
        yield structured("transpose", f"medium_{t}", "ROOT r = _ transpose(p0), dimensions={1,0}", x)
    x, y, z = (random_values(rng, "f32", (n, 67)) for n in (70, 33, 1))
    yield structured("concatenate", "medium", "ROOT r = _ concatenate(p0, p1, p2, p1), dimensions={0}", x, y, z)
    lines = [f"{t}[3,{LENGTH}] iota(), iota_dimension=1" for t in ("u8", "s16", "f16", "s64", "f32")]
    yield several(
        "iota", "medium", [*lines, "s64[70001] iota(), iota_dimension=0", "u64[2,70001] iota(), iota_dimension=1"]
    )


def _indexing() -> Iterator[Case]:
    """Updates that collide at one position, adjacent and far apart; indices beyond 127 in a byte."""
    rng, add = seeded("medium/indexing"), combiner("add", "add", "s32")
    attributes = "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
    for variant, places, t in (("medium", 60, "s32"), ("medium_u8", 250, "u8")):
        x = small_integers(rng, "s32", (places,))
        at = rng.integers(0, places, (LENGTH, 1)).astype(ELEMENT_TYPES[t].dtype)
        line = f"ROOT r = _ scatter(p0, p1, p2), {attributes}"
        yield structured("scatter", variant, line, x, at, small_integers(rng, "s32", (LENGTH,)), before=add)
        rows = random_values(rng, "f32", (places, 3))
        line = """ROOT r = _ gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
                  index_vector_dim=1, slice_sizes={1,3}"""
        yield structured("gather", variant, " ".join(line.split()), rows, at)


def _rows() -> Iterator[Case]:
    """Sorts along either dimension, of keys alone and with values; the largest of many."""
    rng, before = seeded("medium/rows"), comparator("before", "LT", "f32")
    pairs = "before { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = s32[] parameter(2)\n"
    pairs += "  d = s32[] parameter(3)\n  ROOT r = pred[] compare(a, b), direction=LT }\n"
    for dims, d in (((LENGTH,), 0), ((3, LENGTH), 1), ((LENGTH, 3), 0)):
        x, line = random_values(rng, "f32", dims), f"dimensions={{{d}}}, to_apply=before"
        name = f"medium_{len(dims)}_{d}"
        yield structured("sort", name, f"ROOT r = _ sort(p0), {line}", x, before=before)
        values = random_values(rng, "s32", dims)
        yield structured("sort", f"{name}_values", f"ROOT r = _ sort(p0, p1), {line}, is_stable=true",
                         np.round(x, 1), values, before=pairs)  # fmt: skip
    x = random_values(rng, "f32", (2, LENGTH))
    yield structured("topk", "medium", "ROOT r = (f32[2,40], s32[2,40]) topk(p0), k=40, largest=true", x)


def _sums() -> Iterator[Case]:
    """Rows and columns; a NaN in the middle of them; cumulative sums; windows of three dimensions."""
    rng = seeded("medium/sums")
    for n in TERMS:
        lines: list[str] = []
        inputs: list[np.ndarray] = []
        before = constants = ""
        for opcode, t, start in (("add", "f32", "0"), ("add", "s32", "0"), ("maximum", "f32", "-inf"),
                                 ("minimum", "s32", "2147483647"), ("xor", "u32", "0")):  # fmt: skip
            name, constant = f"{opcode}_{t}", f"i{len(inputs)}"
            before += combiner(name, opcode, t)
            constants += f"{constant} = {t}[] constant({start})\n"
            for dims, d in (((3, n), 1), ((n, 3), 0)):
                x = random_values(rng, t, dims)
                if opcode == "maximum":
                    x.reshape(-1)[x.size // 2] = np.nan
                lines.append(f"_ reduce(p{len(inputs)}, {constant}), dimensions={{{d}}}, to_apply={name}")
                inputs.append(x)
        yield several("reduce", f"medium_{n}", lines, *inputs, before=before, constants=constants)
        x, zero = small_integers(rng, "s32", (n,)), "z = s32[] constant(0)\n"
        line = f"{zero}ROOT r = _ reduce-window(p0, z), window={{size={n} pad={n - 1}_0}}, to_apply=add"
        yield structured("reduce-window", f"medium_{n}", line, x, before=combiner("add", "add", "s32"))
    x = random_values(rng, "f32", (19, 23, 21))
    line = "l = f32[] constant(-inf)\nROOT r = _ reduce-window(p0, l), window={size=3x2x4 stride=2x1x3}, to_apply=most"
    yield structured("reduce-window", "medium_space", line, x, before=combiner("most", "maximum", "f32"))


def _products() -> Iterator[Case]:
    """Vectors and matrices with as many terms; integers, whose sums are exact in every order, reveal a missing one.
    More batches, and more features of an image, than a tile has."""
    rng = seeded("medium/products")
    rows = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for t in ("f32", "bf16", "f64", "s32"):
        lines: list[str] = []
        inputs: list[np.ndarray] = []
        for n in TERMS if t != "bf16" else FEW:
            for lhs, rhs in (((5, n), (n,)), ((SQUARE[0], n), (n, 33)), ((n,), (n, 3))):
                one = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
                dimensions = rows if len(lhs) == 2 else one
                lines.append(f"_{t} dot(p{len(inputs)}, p{len(inputs) + 1}), {dimensions}")
                inputs += [small_integers(rng, t, lhs, -1, 1), small_integers(rng, t, rhs, -1, 1)]
        yield several("dot", f"medium_{t}", lines, *inputs)
    a, b = small_integers(rng, "f32", (37, 5, 9)), small_integers(rng, "f32", (37, 9, 6))
    line = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    yield structured("dot", "medium_batches", f"ROOT r = _f32 dot(p0, p1), {line}", a, b)
    x, k = small_integers(rng, "f32", (2, 9, 7, 70), -1, 1), small_integers(rng, "f32", (3, 3, 70, 67), -1, 1)
    line = "ROOT r = _f32 convolution(p0, p1), window={size=3x3 pad=1_1x0_1}, dim_labels=b01f_01io->b01f"
    yield structured("convolution", "medium", line, x, k)


def _algebra() -> Iterator[Case]:
    rng = seeded("medium/algebra")
    n = 41
    a = positive(rng, "f32", (n, n))
    line = f"""l = _ cholesky(p0), lower=true
               i = s32[{n},{n}] iota(), iota_dimension=0
               j = s32[{n},{n}] iota(), iota_dimension=1
               inside = pred[{n},{n}] compare(i, j), direction=GE
               z = f32[] constant(0)
               zeros = f32[{n},{n}] broadcast(z), dimensions={{}}
               ROOT r = _ select(inside, l, zeros)"""
    yield structured("cholesky", "medium", line, a)
    line = """ROOT r = _ triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=false,
              transpose_a=NO_TRANSPOSE"""
    yield structured("triangular-solve", "medium", " ".join(line.split()), a, random_values(rng, "f32", (n, 3)))
    z = random_values(rng, "c64", (2, 1031))
    lines = [f"_c64 fft(p{k}), fft_type=FFT, fft_length={{{x.shape[-1]}}}" for k, x in enumerate((z, z[:, :300]))]
    yield several("fft", "medium", lines, z, z[:, :300].copy())
