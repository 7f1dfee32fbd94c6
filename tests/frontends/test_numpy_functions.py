"""Functions of NumPy, compiled: what each gives is what NumPy gives, with its types and shapes.

Each case is a function and its arguments. All run on the specification's interpreter; one in ten runs compiled, too,
since how HLO is compiled has tests of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refxla
from refxla.frontends.numpy.trees import leaves

RANDOM = np.random.default_rng(0)


def normal(*shape: int, t: Any = np.float32) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(t)


def integers(*shape: int, n: int = 5) -> np.ndarray:
    return RANDOM.integers(0, n, shape)


CASES: list[tuple[Callable, tuple]] = []


def case(function: Callable, *arguments: Any) -> None:
    CASES.append((function, arguments))


X, Y, V, W = normal(4, 5), normal(5, 4), normal(7), normal(7)
D = normal(6, 6, t=np.float64)
SPD = D @ D.T + 6 * np.eye(6)
Z = (normal(4, 5) + 1j * normal(4, 5)).astype(np.complex64)
N = X.copy()
N[0, 1] = np.nan
N[2] = np.nan
N[3, 4] = np.inf
J, U = integers(4, 5, n=9) - 4, integers(7, n=6)
B = X > 0
T3 = normal(2, 3, 4)


# setitem
def s1(x):
    a = np.zeros((3, 4))
    a[1] = x[0, :4]
    a[:, 2] += 1
    a[0, 0] = x[1, 1]
    return a


def s2(x):
    y = x * 1
    v = y[1:3, ::-2]
    v += 10
    y.T[0] = 5
    y.reshape(-1)[7] = -1
    return y, v


def s3(x, m):
    y = x.copy()
    y[m] = 0
    y[x > 1] *= 2
    y[y < -1] = -y[y < -1]
    return y


def s4(x, k):
    y = x.copy()
    y[k, [0, 1, 2, 3, 0, 1, 2]] = 9
    np.add.at(y, (k[:3], 1), 1.5)
    return y


def full_contractions(a, b):
    results = [np.tensordot(a, b), np.tensordot(a > 0, b > 0), np.tensordot(a[0], b[0], 1)]
    for result in results:  # arrays without dimensions, unlike the scalar of np.inner
        result[...] |= True
    return results, np.inner(a[0], b[0])


def s5(x):
    a = np.arange(12).reshape(3, 4)
    a[a % 2 == 0] = -1
    b = a[1]
    b[0] = 100
    return a + x[0, 0].astype(int)


def s6(x):
    out = np.empty_like(x)
    for r in range(len(x)):
        out[r] = x[r] / np.sum(x[r])
        out[r, 0] = r
    return out


def s7(x):
    s = x.sum()
    t = s
    s += 1
    return s, t


def s8(x):
    y = x.copy()
    np.fill_diagonal(y, 7)
    np.copyto(y[0], 3)
    np.put(y, [1, -1], [5, 6])
    np.put_along_axis(y, np.array([[0], [1], [2], [0]]), 8, axis=1)
    return y


def s9(x):
    y = x.copy()
    y[..., 1] = x[:, 0]
    y[1:, None, 2] = 4
    y[-1, -1] = 3
    y[[0, 2]] = y[[2, 0]]
    return y


def s10(z):
    w = z.copy()
    w.real = 1
    w.imag[0] = 2
    return w


def s11(x):
    a = np.array([x[0, 0], x[1, 1], 3])
    b = np.array([[x[0, 0], 1], [2, x[0, 1]]])
    a[1:] = 0
    return a, b


def s12(x):
    y = x.copy()
    y.sort(axis=0)
    z = x.copy()
    z.fill(3)
    return y, z


for function in (s1, s2, s6, s7, s8, s9, s11, s12):
    case(function, X)
case(s3, X, B)
case(s4, X, U % 4)
case(s5, X)
case(s10, Z)
case(lambda x, m: (x[m].sum(), x[m].mean(), x[m].max(), np.std(x[m]), x[m].any(), np.sum(x[m] ** 2)), X, B)
case(lambda x: (x[x > 0].sum(), (x[x > 0] * 2).min(), x[:, 0][x[:, 0] > 0].prod()), X)
# indexing
case(lambda x, k: (x[k], x[:, k], x[k, k], x[k[:, None], k], x[k, :, None], x[None, k]), X, U[:4] % 4)
case(
    lambda x, k: (x[:, k, 1], x[1, k, 1:], x[k, :, k], x[1, :, k], x[..., k, 0], x[k, None, 0]), T3, np.array([0, 1, 1])
)
case(lambda x, k: (x[k, [0, 1, 1]], x[[0, 1], k[:2]], x[-k]), X, np.array([0, 1, 1]))
case(lambda x: (x[np.argmax(x[0]) % 4], x[np.argsort(x[:, 0])], x[np.arange(3), np.arange(3)]), X)
case(
    lambda x: (
        np.take(x, [0, -1]),
        np.take(x, [[1, 9]], axis=1, mode="clip"),
        np.take(x, [7, -6], axis=0, mode="wrap"),
    ),
    X,
)
case(
    lambda x, k: (np.take(x, k, axis=1, mode="clip"), np.take(x, k, axis=0, mode="wrap"), np.take(x, k)),
    X,
    np.array([0, 3, 4]),
)
case(lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), X)
case(lambda x, k: np.take_along_axis(x, k, axis=None), X, U)
case(lambda x: (x[x.shape[0] // 2 :, ::2], x[::-1][0], x[3:1], x[5:], x[:, :0]), X)
case(lambda x: x[np.ix_([0, 2], [1, 3])], X)
case(lambda k: np.choose(k % 3, [k, k * 2, 7]), J)
case(lambda x: np.select([x > 1, x < 0], [x, -x], 0.5), X)
# einsum
for e, a in [
    ("ij,jk->ik", (X, Y)),
    ("ij->ji", (X,)),
    ("ij->", (X,)),
    ("ii", (D,)),
    ("ii->i", (D,)),
    ("ij,ij->i", (X, X)),
    ("i,j->ij", (V, W)),
    ("...ij,jk->...ik", (T3, normal(4, 2))),
    ("ij,jk,kl->il", (X, Y, X)),
    ("bij,bjk->bik", (T3, normal(2, 4, 3))),
    ("ijk,ijk->k", (T3, T3)),
    ("ij,k->ikj", (X, V)),
    ("i,i,i->", (V, W, V)),
    ("i,i->i", (V, W)),
    ("ab,cb,cd,de->ae", (X, X, X, Y)),
    ("ij,ji", (X, Y)),
    ("...i->...", (T3,)),
    ("ijj->i", (normal(2, 3, 3),)),
    ("ij,ij->ij", (J, J)),
]:
    case(lambda *a, e=e: np.einsum(e, *a), *a)
case(lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]), X, Y)
case(lambda x, y: np.einsum(x, [0, 1], y, [1, 2]), X, Y)
# linalg
A5 = normal(5, 5, t=np.float64)
case(
    lambda a, b: (
        np.linalg.solve(a, b),
        np.linalg.solve(a, b[:, 0]),
        np.linalg.inv(a),
        np.linalg.det(a),
        *np.linalg.slogdet(a),
    ),
    A5,
    normal(5, 2, t=np.float64),
)
case(
    lambda a: (
        np.linalg.cholesky(a),
        np.linalg.eigvalsh(a),
        np.linalg.svd(a, compute_uv=False),
        np.linalg.matrix_rank(a),
    ),
    SPD,
)
case(lambda a: np.linalg.cholesky(a, upper=True), SPD)
case(lambda a: (lambda w, v: (w, v * np.diag(w) @ v.T * 0 + (v * w) @ v.T))(*np.linalg.eigh(a)), SPD)
case(lambda a: (lambda q, r: (q @ r, np.abs(r)))(*np.linalg.qr(a)), X.astype(float))
case(lambda a: (lambda q, r: (q @ r, q.shape, r.shape))(*np.linalg.qr(a, "complete")), Y.astype(float))
case(lambda a: np.abs(np.linalg.qr(a, mode="r")), Y)
case(lambda a: (lambda u, s, v: ((u[:, :4] * s) @ v[:4], s, u.shape, v.shape))(*np.linalg.svd(a)), X.astype(float))
case(lambda a: (lambda u, s, v: ((u * s) @ v, s))(*np.linalg.svd(a, full_matrices=False)), Z)
case(lambda a, b: np.linalg.lstsq(a, b), Y.astype(float), normal(5, t=np.float64))
case(lambda a, b: np.linalg.lstsq(a, b, rcond=None), X.astype(float), normal(4, 2, t=np.float64))
case(
    lambda a: (np.linalg.pinv(a), np.linalg.matrix_power(a @ a.T, 3), np.linalg.matrix_power(a @ a.T + np.eye(4), -2)),
    X.astype(float),
)
for o in (None, "fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf):
    case(lambda a, o=o: (np.linalg.norm(a, o), np.linalg.norm(a, o, keepdims=True)), X.astype(float))
for o in (None, 0, 1, 2, 3, -1, np.inf, -np.inf, 0.5):
    case(lambda a, o=o: (np.linalg.norm(a, o), np.linalg.norm(a + np.zeros((2, 7)), o, axis=1)), V.astype(float))
case(lambda a: (np.linalg.inv(a), np.linalg.det(a), np.linalg.solve(a, a[..., :1])), normal(3, 2, 4, 4, t=np.float64))
case(
    lambda a: (
        np.linalg.multi_dot([a, a.T, a]),
        np.linalg.cond(a),
        np.linalg.tensorinv(a.reshape(4, 5)[:, :4].reshape(2, 2, 4)[:, :, :4].reshape(4, 2, 2), ind=1),
    ),
    X.astype(float),
)
case(lambda a: (np.linalg.inv(a), np.linalg.det(a)), integers(3, 3) + 5 * np.eye(3, dtype=int))
# fft
for n in (None, 4, 9):
    case(
        lambda x, n=n: (
            np.fft.fft(x, n),
            np.fft.ifft(x, n),
            np.fft.rfft(x, n),
            np.fft.irfft(x, n),
            np.fft.hfft(x, n),
            np.fft.ihfft(x, n),
        ),
        V,
    )
case(
    lambda x: (
        np.fft.fft2(x),
        np.fft.ifft2(x),
        np.fft.rfft2(x),
        np.fft.irfft2(x, s=(4, 6)),
        np.fft.fftn(x, axes=(0,)),
        np.fft.fftshift(x),
        np.fft.ifftshift(x, axes=1),
    ),
    X,
)
case(
    lambda x: (
        np.fft.fft(x, axis=0, norm="ortho"),
        np.fft.ifft(x, norm="forward"),
        np.fft.fft(x, norm="forward"),
        np.fft.irfft(x, norm="ortho"),
        np.fft.fftfreq(5, 0.1) * x.real,
    ),
    Z,
)
case(lambda x: (np.fft.fftn(x), np.fft.ifftn(x), np.fft.rfftn(x), np.fft.irfftn(x)), normal(2, 3, 2, 4, t=np.float64))
case(lambda x: np.fft.fft(x), J)
# stats
for ax in (None, 0, 1, (0, 1), -1):
    case(
        lambda x, ax=ax: (
            np.median(x, axis=ax),
            np.percentile(x, 30, axis=ax),
            np.percentile(x, [25, 50, 75], axis=ax, keepdims=True),
            np.quantile(x, 0.3, axis=ax),
            np.nanmedian(x, axis=ax),
        ),
        X,
    )
    case(
        lambda x, ax=ax: (
            np.nansum(x, axis=ax),
            np.nanprod(x, axis=ax),
            np.nanmean(x, axis=ax),
            np.nanmax(x, axis=ax),
            np.nanmin(x, axis=ax),
            np.nanvar(x, axis=ax),
            np.nanstd(x, axis=ax, ddof=1),
            np.nanmedian(x, axis=ax),
            np.nanpercentile(x, 40, axis=ax),
            np.median(x, axis=ax),
            np.percentile(x, 40, axis=ax),
        ),
        np.where(np.isinf(N), 1, N),
    )
for m in (
    "linear",
    "lower",
    "higher",
    "midpoint",
    "nearest",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "median_unbiased",
    "normal_unbiased",
):
    case(
        lambda x, m=m: (np.quantile(x, [0, 0.1, 0.25, 0.5, 0.77, 1], method=m), np.percentile(x, 33, method=m, axis=0)),
        X,
    )
    case(lambda x, m=m: np.quantile(x, [0, 0.1, 0.25, 0.5, 0.77, 1], method=m), V.astype(float))
case(lambda x: (np.percentile(x, 30), np.median(x), np.quantile(x, 0.5, axis=0), np.median(x, axis=1)), J)
for m in ("linear", "hazen", "weibull", "median_unbiased", "midpoint", "lower"):
    case(lambda x, m=m: (np.percentile(x, 30, method=m), np.nanquantile(x, 0.77, method=m)), D)
    case(lambda x, m=m: np.quantile(x, 0.3, axis=(0, 1), method=m), U.reshape(1, 7))
case(lambda x, q: np.quantile(x, q), D, 0.3)
case(lambda x, q: np.percentile(x, q), J, 30)
case(lambda x: np.average(x, weights=np.arange(3) + 1), np.array([2**62, 3, 2**61]))
case(lambda x: np.vdot(x, x), np.array([True, True, False]))
for infinite in ([1.0, np.inf, 3.0], [1.0, np.inf, np.inf], [-np.inf, 2.0, np.inf]):
    case(lambda x, y: np.interp(x, [0.0, 1, 2], y), np.array([1.5, 0.5, 1, 2, 0, -1, 9, np.nan]), np.array(infinite))
case(lambda x: np.interp(x, [0.0, 1, 2], [1 + 1j, 2, 3 - 1j], left=5j), np.array([1.5, 0.5, 1, 2, 0, -1, 9, np.nan]))
case(lambda z: (z**2, z**3, z**4, z**7, z**-1, z**-2, z**3.0, z**1), Z)
for n in (-1, 0, 1, 255, 256, -(2**40), 2**40):
    case(lambda x, n: (x < n, n <= x, x == n, x != n), np.array([0, 1, 255], np.uint8), n)
    case(lambda x, n: (x > n, x == n), np.array([0, 1, 2**63], np.uint64), n)
case(lambda x, q: np.percentile(x, q), X, np.array([10.0, 90.0]))
case(lambda x: (np.cov(x), np.corrcoef(x), np.cov(x, rowvar=False), np.cov(x, bias=True), np.cov(x[0], x[1])), X)
case(
    lambda x, w: (
        np.average(x, axis=1, weights=w),
        np.average(x),
        np.cov(x, aweights=np.abs(w)),
        np.cov(x, fweights=np.array([1, 2, 3, 1, 1])),
    ),
    X,
    np.abs(normal(5)),
)
case(
    lambda x: (
        np.histogram(x),
        np.histogram(x, 4, (-1, 1)),
        np.histogram(x, [-2, 0, 1, 3]),
        np.histogram(x, 5, density=True),
    ),
    X,
)
case(lambda x, w: np.histogram(x, 4, weights=w), V, W)
case(lambda x: np.histogram(x, 4), J)
case(lambda x, y: np.histogram2d(x, y, bins=3), V, W)
case(lambda k, w: (np.bincount(k, minlength=8), np.bincount(k, w, minlength=8)), U, W)
case(
    lambda a, v: (
        np.searchsorted(a, v),
        np.searchsorted(a, v, "right"),
        np.searchsorted(a, 0.1),
        np.digitize(v, a),
        np.digitize(v, a, right=True),
        np.digitize(v, a[::-1]),
    ),
    np.sort(V),
    np.concatenate([W, V]),
)
case(lambda v: (np.digitize(v, [-1, 0, 1]), np.digitize(v, [1, 0, -1], right=True)), V)
case(lambda a, b: (np.isin(a, b), np.isin(a, [1, 2], invert=True)), J, U)
case(
    lambda x: (
        np.cumsum(x),
        np.cumprod(x, axis=0),
        np.cumulative_sum(x, axis=1, include_initial=True),
        np.nancumsum(x, axis=1),
    ),
    X,
)
case(
    lambda x: (np.argmax(x, keepdims=True), np.nanargmax(x[:2]), np.count_nonzero(x > 0, axis=0), np.ptp(x, axis=1)), X
)
case(
    lambda x, m: (
        np.sum(x, where=m),
        np.mean(x, axis=0, where=m),
        np.max(x, initial=0, where=m, axis=1),
        np.var(x, where=m),
        np.prod(x, initial=2),
    ),
    X,
    B,
)
case(
    lambda x: (
        np.add.reduce(x),
        np.add.reduce(x, axis=None),
        np.maximum.reduce(x, axis=1),
        np.multiply.accumulate(x, axis=1),
        np.add.outer(x[0], x[1]),
        np.logaddexp.reduce(x, axis=0),
    ),
    X,
)
# sequences
case(
    lambda x: (
        np.diff(x),
        np.diff(x, 2, axis=0),
        np.diff(x, prepend=0),
        np.ediff1d(x),
        np.gradient(x),
        np.gradient(x[0], 2.0),
        np.gradient(x, axis=1, edge_order=2),
        np.gradient(x[0], np.array([0, 1, 3, 4, 7.0])),
    ),
    X,
)
case(lambda x, y: (np.trapezoid(x), np.trapezoid(x, y), np.trapezoid(x, dx=0.1)), V, np.sort(W))
case(lambda x, y: np.interp(np.linspace(-3, 3, 20), x, y), np.sort(V), W)
case(
    lambda x, y, z: (np.interp(z, x, y, left=-9, right=9), np.interp(z, x, y, period=2.0)), np.sort(V), W, normal(3, 3)
)
for m in ("full", "same", "valid"):
    case(
        lambda a, b, m=m: (np.convolve(a, b, m), np.convolve(b, a, m), np.correlate(a, b, m), np.correlate(b, a, m)),
        V,
        normal(4),
    )
    case(lambda a, b, m=m: (np.convolve(a, b, m), np.correlate(a, b, m), np.correlate(b, a, m)), U, np.array([1, 2, 3]))
    case(lambda a, b, m=m: (np.convolve(a, b, m), np.correlate(a, b, m)), Z[0], Z[1, :3])
case(
    lambda x: (
        np.polyval(x, 2.0),
        np.polyval([1, 2, 3], x),
        np.polyder(x),
        np.polyint(x),
        np.polyadd(x, x[:3]),
        np.polymul(x, x),
        np.vander(x, 3),
        np.polyfit(np.arange(7.0), x, 2),
    ),
    V.astype(float),
)
case(
    lambda x: (
        np.tril(x),
        np.triu(x, 1),
        np.tril(x, -1),
        np.diag(x),
        np.diag(x[0]),
        np.diag(x[0], 2),
        np.diag(x[0], -1),
        np.diagonal(x, 1),
        np.trace(x),
        np.diagflat(x),
    ),
    X,
)
case(lambda x, y: (np.meshgrid(x, y), np.meshgrid(x, y, indexing="ij"), np.meshgrid(x, y, sparse=True)), V, W)
case(
    lambda x: (
        np.roll(x, 2),
        np.roll(x, (1, -2), (0, 1)),
        np.tile(x, (2, 1, 2)),
        np.repeat(x, 2),
        np.repeat(x, 3, axis=1),
        np.repeat(x, [1, 0, 2, 1], axis=0),
        np.rot90(x),
        np.rot90(x, 3),
        np.rot90(x, 2),
        np.flipud(x),
    ),
    X,
)
case(
    lambda x: (
        np.kron(x[:2, :2], x[2:, :2]),
        np.cross(x[:, :3], x[:, 1:4]),
        np.cross(x[0, :3], x[1, :3]),
        np.outer(x[0], x[1]),
        np.inner(x, x),
        np.vdot(x, x),
    ),
    X,
)
for m in ("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "median", "linear_ramp"):
    case(lambda x, m=m: (np.pad(x, 2, m), np.pad(x, ((0, 1), (3, 2)), m)), X)
    case(lambda x, m=m: np.pad(x, 1, m), J)
case(lambda x: (np.pad(x, 1, constant_values=(1, 2)), np.pad(x, 2, constant_values=x[0, 0]), np.pad(x, {1: (1, 2)})), X)
case(
    lambda x: (np.sort(x), np.sort(x, axis=None), np.argsort(x, axis=0), np.partition(x, 2)[..., 2], np.sort(-x)[::-1]),
    N,
)
case(
    lambda z: (
        np.sort(z),
        np.argsort(z.ravel()),
        np.abs(z),
        np.angle(z),
        np.conj(z),
        z.real,
        np.exp(z),
        np.sum(z),
        np.prod(z),
        np.mean(z),
        np.var(z),
        np.std(z, axis=0),
    ),
    Z,
)
case(lambda a, b: np.lexsort((a, b)), integers(9, n=3), integers(9, n=3))
case(
    lambda x: (
        np.linspace(0, x[0, 0], 5),
        np.linspace(x[0], x[1], 4),
        np.linspace(x[0], x[1], 4, endpoint=False, axis=1),
        np.logspace(0, x[0, 0], 4),
        np.geomspace(1, 1 + np.abs(x[0, 0]), 4),
    ),
    X,
)
case(
    lambda x: (
        np.insert(x, 1, 5),
        np.insert(x, [1, 3], 7, axis=0),
        np.insert(x, 2, x[:, 0], axis=1),
        np.delete(x, 1, axis=0),
        np.delete(x, [0, 2], axis=1),
        np.append(x, x),
        np.append(x, x, axis=0),
    ),
    X,
)
case(
    lambda x: (
        np.nan_to_num(x),
        np.isinf(x),
        np.isfinite(x),
        np.isnan(x).any(),
        np.nan_to_num(x, nan=3, posinf=7),
        np.isposinf(x),
        np.sign(x),
        np.clip(x, None, 1),
    ),
    N,
)
case(
    lambda x: (
        np.unwrap(x * 4),
        np.sinc(x),
        np.heaviside(x, 0.5),
        np.copysign(x, -1),
        np.signbit(x),
        np.ldexp(x, 3),
        *np.frexp(x),
        *np.modf(x),
        np.deg2rad(x),
        np.nextafter(x, 9),
        np.logaddexp2(x, 1),
        np.fix(x),
        np.spacing(1.0),
    ),
    X,
)
case(
    lambda a, b: (
        np.gcd(a, b),
        np.lcm(a, b),
        *np.divmod(a, b + 7),
        a // (b + 7),
        a % -(b + 7),
        a // 0,
        a % 0,
        np.fmod(a, b - 9),
        a << 2,
        a >> 1,
        np.bitwise_count(a),
        np.invert(a),
    ),
    J,
    np.abs(J.T[:4, :4]).repeat(2, 1)[:, :5],
)
case(
    lambda x, y: (
        x // y,
        x % y,
        *np.divmod(x, y),
        np.fmod(x, y),
        np.hypot(x, y),
        np.hypot(x * 1e30, y * 1e30),
        np.float_power(x, 2),
        np.fmin(x, y),
        np.arctan2(x, y),
        x // 0.1,
    ),
    X,
    np.roll(X, 3),
)
case(lambda x: (x // 0, x % 0, np.hypot(x, 0), np.hypot(x, np.inf), np.reciprocal(x)), X)
case(
    lambda x: (
        np.split(x, 2),
        np.array_split(x, 3, axis=1),
        np.hsplit(x, [2]),
        np.vstack([x, x[0]]),
        np.hstack([x, x]),
        np.dstack([x, x]),
        np.column_stack([x, x[:, 0]]),
        np.block([[x, x], [x, x]]),
        np.stack([x, x], -1),
        np.unstack(x),
    ),
    X,
)
case(
    lambda x: (
        np.broadcast_to(x[0], (3, 5)),
        *np.broadcast_arrays(x, x[0]),
        np.atleast_1d(x[0, 0]),
        np.atleast_3d(x),
        np.squeeze(x[None]),
        np.expand_dims(x, (0, 2)),
        np.rollaxis(x, 1),
        np.moveaxis(x, 0, -1),
        np.resize(x, (3, 9)),
        x.reshape(5, 4, order="F"),
        np.ravel(x, "F"),
        x.flatten(),
    ),
    X,
)
case(
    lambda x, y: (np.isclose(x, y), np.allclose(x, x), np.array_equal(x, y), np.isreal(x), np.array_equiv(x, x[:1])),
    X,
    X + 1e-7,
)
case(
    lambda x: (
        np.unravel_index(np.argmax(x), x.shape),
        np.ravel_multi_index((np.argmax(x, axis=0), np.arange(5)), x.shape),
    ),
    X,
)
case(
    lambda x: (
        x.astype(int),
        x.astype(bool),
        (x > 0).astype(np.float32),
        x.view(np.int32),
        x.round(2),
        np.round(x * 100, -1),
        x.T.dot(x),
        x.clip(0, 1),
        x.ptp() if hasattr(x, "ptp") else 0,
    ),
    X,
)
case(
    lambda x: (
        x.sum(dtype=np.float64),
        x.mean(dtype=np.float64),
        x.max(),
        x.min(axis=1),
        x.nbytes,
        x.itemsize,
        x.ndim,
        x.std(ddof=1),
        x.var(axis=0, keepdims=True),
        x.trace(),
        x.cumsum(axis=1),
        x.argmin(),
        x.swapaxes(0, 1),
        x.diagonal(),
        x.take([1, 2]),
        x.repeat(2),
    ),
    X,
)
case(lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=1), X)
case(full_contractions, np.arange(6).reshape(2, 3), np.arange(4, 10).reshape(2, 3))
case(lambda a, b: (np.matmul(a, b), np.dot(a, b), a @ b, np.vecdot(a, b.T), np.tensordot(a, b, ([0], [1]))), X, Y)
case(
    lambda a: (
        a @ a.T,
        a.dot(2),
        np.matmul(a, a.T) > 0,
        np.cumsum(a, dtype=np.int32),
        a.mean(),
        a.sum(axis=0),
        a.std(),
        np.sqrt(a),
        a / 2,
        a**2,
        a.max(),
        np.maximum(a, 2),
    ),
    np.abs(J).astype(np.uint8),
)
case(
    lambda m: (
        m.sum(),
        m.mean(),
        ~m,
        m & m[::-1],
        m.any(axis=0),
        np.logical_xor(m, True),
        m * 2,
        m + m,
        m.cumsum(),
        np.argmax(m),
        np.where(m, 1, 2.5),
        m.max(),
        m.astype(int).sum(axis=1),
        np.diff(m),
        m ^ True,
        np.sum(m, axis=1),
    ),
    B,
)

E0, E1 = normal(0, 3), normal(2, 4, 0)
case(lambda a, b: (*np.linalg.svd(a), *np.linalg.svd(b, full_matrices=False), np.linalg.svdvals(b)), E0, E1)
case(lambda a, b: (*np.linalg.qr(a), *np.linalg.qr(b, "complete"), np.linalg.pinv(a), np.linalg.pinv(b)), E0, E1)
case(lambda x: (np.broadcast_to(x, (np.int64(3), np.int64(7))), np.broadcast_to(x[0], ()), np.broadcast_to(x, 7)), V)
case(
    lambda *xs: tuple(1 / np.sign(x).real for x in xs),
    np.array([-0.0, 0.0, -3, np.nan]),
    np.array([complex(-0.0, -0.0), complex(0.0, -0.0), -2 - 0j]),
)


def agrees(got: Any, wanted: Any) -> None:
    """Types, shapes and structures are equal, and values but for the rounding of some operations."""
    got, wanted = leaves(got), leaves(wanted)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        if not isinstance(b, (np.ndarray, np.generic)):
            assert a == b
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b)
            continue
        tolerance = 100 * np.finfo(b.dtype).eps
        finite = np.isfinite(b)
        scale = np.abs(b[finite]).max(initial=0) if b.ndim else (abs(b) if finite else 0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)


def check(n: int, device: str | None) -> None:
    function, arguments = CASES[n]
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    with np.errstate(all="ignore"):
        wanted = function(*copies)
        agrees(refxla.compile(function, device=device)(*arguments), wanted)


@pytest.mark.parametrize("n", range(len(CASES)))
@pytest.mark.filterwarnings("ignore")
def test_gives_what_numpy_gives(n):
    check(n, "reference")


@pytest.mark.parametrize("n", range(0, len(CASES), 10))
@pytest.mark.filterwarnings("ignore")
def test_compiled_gives_what_numpy_gives(n):
    check(n, None)


@pytest.mark.parametrize("exponent", [-1, 0.5, 1, 2, 2.0])
@pytest.mark.parametrize("name", ["f2", "f4", "f8"])
def test_powers_that_numpy_takes_apart(name, exponent):
    """Bit for bit, zeros and infinities, too, and without the power function."""
    x = np.array([0, -0.0, np.inf, -np.inf, 1.1, -3.3, 1e-4, 7e2], name)
    function = refxla.compile(lambda x: x**exponent)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.asarray(function(x)).view("u1"), (x**exponent).view("u1"))
    assert "power" not in str(function.hlo)
    assert "power" in str(refxla.compile(lambda x: x**1.5, x).hlo)


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.logical_and, np.bitwise_xor])
@pytest.mark.parametrize("places", [[0, 5, 10, 15], [0, 4, 1, 5, 2, 6], [3, 3, 19, 0], [0, 1, 2, 12], [7]])
def test_parts_between_places(ufunc, places):
    rng = np.random.default_rng(0)
    for dtype in (np.int32, bool) if ufunc is np.bitwise_xor else (np.float64, np.int32, bool):
        x = (rng.standard_normal((3, 20)) * 9).astype(dtype)
        for axis, array in ((0, x.T.copy()), (-1, x)):
            expected = ufunc.reduceat(array, places, axis=axis)
            actual = refxla.compile(lambda x, axis=axis: ufunc.reduceat(x, places, axis=axis), device="reference")(
                array
            )
            assert actual.dtype == expected.dtype
            np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-13)
    with pytest.raises(IndexError, match=r"index 20 out-of-bounds in .*reduceat \[0, 20\)"):
        refxla.compile(lambda x: ufunc.reduceat(x, [0, 20], axis=1))(x)


def test_many_parts_are_one_reduction():
    compiled = refxla.compile(lambda x: np.add.reduceat(x, np.arange(0, x.size, 8)))
    compiled(np.ones(512))
    assert str(compiled.hlo).count(" reduce(") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponents_of_powers_are_whole(dtype):
    """What floor and ceil are taken of, to count digits."""
    n = np.arange(-37, 38)
    tens, twos = np.array([float(f"1e{k}") for k in n], dtype), np.ldexp(dtype(1), n)
    digits, bits, powers = refxla.compile(lambda x, y, n: (np.log10(x), np.log2(y), np.exp2(n)))(
        tens, twos, n.astype(dtype)
    )
    assert (digits == n).all() and (bits == n).all() and (powers == twos).all()
    odd = np.array([0, -0.0, -1, np.inf, -np.inf, np.nan, np.finfo(dtype).tiny / 8, np.finfo(dtype).max, 0.75], dtype)
    with np.errstate(all="ignore"):
        for f in (np.log10, np.log2, np.exp2):
            np.testing.assert_allclose(refxla.compile(f)(odd), f(odd), rtol=4 * np.finfo(dtype).eps)


def test_integers_to_negative_powers_raise():
    x = np.array([1, -2, 3])
    for f in (lambda x: x**-1, lambda x: 2**x, lambda x: np.power(x, np.array([0, -1, 1])), lambda x: x.sum() ** -x):
        for function in (f, refxla.compile(f)):
            with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed"):
                function(x)
    for f in (lambda x: (2 ** x[x > 0]).sum(), lambda x: np.power(2, x, where=x > 0, out=np.zeros(3, int)), np.square):
        assert np.array_equal(refxla.compile(f)(x), f(x))
    assert "and" not in str(refxla.compile(lambda x: x**3, x).hlo)  # nothing is checked of a constant


def test_values_at_the_edges():
    z = np.array([0, -0.0, 1 + 1j])
    np.testing.assert_allclose(refxla.compile(lambda z: z ** (1 + 2j))(z), z ** (1 + 2j), rtol=1e-13)
    for n in (np.int32, np.int64):
        least = np.array([np.iinfo(n).min, 6, -9], n)
        assert (refxla.compile(np.gcd)(least[:, None], least) == np.gcd(least[:, None], least)).all()
    exponents = np.array([2**40, -(2**40), 3])
    assert (refxla.compile(np.ldexp)(1.5, exponents) == np.ldexp(1.5, exponents)).all()


def outcome(function: Callable, *arguments: Any) -> Any:
    """What a call gives, as one of NumPy's values, or the error that it raises."""
    try:
        with np.errstate(all="ignore"):
            return function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    except Exception as problem:
        return type(problem), str(problem).partition("\n")[0]


