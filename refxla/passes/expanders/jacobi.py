"""Eigenvalues of symmetric matrices and singular values by Jacobi rotations: loops over rounds of disjoint pairs.

The n rows (n even; for odd n a row of zeros is added) are split into an upper and a lower half, and each round applies
n/2 rotations to pairs of one row from each half. Then all rows but the first move on by one place around the circle of
both halves. After n - 1 rounds, one sweep, every row has met every other row and is back in its place. Sweeps repeat
until the elements off the diagonal are negligible compared with the largest element on it. That takes a few sweeps,
since the number of correct digits doubles with each, and many more where eigenvalues lie close together. All devices
compute the same bits, so they stop after the same sweep.

A rotation is written as what it adds to a row (Rutishauser, Handbook Series Linear Algebra: The Jacobi method for real
symmetric matrices, 1966): a small angle adds little and loses little. The rounding errors of thousands of rounds are
removed before the last sweeps, which start again from the given matrix in the basis that was found, orthogonalized.
Their angles are so small that their own rounding does not show, and they accumulate a basis of their own.
"""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Computation, Instruction, SliceDimension
from refxla_spec.types import S32, Shape

from ..._core.shapes import make
from ...ir.builder import Build, bigger
from . import householder
from .matrix_masks import compare_indices, diagonal, working_type

MAX_SWEEPS = 60  # sweeps
# What may be left off the diagonal, in units of eps as the root of a row's mean square: before the sweeps begin anew,
# and in the end. The products of rounded columns are off by a sixth of a unit.
FIRST, LAST = 4, 0.5


def eigh(b: Build, a: Instruction, lower: bool) -> tuple[Instruction, Instruction]:
    """(vectors[.., n, n], values[.., n], ascending) of matrices one of whose triangles is read."""
    a = _symmetric(b, b.convert(a, working_type(a.shape)), lower)
    *batch, n, _ = a.shape.dimensions
    a, scale = _scaled(b, a)
    even = n + n % 2
    a = b.pad(a, *(0,) * len(batch), even - n, even - n)
    v, x = identity(b, a.shape), a
    if even > 1:
        x, v = _eigen_sweeps(b, a, FIRST)
        v = _orthonormal(b, v)
        x = b.product(_adjoint(b, v), b.product(a, v))
        x, rotated = _eigen_sweeps(b, b.multiply(b.add(x, _adjoint(b, x)), b.full(0.5, x.shape)), LAST)
        v = _orthonormal(b, _times(b, v, rotated))
    values = _real(b, diagonal(b, x))
    # Rayleigh's quotient, from the difference between A v and the value times v: a sum of small terms.
    rest = b.subtract(b.product(a, v), b.multiply(v, _columns(b, values, v)))
    values = b.add(values, _real(b, _column_products(b, v, rest)))
    values, v = cut(b, values, 1, n), cut(b, cut(b, v, 1, n), 2, n)
    values = b.multiply(values, b.spread(scale, values.shape, tuple(range(len(batch)))))
    return _sorted(b, values, v, "LT")


