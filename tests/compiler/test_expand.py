"""Operations that become others before they are compiled: compiled and run beside the reference."""

from math import prod

import ml_dtypes
import mpmath
import numpy as np
import pytest
from agreement import assert_agree
from refxla_spec import interpreter
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

import refxla
from refxla.analysis import fft_plan, index_maps
from refxla.analysis.twiddle_factors import rotation, transform_of_chirp

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
}


def random(name: str, *sizes: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng((seed, *sizes))
    values = rng.standard_normal(sizes)
    return (values + 1j * rng.standard_normal(sizes) if name[0] == "c" else values).astype(TYPES[name])


def dims(*sizes: int) -> str:
    return ",".join(map(str, sizes))


def run(body: str, *arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the compiled program gives, and the reference."""
    text = f"HloModule test\nENTRY main {{\n{body}\n}}"
    return refxla.compile(text)(*arguments), interpreter.run(parse(text), arguments)


def positive(name: str, *sizes: int) -> np.ndarray:
    """Hermitian positive-definite matrices, and noise in the triangle above the diagonal."""
    wide = "c64" if name[0] == "c" else "f64"
    a = random(wide, *sizes)
    return (a @ a.swapaxes(-1, -2).conj() + sizes[-1] * np.eye(sizes[-1])).astype(TYPES[name])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("name", "sizes"), [("f32", (5, 5)), ("bf16", (3, 3)), ("c64", (2, 4, 4)), ("c64", (53, 53)), ("f32", (1, 70, 70))]
)
def test_cholesky(name, sizes, lower):
    a = positive(name, *sizes)
    keep = np.tri(sizes[-1], dtype=bool)
    a = np.where(keep if lower else keep.T, a, np.array(np.nan, a.dtype))  # the other triangle is not read
    shape = f"{name}[{dims(*sizes)}]"
    got, wanted = run(f"a = {shape} parameter(0)\nROOT r = {shape} cholesky(a), lower={str(lower).lower()}", a)
    assert_agree(got, [wanted])


@pytest.mark.parametrize("name", ["f32", "f16", "c64"])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("wrong", [-1, 0, np.nan])
def test_a_matrix_that_is_not_positive_definite_has_a_factor_of_nan(name, lower, wrong):
    """As in XLA: each element, also those before the row that shows it, and no other matrix of the batch."""
    a = np.stack([np.diag([4, 1, wrong, 9]), np.diag([4, 1, 1, 9])]).astype(ELEMENT_TYPES[name].dtype)
    shape = f"{name}[2,4,4]"
    got, wanted = run(f"a = {shape} parameter(0)\nROOT r = {shape} cholesky(a), lower={lower}", a)
    np.testing.assert_array_equal(got, wanted)
    assert np.isnan(got[0]).all() and (np.diagonal(got[1]) == [2, 1, 1, 3]).all()


SOLVES = [  # type, rows, columns, batch, left_side, lower, unit_diagonal, transpose_a
    ("f32", 4, 3, (), True, True, False, "NO_TRANSPOSE"),
    ("f32", 4, 1, (2,), True, False, True, "TRANSPOSE"),
    ("f64", 3, 5, (2, 2), False, True, False, "TRANSPOSE"),
    ("f16", 5, 2, (), False, False, False, "NO_TRANSPOSE"),
    ("c64", 4, 2, (), True, False, False, "ADJOINT"),
    ("c64", 3, 2, (2,), False, True, False, "ADJOINT"),
    ("f32", 70, 3, (), True, True, False, "NO_TRANSPOSE"),
    ("f32", 64, 2, (2,), False, False, False, "NO_TRANSPOSE"),
    ("c64", 50, 1, (), True, True, True, "ADJOINT"),
]


@pytest.mark.parametrize(("name", "n", "m", "batch", "left", "lower", "unit", "transposed"), SOLVES)
def test_triangular_solve(name, n, m, batch, left, lower, unit, transposed):
    a = random(name, *batch, n, n) / n + 2 * np.eye(n)
    keep = np.tri(n, k=-1 if unit else 0, dtype=bool)
    a = np.where(keep if lower else keep.T, a, np.nan).astype(TYPES[name])  # what is elsewhere is not read
    sizes = (*batch, n, m) if left else (*batch, m, n)
    flags = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
    body = f"""a = {name}[{dims(*batch, n, n)}] parameter(0)
        b = {name}[{dims(*sizes)}] parameter(1)
        ROOT x = {name}[{dims(*sizes)}] triangular-solve(a, b), {flags}, transpose_a={transposed}"""
    got, wanted = run(body, a, random(name, *sizes, seed=1))
    assert_agree(got, [wanted])


def test_nothing_to_solve():
    body = """a = f32[0,0] parameter(0)
        b = f32[0,3] parameter(1)
        ROOT x = f32[0,3] triangular-solve(a, b), left_side=true, transpose_a=NO_TRANSPOSE"""
    got, _ = run(body, np.zeros((0, 0), np.float32), np.zeros((0, 3), np.float32))
    assert got.shape == (0, 3)


PRIME = 131
TRANSFORMS = [  # fft_type, batch, fft_length
    ("FFT", (), (1,)),
    ("FFT", (2,), (15,)),
    ("IFFT", (3,), (4, 9)),
    ("RFFT", (), (2, 3, 7)),
    ("RFFT", (2,), (4, 8)),
    ("IRFFT", (2,), (3, 6)),
    ("IRFFT", (), (2, 5)),
    ("IRFFT", (), (2,)),
    ("FFT", (2,), (1024,)),
    ("IFFT", (), (3 * PRIME,)),
    ("RFFT", (0,), (4,)),
    ("FFT", (11,), (40,)),  # whole vectors of lanes and some more
    ("RFFT", (11,), (2 * 11,)),
    ("IRFFT", (9,), (8, 12)),
    ("IFFT", (2,), (4, 9)),
    ("RFFT", (), (256,)),  # two stages
    ("IRFFT", (2,), (128,)),
    ("IRFFT", (), (3, 128)),
    ("FFT", (9,), (2 * fft_plan.LONGEST,)),
    ("RFFT", (), (4, PRIME)),
    ("IRFFT", (2,), (PRIME,)),
    ("IFFT", (), (16, 9)),  # several passes along columns
    ("RFFT", (2,), (12, 16)),
    ("FFT", (9,), (PRIME,)),  # as convolutions, side by side
    ("RFFT", (8,), (2 * PRIME,)),
    ("IRFFT", (), (PRIME, 6)),
    ("IFFT", (), (PRIME, 2 * PRIME)),
]


@pytest.mark.parametrize(("kind", "batch", "length"), TRANSFORMS)
def test_fft(kind, batch, length):
    assert PRIME > fft_plan.LARGEST_RADIX  # so that it is done by chirps
    whole, half = (*batch, *length), (*batch, *length[:-1], length[-1] // 2 + 1)
    operand, result = {"RFFT": (whole, half), "IRFFT": (half, whole)}.get(kind, (whole, whole))
    of, to = {"RFFT": ("f32", "c64"), "IRFFT": ("c64", "f32")}.get(kind, ("c64", "c64"))
    body = f"""x = {of}[{dims(*operand)}] parameter(0)
        ROOT r = {to}[{dims(*result)}] fft(x), fft_type={kind}, fft_length={{{dims(*length)}}}"""
    got, wanted = run(body, random(of, *operand))
    assert_agree(got, [wanted], eps=4)


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("length", [(6,), (120,), (16, 18)])
def test_fft_of_f64(kind, length):
    whole, half = (5, *length), (5, *length[:-1], length[-1] // 2 + 1)
    operand, result = {"RFFT": (whole, half), "IRFFT": (half, whole)}.get(kind, (whole, whole))
    of, to = {"RFFT": ("f64", "c128"), "IRFFT": ("c128", "f64")}.get(kind, ("c128", "c128"))
    body = f"""x = {of}[{dims(*operand)}] parameter(0)
        ROOT r = {to}[{dims(*result)}] fft(x), fft_type={kind}, fft_length={{{dims(*length)}}}"""
    got, wanted = run(body, random(of, *operand))
    assert_agree(got, [wanted], eps=16)


def test_of_a_real_spectrum_the_first_and_the_last_imaginary_part_do_not_count():
    x = random("c64", 9, 17)
    body = "x = c64[9,17] parameter(0)\nROOT r = f32[9,32] fft(x), fft_type=IRFFT, fft_length={32}"
    wanted, _ = run(body, x)
    x.imag[:, [0, 16]] = np.nan
    got, _ = run(body, x)
    np.testing.assert_array_equal(got, wanted)


def test_a_transform_reaches_no_other_one_of_the_batch():
    x = random("c64", 11, 48)
    body = "x = c64[11,48] parameter(0)\nROOT r = c64[11,48] fft(x), fft_type=FFT, fft_length={48}"
    wanted, _ = run(body, x)
    x[7] = np.nan
    got, _ = run(body, x)
    np.testing.assert_array_equal(np.delete(got, 7, 0), np.delete(wanted, 7, 0))


@pytest.mark.parametrize("n", [1, 2, 16, 128, 360, 1 << 20, 3 * 7 * 61, 131])
def test_the_radices_of_a_transform_multiply_to_its_length(n):
    found = fft_plan.radices(n)
    assert np.prod(found, dtype=int) == n and 2 not in found[1:]
    assert fft_plan.is_smooth(n) == fft_plan.is_planned("FFT", (n,), (n,))


@pytest.mark.parametrize("kind", ["FFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("sizes", [(4096,), (3, 1 << 13), (1, 16, 1 << 14), (5, 6)])
def test_each_stage_reads_what_the_one_before_it_wrote(kind, sizes):
    found = fft_plan.stages(kind, sizes, sizes[-2:], lanes=8)
    assert found[0].source == fft_plan.OPERAND and found[-1].target == fft_plan.RESULT
    for before, after in zip(found, found[1:], strict=False):
        assert before.target == after.source
    product = np.prod([s.length for s in found if s.passes])
    assert product == np.prod(sizes[-2:]) // (1 if kind == "FFT" else 2)


@pytest.mark.parametrize("n", [1, 2, 8, 12, 97, 1000])
@pytest.mark.parametrize("turn", [1, -1])
def test_rotations_are_the_nearest_numbers(n, turn):
    with mpmath.workprec(200):
        angles = [2 * mpmath.pi * turn * k / n for k in range(n)]
        wanted = [complex(float(mpmath.cos(a)), float(mpmath.sin(a))) for a in angles]
    wanted = [complex(round(w.real), round(w.imag)) if 4 * k % n == 0 else w for k, w in enumerate(wanted)]
    np.testing.assert_array_equal(rotation(np.arange(3 * n), n, turn), wanted * 3)


@pytest.mark.parametrize(("n", "size"), [(13, 32), (13, 40), (20, 48), (16, 72), (4, 8)])
def test_the_transform_of_a_chirp_is_nearest_to_the_exact_one(n, size):
    with mpmath.workprec(200):
        chirp = [mpmath.expjpi(mpmath.mpf(j * j) / n) for j in range(n)]
        around = chirp + [mpmath.mpc(0)] * (size - 2 * n + 1) + chirp[:0:-1]
        turns = [mpmath.expjpi(mpmath.mpf(-2 * k) / size) for k in range(size)]
        sums = [sum(a * turns[j * k % size] for j, a in enumerate(around)) for k in range(size)]
        wanted = [complex(float(s.real / size), float(s.imag / size)) for s in sums]
    np.testing.assert_allclose(transform_of_chirp(n, size), wanted, rtol=0, atol=1e-32)  # zeros are 1e-33
    np.testing.assert_allclose(transform_of_chirp(n, size, wide=False), wanted, rtol=0, atol=1e-16)


@pytest.mark.parametrize(("n", "size"), [(131, 320), (271, 576), (542, 1280), (1024, 2048), (8191, 16384)])
def test_the_size_of_a_convolution_takes_the_fewest_steps(n, size):
    found = fft_plan.convolution_size(n)
    assert found == size
    assert found >= 2 * n - 1 and max(fft_plan.radices(found)) <= 8


def test_fft_of_f64_by_chirps_keeps_its_digits():
    x = random("c128", 2, 521)
    body = "x = c128[2,521] parameter(0)\nROOT r = c128[2,521] fft(x), fft_type=FFT, fft_length={521}"
    got, wanted = run(body, x)
    assert_agree(got, [wanted], eps=16)


def test_quarter_turns_are_exact():
    x = np.array([1, 2, 3, 5], np.complex64)
    got, _ = run("x = c64[4] parameter(0)\nROOT r = c64[4] fft(x), fft_type=FFT, fft_length={4}", x)
    np.testing.assert_array_equal(got, np.array([11, -2 + 3j, -3, -2 - 3j], np.complex64))


@pytest.mark.parametrize(
    ("name", "sizes", "scale"),
    [("f32", (5, 3), 1e30), ("f32", (2, 3, 5), 1e-30), ("c64", (2, 4, 4), 1), ("bf16", (4, 2), 1), ("f32", (1, 1), 1)],
)
def test_qr(name, sizes, scale):
    a = (random(name, *sizes) * scale).astype(TYPES[name])
    tau = (*sizes[:-2], min(sizes[-2:]))
    body = f"""a = {name}[{dims(*sizes)}] parameter(0)
        ROOT r = ({name}[{dims(*sizes)}], {name}[{dims(*tau)}]) custom-call(a), custom_call_target="Qr" """
    got, wanted = run(body, a)
    assert_agree(got, wanted)
    m, n = sizes[-2:]
    if m < n:
        return
    body = f"""a = {name}[{dims(*sizes)}] parameter(0)
        tau = {name}[{dims(*tau)}] parameter(1)
        ROOT q = {name}[{dims(*sizes)}] custom-call(a, tau),
            custom_call_target="ProductOfElementaryHouseholderReflectors" """
    q, wanted = run(body, *got)
    assert_agree(q, [wanted])
    wide = np.complex128 if name == "c64" else np.float64
    assert_agree((q.astype(wide) @ np.triu(got[0].astype(wide))[..., :n, :]).astype(a.dtype), [a])


@pytest.mark.parametrize("a", [np.zeros((3, 3)), np.eye(3), np.diag([-1, 2, -3]), np.triu(np.ones((3, 3)))])
def test_qr_of_what_is_triangular_already(a):
    body = "a = f32[3,3] parameter(0)\n"
    body += 'ROOT r = (f32[3,3], f32[3]) custom-call(a), custom_call_target="Qr"'
    got, wanted = run(body, a.astype(np.float32))
    np.testing.assert_array_equal(got[0], wanted[0])
    np.testing.assert_array_equal(got[1], [0, 0, 0])


def test_top_k_by_custom_call():
    body = """x = f32[2,5] parameter(0)
        ROOT r = (f32[2,3], s32[2,3]) custom-call(x), custom_call_target="TopK" """
    got, wanted = run(body, random("f32", 2, 5))
    np.testing.assert_array_equal(got[0], wanted[0])
    np.testing.assert_array_equal(got[1], wanted[1])


def test_a_marker_that_divides_among_devices_is_refused():
    text = """HloModule test
    ENTRY main { x = f32[4] parameter(0)
      ROOT r = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape" }"""
    with pytest.raises(refxla.UnsupportedError, match="r: SPMDFullToShardShape.*several devices"):
        refxla.compile(text)


def test_the_only_device_is_number_0():
    body = """a = u32[] partition-id()
        b = u32[] replica-id()
        c = u32[] domain(b), domain={kind="sharding", entry={maximal device=0}, exit={}}
        ROOT r = (u32[], u32[]) tuple(a, c)"""
    got, wanted = run(body)
    assert got == wanted == (0, 0)


@pytest.mark.parametrize("narrow", ["s4", "u4", "s2", "u1"])
@pytest.mark.parametrize("wide", ["s8", "u16", "f8e4m3fn", "f32"])
def test_bits_of_a_few_become_one_and_back(narrow, wide):
    n = ELEMENT_TYPES[wide].bits // ELEMENT_TYPES[narrow].bits
    x = np.random.default_rng(0).integers(0, 256, (3, ELEMENT_TYPES[wide].bytes)).astype(np.uint8)
    x = x.view(ELEMENT_TYPES[wide].dtype).reshape(3)
    split, wanted = run(f"x = {wide}[3] parameter(0)\nROOT r = {narrow}[3,{n}] bitcast-convert(x)", x)
    np.testing.assert_array_equal(split.astype(int), wanted.astype(int))
    joined, _ = run(f"x = {narrow}[3,{n}] parameter(0)\nROOT r = {wide}[3] bitcast-convert(x)", split)
    np.testing.assert_array_equal(joined.view(np.uint8), x.view(np.uint8))


SIZE = """x = f32[2,3] parameter(0)
    n = s32[] {}
    ROOT y = f32[2,3] set-dimension-size(x, n), dimensions={{1}}"""


@pytest.mark.parametrize("size", ["constant(3)", "get-dimension-size(x), dimensions={1}"])
@pytest.mark.parametrize(
    "without", [(), ("algebraic-simplifier", "constant-folding", "algebraic-simplifier-after-folding")]
)
def test_a_dimension_set_to_the_size_that_it_has(size, without):
    x = random("f32", 2, 3)
    text = f"HloModule test\nENTRY main {{\n{SIZE.format(size)}\n}}"
    np.testing.assert_array_equal(refxla.compile(text, without=without)(x), x)
    np.testing.assert_array_equal(interpreter.run(parse(text), [x]), x)


@pytest.mark.parametrize("size", ["constant(2)", "parameter(1)"])
def test_a_result_of_another_size_than_stated_is_refused_by_name(size):
    text = f"HloModule test\nENTRY main {{\n{SIZE.format(size)}\n}}"
    with pytest.raises(refxla.UnsupportedError, match=r"line 5.*y: .*state it as a bound \(<=3\)"):
        refxla.compile(text)
    inputs = [random("f32", 2, 3), np.array(2, np.int32)][: 1 + ("param" in size)]
    np.testing.assert_array_equal(interpreter.run(parse(text), inputs), inputs[0][:, :2])
    marked = text.replace("y = f32[2,3]", "y = f32[2,<=3]")
    np.testing.assert_array_equal(refxla.compile(marked)(*inputs), inputs[0][:, :2])


CUMULATIVE = """HloModule cumulative
combine {{ a = {t}[] parameter(0)
          b = {t}[] parameter(1)
          ROOT c = {t}[] {op}(a, b) }}
ENTRY main {{ x = {t}[{sizes}] parameter(0)
             i = {t}[] parameter(1)
             ROOT r = {t}[{sizes}] reduce-window(x, i), window={{size={window} pad={pad}}}, to_apply=combine }}"""


def cumulative(opcode: str, name: str, length: int, rows: int = 0, backward: bool = False) -> str:
    pad = f"0_{length - 1}" if backward else f"{length - 1}_0"
    sizes, before, none = (f"{rows},{length}", "1x", "0_0x") if rows else (f"{length}", "", "")
    return CUMULATIVE.format(t=name, op=opcode, sizes=sizes, window=f"{before}{length}", pad=none + pad)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("opcode", "name", "length", "rows"),
    [
        ("add", "f32", 2048, 0),
        ("add", "f32", 2503, 0),  # a prime: the last block is not full
        ("add", "f64", 2600, 3),
        ("add", "bf16", 2100, 0),
        ("add", "s64", 2200, 0),
        ("multiply", "u32", 2049, 2),
        ("maximum", "f32", 2300, 0),
        ("minimum", "s8", 2300, 0),
        ("xor", "u8", 2300, 0),
    ],
)
def test_long_cumulative_windows_go_by_blocks(opcode, name, length, rows, backward):
    """The initial value enters each result once, whatever it is, and narrow sums are rounded once."""
    text = cumulative(opcode, name, length, rows, backward)
    kind = ELEMENT_TYPES[name].dtype
    rng = np.random.default_rng(length)
    sizes = (rows, length) if rows else (length,)
    wide = rng.standard_normal(sizes) if ELEMENT_TYPES[name].is_float else rng.integers(1, 100, sizes)
    x, init = wide.astype(kind), np.array(3, kind)
    program = refxla.compile(text)
    windows = [i for i in program.optimized_hlo.entry.instructions if i.opcode == "reduce-window"]
    assert windows and all(max(w.size for w in i.window) < length for i in windows)
    got, wanted = program(x, init), interpreter.run(parse(text), [x, init])
    if opcode == "add" and ELEMENT_TYPES[name].is_float:
        assert_agree(got, [wanted], eps=8)
    else:
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x, init))


