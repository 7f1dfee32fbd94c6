"""Products, sums and windows against XLA:CPU."""

from __future__ import annotations

import numpy as np
import pytest
from refxla_spec.accumulate import matrix_product
from refxla_spec.compare import bits_equal
from refxla_spec.operation import operations
from structured import check_equal, check_sums, neutral, reducer, run, shape, values, xla

STRUCTURED = (
    "batch-norm-grad batch-norm-inference batch-norm-training call cholesky conditional convolution custom-call domain "
    "dot dynamic-slice dynamic-update-slice fft fusion gather get-dimension-size map partition-id reduce reduce-window "
    "replica-id rng-bit-generator scatter select-and-scatter set-dimension-size sort topk triangular-solve while"
).split()


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


def test_which_part_of_a_complex_product_is_nan_does_not_depend_on_its_form():
    """0 times an infinity is NaN in both parts of a sum, however many rows are multiplied at once."""
    rng = np.random.default_rng(0)
    x = np.zeros((7, 5, 3), np.complex64)
    y = np.zeros((7, 3, 4), np.complex64)
    for a in (x, y):
        a.reshape(-1)[rng.choice(a.size, a.size // 3, replace=False)] = 1 + 2j
    y.reshape(-1)[rng.choice(y.size, 20, replace=False)] = complex(-np.inf, -1)
    with np.errstate(invalid="ignore"):
        whole = matrix_product(x, y)
    for b, m, n in np.ndindex(7, 5, 4):
        with np.errstate(invalid="ignore"):
            one = matrix_product(x[b, m : m + 1], y[b, :, n : n + 1])[0, 0]
        assert bits_equal(np.array(whole[b, m, n]), np.array(one))
