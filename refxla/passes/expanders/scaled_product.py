"""Long cumulative products of floating-point numbers, in blocks that neither overflow nor underflow.

A block of factors may overflow although no prefix does, since what comes before it is small, or zero. So the totals of
blocks are made of factors that are cut in two, exactly:

    x = m * 2^e        m in [1, 2), or in (-2, -1]; zeros, infinities and NaN stay as they are, with e = 0

The product of the m of a block of up to 104 factors is smaller than 2^104, and the e are added as integers. It is made
with its rounding errors, since those of factors near 1 have a bias, which many blocks would add up. Prefixes of
totals are cut again before they are combined further. Each block then begins with the product of all before it,

    result[j, k] = before[j] * x[j, 0] * ... * x[j, k]

so that a result overflows, or becomes subnormal, as if all factors had been multiplied one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from refxla_spec.module import Computation, Instruction, post_order
from refxla_spec.types import F64, S32, S64, ElementType, Shape

from ...ir.builder import Build, reducer
from .blockwise_scan import Arrays, BlockwiseScan


@dataclass(frozen=True)
class _Format:
    """The bits of a binary floating-point type."""

    integer: ElementType  # of as many bits
    fraction: int  # bits behind the point
    bias: int  # of the exponent of 1

    @property
    def most(self) -> int:
        """The exponent field of infinities and NaN."""
        return 2 * self.bias + 1


class ScaledProduct(BlockwiseScan):
    """The prefixes of one array of f32 or f64."""

    CHAINED: ClassVar[int] = 104
    BLOCKS: ClassVar[range] = range(64, 105, 8)

    def __init__(self, b: Build, kind: ElementType, length: int, dimension: int, backward: bool) -> None:
        self.kind, self.format = kind, _Format(S64, 52, 1023) if kind is F64 else _Format(S32, 23, 127)
        # The largest exponent that a product of so many factors can have, with what blocks add to it.
        largest = 2 * length * (self.format.bias + self.format.fraction)
        self.exponents = S32 if largest < 1 << 31 else S64
        super().__init__(b, [lambda: b.scalar(1, kind), lambda: b.scalar(0, self.exponents)], dimension, backward)

    def of(self, x: Instruction, init: Instruction) -> Instruction:
        """The cumulative product of x, which begins with the initial value."""
        b, d = self.b, self.dimension
        blocks = self.blocks(x, self.starts[0]())
        before = self._put_together(*self.prefixes(self.before(self._totals(blocks), self._cut(init)), None))
        rows = tuple(n for n in range(blocks.shape.rank) if n != d + 1)
        size = blocks.shape.dimensions[d + 1]
        places = b.iota(S32, blocks.shape.dimensions, d + 1)
        is_first = b.compare(places, size - 1 if self.backward else 0, direction="EQ")
        factors = b.select(is_first, b.multiply(b.spread(before, blocks.shape, rows), blocks), blocks)
        products = self.window([factors], [self.starts[0]()], reducer("multiply", self.kind), d + 1)
        return self.joined(products, x.shape.dimensions[d])

    def _totals(self, blocks: Instruction) -> list[Instruction]:
        """The product of each block."""
        b, inside = self.b, (self.dimension + 1,)
        significand, exponent = self._cut(blocks)
        exact = b.full(0, significand.shape)
        inits = (b.scalar(1, self.kind), b.scalar(0, self.kind))
        pair = b.make("reduce", significand, exact, *inits, dimensions=inside, to_apply=self._product_and_error())
        product, error = (b.make("get-tuple-element", pair, index=n) for n in range(2))
        is_number = b.compare(error, error, direction="EQ")  # infinite factors have no errors
        total = b.select(is_number, b.add(product, error), product)
        return self.normal([total, b.sum(exponent, inside)])

    def _product_and_error(self) -> Computation:
        """The reducer of products p with what their roundings have left out: of (p, d) and (q, e) it makes p q and
        p e + d q + (p q - p q rounded). The last is exact, from halves of the digits of p and q."""
        shape = Shape(self.kind)
        p, d, q, e = (Instruction(x, "parameter", shape, [], {"number": n}) for n, x in enumerate("pdqe"))
        b = Build("compensated")
        high_p, low_p, high_q, low_q = (*self._halves(b, p), *self._halves(b, q))
        product = b.multiply(p, q)
        left_out = b.subtract(b.multiply(high_p, high_q), product)
        for x, y in ((high_p, low_q), (low_p, high_q), (low_p, low_q)):
            left_out = b.add(left_out, b.multiply(x, y))
        error = b.add(left_out, b.add(b.multiply(p, e), b.multiply(d, q)))
        root = b.make("tuple", product, error)
        return Computation("compensated_product", [p, d, q, e, *_steps(root)], root)

    def _halves(self, b: Build, x: Instruction) -> tuple[Instruction, Instruction]:
        """Two numbers of half the digits whose sum is x."""
        scaled = b.multiply(x, 2.0 ** (self.format.fraction // 2 + 1) + 1)
        high = b.subtract(scaled, b.subtract(scaled, x))
        return high, b.subtract(x, high)

    def chain(self, xs: Arrays, dimension: int) -> list[Instruction]:
        steps = ((x, start(), opcode) for x, start, opcode in zip(xs, self.starts, ("multiply", "add"), strict=True))
        return [self.window([x], [s], reducer(opcode, x.shape.element_type), dimension) for x, s, opcode in steps]

    def join(self, before: Arrays, local: Arrays) -> list[Instruction]:
        return self.normal([self.b.multiply(before[0], local[0]), self.b.add(before[1], local[1])])

    def normal(self, xs: Arrays) -> list[Instruction]:
        significand, exponent = self._cut(xs[0])
        return [significand, self.b.add(exponent, xs[1])]

    def _cut(self, x: Instruction) -> list[Instruction]:
        """m and e of numbers."""
        b, f = self.b, self.format
        scale = f.fraction + 9  # by which the smallest number becomes a normal one
        tiny = b.compare(b.abs(x), 2.0 ** (1 - f.bias), direction="LT")
        bits = self._bits(b.select(tiny, b.multiply(x, 2.0**scale), x))
        field = b.and_(b.shift_right_logical(bits, f.fraction), f.most)
        special = b.or_(b.compare(field, 0, direction="EQ"), b.compare(field, f.most, direction="EQ"))
        one = b.or_(b.and_(bits, ~(f.most << f.fraction)), f.bias << f.fraction)
        exponent = b.subtract(b.subtract(field, f.bias), b.select(tiny, b.full(scale, field.shape), 0))
        return [
            b.select(special, x, self._number(one)),
            b.convert(b.select(special, 0, exponent), self.exponents),
        ]

    def _put_together(self, significand: Instruction, exponent: Instruction) -> Instruction:
        """m * 2^e, rounded once: the first of two steps is exact, or overflows as the result does."""
        b, f = self.b, self.format
        end = 2 * (f.bias - 1)  # beyond which all is 0 or infinite
        exponent = b.convert(b.minimum(b.maximum(exponent, -end), end), f.integer)
        first = b.minimum(b.maximum(exponent, 1 - f.bias), f.bias)
        scaled = b.multiply(significand, self._power_of_2(first))
        return b.multiply(scaled, self._power_of_2(b.subtract(exponent, first)))

    def _power_of_2(self, exponent: Instruction) -> Instruction:
        return self._number(self.b.shift_left(self.b.add(exponent, self.format.bias), self.format.fraction))

    def _bits(self, x: Instruction) -> Instruction:
        return self.b.make("bitcast-convert", x, shape=x.shape.with_element_type(self.format.integer))

    def _number(self, bits: Instruction) -> Instruction:
        return self.b.make("bitcast-convert", bits, shape=bits.shape.with_element_type(self.kind))


def _steps(root: Instruction) -> list[Instruction]:
    """What a result is made of, without parameters."""
    return [i for i in post_order(root) if i.opcode != "parameter"]