def test_a_long_cumulative_sum_is_as_accurate_as_its_blocks_are_short():
    """Of a million elements; one after the other the error is a hundred times as large."""
    program = refxla.compile(cumulative("add", "f32", 1_000_000))
    x = np.random.default_rng(0).standard_normal(1_000_000, dtype=np.float32)
    got, exact = program(x, np.float32(0)), np.cumsum(x.astype(np.float64))
    assert np.abs(got - exact).max() < 8 * np.finfo(np.float32).eps * np.abs(exact).max()


@pytest.mark.parametrize(
    ("opcode", "name", "length", "rows"),
    [("add", "f32", 2047, 0), ("add", "f32", 2048, 8), ("multiply", "c64", 4096, 0), ("multiply", "f32", 2048, 4)],
)
def test_other_cumulative_windows_stay(opcode, name, length, rows):
    """Short ones, those of so many rows that go side by side, and those that may not be regrouped: a product of complex
    numbers could overflow within a block that comes after a zero."""
    program = refxla.compile(cumulative(opcode, name, length, rows))
    assert [i.opcode for i in program.optimized_hlo.entry.instructions].count("reduce-window") == 1


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("name", "length", "rows"), [("f32", 2100, 0), ("f32", 2503, 3), ("f64", 2048, 0), ("bf16", 2049, 0)]
)
def test_a_long_cumulative_product_goes_by_blocks(name, length, rows, backward):
    kind = ELEMENT_TYPES[name].dtype
    sizes = (rows, length) if rows else (length,)
    x = (np.random.default_rng(length).choice([-1, 1], sizes) * (1 + random("f64", *sizes) / 50)).astype(kind)
    program = refxla.compile(cumulative("multiply", name, length, rows, backward))
    windows = [i for i in program.optimized_hlo.entry.instructions if i.opcode == "reduce-window"]
    assert windows and all(max(w.size for w in i.window) <= 104 for i in windows)
    got = program(x, np.array(3, kind))
    exact = np.cumprod(np.flip(x, -1) if backward else x, -1, dtype=np.longdouble) * 3
    exact = np.flip(exact, -1) if backward else exact
    rounded = np.finfo(np.float64 if name == "f64" else np.float32).eps * length * np.abs(exact)
    rounded += np.abs(exact) / 256 if name == "bf16" else 0
    assert (np.abs(got.astype(np.longdouble) - exact) <= rounded).all()


