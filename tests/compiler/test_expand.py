"""Operations that become others before they are compiled: compiled and run beside the reference."""

import ml_dtypes
import numpy as np
import pytest
from agreement import assert_agree
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "c64": np.complex64}


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


def test_cholesky_is_nan_from_the_row_that_shows_that_a_is_not_positive():
    a = np.diag([4, 1, -1, 9]).astype(np.float32)
    got, wanted = run("a = f32[4,4] parameter(0)\nROOT r = f32[4,4] cholesky(a), lower=true", a)
    np.testing.assert_array_equal(got, wanted)
    assert np.isnan(got[2, 2]) and np.isnan(got[3, 3]) and got[1, 1] == 1


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


SIZE = """x = f32[2,3] parameter(0)
    n = s32[] {}
    ROOT y = f32[2,3] set-dimension-size(x, n), dimensions={{1}}"""


@pytest.mark.parametrize("size", ["constant(3)", "get-dimension-size(x), dimensions={1}"])
@pytest.mark.parametrize("without", [(), ("simplify", "fold", "simplify-folded")])
def test_a_dimension_set_to_the_size_that_it_has(size, without):
    x = random("f32", 2, 3)
    text = f"HloModule test\nENTRY main {{\n{SIZE.format(size)}\n}}"
    np.testing.assert_array_equal(refxla.compile(text, without=without)(x), x)
    np.testing.assert_array_equal(interpreter.run(parse(text), [x]), x)


@pytest.mark.parametrize("size", ["constant(2)", "parameter(1)"])
def test_any_other_size_is_refused_by_name(size):
    text = f"HloModule test\nENTRY main {{\n{SIZE.format(size)}\n}}"
    with pytest.raises(refxla.UnsupportedError, match="line 5.*y: set-dimension-size"):
        refxla.compile(text)
    with pytest.raises(refxla.UnsupportedError, match="y: dimension 1"):
        interpreter.run(parse(text), [random("f32", 2, 3), np.array(2, np.int32)][: 1 + ("param" in size)])