def does_as_numpy(function: Callable, *arguments: Any) -> None:
    """The value, its type and shape, or the error are NumPy's."""
    wanted = outcome(function, *arguments)
    got = outcome(refxla.compile(function, device="reference"), *arguments)
    if isinstance(wanted, tuple) and isinstance(wanted[0], type):
        assert got == wanted
    else:
        agrees(got, wanted)


def into_integers(function: Callable, **options: Any) -> Callable:
    """A function of an array whose result goes to an array of integers."""

    def apply(x: Any) -> Any:
        out = np.zeros(x.shape, int)
        function(x, out=out, **options)
        return out

    return apply


BYTES, INTEGERS, FLOATS = np.array([200, 250, 3], "u1"), np.arange(4, dtype="i4"), np.array([1.5, -2.0, 3.0])


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: np.multiply(x, x, dtype="u4"), BYTES),
        (lambda x: np.square(x, dtype="f8"), BYTES),
        (lambda x: np.abs(x, dtype="f4"), FLOATS),
        (lambda x: np.add(x, x, dtype="u1"), INTEGERS),
        (lambda x: np.add(x, x, signature="ff->f"), INTEGERS),
        (lambda x: np.add(x, x, sig=("f4", "f4", "f4"), casting="unsafe"), INTEGERS),
        (lambda x: np.add(x, x, dtype="f4", casting="safe"), INTEGERS),
        (lambda x: np.subtract(x, 1.5, dtype="i4", casting="unsafe"), INTEGERS),
        (lambda x: np.add(x, 1.5, casting="no"), INTEGERS),
        (lambda x: np.add(x, x, order="F", subok=False), INTEGERS),
        (lambda x: np.divmod(x, 3, dtype="f8"), INTEGERS),
        (lambda x: np.less(x, x, dtype="f4"), INTEGERS),
        (lambda x: np.isnan(x, dtype="f4"), FLOATS),
        (lambda x: np.ldexp(x, 1, dtype="f8"), FLOATS.astype("f4")),
        (lambda x: np.matmul(x, x, dtype="f8"), INTEGERS),
        (lambda x: np.clip(x, 0, 2, dtype="f4"), INTEGERS),
        (lambda x: np.multiply.outer(x, x, dtype="u4"), BYTES),
        (lambda x: np.add.reduce(x, dtype="f4"), INTEGERS),
        (lambda x: np.add.reduce(x, dtype=bool), INTEGERS),
        (lambda x: np.add.accumulate(x, dtype="f4"), INTEGERS),
        (lambda x: np.add.reduceat(x, [0, 2], dtype="f4"), INTEGERS),
        (lambda x: np.logical_and.reduce(x, dtype="f4"), FLOATS),
        (lambda x: np.logical_or.accumulate(x, dtype=bool), FLOATS),
        (lambda x: np.concatenate([x, x], dtype="i4"), FLOATS),
        (lambda x: np.stack([x, x], dtype="i4", casting="unsafe"), FLOATS),
        (lambda x: np.bitwise_or.reduce(x), FLOATS),
        (lambda x: np.bitwise_xor.accumulate(x), FLOATS),
        (lambda x: np.logaddexp.reduce(x), np.array([1, 2, 3], "u1")),
        (lambda x: np.logaddexp.reduce(x), np.array([1, 2, 3], "u4")),
        (lambda x: np.logaddexp.reduce(x), np.array([False, False])),
        (lambda x: np.logaddexp.reduce(x, initial=1.0, dtype="f8"), FLOATS.astype("f4")),
        (lambda x: np.logaddexp.reduce(x, where=x > 0), FLOATS),
        (lambda x: np.logaddexp2.reduce(x, keepdims=True), FLOATS),
        (into_integers(np.positive), FLOATS),
        (into_integers(np.positive, casting="unsafe"), FLOATS),
        (into_integers(np.sqrt), INTEGERS),
        (into_integers(lambda x, out: x.cumsum(out=out)), INTEGERS),
        (into_integers(lambda x, out: np.cumsum(np.arange(4), out=out)), INTEGERS),
        *((into_integers(f), INTEGERS) for f in (
            lambda x, out: out.__imul__(1.5), lambda x, out: out.__itruediv__(2), lambda x, out: out.__isub__(1.5),
            lambda x, out: out.__ipow__(1.5), lambda x, out: out.__imod__(1.5),
        )),
    ],
)  # fmt: skip
def test_ufuncs_take_the_types_they_are_told(function, x):
    does_as_numpy(function, x)