def test_long_cumulative_products_overflow_and_underflow_as_their_results_do():
    """Not as parts of them do: zeros, infinities and NaN stay, and factors of any size may follow each other."""
    # Prefixes of all sizes, which blocks cannot hold.
    sizes = np.rint(134 * np.sin(np.outer(np.geomspace(0.005, 0.5, 7), np.arange(4096))) - 14).astype(int)
    x = np.ldexp(np.float32(1), np.diff(sizes, axis=1, prepend=0))
    x[1, 0], x[2, 100], x[3, 200], x[4, 100], x[5] = 0, -0.0, np.inf, np.nan, 100
    x[4, 3000], x[6, 700:] = 0, 1e-30
    program = refxla.compile(cumulative("multiply", "f32", 4096))
    got = np.array([program(row, np.float32(1)) for row in x])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.cumprod(x, 1))  # powers of two: exact in any order


def test_a_long_cumulative_product_of_factors_near_one_keeps_its_digits():
    """Roundings near 1 have a bias: the totals of blocks add it up, if it is not made good."""
    x = (1 + random("f64", 1 << 18) / 1000).astype(np.float32)
    got, exact = (
        refxla.compile(cumulative("multiply", "f32", x.size))(x, np.float32(1)),
        np.cumprod(x, dtype=np.longdouble),
    )
    assert np.abs(got / exact - 1).max() < 1e-5