def svd(b: Build, a: Instruction, full: bool) -> tuple[Instruction, Instruction, Instruction]:
    """(u, s, vh) of a[.., m, n]: s descending; u and vh square if `full`, else of min(m, n) columns and rows."""
    a = b.convert(a, working_type(a.shape))
    if a.shape.dimensions[-2] < a.shape.dimensions[-1]:
        u, s, vh = svd(b, b.conjugate(b.transpose(a)), full)
        return b.conjugate(b.transpose(vh)), s, b.conjugate(b.transpose(u))
    *batch, m, n = a.shape.dimensions
    a, scale = _scaled(b, a)
    even = n + n % 2
    a = b.pad(a, *(0,) * len(batch), 0, even - n)
    v = identity(b, a.shape.with_dimensions((*batch, even, even)))
    if even > 1:
        v = _orthonormal(b, _singular_sweeps(b, a, FIRST))
        rotated = _singular_sweeps(b, b.product(a, v), LAST)
        v = _orthonormal(b, _times(b, v, rotated))
        a = b.product(a, v)
    a, v = cut(b, a, 1, n), cut(b, cut(b, v, 1, n), 2, n)
    norms = _real(b, _column_products(b, a, a))
    order = _order(b, b.sqrt(norms), "GT")
    a, v = b.product(a, _typed(b, order, a)), b.product(v, _typed(b, order, v))
    # The columns of a are orthogonal: R of their QR has the singular values up to their signs, even if some vanish.
    packed, tau = _parts(
        householder.qr(_call(b, "Qr", a, Shape.tuple_of(a.shape, a.shape.with_dimensions((*batch, n)))))
    )
    s = cut(b, diagonal(b, cut(b, packed, 2, n)), 1, n)
    real = _real(b, s)
    columns = m if full else n
    packed = b.pad(packed, *(0,) * len(batch), 0, columns - n)
    u = householder.product_of_reflectors(
        _call(b, "ProductOfElementaryHouseholderReflectors", packed, packed.shape, tau)
    )
    u = _orthonormal(b, u)
    sign = b.make("select", b.compare(real, 0, direction="LT"), b.full(-1, real.shape), b.full(1, real.shape))
    if columns > n:
        one = b.full(1, real.shape.with_dimensions((*batch, columns - n)))
        sign = b.make("concatenate", sign, one, dimensions=(len(batch),))
    u = b.multiply(u, _typed(b, b.spread(sign, u.shape, (*range(len(batch)), len(batch) + 1)), u))
    values = b.multiply(b.abs(real), b.spread(scale, real.shape, tuple(range(len(batch)))))
    return u, values, b.conjugate(b.transpose(v))


def _eigen_sweeps(b: Build, a: Instruction, units: float) -> list[Instruction]:
    """(a in a basis in which at most `units` of eps are left off the diagonal, that basis)."""
    rounds = a.shape.dimensions[-1] - 1

    def sweep(_: Instruction, a: Instruction, v: Instruction) -> list[Instruction]:
        return b.repeat(rounds, lambda k, a, v: _eigen_round(b, a, v), [a, v])

    def more(_: Instruction, a: Instruction, v: Instruction) -> Instruction:
        sizes = b.abs(a)
        on = b.reduce(sizes, 0, (a.shape.rank - 2, a.shape.rank - 1), bigger(sizes.shape.element_type))
        return _any_off(b, sizes, b.multiply(on, _unit(sizes, units)))

    return b.repeat(MAX_SWEEPS, sweep, [a, identity(b, a.shape)], more=more)


def _singular_sweeps(b: Build, a: Instruction, units: float) -> Instruction:
    """The basis v such that the products of the columns of a v, one of them of length 1, are no more than `units` of
    eps of the length of the longest."""
    n = a.shape.dimensions[-1]
    v = identity(b, a.shape.with_dimensions((*a.shape.dimensions[:-2], n, n)))

    def sweep(_: Instruction, a: Instruction, v: Instruction) -> list[Instruction]:
        return b.repeat(n - 1, lambda k, a, v: _singular_round(b, a, v), [a, v])

    def more(_: Instruction, a: Instruction, v: Instruction) -> Instruction:
        sizes = b.abs(b.product(_adjoint(b, a), a))
        rank = sizes.shape.rank
        lengths = b.sqrt(diagonal(b, sizes))
        longest = b.reduce(lengths, 0, (rank - 2,), bigger(lengths.shape.element_type))
        row, column = (b.spread(lengths, sizes.shape, (*range(rank - 2), rank - n)) for n in (2, 1))
        longer = b.maximum(row, column)
        safe = b.make("select", b.compare(longer, 0, direction="EQ"), b.full(1, longer.shape), longer)
        return _any_off(b, b.divide(sizes, safe), b.multiply(longest, _unit(lengths, units)))

    return b.repeat(MAX_SWEEPS, sweep, [a, v], more=more)[1]


def _unit(like: Instruction, units: float) -> float:
    """So many units of eps of a real type."""
    return units * float(np.finfo(like.shape.element_type.dtype).eps)


