"""Linear algebra for which refxla has no code, computed by SciPy's LAPACK: the functions behind calls of host
functions.

Each function takes the operands of JAX's primitive of the same name, as arrays [..., m, n], and returns the list of its
results. If LAPACK does not converge, a matrix' results are NaN, as on JAX's CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _by_matrix(
    compute: Callable[..., Any], results: Sequence[tuple[tuple[int, ...], np.dtype]], *operands: np.ndarray
) -> list[Any]:
    """Calls compute(matrix of each operand) for all matrices, with results in arrays of these shapes (without batch)
    and types; the last result of `compute` is LAPACK's info."""
    batch = operands[0].shape[:-2]
    arrays = [np.empty((*batch, *shape), dtype) for shape, dtype in results]
    for index in np.ndindex(*batch):
        *values, info = compute(*(o[index] for o in operands))
        for array, value in zip(arrays, values, strict=True):
            array[index] = value if info == 0 or array.dtype.kind == "i" else np.nan
    return arrays


def _routine(name: str, a: np.ndarray) -> Callable[..., Any]:
    """The LAPACK routine of a name for the type of an array."""
    from scipy.linalg import lapack  # imported here, since it takes 0.2 s and hardly any program needs it

    routine: Callable[..., Any] = getattr(lapack, {"f": "s", "d": "d", "F": "c", "D": "z"}[a.dtype.char] + name)
    return routine


def _complex(dtype: np.dtype) -> np.dtype:
    return np.result_type(dtype, np.complex64)


def eig(
    a: np.ndarray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **_: object
) -> list[np.ndarray]:
    """[values[..., n], left and right eigenvectors[..., n, n], as requested], all complex."""
    n, dtype = a.shape[-1], _complex(a.dtype)
    flags = (True, compute_left_eigenvectors, compute_right_eigenvectors)
    routine = _routine("geev", a)

    def compute(matrix: np.ndarray) -> list[Any]:
        if n == 0:
            return [v for v, w in zip(([], np.empty((0, 0)), np.empty((0, 0))), flags, strict=True) if w] + [0]
        finite = np.isfinite(matrix).all()
        if not finite:  # LAPACK might never end
            return [np.nan] * sum(flags) + [1]
        *w, left, right, info = routine(
            matrix, compute_vl=compute_left_eigenvectors, compute_vr=compute_right_eigenvectors
        )
        values = w[0] + 1j * w[1] if len(w) == 2 else w[0]
        if len(w) == 2:
            left, right = (_from_pairs(w[1], v, k) for v, k in ((left, flags[1]), (right, flags[2])))
        return [v for v, k in zip((values, left, right), flags, strict=True) if k] + [info]

    shapes = ((n,), (n, n), (n, n))
    return _by_matrix(compute, [(s, dtype) for s, k in zip(shapes, flags, strict=True) if k], a)


def _from_pairs(imaginary: np.ndarray, v: np.ndarray, wanted: bool) -> np.ndarray:
    """Complex vectors, from real ones that represent conjugate pairs as (real part, imaginary part)."""
    if not wanted:
        return v
    vectors = v.astype(_complex(v.dtype))
    for k in np.flatnonzero(imaginary > 0):
        vectors[:, k] = v[:, k] + 1j * v[:, k + 1]
        vectors[:, k + 1] = vectors[:, k].conj()
    return vectors


def hessenberg(a: np.ndarray) -> list[np.ndarray]:
    """[packed[..., n, n], taus[..., n - 1]]."""
    n = a.shape[-1]
    routine = _routine("gehrd", a)
    compute = (lambda m: routine(m)) if n > 1 else lambda m: (m, [], 0)
    return _by_matrix(compute, [((n, n), a.dtype), ((max(n - 1, 0),), a.dtype)], a)


def schur(a: np.ndarray, *, compute_schur_vectors: bool, sort_eig_vals: bool, **_: object) -> list[np.ndarray]:
    """[t[..., n, n], vectors[..., n, n] if requested]."""
    if sort_eig_vals:
        raise NotImplementedError("Schur forms with sorted eigenvalues")
    n = a.shape[-1]
    routine = _routine("gees", a)

    def compute(matrix: np.ndarray) -> list[Any]:
        if n == 0 or not np.isfinite(matrix).all():
            return [np.nan] * (1 + compute_schur_vectors) + [int(n > 0)]
        t, *_, vectors, _work, info = routine(lambda *_: None, matrix, compute_v=compute_schur_vectors)
        return [t, *([vectors] if compute_schur_vectors else []), info]

    return _by_matrix(compute, [((n, n), a.dtype)] * (1 + compute_schur_vectors), a)


