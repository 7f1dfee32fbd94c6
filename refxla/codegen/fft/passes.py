"""The passes of a transform (analysis/fft_plan.py) as C functions, one for each radix.

The data in a cache is an array of complex vectors: number i has its real parts in vector 2 i and its imaginary parts in
vector 2 i + 1. All sizes are arguments, so that equal passes of a program are compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...analysis.fft_plan import LANES
from ...analysis.twiddle_factors import rotation
from ..c_block import Block, Names

UNROLLED = 8  # the largest radix whose terms are unrolled
Complex = tuple[str, str]  # the C variables of the real and the imaginary part


@dataclass(frozen=True)
class Parts:
    """The type of real and imaginary parts: "f32" or "f64"."""

    name: str

    @property
    def scalar(self) -> str:
        """Its C type."""
        return {"f32": "float", "f64": "double"}[self.name]

    @property
    def dtype(self) -> np.dtype:
        """Its NumPy type."""
        return np.dtype({"f32": np.float32, "f64": np.float64}[self.name])

    @property
    def lanes(self) -> int:
        """The elements of a vector."""
        return LANES[self.name]

    @property
    def vector(self) -> str:
        """The C type of a vector."""
        return f"{self.scalar}{self.lanes}"

    def literal(self, value: float) -> str:
        """The C literal of a number, rounded to the type by the C compiler: exact for f64, rounded once for f32."""
        return f"{float(value).hex()}{'f' if self.name == 'f32' else ''}"

    def multiply_add(self, a: str, b: str, total: str) -> str:
        """The C expression of a * b + total, of vectors, rounded once."""
        return f"rx_multiply_add_vector_{self.name}({a}, {b}, {total})"


@dataclass(frozen=True)
class Numbers(Parts):
    """Parts of single numbers: vectors of one lane."""

    @property
    def vector(self) -> str:
        return self.scalar

    def multiply_add(self, a: str, b: str, total: str) -> str:
        return f"RX_FMA_{self.name.upper()}({a}, {b}, {total})"


class Butterfly:
    """The statements of a transform of a few elements in variables; each result is a new variable."""

    def __init__(self, parts: Parts, block: Block) -> None:
        self.parts, self.block, self._names = parts, block, Names()

    def let(self, real: str, imaginary: str) -> Complex:
        """Variables with these values."""
        re, im = self._names.fresh("r"), self._names.fresh("i")
        self.block.line(f"const {self.parts.vector} {re} = {real}, {im} = {imaginary};")
        return re, im

    def add(self, a: Complex, b: Complex) -> Complex:
        return self.let(f"{a[0]} + {b[0]}", f"{a[1]} + {b[1]}")

    def subtract(self, a: Complex, b: Complex) -> Complex:
        return self.let(f"{a[0]} - {b[0]}", f"{a[1]} - {b[1]}")

    def subtract_rotated(self, a: Complex, b: Complex) -> Complex:
        """a - i b."""
        return self.let(f"{a[0]} + {b[1]}", f"{a[1]} - {b[0]}")

    def add_rotated(self, a: Complex, b: Complex) -> Complex:
        """a + i b."""
        return self.let(f"{a[0]} - {b[1]}", f"{a[1]} + {b[0]}")

    def transform(self, a: Sequence[Complex]) -> list[Complex]:
        """sum over j of a[j] exp(-2 pi i j k / n), for all k."""
        fixed: dict[int, Callable[[Sequence[Complex]], list[Complex]]] = {2: self._two, 4: self._four, 8: self._eight}
        return fixed.get(len(a), self._odd)(a)

    def _two(self, a: Sequence[Complex]) -> list[Complex]:
        return [self.add(a[0], a[1]), self.subtract(a[0], a[1])]

    def _four(self, a: Sequence[Complex]) -> list[Complex]:
        s, d = self.add(a[0], a[2]), self.subtract(a[0], a[2])
        t, e = self.add(a[1], a[3]), self.subtract(a[1], a[3])
        return [self.add(s, t), self.subtract_rotated(d, e), self.subtract(s, t), self.add_rotated(d, e)]

    def _eight(self, a: Sequence[Complex]) -> list[Complex]:
        half = f"({self.parts.vector})({self.parts.literal(_rotation(1, 8)[0])})"
        even = self._four([self.add(a[j], a[j + 4]) for j in range(4)])
        d = [self.subtract(a[j], a[j + 4]) for j in range(4)]
        rotated = [
            d[0],
            self.let(f"({d[1][0]} + {d[1][1]}) * {half}", f"({d[1][1]} - {d[1][0]}) * {half}"),
            self.let(d[2][1], f"-{d[2][0]}"),
            self.let(f"({d[3][1]} - {d[3][0]}) * {half}", f"-({d[3][0]} + {d[3][1]}) * {half}"),
        ]
        odd = self._four(rotated)
        return [x for pair in zip(even, odd, strict=True) for x in pair]

    def _odd(self, a: Sequence[Complex]) -> list[Complex]:
        """exp(-2 pi i j k / n) for j and for n - j are conjugates: sums of both terms take its real part, and
        differences its imaginary part."""
        n, parts = len(a), self.parts
        pairs = range(1, n // 2 + 1)
        sums = [self.add(a[j], a[n - j]) for j in pairs]
        differences = [self.subtract(a[j], a[n - j]) for j in pairs]
        first = a[0]
        for s in sums:
            first = self.add(first, s)
        results = [first] * n
        for k in pairs:
            even, odd = a[0], None
            for j, s, d in zip(pairs, sums, differences, strict=True):
                real, imaginary = (f"({parts.vector})({parts.literal(v)})" for v in _rotation(j * k, n))
                even = self.let(*(parts.multiply_add(v, real, t) for v, t in zip(s, even, strict=True)))
                if odd is None:
                    odd = self.let(*(f"{v} * {imaginary}" for v in d))
                else:
                    odd = self.let(*(parts.multiply_add(v, imaginary, t) for v, t in zip(d, odd, strict=True)))
            assert odd is not None
            results[k], results[n - k] = self.subtract_rotated(even, odd), self.add_rotated(even, odd)
        return results

    def rotate(self, a: Complex, re: str, im: str) -> Complex:
        """a (re + i im), of vectors."""
        m = self.parts.multiply_add
        return self.let(m(a[0], re, f"-({a[1]} * {im})"), m(a[0], im, f"{a[1]} * {re}"))


def _rotation(j: int, n: int) -> tuple[float, float]:
    """The real and the imaginary part of exp(2 pi i j / n), each rounded once to f64."""
    value = complex(rotation(np.array([j % n]), n, 1)[0])
    return value.real, value.imag


def name(radix: int, parts: Parts, last: bool) -> str:
    """The C function of a pass; the `last` one of a stage has one row (m = 1), and so no rotations."""
    return f"fft_{'last' if last else 'pass'}_{radix}_{parts.name}"


def function(radix: int, parts: Parts, last: bool) -> str:
    """The text of the C function of a pass, whose arguments are

    from, to   the arrays of complex vectors
    m, s       as in fft_plan.py, s counted in vectors
    w          exp(-2 pi i p k / n) at p (radix - 1) + k - 1, real and imaginary part
    roots      of a radix whose terms are not written out: exp(2 pi i j / radix) at j
    """
    block, v, t = Block(), parts.vector, parts.scalar
    unrolled = radix <= UNROLLED
    sizes = "const int s" if last else f"const int m, const int s, __global const {t}* restrict w"
    roots = "" if unrolled else f", __global const {t}* restrict roots"
    arrays = f"__global const {v}* restrict from, __global {v}* restrict to"
    with block.scope(f"void {name(radix, parts, last)}({arrays}, {sizes}{roots})"):
        if last:
            _row(radix, parts, block, "from", "to", "s", twiddles=False)
        else:
            with block.scope("for (int p = 0; p < m; ++p)"):
                block.line(f"__global const {v}* const x = from + 2 * (p * s);")
                block.line(f"__global {v}* const y = to + 2 * ({radix} * p * s);")
                block.line(f"__global const {t}* const u = w + 2 * ({radix - 1} * p);")
                if unrolled:
                    for k in range(1, radix):
                        block.line(f"const {v} c{k} = ({v})(u[{2 * k - 2}]), s{k} = ({v})(u[{2 * k - 1}]);")
                _row(radix, parts, block, "x", "y", "m * s", twiddles=True)
    return block.text()


def _row(radix: int, parts: Parts, block: Block, x: str, y: str, step: str, twiddles: bool) -> None:
    """The loop over q."""
    block.line(f"const int step = 2 * ({step});")
    with block.scope("for (int q = 0; q < 2 * s; q += 2)"):
        if radix > UNROLLED:
            _looped(radix, parts, block, x, y, twiddles)
            return
        b = Butterfly(parts, block)
        elements = [b.let(f"{x}[q + {j} * step]", f"{x}[q + {j} * step + 1]") for j in range(radix)]
        results = b.transform(elements)
        if twiddles:
            results = [results[0], *(b.rotate(results[k], f"c{k}", f"s{k}") for k in range(1, radix))]
        for k, (re, im) in enumerate(results):
            block.line(f"{y}[q + {2 * k} * s] = {re};")
            block.line(f"{y}[q + {2 * k} * s + 1] = {im};")


def _looped(radix: int, parts: Parts, block: Block, x: str, y: str, twiddles: bool) -> None:
    """A butterfly of an odd radix, in loops: as Butterfly._odd."""
    v, m, pairs = parts.vector, parts.multiply_add, radix // 2
    block.line(f"{v} sums[{2 * pairs}], differences[{2 * pairs}];")
    block.line(f"const {v} re0 = {x}[q], im0 = {x}[q + 1];")
    block.line(f"{v} re = re0, im = im0;")
    with block.scope(f"for (int j = 0; j < {pairs}; ++j)"):
        block.line(f"const int near = q + (j + 1) * step, far = q + ({radix - 1} - j) * step;")
        for part, total in ((0, "re"), (1, "im")):
            block.line(f"sums[2 * j + {part}] = {x}[near + {part}] + {x}[far + {part}];")
            block.line(f"differences[2 * j + {part}] = {x}[near + {part}] - {x}[far + {part}];")
            block.line(f"{total} = {total} + sums[2 * j + {part}];")
    block.line(f"{y}[q] = re;")
    block.line(f"{y}[q + 1] = im;")
    # Two results at a time have enough sums for the processor to work on at once.
    with block.scope(f"for (int k = 1; k <= {pairs}; k += 2)"):
        block.line(f"const int l = k < {pairs} ? k + 1 : k;")
        for n in "kl":
            block.line(f"{v} er{n} = re0, ei{n} = im0, dr{n} = ({v})(0), di{n} = ({v})(0);")
        block.line("int at_k = 0, at_l = 0;")
        with block.scope(f"for (int j = 0; j < {pairs}; ++j)"):
            block.line(f"const {v} sr = sums[2 * j], si = sums[2 * j + 1];")
            block.line(f"const {v} tr = differences[2 * j], ti = differences[2 * j + 1];")
            for n in "kl":
                block.line(f"at_{n} = at_{n} + {n} < {radix} ? at_{n} + {n} : at_{n} + {n} - {radix};")
                block.line(f"const {v} c{n} = ({v})(roots[2 * at_{n}]), t{n} = ({v})(roots[2 * at_{n} + 1]);")
                block.line(f"er{n} = {m('sr', f'c{n}', f'er{n}')};")
                block.line(f"ei{n} = {m('si', f'c{n}', f'ei{n}')};")
                block.line(f"dr{n} = {m('tr', f't{n}', f'dr{n}')};")
                block.line(f"di{n} = {m('ti', f't{n}', f'di{n}')};")
        b = Butterfly(parts, block)
        for n in "kl":
            even, odd = (f"er{n}", f"ei{n}"), (f"dr{n}", f"di{n}")
            for place, value in (
                (n, b.subtract_rotated(even, odd)),
                (f"({radix} - {n})", b.add_rotated(even, odd)),
            ):
                if twiddles:
                    at = f"u[2 * {place} - 2]", f"u[2 * {place} - 1]"
                    value = b.rotate(value, *(f"({v})({a})" for a in at))
                block.line(f"{y}[q + 2 * {place} * s] = {value[0]};")
                block.line(f"{y}[q + 2 * {place} * s + 1] = {value[1]};")
