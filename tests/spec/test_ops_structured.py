"""The structured operations against their own examples and against XLA:CPU.

What moves data, counts or compares must agree in every bit. Sums agree within n * eps * sum |terms|, the error bound of
any order of n additions: `magnitude` is the same program on absolute values.
"""

from __future__ import annotations

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.errors import InvalidProgramError, UnsupportedError
from refxla_spec.operation import operations
from refxla_spec.ops import custom_call
from refxla_spec.text import parse, parse_literal
from refxla_spec.types import ELEMENT_TYPES, Shape
from refxla_spec.verify import verify

STRUCTURED = (
    "batch-norm-grad batch-norm-inference batch-norm-training call cholesky conditional convolution custom-call domain "
    "dot dynamic-slice dynamic-update-slice fft fusion gather get-dimension-size map partition-id reduce reduce-window "
    "replica-id rng-bit-generator scatter select-and-scatter set-dimension-size sort topk triangular-solve while"
).split()


def run(hlo: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """The results of a program, or of the lines of an ENTRY computation, verified first."""
    module = parse(hlo if "ENTRY" in hlo else f"HloModule test\nENTRY main {{\n{hlo}\n}}")
    verify(module)
    value = interpreter.run(module, inputs)
    return list(value) if isinstance(value, tuple) else [value]


def xla(hlo: str, *inputs: np.ndarray) -> list[np.ndarray]:
    oracle = pytest.importorskip("oracle")
    return oracle.xla_cpu(hlo if "ENTRY" in hlo else f"HloModule test\nENTRY main {{\n{hlo}\n}}", inputs)


def check_equal(hlo: str, *inputs: np.ndarray) -> None:
    for got, want in zip(run(hlo, *inputs), xla(hlo, *inputs), strict=True):
        assert got.dtype == want.dtype
        if got.dtype.name == "bfloat16":  # NumPy does not know that its NaNs are NaNs
            got, want = got.astype(np.float32), want.astype(np.float32)
        np.testing.assert_array_equal(got, want, err_msg=hlo)


def check_sums(hlo: str, *inputs: np.ndarray, terms: int) -> None:
    """Like check_equal, within the bound of sums of `terms` terms; exactly for integers."""
    magnitudes = run(hlo, *(np.abs(i).astype(i.dtype) for i in inputs))
    for got, want, magnitude in zip(run(hlo, *inputs), xla(hlo, *inputs), magnitudes, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want, err_msg=hlo)
            continue
        eps = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(got.dtype.name) or np.finfo(got.dtype).eps
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        error = np.abs(got.astype(wide) - want.astype(wide))
        bound = 2 * (terms + 1) * eps * np.abs(magnitude.astype(wide))
        assert (error <= bound).all(), f"{hlo}\nerror {error.max()}, {(error > bound).sum()} of {error.size} beyond"


def values(rng: np.random.Generator, element_type: str, dims: tuple[int, ...]) -> np.ndarray:
    dtype = ELEMENT_TYPES[element_type].dtype
    kind = ELEMENT_TYPES[element_type].kind
    if kind in ("signed", "unsigned"):
        bits = ELEMENT_TYPES[element_type].bits
        low = -(2 ** (bits - 1)) if kind == "signed" else 0
        return rng.integers(low, low + 2**bits - 1, dims, endpoint=True, dtype=dtype)
    if kind == "pred":
        return rng.random(dims) < 0.5
    if kind == "complex":
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(dtype)
    return np.asarray(rng.standard_normal(dims)).astype(dtype)


def shape(element_type: str, dims: tuple[int, ...]) -> str:
    return str(Shape.array(element_type, dims))


def reducer(name: str, opcode: str, element_type: str) -> str:
    t = element_type
    return f"{name} {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT c = {t}[] {opcode}(a, b) }}\n"


def neutral(opcode: str, element_type: str) -> float:
    """The neutral element of a reducer; with any other initial value a reduction has no one meaning."""
    if opcode in ("add", "multiply"):
        return 0 if opcode == "add" else 1
    if ELEMENT_TYPES[element_type].is_float:
        return -np.inf if opcode == "maximum" else np.inf
    limits = np.iinfo(ELEMENT_TYPES[element_type].dtype)
    return limits.min if opcode == "maximum" else limits.max


EXAMPLES = [(o, e) for o in STRUCTURED for e in operations()[o].examples]


@pytest.mark.parametrize("opcode, example", EXAMPLES, ids=[f"{o}-{n}" for n, (o, _) in enumerate(EXAMPLES)])
def test_example(opcode, example):
    got = run(example.hlo, *(parse_literal(i) for i in example.inputs))
    for value, expected in zip(got, example.expected, strict=True):
        np.testing.assert_array_equal(value, parse_literal(expected))


@pytest.mark.parametrize("opcode", STRUCTURED)
def test_every_operation_has_examples_and_labels(opcode):
    rule = operations()[opcode]
    assert rule.examples and rule.summary
    assert list(rule.constraints) == [f"C{n + 1}" for n in range(len(rule.constraints))]


# dot

DOTS = [  # lhs, rhs, attributes, the result's dimensions
    ((3, 4), (4, 5), "lhs_contracting_dims={1}, rhs_contracting_dims={0}", (3, 5)),
    ((4, 3), (5, 4), "lhs_contracting_dims={0}, rhs_contracting_dims={1}", (3, 5)),
    ((7,), (7,), "lhs_contracting_dims={0}, rhs_contracting_dims={0}", ()),
    ((2, 3), (4,), "lhs_contracting_dims={}, rhs_contracting_dims={}", (2, 3, 4)),
    (
        (2, 3, 4, 5),
        (5, 2, 6, 4),
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2,3}, rhs_contracting_dims={3,0}",
        (2, 3, 6),
    ),
    (
        (3, 2, 4),
        (4, 2, 3),
        "lhs_batch_dims={1,0}, rhs_batch_dims={1,2}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        (2, 3),
    ),
    ((2, 0), (0, 3), "lhs_contracting_dims={1}, rhs_contracting_dims={0}", (2, 3)),
]


