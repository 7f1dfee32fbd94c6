"""Complex operations: distances from the exact result within the contract, and the special values."""

import numpy as np
import pytest
from refxla_spec import numerics
from refxla_spec.accuracy import max_ulp
from scalar_kernel import Case, bits, meaning, run, run_all

import refxla

UNARY = [
    "sign", "exponential", "exp2", "exponential-minus-one", "log", "log2", "log-plus-one", "logistic", "sqrt", "rsqrt",
    "sine", "cosine", "tan", "tanh", "sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh",
]  # fmt: skip
BINARY = ["multiply", "divide", "power", "atan2"]
INF, NAN = np.inf, np.nan
C64 = pytest.param(np.complex64, id="c64")
C128 = pytest.param(
    np.complex128,
    id="c128",
    marks=pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no reference wider than f64 on this machine"),
)


def complexes(real, imag, dtype) -> np.ndarray:
    result = np.empty(np.size(real), dtype)
    result.real, result.imag = real, imag
    return result


def sample(dtype, size: int, bound: float, seed: int) -> np.ndarray:
    """Points of a square, and points close to the unit circle, where logarithms cancel."""
    random = np.random.default_rng(seed)
    angle, radius = random.uniform(-np.pi, np.pi, size // 4), 1 + random.uniform(-1e-3, 1e-3, size // 4)
    square = random.uniform(-bound, bound, (2, size))
    return np.concatenate([complexes(*square, dtype), complexes(radius * np.cos(angle), radius * np.sin(angle), dtype)])


def exact(case: Case, monkeypatch, *operands) -> np.ndarray:
    """The specification's value before it is rounded: in the wider type."""
    with monkeypatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(numerics, "round_to", lambda values, element_type: np.asarray(values))
        return meaning(case, *operands)


def check(cases: list[Case], monkeypatch, *operands) -> None:
    name = "c64" if operands[0].dtype == np.complex64 else "c128"
    for case, got in zip(cases, run_all(cases, *operands), strict=True):
        want = exact(case, monkeypatch, *operands)
        assert want.dtype.itemsize > got.dtype.itemsize
        size = np.abs(want)
        finite = np.isfinite(got) & np.isfinite(want.astype(got.dtype))
        assert finite.mean() > 0.9, case
        info = np.finfo(got.dtype)
        exponent = np.maximum(np.frexp(np.where(finite, size, 1))[1] - 1, info.minexp)
        with np.errstate(invalid="ignore"):
            error = np.where(finite, np.abs(got - want) / np.ldexp(np.ones_like(size), exponent - info.nmant), 0)
        k = int(error.argmax())
        given = ", ".join(repr(o[k]) for o in operands)
        assert error[k] <= max_ulp(case.opcode, name), f"{case.opcode}({given}) = {got[k]!r}: {error[k]:.2f} ULP"


@pytest.mark.parametrize("dtype", [C64, C128])
@pytest.mark.parametrize("bound", [0.3, 3, 30])
def test_accuracy(dtype, bound, monkeypatch):
    name, part = ("c64", "f32") if dtype == np.complex64 else ("c128", "f64")
    z, w = sample(dtype, 10_000, bound, 1), sample(dtype, 10_000, bound, 2)
    check([*(Case(opcode, name) for opcode in UNARY), Case("abs", part)], monkeypatch, z)
    check([Case(opcode, name) for opcode in BINARY], monkeypatch, z, w)


@pytest.mark.parametrize("dtype", [C64, C128])
def test_accuracy_of_every_magnitude(dtype, monkeypatch):
    """Operands of arbitrary exponents: no overflow on the way to a result that has none."""
    random = np.random.default_rng(3)
    name, part = ("c64", "f32") if dtype == np.complex64 else ("c128", "f64")
    top = np.finfo(dtype).maxexp - 4
    real, imag = (np.ldexp(random.uniform(-2, 2, 10_000), random.integers(-top, top, 10_000)) for _ in range(2))
    z = complexes(real, imag, dtype)
    inverse = [Case(opcode, name) for opcode in ("asin", "acos", "asinh", "acosh", "atanh")]
    check([Case("sqrt", name), Case("log", name), Case("sign", name), Case("abs", part), *inverse], monkeypatch, z)
    check([Case("divide", name), Case("atan2", name)], monkeypatch, z, complexes(imag, real, dtype))


def atan2(y: complex, x: complex):
    """By the definition, with digits to spare."""
    import mpmath

    with mpmath.workdps(200):
        y, x = mpmath.mpmathify(y), mpmath.mpmathify(x)
        return complex(-1j * mpmath.log((x + 1j * y) / mpmath.sqrt(x * x + y * y)))


def test_complex_atan2_is_its_definition():
    """The branches are those of the definition: in the whole plane, and for parts that are small beside the others."""
    pytest.importorskip("mpmath")
    random = np.random.default_rng(5)
    parts = random.uniform(-2, 2, (4, 400)) * 10.0 ** random.choice([0, 0, 0, -12, 12, -25], (4, 400))
    y, x = complexes(*parts[:2], np.complex128), complexes(*parts[2:], np.complex128)
    want = np.array([atan2(complex(a), complex(b)) for a, b in zip(y, x, strict=True)])
    for got in (run("atan2", y, x), meaning(Case("atan2", "c128"), y, x)):
        np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize(
    ("y", "x", "want"),
    [
        (1, 0, complex(np.pi / 2, 0)),
        (complex(0, 2), complex(1, 0.0), complex(np.pi / 2, np.log(3) / 2)),
        (complex(0, 2), complex(1, -0.0), complex(np.pi / 2, np.log(3) / 2)),
        (complex(-0.0, 2), complex(1, -0.0), complex(-np.pi / 2, np.log(3) / 2)),  # x^2 + y^2 = -3 - 0i
        (complex(1e-300, 2), complex(1, -1e-300), complex(np.pi / 2, np.log(3) / 2)),  # the products are no zeros
        (complex(-1e-300, 2), complex(1, 1e-300), complex(-np.pi / 2, np.log(3) / 2)),
        (0, -1, complex(np.pi, 0)),
        (complex(0, 0.5), -1, complex(np.pi, -np.log(3) / 2)),
        (complex(-1e-40, 0), -1, complex(-np.pi, 0)),
        (0, 0, complex(NAN, NAN)),
        (1j, 1, complex(NAN, NAN)),
        (-1j, 1, complex(NAN, NAN)),
        (INF, 1, complex(NAN, NAN)),
        (1, complex(1, NAN), complex(NAN, NAN)),
    ],
)
def test_special_values_of_complex_atan2(y, x, want):
    y, x = np.array([y], np.complex128), np.array([x], np.complex128)
    for got in (run("atan2", y, x), meaning(Case("atan2", "c128"), y, x)):
        np.testing.assert_allclose(got.real, want.real, rtol=1e-15)
        np.testing.assert_allclose(got.imag, want.imag, rtol=1e-15)


SPECIAL = [  # C's Annex G, and HLO's own choices for sign and power
    ("abs", complex(INF, NAN), INF),
    ("abs", complex(3, 4), 5.0),
    ("exponential", complex(0, -0.0), complex(1, -0.0)),
    ("exponential", complex(-INF, INF), complex(0, 0)),
    ("exponential", complex(INF, 0), complex(INF, 0)),
    ("exponential", complex(INF, INF), complex(INF, NAN)),
    ("exponential", complex(NAN, 0), complex(NAN, 0)),
    ("exponential-minus-one", complex(-0.0, -0.0), complex(-0.0, -0.0)),
    ("exponential-minus-one", complex(INF, 0), complex(INF, 0)),
    ("log", complex(0, 0), complex(-INF, 0)),
    ("log", complex(INF, NAN), complex(INF, NAN)),
    ("log", complex(-INF, -0.0), complex(INF, -np.pi)),
    ("log", complex(1, 0), complex(0, 0)),
    ("log-plus-one", complex(-1, 0), complex(-INF, 0)),
    ("log-plus-one", complex(0, -0.0), complex(0, -0.0)),
    ("sqrt", complex(-4, -0.0), complex(0, -2)),
    ("sqrt", complex(NAN, INF), complex(INF, INF)),
    ("sqrt", complex(-INF, 3), complex(0, INF)),
    ("sqrt", complex(-0.0, 0), complex(0, 0)),
    ("sign", complex(-0.0, 0), complex(-0.0, 0)),
    ("sign", complex(NAN, 1), complex(NAN, NAN)),
    ("sign", complex(3, -4), complex(0.6, -0.8)),
    ("tanh", complex(INF, 2), complex(1, -0.0)),
    ("tanh", complex(0, INF), complex(0, NAN)),
    ("tanh", complex(100, 1), complex(1, 0)),
    ("sine", complex(0, INF), complex(0, INF)),
    ("sine", complex(0, -0.0), complex(0, -0.0)),
    ("sinh", complex(-0.0, 0), complex(-0.0, 0)),
    ("sinh", complex(INF, 0), complex(INF, 0)),
    ("cosh", complex(0, INF), complex(NAN, 0)),
    ("cosh", complex(-INF, 2), complex(-INF, -INF)),
    ("asin", complex(0, -0.0), complex(0, -0.0)),
    ("asin", complex(2, -0.0), complex(np.pi / 2, -np.arccosh(2))),
    ("asin", complex(0, NAN), complex(0, NAN)),
    ("acos", complex(1, -0.0), complex(0, 0)),
    ("acos", complex(-2, 0), complex(np.pi, -np.arccosh(2))),
    ("acos", complex(-INF, INF), complex(3 * np.pi / 4, -INF)),
    ("acos", complex(0, NAN), complex(np.pi / 2, NAN)),
    ("asinh", complex(-INF, 2), complex(-INF, 0)),
    ("asinh", complex(-0.0, 2), complex(-np.arccosh(2), np.pi / 2)),
    ("acosh", complex(1, -0.0), complex(0, -0.0)),
    ("acosh", complex(-2, -0.0), complex(np.arccosh(2), -np.pi)),
    ("acosh", complex(INF, NAN), complex(INF, NAN)),
    ("atanh", complex(1, -0.0), complex(INF, -0.0)),
    ("atanh", complex(-1, 1e-45), complex(-(np.log(2) + 149 * np.log(2)) / 2, np.pi / 4)),
    ("atanh", complex(-INF, INF), complex(-0.0, np.pi / 2)),
    ("atanh", complex(0, NAN), complex(0, NAN)),
    ("atanh", complex(NAN, 1e30), complex(NAN, NAN)),
    ("atanh", complex(NAN, -INF), complex(0, -np.pi / 2)),
    ("logistic", complex(-INF, 1), complex(0, 0)),
    ("logistic", complex(INF, 1), complex(1, 0)),
    ("logistic", complex(0, NAN), complex(NAN, NAN)),
    ("logistic", complex(-0.0, INF), complex(NAN, NAN)),
    ("logistic", complex(INF, NAN), complex(1, 0)),
    ("logistic", complex(NAN, 0), complex(NAN, NAN)),
]


@pytest.mark.parametrize(("opcode", "z", "want"), SPECIAL)
def test_special_values(opcode, z, want):
    operand = np.array([z], np.complex64)
    got = run(opcode, operand, result_type="f32" if opcode == "abs" else "c64")
    np.testing.assert_array_equal(bits(got), bits(np.array([want], got.dtype)), f"{opcode}({z}) = {got[0]}")


@pytest.mark.parametrize(
    ("opcode", "a", "b", "want"),
    [
        ("divide", 1 + 1j, 0, complex(INF, INF)),
        ("divide", 0, 0, complex(NAN, NAN)),
        ("divide", 1, complex(INF, INF), complex(0, -0.0)),
        ("divide", complex(INF, 1), 1 + 1j, complex(INF, -INF)),
        ("divide", 1e38 + 1e38j, 1e38 + 1e38j, 1),
        ("divide", 1e-45, 1e-45, 1),
        ("power", 0, 0, 1),
        ("power", 0, 2, 0),
        ("maximum", 1 + 2j, 1 + 3j, 1 + 3j),
        ("minimum", 1 + 2j, 1 + 3j, 1 + 2j),
        ("maximum", 1 + 2j, complex(NAN, 0), complex(NAN, 0)),
    ],
)
def test_special_values_of_two(opcode, a, b, want):
    got = run(opcode, np.array([a], np.complex64), np.array([b], np.complex64))
    np.testing.assert_array_equal(bits(got), bits(np.array([want], np.complex64)), f"{got[0]}")


REDUCTION = """HloModule m
    add { a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT s = f32[] add(a, b) }
    ENTRY e { z = c64[SIZE] parameter(0)
        part = f32[SIZE] OPCODE(z)
        power = f32[SIZE] exponential(part)
        zero = f32[] constant(0)
        ROOT s = f32[] reduce(power, zero), dimensions={0}, to_apply=add }"""


@pytest.mark.parametrize("opcode", ["real", "imag"])
@pytest.mark.parametrize("size", [7, 32, 33, 512, 5000])
def test_a_part_alone_is_summed(opcode, size):
    z = (np.linspace(-2, 1, size) + 1j * np.linspace(1, -1, size)).astype(np.complex64)
    exe = refxla.compile(REDUCTION.replace("SIZE", str(size)).replace("OPCODE", opcode))
    np.testing.assert_allclose(exe(z), np.exp(getattr(z, opcode).astype(np.float64)).sum(), rtol=1e-6)


@pytest.mark.parametrize("opcode", ["real", "imag"])
def test_loops_load_a_part_alone_without_gaps(opcode):
    text = REDUCTION.replace("SIZE", "5000").replace("OPCODE", opcode)
    assert f"rx_load_{opcode}_c64(&" in refxla.compile(text).opencl
    other = {"real": "imag", "imag": "real"}[opcode]
    both = text.replace("exponential(part)", "add(part, other)")
    both = both.replace("power =", f"other = f32[5000] {other}(z)\n        power =")
    assert f"rx_load_{opcode}_c64(&" not in refxla.compile(both).opencl
