"""Random arrays: numbers of ordinary size, small ones with ties, and the values at which implementations fail."""

from __future__ import annotations

import math
import random
from functools import cache

import ml_dtypes
import numpy as np
from refxla_spec.compare import precision
from refxla_spec.numerics import round_to
from refxla_spec.types import C64, ELEMENT_TYPES, F32, F64, ElementType

from ..cases import values as tables

#: How the numbers of an array are drawn: "small" whole numbers (sums of them are exact and many are equal), "whole"
#: ones of every size, "normal" ones, "special" (NaN, infinities, zeros of both signs, subnormals, the largest), "unit"
#: in (0, 1), "edges" of the suite's table, where functions turn and types end, "ties" between two numbers of a narrower
#: type, "bits" at random.
MODES = (
    "small", "small", "small", "whole", "normal", "normal", "special", "special", "special", "unit", "edges", "ties",
    "bits",
)  # fmt: skip
DIGITS = {precision(t)[0] for t in ELEMENT_TYPES.values() if t.is_float}  # of the significands that there are


def array(r: random.Random, element_type: ElementType, dims: tuple[int, ...], mode: str | None = None) -> np.ndarray:
    """An array of that type and dimensions, drawn in one of MODES (one at random by default)."""
    mode = mode or r.choice(MODES)
    rng = np.random.default_rng(r.getrandbits(32))
    if element_type.is_complex:
        part = F32 if element_type is C64 else F64
        parts = array(r, part, dims, mode), array(r, part, dims, mode)
        result = np.empty(dims, element_type.dtype)
        result.real, result.imag = parts
        return result
    if element_type.kind == "pred":
        return np.asarray(rng.integers(0, 2, dims)).astype(np.bool_)
    if mode == "edges":
        return np.asarray(rng.choice(_edges(element_type), dims)).astype(element_type.dtype)
    if mode == "bits":
        return tables.random_bits(rng, element_type, math.prod(dims)).reshape(dims)
    if mode == "ties":
        return ties(rng, element_type, dims)
    if mode == "whole":
        return _whole(rng, element_type, dims)
    if element_type.is_integer:
        return _integers(rng, element_type, dims, mode)
    drawn = _reals(rng, element_type, dims, mode)
    return np.asarray(round_to(drawn, element_type)).reshape(dims)


@cache
def _edges(element_type: ElementType) -> np.ndarray:
    return tables.edges(element_type)


def digits_of(element_type: ElementType) -> int:
    """How many bits the significand of a float has, including the leading one, or the absolute value of an integer."""
    return precision(element_type)[0] if element_type.is_float else element_type.bits - (element_type.kind == "signed")


def ties(
    rng: np.random.Generator, element_type: ElementType, dims: tuple[int, ...], digits: int | None = None
) -> np.ndarray:
    """Real numbers of a type that are halfway between two neighbours with `digits` bits, as in narrower floats, or just
    above or below: double rounding, or rounding other than to even, gets them wrong.

    By default, each has the digits of some narrower float. Those of a float sometimes end at the binary point, halfway
    between two integers. Zeros if the type itself has at most `digits` bits.
    """
    own = digits_of(element_type)
    fitting = [n for n in (DIGITS if digits is None else {digits}) if n < own]
    if not fitting:
        return np.zeros(dims, element_type.dtype)
    length = np.asarray(rng.choice(sorted(fitting), dims)).astype(np.uint64)
    one, lead = np.uint64(1), np.asarray(rng.integers(0, 1 << 63, dims)).astype(np.uint64)
    first = one << (length - one)
    halfway = (first | (lead & (first - one))) * np.uint64(2) + one  # length + 1 bits
    width = length + one + np.asarray(rng.integers(0, own - length.astype(np.int64), dims)).astype(np.uint64)
    if element_type.is_float:
        width = np.full(dims, own, np.uint64)
    words = (halfway << (width - length - one)) + np.asarray(rng.integers(-1, 2, dims)).astype(np.uint64)  # modulo 2^64
    if element_type.is_integer:
        return (
            _signed(rng, words.astype(np.int64), dims).astype(element_type.dtype)
            if element_type.kind == "signed"
            else words.astype(element_type.dtype)
        )
    scale = np.where(rng.random(dims) < 0.3, length.astype(np.int64), rng.integers(-8, 9, dims)) - own
    drawn = np.ldexp(words.astype(np.int64).astype(np.float64), scale.astype(np.int32))
    return np.asarray(round_to(_signed(rng, drawn, dims), element_type)).reshape(dims)


def _whole(rng: np.random.Generator, element_type: ElementType, dims: tuple[int, ...]) -> np.ndarray:
    """Integers of up to as many bits as the type represents exactly, with each number of bits equally likely."""
    shift = 63 - np.asarray(rng.integers(0, min(63, digits_of(element_type)) + 1, dims))
    numbers = np.asarray(rng.integers(0, 1 << 63, dims)) >> shift
    if element_type.kind != "unsigned":
        numbers = _signed(rng, numbers, dims)
    return np.asarray(round_to(numbers.astype(np.float64), element_type) if element_type.is_float else numbers).astype(
        element_type.dtype
    )


def _signed(rng: np.random.Generator, numbers: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """The numbers, about half of them negated."""
    return np.where(rng.random(dims) < 0.5, -numbers, numbers)


def _integers(rng: np.random.Generator, element_type: ElementType, dims: tuple[int, ...], mode: str) -> np.ndarray:
    signed = element_type.kind == "signed"
    low, high = (-(1 << element_type.bits - 1) if signed else 0), (1 << element_type.bits - signed) - 1
    if mode in ("small", "unit"):
        drawn = rng.integers(max(low, -4), min(high, 8), dims, dtype=np.int64, endpoint=True)
    elif mode == "normal":
        wide = np.int64 if signed else np.uint64
        drawn = rng.integers(low, high, dims, dtype=wide, endpoint=True)
    else:
        edges = [n for n in (low, low + 1, -1, 0, 1, 2, element_type.bits - 1, element_type.bits, high - 1, high)
                 if low <= n <= high]  # fmt: skip
        drawn = rng.choice(np.array(edges, np.int64 if signed else np.uint64), dims)
    return np.asarray(drawn).astype(element_type.dtype)


def _reals(rng: np.random.Generator, element_type: ElementType, dims: tuple[int, ...], mode: str) -> np.ndarray:
    if mode == "small":
        drawn = np.asarray(rng.integers(-4, 8, dims), np.float64)
        return np.where((drawn == 0) & (rng.random(dims) < 0.5), -0.0, drawn)
    if mode == "unit":
        return np.asarray(rng.random(dims))
    normal = np.asarray(rng.standard_normal(dims)) * 2.0 ** rng.integers(-3, 4)
    if mode == "normal":
        return normal
    info = ml_dtypes.finfo(element_type.dtype)
    edges = [0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.nan, np.nan, np.inf, -np.inf]
    edges += [float(info.max), -float(info.max), float(info.smallest_normal), -float(info.smallest_subnormal)]
    return np.where(rng.random(dims) < 0.25, normal, rng.choice(edges, dims))