@pytest.mark.parametrize(
    "types",
    ["f32 f32", "pred pred", "s32 f32", "f64 f64", "bf16 f32", "c64 c64", "s8 s32", "s32 s32", "u64 u64", "f16 f16"],
)
def test_dot(types):
    operand_type, result_type = types.split()
    rng = np.random.default_rng(1)
    for lhs, rhs, attributes, result in DOTS:
        hlo = f"""a = {shape(operand_type, lhs)} parameter(0)
                  b = {shape(operand_type, rhs)} parameter(1)
                  ROOT c = {shape(result_type, result)} dot(a, b), {attributes}"""
        a, b = values(rng, operand_type, lhs), values(rng, operand_type, rhs)
        check_sums(hlo, a, b, terms=4 * 20)


def test_dot_is_rounded_once():
    hlo = """a = f32[3] parameter(0)
             b = f32[3] parameter(1)
             ROOT c = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"""
    (got,) = run(hlo, np.array([2**24, 1, -(2**24)], np.float32), np.ones(3, np.float32))
    assert got == 1


# convolution

CONVOLUTIONS = [  # lhs, rhs, window, dim_labels and groups, the result's dimensions
    ((2, 7, 3), (3, 3, 4), "size=3", "b0f_0io->b0f", (2, 5, 4)),
    ((2, 3, 7, 6), (4, 3, 3, 2), "size=3x2 stride=2x1 pad=1_1x0_1", "bf01_oi01->bf01", (2, 4, 4, 6)),
    (
        (2, 7, 6, 3),
        (3, 2, 3, 4),
        "size=3x2 pad=2_0x-1_3 lhs_dilate=2x1 rhs_dilate=1x2",
        "b01f_01io->b01f",
        (2, 13, 6, 4),
    ),
    ((2, 7, 6, 3), (3, 2, 3, 4), "size=3x2 pad=-2_-1x1_1 rhs_reversal=1x0", "b01f_01io->b01f", (2, 2, 7, 4)),
    ((1, 5, 5, 6), (3, 3, 2, 9), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f, feature_group_count=3", (1, 5, 5, 9)),
    ((1, 5, 5, 4), (3, 3, 1, 4), "size=3x3 stride=2x2", "b01f_01io->b01f, feature_group_count=4", (1, 2, 2, 4)),
    ((6, 5, 5, 4), (3, 3, 4, 6), "size=3x3", "b01f_01io->b01f, batch_group_count=3", (2, 3, 3, 6)),
    ((3, 8, 8, 2), (3, 7, 7, 5), "size=7x7 pad=1_0x0_1 rhs_dilate=1x1", "f01b_i01o->01bf", (3, 3, 2, 5)),
    ((4, 3), (3, 5), "", "bf_io->bf", (4, 5)),
    ((1, 4, 5, 3, 2), (2, 2, 2, 2, 3), "size=2x2x2 stride=1x2x1", "b012f_012io->b012f", (1, 3, 2, 2, 3)),
    ((1, 3, 2), (5, 2, 2), "size=5", "b0f_0io->b0f", (1, 0, 2)),
]


def convolution(element_type: str, lhs, rhs, window, labels, result) -> str:
    return f"""a = {shape(element_type, lhs)} parameter(0)
              b = {shape(element_type, rhs)} parameter(1)
              ROOT c = {shape(element_type, result)} convolution(a, b), window={{{window}}}, dim_labels={labels}"""


@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
@pytest.mark.parametrize("element_type", ["f32", "f64", "bf16"])
def test_convolution(case, element_type):
    lhs, rhs, window, labels, result = CONVOLUTIONS[case]
    rng = np.random.default_rng(case)
    hlo = convolution(element_type, lhs, rhs, window, labels, result)
    a, b = values(rng, element_type, lhs), values(rng, element_type, rhs)
    check_sums(hlo, a, b, terms=b.size)


@pytest.mark.parametrize("seed", range(20))
def test_convolution_at_random(seed):
    """All window attributes at once; the shape that is stated is the one inferred, and XLA checks it too."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    groups = int(rng.choice([1, 1, 2, 3]))
    by_batch = bool(rng.random() < 0.3)
    sizes, kernel = rng.integers(3, 8, rank), rng.integers(1, 4, rank)
    stride, lhs_dilate, rhs_dilate = (rng.integers(1, 4, rank) for _ in range(3))
    low, high = rng.integers(-1, 4, rank), rng.integers(-1, 4, rank)
    counts = []
    for n, k, s, ld, rd, lo, hi in zip(sizes, kernel, stride, lhs_dilate, rhs_dilate, low, high, strict=True):
        padded, dilated = (n - 1) * ld + 1 + lo + hi, (k - 1) * rd + 1
        counts.append(0 if padded < dilated else (padded - dilated) // s + 1)
    spatial = "".join(map(str, range(rank)))
    labels = f"b{spatial}f_{spatial}io->b{spatial}f"
    batch, inputs, outputs = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(1, 3)) * groups
    if by_batch:
        lhs, labels = (batch * groups, *sizes, inputs), f"{labels}, batch_group_count={groups}"
    else:
        lhs, labels = (batch, *sizes, inputs * groups), f"{labels}, feature_group_count={groups}"
    rhs = (*kernel, inputs, outputs)

    def by(numbers) -> str:
        return "x".join(map(str, numbers))

    pad = "x".join(f"{lo}_{hi}" for lo, hi in zip(low, high, strict=True))
    reversal = by(rng.integers(0, 2, rank))
    window = f"size={by(kernel)} stride={by(stride)} pad={pad} lhs_dilate={by(lhs_dilate)} rhs_dilate={by(rhs_dilate)} "
    window += f"rhs_reversal={reversal}"
    hlo = convolution("f32", lhs, rhs, window, labels, (batch, *counts, outputs))
    check_sums(hlo, values(rng, "f32", lhs), values(rng, "f32", rhs), terms=int(np.prod(rhs)))


def test_convolution_of_integers_wraps():
    rng = np.random.default_rng(0)
    hlo = convolution("s32", (2, 6, 3), (3, 3, 2), "size=3 stride=2 pad=1_1", "b0f_0io->b0f", (2, 3, 2))
    a, b = values(rng, "s32", (2, 6, 3)), values(rng, "s32", (3, 3, 2))
    padded = np.pad(a.astype(object), ((0, 0), (1, 1), (0, 0)))
    (got,) = run(hlo, a, b)
    for n, o, c in np.ndindex(2, 3, 2):
        exact = sum(padded[n, 2 * o + k, f] * int(b[k, f, c]) for k in range(3) for f in range(3))
        assert int(got[n, o, c]) == (exact + 2**31) % 2**32 - 2**31


# reduce


@pytest.mark.parametrize("element_type", ["f32", "f64", "bf16", "s8", "u32", "s64", "c64"])
@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "minimum"])
def test_reduce(element_type, opcode):
    if element_type == "c64" and opcode in ("maximum", "minimum"):
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(2)
    for dims, over, result in (
        ((3, 5, 4), "{1}", (3, 4)),
        ((3, 5, 4), "{2,0}", (5,)),
        ((11,), "{0}", ()),
        ((2, 3), "{}", (2, 3)),
        ((0, 3), "{0}", (3,)),
    ):
        hlo = f"""HloModule test
            {reducer("f", opcode, element_type)}
            ENTRY main {{ x = {shape(element_type, dims)} parameter(0)
                         init = {element_type}[] parameter(1)
                         ROOT r = {shape(element_type, result)} reduce(x, init), dimensions={over}, to_apply=f }}"""
        x = values(rng, element_type, dims)
        init = np.array(neutral(opcode, element_type), x.dtype)
        if opcode == "maximum" and x.dtype.kind not in "iu" and x.size:
            x.reshape(-1)[1] = np.nan  # it must win
        check = check_equal if opcode in ("maximum", "minimum") else lambda *a: check_sums(*a, terms=20)
        check(hlo, x, init)


def test_reduce_of_predicates():
    x = values(np.random.default_rng(0), "pred", (6, 3))
    for opcode, init in (("and", True), ("or", False), ("xor", False)):
        hlo = f"""HloModule test
            {reducer("f", opcode, "pred")}
            ENTRY main {{ x = pred[6,3] parameter(0)
                         init = pred[] parameter(1)
                         ROOT r = pred[6] reduce(x, init), dimensions={{1}}, to_apply=f }}"""
        check_equal(hlo, x, np.array(init))


ARGMAX = """HloModule test
    larger { a = f32[] parameter(0)
             i = s32[] parameter(1)
             b = f32[] parameter(2)
             j = s32[] parameter(3)
             gt = pred[] compare(a, b), direction=GT
             odd = pred[] compare(a, a), direction=NE
             first = pred[] or(gt, odd)
             same = pred[] compare(a, b), direction=EQ
             lower = pred[] compare(i, j), direction=LT
             tie = pred[] and(same, lower)
             where = pred[] or(first, tie)
             value = f32[] select(first, a, b)
             index = s32[] select(where, i, j)
             ROOT r = (f32[], s32[]) tuple(value, index) }
    ENTRY main { x = f32[5,37] parameter(0)
                 at = s32[5,37] iota(), iota_dimension=1
                 low = f32[] constant(-inf)
                 zero = s32[] constant(0)
                 ROOT r = (f32[5], s32[5]) reduce(x, at, low, zero), dimensions={1}, to_apply=larger }"""


def test_reduce_of_two_operands():
    x = np.random.default_rng(0).integers(0, 9, (5, 37)).astype(np.float32)
    x[2, 11] = x[2, 17] = np.nan
    check_equal(ARGMAX, x)


def test_reduce_with_a_loop_in_the_reducer():
    """No elementwise computation: it is applied element by element."""
    hlo = """HloModule test
        body { s = (s32[], s32[]) parameter(0)
               n = s32[] get-tuple-element(s), index=0
               v = s32[] get-tuple-element(s), index=1
               one = s32[] constant(1)
               m = s32[] subtract(n, one)
               w = s32[] add(v, one)
               ROOT t = (s32[], s32[]) tuple(m, w) }
        more { s = (s32[], s32[]) parameter(0)
               n = s32[] get-tuple-element(s), index=0
               zero = s32[] constant(0)
               ROOT p = pred[] compare(n, zero), direction=GT }
        slow_add { a = s32[] parameter(0)
                   b = s32[] parameter(1)
                   start = (s32[], s32[]) tuple(a, b)
                   end = (s32[], s32[]) while(start), condition=more, body=body
                   ROOT r = s32[] get-tuple-element(end), index=1 }
        ENTRY main { x = s32[2,3] parameter(0)
                     zero = s32[] constant(0)
                     ROOT r = s32[2] reduce(x, zero), dimensions={1}, to_apply=slow_add }"""
    (got,) = run(hlo, np.array([[1, 2, 3], [4, 0, 9]], np.int32))
    np.testing.assert_array_equal(got, [6, 13])


def test_long_sum_is_rounded_once():
    hlo = f"""HloModule test
        {reducer("f", "add", "f32")}
        ENTRY main {{ x = f32[100000] parameter(0)
                     zero = f32[] constant(0)
                     ROOT r = f32[] reduce(x, zero), dimensions={{0}}, to_apply=f }}"""
    x = np.random.default_rng(0).standard_normal(100000).astype(np.float32)
    (got,) = run(hlo, x)
    assert got == np.float32(x.astype(np.longdouble).sum())


# reduce-window, select-and-scatter

WINDOWS = [  # the array, the window, the result's dimensions
    ((9,), "size=3 stride=2", (4,)),
    ((5, 6), "size=2x3 pad=1_1x0_2", (6, 6)),
    ((5, 6), "size=2x2 stride=2x3 lhs_dilate=2x1 rhs_dilate=1x2", (4, 2)),
    ((5, 6), "size=3x1 pad=-1_-1x0_0", (1, 6)),
    ((1, 8, 8, 2), "size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0", (1, 4, 4, 2)),
    ((3, 7), "size=1x7 pad=0_0x6_0", (3, 7)),
    ((2,), "size=3", (0,)),
]


@pytest.mark.parametrize("case", range(len(WINDOWS)))
def test_reduce_window(case):
    dims, window, result = WINDOWS[case]
    rng = np.random.default_rng(case)
    for element_type, opcode, init in (
        ("f32", "add", 0),
        ("f32", "maximum", -np.inf),
        ("s32", "minimum", 2**31 - 1),
        ("s16", "add", 0),
        ("bf16", "add", 0),
        ("f32", "multiply", 1),
    ):
        hlo = f"""HloModule test
            {reducer("f", opcode, element_type)}
            ENTRY main {{ x = {shape(element_type, dims)} parameter(0)
                         init = {element_type}[] parameter(1)
                         ROOT r = {shape(element_type, result)} reduce-window(x, init), window={{{window}}},
                           to_apply=f }}"""
        x = values(rng, element_type, dims)
        init = np.array(init).astype(x.dtype)
        if opcode in ("add", "multiply"):
            check_sums(hlo, x, init, terms=9)
        else:
            check_equal(hlo, x, init)


@pytest.mark.parametrize("case", [0, 1, 3, 4, 5])
def test_select_and_scatter(case):
    dims, window, placings = WINDOWS[case]
    rng = np.random.default_rng(case)
    hlo = f"""HloModule test
        ge {{ a = f32[] parameter(0)
             b = f32[] parameter(1)
             ROOT c = pred[] compare(a, b), direction=GE }}
        {reducer("f", "add", "f32")}
        ENTRY main {{ x = {shape("f32", dims)} parameter(0)
                     s = {shape("f32", placings)} parameter(1)
                     zero = f32[] constant(0)
                     ROOT r = {shape("f32", dims)} select-and-scatter(x, s, zero), window={{{window}}}, select=ge,
                       scatter=f }}"""
    x = rng.permutation(int(np.prod(dims))).reshape(dims).astype(np.float32)  # no ties: XLA:CPU has its own order there
    source = values(rng, "f32", placings)
    got, want = run(hlo, x, source), xla(hlo, x, source)
    (magnitude,) = run(hlo, x, np.abs(source))
    assert (np.abs(got[0] - want[0]) <= 18 * np.finfo(np.float32).eps * magnitude).all()


# gather, scatter, dynamic slices

GATHERS = [  # operand, indices, attributes, the result's dimensions
    (
        (5, 4),
        (3, 1),
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
        (3, 4),
    ),
    (
        (5, 4),
        (2, 6),
        "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,3}",
        (6, 2, 3),
    ),
    (
        (5, 4, 3),
        (2, 3),
        "offset_dims={0,3}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=2, slice_sizes={3,1,2}",
        (3, 2, 3, 2),
    ),
    (
        (2, 5, 3),
        (3, 2, 1),
        "offset_dims={2}, collapsed_slice_dims={}, start_index_map={1}, operand_batching_dims={0,2}, "
        "start_indices_batching_dims={1,0}, index_vector_dim=2, slice_sizes={1,2,1}",
        (3, 2, 2),
    ),
    (
        (5, 4),
        (0, 1),
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
        (0, 4),
    ),
    (
        (5,),
        (),
        "offset_dims={0}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=0, slice_sizes={3}",
        (3,),
    ),
]


@pytest.mark.parametrize("case", range(len(GATHERS)))
@pytest.mark.parametrize("index_type", ["s32", "u8", "s64", "u64"])
def test_gather(case, index_type):
    dims, indices, attributes, result = GATHERS[case]
    rng = np.random.default_rng(case)
    hlo = f"""x = {shape("f32", dims)} parameter(0)
              i = {shape(index_type, indices)} parameter(1)
              ROOT r = {shape("f32", result)} gather(x, i), {attributes}"""
    i = rng.integers(0 if index_type[0] == "u" else -3, 8, indices).astype(ELEMENT_TYPES[index_type].dtype)
    check_equal(hlo, values(rng, "f32", dims), np.asarray(i))


SCATTERS = [  # operand, indices, updates, attributes
    (
        (5, 4),
        (6, 1),
        (6, 4),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    (
        (5, 4),
        (2, 6),
        (6, 2, 3),
        "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0",
    ),
    (
        (5, 4, 3),
        (2, 3),
        (3, 2, 3, 2),
        "update_window_dims={0,3}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=2",
    ),
    (
        (2, 5, 3),
        (3, 2, 1),
        (3, 2, 2),
        "update_window_dims={2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, input_batching_dims={0,2}, "
        "scatter_indices_batching_dims={1,0}, index_vector_dim=2",
    ),
    (
        (5, 4),
        (0, 1),
        (0, 4),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    ((4,), (7,), (7,), "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
]


@pytest.mark.parametrize("case", range(len(SCATTERS)))
@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "and", "subtract"])
def test_scatter(case, opcode):
    dims, indices, updates, attributes = SCATTERS[case]
    if "update_window_dims" not in attributes:
        attributes = f"update_window_dims={{}}, {attributes}"
    rng = np.random.default_rng(case)
    for element_type in ("s32", "f32") if opcode != "and" else ("s32", "pred"):
        hlo = f"""HloModule test
            {reducer("f", opcode, element_type)}
            ENTRY main {{ x = {shape(element_type, dims)} parameter(0)
                         i = {shape("s32", indices)} parameter(1)
                         u = {shape(element_type, updates)} parameter(2)
                         ROOT r = {shape(element_type, dims)} scatter(x, i, u), {attributes}, to_apply=f }}"""
        i = rng.integers(-2, 7, indices).astype(np.int32)
        x, u = values(rng, element_type, dims), values(rng, element_type, updates)
        if element_type == "f32" and opcode != "maximum":
            got, want = run(hlo, x, i, u), xla(hlo, x, i, u)
            (magnitude,) = run(hlo.replace("subtract(", "add("), np.abs(x), i, np.abs(u))
            assert (np.abs(got[0] - want[0]) <= 20 * np.finfo(np.float32).eps * magnitude).all(), hlo
        else:
            check_equal(hlo, x, i, u)


def test_scatter_of_two_operands_in_order():
    hlo = """HloModule test
        f { a = s32[] parameter(0)
            b = f32[] parameter(1)
            c = s32[] parameter(2)
            d = f32[] parameter(3)
            two = s32[] constant(2)
            e = s32[] multiply(a, two)
            g = s32[] add(e, c)
            h = f32[] maximum(b, d)
            ROOT r = (s32[], f32[]) tuple(g, h) }
        ENTRY main { x = s32[3] parameter(0)
                     y = f32[3] parameter(1)
                     i = s32[5,1] parameter(2)
                     u = s32[5] parameter(3)
                     v = f32[5] parameter(4)
                     ROOT r = (s32[3], f32[3]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0},
                       scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"""
    check_equal(
        hlo,
        np.array([1, 1, 1], np.int32),
        np.zeros(3, np.float32),
        np.array([[2], [0], [2], [-1], [2]], np.int32),
        np.array([1, 2, 3, 4, 5], np.int32),
        np.array([1, -2, 7, 9, 5], np.float32),
    )


@pytest.mark.parametrize("start", [(0, 0), (-5, 2), (9, 9), (1, 2)])
def test_dynamic_slices(start):
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    i, j = (np.array(s, np.int32) for s in start)
    check_equal(
        """x = f32[4,5] parameter(0)
           i = s32[] parameter(1)
           j = s32[] parameter(2)
           ROOT r = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}""",
        x,
        i,
        j,
    )
    check_equal(
        """x = f32[4,5] parameter(0)
           u = f32[2,3] parameter(1)
           i = s32[] parameter(2)
           j = s32[] parameter(3)
           ROOT r = f32[4,5] dynamic-update-slice(x, u, i, j)""",
        x,
        -np.ones((2, 3), np.float32),
        i,
        j,
    )


# sort, topk

NUMPY_ORDER = """key_{0} = f32[] parameter({0})
    ne_{0} = pred[] compare(key_{0}, key_{0}), direction=NE
    eq_{0} = pred[] compare(key_{0}, zero), direction=EQ
    s_{0} = f32[] select(eq_{0}, zero, key_{0})
    t_{0} = f32[] select(ne_{0}, quiet, s_{0})
"""


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("dimension", [0, 1])
def test_sort_with_jax_comparator(direction, dimension):
    """NaNs last, zeros equal, stable: recognised as a key."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, (13, 6)).astype(np.float32)
    x[x == 2] = np.nan
    x[x == 1] = -0.0
    hlo = f"""HloModule test
        less {{ zero = f32[] constant(0)
               quiet = f32[] constant(nan)
               {NUMPY_ORDER.format(0)} {NUMPY_ORDER.format(1)}
               v = s32[] parameter(2)
               w = s32[] parameter(3)
               ROOT p = pred[] compare(t_0, t_1), direction={direction}, type=TOTALORDER }}
        ENTRY main {{ x = f32[13,6] parameter(0)
                     v = s32[13,6] iota(), iota_dimension={dimension}
                     ROOT r = (f32[13,6], s32[13,6]) sort(x, v), dimensions={{{dimension}}}, is_stable=true,
                       to_apply=less }}"""
    check_equal(hlo, x)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 16, 33])