def test_what_a_ufunc_cannot_be_told_is_refused():
    with pytest.raises(refxla.UnsupportedError, match="np.matmul with axes has no compiled form"):
        refxla.compile(lambda x: np.matmul(x, x, axes=[(0,), (0,), ()]))(np.ones(3))


@pytest.mark.parametrize(
    ("function", "x"),
    [
        *((lambda x, n=n: np.r_[x, n], np.array([1, 2], t)) for t in ("f2", "f4", "u1") for n in (0, 0.5, np.int64(3))),
        (lambda x: np.c_[x, x], BYTES),
        (lambda x: np.r_[x, 0:3, [1]], BYTES),
        (lambda x: np.r_[x, 300], BYTES),
        *((lambda x, n=n: x**n, np.array([True, False])) for n in (2, 3, True)),
        (lambda x: x[0] ** 2, np.array([True, False])),
        (lambda x: np.correlate(x, x, "full"), np.array([True, False, True])),
        (lambda x: np.convolve(x, x), np.array([True, False, True])),
        (lambda x: np.unwrap(x), np.array([0, 3, 6.5, 9], "f2")),
        (lambda x: np.unwrap(x, period=6), np.array([0, 3, 7, 9], "i2")),
        (lambda x: np.unwrap(x), np.array([0, 3, 7, 9], "i2")),
        (lambda x: np.polymul(x, [0, 1, 2]), FLOATS),
        *((lambda x, n=n: np.round(x, n), np.array([True, False])) for n in (0, 1, -1)),
        (lambda x: np.gradient(x), np.array([True, False, True])),
        (lambda x: np.ediff1d(x), np.array([True, False, True])),
        (lambda x: np.ediff1d(x, to_end=[1]), BYTES),
        (lambda x: np.ediff1d(x, to_begin=[1.5]), FLOATS),
        *((lambda x, f=f: f(x), BYTES) for f in (
            lambda x: x == 256, lambda x: x != 256, lambda x: x > -1, lambda x: x < -1, lambda x: 300 >= x,
            lambda x: x <= 2**70, lambda x: np.where(x != -1, 1, 0), lambda x: np.less(x, 300),
            lambda x: x[0] == 256, lambda x: np.clip(x, 0, 300), lambda x: np.clip(x, -1, 20),
            lambda x: x.clip(-1, 300), lambda x: np.clip(x, 300, 400), lambda x: x + 300,
        )),
        (lambda x: x < 2**40, INTEGERS),
        (lambda x: np.take([5, 6, 7, 8], x), INTEGERS),
        (lambda x: np.take([[5, 6, 7, 8]], x, axis=1), INTEGERS),
        *((lambda x, other=other: (x == other, x != other, other == x), FLOATS) for other in (None, "x", b"x")),
        (lambda x: np.where(x[0] == None, 1, x), FLOATS),  # noqa: E711 - what is tested
        *((lambda x, f=f: f([x, x[:, :1]]), np.ones((2, 3))) for f in (np.concatenate, np.vstack, np.dstack)),
        (lambda x: np.concatenate([x, x[0]]), np.ones((2, 3))),
        (lambda x: np.hstack([x, x[:1]]), np.ones((2, 3))),
    ],
)  # fmt: skip
def test_values_types_and_errors_are_numpys(function, x):
    does_as_numpy(function, x)


