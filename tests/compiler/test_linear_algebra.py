"""Linear algebra, by the library and by expansions: by the properties that define it, and LU element by element.

The bounds are those of backward stability in the working type: c n eps |a|, with the c of a few rotations an element.
"""

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse
from structured import APPROX_TOP_K

import refxla

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
LETTER = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
REAL = {"f32": "f32", "f64": "f64", "c64": "f32", "c128": "f64"}


@pytest.fixture(autouse=True, params=["library", "expanded"])
def linear_algebra(request, monkeypatch):
    monkeypatch.setenv("REFXLA_LINEAR_ALGEBRA", request.param)
    return request.param


def matrix(name: str, *sizes: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng((seed, *sizes))
    values = rng.standard_normal(sizes)
    return (values + 1j * rng.standard_normal(sizes) if name[0] == "c" else values).astype(TYPES[name])


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.swapaxes(-1, -2).conj()


def shape(name: str, *sizes: int) -> str:
    return f"{name}[{','.join(map(str, sizes))}]"


def call(target: str, results: list[str], *arguments: tuple[str, np.ndarray], options: str = "") -> tuple:
    parameters = "\n".join(f"p{k} = {shape(t, *a.shape)} parameter({k})" for k, (t, a) in enumerate(arguments))
    names = ", ".join(f"p{k}" for k in range(len(arguments)))
    result = f"({', '.join(results)})" if len(results) > 1 else results[0]
    text = f"""HloModule m
    ENTRY main {{ {parameters}
    ROOT r = {result} custom-call({names}), custom_call_target="{target}", api_version=API_VERSION_TYPED_FFI,
             backend_config={{{options}}} }}"""
    return refxla.compile(text)(*(a for _, a in arguments)), text


def near(got: np.ndarray, wanted: np.ndarray, scale: float, like: np.ndarray) -> None:
    n = max(like.shape[-2:])
    error = np.abs(got.astype(np.complex128) - wanted).max(initial=0)
    assert error <= 8 * n * np.finfo(like.dtype).eps * scale, f"off by {error}"


def norm(a: np.ndarray) -> float:
    return float(np.linalg.norm(a.astype(np.complex128), axis=(-2, -1)).max())


@pytest.mark.parametrize(("name", "sizes"), [("f32", (2, 5, 5)), ("f64", (4, 4)), ("c64", (1, 1)), ("c128", (3, 3))])
def test_eigh(name, sizes):
    a = matrix(name, *sizes)
    a = a + adjoint(a)
    n = sizes[-1]
    target = f"lapack_{LETTER[name]}{'heevd' if name[0] == 'c' else 'syevd'}_ffi"
    read = np.where(np.tri(n, dtype=bool), a, np.nan)  # the other triangle is not read
    results = [shape(name, *sizes), shape(REAL[name], *sizes[:-1]), shape("s32", *sizes[:-2])]
    (v, w, info), _ = call(target, results, (name, read), options="mode = 86 : ui8, uplo = 76 : ui8")
    assert (np.diff(w) >= 0).all() and not info.any()
    near(a @ v, v * w[..., None, :], norm(a), a)
    near(adjoint(v) @ v, np.eye(n), 1, a)


def test_eigh_of_many_rows():
    n = 33
    a = matrix("f32", n, n)
    a = (a + a.T) * np.float32(1e25)  # whose squares would overflow
    (v, w), _ = call("Eigh", [shape("f32", n, n), shape("f32", n)], ("f32", a))
    near(a @ v, v * w, norm(a), a)
    near(v.T @ v, np.eye(n), 1, a)


@pytest.mark.parametrize(
    ("name", "sizes", "mode"),
    [("f32", (5, 3), "A"), ("c64", (3, 4), "S"), ("f64", (2, 3, 3), "A"), ("f32", (4, 1), "A"), ("c128", (3, 2), "N")],
)
def test_svd(name, sizes, mode):
    a = matrix(name, *sizes)
    *batch, m, n = sizes
    k = min(m, n)
    rows, columns = (k, k) if mode == "S" else (m, n)
    results = [shape(name, *sizes), shape(REAL[name], *batch, k), shape(name, *batch, m, rows)]
    results += [shape(name, *batch, columns, n), shape("s32", *batch)]
    (_, s, u, vh, info), _ = call(
        f"lapack_{LETTER[name]}gesdd_ffi", results, (name, a), options=f"mode = {ord(mode)} : ui8"
    )
    assert (np.diff(s) <= 0).all() and (s >= 0).all() and not info.any()
    near(s, np.linalg.svd(a.astype(np.complex128), compute_uv=False), norm(a), a)
    if mode != "N":
        near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, norm(a), a)
        near(adjoint(u) @ u, np.eye(u.shape[-1]), 1, a)
        near(vh @ adjoint(vh), np.eye(vh.shape[-2]), 1, a)