def test_sort_by_two_keys(n):
    """Two keys: sorted by comparing, with the old index where both are equal."""
    rng = np.random.default_rng(n)
    hlo = f"""HloModule test
        less {{ a = s32[] parameter(0)
               b = s32[] parameter(1)
               c = f32[] parameter(2)
               d = f32[] parameter(3)
               i = s32[] parameter(4)
               j = s32[] parameter(5)
               lt = pred[] compare(a, b), direction=LT
               eq = pred[] compare(a, b), direction=EQ
               gt = pred[] compare(c, d), direction=GT
               both = pred[] and(eq, gt)
               ROOT p = pred[] or(lt, both) }}
        ENTRY main {{ x = s32[3,{n}] parameter(0)
                     y = f32[3,{n}] parameter(1)
                     v = s32[3,{n}] iota(), iota_dimension=1
                     ROOT r = (s32[3,{n}], f32[3,{n}], s32[3,{n}]) sort(x, y, v), dimensions={{1}}, is_stable=true,
                       to_apply=less }}"""
    x, y = rng.integers(0, 3, (3, n)).astype(np.int32), rng.integers(0, 3, (3, n)).astype(np.float32)
    check_equal(hlo, x, y)


@pytest.mark.parametrize("element_type", ["s8", "u32", "bf16", "f64", "pred"])
def test_sort_of_one_array(element_type):
    x = values(np.random.default_rng(0), element_type, (3, 50))
    for direction in ("LT", "GT"):
        hlo = f"""HloModule test
            before {{ a = {element_type}[] parameter(0)
                     b = {element_type}[] parameter(1)
                     ROOT p = pred[] compare(a, b), direction={direction} }}
            ENTRY main {{ x = {element_type}[3,50] parameter(0)
                         ROOT r = {element_type}[3,50] sort(x), dimensions={{1}}, to_apply=before }}"""
        check_equal(hlo, x)


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("element_type", ["f32", "s32", "u8", "bf16", "pred"])
def test_topk(largest, element_type):
    x = np.random.default_rng(0).integers(0, 9, (2, 3, 20)).astype(ELEMENT_TYPES[element_type].dtype)
    v, i = run(
        f"""x = {element_type}[2,3,20] parameter(0)
            ROOT r = ({element_type}[2,3,7], s32[2,3,7]) topk(x), k=7, largest={largest}""",
        x,
    )
    for at in np.ndindex(2, 3):
        row = [(-float(e) if largest == "true" else float(e), n) for n, e in enumerate(x[at])]
        best = sorted(row)[:7]
        assert i[at].tolist() == [n for _, n in best]
        assert v[at].tolist() == [x[at][n] for _, n in best]


