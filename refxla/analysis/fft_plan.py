"""How a discrete Fourier transform is computed, as data: stages over memory, each a schedule of passes in a cache.

A *pass* of radix r (Stockham's form of Cooley and Tukey's algorithm: the result is in order without a permutation)
reduces s interleaved transforms of n = r m elements to r s interleaved transforms of m elements:

    y[r p + k][q] = exp(-2 pi i p k / n) * sum over j of x[p + m j][q] * exp(-2 pi i j k / r)    0 <= p < m, 0 <= q < s

A *stage* loads a few transforms as the lanes of vectors, runs all passes on them and stores the results. It reads and
writes each element of memory once. Long transforms, and those of which there are fewer than lanes, are two stages
(Bailey's four steps, 1990): with n = a b, j = b j1 + j2 and k = k1 + a k2,

    t[k1][j2] = exp(-2 pi i j2 k1 / n) * sum over j1 of x[b j1 + j2] * exp(-2 pi i j1 k1 / a)
    X[k1 + a k2] = sum over j2 of t[k1][j2] * exp(-2 pi i j2 k2 / b)

A real transform of n = 2 h elements is one of h complex numbers, z[j] = x[2 j] + i x[2 j + 1], and a pass that
*separates* the transforms of its real and imaginary parts after it; the inverse *joins* them first:

    X[k] = (Z[k] + conj(Z[h - k])) / 2 + exp(-2 pi i k / n) * (Z[k] - conj(Z[h - k])) / 2 i

A length with a large prime factor becomes a convolution, computed by transforms of a size with small factors
(Bluestein, 1970): with c[j] = exp(-pi i j^2 / n),

    X[k] = c[k] * sum over j of (x[j] c[j]) conj(c[k - j])

An inverse transform is a forward one with real and imaginary parts exchanged before and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod

LARGEST_RADIX = 128  # of a pass: a length with larger prime factors becomes a convolution
LANES = {"f32": 8, "f64": 4}  # by type of a part: vectors of 32 bytes
SHORTEST_SPLIT = 64  # elements of a transform that may become two stages
LONGEST = 2048  # elements of a single stage where two are possible: its lanes stay in a nearby cache
CONVOLUTION_FACTORS = (1, 3, 5, 9)  # of the sizes of convolutions, beside a power of two
OPERAND, RESULT = "operand", "result"  # places of arrays
# Those in scratch memory: between the stages of long rows, after the columns of an inverse, and of long real rows.
BETWEEN, BEFORE_ROWS, JOINED, BEFORE_SEPARATION = "between", "before_rows", "joined", "before_separation"


@dataclass(frozen=True)
class Strides:
    """Where element j of lane l of group o of an array lies: at o * outer + l * lane + j * element complex numbers."""

    outer: int
    lane: int
    element: int


@dataclass(frozen=True)
class Stage:
    """`outer` groups of `lanes` transforms of `length` elements, from the array `source` to the array `target`.

    `swaps` says whether real and imaginary parts are exchanged when elements are loaded and when they are stored.
    Results are divided by `divisor`. With `twiddles` = n the result k of lane l is multiplied by exp(-2 pi i l k / n).
    `real` is "" or says that the transforms are those of real numbers: "separate" or "join" (see above); their side of
    the spectrum has one element more. Without `passes` a stage only separates or joins. With a `convolution` the
    transforms are computed by those of so many elements.
    """

    length: int
    outer: int
    lanes: int
    source: str
    target: str
    reads: Strides
    writes: Strides
    swaps: tuple[bool, bool] = (False, False)
    divisor: int = 1
    twiddles: int = 0
    real: str = ""
    passes: bool = True

    @property
    def convolution(self) -> int:
        """The elements of the convolution as which it is computed; 0 if there is none."""
        return 0 if not self.passes or is_smooth(self.length) else convolution_size(self.length)

    @property
    def radices(self) -> tuple[int, ...]:
        """The radices of its passes, in order."""
        return radices(self.convolution or self.length) if self.passes else ()


def radices(n: int) -> tuple[int, ...]:
    """Radices whose product is n: eights, or fours where an eight would leave a two, then odd primes."""
    twos = (n & -n).bit_length() - 1
    eights, rest = divmod(twos, 3)
    if rest == 1 and eights:
        eights, factors = eights - 1, [4, 4]
    else:
        factors = [1 << rest] if rest else []
    factors = [8] * eights + factors
    n >>= twos
    r = 3
    while n > 1:
        if r * r > n:
            return (*factors, n)
        while n % r == 0:
            factors.append(r)
            n //= r
        r += 2
    return tuple(factors)


def is_smooth(n: int) -> bool:
    """Whether all radices of a transform of n elements are small enough for passes."""
    return max(radices(n), default=1) <= LARGEST_RADIX


def convolution_size(n: int) -> int:
    """The elements of the convolution as which a transform of n elements can be computed: at least 2 n - 1, and of the
    sizes of CONVOLUTION_FACTORS that which takes the fewest steps, which are a pass over each element."""
    least = 2 * n - 1
    sizes = [odd << max(3, (-(-least // odd) - 1).bit_length()) for odd in CONVOLUTION_FACTORS]
    return min(sizes, key=lambda size: (size * len(radices(size)), size))


def is_planned(fft_type: str, dimensions: tuple[int, ...], fft_length: tuple[int, ...]) -> bool:
    """Whether there is a plan for a transform (see `stages`): the last length of a real one is even, and one that
    becomes a convolution fits a cache and, if it runs along rows, there are at least as many rows as lanes."""
    real = fft_type in ("RFFT", "IRFFT")
    if real and fft_length[-1] % 2:
        return False
    for d, n in enumerate(dimensions[len(dimensions) - len(fft_length) :], len(dimensions) - len(fft_length)):
        last = d == len(dimensions) - 1
        n = n // 2 if last and real else n
        enough = not last or prod(dimensions[:-1]) >= max(LANES.values())
        if not is_smooth(n) and not (enough and convolution_size(n) <= LONGEST):
            return False
    return True


def stages(fft_type: str, dimensions: tuple[int, ...], fft_length: tuple[int, ...], lanes: int) -> list[Stage]:
    """The stages of the transforms of the last dimensions of an array.

    `dimensions` are the sizes on the side where they are `fft_length`; `lanes` is the number of transforms in a vector.
    No size may be 0, and is_planned must hold.
    """
    inverse, real = fft_type in ("IFFT", "IRFFT"), fft_type in ("RFFT", "IRFFT")
    rank, n = len(dimensions), dimensions[-1]
    rows = prod(dimensions[:-1])
    row = n // 2 + 1 if real else n  # complex numbers of a row of the spectrum
    columns = [d for d in range(rank - len(fft_length), rank - 1) if dimensions[d] > 1]
    plan: list[Stage] = []
    if fft_type == "IRFFT":
        place = OPERAND
        for d in reversed(columns):
            plan.append(_columns(dimensions, d, row, place, BEFORE_ROWS, inverse))
            place = BEFORE_ROWS
        return plan + _rows(n // 2, rows, place, RESULT, lanes, inverse, "join")
    plan += _rows(n // 2 if real else n, rows, OPERAND, RESULT, lanes, inverse, "separate" if real else "")
    return plan + [_columns(dimensions, d, row, RESULT, RESULT, inverse) for d in reversed(columns)]


def _columns(dimensions: tuple[int, ...], d: int, row: int, source: str, target: str, inverse: bool) -> Stage:
    """The transforms along a dimension d that is not the last one; the last one has `row` elements."""
    n, outer, inner = dimensions[d], prod(dimensions[:d]), prod(dimensions[d + 1 : -1]) * row
    strides = Strides(n * inner, 1, inner)
    return Stage(n, outer, inner, source, target, strides, strides, (inverse, inverse), n if inverse else 1)


def _rows(n: int, rows: int, source: str, target: str, lanes: int, inverse: bool, real: str) -> list[Stage]:
    """The transforms of rows of n complex numbers; those that are `real` have n + 1 on the side of the spectrum."""
    divisor = 1 if not inverse else 2 * n if real else n
    own, spectrum = Strides(0, n, 1), Strides(0, n + 1, 1)
    a = _split(n, lanes) if n > LONGEST or rows < lanes else 1
    if a == 1:
        reads, writes = (spectrum if real == "join" else own), (spectrum if real == "separate" else own)
        return [Stage(n, 1, rows, source, target, reads, writes, (inverse, inverse), divisor, real=real)]
    b = n // a
    first = JOINED if real == "join" else source
    last = BEFORE_SEPARATION if real == "separate" else target
    plan: list[Stage] = []
    if real == "join":
        plan.append(Stage(n, 1, rows, source, first, spectrum, own, (False, inverse), real=real, passes=False))
    swaps = inverse and real != "join"
    plan.append(
        Stage(a, rows, b, first, BETWEEN, Strides(n, 1, b), Strides(n, 1, b), (swaps, False), 1, n),
    )
    plan.append(
        Stage(b, rows, a, BETWEEN, last, Strides(n, b, 1), Strides(n, 1, a), (False, inverse), divisor),
    )
    if real == "separate":
        plan.append(Stage(n, 1, rows, last, target, own, spectrum, real=real, passes=False))
    return plan


def _split(n: int, lanes: int) -> int:
    """The factor of n closest to its square root that leaves at least `lanes` on both sides; 1 if there is none, or n
    is too short."""
    if n < SHORTEST_SPLIT:
        return 1
    near = (a for a in range(isqrt(n), lanes - 1, -1) if n % a == 0 and n // a >= lanes)
    return next(near, 1)
