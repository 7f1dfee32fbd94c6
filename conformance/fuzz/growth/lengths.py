"""Operations of medium length, and with more than two of a kind, at the end of a program.

From some length on, code takes another path (a second block, a second tile, another algorithm), and pairs alone do not
reveal the order of three. Each kind here draws its lengths evenly from a range around some hundred elements, or a
number of operands, results, branches or batch dimensions of at least three, all of one type and size.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
from refxla_spec.module import Computation, ConvolutionDimensions, Instruction, SliceDimension, WindowDimension
from refxla_spec.operation import make
from refxla_spec.types import ELEMENT_TYPES, S32, U64, ElementType, Shape

from .. import values
from ..program_builder import Program, ProgramBuilder, Skip
from .structured import order

Grown = list[Instruction]
F32, S64, U8 = (ELEMENT_TYPES[name] for name in ("f32", "s64", "u8"))
LONGEST = 1 << 17  # elements of a value
FUNCTIONS = ("exponential", "tanh", "log", "sine", "cosine", "logistic", "rsqrt", "sqrt", "erf", "cbrt", "exp2", "log2")


def lengths(f: ProgramBuilder, r: Random) -> Grown:
    """The results of one of KINDS that supports the program's types; none if it does not."""
    limit, f.limit = f.limit, LONGEST
    try:
        return r.choice(KINDS)(f, r)
    except Skip:
        return []
    finally:
        f.limit = limit


def _array(f: ProgramBuilder, r: Random, t: ElementType, *dims: int, mode: str = "normal") -> Instruction:
    drawn = values.array(r, t, dims, mode)
    return f.parameter(Shape.of(drawn), drawn)


def _indices(f: ProgramBuilder, r: Random, t: ElementType, dims: tuple[int, ...], low: int, high: int) -> Instruction:
    drawn = np.array([r.randrange(low, high) for _ in range(int(np.prod(dims)))], np.int64).reshape(dims)
    return f.parameter(Shape(t, dims), drawn.astype(t.dtype))


def _open(f: ProgramBuilder) -> None:
    f.other_types()  # Skip in a program of only integers


def _function(f: ProgramBuilder, r: Random) -> Grown:
    _open(f)
    x = _array(f, r, F32, r.randrange(900, 2500))
    return [f.put(opcode, x) for opcode in r.sample(FUNCTIONS, 3)]


def _sort(f: ProgramBuilder, r: Random) -> Grown:
    n, count = r.randrange(900, 2500), r.choice((1, 1, 3, 4))
    operands = [_indices(f, r, S32, (n,), -999, 999) for _ in range(count)]
    result = f.put("sort", *operands, dimensions=(0,), is_stable=True,
                 to_apply=order(f.program, (S32,) * count, r.choice(("LT", "GT"))))  # fmt: skip
    return f.elements(result) if count > 1 else [result]


def _long_product(f: ProgramBuilder, r: Random) -> Grown:
    t = f.type("float", "signed")
    rows, terms = r.choice(((r.randrange(1, 9), r.randrange(100, 700)), (r.randrange(40, 200), r.randrange(1, 9))))
    columns = r.choice(((), (r.randrange(1, 9),)))
    x, y = _array(f, r, t, rows, terms, mode="small"), _array(f, r, t, terms, *columns, mode="small")
    return [f.put("dot", x, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))]


def _batches(f: ProgramBuilder, r: Random) -> Grown:
    """Many, or several batch dimensions of one size, in a different order on either side."""
    t, n = f.type("float", "signed"), r.randrange(2, 4)
    if r.random() < 0.5:
        sizes: tuple[int, ...] = (r.randrange(10, 40),)
    else:
        sizes = (n,) * r.choice((2, 3))
    places = [tuple(r.sample(range(len(sizes)), len(sizes))) for _ in range(2)]
    rank = len(sizes)
    x, y = (_array(f, r, t, *sizes, *free, mode="small") for free in ((2, 3), (3, 2)))
    return [f.put("dot", x, y, lhs_batch_dims=places[0], rhs_batch_dims=places[1], lhs_contracting_dims=(rank + 1,),
                  rhs_contracting_dims=(rank,))]  # fmt: skip


def _features(f: ProgramBuilder, r: Random) -> Grown:
    t, features, outputs = f.type("float", "signed"), r.randrange(40, 140), r.randrange(1, 4)
    x, kernel = _array(f, r, t, 1, features, 5, mode="small"), _array(f, r, t, outputs, features, 2, mode="small")
    labels = ConvolutionDimensions(0, 1, (2,), 1, 0, (2,), 0, 1, (2,))
    return [f.put("convolution", x, kernel, window=(WindowDimension(2),), dim_labels=labels)]


def _many_updates(f: ProgramBuilder, r: Random) -> Grown:
    n, t = r.randrange(100, 600), r.choice((S32, U8))
    size = r.randrange(3, 40) if t is S32 else r.randrange(130, 256)
    x, at = _indices(f, r, S32, (size,), 0, 9), _indices(f, r, t, (n, 1), 0, size)
    updates = _indices(f, r, S32, (n,), -9, 9)
    return [f.put("scatter", x, at, updates, update_window_dims=(), inserted_window_dims=(0,),
                  scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
                  to_apply=f.program.reducer("add", S32))]  # fmt: skip