# control flow, random bits, batch norm, custom calls


def test_conditional_index():
    hlo = """HloModule test
        a { x = f32[] parameter(0)
            ROOT y = f32[] negate(x) }
        b { x = f32[1] parameter(0)
            ROOT y = f32[] reshape(x) }
        ENTRY main { i = s32[] parameter(0)
                     x = f32[] parameter(1)
                     y = f32[1] parameter(2)
                     ROOT r = f32[] conditional(i, x, y), branch_computations={a, b} }"""
    for i in (-1, 0, 1, 2):
        check_equal(hlo, np.array(i, np.int32), np.array(3, np.float32), np.array([5], np.float32))


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox", "rng_default"])
@pytest.mark.parametrize("element_type", ["u32", "u64", "u8"])
def test_random_bits_are_those_of_xla(algorithm, element_type):
    rng = np.random.default_rng(0)
    sizes = ((), (5,), (3, 5), (4, 3), (7, 1, 3), (0, 3))
    for dims in sizes[:2] if algorithm == "rng_default" else sizes:
        for n in (2,) if algorithm == "rng_three_fry" else (2, 3):
            hlo = f"""s = u64[{n}] parameter(0)
                      ROOT r = (u64[{n}], {shape(element_type, dims)}) rng-bit-generator(s), algorithm={algorithm}"""
            check_equal(hlo, np.array([rng.integers(0, 2**63), 2**64 - 2, 5], np.uint64)[:n])  # the counter carries