def test_svd_of_a_matrix_without_full_rank():
    a = matrix("f32", 6, 2) @ matrix("f32", 2, 4)
    results = [shape("f32", 6, 4), "f32[4]", shape("f32", 6, 6), shape("f32", 4, 4), "s32[]"]
    (_, s, u, vh, _), _ = call("lapack_sgesdd_ffi", results, ("f32", a), options="mode = 65 : ui8")
    near((u[:, :4] * s) @ vh, a, norm(a), a)
    near(u.T @ u, np.eye(6), 1, a)
    assert s[2] < 1e-5 * s[0]


@pytest.mark.parametrize(("name", "sizes"), [("f32", (4, 4)), ("c64", (5, 3)), ("f64", (2, 3, 5))])
def test_lu(name, sizes):
    a = matrix(name, *sizes)
    *batch, m, n = sizes
    results = [shape(name, *sizes), shape("s32", *batch, min(m, n)), shape("s32", *batch, m)]
    (packed, pivots, permutation), text = call("LuDecomposition", results, (name, a))
    k = min(m, n)
    lower, upper = np.tril(packed[..., :, :k], -1) + np.eye(m, k), np.triu(packed[..., :k, :])
    near(lower @ upper, np.take_along_axis(a, permutation[..., None], -2), 2 * k * norm(a), a)
    _, wanted_pivots, wanted_permutation = interpreter.run(parse(text), [a])
    np.testing.assert_array_equal(pivots, wanted_pivots)
    np.testing.assert_array_equal(permutation, wanted_permutation)


