"""np.linalg, in terms of HLO's operations and of the calls that refxla computes by LAPACK (ir/library_calls.py).

f32 and c64 are kept, everything else becomes f64 or c128, as in NumPy. If NumPy raises LinAlgError, so does the
compiled function, at the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy
from refxla_spec.custom_calls.backend_config import of_letters
from refxla_spec.errors import EvaluationError
from refxla_spec.types import BY_DTYPE, Shape

from .array import Traced
from .dispatch import implements
from .untyped import np
from .values import array_of, arrays, normal_axes, scalar_or_array, wrap

LinAlgError = np.linalg.LinAlgError


class EighResult(NamedTuple):
    """As numpy.linalg.eigh returns it."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """As numpy.linalg.qr returns it."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """As numpy.linalg.slogdet returns it."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """As numpy.linalg.svd returns it."""

    U: Any
    S: Any
    Vh: Any


def _matrices(a: Any, is_square: bool = False) -> Traced:
    """An array of matrices of a type that LAPACK has."""
    if a.ndim < 2:
        raise LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    if is_square and a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return a.astype(_kind(a.dtype))


def _identity(a: Traced, batch: Sequence[int], rows: int, columns: int) -> Traced:
    """A matrix with ones on its diagonal for each of a batch, of the type of `a`."""
    return np.broadcast_to(array_of(a.build, np.eye(rows, columns, dtype=a.dtype)), (*batch, rows, columns)).copy()


def _kind(*dtypes: numpy.dtype) -> numpy.dtype:
    """The type in which matrices of these types are computed together; integers are first converted to float64."""
    for dtype in dtypes:
        if dtype == np.float16 or dtype.name == "bfloat16":
            raise TypeError(f"array type {dtype.name} is unsupported in linalg")
    own = (t if t in (np.float32, np.complex64, np.complex128) else np.dtype(np.float64) for t in dtypes)
    return np.result_type(*own)


def _real(a: Any) -> numpy.dtype:
    return np.zeros((), a.dtype).real.dtype


def _call(
    a: Traced, target: str, shapes: list[tuple[tuple[int, ...], Any]], *others: Traced, options: str | None = None
) -> list[Traced]:
    """The results of a custom call, of these shapes and types."""
    b = a.build
    parts = [Shape(BY_DTYPE[numpy.dtype(t)], s) for s, t in shapes]
    shape = parts[0] if len(parts) == 1 else Shape.tuple_of(*parts)
    operands = (a.instruction, *(o.instruction for o in others))
    call = b.make("custom-call", *operands, shape=shape, custom_call_target=target, backend_config=options)
    if len(parts) == 1:
        return [wrap(b, call)]
    return [wrap(b, b.make("get-tuple-element", call, index=n)) for n in range(len(parts))]


def _lapack(a: Traced, routine: str, shapes: list[tuple[tuple[int, ...], Any]], **options: Any) -> list[Traced]:
    letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[a.dtype.name]
    return _call(a, f"lapack_{letter}{routine}_ffi", shapes, options=of_letters(**options))


def _lu(a: Traced) -> tuple[Traced, Traced, Traced]:
    """(packed L and U, pivots, permutation): the permuted rows of a are L U."""
    *batch, m, n = a.shape
    shapes = [(a.shape, a.dtype), ((*batch, min(m, n)), np.int32), ((*batch, m), np.int32)]
    packed, pivots, permutation = _call(a, "LuDecomposition", shapes)
    return packed, pivots, permutation


def _must_not_be_singular(packed: Traced) -> None:
    packed.build.check((np.diagonal(packed, 0, -2, -1) != 0).instruction, LinAlgError, "Singular matrix")


def _triangular(a: Traced, x: Traced, lower: bool, unit: bool = False, transpose: str = "NO_TRANSPOSE") -> Traced:
    b = a.build
    return wrap(b, b.make("triangular-solve", a.instruction, x.instruction, left_side=True, lower=lower,
                          unit_diagonal=unit, transpose_a=transpose))  # fmt: skip


def _broadcast_batches(a: Traced, c: Traced) -> tuple[Traced, Traced]:
    batch = np.broadcast_shapes(a.shape[:-2], c.shape[:-2])
    pair = [np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (a, c)]
    return pair[0], pair[1]


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Traced:
    a, right = arrays(a, b)
    kind = _kind(a.dtype, right.dtype)
    a, right = _matrices(a, True).astype(kind), right.astype(kind)
    is_vector = right.ndim == 1
    right = right[:, None] if is_vector else right
    if right.shape[-2] != a.shape[-1]:
        raise ValueError(f"solve: Input operand 1 has a mismatch in its core dimension 0 (size {right.shape[-2]} is "
                         f"different from {a.shape[-1]})")  # fmt: skip
    if not a.size or not right.size:
        empty = np.zeros_like(right, shape=(*np.broadcast_shapes(a.shape[:-2], right.shape[:-2]), *right.shape[-2:]))
        return empty[..., 0] if is_vector else empty
    packed, _, permutation = _lu(a)
    _must_not_be_singular(packed)
    packed_, right = _broadcast_batches(packed, right)
    order = np.broadcast_to(permutation, right.shape[:-1])
    a.build.ranges[order.instruction] = a.shape[-1]
    rows = np.take_along_axis(right, np.broadcast_to(order[..., None], right.shape), axis=-2)
    x = _triangular(packed_, _triangular(packed_, rows, lower=True, unit=True), lower=False)
    return x[..., 0] if is_vector else x


@implements(np.linalg.inv)
def inv(a: Any) -> Traced:
    a = _matrices(a, True)
    return solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))


def _determinant(a: Traced) -> tuple[Traced, Traced]:
    """(sign from the row exchanges, diagonal of U)."""
    packed, pivots, _ = _lu(a)
    n = a.shape[-1]
    exchanges = np.sum(pivots != np.arange(n, dtype=np.int32), axis=-1)
    return np.where(exchanges % 2 == 1, -1, 1).astype(_real(a)), np.diagonal(packed, 0, -2, -1)


@implements(np.linalg.det)
def det(a: Any) -> Traced:
    a = _matrices(a, True)
    if not a.size:
        return np.ones_like(a, shape=a.shape[:-2])
    sign, diagonal = _determinant(a)
    return np.prod(diagonal, axis=-1) * sign


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> SlogdetResult:
    a = _matrices(a, True)
    if not a.size:
        return SlogdetResult(np.ones_like(a, shape=a.shape[:-2]), np.zeros_like(a, shape=a.shape[:-2], dtype=_real(a)))
    sign, diagonal = _determinant(a)
    size = np.abs(diagonal)
    zero = np.any(size == 0, axis=-1)
    one = np.where(size == 0, 1, size).astype(_real(a))
    sign = np.prod(diagonal / one, axis=-1) * sign
    logarithm = np.sum(np.log(one), axis=-1)
    return SlogdetResult(
        scalar_or_array(np.where(zero, np.zeros((), a.dtype), sign)),
        scalar_or_array(np.where(zero, -np.inf, logarithm).astype(_real(a))),
    )


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Traced:
    a = _matrices(a, True)
    if not a.size:
        return a
    b = a.build
    factor = wrap(b, b.make("cholesky", a.instruction, lower=not upper))
    b.check((~np.isnan(np.diagonal(factor, 0, -2, -1))).instruction, LinAlgError, "Matrix is not positive definite")
    return np.triu(factor) if upper else np.tril(factor)


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    a = _matrices(a)
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    *batch, m, n = a.shape
    k = min(m, n)
    if not a.size and mode != "raw":
        rows = m if mode == "complete" else k
        r = np.zeros_like(a, shape=(*batch, rows, n))
        return r if mode == "r" else QRResult(_identity(a, batch, m, rows), r)
    packed, tau = _call(a, "Qr", [(a.shape, a.dtype), ((*batch, k), a.dtype)])
    if mode == "raw":
        return np.swapaxes(packed, -1, -2).copy(), tau
    r = np.triu(packed[..., : (m if mode == "complete" else k), :])
    if mode == "r":
        return r
    columns = m if mode == "complete" else k
    wide = packed[..., :, :columns]
    if columns > n:
        wide = np.pad(wide, [(0, 0)] * (a.ndim - 1) + [(0, columns - n)])
    (q,) = _call(wide.copy(), "ProductOfElementaryHouseholderReflectors", [((*batch, m, columns), a.dtype)], tau)
    return QRResult(q, r)


def _eigen(a: Any, UPLO: str, has_vectors: bool) -> tuple[Traced, Traced]:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    a = _matrices(a, True)
    if not a.size:
        return np.zeros_like(a, shape=a.shape[:-1], dtype=_real(a)), a
    routine = "heevd" if a.dtype.kind == "c" else "syevd"
    shapes = [(a.shape, a.dtype), (a.shape[:-1], _real(a)), (a.shape[:-2], np.int32)]
    vectors, values, info = _lapack(a, routine, shapes, mode="V" if has_vectors else "N", uplo=UPLO.upper())
    a.build.check((info == 0).instruction, LinAlgError, "Eigenvalues did not converge")
    return values, vectors


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> EighResult:
    return EighResult(*_eigen(a, UPLO, True))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Traced:
    return _eigen(a, UPLO, False)[0]


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    a = _matrices(a)
    *batch, m, n = a.shape
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    if not a.size:
        s = np.zeros_like(a, shape=(*batch, k), dtype=_real(a))
        return SVDResult(_identity(a, batch, m, left), s, _identity(a, batch, right, n)) if compute_uv else s
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    shapes = [(a.shape, a.dtype), ((*batch, k), _real(a)), ((*batch, m, left), a.dtype), ((*batch, right, n), a.dtype),
              (tuple(batch), np.int32)]  # fmt: skip
    _, s, u, vh, info = _lapack(a, "gesdd", shapes, mode=mode)
    a.build.check((info == 0).instruction, LinAlgError, "SVD did not converge")
    return SVDResult(u, s, vh) if compute_uv else s


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Traced:
    return svd(x, compute_uv=False)


@implements(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Traced:
    if a.ndim > 1 and 0 in a.shape[-2:]:  # of its own type
        return np.zeros_like(a, shape=(*a.shape[:-2], a.shape[-1], a.shape[-2]))
    a = _matrices(np.conjugate(a))
    if rcond is None:
        rcond = 1e-15 if rtol is np._NoValue else max(a.shape[-2:]) * np.finfo(a.dtype).eps if rtol is None else rtol
    u, s, vh = svd(a, full_matrices=False)
    cutoff = (
        np.asarray(rcond)[..., None] * np.max(s, axis=-1, keepdims=True)
        if not isinstance(rcond, Traced)
        else (rcond[..., None] * np.max(s, axis=-1, keepdims=True))
    )
    large = s > cutoff
    inverse = np.where(large, 1 / np.where(large, s, 1), 0).astype(s.dtype)
    return np.matmul(np.swapaxes(vh, -1, -2), inverse[..., None] * np.swapaxes(u, -1, -2))


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Traced:
    if A.ndim < 2:
        return np.any(A != 0).astype(np.int64)
    s = np.abs(eigvalsh(A)) if hermitian else svd(A, compute_uv=False)
    if tol is None:
        factor = max(A.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else rtol
        tol = np.max(s, axis=-1, keepdims=True, initial=0) * factor
    elif np.ndim(tol):
        tol = tol[..., None]
    return np.sum(s > tol, axis=-1)


@implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, ...]:
    a, right = arrays(a, b)
    kind = _kind(a.dtype, right.dtype)
    a, right = _matrices(a).astype(kind), right.astype(kind)
    is_vector = right.ndim == 1
    right = right[:, None] if is_vector else right
    m, n = a.shape
    if right.shape[0] != m:
        raise LinAlgError("Incompatible dimensions")
    limit = np.finfo(kind).eps * max(m, n) if rcond is None else np.finfo(kind).eps if rcond == -1 else rcond
    u, s, vh = svd(a, full_matrices=False)
    large = s > limit * s[0]
    inverse = np.where(large, 1 / np.where(large, s, 1), 0).astype(s.dtype)
    x = np.matmul(np.conjugate(vh.T), inverse[:, None] * np.matmul(np.conjugate(u.T), right))
    rank = np.sum(large)
    if m > n:
        a.build.check((rank == n).instruction, EvaluationError,
                      "np.linalg.lstsq: the matrix does not have full rank, and NumPy then gives an empty array of "
                      "residuals: np.linalg.pinv(a) @ b has a solution for all of them")  # fmt: skip
        error = right - np.matmul(a, x)
        residuals = np.sum(np.real(error * np.conjugate(error)), axis=0)
    else:
        residuals = np.zeros_like(a, shape=(0,), dtype=_real(a))
    return (x[:, 0] if is_vector else x), residuals, rank.astype(np.int32), s


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Traced:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    n = n.__index__()
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return _identity(a, a.shape[:-2], *a.shape[-2:])
    result, power = None, a
    while n:
        if n & 1:
            result = power if result is None else np.matmul(result, power)
        n >>= 1
        power = np.matmul(power, power) if n else power
    assert result is not None
    return result


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Traced:
    """The product of several matrices, in the order that takes the fewest multiplications."""
    arrays = list(arrays)
    letters = "abcdefghijklmnopqrstuvwxyz"
    terms = [letters[n : n + 2] for n in range(len(arrays))]
    terms[0] = terms[0][1:] if arrays[0].ndim == 1 else terms[0]
    terms[-1] = terms[-1][:1] if arrays[-1].ndim == 1 else terms[-1]
    result = (terms[0][0] if arrays[0].ndim == 2 else "") + (terms[-1][1] if arrays[-1].ndim == 2 else "")
    return np.einsum(f"{','.join(terms)}->{result}", *arrays)


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Traced:
    a, right = arrays(a, b)
    if axes is not None:
        order = [k for k in range(a.ndim) if k not in axes] + list(axes)
        a = np.transpose(a, order)
    shape = a.shape[right.ndim :]
    return solve(a.reshape(-1, prod(shape)), right.ravel()).reshape(shape)


@implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Traced:
    shape = a.shape[ind:] + a.shape[:ind]
    return inv(a.reshape(prod(a.shape[:ind]), -1)).reshape(shape)


# -- norms


def _vector_norm(x: Traced, ord: Any, axis: Any, keepdims: bool) -> Traced:
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    size = np.abs(x)
    if ord == np.inf:
        return np.max(size, axis=axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum((x != 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    if ord is None or ord == 2:
        return np.sqrt(np.sum(np.real(x * np.conjugate(x)), axis=axis, keepdims=keepdims))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    return np.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def _matrix_norm(x: Traced, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Traced:
    rows, columns = axes
    if rows == columns:
        raise ValueError("Duplicate axes given.")
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    if ord in (2, -2, "nuc"):
        s = svd(np.moveaxis(x, axes, (-2, -1)), compute_uv=False)
        largest = np.max if s.shape[-1] else np.sum  # 0, if there are none
        norms = {2: largest, -2: np.min, "nuc": np.sum}[ord](s, axis=-1)
        return np.expand_dims(norms, tuple(sorted(axes))) if keepdims else norms
    if ord in (None, "fro", "f"):
        return np.sqrt(np.sum(np.real(x * np.conjugate(x)), axis=axes, keepdims=keepdims))
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    inner, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    total = np.sum(np.abs(x), axis=inner, keepdims=True)
    start = {"initial": 0} if ord > 0 else {}
    norms = (np.max if ord > 0 else np.min)(total, axis=other, keepdims=True, **start)
    return norms if keepdims else np.squeeze(norms, axis=axes)


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Traced:
    if axis is None and ord is None:
        flat = _vector_norm(np.ravel(x), None, None, False)
        return flat.reshape((1,) * x.ndim) if keepdims else flat
    axes = normal_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Traced:
    return _vector_norm(
        x, ord, normal_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), x.ndim), keepdims
    )


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Traced:
    return _matrix_norm(x, ord, normal_axes((-2, -1), x.ndim), keepdims)


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Traced:
    if p in (None, 2, -2):
        s = svd(x, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