def test_batch_norm():
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal((6, 5, 3)).astype(np.float32) for _ in range(2))
    scale, offset, mean, variance = (rng.random(3).astype(np.float32) for _ in range(4))
    rest = "epsilon=0.01, feature_index=2"
    programs = (
        (
            f"""x = f32[6,5,3] parameter(0)
                s = f32[3] parameter(1)
                o = f32[3] parameter(2)
                ROOT r = (f32[6,5,3], f32[3], f32[3]) batch-norm-training(x, s, o), {rest}""",
            (x, scale, offset),
        ),
        (
            f"""x = f32[6,5,3] parameter(0)
                s = f32[3] parameter(1)
                o = f32[3] parameter(2)
                m = f32[3] parameter(3)
                v = f32[3] parameter(4)
                ROOT r = f32[6,5,3] batch-norm-inference(x, s, o, m, v), {rest}""",
            (x, scale, offset, mean, variance),
        ),
        (
            f"""x = f32[6,5,3] parameter(0)
                s = f32[3] parameter(1)
                m = f32[3] parameter(2)
                v = f32[3] parameter(3)
                g = f32[6,5,3] parameter(4)
                ROOT r = (f32[6,5,3], f32[3], f32[3]) batch-norm-grad(x, s, m, v, g), {rest}""",
            (x, scale, mean, variance, g),
        ),
    )
    for hlo, inputs in programs:
        for got, want in zip(run(hlo, *inputs), xla(hlo, *inputs), strict=True):
            # 30 terms of size up to 100 in each sum (variance may be near epsilon)
            assert np.abs(got - want).max() <= 60 * np.finfo(np.float32).eps * max(1, np.abs(want).max())