def test_complex_numbers_have_an_order():
    """By real parts, then by imaginary ones; the first NaN is the extreme."""
    parts = np.random.default_rng(0).choice([-np.inf, np.inf, np.nan, 0.0, -0.0, 1.0], (2, 300, 3))
    x = np.empty(parts.shape[1:], complex)
    x.real, x.imag = parts
    for function in (np.argmax, np.argmin):
        for options in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
            does_as_numpy(lambda x, f=function, o=options: f(x, **o), x)


@pytest.mark.parametrize(
    "ufunc", [np.arctan, np.arcsin, np.arccos, np.arctanh, np.arcsinh, np.arccosh, np.sqrt, np.log]
)
def test_complex_inverse_functions_at_poles_cuts_and_infinity(ufunc):
    parts = (-np.inf, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, np.inf)
    x = np.array([complex(re, im) for re in parts for im in parts])
    with np.errstate(all="ignore"):
        wanted, got = ufunc(x), refxla.compile(ufunc)(x)
    for part in (np.real, np.imag):
        np.testing.assert_allclose(part(got), part(wanted), rtol=1e-12, atol=1e-12)


def test_scalars_are_told_from_arrays():
    def kinds(x):
        total = x.sum()
        answers = (
            np.isscalar(x[0]),
            isinstance(total, np.floating),
            isinstance(total, float),
            isinstance(total, np.ndarray),
        )
        return np.array([*answers, isinstance(x, np.ndarray), isinstance(x[:1], np.generic)])

    does_as_numpy(kinds, FLOATS)
    does_as_numpy(kinds, FLOATS.astype("f4"))


