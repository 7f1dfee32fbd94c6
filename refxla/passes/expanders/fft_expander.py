"""fft as small discrete Fourier transforms, each a product with a matrix of constants.

A transform of n = r m elements (Cooley and Tukey, 1965): with j = m j1 + j2 and k = k1 + r k2,

    X[k] = sum over j2 of exp(-2 pi i j2 k2 / m) * exp(-2 pi i j2 k1 / n) * sum over j1 of exp(-2 pi i j1 k1 / r) * x[j]

that is, transforms of r elements, a multiplication by twiddle factors, and transforms of m elements. Prime factors up
to RADIX are grouped, and prime factors up to DIRECT are transformed directly. With a larger prime factor the transform
becomes a convolution with exp(pi i j^2 / n), done by transforms of a power of two (Bluestein, 1970).
twiddle_factors.py computes the constants.
"""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import Shape

from ...ir.builder import Build
from .twiddle_factors import rotation, transform_of_chirp

RADIX = 16
DIRECT = 64


def _expand(i: Instruction) -> Instruction:
    b, x, length = Build(i.name), i.operands[0], i.fft_length
    if not i.shape.size or not x.shape.size:
        return b.full(0, i.shape)
    rank, inverse = x.shape.rank, i.fft_type in ("IFFT", "IRFFT")
    if i.fft_type == "RFFT":
        x = b.complex(x, b.full(0, x.shape))
    for d in range(rank - len(length), rank - 1):  # the last dimension apart, since half of it may be left out
        x = x if i.fft_type == "RFFT" else _along(b, x, d, inverse)
    if i.fft_type == "IRFFT":
        return b.real(_along(b, _whole_spectrum(b, x, length[-1]), rank - 1, inverse))
    x = _along(b, x, rank - 1, inverse)
    if i.fft_type == "RFFT":
        x = b.slice(x, (0,) * rank, (*x.shape.dimensions[:-1], i.shape.dimensions[-1]))
        for d in range(rank - len(length), rank - 1):
            x = _along(b, x, d, inverse)
    return x


def _whole_spectrum(b: Build, x: Instruction, n: int) -> Instruction:
    """Of a real signal of n elements along the last dimension: X[n - k] = conj(X[k])."""
    *batch, half = x.shape.dimensions
    if n < 3:
        return x
    start, limit = (0,) * len(batch), tuple(batch)
    mirrored = b.slice(x, (*start, 1), (*limit, n - half + 1))
    mirrored = b.conjugate(b.make("reverse", mirrored, dimensions=(len(batch),)))
    return b.make("concatenate", x, mirrored, dimensions=(len(batch),))


def _along(b: Build, x: Instruction, d: int, inverse: bool) -> Instruction:
    """The transforms along dimension d."""
    rank, n = x.shape.rank, x.shape.dimensions[d]
    exchange = tuple(rank - 1 if e == d else d if e == rank - 1 else e for e in range(rank))
    if d != rank - 1:
        x = b.make("transpose", x, dimensions=exchange)
    made = b.reshape(_rows(b, b.reshape(x, (x.shape.size // n, n)), inverse), x.shape.dimensions)
    if inverse:
        made = b.complex(b.divide(b.real(made), n), b.divide(b.imag(made), n))
    return b.make("transpose", made, dimensions=exchange) if d != rank - 1 else made


def _rows(b: Build, x: Instruction, inverse: bool) -> Instruction:
    """The transform of each row of x[rows, n], without the division by n."""
    rows, n = x.shape.dimensions
    r = _radix(n)
    if r == 1:
        return x
    if r > DIRECT:
        return _by_chirps(b, x, inverse)
    turn = 1 if inverse else -1
    m = n // r
    j1, k1 = np.ogrid[:r, :r]
    matrix = _constant(b, x, rotation(j1 * k1, r, turn))
    x = b.reshape(x, (rows, r, m))
    x = b.make(
        "dot",
        x,
        matrix,
        shape=Shape(x.shape.element_type, (rows, m, r)),
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(0,),
    )
    if m > 1:
        j2, k1 = np.ogrid[:m, :r]
        x = b.multiply(x, b.spread(_constant(b, x, rotation(j2 * k1, n, turn)), x.shape, (1, 2)))
        x = b.reshape(b.make("transpose", x, dimensions=(0, 2, 1)), (rows * r, m))
        x = b.reshape(_rows(b, x, inverse), (rows, r, m))
        x = b.make("transpose", x, dimensions=(0, 2, 1))
    return b.reshape(x, (rows, n))


def _by_chirps(b: Build, x: Instruction, inverse: bool) -> Instruction:
    """2 j k = j^2 + k^2 - (k - j)^2: multiplied by a chirp, convolved with its conjugate, multiplied again."""
    rows, n = x.shape.dimensions
    size = 1 << (2 * n - 2).bit_length()
    j = np.arange(n)
    chirp = rotation(j * j, 2 * n, 1 if inverse else -1)
    response = transform_of_chirp(n, size)  # of the conjugate chirp of the forward transform
    response = response.conj() if inverse else response
    chirps = b.spread(_constant(b, x, chirp), x.shape, (1,))
    wide = _rows(b, b.pad(b.multiply(x, chirps), 0, size - n), inverse=False)
    filtered = b.multiply(wide, b.spread(_constant(b, x, response), wide.shape, (1,)))
    return b.multiply(b.slice(_rows(b, filtered, inverse=True), (0, 0), (rows, n)), chirps)


def _constant(b: Build, like: Instruction, values: np.ndarray) -> Instruction:
    array = values.astype(like.shape.element_type.dtype)
    return b.make("constant", shape=Shape.of(array), literal=array)


def _radix(n: int) -> int:
    """The factor to be split off: the largest up to RADIX, or else the smallest prime factor. 1 for n = 1."""
    small = [r for r in range(2, min(n, RADIX) + 1) if n % r == 0]
    if small or n == 1:
        return small[-1] if small else 1
    return next((r for r in range(RADIX + 1, int(n**0.5) + 1) if n % r == 0), n)


EXPANSIONS = {"fft": _expand}