REDUCERS = {
    "logaddexp": """f { a = f32[] parameter(0)
        b = f32[] parameter(1)
        m = f32[] maximum(a, b)
        d = f32[] subtract(a, b)
        n = f32[] abs(d)
        e = f32[] negate(n)
        p = f32[] exponential(e)
        l = f32[] log-plus-one(p)
        s = f32[] add(a, b)
        odd = pred[] compare(d, d), direction=NE
        r = f32[] add(m, l)
        ROOT c = f32[] select(odd, s, r) }""",
    "largest and its place": """f { a = f32[] parameter(0)
        i = s32[] parameter(1)
        b = f32[] parameter(2)
        j = s32[] parameter(3)
        later = pred[] compare(b, a), direction=GT
        v = f32[] select(later, b, a)
        p = s32[] select(later, j, i)
        ROOT t = (f32[], s32[]) tuple(v, p) }""",
}
PAIRS = """HloModule cumulative
{reducer}
ENTRY main {{ x = f32[{n}] parameter(0)
    v = f32[] constant({init})
    k = s32[{n}] iota(), iota_dimension=0
    z = s32[] constant(-1)
    ROOT r = {shape} reduce-window(x, {operands}), window={{size={n} pad={pad}}}, to_apply=f }}"""


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("reducer", "init"),
    [("logaddexp", "-inf"), ("logaddexp", "7"), ("largest and its place", "-inf"), ("largest and its place", "1")],
)
def test_long_cumulative_windows_of_any_reducer_go_by_blocks(reducer, init, backward):
    """Also with initial values that may enter but once."""
    n, pair = 2150, reducer != "logaddexp"
    pad = f"0_{n - 1}" if backward else f"{n - 1}_0"
    shape, operands = (f"(f32[{n}], s32[{n}])", "k, v, z") if pair else (f"f32[{n}]", "v")
    text = PAIRS.format(reducer=REDUCERS[reducer], n=n, init=init, pad=pad, shape=shape, operands=operands)
    x = random("f32", n)
    program = refxla.compile(text)
    windows = [i for i in program.optimized_hlo.entry.instructions if i.opcode == "reduce-window"]
    assert windows and all(max(w.size for w in i.window) <= 128 for i in windows)
    got, in_order = program(x), np.flip(x).astype(np.float64) if backward else x.astype(np.float64)
    if not pair:
        exact = np.logaddexp(np.logaddexp.accumulate(in_order), float(init))
        np.testing.assert_allclose(got, np.flip(exact) if backward else exact, rtol=1e-5)
        return
    largest = np.maximum(np.maximum.accumulate(in_order), float(init))
    largest = (np.flip(largest) if backward else largest).astype(np.float32)
    np.testing.assert_array_equal(got[0], largest)
    here = np.where(got[1] < 0, np.float32(init), x[got[1]])
    np.testing.assert_array_equal(here, largest)