def test_a_product_of_polynomials_whose_size_depends_on_values_is_refused():
    product = refxla.compile(lambda x, y: np.polymul(x, y))
    agrees(product(FLOATS, FLOATS), np.polymul(FLOATS, FLOATS))
    with pytest.raises(refxla.InputError, match="np.polymul: a polynomial begins with a zero.*np.convolve keeps it"):
        product(FLOATS, np.array([0.0, 1.0]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, out: np.dot(np.outer(x, x), x, out), lambda x, out: np.cumsum(x, 0, None, out),
        lambda x, out: np.clip(x, 0, 1, out), lambda x, out: np.round(x, 1, out),
        lambda x, out: np.take(x, [0, 1, 0], 0, out), lambda x, out: np.std(np.outer(x, x), 0, None, out),
        lambda x, out: np.median(np.outer(x, x), 0, out), lambda x, out: np.concatenate([x[:1], x[1:]], 0, out),
        lambda x, out: np.outer(x, x).sum(0, None, out), lambda x, out: np.outer(x, x).dot(x, out),
        lambda x, out: x.clip(0, 1, out), lambda x, out: np.outer(x, x).std(0, None, out),
        lambda x, out: x.clip(0, 1, out=out), lambda x, out: np.arange(3.0).cumsum(0, None, out),
    ],
)  # fmt: skip
def test_results_go_where_the_place_of_out_says(function):
    def into_floats(x):
        out = np.zeros(3)
        function(x, out)
        return out

    does_as_numpy(into_floats, FLOATS)