def test_a_singular_matrix_is_reported():
    a = np.array([[1, 2], [2, 4]], np.float32)
    (packed, pivots, info), text = call("lapack_sgetrf_ffi", ["f32[2,2]", "s32[2]", "s32[]"], ("f32", a))
    for got, wanted in zip((packed, pivots, info), interpreter.run(parse(text), [a]), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert info == 2


@pytest.mark.parametrize("uplo", "LU")
def test_cholesky_and_triangular_solve(uplo):
    a = matrix("f32", 4, 4)
    a = a @ a.T + 4 * np.eye(4, dtype=np.float32)
    (factor, info), _ = call(
        "lapack_spotrf_ffi", ["f32[4,4]", "s32[]"], ("f32", a), options=f"uplo = {ord(uplo)} : ui8"
    )
    keep = np.tri(4, dtype=bool) if uplo == "L" else np.tri(4, dtype=bool).T
    t = np.where(keep, factor, 0)
    near(t @ t.T if uplo == "L" else t.T @ t, a, norm(a), a)
    np.testing.assert_array_equal(factor[~keep], a[~keep])
    assert info == 0
    b = matrix("f32", 4, 2, seed=5)
    options = f"diag = 78 : ui8, side = 76 : ui8, trans_x = 84 : ui8, uplo = {ord(uplo)} : ui8"
    x, _ = call("lapack_strsm_ffi", ["f32[4,2]"], ("f32", factor), ("f32", b), options=options)
    near(t.T @ x, b, norm(a) * norm(x), a)
    (_, info), _ = call("lapack_spotrf_ffi", ["f32[4,4]", "s32[]"], ("f32", -a), options="uplo = 76 : ui8")
    assert info == 1


def test_qr_by_lapacks_names():
    a = matrix("f32", 5, 3)
    (packed, tau), _ = call("lapack_sgeqrf_ffi", ["f32[5,3]", "f32[3]"], ("f32", a))
    q, _ = call("lapack_sorgqr_ffi", ["f32[5,3]"], ("f32", packed), ("f32", tau))
    near(q @ np.triu(packed[:3]), a, norm(a), a)


def test_approximate_top_k_misses_none():
    x = np.array([[3, 1, 4, 1], [5, 9, 2, 6]], np.float32)
    for got, wanted in zip(refxla.compile(APPROX_TOP_K)(x), interpreter.run(parse(APPROX_TOP_K), [x]), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_an_unknown_target_is_named_with_what_to_do():
    with pytest.raises(UnsupportedError, match="'mine'.*device='reference'.*refxla_spec.custom_calls.register"):
        call("mine", ["f32[2]"], ("f32", np.zeros(2, np.float32)))


def symmetric(kind: str, n: int) -> np.ndarray:
    """Matrices whose eigenvalues are apart, equal, of two values, or of all sizes; f64."""
    rng = np.random.default_rng(n)
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = {
        "random": None,
        "ones": np.where(np.arange(n) == 0, n, 0.0),
        "two values": np.where(np.arange(n) < n // 2, -1.0, 1.0),
        "nearly equal": 1 + 1e-6 * rng.standard_normal(n),
        "of all sizes": np.logspace(0, -12, n),
    }[kind]
    if kind == "ones":
        return np.ones((n, n))
    a = rng.standard_normal((n, n))
    return a + a.T if values is None else (q * values) @ q.T


@pytest.mark.parametrize(
    ("name", "n", "kind"),
    [("f32", 128, "random"), ("f32", 192, "random"), ("c64", 33, "random"), ("f64", 48, "random")]
    + [("f32", 64, k) for k in ("ones", "two values", "nearly equal", "of all sizes")]
    + [("f64", 48, k) for k in ("two values", "nearly equal", "of all sizes")],
)
def test_eigenvalues_and_singular_values_keep_their_digits(name, n, kind, linear_algebra):
    """A few units of eps of the largest, at any n and however close they lie: rotations that went on for a fixed number
    of sweeps lost n units, and had found nothing like f64 where many eigenvalues are nearly equal. LAPACK's bound grows
    with n, its errors with the root of n."""
    most = 8 if linear_algebra == "expanded" else 4 * np.sqrt(n)
    a = symmetric(kind, n).astype(TYPES[name])
    if name[0] == "c":
        a = a + 1j * (np.triu(a, 1) - np.triu(a, 1).T)
    wide = a.astype(np.complex128)
    unit = np.finfo(a.dtype).eps * np.linalg.norm(wide, 2)
    (v, w), _ = call("Eigh", [shape(name, n, n), shape(REAL[name], n)], (name, a))
    results = [shape(name, n, n), shape(REAL[name], n), shape(name, n, n), shape(name, n, n), "s32[]"]
    (_, s, u, vh, _), _ = call(f"lapack_{LETTER[name]}gesdd_ffi", results, (name, a), options="mode = 65 : ui8")
    assert abs(w - np.linalg.eigvalsh(wide)).max() < most * unit
    assert abs(s - np.linalg.svd(wide, compute_uv=False)).max() < most * unit
    v, u, vh = (x.astype(np.complex128) for x in (v, u, vh))
    assert abs(wide @ v - v * w).max() < most / 2 * unit
    assert abs((u * s) @ vh - wide).max() < most / 2 * unit
    for basis in (v, u, adjoint(vh)):
        assert abs(adjoint(basis) @ basis - np.eye(n)).max() < 2 * most * np.finfo(a.dtype).eps


def test_a_matrix_that_is_not_finite_leaves_the_others_of_its_batch_alone():
    a = np.stack([symmetric("random", 6), np.full((6, 6), np.nan), symmetric("two values", 6)]).astype(np.float32)
    (v, w), _ = call("Eigh", [shape("f32", 3, 6, 6), shape("f32", 3, 6)], ("f32", a))
    assert np.isnan(w[1]).all()
    for n in (0, 2):
        near(a[n] @ v[n], v[n] * w[n], norm(a[n]), a)
