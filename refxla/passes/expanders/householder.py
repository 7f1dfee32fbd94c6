"""Householder's QR decomposition, and the product of its reflectors: a loop over columns.

The formulas are those of the specification's custom calls (`spec/custom_calls/`). Each column is first divided by its
largest element, so that no square overflows. f16 and bf16 are computed in f32 and rounded once.
"""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.types import S32, Shape

from ...ir.builder import Build, bigger
from .matrix_masks import working_type


def qr(i: Instruction) -> Instruction:
    """The custom call Qr: (packed[.., m, n], tau[.., min(m, n)])."""
    b, x = Build(i.name), i.operands[0]
    *batch, m, n = x.shape.dimensions
    shapes = i.shape.elements
    if not x.shape.size:
        return b.tuple(*(b.full(0, s) for s in shapes))
    a = b.convert(x, working_type(x.shape))
    tau = b.full(0, a.shape.with_dimensions((*batch, 1, min(m, n))))
    columns = len(batch) + 1

    def iteration(k: Instruction, a: Instruction, tau: Instruction) -> list[Instruction]:
        v, t, beta = _reflector(b, b.part(a, columns, k, 1), k)
        row, column = (b.iota(S32, a.shape.dimensions, columns - 1 + d) for d in (0, 1))
        at = b.spread(k, row.shape, ())
        inside = b.and_(b.compare(row, at, direction="GE"), b.compare(column, at, direction="GT"))
        new = b.make("select", inside, _reflected(b, a, v, b.conjugate(t)), a)
        head = b.and_(b.compare(row, at, direction="EQ"), b.compare(column, at, direction="EQ"))
        below = b.and_(b.compare(row, at, direction="GT"), b.compare(column, at, direction="EQ"))
        new = b.make("select", head, _wide(b, beta, a.shape), b.make("select", below, _wide(b, v, a.shape), new))
        return [new, b.put(tau, t, columns, k)]

    a, tau = b.repeat(min(m, n), iteration, [a, tau])
    tau = b.reshape(tau, (*batch, min(m, n)))
    return b.tuple(*(b.convert(part, s.element_type) for part, s in zip((a, tau), shapes, strict=True)))


def product_of_reflectors(i: Instruction) -> Instruction:
    """The custom call ProductOfElementaryHouseholderReflectors: the first columns of Q, [.., m, n]."""
    b, (packed, tau) = Build(i.name), i.operands
    if not packed.shape.size:
        return b.full(0, i.shape)
    packed, tau = (b.convert(o, working_type(o.shape)) for o in (packed, tau))
    *batch, count = tau.shape.dimensions
    columns = len(batch) + 1
    row, column = (b.iota(S32, packed.shape.dimensions, columns - 1 + d) for d in (0, 1))
    on = b.compare(row, column, direction="EQ")
    q = b.make("select", on, b.full(1, packed.shape), b.full(0, packed.shape))
    if not count:
        return b.convert(q, i.shape.element_type)

    def iteration(n: Instruction, q: Instruction, packed: Instruction, tau: Instruction) -> list[Instruction]:
        k = b.subtract(b.scalar(count - 1, S32), n)
        v = _below(b, b.part(packed, columns, k, 1), k)
        inside = b.compare(b.iota(S32, q.shape.dimensions, columns - 1), b.spread(k, q.shape, ()), direction="GE")
        return [b.make("select", inside, _reflected(b, q, v, b.part(tau, columns, k, 1)), q)]

    (q,) = b.repeat(count, iteration, [q], [packed, b.reshape(tau, (*batch, 1, count))])
    return b.convert(q, i.shape.element_type)


def _reflector(b: Build, column: Instruction, k: Instruction) -> tuple[Instruction, Instruction, Instruction]:
    """(v[.., m, 1], tau[.., 1, 1], beta[.., 1, 1]) of the reflector that makes `column` zero below row k."""
    rows, single = column.shape.rank - 2, (*column.shape.dimensions[:-2], 1, 1)
    row = b.iota(S32, column.shape.dimensions, rows)
    at = b.spread(k, row.shape, ())
    active = b.make("select", b.compare(row, at, direction="GE"), column, b.full(0, column.shape))
    sizes = b.abs(active)
    largest = b.reduce(sizes, 0, (rows,), bigger(sizes.shape.element_type))
    usable = b.and_(b.compare(largest, 0, direction="GT"), b.is_finite(largest))
    scale = b.reshape(b.make("select", usable, largest, b.full(1, largest.shape)), single)
    active = b.divide(active, _typed(b, _wide(b, scale, column.shape), column))
    below = b.make("select", b.compare(row, at, direction="GT"), active, b.full(0, column.shape))
    alpha = b.part(active, rows, k, 1)
    rest = b.reshape(b.sum(_squared(b, below), (rows,)), single)
    real = b.real(alpha) if alpha.shape.element_type.is_complex else alpha
    reflect = b.compare(rest, 0, direction="NE")
    if alpha.shape.element_type.is_complex:
        reflect = b.or_(reflect, b.compare(b.imag(alpha), 0, direction="NE"))
    norm = b.sqrt(b.add(_squared(b, alpha), rest))
    one = b.full(1, norm.shape)
    signed = b.make("select", b.compare(real, 0, direction="LT"), norm, b.negate(norm))
    beta = b.make("select", reflect, signed, one)  # where nothing is reflected: any nonzero number
    wide_beta = _typed(b, beta, alpha)
    tau = b.make("select", reflect, b.divide(b.subtract(wide_beta, alpha), wide_beta), b.full(0, alpha.shape))
    divisor = b.make("select", reflect, b.subtract(alpha, wide_beta), b.full(1, alpha.shape))
    v = _below(b, b.divide(active, _wide(b, divisor, active.shape)), k)
    result = b.make("select", reflect, _typed(b, b.multiply(beta, scale), alpha), b.part(column, rows, k, 1))
    return v, tau, result


def _below(b: Build, column: Instruction, k: Instruction) -> Instruction:
    """The vector of a reflector: the elements of column[.., m, 1] below row k, a one in that row, zeros above."""
    row = b.iota(S32, column.shape.dimensions, column.shape.rank - 2)
    at = b.spread(k, row.shape, ())
    head = b.make("select", b.compare(row, at, direction="EQ"), b.full(1, column.shape), b.full(0, column.shape))
    return b.make("select", b.compare(row, at, direction="GT"), column, head)


def _reflected(b: Build, a: Instruction, v: Instruction, tau: Instruction) -> Instruction:
    """a - tau * v * adjoint(v) * a."""
    product = b.product(b.conjugate(v), a, along=(-2, -2))
    scaled = b.multiply(_wide(b, tau, product.shape), product)
    return b.subtract(a, b.multiply(_wide(b, v, a.shape), _wide(b, scaled, a.shape)))


def _squared(b: Build, x: Instruction) -> Instruction:
    """|x|^2, as real numbers."""
    if not x.shape.element_type.is_complex:
        return b.multiply(x, x)
    parts = b.real(x), b.imag(x)
    return b.add(*(b.multiply(p, p) for p in parts))


def _typed(b: Build, real: Instruction, like: Instruction) -> Instruction:
    """Real numbers in the type of `like`."""
    return b.complex(real, b.full(0, real.shape)) if like.shape.element_type.is_complex else real


def _wide(b: Build, x: Instruction, shape: Shape) -> Instruction:
    """x, some of whose dimensions are 1, spread over the dimensions of `shape`."""
    same = tuple(d for d, n in enumerate(x.shape.dimensions) if n == shape.dimensions[d])
    return b.spread(b.reshape(x, tuple(x.shape.dimensions[d] for d in same)), shape, same)
