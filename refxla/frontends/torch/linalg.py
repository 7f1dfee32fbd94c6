"""torch.linalg in terms of HLO's operations and of the calls that LAPACK computes (ir/library_calls.py).

The gradients are PyTorch's formulas, composed of these operations and of products. As in LAPACK, decompositions take
matrices of f32, f64, c64 and c128, in the last two dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial
from typing import Any

from refxla_spec.custom_calls.backend_config import of_letters
from refxla_spec.types import S32, Shape

from .lowering import I, Lowering, NotLowered, lowers, overload_of, real_of, reducer
from .products import dot

_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def _letter(x: I) -> str:
    """LAPACK's letter for a matrix's type; raises NotLowered if it has none, and for a matrix without elements."""
    if x.shape.element_type.name not in _LETTERS:
        raise NotLowered(f"of matrices of {x.shape.element_type}")
    if not x.shape.size:
        raise NotLowered("of matrices without elements")
    return _LETTERS[x.shape.element_type.name]


def _call(b: Lowering, target: str, operands: Sequence[I], *shapes: Shape, **options: str) -> list[I]:
    """The results of a custom call, of these shapes; LAPACK's options are letters."""
    shape = shapes[0] if len(shapes) == 1 else Shape.tuple_of(*shapes)
    config = of_letters(**options) if options else None
    call = b.make("custom-call", *operands, shape=shape, custom_call_target=target, backend_config=config)
    if len(shapes) == 1:
        return [call]
    return [b.make("get-tuple-element", call, index=n) for n in range(len(shapes))]


def _adjoint(b: Lowering, x: I) -> I:
    return b.conjugate(b.transpose(x))


def _rows_and_columns(b: Lowering, dims: Sequence[int]) -> tuple[I, I]:
    """For each element of matrices, the number of its row, and of its column."""
    return b.iota(S32, tuple(dims), len(dims) - 2), b.iota(S32, tuple(dims), len(dims) - 1)


def _triangle(b: Lowering, x: I, *, lower: bool, unit: bool = False) -> I:
    """The lower or upper triangle; with `unit`, its diagonal is one."""
    row, column = _rows_and_columns(b, x.shape.dimensions)
    if unit:
        x = b.select(b.compare(row, column, direction="EQ"), 1, x)
    return b.select(b.compare(row, column, direction="GE" if lower else "LE"), x, 0)


def _identity(b: Lowering, like: Shape, n: int) -> I:
    """A matrix with ones on its diagonal for each of a batch."""
    row, column = _rows_and_columns(b, (*like.dimensions[:-2], n, n))
    return b.convert(b.compare(row, column, direction="EQ"), like.element_type)


def _broadcast_batches(b: Lowering, *matrices: I) -> list[I]:
    """Matrices whose batches are broadcast together."""
    rank = max(m.shape.rank for m in matrices)
    batch = [1] * (rank - 2)
    for m in matrices:
        for d, n in enumerate(m.shape.dimensions[:-2], rank - m.shape.rank):
            batch[d] = n if n != 1 else batch[d]
    return [b.expand(m, (*batch, *m.shape.dimensions[-2:])) for m in matrices]


# -- triangular systems


def _solved(b: Lowering, a: I, x: I, *, lower: bool, left: bool = True, unit: bool = False, adjoint: bool = False) -> I:
    """a^-1 x, or x a^-1, for a triangular matrix or its adjoint."""
    return b.make("triangular-solve", a, x, left_side=left, lower=lower, unit_diagonal=unit,
                  transpose_a="ADJOINT" if adjoint else "NO_TRANSPOSE")  # fmt: skip


@lowers("linalg_solve_triangular")
def solve_triangular(b: Lowering, a: I, x: I, *, upper: bool, left: bool = True, unitriangular: bool = False) -> I:
    _letter(a), _letter(x)
    return _solved(b, *_broadcast_batches(b, a, x), lower=not upper, left=left, unit=unitriangular)