def _any_off(b: Build, sizes: Instruction, most: Instruction) -> Instruction:
    """pred[]: whether the elements off the diagonal of any row of sizes[.., n, n] are larger than most[..], as the root
    of their mean square; a NaN is not."""
    rank = sizes.shape.rank
    off = b.make("select", compare_indices(b, sizes.shape, "NE"), sizes, b.full(0, sizes.shape))
    mean = b.multiply(b.sum(b.multiply(off, off), (rank - 1,)), 1 / sizes.shape.dimensions[-1])
    larger = b.compare(b.sqrt(mean), b.spread(most, mean.shape, tuple(range(rank - 2))), direction="GT")
    return b.compare(b.reduce(b.convert(larger, S32), 0, tuple(range(rank - 1)), bigger(S32)), 0, direction="GT")


def _orthonormal(b: Build, v: Instruction) -> Instruction:
    """A matrix whose columns are orthonormal up to rounding errors, orthogonalized to second order in these:
    v + v (1 - v* v) / 2."""
    gram = b.product(_adjoint(b, v), v)
    rest = b.subtract(identity(b, gram.shape), gram)
    return b.add(v, b.multiply(b.product(v, rest), b.full(0.5, v.shape)))


def _times(b: Build, v: Instruction, rotated: Instruction) -> Instruction:
    """v times a matrix close to the identity, whose identity part is not rounded."""
    return b.add(v, b.product(v, b.subtract(rotated, identity(b, rotated.shape))))


def _adjoint(b: Build, x: Instruction) -> Instruction:
    return b.conjugate(b.transpose(x))


def _real(b: Build, x: Instruction) -> Instruction:
    return b.real(x) if x.shape.element_type.is_complex else x


def _columns(b: Build, values: Instruction, like: Instruction) -> Instruction:
    """A real number for each column, values[.., n], spread over the columns of `like`, in its type."""
    rank = like.shape.rank
    return b.spread(_typed(b, values, like), like.shape, (*range(rank - 2), rank - 1))


def _eigen_round(b: Build, a: Instruction, v: Instruction) -> list[Instruction]:
    """Each pair (p, q) of rows and columns is rotated so that a[p, q] becomes zero."""
    n = a.shape.dimensions[-1]
    half = n // 2
    d = _real(b, diagonal(b, a))
    p, q = _piece(b, d, 1, 0, half), _piece(b, d, 1, half, n)
    r = diagonal(b, _piece(b, _piece(b, a, 1, half, n), 2, 0, half))
    s, t = _rotation(b, p, q, r)
    a = _turn_rows(b, a, s, t)
    a, v = _turn_columns(b, a, s, t), _turn_columns(b, v, s, t)
    return [_moved(b, _moved(b, a, 1), 2), _moved(b, v, 1)]