def tridiagonal(a: np.ndarray, *, lower: bool) -> list[np.ndarray]:
    """[packed[..., n, n], diagonal[..., n], off-diagonal[..., n - 1], taus[..., n - 1]]."""
    n = a.shape[-1]
    real = np.empty(0, a.dtype).real.dtype
    routine = _routine("sytrd" if a.dtype.kind == "f" else "hetrd", a)
    return _by_matrix(
        lambda m: routine(m, lower=lower),
        [((n, n), a.dtype), ((n,), real), ((n - 1,), real), ((n - 1,), a.dtype)],
        a,
    )


def geqp3(a: np.ndarray, jpvt: np.ndarray, **_: object) -> list[np.ndarray]:
    """[packed[..., m, n], pivots[..., n] from 1 on, taus[..., min(m, n)]]: QR with column pivoting, with no columns
    fixed.

    Raises NotImplementedError for columns that are fixed at the front.
    """
    if jpvt.any():
        raise NotImplementedError("a QR decomposition in which some columns are to be first")
    m, n = a.shape[-2:]
    routine = _routine("geqp3", a)

    def compute(matrix: np.ndarray) -> list[Any]:
        if not matrix.size:
            return [matrix, np.arange(1, n + 1), [], 0]
        packed, pivots, taus, _work, info = routine(matrix)
        return [packed, pivots, taus, info]

    return _by_matrix(compute, [((m, n), a.dtype), ((n,), np.dtype(np.int32)), ((min(m, n),), a.dtype)], a)


@np.errstate(all="ignore")
def tridiagonal_solve_perturbed(
    below: np.ndarray, diagonal: np.ndarray, above: np.ndarray, b: np.ndarray, **_: object
) -> list[np.ndarray]:
    """[x[..., n, k]] of tridiagonal systems; the first element below the diagonal and the last one above it are
    ignored. A pivot that is tiny relative to the largest element of its U is raised to the size of rounding errors, so
    that x is finite: a step of inverse iteration, if the matrix is singular except for rounding."""
    n, dtype = b.shape[-2], b.dtype
    first, second, x = diagonal.copy(), above.copy(), b.copy()  # of each row of U, from its diagonal on; and of U x
    third = np.zeros_like(first)
    second[..., n - 1 :] = 0
    for i in range(n - 1):  # Gaussian elimination, with the larger of two rows first
        swapped = abs(below[..., i + 1]) > abs(first[..., i])
        rows = [(first[..., i], below[..., i + 1]), (second[..., i], first[..., i + 1]), (0, second[..., i + 1])]
        upper = [np.where(swapped, low, high) for high, low in rows]
        lower = [np.where(swapped, high, low) for high, low in rows]
        factor = np.divide(lower[0], upper[0], out=np.zeros_like(upper[0]), where=upper[0] != 0)
        first[..., i], second[..., i], third[..., i] = upper
        first[..., i + 1], second[..., i + 1] = (lower[k] - factor * upper[k] for k in (1, 2))
        high, low = x[..., i, :], x[..., i + 1, :]
        swapped, factor = swapped[..., None], factor[..., None]
        x[..., i, :], low = np.where(swapped, low, high), np.where(swapped, high, low)
        x[..., i + 1, :] = low - factor * x[..., i, :]
    largest = np.max(np.abs([first, second, third]), axis=(0, -1), initial=0)[..., None]
    least = np.maximum(np.finfo(dtype).eps * largest, np.finfo(dtype).tiny)
    first = np.where(abs(first) < least, np.where(first == 0, 1, np.sign(first)) * least, first).astype(dtype)
    for i in reversed(range(n)):
        for d, row in enumerate((second, third), 1):
            if i + d < n:
                x[..., i, :] -= row[..., i, None] * x[..., i + d, :]
        x[..., i, :] /= first[..., i, None]
    return [x]