@lowers("triangular_solve")
def old_triangular_solve(
    b: Lowering, x: I, a: I, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> list[I]:
    """(solution, a); the transpose of a complex matrix is not its adjoint."""
    _letter(a), _letter(x)
    a, x = _broadcast_batches(b, a, x)
    solved = b.make("triangular-solve", a, x, left_side=True, lower=not upper, unit_diagonal=unitriangular,
                    transpose_a="TRANSPOSE" if transpose else "NO_TRANSPOSE")  # fmt: skip
    return [solved, a]


# -- Cholesky's factors


def _factor(b: Lowering, a: I, upper: bool) -> tuple[I, I]:
    """(factor, the order of the first leading minor that is not positive, or 0)."""
    batch = Shape(S32, a.shape.dimensions[:-2])
    target = f"lapack_{_letter(a)}potrf_ffi"
    factor, info = _call(b, target, [a], a.shape, batch, uplo="U" if upper else "L")
    return _triangle(b, factor, lower=not upper), info


@lowers("linalg_cholesky_ex")
def cholesky_ex(b: Lowering, a: I, *, upper: bool = False, check_errors: bool = False) -> list[I]:
    factor, info = _factor(b, a, upper)
    if check_errors:
        _require(b, info, "linalg.cholesky_ex: the input is not positive-definite")
    return [factor, info]


@lowers("cholesky")
def cholesky(b: Lowering, a: I, upper: bool = False) -> I:
    factor, info = _factor(b, a, upper)
    _require(b, info, "linalg.cholesky: the input is not positive-definite")
    return factor


def _require(b: Lowering, info: I, message: str) -> None:
    b.check(b.compare(info, 0, direction="EQ"), message)


@lowers("higher_order::with_effects")
def with_effects(b: Lowering, token: I, operation: Any, *args: Any, **_: Any) -> list[I | None]:
    """An effect, ordered by a token: the checks by which torch.linalg raises according to LAPACK's `info`. The token,
    for which PyTorch passes None, is not read: all checks are evaluated when the program has run."""
    if operation is not overload_of("_linalg_check_errors"):
        raise NotLowered(f"{operation} has effects")
    info, name = args[0], args[1].removeprefix("torch.")
    why = "the input is not positive-definite" if "cholesky" in name else "the matrix is singular"
    _require(b, info, f"{name}: {why}")
    return [b.full(0, token.shape), None]


@lowers("cholesky_solve")
def cholesky_solve(b: Lowering, x: I, factor: I, upper: bool = False) -> I:
    """The solution of a system from the factor of its matrix."""
    _letter(factor), _letter(x)
    factor, x = _broadcast_batches(b, factor, x)
    x = _solved(b, factor, x, lower=not upper, adjoint=upper)
    return _solved(b, factor, x, lower=not upper, adjoint=not upper)


@lowers("cholesky_inverse")
def cholesky_inverse(b: Lowering, factor: I, upper: bool = False) -> I:
    return cholesky_solve(b, _identity(b, factor.shape, factor.shape.dimensions[-1]), factor, upper)


# -- LU: L U is a with its rows permuted


def _lu(b: Lowering, a: I) -> tuple[I, I, I]:
    """(L and U in one matrix, pivots from 1 on, permutation): row i of L U is row permutation[i] of a."""
    _letter(a)
    *batch, m, n = a.shape.dimensions
    packed, pivots, order = _call(
        b, "LuDecomposition", [a], a.shape, Shape(S32, (*batch, min(m, n))), Shape(S32, (*batch, m))
    )
    return packed, b.add(pivots, 1), order


def _diagonal(b: Lowering, packed: I) -> I:
    """The diagonals of matrices, as rows."""
    *batch, m, n = packed.shape.dimensions
    k = min(m, n)
    square = b.cut(b.cut(packed, len(batch), 0, k), len(batch) + 1, 0, k)
    row, column = _rows_and_columns(b, square.shape.dimensions)
    alone = b.select(b.compare(row, column, direction="EQ"), square, 0)
    return b.sum(alone, (len(batch) + 1,))


def _first_zero(b: Lowering, packed: I) -> I:
    """The number, from 1 on, of the first zero on U's diagonal, or 0: LAPACK's info."""
    diagonal = _diagonal(b, packed)
    dims = diagonal.shape.dimensions
    k = dims[-1]
    number = b.iota(S32, dims, len(dims) - 1)
    number = b.select(b.compare(diagonal, 0, direction="EQ"), number, k)
    first = b.reduce(number, k, (len(dims) - 1,), reducer("minimum", S32))
    return b.select(b.compare(first, k, direction="EQ"), 0, b.add(first, 1))


def _order(b: Lowering, pivots: I, n: int) -> I:
    """The permutation of n rows that swaps row k with row pivots[k], for each k in order."""
    *batch, count = pivots.shape.dimensions
    dims = (*batch, n)
    last = len(batch)

    def element(x: I, at: I) -> I:
        """One element of each row of x, broadcast over the row."""
        value = b.sum(b.select(at, x, 0), (last,))
        return b.spread(value, x.shape, tuple(range(last)))

    def exchange(k: I, order: I, pivots: I) -> Sequence[I]:
        places, own = b.iota(S32, dims, last), b.iota(S32, pivots.shape.dimensions, last)
        here = b.compare(own, b.spread(k, own.shape, ()), direction="EQ")
        pivot = b.subtract(b.sum(b.select(here, pivots, 0), (last,)), 1)
        mine = b.compare(places, b.spread(k, places.shape, ()), direction="EQ")
        other = b.compare(places, b.spread(pivot, places.shape, tuple(range(last))), direction="EQ")
        return [b.select(mine, element(order, other), b.select(other, element(order, mine), order))]

    (order,) = b.repeat(count, exchange, [b.iota(S32, dims, last)], [pivots])
    return order


def _permutation(b: Lowering, order: I, like: I) -> I:
    """The matrix P for which P x is the permuted rows of x."""
    dims = (*order.shape.dimensions, order.shape.dimensions[-1])
    wide = b.spread(order, Shape(S32, dims), tuple(range(len(dims) - 1)))
    return b.convert(b.compare(wide, b.iota(S32, dims, len(dims) - 1), direction="EQ"), like.shape.element_type)


def _in_order(b: Lowering, order: I, x: I, *, back: bool = False) -> I:
    """The rows of matrices in a permutation, or (`back`) in its inverse."""
    dims, last = x.shape.dimensions, x.shape.rank - 2
    if back:  # where each row went
        own = (*order.shape.dimensions, order.shape.dimensions[-1])
        wide = b.spread(order, Shape(S32, own), (*range(last), last))
        at = b.compare(wide, b.iota(S32, own, last + 1), direction="EQ")
        order = b.sum(b.select(at, b.iota(S32, own, last), 0), (last,))
    parts = [b.iota(S32, (*dims[: last + 1], 1), d) for d in range(last)]
    index = b.concatenate([*parts, b.reshape(order, (*order.shape.dimensions, 1))], last + 1)
    return b.make(
        "gather", x, index, offset_dims=(last + 1,), collapsed_slice_dims=tuple(range(last + 1)),
        start_index_map=tuple(range(last + 1)), index_vector_dim=last + 1,
        slice_sizes=(*(1,) * (last + 1), dims[-1]),
    )  # fmt: skip


def _by_factors(b: Lowering, packed: I, order: I, x: I, *, adjoint: bool = False) -> I:
    """a^-1 x, or a^-H x, from the factors of a."""
    if adjoint:
        x = _solved(b, packed, x, lower=False, adjoint=True)
        x = _solved(b, packed, x, lower=True, unit=True, adjoint=True)
        return _in_order(b, order, x, back=True)
    x = _solved(b, packed, _in_order(b, order, x), lower=True, unit=True)
    return _solved(b, packed, x, lower=False)


@lowers("linalg_lu_factor_ex")
def lu_factor_ex(b: Lowering, a: I, *, pivot: bool = True, check_errors: bool = False) -> list[I]:
    if not pivot:
        raise NotLowered("without pivots")
    packed, pivots, _ = _lu(b, a)
    info = _first_zero(b, packed)
    if check_errors:
        _require(b, info, "linalg.lu_factor_ex: the factor U has a zero on its diagonal")
    return [packed, pivots, info]


@lowers("linalg_lu")
def lu(b: Lowering, a: I, *, pivot: bool = True) -> list[I]:
    """(P, L, U) with a = P L U."""
    if not pivot:
        raise NotLowered("without pivots")
    packed, _, order = _lu(b, a)
    return _unpacked(b, packed, order)


def _unpacked(b: Lowering, packed: I, order: I) -> list[I]:
    last = packed.shape.rank - 1
    k = min(packed.shape.dimensions[-2:])
    lower = _triangle(b, b.cut(packed, last, 0, k), lower=True, unit=True)
    upper = _triangle(b, b.cut(packed, last - 1, 0, k), lower=False)
    return [b.transpose(_permutation(b, order, packed)), lower, upper]


@lowers("lu_unpack")
def lu_unpack(b: Lowering, packed: I, pivots: I, unpack_data: bool = True, unpack_pivots: bool = True) -> list[I]:
    if not (unpack_data and unpack_pivots):
        raise NotLowered("of the factors or of the pivots alone")
    _letter(packed)
    return _unpacked(b, packed, _order(b, pivots, packed.shape.dimensions[-2]))


@lowers("linalg_lu_solve")
def lu_solve(b: Lowering, packed: I, pivots: I, x: I, *, left: bool = True, adjoint: bool = False) -> I:
    """a^-1 x (x a^-1, if not left) from the factors of a, or of its adjoint."""
    _letter(packed), _letter(x)
    order = _order(b, pivots, packed.shape.dimensions[-2])
    if not left:  # (x a^-1)^H = a^-H x^H
        x, adjoint = _adjoint(b, x), not adjoint
    packed, x = _broadcast_batches(b, packed, x)
    order = b.expand(order, packed.shape.dimensions[:-1])
    x = _by_factors(b, packed, order, x, adjoint=adjoint)
    return x if left else _adjoint(b, x)


@lowers("_linalg_solve_ex")
def solve_ex(b: Lowering, a: I, x: I, *, left: bool = True, check_errors: bool = False) -> list[I]:
    """(a^-1 x, factors, pivots, info); a vector is a column, and so is the last dimension of a batch of vectors."""
    packed, pivots, order = _lu(b, a)
    _letter(x)
    info = _first_zero(b, packed)
    if check_errors:
        _require(b, info, "linalg.solve_ex: the matrix is singular")
    is_vector = x.shape.rank == 1 or x.shape.dimensions == a.shape.dimensions[:-1]
    right = b.reshape(x, (*x.shape.dimensions, 1)) if is_vector else x
    if not left:
        right = _adjoint(b, right)
    factors, right = _broadcast_batches(b, packed, right)
    order = b.expand(order, factors.shape.dimensions[:-1])
    solved = _by_factors(b, factors, order, right, adjoint=not left)
    solved = solved if left else _adjoint(b, solved)
    return [b.view(solved, b.result[0].dimensions), packed, pivots, info]


@lowers("linalg_inv_ex")
def inv_ex(b: Lowering, a: I, *, check_errors: bool = False) -> list[I]:
    packed, _, order = _lu(b, a)
    info = _first_zero(b, packed)
    if check_errors:
        _require(b, info, "linalg.inv_ex: the matrix is singular")
    return [_by_factors(b, packed, order, _identity(b, a.shape, a.shape.dimensions[-1])), info]


def _exchanges(b: Lowering, pivots: I) -> I:
    """-1 if rows were exchanged an odd number of times, otherwise 1."""
    last = pivots.shape.rank - 1
    own = b.add(b.iota(S32, pivots.shape.dimensions, last), 1)
    count = b.sum(b.convert(b.compare(pivots, own, direction="NE"), S32), (last,))
    return b.subtract(1, b.multiply(2, b.and_(count, b.full(1, count.shape))))


def _lu_for_determinant(b: Lowering, a: I) -> tuple[I, I]:
    """(factors, pivots) of the transpose of a real matrix that is row-major in memory: PyTorch factors the matrix that
    LAPACK reads column by column, and its gradients rely on it."""
    transposed = not a.shape.element_type.is_complex and b.fakes[0].is_contiguous()
    packed, pivots, _ = _lu(b, b.transpose(a) if transposed else a)
    return packed, pivots


@lowers("_linalg_det")
def det(b: Lowering, a: I) -> list[I]:
    """(determinant, factors, pivots)."""
    packed, pivots = _lu_for_determinant(b, a)
    kind = a.shape.element_type
    product = b.reduce(_diagonal(b, packed), 1, (a.shape.rank - 2,), reducer("multiply", kind))
    return [b.multiply(product, b.convert(_exchanges(b, pivots), kind)), packed, pivots]


@lowers("_linalg_slogdet")
def slogdet(b: Lowering, a: I) -> list[I]:
    """(sign, logarithm of the absolute value, factors, pivots); for a singular matrix the sign 0, and -infinity."""
    packed, pivots = _lu_for_determinant(b, a)
    kind, last = a.shape.element_type, a.shape.rank - 2
    diagonal = _diagonal(b, packed)
    size = b.abs(diagonal)
    signs = b.sign(diagonal)
    sign = b.multiply(b.reduce(signs, 1, (last,), reducer("multiply", kind)), b.convert(_exchanges(b, pivots), kind))
    return [sign, b.sum(b.log(size), (last,)), packed, pivots]


# -- QR, eigenvalues, singular values


def _reflected(b: Lowering, packed: I, tau: I, columns: int) -> I:
    """The first columns of the product of Householder's reflections."""
    last = packed.shape.rank - 1
    n = packed.shape.dimensions[-1]
    packed = b.cut(packed, last, 0, min(n, columns))
    if columns > n:
        packed = b.padded(packed, 0, *[(0, 0, 0)] * last, (0, columns - n, 0))
    return _call(b, "ProductOfElementaryHouseholderReflectors", [packed, tau], packed.shape)[0]


@lowers("linalg_qr")
def qr(b: Lowering, a: I, mode: str = "reduced") -> list[I]:
    """(Q, R); in mode "r", Q has no elements."""
    _letter(a)
    *batch, m, n = a.shape.dimensions
    packed, tau = _call(b, "Qr", [a], a.shape, Shape(a.shape.element_type, (*batch, min(m, n))))
    rows = m if mode == "complete" else min(m, n)
    r = _triangle(b, b.cut(packed, len(batch), 0, rows), lower=False)
    return [b.full(0, b.result[0]) if mode == "r" else _reflected(b, packed, tau, rows), r]


@lowers("geqrf")
def geqrf(b: Lowering, a: I) -> list[I]:
    """(R with Householder's vectors below it, their scales)."""
    _letter(a)
    *batch, m, n = a.shape.dimensions
    return _call(b, "Qr", [a], a.shape, Shape(a.shape.element_type, (*batch, min(m, n))))


@lowers("linalg_householder_product")
def householder_product(b: Lowering, packed: I, tau: I) -> I:
    _letter(packed), _letter(tau)
    return _reflected(b, packed, tau, packed.shape.dimensions[-1])


@lowers("_linalg_eigh")
def eigh(b: Lowering, a: I, UPLO: str = "L", compute_v: bool = True) -> list[I]:
    """(eigenvalues, eigenvectors), the latter without elements if they are not requested."""
    letter = _letter(a)
    kind, dims = a.shape.element_type, a.shape.dimensions
    routine = "heevd" if kind.is_complex else "syevd"
    shapes = (a.shape, Shape(real_of(kind), dims[:-1]), Shape(S32, dims[:-2]))
    mode = "V" if compute_v else "N"
    vectors, values, info = _call(b, f"lapack_{letter}{routine}_ffi", [a], *shapes, mode=mode, uplo=UPLO.upper())
    _require(b, info, "linalg.eigh: the algorithm failed to converge")
    return [values, vectors if compute_v else b.full(0, b.result[1])]


@lowers("_linalg_svd")
def svd(
    b: Lowering, a: I, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> list[I]:
    """(U, singular values, adjoint of V); PyTorch accepts a driver only on GPUs."""
    letter = _letter(a)
    kind, (*batch, m, n) = a.shape.element_type, a.shape.dimensions
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    shapes = (
        a.shape, Shape(real_of(kind), (*batch, k)), Shape(kind, (*batch, m, left)), Shape(kind, (*batch, right, n)),
        Shape(S32, tuple(batch)),
    )  # fmt: skip
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    _, values, u, v, info = _call(b, f"lapack_{letter}gesdd_ffi", [a], *shapes, mode=mode)
    _require(b, info, "linalg.svd: the algorithm failed to converge")
    return [u, values, v] if compute_uv else [b.full(0, b.result[0]), values, b.full(0, b.result[2])]


# -- exponentials

_SQUARINGS = 1100  # at most: with more, all results overflow


@lowers("linalg_matrix_exp", "matrix_exp")
def matrix_exp(b: Lowering, a: I) -> I:
    """e^a = (e^(a / 2^s))^(2^s), with s so that Taylor's series to the 15th power is exact to rounding: each matrix of
    a batch is squared as often as it needs."""
    _letter(a)
    kind = real_of(a.shape.element_type)
    real = Shape(kind, a.shape.dimensions[:-2])
    rows = a.shape.rank - 2
    sums = b.sum(b.abs(a), (rows,))
    norm = b.reduce(sums, 0, (rows,), reducer("maximum", kind))
    bound = 1.0 if kind.bits == 32 else -1.0  # the logarithm of the largest norm for which the series is exact
    count = b.maximum(b.subtract(b.ceil(b.log2(norm)), bound), 0)
    count = b.select(b.is_finite(norm), count, b.full(0, real))

    def spread(x: I) -> I:
        return b.spread(x, a.shape, tuple(range(rows)))

    scale = b.convert(spread(b.make("exp2", b.negate(count))), a.shape.element_type)
    count = b.convert(count, S32)
    value = _series(b, b.multiply(a, scale))

    def square(k: I, x: I, count: I) -> list[I]:
        more = b.compare(b.spread(k, count.shape, ()), count, direction="LT")
        return [b.select(b.spread(more, x.shape, tuple(range(rows))), dot(b, x, x, x.shape.element_type), x)]

    def goes_on(k: I, _: I, count: I) -> I:
        every = tuple(range(count.shape.rank))
        return b.compare(k, b.reduce(count, 0, every, reducer("maximum", S32)) if every else count, direction="LT")

    return b.repeat(_SQUARINGS, square, (value,), (count,), goes_on)[0]


def _series(b: Lowering, a: I) -> I:
    """The sum of a^k / k! for k up to 15, as a polynomial in a^4 whose coefficients are polynomials in a: six matrix
    products."""
    kind = a.shape.element_type
    powers = [_identity(b, a.shape, a.shape.dimensions[-1]), a]
    for _ in range(3):
        powers.append(dot(b, powers[-1], a, kind))
    value = None
    for start in (12, 8, 4, 0):
        part = b.multiply(powers[0], 1 / factorial(start))
        for k in range(1, 4):
            part = b.add(part, b.multiply(powers[k], 1 / factorial(start + k)))
        value = part if value is None else b.add(dot(b, value, powers[4], kind), part)
    assert value is not None
    return value