@pytest.mark.parametrize(
    "text",
    [
        cumulative("multiply", "f32", 2503, 3),
        cumulative("multiply", "f32", 2048, backward=True),
        PAIRS.format(reducer=REDUCERS["logaddexp"], n=2150, init="-inf", pad="2149_0", shape="f32[2150]", operands="v"),
    ],
)
def test_long_cumulative_windows_have_the_same_bits_on_a_gpu(text):
    """PoCL runs the work-groups; many of them share the work."""
    module = parse(text)
    x = random("f32", *module.entry.parameters[0].shape.dimensions)
    arguments = [x, *[np.float32(1)] * (len(module.entry.parameters) - 1)]
    got = [refxla.compile(text, device=device)(*arguments) for device in ("cpu", "pocl:gpu")]
    np.testing.assert_array_equal(*[g.view(np.int32) for g in got])


# Windows of more than 64 elements: sizes of the operand and of the result, the window, and the largest window that a
# kernel traverses (apart from scans).
LARGE_WINDOWS = {
    "overlapping": ("900", "801", "size=100", 1),
    "padded": ("900", "900", "size=100 pad=40_59", 1),
    "cropped": ("900", "781", "size=100 pad=-20_0", 1),
    "with a stride": ("900", "351", "size=200 stride=2", 1),
    "apart": ("900", "601", "size=100 rhs_dilate=3 pad=-1_-1", 1),
    "of dilated elements": ("300", "500", "size=100 lhs_dilate=2", 1),
    "side by side": ("900", "9", "size=100 stride=100", 1),
    "with gaps": ("900", "8", "size=100 stride=110 pad=0_1", 1),
    "alone": ("900", "1", "size=900", 1),
    "alone and apart": ("900", "1", "size=300 rhs_dilate=3 pad=-1_-1", 1),
    "past all elements": ("30", "191", "size=120 pad=140_140", 1),
    "of two dimensions": ("40,50", "32,43", "size=9x8", 9),
    "of rows of channels": ("3,300,5", "3,201,5", "size=1x100x1", 1),
    "of three dimensions": ("20,30,40", "18,26,1", "size=3x5x40", 5),
}
LARGE = """HloModule large
f {{ a = {t}[] parameter(0)
    b = {t}[] parameter(1)
    ROOT c = {t}[] {op}(a, b) }}
ENTRY main {{ x = {t}[{sizes}] parameter(0)
    i = {t}[] parameter(1)
    ROOT r = {t}[{result}] reduce-window(x, i), window={{{window}}}, to_apply=f }}"""