def test_custom_call():
    hlo = """x = f32[2] parameter(0)
             ROOT r = f32[2] custom-call(x), custom_call_target="test_twice" """
    x = np.array([1, 2], np.float32)
    with pytest.raises(UnsupportedError, match="test_twice"):
        run(hlo, x)
    custom_call.register("test_twice", lambda instruction, x: x + x)
    try:
        np.testing.assert_array_equal(run(hlo, x)[0], [2, 4])
    finally:
        del custom_call._targets["test_twice"]


# linear algebra, Fourier transforms


@pytest.mark.parametrize("element_type", ["f32", "f64", "c64"])
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky(element_type, lower):
    a = values(np.random.default_rng(0), element_type, (2, 5, 5))
    a = (a @ a.swapaxes(-1, -2).conj() + 5 * np.eye(5)).astype(a.dtype)
    hlo = f"""a = {element_type}[2,5,5] parameter(0)
              ROOT r = {element_type}[2,5,5] cholesky(a), lower={lower}"""
    (got,), (want,) = run(hlo, a), xla(hlo, a)
    want = np.tril(want) if lower == "true" else np.triu(want)
    assert np.abs(got - want).max() <= 50 * np.finfo(a.dtype).eps * np.abs(a).max()
    back = got @ got.swapaxes(-1, -2).conj() if lower == "true" else got.swapaxes(-1, -2).conj() @ got
    assert np.abs(back - a).max() <= 50 * np.finfo(a.dtype).eps * np.abs(a).max()


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("unit", ["true", "false"])
def test_triangular_solve(transpose, lower, left, unit):
    rng = np.random.default_rng(0)
    dims = (2, 4, 3) if left == "true" else (2, 3, 4)
    for element_type in ("f32", "c64"):
        a, b = values(rng, element_type, (2, 4, 4)), values(rng, element_type, dims)
        a += 4 * np.eye(4, dtype=a.dtype)
        hlo = f"""a = {element_type}[2,4,4] parameter(0)
                  b = {shape(element_type, dims)} parameter(1)
                  ROOT r = {shape(element_type, dims)} triangular-solve(a, b), left_side={left}, lower={lower},
                    unit_diagonal={unit}, transpose_a={transpose}"""
        (got,), (want,) = run(hlo, a, b), xla(hlo, a, b)
        assert np.abs(got - want).max() <= 200 * np.finfo(a.dtype).eps * np.abs(want).max()