def _singular_round(b: Build, a: Instruction, v: Instruction) -> list[Instruction]:
    """Each pair of columns is rotated so that they become orthogonal."""
    n = a.shape.dimensions[-1]
    left, right = _piece(b, a, 1, 0, n // 2), _piece(b, a, 1, n // 2, n)
    p, q, r = _column_products(b, left, left), _column_products(b, right, right), _column_products(b, left, right)
    s, t = _rotation(b, _real(b, p), _real(b, q), r)
    return [_moved(b, _turn_columns(b, x, s, t), 1) for x in (a, v)]


def _column_products(b: Build, x: Instruction, y: Instruction) -> Instruction:
    """[.., n]: the inner product of each column of x, conjugated, and the same column of y."""
    return b.sum(b.multiply(b.conjugate(x), y), (x.shape.rank - 2,))


def _rotation(b: Build, p: Instruction, q: Instruction, r: Instruction) -> tuple[Instruction, Instruction]:
    """(s, s / (1 + c)) such that [[c, s], [-conj(s), c]] makes [[p, r], [conj(r), q]] diagonal, by the smaller angle; c
    is real."""
    size = b.abs(r)
    none = b.compare(size, 0, direction="EQ")
    safe = b.make("select", none, b.full(1, size.shape), size)
    tau = b.divide(b.multiply(b.subtract(q, p), 0.5), safe)
    # |tau| beyond 2^64 has a square that may overflow: then t = 1 / (2 tau)
    large = b.compare(b.abs(tau), 2.0**40, direction="GT")
    inner = b.make("select", large, b.full(1, tau.shape), tau)
    root = b.sqrt(b.add(b.multiply(inner, inner), 1))
    sign = b.make("select", b.compare(tau, 0, direction="LT"), b.full(-1, tau.shape), b.full(1, tau.shape))
    t = b.divide(sign, b.add(b.abs(inner), root))
    t = b.make("select", large, b.divide(b.full(0.5, tau.shape), tau), t)
    t = b.make("select", none, b.full(0, t.shape), t)
    c = b.divide(b.full(1, t.shape), b.sqrt(b.add(b.multiply(t, t), 1)))
    s = b.multiply(t, c)
    unit = b.divide(r, _typed(b, safe, r))
    s, over = (b.multiply(_typed(b, w, r), unit) for w in (s, b.divide(s, b.add(c, 1))))
    return s, over


def _turn_columns(b: Build, x: Instruction, s: Instruction, t: Instruction) -> Instruction:
    """x times the rotations: columns p and q become c p - conj(s) q and s p + c q, with t = s / (1 + c)."""
    n = x.shape.dimensions[-1]
    p, q = _piece(b, x, 1, 0, n // 2), _piece(b, x, 1, n // 2, n)
    batch = tuple(range(x.shape.rank - 2))
    s, t = (b.spread(_typed(b, w, x), p.shape, (*batch, x.shape.rank - 1)) for w in (s, t))
    new = _rotated(b, p, q, s, t)
    return b.make("concatenate", *new, dimensions=(x.shape.rank - 1,))


def _turn_rows(b: Build, x: Instruction, s: Instruction, t: Instruction) -> Instruction:
    """The adjoint rotations times x: rows p and q become c p - s q and conj(s) p + c q."""
    n = x.shape.dimensions[-2]
    p, q = _piece(b, x, 2, 0, n // 2), _piece(b, x, 2, n // 2, n)
    rank = x.shape.rank
    s, t = (b.spread(_typed(b, w, x), p.shape, tuple(range(rank - 1))) for w in (s, t))
    new = _rotated(b, p, q, b.conjugate(s), b.conjugate(t))
    return b.make("concatenate", *new, dimensions=(rank - 2,))


def _rotated(b: Build, p: Instruction, q: Instruction, s: Instruction, t: Instruction) -> tuple[Instruction, ...]:
    """(c p - conj(s) q, s p + c q), with c = 1 - conj(s) t, as what is added to p and to q."""
    less = b.multiply(b.conjugate(s), b.add(q, b.multiply(t, p)))
    more = b.multiply(s, b.subtract(p, b.multiply(b.conjugate(t), q)))
    return b.subtract(p, less), b.add(q, more)


def _moved(b: Build, x: Instruction, last: int) -> Instruction:
    """The circle of both halves, of the last but `last - 1` dimension, one place on; the first stays."""
    n = x.shape.dimensions[-last]
    half = n // 2
    if half < 2:
        return x
    pieces = [(0, 1), (half, half + 1), (1, half - 1), (half + 1, n), (half - 1, half)]
    parts = [_piece(b, x, last, *p) for p in pieces if p[0] < p[1]]
    return b.make("concatenate", *parts, dimensions=(x.shape.rank - last,))


def _piece(b: Build, x: Instruction, last: int, start: int, limit: int) -> Instruction:
    """Elements start .. limit of the last but `last - 1` dimension."""
    sizes = x.shape.dimensions
    at = x.shape.rank - last
    return b.make(
        "slice", x, slice=tuple(SliceDimension(*((start, limit) if d == at else (0, n))) for d, n in enumerate(sizes))
    )


def cut(b: Build, x: Instruction, last: int, size: int) -> Instruction:
    """The first `size` elements of the last but `last - 1` dimension."""
    return x if x.shape.dimensions[-last] == size else _piece(b, x, last, 0, size)


def identity(b: Build, shape: Shape) -> Instruction:
    row, column = (b.iota(S32, shape.dimensions, shape.rank - n) for n in (2, 1))
    on = b.compare(row, column, direction="EQ")
    return b.make("select", on, b.full(1, shape), b.full(0, shape))


def _symmetric(b: Build, a: Instruction, lower: bool) -> Instruction:
    """The whole matrix from one triangle; the diagonal's imaginary part is not read."""
    row, column = (b.iota(S32, a.shape.dimensions, a.shape.rank - n) for n in (2, 1))
    other = b.conjugate(b.transpose(a))
    triangle = b.compare(row, column, direction="GT" if lower else "LT")
    off = b.make("select", triangle, a, other)
    on = _typed(b, b.real(a), a) if a.shape.element_type.is_complex else a
    return b.make("select", b.compare(row, column, direction="EQ"), on, off)


def _scaled(b: Build, a: Instruction) -> tuple[Instruction, Instruction]:
    """(a divided by its largest element, so that no square overflows; that size, [..])."""
    rank = a.shape.rank
    sizes = b.abs(a)
    largest = b.reduce(sizes, 0, (rank - 2, rank - 1), bigger(sizes.shape.element_type))
    usable = b.and_(b.compare(largest, 0, direction="GT"), b.is_finite(largest))
    scale = b.make("select", usable, largest, b.full(1, largest.shape))
    wide = b.spread(scale, sizes.shape, tuple(range(rank - 2)))
    return b.divide(a, _typed(b, wide, a)), scale


def _sorted(b: Build, values: Instruction, v: Instruction, direction: str) -> tuple[Instruction, Instruction]:
    """Values in order, and the columns of v in the same."""
    order = _order(b, values, direction)
    row = b.reshape(values, (*values.shape.dimensions[:-1], 1, values.shape.dimensions[-1]))
    chosen = b.reshape(b.product(row, order), values.shape.dimensions)
    return b.product(v, _typed(b, order, v)), chosen


def _order(b: Build, values: Instruction, direction: str) -> Instruction:
    """The permutation matrices, in the values' type, that sort columns by values[.., n]."""
    *batch, n = values.shape.dimensions
    index = b.iota(S32, values.shape.dimensions, len(batch))
    parameters = []
    for k, t in enumerate((values.shape.element_type,) * 2 + (S32,) * 2):
        parameters.append(Instruction(f"p{k}", "parameter", Shape(t), [], {"number": k}))
    root = make("compare", *parameters[:2], name="before", direction=direction)
    comparator = Computation(f"{b.name}.order", [*parameters, root], root)
    pair = b.make("sort", values, index, dimensions=(len(batch),), to_apply=comparator, is_stable=True)
    where = b.make("get-tuple-element", pair, index=1)
    square = Shape(S32, (*batch, n, n))
    rows = b.iota(S32, square.dimensions, len(batch))
    at = b.spread(where, square, (*range(len(batch)), len(batch) + 1))
    return b.convert(b.compare(rows, at, direction="EQ"), values.shape.element_type)


def _typed(b: Build, real: Instruction, like: Instruction) -> Instruction:
    """Real numbers, converted to the type of `like` if needed."""
    if like.shape.element_type.is_complex and not real.shape.element_type.is_complex:
        return b.complex(real, b.full(0, real.shape))
    return real


def _call(b: Build, target: str, x: Instruction, shape: Shape, *more: Instruction) -> Instruction:
    """A custom call to be expanded at once."""
    b.count += 1
    attributes = {"custom_call_target": target}
    return Instruction(f"{b.name}.{b.count}", "custom-call", shape, [x, *more], attributes)


def _parts(expansion: Instruction) -> list[Instruction]:
    """The elements of a tuple that an expansion made."""
    return list(expansion.operands)