def _points(f: ProgramBuilder, r: Random) -> Grown:
    _open(f)
    n = r.randrange(30, 200)
    kind = r.choice(("FFT", "IFFT"))
    return [f.put("fft", _array(f, r, ELEMENT_TYPES["c64"], n, mode="unit"), fft_type=kind, fft_length=(n,))]


def _rows(f: ProgramBuilder, r: Random) -> Grown:
    """Linear algebra of a system of equations whose matrix is close to the identity."""
    _open(f)
    n = r.randrange(20, 70)
    drawn = np.array([[r.uniform(-0.3, 0.3) / n + (a == b) for b in range(n)] for a in range(n)], np.float32)
    drawn = (drawn + drawn.T) / 2
    x = f.parameter(Shape.of(drawn), drawn)
    if r.random() < 0.5:
        return [f.put("cholesky", x, lower=True)]
    right = _array(f, r, F32, n, 2, mode="unit")
    return [f.put("triangular-solve", x, right, left_side=True, lower=r.random() < 0.5, transpose_a="NO_TRANSPOSE")]


def _windows_of_gather(f: ProgramBuilder, r: Random) -> Grown:
    """Slices of several elements, which exceed the array on either side."""
    size, slice_size, n = r.randrange(5, 30), r.randrange(2, 5), r.randrange(2, 40)
    x, at = _indices(f, r, S32, (size,), -99, 99), _indices(f, r, S32, (n, 1), -3, size + 3)
    return [f.put("gather", x, at, offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,), index_vector_dim=1,
                  slice_sizes=(slice_size,))]  # fmt: skip


def _batches_of_indices(f: ProgramBuilder, r: Random) -> Grown:
    """Two batching dimensions of one size, paired in either order."""
    n = r.randrange(2, 5)
    x, at = _indices(f, r, S32, (n, n, 4), -99, 99), _indices(f, r, S32, (n, n, 1), 0, 4)
    pairs = r.choice(((0, 1), (1, 0)))
    if r.random() < 0.5:
        return [f.put("gather", x, at, offset_dims=(), collapsed_slice_dims=(2,), start_index_map=(2,),
                      operand_batching_dims=(0, 1), start_indices_batching_dims=pairs, index_vector_dim=2,
                      slice_sizes=(1, 1, 1))]  # fmt: skip
    updates = _indices(f, r, S32, (n, n), -9, 9)
    return [f.put("scatter", x, at, updates, update_window_dims=(), inserted_window_dims=(2,),
                  scatter_dims_to_operand_dims=(2,), input_batching_dims=(0, 1), scatter_indices_batching_dims=pairs,
                  index_vector_dim=2, to_apply=f.program.reducer("add", S32))]  # fmt: skip


def _extreme(f: ProgramBuilder, r: Random) -> Grown:
    """The largest or smallest of some hundred numbers, of which one or none is NaN."""
    _open(f)
    n = r.randrange(100, 900)
    drawn = values.array(r, F32, (n,), "normal")
    if r.random() < 0.7:
        drawn[r.randrange(n)] = np.nan
    opcode = r.choice(("maximum", "minimum"))
    start = f.number(F32, {"maximum": -np.inf, "minimum": np.inf}[opcode])
    x = f.parameter(Shape.of(drawn), drawn)
    return [f.put("reduce", x, start, dimensions=(0,), to_apply=f.program.reducer(opcode, F32))]


def _bits(f: ProgramBuilder, r: Random) -> Grown:
    _open(f)
    state = f.constant(np.array([r.getrandbits(63), r.getrandbits(63)], U64.dtype))
    t = ELEMENT_TYPES[r.choice(("u8", "u32", "u64"))]
    shape = Shape.tuple_of(state.shape, Shape(t, (r.randrange(100, 1200),)))
    return f.elements(
        f.put("rng-bit-generator", state, shape=shape, algorithm=r.choice(("rng_three_fry", "rng_philox")))
    )


def _count(f: ProgramBuilder, r: Random) -> Grown:
    """The end of a long one."""
    n, t = r.randrange(60_000, LONGEST), r.choice((S32, S64))
    if t is S64:
        _open(f)
    counted = f.put("iota", shape=Shape(t, (n,)), iota_dimension=0)
    return [f.put("slice", counted, slice=(SliceDimension(n - r.randrange(1, 9), n),))]


def _long_sum(f: ProgramBuilder, r: Random) -> Grown:
    """Of an iota, or of products of it."""
    n, t = r.randrange(20_000, 80_000), f.type("float", "signed") if r.random() < 0.5 else S32
    if t.bits < 32:
        t = S32
    counted = f.put("iota", shape=Shape(t, (n,)), iota_dimension=0)
    x = f.put("subtract", counted, f.full(counted.shape, f.number(t, r.randrange(n))))
    if r.random() < 0.5:
        return [f.put("dot", x, counted, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))]
    return [f.put("reduce", x, f.number(t, 0), dimensions=(0,), to_apply=f.program.reducer("add", t))]