@pytest.mark.parametrize("element_type", ["f32", "c64"])
@pytest.mark.parametrize("dims", [(5, 3), (3, 5), (4, 4), (2, 3, 1)])
def test_householder(element_type, dims):
    """Q R is the matrix, Q's columns are orthonormal, R is upper triangular by its packing."""
    m, n = dims[-2:]
    k = min(m, n)
    a = values(np.random.default_rng(0), element_type, dims)
    batch = dims[:-2]
    packed, tau = run(
        f"""a = {shape(element_type, dims)} parameter(0)
            ROOT r = ({shape(element_type, dims)}, {shape(element_type, (*batch, k))}) custom-call(a),
              custom_call_target="Qr" """,
        a,
    )
    (q,) = run(
        f"""a = {shape(element_type, (*batch, m, k))} parameter(0)
            t = {shape(element_type, (*batch, k))} parameter(1)
            ROOT q = {shape(element_type, (*batch, m, k))} custom-call(a, t),
              custom_call_target="ProductOfElementaryHouseholderReflectors" """,
        packed[..., :k],
        tau,
    )
    eps = 50 * np.finfo(a.dtype).eps
    assert np.abs(q @ np.triu(packed)[..., :k, :] - a).max() <= eps * np.abs(a).max()
    assert np.abs(q.swapaxes(-1, -2).conj() @ q - np.eye(k)).max() <= eps


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("length", [(8,), (7,), (4, 6), (3, 4, 5)])
def test_fft(kind, length):
    half = (*length[:-1], length[-1] // 2 + 1)
    before = {"RFFT": ("f32", length), "IRFFT": ("c64", half)}.get(kind, ("c64", length))
    after = {"RFFT": ("c64", half), "IRFFT": ("f32", length)}.get(kind, ("c64", length))
    dims = (2, *before[1])
    x = values(np.random.default_rng(0), before[0], dims)
    if kind == "IRFFT":  # of what a real array gives: other operands have no result that they are the RFFT of
        x = np.fft.rfftn(np.random.default_rng(0).standard_normal((2, *length)), axes=range(1, 1 + len(length)))
        x = x.astype(np.complex64)
    hlo = f"""x = {shape(before[0], dims)} parameter(0)
              ROOT r = {shape(after[0], (2, *after[1]))} fft(x), fft_type={kind},
                fft_length={{{",".join(map(str, length))}}}"""
    (got,), (want,) = run(hlo, x), xla(hlo, x)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert np.abs(got - want).max() <= 20 * np.finfo(np.float32).eps * np.abs(x).sum() / (2 if kind[0] != "I" else 1)


# broken programs: each breaks the one constraint that its label names

F = reducer("add", "add", "f32")
BROKEN = {
    "dot_c1": "ROOT c = f32[2,2] dot(a, a), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    "dot_c2": "ROOT c = f32[2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={}",
    "dot_c3": "ROOT c = f32[2,2] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "dot_c5": "ROOT c = s32[2,2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution_c2": "ROOT c = f32[1,3,1] convolution(s, s), window={size=2}, dim_labels=b0f_0io->b0f",
    "convolution_c5": "ROOT c = f32[1,4,1] convolution(s, s), window={size=1}, dim_labels=b0f_0io->b0f, "
    "feature_group_count=2",
    "reduce_c1": "ROOT c = f32[2] reduce(a, v), dimensions={1}, to_apply=add",
    "reduce_c3": "ROOT c = f32[2] reduce(a, z), dimensions={2}, to_apply=add",
    "reduce_c4": "ROOT c = s32[2] reduce(i, n), dimensions={1}, to_apply=add",
    "reduce_window_c3": "ROOT c = f32[2,2] reduce-window(a, z), window={size=2}, to_apply=add",
    "select_and_scatter_c3": "ROOT c = f32[2,2] select-and-scatter(a, a, z), window={size=1x1}, select=add, "
    "scatter=add",
    "gather_c2": "ROOT c = f32[2,2] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,2}",
    "gather_c3": "ROOT c = f32[2,3] gather(a, n), offset_dims={0,1}, start_index_map={0}, index_vector_dim=0, "
    "slice_sizes={2,3}",
    "scatter_c5": "ROOT c = f32[2,2] scatter(a, n, v), update_window_dims={0}, inserted_window_dims={}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add",
    "sort_c2": "ROOT c = f32[2,2] sort(a), dimensions={2}, to_apply=less",
    "sort_c3": "ROOT c = f32[2,2] sort(a), dimensions={1}, to_apply=add",
    "topk_c2": "ROOT c = (f32[2,3], s32[2,3]) topk(a), k=3",
    "dynamic_slice_c1": "ROOT c = f32[1,1] dynamic-slice(a, n), dynamic_slice_sizes={1,1}",
    "dynamic_slice_c2": "ROOT c = f32[3,1] dynamic-slice(a, n, n), dynamic_slice_sizes={3,1}",
    "dynamic_update_slice_c2": "ROOT c = f32[2,2] dynamic-update-slice(a, v, n, n)",
    "while_c1": "ROOT c = f32[] while(z), condition=add, body=add",
    "call_c1": "ROOT c = f32[] call(z), to_apply=add",
    "conditional_c2": "ROOT c = f32[] conditional(n, z), branch_computations={add}",
    "map_c2": "ROOT c = f32[2,2] map(a, a), dimensions={1,0}, to_apply=add",
    "fusion_c2": "ROOT c = f32[] fusion(z, z), kind=kLop, calls=add",
    "rng_bit_generator_c2": "ROOT c = (f32[2], u32[3]) rng-bit-generator(v), algorithm=rng_default",
    "batch_norm_training_c2": "ROOT c = (f32[2,2], f32[3], f32[3]) batch-norm-training(a, v, v), epsilon=0, "
    "feature_index=1",
    "cholesky_c1": "ROOT c = f32[3] cholesky(v)",
    "triangular_solve_c1": "ROOT c = f32[3] triangular-solve(a, v)",
    "fft_c3": "ROOT c = f32[3] fft(v), fft_type=FFT, fft_length={3}",
}


@pytest.mark.parametrize("label", BROKEN)
def test_constraint(label):
    hlo = f"""HloModule test
        {F}
        less {{ a = f32[] parameter(0)
               b = f32[] parameter(1)
               ROOT c = pred[] compare(a, b), direction=LT }}
        ENTRY main {{ a = f32[2,2] parameter(0)
                     v = f32[3] parameter(1)
                     s = f32[1,4,1] parameter(2)
                     i = s32[2,2] parameter(3)
                     n = s32[] parameter(4)
                     z = f32[] parameter(5)
                     {BROKEN[label]} }}"""
    with pytest.raises(InvalidProgramError) as error:
        verify(parse(hlo))
    assert error.value.constraint == label, str(error.value)
