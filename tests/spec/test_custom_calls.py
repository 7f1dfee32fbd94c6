"""Custom calls: the linear algebra of JAX's programs for a CPU, by the properties that define it.

The bounds are those of backward stability: what n columns of orthogonal transformations in the type's arithmetic may
lose is n times the rounding of the result, relative to the norm of the matrix. The reference rounds results once, from
f64, so a small multiple of sqrt(n) roundings of each element holds for f32; for f64 the algorithm's own n * eps.
"""

import os

import numpy as np
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import jax.scipy.linalg as jsl  # noqa: E402
from refxla_spec import custom_calls, interpreter  # noqa: E402
from refxla_spec.errors import UnsupportedError  # noqa: E402
from refxla_spec.text import parse  # noqa: E402
from structured import APPROX_TOP_K  # noqa: E402

from refxla.ir.proto import from_proto  # noqa: E402

TYPES = ["float32", "float64", "complex64", "complex128"]


def matrix(dtype: str, *sizes: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng((seed, *sizes))
    values = rng.standard_normal(sizes)
    return (values + 1j * rng.standard_normal(sizes) if dtype[0] == "c" else values).astype(dtype)


def reference(function, *arguments: np.ndarray) -> list[np.ndarray]:
    """The results of a JAX function, lowered for a CPU, on the reference."""
    with jax.enable_x64(True):
        lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cpu",))
        module = from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    result = interpreter.run(module, [arguments[k] for k in kept])
    return list(result) if isinstance(result, tuple) else [result]


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.swapaxes(-1, -2).conj()


def near(got: np.ndarray, wanted: np.ndarray, scale: float, like: np.ndarray) -> None:
    """Equal but for n roundings, relative to `scale`, in the type of `like`."""
    n = max(like.shape[-2:])
    error = np.abs(got.astype(np.complex128) - wanted).max()
    assert error <= 8 * n * np.finfo(like.dtype).eps * scale, f"off by {error}"


def norm(a: np.ndarray) -> float:
    return float(np.linalg.norm(a.astype(np.complex128), axis=(-2, -1)).max())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_eigh(dtype, lower):
    a = matrix(dtype, 2, 6, 6)
    a = a + adjoint(a)
    read = np.where(np.tri(6, dtype=bool) if lower else np.tri(6, dtype=bool).T, a, np.nan)
    values, vectors = reference(lambda x: jax.lax.linalg.eigh(x, lower=lower, symmetrize_input=False)[::-1], read)
    assert (np.diff(values) >= 0).all()
    near(a @ vectors, vectors * values[..., None, :], norm(a), a)
    near(adjoint(vectors) @ vectors, np.eye(6), 1, a)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (2, 4, 4)])
@pytest.mark.parametrize("full", [True, False])
def test_svd(dtype, sizes, full):
    a = matrix(dtype, *sizes)
    u, s, vh = reference(lambda x: jnp.linalg.svd(x, full_matrices=full), a)
    k = s.shape[-1]
    assert (np.diff(s) <= 0).all() and (s >= 0).all()
    near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, norm(a), a)
    near(adjoint(u) @ u, np.eye(u.shape[-1]), 1, a)
    near(vh @ adjoint(vh), np.eye(vh.shape[-2]), 1, a)
    (alone,) = reference(lambda x: jnp.linalg.svd(x, compute_uv=False), a)
    near(alone[..., None], s[..., None], norm(a), a)


@pytest.mark.parametrize("dtype", TYPES)
def test_eig(dtype):
    a = matrix(dtype, 5, 5)
    values, left, right = reference(lambda x: jax.lax.linalg.eig(x), a)
    near(a @ right, right * values, norm(a), a)
    # the left ones are ill-conditioned by the condition of the right ones
    near(adjoint(left) @ a, values[:, None] * adjoint(left), norm(a) * np.linalg.cond(right), a)
    near(np.linalg.norm(right, axis=0)[None], np.ones((1, 5)), 1, a)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_schur(dtype, n):
    a = matrix(dtype, n, n, seed=3)
    t, q = reference(lambda x: jax.lax.linalg.schur(x), a)
    near(q @ t @ adjoint(q), a, norm(a), a)
    near(adjoint(q) @ q, np.eye(n), 1, a)
    below = np.diagonal(t, -1)
    assert not np.tril(t, -2).any()
    if dtype[0] == "c":
        assert not below.any()
    for k in np.flatnonzero(below):  # a block of two rows: no neighbour is one, equal diagonal, opposite signs
        assert k == 0 or not below[k - 1]
        near(t[k, k, None, None], t[k + 1, k + 1, None, None], norm(a), a)
        assert t[k, k + 1] * t[k + 1, k] < 0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (2, 3, 5)])
