"""exp(2 pi i k / n) and its Fourier transforms as constants of a program, with the same bits on every machine.

They are computed in double-double arithmetic (Dekker, 1971): a number is the unevaluated sum of two f64 values, about
106 bits. This uses only IEEE additions and multiplications of f64, no mathematical library and no `long double`. The
single rounding to f64 at the end therefore rounds an almost exact value.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isqrt
from typing import TypeVar

import numpy as np

Array = np.ndarray

SPLIT = float(2**27 + 1)  # Veltkamp's: halves of 26 bits, whose products are exact
# Pi / 2 in two numbers: 53 bits and the 53 after them.
HALF_PI = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
BLOCK = 8192  # numbers at a time, so that temporaries stay in a cache
TERMS = 14  # of a Taylor series in x^2, up to x^27 / 27! < 2^-100 for x <= pi / 4


@dataclass(frozen=True)
class Wide:
    """An array of numbers high + low, where |low| is at most half a unit in the last place of high."""

    high: Array
    low: Array

    def __add__(self, other: Wide) -> Wide:
        total, error = _sum(self.high, other.high)
        return _normal(total, error + (self.low + other.low))

    def __sub__(self, other: Wide) -> Wide:
        return self + Wide(-other.high, -other.low)

    def __mul__(self, other: Wide) -> Wide:
        product, error = _product(self.high, other.high)
        return _normal(product, error + (self.high * other.low + self.low * other.high))

    def __getitem__(self, index: Array | slice | tuple[slice | int, ...]) -> Wide:
        return Wide(self.high[index], self.low[index])

    def reshape(self, shape: tuple[int, ...]) -> Wide:
        return Wide(self.high.reshape(shape), self.low.reshape(shape))

    def where(self, condition: Array, other: Wide) -> Wide:
        """Elements of this array where the condition holds, otherwise of the other."""
        return Wide(np.where(condition, self.high, other.high), np.where(condition, self.low, other.low))

    def negated(self, condition: Array) -> Wide:
        """Negated where the condition holds."""
        return Wide(np.where(condition, -self.high, self.high), np.where(condition, -self.low, self.low))

    @staticmethod
    def of(values: Array | float | Fraction) -> Wide:
        """f64 values, exactly, or the nearest to a fraction."""
        if isinstance(values, Fraction):
            nearest = float(values)
            return Wide(np.asarray(nearest), np.asarray(float(values - Fraction(nearest))))
        high = np.asarray(values, np.float64)
        return Wide(high, np.zeros_like(high))


Complex = tuple[Wide, Wide]  # real and imaginary part
T = TypeVar("T", Wide, Array)


def rotation(product: Array, n: int, turn: int) -> Array:
    """exp(2 pi i turn product / n) of an array of integers, as c128: each part is rounded once."""
    places = (product * turn % n).ravel()
    re, im = _roots(places, n)
    result = re.high + 1j * im.high
    quarters = 4 * places % n == 0
    result[quarters] = np.round(result[quarters])
    return result.reshape(product.shape)


def transform_of_chirp(n: int, size: int, wide: bool = True) -> Array:
    """The transform of `size` elements (at least 2 n - 1; its factors are 2, 3 and 5), divided by `size`, of the
    sequence that has exp(pi i j^2 / n) at j and at size - j for 0 <= j < n, and zeros elsewhere; c128.

    Bluestein (1970). It is computed as Wide and rounded once, or in f64, which takes a tenth of the work and is
    accurate enough for f32.
    """
    j = np.arange(n)
    lines = []
    for part in _roots(j * j % (2 * n), 2 * n):
        halves = []
        for values in (part.high, part.low):
            line = np.zeros(size)
            line[:n] = values
            line[size - n + 1 :] = values[:0:-1]
            halves.append(line)
        lines.append(Wide(*halves))
    roots = _roots(-np.arange(size), size)
    if wide:
        re, im = (_quotient(part, float(size)).high for part in _transform((lines[0], lines[1]), roots))
    else:
        x, turns = (lines[0].high, lines[1].high), (roots[0].high, roots[1].high)
        re, im = (part / size for part in _transform(x, turns))
    return re + 1j * im


def _transform(x: tuple[T, T], roots: tuple[T, T]) -> tuple[T, T]:
    """sum over j of x[j] exp(-2 pi i j k / size), with all roots exp(-2 pi i k / size); the factors of the size are 2,
    3 and 5 (Cooley and Tukey, 1965)."""
    size = _count(roots[0])
    radix = next((r for r in (3, 5) if size % r == 0), 2)
    if radix == 2:
        order = _bit_reversed(size)
        half = slice(0, max(1, size // 2))
        return _radix_two((x[0][order], x[1][order]), size, (roots[0][half], roots[1][half]))
    thinned = roots[0][::radix], roots[1][::radix]
    parts = [_transform((x[0][s::radix], x[1][s::radix]), thinned) for s in range(radix)]
    blocks = []
    for t in range(radix):
        k = np.arange(size // radix) + size // radix * t
        re, im = parts[0]
        for s in range(1, radix):
            turned = _times(parts[s], (roots[0][s * k % size], roots[1][s * k % size]))
            re, im = re + turned[0], im + turned[1]
        blocks.append((re, im))
    return _in_order([b[0] for b in blocks]), _in_order([b[1] for b in blocks])


def _count(a: T) -> int:
    return len(a.high) if isinstance(a, Wide) else len(a)


def _in_order(blocks: list[T]) -> T:
    """Arrays one after the other."""
    if isinstance(blocks[0], Wide):
        parts = [b for b in blocks if isinstance(b, Wide)]
        return Wide(np.concatenate([b.high for b in parts]), np.concatenate([b.low for b in parts]))
    return np.concatenate(blocks)


def _radix_two(x: tuple[T, T], size: int, roots: tuple[T, T]) -> tuple[T, T]:
    """sum over j of x[j] exp(-2 pi i j k / size), of elements in bit-reversed order (Cooley and Tukey, 1965), with the
    first half of the roots exp(-2 pi i k / size). Parts are multiplied and added on their own: NumPy's complex product
    may be fused or not, by processor."""
    re, im = x
    half = 1
    while half < size:
        pairs = (size // (2 * half), 2, half)
        parts = [p.reshape(pairs) for p in (re, im)]
        step = size // (2 * half)
        odd = _times((parts[0][:, 1], parts[1][:, 1]), (roots[0][::step], roots[1][::step]))
        re, im = (_in_turn(e[:, 0] + o, e[:, 0] - o) for e, o in zip(parts, odd, strict=True))
        half *= 2
    return re, im


def _in_turn(a: T, b: T) -> T:
    """The rows of two arrays, interleaved, in one dimension."""
    if isinstance(a, Wide):
        return Wide(_in_turn(a.high, b.high), _in_turn(a.low, b.low))
    return np.stack([a, b], 1).ravel()


def _bit_reversed(size: int) -> Array:
    order = np.zeros(1, np.int64)
    while len(order) < size:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order


def _times(a: tuple[T, T], b: tuple[T, T]) -> tuple[T, T]:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _roots(k: Array, n: int) -> Complex:
    """exp(2 pi i k / n) of a line of integers, each a product of two of about 2 sqrt(n) roots that are computed."""
    steps = isqrt(n - 1) + 1
    many, few = _series_roots(np.arange(-(-n // steps)) * steps, n), _series_roots(np.arange(steps), n)
    places = k % n
    re, im = (Wide(np.empty(k.shape), np.empty(k.shape)) for _ in range(2))
    for begin in range(0, len(k), BLOCK):
        block = slice(begin, begin + BLOCK)
        coarse, fine = np.divmod(places[block], steps)
        products = _times((many[0][coarse], many[1][coarse]), (few[0][fine], few[1][fine]))
        for part, product in zip((re, im), products, strict=True):
            part.high[block], part.low[block] = product.high, product.low
    return re, im


def _series_roots(k: Array, n: int) -> Complex:
    """exp(2 pi i k / n). The angle is split, exactly, into the nearest multiple of a quarter turn and a rest of at most
    an eighth."""
    quarters = (4 * (k % n) + n // 2) // n
    rest = 4 * (k % n) - quarters * n  # |rest| <= n / 2: the angle is pi / 2 * rest / n
    angle = _quotient(Wide(np.asarray(HALF_PI[0]), np.asarray(HALF_PI[1])) * Wide.of(rest), float(n))
    square = angle * angle
    sine, cosine = angle * _series(square, 1), _series(square, 0)
    swapped, quarter = quarters % 2 == 1, quarters % 4
    re, im = sine.where(swapped, cosine), cosine.where(swapped, sine)
    return re.negated((quarter == 1) | (quarter == 2)), im.negated(quarter >= 2)


def _series(square: Wide, odd: int) -> Wide:
    """sum over j of (-square)^j / (2 j + odd)!"""
    total = Wide.of(np.zeros_like(square.high))
    for j in reversed(range(TERMS)):
        total = total * square + _coefficient(j, odd)
    return total


@cache
def _coefficient(j: int, odd: int) -> Wide:
    value = Fraction(1)
    for m in range(2, 2 * j + odd + 1):
        value /= m
    return Wide.of(-value if j % 2 else value)


def _quotient(a: Wide, by: float) -> Wide:
    quotient = a.high / by
    product, error = _product(quotient, np.float64(by))
    return _normal(quotient, ((a.high - product) - error + a.low) / by)


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its rounding error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _normal(large: Array, small: Array) -> Wide:
    total = large + small
    return Wide(total, small - (total - large))


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its rounding error, exactly (Dekker and Veltkamp)."""
    product = a * b
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(a: Array) -> tuple[Array, Array]:
    scaled = SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high
