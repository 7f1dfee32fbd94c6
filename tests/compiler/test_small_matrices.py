"""Factors and solutions of matrices of up to 3 rows are written out, and have the bits of those that are computed by
loops where their operations are the same."""

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.ir import library_calls
from refxla.ir.plan import LibraryCall
from refxla.passes.pipeline import optimize

KINDS = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def matrices(name: str, *sizes: int) -> np.ndarray:
    rng = np.random.default_rng(sum(sizes))
    values = rng.standard_normal(sizes)
    return (values + 1j * rng.standard_normal(sizes) if name[0] == "c" else values).astype(KINDS[name])


def dims(*sizes: int) -> str:
    return f"[{','.join(map(str, sizes))}]"


def getrf(name: str, *sizes: int) -> str:
    *batch, m, n = sizes
    results = f"({name}{dims(*sizes)}, s32{dims(*batch, min(m, n))}, s32{dims(*batch)})"
    return f"""HloModule m
    ENTRY main {{ a = {name}{dims(*sizes)} parameter(0)
        ROOT r = {results} custom-call(a), custom_call_target="lapack_{LETTERS[name]}getrf_ffi" }}"""


def cholesky(name: str, lower: str, *sizes: int) -> str:
    return f"""HloModule m
    ENTRY main {{ a = {name}{dims(*sizes)} parameter(0)
        ROOT r = {name}{dims(*sizes)} cholesky(a), lower={lower} }}"""


@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (3, 3), (3, 2), (1, 3), (7, 3, 3), (2, 5, 2, 2)])
@pytest.mark.parametrize("name", KINDS)
def test_lu_has_the_bits_of_the_loop_over_columns(name, sizes, monkeypatch):
    """Also of matrices with a pivot of zero, a NaN, an infinity, and equal candidates for a pivot."""
    module = parse(getrf(name, *sizes))
    special = matrices(name, *sizes)
    special[..., :, 0] = 0
    nan, infinite, equal = (matrices(name, *sizes) for _ in range(3))
    nan[..., -1, 0], infinite[..., -1, -1], equal[..., :, 0] = np.nan, np.inf, -1
    executable = refxla.compile(module)
    assert not any(isinstance(s, LibraryCall) for s in executable.plan.steps)
    assert "while(" not in str(optimize(module))
    monkeypatch.setattr(library_calls, "WRITTEN_OUT", 0)
    assert "while(" in str(optimize(module)) or min(sizes[-2:]) == 1
    looped = refxla.compile(module, linear_algebra="expanded")
    for a in (matrices(name, *sizes), special, nan, infinite, equal):
        for got, wanted in zip(executable(a), looped(a), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (3, 3), (6, 3, 3)])
@pytest.mark.parametrize("name", KINDS)
def test_cholesky_agrees_with_the_specification(name, sizes, lower):
    a = matrices(name, *sizes)
    a = a @ a.swapaxes(-1, -2).conj() + np.eye(sizes[-1], dtype=a.dtype)
    if len(sizes) > 2:
        a[1] = -a[1]  # not definite
        a[2, 0, 0] = np.nan
    module = parse(cholesky(name, lower, *sizes))
    executable = refxla.compile(module)
    assert len(executable.plan.kernels) == len(executable.plan.steps) == 1
    got = executable(a)
    np.testing.assert_allclose(got, interpreter.run(module, [a]), rtol=1e-4, atol=1e-5)
    assert len(sizes) == 2 or np.isnan(got[1:3]).all() and not np.isnan(got[3:]).any()


@pytest.mark.parametrize("operation", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit", ["true", "false"])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize(
    ("name", "n", "batch"), [("f32", 3, ()), ("f64", 2, (4,)), ("c64", 3, (2, 2)), ("bf16", 2, ())]
)
def test_triangular_systems_read_one_triangle(name, n, batch, left, lower, unit, operation):
    rng = np.random.default_rng(n)
    a = rng.standard_normal((*batch, n, n)) + 2 * np.eye(n)
    a = np.where(np.tri(n, dtype=bool) if lower == "true" else np.tri(n, dtype=bool).T, a, np.nan)
    if unit == "true":
        a[..., range(n), range(n)] = np.nan
    right = (*batch, n, 5) if left == "true" else (*batch, 5, n)
    text = f"""HloModule m
    ENTRY main {{ a = {name}{dims(*batch, n, n)} parameter(0)
        b = {name}{dims(*right)} parameter(1)
        ROOT x = {name}{dims(*right)} triangular-solve(a, b), left_side={left}, lower={lower}, unit_diagonal={unit},
            transpose_a={operation} }}"""
    module = parse(text)
    kind = module.entry.parameters[0].shape.element_type.dtype
    arrays = [a.astype(kind), rng.standard_normal(right).astype(kind)]
    executable = refxla.compile(module)
    assert len(executable.plan.kernels) == len(executable.plan.steps) == 1
    wanted, got = (np.asarray(x).astype(np.complex128) for x in (interpreter.run(module, arrays), executable(*arrays)))
    np.testing.assert_allclose(got, wanted, rtol=1e-2 if name == "bf16" else 1e-5, atol=1e-5)


def test_a_filter_of_two_values_is_one_loop_without_calls():
    """Where solve() is by LU, its permutation, and two triangular systems."""
    jax = pytest.importorskip("jax")

    def run(a, b):
        def step(x, y):
            x = jax.numpy.linalg.solve(a + 0.1 * x, y)
            return x, x.sum()

        return jax.lax.scan(step, b[0], b)

    a, b = matrices("f32", 2, 2) + 3 * np.eye(2, dtype=np.float32), matrices("f32", 50, 2, 2)
    compiled = refxla.compile(jax.jit(run))
    for got, wanted in zip(compiled(a, b), jax.jit(run)(a, b), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert len(compiled.executable.program.plan.kernels) <= 2