def _iterations(f: ProgramBuilder, r: Random) -> Grown:
    """x -> 3 x + i, some hundred times."""
    state = Shape.tuple_of(Shape(S32), Shape(S32))
    body = ProgramBuilder(f.program)
    n, x = body.elements(body.parameter(state))
    following = body.put("add", body.put("multiply", x, body.number(S32, 3)), n)
    body_of = body.finish("body", [body.put("add", n, body.number(S32, 1)), following], as_tuple=True)
    test = ProgramBuilder(f.program)
    n, _ = test.elements(test.parameter(state))
    goes_on = test.put("compare", n, test.number(S32, r.randrange(50, 300)), direction="LT")
    condition = f.program.keep(Computation(f.program.name("condition"), test.instructions, goes_on))
    start = f.put("tuple", f.number(S32, 0), f.number(S32, r.randrange(99)))
    return f.elements(f.put("while", start, condition=condition, body=body_of))[1:]


def _sums(program: Program, count: int) -> Computation:
    """(a, b, .., a', b', ..) -> (a + a', b + b', ..) of s32."""
    key = ("sums", str(count))
    if key not in program.reducers:
        name = program.name("sums")
        p = [Instruction(f"{name}.{k}", "parameter", Shape(S32), [], {"number": k}) for k in range(2 * count)]
        sums = [make("add", p[k], p[k + count], name=f"{name}.s{k}") for k in range(count)]
        root = make("tuple", *sums, name=f"{name}.r")
        program.reducers[key] = program.keep(Computation(name, [*p, *sums, root], root))
    return program.reducers[key]


def _several_results(f: ProgramBuilder, r: Random) -> Grown:
    count, n = r.randrange(3, 6), r.randrange(2, 9)
    operands = [_indices(f, r, S32, (n, 2), -99, 99) for _ in range(count)]
    starts = [f.number(S32, k) for k in range(count)]
    to_apply = _sums(f.program, count)
    kind = r.randrange(3)
    if kind == 0:
        result = f.put("reduce", *operands, *starts, dimensions=(r.randrange(2),), to_apply=to_apply)
    elif kind == 1:
        window = (WindowDimension(2), WindowDimension(1))
        result = f.put("reduce-window", *operands, *starts, window=window, to_apply=to_apply)
    else:
        at = _indices(f, r, S32, (3, 1), 0, n)
        updates = [_indices(f, r, S32, (3, 2), -9, 9) for _ in range(count)]
        result = f.put("scatter", *operands, at, *updates, update_window_dims=(1,), inserted_window_dims=(0,),
                     scatter_dims_to_operand_dims=(0,), index_vector_dim=1, to_apply=to_apply)  # fmt: skip
    return f.elements(result)


def _several_operands(f: ProgramBuilder, r: Random) -> Grown:
    """A map of a - 2 b - 3 c - ..., in which each has another part."""
    count, n = r.randrange(3, 6), r.randrange(1, 20)
    inner = ProgramBuilder(f.program, scalar=True)
    total, *others = [inner.parameter(Shape(S32)) for _ in range(count)]
    for k, p in enumerate(others):
        total = inner.put("subtract", total, inner.put("multiply", p, inner.number(S32, k + 2)))
    operands = [_indices(f, r, S32, (n,), -99, 99) for _ in range(count)]
    return [f.put("map", *operands, dimensions=(0,), to_apply=inner.finish("mapped", [total], as_tuple=False))]


def _several_branches(f: ProgramBuilder, r: Random) -> Grown:
    """And several values of each."""
    count, results = r.randrange(3, 9), r.randrange(1, 7)
    branches = []
    for n in range(count):
        branch = ProgramBuilder(f.program)
        x = branch.parameter(Shape(S32, (2,)))
        added = [branch.full(x.shape, branch.number(S32, 10 * n + k)) for k in range(results)]
        branches.append(branch.finish("branch", [branch.put("add", x, a) for a in added], as_tuple=True))
    x = _indices(f, r, S32, (2,), -99, 99)
    which = _indices(f, r, S32, (), -1, count + 1)
    return f.elements(f.put("conditional", which, *[x] * count, branch_computations=tuple(branches)))


def _ranks(f: ProgramBuilder, r: Random) -> Grown:
    """An elementwise operation of five to eight dimensions."""
    t = f.type("float", "signed")
    dims = tuple(r.choice((1, 2, 3)) for _ in range(r.randrange(5, 9)))
    x, y = (_array(f, r, t, *dims) for _ in range(2))
    return [f.put(r.choice(("add", "subtract", "multiply", "maximum")), x, y)]


KINDS: tuple[Callable[[ProgramBuilder, Random], Grown], ...] = (
    _function, _sort, _long_product, _batches, _features, _many_updates, _points, _rows, _windows_of_gather,
    _batches_of_indices, _extreme, _bits, _count, _long_sum, _iterations, _several_results, _several_operands,
    _several_branches, _ranks,
)  # fmt: skip