TABLE, COMPLEX = np.arange(6.0).reshape(2, 3), np.array([3 + 4j, np.inf + 1j, complex(1, np.nan), 1 - 1j])
MASK, HALVES = np.array([True, False, True]), np.array([0.0, 3, 1], "f2")


def into(*shape: int, t: Any = float) -> Callable:
    """A function of a function that writes into an array; it gives that array."""
    return lambda f: lambda x: [out := np.full(shape, 5, t), f(x, out), out][-1]


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (into(3)(lambda x, out: np.logical_and(x, 1, out=out, where=MASK)), FLOATS),
        (into(3)(lambda x, out: np.less(x, 1, out=out, where=x > 0)), FLOATS),
        (into(3)(lambda x, out: np.multiply(x, x, out=out, where=MASK)), FLOATS.astype("f4") / 3),
        (into(2, 3)(lambda x, out: np.add(x, 1, out=out)), FLOATS),
        (lambda x: x.__imul__(np.ones((1, 3))), FLOATS),
        *((into(t="i1")(f), FLOATS) for f in (
            lambda x, out: np.sum(x, out=out), lambda x, out: x.max(out=out), lambda x, out: np.median(x, out=out),
            lambda x, out: np.any(x, out=out), lambda x, out: np.nansum(x, out=out), lambda x, out: x.mean(out=out),
            lambda x, out: np.multiply.reduce(x, out=out), lambda x, out: np.var(x, 0, None, out),
        )),
        *((into(3, t="i1")(f), FLOATS) for f in (
            lambda x, out: np.cumsum(x, out=out), lambda x, out: np.add.accumulate(x, out=out),
            lambda x, out: np.take(x, [0, 1, 0], out=out), lambda x, out: np.isposinf(x, out=out),
        )),
        (into()(lambda x, out: np.sum(x, out=out)), np.full(3, 0.1, "f4")),
        (into(t="f4")(lambda x, out: np.sum(x, out=out)), np.full(3, 60000, "f2")),
    ],
)  # fmt: skip
def test_what_goes_into_an_array(function, x):
    does_as_numpy(function, x)


