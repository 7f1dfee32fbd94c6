"""Edge values of every element type, derived from its number of exponent and mantissa bits.

A float's table consists of bit patterns (zeros, the smallest and largest subnormals, the smallest normal numbers, the
largest ones, infinities, NaN, each with its neighbours and with both signs: whatever a pattern means in a type without
infinities or signed zeros) and of numbers (1 and its neighbours, halves, where integers end, where exp overflows, ...).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from refxla_spec.compare import precision
from refxla_spec.numerics import component_type, make_complex, round_to
from refxla_spec.types import ElementType

# One half and its odd multiples round to even; at the others, elementary functions turn, end or lose digits.
NUMBERS = (
    0.5, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 0.25, 0.75, 0.1, 1 / 3, 10.0, 100.0, np.pi / 4, np.pi / 2, np.pi, 2 * np.pi,
    np.e, np.log(2), 1e-3, 1e-5, 1e-9, 9.0, 17.5, 22.0, 88.5, 89.0, 104.0, 127.0, 128.0, 255.0, 256.0, 709.5, 710.0,
    746.0, 32767.0, 32768.0, 65504.0, 65536.0, 1e5, 1e6, 1e15, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e30,
)  # fmt: skip
FEW_NUMBERS = (0.5, 1.5, 2.0, 2.5, 3.0, 0.1, 1 / 3, np.pi / 2, 10.0, 100.0, 2.0**31)


def edges(element_type: ElementType, few: bool = False) -> np.ndarray:
    """The table of a type, one-dimensional; `few`: a smaller one, for all pairs or triples."""
    if element_type.kind == "pred":
        return np.array([False, True])
    if element_type.is_integer:
        return _integers(element_type, few)
    if element_type.is_complex:
        return _complex(element_type, few)
    return _floats(element_type, few)


def all_values(element_type: ElementType) -> np.ndarray:
    """Every value of a type of at most 16 bits."""
    count = 1 << element_type.bits
    dtype = np.uint8 if element_type.bits <= 8 else np.dtype(f"u{element_type.bits // 8}")
    if element_type.kind == "pred":
        return np.array([False, True])
    return _of_patterns(np.arange(count, dtype=dtype), element_type)


def random_bits(rng: np.random.Generator, element_type: ElementType, count: int) -> np.ndarray:
    """Values of random bits: for a float, every exponent is equally likely."""
    if element_type.kind == "pred":
        return rng.random(count) < 0.5
    if element_type.is_complex:
        part = component_type(element_type)
        return make_complex(random_bits(rng, part, count), random_bits(rng, part, count))
    patterns = (
        rng.integers(0, 1 << element_type.bits, count, dtype=np.uint64)
        if element_type.bits < 64
        else (rng.integers(0, (1 << 64) - 1, count, endpoint=True, dtype=np.uint64))
    )
    return _of_patterns(patterns, element_type)


def spread(rng: np.random.Generator, element_type: ElementType) -> np.ndarray:
    """Numbers of a float of 16 bits or more, with some in every interval that a function treats separately: evenly
    between -1 and 1, -8 and 8, -100 and 100, and evenly by their exponents between 2^-24 and 2^24."""
    powers = np.exp2(rng.uniform(-24, 24, 96)) * rng.choice((-1, 1), 96)
    stretches = [rng.uniform(-most, most, count) for most, count in ((1, 80), (8, 160), (100, 64))]
    return round_to(np.concatenate([*stretches, powers]), element_type)


def ties(source: ElementType, target: ElementType) -> np.ndarray:
    """Numbers of `source`, a float or an integer, that are halfway between two neighbours of the float `target`, and
    the next ones above and below them: double rounding, first to a type in between, gets them wrong."""
    digits, _ = precision(target)
    own = precision(source)[0] if source.is_float else source.bits - (source.kind == "signed")
    if own <= digits + 1:
        return np.zeros(0, source.dtype)
    candidates: list[int] = []  # as integers below 2^own
    for odd in (1, 3, (1 << digits) - 1, (1 << (digits - 1)) * 3 // 2 | 1):
        halfway = ((1 << (digits - 1)) | odd & ((1 << (digits - 1)) - 1)) * 2 + 1  # one digit more than the target has
        for width in (own, min(own, digits + 9)):
            shifted = halfway << (width - digits - 1)
            candidates += [shifted - 1, shifted, shifted + 1]
    if source.is_integer:
        most = (1 << (source.bits - (source.kind == "signed"))) - 1
        numbers = [n for n in candidates if n <= most]
        negative = [-n for n in numbers] if source.kind == "signed" else []
        return np.array(numbers + negative, np.int64 if source.kind == "signed" else np.uint64).astype(source.dtype)
    scales = np.exp2(np.array([-own, 1.0 - own, 3.0 - own]))
    values = (np.array(candidates, np.float64)[:, None] * scales).reshape(-1)
    return np.concatenate([values, -values]).astype(source.dtype)


def _of_patterns(patterns: np.ndarray, element_type: ElementType) -> np.ndarray:
    """The numbers with these bits."""
    if element_type.bits < 8:
        mask = (1 << element_type.bits) - 1
        small = patterns.astype(np.int64) & mask
        if element_type.is_integer:
            if element_type.kind == "signed":
                small = small - ((small >> (element_type.bits - 1)) << element_type.bits)
            return small.astype(np.int8).astype(element_type.dtype)
        return small.astype(np.uint8).view(element_type.array_dtype)
    words = patterns.astype(np.dtype(f"u{element_type.bits // 8}"))
    return words.view(element_type.array_dtype)


def _floats(element_type: ElementType, few: bool) -> np.ndarray:
    if element_type.bits <= 4 or (element_type.bits <= 8 and not few):
        return all_values(element_type)
    mantissa = int(ml_dtypes.finfo(element_type.dtype).nmant)
    signed = element_type.name != "f8e8m0fnu"
    half = 1 << (element_type.bits - signed)  # the number of patterns with one sign
    quantum = 1 << mantissa  # the pattern of the smallest normal number
    infinity = half - quantum  # of types with infinities; a large number or NaN elsewhere
    near_one = int(to_bits_word(round_to(np.array([1.0]), element_type)))
    patterns = [
        0,
        1,
        quantum - 1,
        quantum,
        infinity - 1,
        infinity,
        half - 2,
        half - 1,
        near_one - 1,
        near_one,
        near_one + 1,
    ]
    if not few:
        patterns += [2, 3, quantum // 2, quantum + 1, infinity - 2, infinity + 1, infinity + quantum // 2]
    numbers = round_to(np.array(FEW_NUMBERS if few else NUMBERS + _ends_of_integers(mantissa)), element_type)
    patterns = [*patterns, *(int(w) for w in to_words(numbers))]
    if signed:
        patterns += [(p + half) % (2 * half) for p in patterns]  # a NaN may have the pattern of -0 in other types
    return _of_patterns(np.array(list(dict.fromkeys(patterns)), np.uint64), element_type)


def _ends_of_integers(mantissa: int) -> tuple[float, ...]:
    whole = 2.0**mantissa
    return (whole / 2 + 0.5, whole / 2 - 0.5, whole - 1, whole, whole + 1, 2 * whole - 1, 2 * whole, 2 * whole + 2)


def _integers(element_type: ElementType, few: bool) -> np.ndarray:
    bits = element_type.bits
    if bits <= 4 or (bits == 8 and not few):
        return all_values(element_type)
    patterns = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1]
    patterns += [(1 << bits) - 2, (1 << bits) - 3, (1 << (bits - 1)) + 1, (1 << bits) // 3]
    if not few:
        patterns += [5, 10, 100, 2 * bits, (1 << bits) - bits, (1 << (bits // 2)) - 1, 1 << (bits // 2)]
        patterns += [
            (1 << bits) * 2 // 3,
            46341 & ((1 << bits) - 1),
            1 << (bits - 2),
            0x123456789ABCDEF & ((1 << bits) - 1),
        ]
    return _of_patterns(np.array(list(dict.fromkeys(patterns)), np.uint64), element_type)


def _complex(element_type: ElementType, few: bool) -> np.ndarray:
    part = component_type(element_type)
    info = ml_dtypes.finfo(part.dtype)
    least, most = float(info.smallest_normal), float(info.max)
    parts = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
    if not few:
        parts += [-1.0, 0.5, least, float(info.smallest_subnormal), most, 1e-5, np.pi / 2, 10.0, -100.0]
    values = np.array(parts).astype(part.dtype)
    return make_complex(np.repeat(values, len(values)), np.tile(values, len(values)))


def to_words(array: np.ndarray) -> np.ndarray:
    """The bits of each float as an unsigned number."""
    return np.ascontiguousarray(array).view(np.dtype(f"u{array.dtype.itemsize}"))


def to_bits_word(array: np.ndarray) -> int:
    """The bits of the only element."""
    return int(to_words(array).reshape(-1)[0])