def test_lu(dtype, sizes):
    a = matrix(dtype, *sizes)
    packed, pivots, permutation = reference(lambda x: jax.lax.linalg.lu(x), a)
    m, n = sizes[-2:]
    k = min(m, n)
    lower, upper = np.tril(packed[..., :, :k], -1) + np.eye(m, k), np.triu(packed[..., :k, :])
    near(lower @ upper, np.take_along_axis(a, permutation[..., None], -2), 2 * k * norm(a), a)
    assert (np.abs(lower.real) + np.abs(lower.imag) <= 2 + 1e-5).all() and (pivots >= np.arange(k)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_solve(dtype):
    a, b = matrix(dtype, 5, 5), matrix(dtype, 5, 2, seed=1)
    (x,) = reference(jnp.linalg.solve, a, b)
    near(a @ x, b, norm(a) * norm(x) * 5, a)


@pytest.mark.parametrize("dtype", TYPES)
def test_qr_with_and_without_pivoting(dtype):
    a = matrix(dtype, 5, 3)
    q, r = reference(jnp.linalg.qr, a)
    near(q @ r, a, norm(a), a)
    near(adjoint(q) @ q, np.eye(3), 1, a)
    q, r, columns = reference(lambda x: jsl.qr(x, pivoting=True), a)
    near(q @ r, a[:, columns], norm(a), a)
    sizes = np.abs(np.diagonal(r))
    assert (sizes[:-1] >= sizes[1:] * (1 - 1e-6)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_cholesky_and_what_is_not_positive(dtype):
    a = matrix(dtype, 4, 4)
    a = a @ adjoint(a) + 4 * np.eye(4, dtype=dtype)
    (factor,) = reference(jnp.linalg.cholesky, a)
    near(factor @ adjoint(factor), a, norm(a), a)
    (factor,) = reference(jnp.linalg.cholesky, -a)
    assert np.isnan(factor).any()


@pytest.mark.parametrize("dtype", TYPES)
def test_hessenberg_and_tridiagonal(dtype):
    a = matrix(dtype, 5, 5)
    h, q = reference(lambda x: jsl.hessenberg(x, calc_q=True), a)
    near(q @ h @ adjoint(q), a, norm(a), a)
    assert not np.tril(h, -2).any()
    a = a + adjoint(a)
    _, diagonal, off, _ = reference(lambda x: jax.lax.linalg.tridiagonal(x, lower=True), a)
    t = np.diag(diagonal) + np.diag(off, -1) + np.diag(np.conj(off), 1)
    near(np.linalg.eigvalsh(t)[None], np.linalg.eigvalsh(a.astype(np.complex128))[None], norm(a), a)


def test_a_tridiagonal_system():
    below, diagonal, above = (matrix("float32", 6, seed=k) for k in range(3))
    diagonal = diagonal + 4
    b = matrix("float32", 6, 2, seed=9)
    (x,) = reference(jax.lax.linalg.tridiagonal_solve, below, diagonal, above, b)
    a = np.diag(diagonal) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)
    near(a @ x, b, norm(a) * norm(x), a)


def test_approximate_top_k_misses_none():
    values, where = interpreter.run(parse(APPROX_TOP_K), [np.array([[3, 1, 4, 1], [5, 9, 2, 6]], np.float32)])
    np.testing.assert_array_equal(values, [[4, 3], [9, 6]])
    np.testing.assert_array_equal(where, [[2, 0], [1, 3]])


def test_eigh_by_its_own_name():
    hlo = """HloModule m
    ENTRY main { a = f32[2,2] parameter(0)
                 ROOT r = (f32[2,2], f32[2]) custom-call(a), custom_call_target="Eigh",
                          backend_config="1,1,100,1e-6" }"""
    vectors, values = interpreter.run(parse(hlo), [np.array([[2, 99], [1, 2]], np.float32)])
    np.testing.assert_array_equal(values, [1, 3])
    near(np.abs(vectors), np.full((2, 2), np.sqrt(0.5)), 1, vectors)


def test_threefry_by_its_own_name():
    hlo = """HloModule m
    ENTRY main { k = u32[] constant(0)
                 ROOT r = (u32[], u32[]) custom-call(k, k, k, k), custom_call_target="cu_threefry2x32" }"""
    assert interpreter.run(parse(hlo), []) == (1797259609, 2579123966)  # the published test vector


def test_lu_decomposition_by_its_own_name():
    hlo = """HloModule m
    ENTRY main { a = f32[2,2] parameter(0)
                 ROOT r = (f32[2,2], s32[2], s32[2]) custom-call(a), custom_call_target="LuDecomposition" }"""
    packed, pivots, permutation = interpreter.run(parse(hlo), [np.array([[1, 2], [4, 4]], np.float32)])
    np.testing.assert_array_equal(packed, [[4, 4], [0.25, 1]])
    np.testing.assert_array_equal(pivots, [1, 1])
    np.testing.assert_array_equal(permutation, [1, 0])


def test_a_target_of_ones_own():
    hlo = """HloModule m
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
    ENTRY main { x = f32[] parameter(0)
                 ROOT r = f32[] custom-call(x), custom_call_target="mine", to_apply=add,
                          backend_config={times = 3 : i64} }"""
    module, x = parse(hlo), np.array(2, np.float32)
    with pytest.raises(UnsupportedError, match="'mine'.*refxla_spec.custom_calls.register"):
        interpreter.run(module, [x])

    def mine(instruction, x, *, run):
        total = x
        for _ in range(int(custom_calls.options(instruction)["times"])):
            total = run(instruction.to_apply, total, x)
        return total

    custom_calls.register("mine", mine)
    try:
        assert interpreter.run(module, [x]) == 8
    finally:
        custom_calls.unregister("mine")


def test_an_unknown_target_is_refused_with_the_nearest_names():
    def refusal(target):
        call = f'x = f32[2] parameter(0) ROOT r = f32[2] custom-call(x), custom_call_target="{target}"'
        with pytest.raises(UnsupportedError) as raised:
            interpreter.run(parse(f"HloModule m\nENTRY e {{ {call} }}"), [np.zeros(2, np.float32)])
        return str(raised.value)

    near = refusal("lapack_sgetrf_fii")
    assert f"{len(custom_calls.TARGETS)} others have, such as lapack_sgetrf_ffi" in near and len(near) < 350
    assert "such as" not in refusal("what") and "refxla_spec.custom_calls.TARGETS lists them" in refusal("what")