def large_window(name: str, opcode: str, kind: str) -> str:
    sizes, result, window, _ = LARGE_WINDOWS[name]
    rank = sizes.count(",") + 1
    if rank > 1:
        ones, none = "x".join("1" * rank), "x".join(["0_0"] * rank)
        window += f" stride={ones} pad={none}"
    return LARGE.format(t=kind, op=opcode, sizes=sizes, result=result, window=window)


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [("maximum", "f32"), ("add", "f32"), ("add", "bf16"), ("add", "s32"), ("multiply", "u32"), ("xor", "u8")],
)
@pytest.mark.parametrize("name", LARGE_WINDOWS)
def test_large_windows_go_dimension_by_dimension(name, opcode, kind):
    """The initial value enters each result once, whatever it is, and narrow sums are rounded once."""
    text = large_window(name, opcode, kind)
    dtype = ELEMENT_TYPES[kind].dtype
    sizes = tuple(map(int, LARGE_WINDOWS[name][0].split(",")))
    rng = np.random.default_rng(len(name))
    x, init = rng.integers(1, 100, sizes).astype(dtype), np.array(3, dtype)  # sums in f32 are exact
    program = refxla.compile(text)
    traversed = [
        prod(w.size for w in i.window)
        for i in program.optimized_hlo.entry.instructions
        if i.opcode == "reduce-window" and index_maps.cumulative(i) is None
    ]
    assert max(traversed, default=1) <= LARGE_WINDOWS[name][3]
    got = program(x, init)
    np.testing.assert_array_equal(got, interpreter.run(parse(text), [x, init]))
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x, init))


