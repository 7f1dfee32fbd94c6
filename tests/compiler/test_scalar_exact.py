"""Operations that are exact give the specification's bits, on the values where implementations differ."""

import itertools
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from refxla_spec.accuracy import max_ulp
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES
from scalar_kernel import Case, bits, meaning, run_all

from refxla.device.description import DEFAULT_CPU

SIGNED, UNSIGNED = ["s8", "s16", "s32", "s64"], ["u8", "u16", "u32", "u64"]
INTEGERS, FLOATS, COMPLEX = SIGNED + UNSIGNED, ["f16", "bf16", "f32", "f64"], ["c64", "c128"]

INTEGER_UNARY = ["sign", "abs", "negate", "not", "popcnt", "count-leading-zeros"]
INTEGER_BINARY = [
    "add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum", "and", "or", "xor", "mulhi",
    "shift-left", "shift-right-arithmetic", "shift-right-logical",
]  # fmt: skip
FLOAT_UNARY = ["abs", "negate", "sign", "floor", "ceil", "round-nearest-even", "round-nearest-afz", "sqrt"]
FLOAT_BINARY = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum"]
PRED_BINARY = ["add", "multiply", "maximum", "minimum", "and", "or", "xor"]
DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
FORMATS = [(5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (11, 52), (3, 0), (5, 0), (8, 1), (1, 4)]


def compares(**attributes) -> list[Case]:
    fixed = tuple(attributes.items())
    return [Case("compare", "pred", (("direction", d), ("type", None), *fixed)) for d in DIRECTIONS]


def edges(name: str) -> np.ndarray:
    """Values of a type where implementations differ, and a few dozen of arbitrary bits."""
    dtype = ELEMENT_TYPES[name].dtype
    random = np.random.default_rng(1)
    if name == "pred":
        return np.array([False, True])
    if name in INTEGERS:
        info = np.iinfo(dtype)
        near = [v + d for v in (0, info.min, info.max, info.max // 2, 8, 16, 32, 64) for d in (-2, -1, 0, 1, 2)]
        inside = [v for v in near if info.min <= v <= info.max]
        return np.concatenate([np.array(inside, dtype), random.integers(info.min, info.max, 20, dtype)])
    if name in COMPLEX:
        part = edges("f32" if name == "c64" else "f64")[::3]
        real, imag = np.meshgrid(part, part)
        return _complex(real, imag, dtype)
    info = ml_dtypes.finfo(dtype)
    values = [0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 7, 100, 127, 128, 255, 256, 1e4, 65504, 65519, 65520, 2**20]
    values += [2**24 - 1, 2**31, 2**32, 2**63, 2**64, 3e9, 1e18, 1e30, 0.1, 1 / 3, 1e-3, 6.1e-5, 6.2e-5, 1e-8, 1e-30]
    values += [np.inf, np.nan, 0.49999997, 8388609.0, 2**-14, 2**-15, 2**-126]
    values += [float(v) for v in (info.max, info.tiny, info.smallest_subnormal, 3 * info.smallest_subnormal, info.eps)]
    with np.errstate(all="ignore"):
        table = np.array(values, np.float64).astype(dtype)
        raw = random.integers(0, 256, 32 * dtype.itemsize, dtype=np.uint8).view(dtype)
        return np.concatenate([table, -table, raw, np.nextafter(table, table.dtype.type(0))])


def _complex(real: np.ndarray, imag: np.ndarray, dtype) -> np.ndarray:
    result = np.empty(real.size, dtype)
    result.real, result.imag = real.ravel(), imag.ravel()
    return result


def check(cases: list[Case], *operands: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        for case, got in zip(cases, run_all(cases, *operands), strict=True):
            assert max_ulp(case.opcode, case.result_type) == 0 or case.opcode == "power"
            want = meaning(case, *operands)
            assert got.dtype == want.dtype
            if ELEMENT_TYPES[case.result_type].bits < 8 and ELEMENT_TYPES[case.result_type].is_integer:
                got, want = got.astype(np.int16), want.astype(np.int16)  # the unused bits of a byte mean nothing
            wrong = bits(got) != bits(want)
            if wrong.any():
                k = np.flatnonzero(wrong)[0] * got.size // wrong.size
                given = ", ".join(repr(o[k]) for o in operands)
                pytest.fail(f"{case}({given}) = {got[k]!r}, not {want[k]!r}; {wrong.sum()} of {wrong.size} are wrong")


def pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name in ("s8", "u8"):  # all of them
        info = np.iinfo(name.replace("s", "int").replace("u", "uint"))
        every = np.arange(info.min, info.max + 1).astype(info.dtype)
        return np.repeat(every, 256), np.tile(every, 256)
    values = edges(name)
    return np.repeat(values, values.size), np.tile(values, values.size)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    a, b = pairs(name)
    unary = [op for op in INTEGER_UNARY if name in SIGNED or op not in ("sign", "abs")]
    check([Case(op, name) for op in unary], np.unique(a))
    check([Case(op, name) for op in INTEGER_BINARY] + compares(), a, b)


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name):
    a, b = pairs(name)
    formats = [Case("reduce-precision", name, (("exponent_bits", e), ("mantissa_bits", m))) for e, m in FORMATS]
    check([Case(op, name) for op in FLOAT_UNARY] + [Case("is-finite", "pred")] + formats, edges(name))
    check([Case(op, name) for op in FLOAT_BINARY] + compares(), a, b)


@pytest.mark.parametrize("name", FLOATS)
def test_total_order(name):
    a, b = pairs(name)
    cases = [Case("compare", "pred", (("direction", d), ("type", "TOTALORDER"))) for d in DIRECTIONS]
    check(cases, a, b)


def test_pred():
    a, b = pairs("pred")
    check([Case(op, "pred") for op in PRED_BINARY] + compares(), a, b)
    check([Case("not", "pred")], a)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_parts(name):
    part = "f32" if name == "c64" else "f64"
    z = edges(name)
    check([Case("real", part), Case("imag", part), Case("negate", name)], z)
    check([Case("complex", name)], z.real.copy(), z.imag.copy())
    check([Case("add", name), Case("subtract", name), *compares()[:2]], z, z[::-1].copy())


@pytest.mark.parametrize("name", ["pred", *INTEGERS, *FLOATS])
def test_convert(name):
    values = edges(name)
    if name in INTEGERS and ELEMENT_TYPES[name].bits >= 32:  # ties and near-ties of bf16 and f16
        info = np.iinfo(values.dtype)
        near = [
            v + d
            for e in range(8, info.bits - 1)
            for v in (2**e + 2 ** (e - 8), 2**e + 2 ** (e - 11))
            for d in (-1, 0, 1)
        ]
        values = np.concatenate([values, np.array([v for v in near if v <= info.max], values.dtype)])
    targets = ["pred", *INTEGERS, *FLOATS, *COMPLEX]
    check([Case("convert", target) for target in targets], values)


@pytest.mark.parametrize("name", COMPLEX)
def test_convert_complex(name):
    check([Case("convert", target) for target in COMPLEX], edges(name))


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_narrow_value(name):
    every = np.arange(65536).astype(np.uint16).view(ELEMENT_TYPES[name].dtype)
    cases = [Case("convert", t) for t in ("f32", "f16", "bf16", "s32")]
    check([*cases, *(Case(op, name) for op in FLOAT_UNARY)], every)


@pytest.mark.parametrize(
    "group", [("s8", "u8"), ("s16", "u16", "f16", "bf16"), ("s32", "u32", "f32"), ("s64", "u64", "f64")]
)
def test_bitcast_convert_keeps_bits(group):
    for source in group:
        values = edges(source)
        if source in FLOATS:
            values = values[~np.isnan(values.astype(np.float64))]
        got = run_all([Case("bitcast-convert", target) for target in group], values)
        for result in got:
            assert result.tobytes() == values.tobytes()


@pytest.mark.parametrize("name", ["pred", "s8", "u16", "s32", "s64", *FLOATS, "c64"])
def test_select(name):
    values = edges(name)
    other = values[::-1].copy()
    chosen = np.arange(values.size) % 3 == 0
    got = run_all([Case("select", name)], chosen, values, other)[0]
    np.testing.assert_array_equal(bits(got), bits(np.where(chosen, values, other)))


@pytest.mark.parametrize("name", ["pred", "s8", "u32", "s64", *FLOATS])
def test_clamp(name):
    values = edges(name)[::5] if name != "pred" else edges(name)
    triples = np.array(list(itertools.product(range(len(values)), repeat=3))).T
    check([Case("clamp", name)], *(values[index] for index in triples))


SMALL_FLOATS = [t.name for t in ELEMENT_TYPES.values() if t.is_float and t.bits <= 8]


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_floats_of_a_byte_and_less(name):
    """Every value of the format and every pair of them; and every f16 rounded to it."""
    dtype, bits = ELEMENT_TYPES[name].dtype, ELEMENT_TYPES[name].bits
    every = np.arange(1 << bits).astype(np.uint8).view(dtype)
    targets = ("f32", "s8", "bf16", "pred", "u4", "c64", *(SMALL_FLOATS if bits < 8 else [name, "f4e2m1fn"]))
    same_bits = [Case("bitcast-convert", t) for t in (f"u{bits}", f"s{bits}") if t in ELEMENT_TYPES]
    check([*(Case(op, name) for op in FLOAT_UNARY), *(Case("convert", t) for t in targets), *same_bits], every)
    check([Case("is-finite", "pred")], every)
    a, b = np.repeat(every, every.size), np.tile(every, every.size)
    binary = FLOAT_BINARY if bits < 8 else ["add", "multiply", "divide", "maximum"]
    check([*(Case(op, name) for op in binary), *compares(), *compares(type="TOTALORDER")], a, b)
    for source in ("f32", "f64", "s32", "u64", "s4", "pred") if bits < 8 else ("f32", "f64", "s32"):
        check([Case("convert", name)], edges(source) if source != "s4" else np.arange(-8, 8).astype(ml_dtypes.int4))
    check([Case("convert", name)], np.arange(65536).astype(np.uint16).view(np.float16))
    if f"u{bits}" in ELEMENT_TYPES:
        check([Case("bitcast-convert", name)], every.view(np.uint8).astype(ELEMENT_TYPES[f"u{bits}"].dtype))


@pytest.mark.parametrize("name", ["s2", "u2", "s4", "u4"])
def test_integers_of_a_few_bits(name):
    """All pairs of values, and every way in and out."""
    bits, signed = ELEMENT_TYPES[name].bits, name[0] == "s"
    low = -(1 << (bits - 1)) if signed else 0
    every = np.arange(low, low + (1 << bits)).astype(ELEMENT_TYPES[name].dtype)
    unary = [op for op in INTEGER_UNARY if signed or op not in ("sign", "abs")]
    targets = ["pred", "s4", "u4", "s8", "u8", "s32", "u64", "bf16", "f16", "f32", "f64", "f8e4m3fn"]
    check([Case(op, name) for op in unary] + [Case("convert", t) for t in targets], every)
    check(
        [Case(op, name) for op in INTEGER_BINARY] + compares(), np.repeat(every, every.size), np.tile(every, every.size)
    )
    for source in ("pred", "s8", "u8", "s32", "u64", "f32", "f64", "bf16"):
        check([Case("convert", name)], edges(source))
    other = {"s": "u", "u": "s"}[name[0]] + name[1:]
    check([Case("bitcast-convert", other)], every)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subnormal_exponentials_have_the_same_bits_where_products_of_them_are_slow(dtype):
    info = np.finfo(dtype)
    lowest, highest = np.log(info.smallest_subnormal) - 2, np.log(info.tiny) + 1
    x = np.linspace(lowest, highest, 200_001, dtype=dtype)
    x = np.concatenate([x, -x, edges(BY_DTYPE[x.dtype].name)])
    case = Case("exponential", BY_DTYPE[x.dtype].name)
    fast, slow = (run_all([case], x, target=replace(DEFAULT_CPU, slow_subnormals=s))[0] for s in (False, True))
    assert np.array_equal(bits(fast), bits(slow))
    assert np.count_nonzero((fast > 0) & (fast < info.tiny)) > 10_000
