"""Linear algebra, the standard's extension `linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...._core.array import Array
from ..untyped import np
from .eager import run
from .functions import Axes, matmul, matrix_transpose, tensordot, vecdot

if TYPE_CHECKING:
    from ...._core.array import Operand
    from ....typing import DTypeLike

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


class Eigh(NamedTuple):
    """The fields of the result of eigh, for type checkers: NumPy creates the tuple."""

    eigenvalues: Array
    eigenvectors: Array


class Qr(NamedTuple):
    """The fields of the result of qr."""

    Q: Array
    R: Array


class Slogdet(NamedTuple):
    """The fields of the result of slogdet."""

    sign: Array
    logabsdet: Array


class Svd(NamedTuple):
    """The fields of the result of svd."""

    U: Array
    S: Array
    Vh: Array


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The Cholesky factors of matrices. Raises LinAlgError for one that is not positive definite."""
    return run(np.linalg.cholesky, x, upper=upper)


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross products of vectors of three elements along an axis."""
    return run(np.linalg.cross, x1, x2, axis=axis)


def det(x: Array, /) -> Array:
    """The determinants of matrices."""
    return run(np.linalg.det, x)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices, or those `offset` above them."""
    return run(np.linalg.diagonal, x, offset=offset)


def eigh(x: Array, /) -> Eigh:
    """The eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return run(np.linalg.eigh, x)


def eigvalsh(x: Array, /) -> Array:
    """The eigenvalues of symmetric or Hermitian matrices."""
    return run(np.linalg.eigvalsh, x)


def inv(x: Array, /) -> Array:
    """The inverses of matrices. Raises LinAlgError for a singular one."""
    return run(np.linalg.inv, x)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: float | str = "fro") -> Array:
    """A norm of matrices, as in numpy.linalg.matrix_norm."""
    return run(np.linalg.matrix_norm, x, keepdims=keepdims, ord=ord)


def matrix_power(x: Array, n: int, /) -> Array:
    """Square matrices to an integer power."""
    return run(np.linalg.matrix_power, x, n=n)


def matrix_rank(x: Array, /, *, rtol: Operand | None = None) -> Array:
    """The ranks of matrices: how many singular values are above `rtol` times the largest one."""
    return run(np.linalg.matrix_rank, x) if rtol is None else run(_matrix_rank, x, rtol)


def _matrix_rank(x: Any, rtol: Any) -> Any:
    return np.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Array, x2: Array, /) -> Array:
    """The outer product of two vectors."""
    return run(np.linalg.outer, x1, x2)


def pinv(x: Array, /, *, rtol: Operand | None = None) -> Array:
    """The pseudo-inverses of matrices, without singular values up to `rtol` times the largest one."""
    return run(np.linalg.pinv, x) if rtol is None else run(_pinv, x, rtol)


def _pinv(x: Any, rtol: Any) -> Any:
    return np.linalg.pinv(x, rtol=rtol)


def qr(x: Array, /, *, mode: str = "reduced") -> Qr:
    """The factors Q and R of matrices."""
    return run(np.linalg.qr, x, mode=mode)


def slogdet(x: Array, /) -> Slogdet:
    """The signs of determinants, and the logarithms of their absolute values."""
    return run(np.linalg.slogdet, x)


def solve(x1: Array, x2: Array, /) -> Array:
    """The solution of `x1` x = `x2` for a vector, or matrices. Raises LinAlgError for a singular `x1`."""
    return run(np.linalg.solve, x1, x2)


def svd(x: Array, /, *, full_matrices: bool = True) -> Svd:
    """The singular value decompositions of matrices."""
    return run(np.linalg.svd, x, full_matrices=full_matrices)


def svdvals(x: Array, /) -> Array:
    """The singular values of matrices, the largest first."""
    return run(np.linalg.svdvals, x)


def trace(x: Array, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of matrices."""
    return run(np.linalg.trace, x, offset=offset, dtype=dtype)


def vector_norm(x: Array, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Array:
    """A norm of vectors, as in numpy.linalg.vector_norm."""
    return run(np.linalg.vector_norm, x, axis=axis, keepdims=keepdims, ord=ord)