def changed_later(function: Callable) -> Callable:
    """A function's result that goes into an array, and that array, which is written afterwards."""

    def apply(x: Any) -> Any:
        out = np.zeros(())
        result = function(x, out)
        out[...] = 7
        return result, out

    return apply


@pytest.mark.parametrize("x", [np.float64(3), np.array(3.0)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, out: np.take(x, 0, out=out), lambda x, out: x.sum(out=out), lambda x, out: np.amax(x, out=out),
        lambda x, out: np.around(x, out=out), lambda x, out: np.median(x, out=out),
    ],
)  # fmt: skip
def test_a_scalar_s_result_is_another_scalar_even_if_it_goes_into_an_array(function, x):
    does_as_numpy(changed_later(function), x)


def element_of(t: Any, value: Any) -> Callable:
    """A function that assigns to one element of an array of type t."""

    def apply(x: Any) -> Any:
        array = np.zeros(2, t)
        array[-1] = value(x)
        return array

    return apply


@pytest.mark.parametrize("t", [bool, float, int, complex])
@pytest.mark.parametrize("value", [lambda x: x[:1], lambda x: x[:1, None], lambda x: x[:0], lambda x: x])
def test_an_array_is_an_element_where_numpy_converts_it(t, value):
    does_as_numpy(element_of(t, value), FLOATS)


@pytest.mark.parametrize("x", [np.float32(2), np.True_, np.complex64(1), np.array(2.0)])
@pytest.mark.parametrize("function", [lambda x: x * [1.0, 2.0], lambda x: (1.0, 2.0) * x])
def test_scalars_that_are_not_integers_repeat_no_sequence(function, x):
    does_as_numpy(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.clip(x, 70000, np.array([1, 2, 3], "u4")), lambda x: np.clip(x, np.int64(-5), 2),
        lambda x: np.clip(x, 0, 70000), lambda x: np.clip(x, 0, 1.5), lambda x: np.clip(x, -1, np.float32(2)),
        lambda x: np.clip(x, 70000, np.array([1, 2, 3], "u4"), out=np.zeros(3, "i4")),
        lambda x: np.clip(x, 70000, 1), lambda x: np.clip(x, 2, None, where=MASK, out=np.zeros(3, "i4")),
        lambda x: np.clip(x, 2, 2, where=MASK, out=np.zeros(3, "i4")), lambda x: np.clip(x, 3, 1),
    ],
)  # fmt: skip
def test_bounds_have_a_common_type_with_what_they_bound(function):
    does_as_numpy(function, np.array([0, 2, 500], "u2"))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(x, axis=0), lambda x: np.any(x, axis=-1, keepdims=True), lambda x: np.add.reduce(x, axis=0),
        lambda x: np.cumsum(x, axis=0), lambda x: np.argmax(x, axis=-1), lambda x: np.argsort(x, axis=0),
        lambda x: np.take(x, [0, 0], axis=0), lambda x: np.repeat(x, 2, axis=0), lambda x: np.squeeze(x, axis=0),
        lambda x: np.nanmean(x, axis=0), lambda x: np.nanvar(x, axis=-1), lambda x: np.ptp(x, axis=0),
        lambda x: np.logaddexp.reduce(x, axis=0), lambda x: np.cumulative_sum(x, include_initial=True),
        lambda x: len(np.gradient(x)),
    ],
)  # fmt: skip
def test_an_array_without_dimensions_has_the_axes_that_numpy_takes(function):
    does_as_numpy(function, np.array(1.5))


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: np.nanmean(x, where=x > 0), INTEGERS),
        (lambda x: np.nanmean(x, where=MASK), np.array([1, np.nan, 3])),
        (lambda x: np.nanvar(x, axis=1, where=MASK, ddof=1), TABLE),
        (lambda x: np.nanstd(x, where=MASK), TABLE.astype(int)),
        (lambda x: np.nanstd(x, correction=1), TABLE),
        (lambda x: np.var(x, dtype="c8"), INTEGERS),
        (lambda x: np.std(x, dtype="c16", axis=0), TABLE * (1 + 2j)),
        (lambda x: np.var(x, dtype="f8"), COMPLEX[[0, 3]]),
        (lambda x: np.nanvar(x, dtype="f8"), COMPLEX[[0, 3]]),
        (lambda x: np.nanmedian(x, axis=1), np.ones((2, 0))),
        (lambda x: np.nanmedian(x), COMPLEX),
        (lambda x: np.nanmax(x, initial=-0.5), np.ones((0, 4), "f4")),
        (lambda x: np.nanargmax(x), COMPLEX[2:3]),
        (lambda x: np.nanquantile(x, [0.1, 0.5]), np.ones(0)),
        (lambda x: np.quantile(x, np.float32(0.3)), INTEGERS),
        (lambda x: np.average(x, weights=x), np.array([-1.0, 1.0])),
        (lambda x: np.histogram(np.arange(4), 2, weights=x, density=True), INTEGERS),
        *((lambda x, f=f: f(x, 1), COMPLEX) for f in (np.less, np.less_equal, np.greater, np.greater_equal)),
        (lambda x: np.greater_equal.outer(x, x), COMPLEX),
        (lambda x: np.sum(x, dtype="f4"), COMPLEX[[0, 3]]),
        (lambda x: np.angle(x), MASK),
        (lambda x: np.angle(x, deg=True), BYTES),
        (lambda x: np.sort_complex(x), MASK),
        (lambda x: np.sort_complex(x), FLOATS.astype("f4")),
        (lambda x: np.sort_complex(x), BYTES),
        (lambda x: np.choose(x, [-1, x]), np.array([0, 1], "u1")),
        (lambda x: np.choose(x, [300, x, 2]), np.array([0, 1], "u1")),
        (lambda x: np.select([x > 5], [x], default=-1), BYTES),
        (lambda x: (x[x > 0] ** 2).max(), MASK),
        (lambda x: np.take(x, []), FLOATS),
        (lambda x: np.nan_to_num(x, copy=False) + x, COMPLEX),
        (lambda x: np.diff(x, n=0, prepend=-1.5), BYTES),
        (lambda x: np.polysub(x, [1, 2, 3]), np.array([1, 2], "u1")),
        (lambda x: np.polysub(x, MASK), BYTES),
        (lambda x: np.vander(x, 0), BYTES),
        (lambda x: np.pad(x, (2, 3), "linear_ramp", end_values=(2, -5)), np.array([-3, 0, 4], "i2")),
        (lambda x: np.interp(x, [1.0], [4]), np.array([0, 1, np.nan, 2])),
        (lambda x: np.ravel_multi_index((x, x), (4, 5)), np.array([1, 2], "u8")),
        (lambda x: np.linalg.solve(np.eye(3, dtype="f4"), x), np.array([1, 2, 3], "i2")),
        (lambda x: np.linalg.solve(np.eye(3, dtype="i4"), x), np.array([1, 2j, 3], "c8")),
        (lambda x: np.linalg.pinv(x), np.ones((0, 2), "i1")),
        (lambda x: np.linalg.matrix_norm(x, ord=1), np.ones((2, 0))),
        (lambda x: np.linalg.matrix_rank(x), np.ones((0, 2))),
        (lambda x: np.linalg.norm(x, np.inf, axis=1), np.ones((3, 0))),
        (lambda x: np.quantile(x, 0), MASK),
        (lambda x: np.ascontiguousarray(x), np.array(3)),
        (lambda x: x.conj(), MASK),
        (lambda x: np.ix_(np.array([True, False, True]), x), INTEGERS),
        (lambda x: np.histogram(x, 2, range=(0, 4), weights=np.arange(4) > 0), INTEGERS),
        (lambda x: np.fill_diagonal(x, 256) or x, np.ones((2, 2), "u1")),
        (lambda x: np.fill_diagonal(x, 25) or x, np.ones((2, 2), "u1")),
        *((lambda x, f=f, n=n: f(x, norm=n), HALVES) for n in (None, "ortho", "forward") for f in (
            np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft, np.fft.hfft, np.fft.ihfft,
        )),
        *((lambda x, f=f: f(x), np.outer(HALVES, HALVES)) for f in (np.fft.fft2, np.fft.ifftn, np.fft.irfftn)),
        (lambda x: np.copyto(np.ones(3, "u4"), 1.0) or x, FLOATS),
        (lambda x: np.putmask(x, [True], 1), FLOATS),
        (lambda x: np.putmask(x, x > 0, []) or x, FLOATS),
        *((lambda x, k=k: np.roll(x, *k), TABLE) for k in (
            ((1, 2), 1), (1, (0, 0)), ((1, 2), (0, 0)), ((1, 2, 1), (0, -1, 0)), ((1, 2), None), ([[1, 2]], (0, 1)),
            ((1, 2, 3), (0, 1)), (1, ()), (1, 5),
        )),
        *((lambda x, k=k: np.partition(x, k), FLOATS) for k in (3, 1.0, True, (0, 5))),
        (lambda x: np.argpartition(x, 3), FLOATS),
        (lambda x: x.copy().partition(3), FLOATS),
        (lambda x: np.partition(x, 9, axis=0), np.ones((2, 0))),
        (lambda x: np.digitize(x, [0.0]), COMPLEX),
        (lambda x: np.digitize([0.0], x), COMPLEX),
        (lambda x: np.interp(x, [0.0, 1.0], [1.0, 2.0]), COMPLEX),
        (lambda x: np.interp([0.5], x, [1.0, 2.0, 3.0, 4.0]), COMPLEX),
        (lambda x: np.bincount([0, 1, 0, 2], x, minlength=4), COMPLEX),
        (lambda x: np.bincount([0, 1], x, minlength=4), FLOATS),
        (lambda x: np.bincount(np.zeros(0, int), x, minlength=4), np.ones(0, "c8")),
        *((lambda x, f=f, t=t: f(x, dtype=t), x) for f in (np.nanmean, np.nanvar, np.nanstd) for t, x in (
            ("i4", FLOATS), ("?", COMPLEX), ("f4", FLOATS),
        )),
        (lambda x: np.nanmean(x, dtype="i4"), INTEGERS),
        (lambda x: np.geomspace(x, 5, 3), FLOATS),
        (lambda x: np.geomspace(x, 5, 3), np.array([1.0, 0.0])),
        (lambda x: np.geomspace(5, x, 1), np.array(0)),
        (lambda x: np.linalg.matrix_norm(x), FLOATS),
        (lambda x: np.linalg.pinv(x), np.ones((0, 1, 2), "i4")),
        (lambda x: np.einsum("i,i->", x, x, dtype="f4", casting="unsafe"), FLOATS),
        (lambda x: np.cov(x), np.ones((2, 2, 2))),
        (lambda x: np.cov(x, np.ones((1, 3))), np.ones((0, 3), "c8")),
        (lambda x: np.corrcoef(x), np.ones((0, 3), "c8")),
        (lambda x: np.quantile(x, [], axis=0), np.ones((0, 2), int)),
        (lambda x: np.quantile(x, 0.5, axis=0), np.ones((2, 0))),
        *((lambda x, f=f, o=o: f(x, **o), TABLE) for f in (
            np.fft.fftn, np.fft.ifftn, np.fft.rfftn, np.fft.irfftn,
        ) for o in ({"axes": (0, 0), "s": (2, 3)}, {"axes": (1, 0, 1), "s": (5, 2, 3)}, {"axes": (0, 1, 0)})),
        *((lambda x, k=k: np.unravel_index(x, (4, 5), order=k), x) for k in "CF" for x in (
            np.array([0, 19]), FLOATS,
        )),
        (lambda x: np.digitize(np.arange(3), np.array([-128, 1, 127], "i1") * x), np.array(1, "i1")),
        (lambda x: np.digitize(x, np.array([-128, 1, 127], "i1")), FLOATS),
        (lambda x: np.geomspace(1, x, 4, endpoint=False), np.array(-5)),
        *((lambda x, m=m: np.ravel_multi_index((x, [1, 2]), (4, 5), mode=m), x) for m in ("raise", "wrap", "clip")
          for x in (np.array([0, 3]), np.array([-1, 3]), np.array([4, 0]))),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_options_and_types_are_numpys(function, x):
    does_as_numpy(function, x)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: np.partition(x, -4), FLOATS),
        (lambda x: np.einsum("i,i->", x, x, dtype="f4"), COMPLEX),
        (lambda x: np.einsum("i,i->", x, x, dtype="f4"), FLOATS),
        *((lambda x, q=q, m=m: np.quantile(x, q, axis=0, method=m), np.ones(shape, "f4")) for q in (0.5, [0.5], [])
          for m in ("linear", "lower") for shape in ((0,), (0, 2))),
        *((lambda x, k=k: np.unravel_index(x, (4, 5), order=k), x) for k in "CF"
          for x in (np.array([20]), np.array(-1))),
    ],
)  # fmt: skip
def test_errors_are_of_numpys_class(function, x):
    assert outcome(refxla.compile(function, device="reference"), x)[0] is outcome(function, x)[0]