@pytest.mark.parametrize("name", ["padded", "with a stride", "side by side", "of two dimensions"])
def test_large_windows_have_the_same_bits_on_a_gpu(name):
    text = large_window(name, "add", "f32")
    x = random("f32", *map(int, LARGE_WINDOWS[name][0].split(",")))
    got = [refxla.compile(text, device=device)(x, np.float32(1)) for device in ("cpu", "pocl:gpu")]
    np.testing.assert_array_equal(*[g.view(np.int32) for g in got])


def test_large_windows_contain_no_more_than_their_elements():
    """An infinity, a NaN or a large number changes no window that does not contain it."""
    x = random("f32", 900)
    x[[100, 400, 401, 700]] = np.inf, 1e38, -1e38, np.nan
    got = refxla.compile(large_window("overlapping", "add", "f32"))(x, np.float32(0))
    wanted = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 100).sum(-1)
    far = np.abs(np.arange(801) - 351) > 51  # from windows that contain one of the two large numbers, or both
    np.testing.assert_allclose(got[far], wanted[far], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("init", ["-inf", "1"])
@pytest.mark.parametrize(
    ("sizes", "result", "window"),
    [("900", "801", "size=100"), ("30,40", "21,31", "size=10x10"), ("900", "1", "size=900")],
)
def test_large_windows_of_a_reducer_that_selects_the_first(sizes, result, window, init):
    """The order of the elements stays, although suffixes are scanned from their end."""
    text = f"""HloModule first
        {REDUCERS["largest and its place"]}
        ENTRY main {{ x = f32[{sizes}] parameter(0)
            n = s32[{sizes}] parameter(1)
            v = f32[] constant({init})
            z = s32[] constant(-1)
            ROOT r = (f32[{result}], s32[{result}]) reduce-window(x, n, v, z), window={{{window}}}, to_apply=f }}"""
    shape = tuple(map(int, sizes.split(",")))
    x = np.random.default_rng(1).integers(-3, 4, shape).astype(np.float32)  # with many equal ones
    n = np.arange(x.size, dtype=np.int32).reshape(shape)
    for got, wanted in zip(refxla.compile(text)(x, n), interpreter.run(parse(text), [x, n]), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["f32", "c64"])
def test_large_windows_of_products_stay(kind):
    """A part of one could overflow where the whole does not."""
    program = refxla.compile(large_window("overlapping", "multiply", kind))
    (window,) = (i for i in program.optimized_hlo.entry.instructions if i.opcode == "reduce-window")
    assert window.window[0].size == 100


def test_a_custom_call_that_is_refused_names_similar_targets_alone():
    text = (
        'HloModule m\nENTRY e { x = f32[8] parameter(0)\n ROOT r = f32[8] custom-call(x), custom_call_target="TopKK" }'
    )
    with pytest.raises(UnsupportedError, match=r"it has for \d+ others, TopK among them") as problem:
        refxla.compile(text)
    assert len(str(problem.value)) < 600


@pytest.mark.parametrize(
    ("name", "exponent"),
    [(name, n) for name in ("f16", "bf16", "f32", "f64") for n in (1, 2, -1, 0.5)]
    + [(name, n) for name in ("s32", "u8") for n in (1, 2)],
)
def test_a_power_with_such_a_constant_exponent_is_rounded_once(name, exponent):
    integer, dtype = name in ("s32", "u8"), ELEMENT_TYPES[name].dtype
    x = np.array([0, 1, 2, 3, 5, 7, 100, 200]) if integer else np.array(
        [0.0, -0.0, 1.0, -1.0, 1.5, -2.75, 3e-5, 1e4, np.inf, -np.inf, np.nan, 0.1, 0.3, 7.7]
    )  # fmt: skip
    n, x = len(x), x.astype(dtype)
    body = f"x = {name}[{n}] parameter(0)\nc = {name}[] constant({exponent})\n"
    body += f"b = {name}[{n}] broadcast(c), dimensions={{}}\nROOT r = {name}[{n}] power(x, b)"
    got, want = run(body, x)
    assert "rx_power" not in refxla.compile(f"HloModule test\nENTRY main {{\n{body}\n}}").opencl
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(got.astype(np.float64)), np.signbit(want.astype(np.float64)))


