"""Elementary functions stay within the accuracy contract, on samples of all bit patterns and where they are hard."""

import math

import ml_dtypes
import mpmath
import numpy as np
import pytest
from refxla_spec.accuracy import max_ulp
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES
from scalar_kernel import Case, run_all

WIDE = {
    "exp2": np.exp2, "log2": np.log2,
    "exponential": np.exp, "exponential-minus-one": np.expm1, "log": np.log, "log-plus-one": np.log1p,
    "tanh": np.tanh, "sine": np.sin, "cosine": np.cos, "tan": np.tan, "atan": np.arctan, "asin": np.arcsin,
    "acos": np.arccos, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "cbrt": np.cbrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
}  # fmt: skip
ERF = np.vectorize(math.erf, otypes=[np.float64])
LONG = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no reference wider than f64 on this machine")


def errors(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The distance of each result from the exact one, in ULP of its type; infinite where a special value is missed.

    `want` is in a wider type. Where it is zero, infinite, NaN or overflows, the result must be just that.
    """
    info = np.finfo(got.dtype) if got.dtype.kind == "f" else ml_dtypes.finfo(got.dtype)
    with np.errstate(all="ignore"):
        special = ~np.isfinite(want.astype(got.dtype).astype(want.dtype)) | (want == 0)
        limit = np.where(special & (want != 0), np.copysign(np.where(np.isnan(want), np.nan, np.inf), want), want)
        value = got.astype(want.dtype)
        same = (value == limit) & (np.signbit(value) == np.signbit(limit)) | np.isnan(value) & np.isnan(limit)
        exponent = np.maximum(np.frexp(np.where(special, 1, want))[1] - 1, info.minexp)
        distance = np.abs(value - want) / np.ldexp(np.ones_like(want), exponent - info.nmant)
    return np.where(special, np.where(same, 0, np.inf), np.where(np.isnan(distance), np.inf, distance))


def check(functions: dict, *operands: np.ndarray) -> None:
    name = BY_DTYPE[operands[0].dtype].name
    wide = np.longdouble if name == "f64" else np.float64
    results = run_all([Case(opcode, name) for opcode in functions], *operands)
    report = []
    with np.errstate(all="ignore"):
        for (opcode, function), got in zip(functions.items(), results, strict=True):
            error = errors(got, function(*(o.astype(wide) for o in operands)))
            k = int(error.argmax())
            if not error[k] <= max_ulp(opcode, name):
                given = ", ".join(repr(o[k]) for o in operands)
                report.append(f"{opcode}({given}) = {got[k]!r}: {error[k]:.3f} ULP, {max_ulp(opcode, name)} allowed")
    assert not report, "\n".join(report)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_exponential_below_zero_is_the_same(dtype):
    with np.errstate(invalid="ignore"):
        x = f32_sample().astype(dtype)
    if dtype == np.float64:
        x = np.concatenate([x, np.random.default_rng(1).uniform(-746, 0, 100_000), [-745.2, -708.4, -5e-324]])
    x = x[~(x > 0)]
    name = BY_DTYPE[np.dtype(dtype)].name
    below, whole = run_all([Case("exponential-below", name), Case("exponential", name)], x)
    np.testing.assert_array_equal(np.isnan(below), np.isnan(x))
    assert below[~np.isnan(x)].tobytes() == whole[~np.isnan(x)].tobytes()


def f32_sample() -> np.ndarray:
    """Every 16411th bit pattern of f32, the ends of each binade, and dense stretches where functions change."""
    strided = np.arange(0, 2**32, 16411, dtype=np.uint64).astype(np.uint32)
    binades = (np.arange(512, dtype=np.uint32)[:, None] << 23) + np.array([-1, 0, 1, 2**22], np.int32).astype(np.uint32)
    random = np.random.default_rng(3)
    dense = [random.uniform(-bound, bound, 40_000) for bound in (1.1, 4, 20, 110)]
    multiples = np.concatenate([np.arange(1, 20_000) * (np.pi / 2), [8.773116e33, -8.773116e33]])  # and a hard case
    return np.concatenate(
        [strided.view(np.float32), binades.ravel().view(np.float32), *dense, multiples],
        dtype=np.float32,
        casting="same_kind",
    )


def f64_sample() -> np.ndarray:
    random = np.random.default_rng(4)
    patterns = random.integers(0, 2**64, 60_000, dtype=np.uint64).view(np.float64)
    binades = (np.arange(4096, dtype=np.uint64)[:, None] << np.uint64(52)) + np.array([0, 1, 2**51], np.uint64)
    dense = [random.uniform(-bound, bound, 30_000) for bound in (1.1, 4, 45, 800)]
    multiples = np.arange(1, 10_000) * (np.pi / 2)
    return np.concatenate([patterns, binades.ravel().view(np.float64), *dense, multiples])


def test_f32():
    check(WIDE | {"erf": ERF}, f32_sample())


@LONG
def test_f64():
    check(WIDE, f64_sample())


@LONG
def test_f64_erf():
    mpmath.mp.prec = 120
    random = np.random.default_rng(5)
    x = np.concatenate([random.uniform(-6.5, 6.5, 3000), random.uniform(0.9, 1.1, 1000), [0, -0.0, 1e-310, -1e-5, 40]])
    exact = [np.longdouble(mpmath.nstr(mpmath.erf(mpmath.mpf(v)), 25)) for v in x]
    table = dict(zip(x.tolist(), exact, strict=True)) | {0.0: np.longdouble(0)}
    check({"erf": lambda wide: np.copysign(np.array([table[float(v)] for v in wide], np.longdouble), wide)}, x)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_narrow_value(name):
    """All 65536 operands; and but for one in a thousand the result is the correctly rounded one."""
    x = np.arange(65536).astype(np.uint16).view(ELEMENT_TYPES[name].dtype)
    functions = WIDE | {"erf": ERF}
    check(functions, x)
    with np.errstate(all="ignore"):
        for (opcode, function), got in zip(
            functions.items(), run_all([Case(opcode, name) for opcode in functions], x), strict=True
        ):
            want = function(x.astype(np.float64)).astype(np.float32 if name == "bf16" else x.dtype).astype(x.dtype)
            assert np.mean((got != want) & ~np.isnan(want.astype(np.float32))) < 0.001, opcode


def pairs(dtype) -> tuple[np.ndarray, np.ndarray]:
    """Operands of power and atan2: special values with each other, arbitrary bits, moderate values, integers."""
    special = np.array([0, 0.5, 1, 2, 2.5, 3, np.inf, np.nan, 1e-45, 3e38, 1e30, 2**24 + 1, 2**53, 5e-324], dtype)
    special = np.concatenate([special, -special])
    random = np.random.default_rng(6)
    info = np.finfo(dtype)
    raw = random.integers(0, 256, (2, 40_000 * info.dtype.itemsize), dtype=np.uint8).view(dtype)
    small, log_max = random.uniform(0, 10, 60_000), math.log(float(info.max))
    wide = np.exp(random.uniform(-0.9 * log_max, 0.9 * log_max, 60_000))
    near_one = random.uniform(0.99, 1.01, 20_000)
    integers = random.integers(-30, 30, (2, 10_000)).astype(dtype)
    x = [np.repeat(special, special.size), raw[0], small, wide, near_one, integers[0]]
    y = [np.tile(special, special.size), raw[1], random.uniform(-log_max / 3, log_max / 3, 60_000),
         random.uniform(-1.1, 1.1, 60_000), random.uniform(-1, 1, 20_000) * 100 * log_max, integers[1]]  # fmt: skip
    return np.concatenate(x, dtype=dtype, casting="same_kind"), np.concatenate(y, dtype=dtype, casting="same_kind")


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=LONG)])
def test_two_operands(dtype):
    check({"power": np.power, "atan2": np.arctan2}, *pairs(dtype))
