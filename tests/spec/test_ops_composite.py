"""Operations that are whole algorithms (batch norm, linear algebra, Fourier transforms) against XLA:CPU."""

from __future__ import annotations

import numpy as np
import pytest
from refxla_spec import custom_calls
from refxla_spec.errors import UnsupportedError
from structured import run, shape, values, xla


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
    custom_calls.register("test_twice", lambda instruction, x: x + x)
    try:
        np.testing.assert_array_equal(run(hlo, x)[0], [2, 4])
    finally:
        custom_calls.unregister("test_twice")


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