@pytest.mark.parametrize("name", ["f32", "s32"])
def test_powers_of_one_are_one(name):
    y = np.array([0, 1, -1, 5, -7]) if name == "s32" else np.array([0.0, np.nan, np.inf, -np.inf, 2.5])
    body = f"y = {name}[5] parameter(0)\nc = {name}[] constant(1)\n"
    body += f"b = {name}[5] broadcast(c), dimensions={{}}\nROOT r = {name}[5] power(b, y)"
    got, want = run(body, y.astype(ELEMENT_TYPES[name].dtype))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got, np.ones(5, got.dtype))


def test_a_variance_too_large_is_infinite():
    """And where an element is infinite, or no number, it is no number."""
    x = np.zeros((7, 4), np.float32)
    x[6, 1], x[6, 2], x[3, 3] = 7.5e23, np.inf, np.nan
    feature = np.zeros(4, np.float32)
    got, wanted = run(
        """x = f32[7,4] parameter(0)
        scale = f32[4] parameter(1)
        offset = f32[4] parameter(2)
        ROOT n = (f32[7,4], f32[4], f32[4]) batch-norm-training(x, scale, offset), feature_index=1, epsilon=0.125""",
        x, feature, feature,
    )  # fmt: skip
    np.testing.assert_array_equal(wanted[2], [0, np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(got[2], wanted[2])
