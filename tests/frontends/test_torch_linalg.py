"""torch.linalg compiled: values, gradients and errors as eager PyTorch's, and nothing runs in eager."""

import pytest

torch = pytest.importorskip("torch")

from torch_agreement import begin_anew, check, compiled  # noqa: E402

from refxla.frontends import torch as frontend  # noqa: E402

linalg = torch.linalg


@pytest.fixture(autouse=True)
def fresh():
    begin_anew()


def matrices(*dims, dtype=torch.float64):
    """Well-conditioned matrices that need their rows exchanged."""
    x = torch.randn(*dims, dtype=dtype)
    return (x + 3 * torch.eye(*dims[-2:], dtype=dtype).roll(1, -1)).requires_grad_()


def positive(x):
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_systems(dtype):
    """Solutions, inverses, determinants and factors, of batches that are broadcast, from both sides."""
    a, x, v = (
        matrices(2, 3, 3, dtype=dtype),
        torch.randn(3, 4, dtype=dtype, requires_grad=True),
        matrices(2, 3, dtype=dtype),
    )

    def f(a, x, v):
        lower, factor = a.tril(), linalg.cholesky(positive(a))
        solved = linalg.solve(a, x) + linalg.solve(a, x.mT.conj(), left=False).mH + linalg.solve(a, v)[..., None]
        triangular = linalg.solve_triangular(lower, x, upper=False) + torch.cholesky_solve(x, factor)
        transposed = linalg.solve_triangular(lower.mT, x.mT, upper=True, left=False)
        sign, logarithm = linalg.slogdet(a)
        p, lower_factor, u = linalg.lu(a)
        return (
            solved, triangular, transposed, linalg.det(a), logarithm, sign, linalg.inv(a), p @ lower_factor, u,
            torch.cholesky_inverse(factor),
        )  # fmt: skip

    check(f, a, x, v, tolerance=1e-9)


def test_decompositions():
    """What is the same whatever the signs of the vectors."""

    def f(a, w):
        q, r = linalg.qr(w)
        values, vectors = linalg.eigh(positive(a), UPLO="U")
        u, s, vh = linalg.svd(w, full_matrices=False)
        return (
            q.abs() + 0, r.abs(), (vectors * values.log()[..., None, :]) @ vectors.mT,
            (u * s.sqrt()) @ vh, linalg.svdvals(a), linalg.eigvalsh(positive(a)), linalg.matrix_norm(a, 2),
            linalg.cond(a),
        )  # fmt: skip

    w = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    check(f, matrices(2, 3, 3), w, tolerance=1e-8)
    q, r = compiled(lambda w: linalg.qr(w, mode="complete"))(w.detach())
    torch.testing.assert_close(q @ q.mT, torch.eye(4, dtype=q.dtype))
    torch.testing.assert_close(q @ r, w.detach())


def test_factors_that_are_saved():
    def f(a, x):
        packed, pivots = linalg.lu_factor(a)
        p, lower, u = torch.lu_unpack(packed, pivots)
        return (
            p @ lower @ u,
            linalg.lu_solve(packed, pivots, x),
            linalg.lu_solve(packed, pivots, x, adjoint=True),
            pivots,
        )

    with torch.no_grad():
        check(f, matrices(4, 5, 5).detach(), torch.randn(5, 2, dtype=torch.float64), tolerance=1e-10)


def test_what_has_no_solution():
    """`info` is LAPACK's, and a factor has the triangle that was asked for."""
    singular = torch.tensor([[[1.0, 2], [2, 4]], [[1, 2], [3, 4]], [[0, 0], [0, 0]]])

    def f(a):
        _, info = linalg.cholesky_ex(a)
        _, inverse_info = linalg.inv_ex(a)
        sign, logarithm = linalg.slogdet(a)
        return info, inverse_info, linalg.lu_factor_ex(a).info, sign, logarithm, linalg.det(a)

    check(f, singular)
    assert compiled(lambda a: linalg.cholesky_ex(a, upper=True).L)(positive(torch.randn(3, 3))).tril(-1).eq(0).all()
    for f, bad in (
        (linalg.cholesky, -torch.eye(2)), (linalg.inv, torch.ones(2, 2)),
        (lambda a: linalg.solve(a, a), torch.ones(2, 2)),
        (lambda a: linalg.cholesky_ex(a, check_errors=True).L, -torch.eye(2)),
    ):  # fmt: skip
        g = compiled(f)
        g(torch.eye(2))
        with pytest.raises(linalg.LinAlgError, match=r"linalg\.\w+: .*(singular|not positive-definite)"):
            g(bad)
    assert not frontend.report()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
def test_exponentials_of_matrices(dtype):
    """Of norms of which the series is exact, and of larger ones, in one batch."""
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    x = torch.randn(4, 5, 5, dtype=dtype) * torch.tensor([0.0, 1e-3, 1, 6]).view(4, 1, 1)
    check(lambda x: torch.linalg.matrix_exp(x), x.requires_grad_(), tolerance=tolerance)
    check(lambda x: torch.linalg.matrix_exp(x), torch.full((1, 1), 3.0, dtype=dtype, requires_grad=True))
    check(lambda x: torch.linalg.matrix_exp(x - x.mH), x[3].detach() * 9, tolerance=tolerance)
