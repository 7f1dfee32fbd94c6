"""fft for which there is no plan (analysis/fft_plan.py), by transforms for which there is one.

Those of real arrays with an odd last length are computed as complex ones. A few long ones with large prime factors
become convolutions with exp(pi i j^2 / n), done by transforms with small factors (Bluestein, 1970).
analysis/twiddle_factors.py computes the constants.
"""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import C128, Shape

from ...analysis.fft_plan import convolution_size, is_planned
from ...analysis.twiddle_factors import rotation, transform_of_chirp
from ...ir.builder import Build


def _expand(i: Instruction) -> Instruction | None:
    b, x, length = Build(i.name), i.operands[0], i.fft_length
    if not i.shape.size or not x.shape.size:
        return b.full(0, i.shape)
    if is_planned(i.fft_type, (i if i.fft_type == "IRFFT" else x).shape.dimensions, length):
        return None
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
    if is_planned("FFT", x.shape.dimensions, (n,)):
        x = _fft(b, x, inverse)
    else:
        rows = _by_chirps(b, b.reshape(x, (x.shape.size // n, n)), inverse)
        x = b.reshape(rows, x.shape.dimensions)
    return b.make("transpose", x, dimensions=exchange) if d != rank - 1 else x


def _fft(b: Build, x: Instruction, inverse: bool) -> Instruction:
    """The transforms along the last dimension, of a length for which there is a plan."""
    return b.make("fft", x, fft_type="IFFT" if inverse else "FFT", fft_length=x.shape.dimensions[-1:])


def _by_chirps(b: Build, x: Instruction, inverse: bool) -> Instruction:
    """2 j k = j^2 + k^2 - (k - j)^2: multiplied by a chirp, convolved with its conjugate, multiplied again."""
    rows, n = x.shape.dimensions
    size = convolution_size(n)
    j = np.arange(n)
    chirp = rotation(j * j, 2 * n, 1 if inverse else -1)
    wide = x.shape.element_type is C128
    response = transform_of_chirp(n, size, wide) * size  # of the conjugate chirp of the forward transform
    response = response.conj() if inverse else response
    chirps = b.spread(_constant(b, x, chirp), x.shape, (1,))
    padded = _fft(b, b.pad(b.multiply(x, chirps), 0, size - n), inverse=False)
    filtered = b.multiply(padded, b.spread(_constant(b, x, response), padded.shape, (1,)))
    result = b.multiply(b.slice(_fft(b, filtered, inverse=True), (0, 0), (rows, n)), chirps)
    return b.complex(b.divide(b.real(result), n), b.divide(b.imag(result), n)) if inverse else result


def _constant(b: Build, like: Instruction, values: np.ndarray) -> Instruction:
    array = values.astype(like.shape.element_type.dtype)
    return b.make("constant", shape=Shape.of(array), literal=array)


EXPANSIONS = {"fft": _expand}
