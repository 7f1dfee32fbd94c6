"""Eigenvalues, eigenvectors and Schur forms: defined by their properties, computed in f64 and rounded once.

What the properties leave open is open: the sign (the phase) of an eigenvector, the basis of a space of several, the
order of the eigenvalues of matrices that are not symmetric. f64 is computed in f64, and so as exact as a good program.
"""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedError
from ..module import Instruction
from ..numerics import component_type, round_to, type_of
from ..types import C64, C128, F64, Array
from .backend_config import letter


def _wide(a: Array) -> Array:
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)


def _hermitian(a: Array, lower: bool) -> tuple[Array, Array]:
    """(values, ascending; vectors, orthonormal columns) of the matrices one of whose triangles is read."""
    values, vectors = np.linalg.eigh(np.where(np.isfinite(a), a, 0), UPLO="L" if lower else "U")
    triangle = np.tri(a.shape[-1], dtype=bool)
    mask = triangle if lower else triangle.T
    bad = ~np.all(np.isfinite(np.where(mask, a, 0)), axis=(-1, -2))
    return np.where(bad[..., None], np.nan, values), np.where(bad[..., None, None], np.nan, vectors)


def eigh(instruction: Instruction, a: Array) -> tuple[Array, Array]:
    """Eigh: (vectors, values) of symmetric or Hermitian matrices: a v = v diag(values).

    The configuration "lower, sort, sweeps, tolerance" says which triangle is read; values are ascending in any case,
    and its other numbers are about a particular algorithm.
    """
    config = (instruction.backend_config or "1").strip('"').split(",")
    values, vectors = _hermitian(_wide(a), config[0].strip() != "0")
    element_type = type_of(a)
    return round_to(vectors, element_type), round_to(values, component_type(element_type))


def syevd(instruction: Instruction, a: Array) -> tuple[Array, Array, Array]:
    """LAPACK's syevd and heevd: (vectors, values, info). Without vectors (mode N) these are zeros here."""
    values, vectors = _hermitian(_wide(a), letter(instruction, "uplo", "L") == "L")
    element_type = type_of(a)
    if letter(instruction, "mode", "V") == "N":
        vectors = np.zeros_like(vectors)
    info = np.isnan(values).any(-1).astype(np.int32)
    return round_to(vectors, element_type), round_to(values, component_type(element_type)), info


def geev(instruction: Instruction, a: Array) -> tuple[Array, ...]:
    """LAPACK's geev: (values, left vectors, right vectors, info), for real matrices with the values in two parts.

    a r = r diag(values), and adjoint(l) a = diag(values) adjoint(l); columns have the norm 1, and the largest element
    of each is real. Vectors that are not asked for (N) are zeros here.
    """
    element_type = type_of(a)
    complex_type = {F64: C128}.get(element_type, C64) if element_type.is_float else element_type
    finite = np.isfinite(a).all((-1, -2))
    values, right = np.linalg.eig(np.where(finite[..., None, None], _wide(a), 0))
    values, right = values.astype(np.complex128), right.astype(np.complex128)
    values = np.where(finite[..., None], values, np.nan)
    left = np.zeros_like(right)
    if letter(instruction, "compute_left", "N") == "V":
        left = _of_norm_one(np.linalg.pinv(right).conj().swapaxes(-1, -2))
    if letter(instruction, "compute_right", "V") == "N":
        right = np.zeros_like(right)
    vectors = round_to(left, complex_type), round_to(right, complex_type)
    info = (~finite).astype(np.int32)
    if element_type.is_complex:
        return round_to(values, element_type), *vectors, info
    return round_to(values.real, element_type), round_to(values.imag, element_type), *vectors, info


def _of_norm_one(vectors: Array) -> Array:
    vectors = vectors / np.linalg.norm(vectors, axis=-2, keepdims=True)
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(-2)[..., None, :], -2)
    return vectors * largest.conj() / np.abs(largest)


def gees(instruction: Instruction, a: Array) -> tuple[Array, ...]:
    """LAPACK's gees: (t, q, values, 0, info) with a = q t adjoint(q), q orthogonal; real values are in two parts.

    t is upper triangular; of a real matrix, each pair of conjugate eigenvalues has a block of two rows on the diagonal,
    with equal diagonal elements and off-diagonal ones of opposite sign. Sorting by a function is not supported.
    """
    if letter(instruction, "sort", "N") != "N":
        raise UnsupportedError(f"{instruction.name}: a Schur form sorted by a function; leave it unsorted")
    element_type = type_of(a)
    wide = _wide(a)
    t, q = np.empty_like(wide), np.empty_like(wide)
    for index in np.ndindex(*a.shape[:-2]):
        t[index], q[index] = schur(wide[index])
    diagonal = np.einsum("...ii->...i", t)
    zero = np.zeros(a.shape[:-2], np.int32)
    info = (~np.isfinite(a).all((-1, -2))).astype(np.int32)
    rounded = round_to(t, element_type), round_to(q, element_type)
    if element_type.is_complex:
        return *rounded, round_to(diagonal, element_type), zero, info
    imaginary = np.zeros_like(diagonal)
    if a.shape[-1] > 1:
        below, above = (np.einsum("...ii->...i", m) for m in (t[..., 1:, :-1], t[..., :-1, 1:]))
        part = np.where(below != 0, np.sqrt(np.abs(below * above)), 0)
        imaginary[..., :-1] += part
        imaginary[..., 1:] -= part
    return *rounded, round_to(diagonal, element_type), round_to(imaginary, element_type), zero, info


def schur(a: Array) -> tuple[Array, Array]:
    """(t, q) of one matrix: a space that a maps into itself, of one eigenvector or of two conjugate ones, comes first,
    and what is left is done in the same way."""
    n = a.shape[0]
    t, q = a.copy(), np.eye(n, dtype=a.dtype)
    if not np.isfinite(a).all():
        return np.full_like(a, np.nan), np.full_like(a, np.nan)
    k = 0
    while k < n:
        values, vectors = np.linalg.eig(t[k:, k:])
        single = np.iscomplexobj(a) or not np.any(values.imag) or values[0].imag == 0
        v = vectors[:, :1] if single else np.stack([vectors[:, 0].real, vectors[:, 0].imag], axis=1)
        basis, _ = np.linalg.qr(v if np.iscomplexobj(a) else v.real, mode="complete")
        _turn(t, q, basis, k)
        if not single:
            _turn(t, q, np.pad(_equal_diagonal(t[k : k + 2, k : k + 2]), (0, n - k - 2)) + _rest(n - k), k)
        k += 1 if single else 2
        t[k:, :k] = np.where(np.abs(np.arange(k, n)[:, None] - np.arange(k)) > 0, 0, t[k:, :k])
    return t, q


def _rest(n: int) -> Array:
    """The identity with zeros in its first two places."""
    return np.diag(np.arange(n) >= 2).astype(np.float64)


def _turn(t: Array, q: Array, basis: Array, k: int) -> None:
    """t = adjoint(b) t b and q = q b, where b is the identity but for `basis` from row k on."""
    t[k:, :] = basis.conj().T @ t[k:, :]
    t[:, k:] = t[:, k:] @ basis
    q[:, k:] = q[:, k:] @ basis


def _equal_diagonal(block: Array) -> Array:
    """The rotation that makes the two diagonal elements of a 2 x 2 block equal."""
    (a, b), (c, d) = block
    angle = 0.5 * np.arctan2(a - d, -(b + c))
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