def test_a_sum_goes_into_an_array_of_its_shape():
    with pytest.raises(ValueError, match=r"shape \(2,3\) doesn't match the broadcast shape \(3,\)"):
        refxla.compile(into(2, 3)(lambda x, out: np.sum(x, axis=0, out=out)))(TABLE)


def test_numbers_that_are_given_at_each_call_end_differences():
    does_as_numpy(lambda x, n: np.ediff1d(x, to_begin=n, to_end=[n, 1]), FLOATS, 2.0)


def test_half_precision_has_no_linear_algebra():
    does_as_numpy(lambda x: np.linalg.solve(x, np.ones(2)), np.eye(2, dtype="f2"))


def test_a_scalar_repeats_a_list():
    does_as_numpy(lambda x: x + sum(np.arange(4)[2] * [1, 2]), INTEGERS)
    with pytest.raises(refxla.UnsupportedError, match="asks for the value of an array"):
        refxla.compile(lambda x: x[1] * [1, 2])(INTEGERS)


def test_masks_that_are_not_known_choose_no_grid():
    with pytest.raises(refxla.UnsupportedError, match="np.ix_ of masks that are not known"):
        refxla.compile(lambda x: np.ix_(x > 0, [0, 1]))(FLOATS)


def test_integers_have_no_variance_of_their_type():
    with pytest.raises(refxla.UnsupportedError, match="np.var and np.std with dtype='int32' have no compiled form"):
        refxla.compile(lambda x: np.std(x, dtype="i4"))(FLOATS)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [np.sum(x), np.sum(x * 2)], lambda x: [np.argmax(x), np.argmax(x * 2)],
        lambda x: [np.sort(x), np.sort(-x)], lambda x: [np.max(x), np.max(-x)],
    ],
)  # fmt: skip
def test_instructions_of_one_kind_call_the_same_computation(function):
    entry = refxla.compile(function, FLOATS, device="reference").hlo.entry
    called = [c for i in entry.instructions for c in i.called]
    assert len(called) == 2 and len(set(called)) == 1
