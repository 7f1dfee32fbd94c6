"""Random numbers: uniform in the half-open interval from a to b, or normal with the mean a and the deviation b.

HLO promises the distribution alone, and no two implementations give the same numbers. Here they are defined: Philox
(see rng-bit-generator) with the key 0 makes words of the counter that rng-get-and-update-state shows, one block after
the other, and the instruction advances the counter by the blocks that it uses. Words have 64 bits for the types of 64
bits, else 32; element n, in row-major order, uses word n, or for normal numbers the words 2n and 2n + 1.

    uniform, integers  a + (word modulo (b - a)) with the difference as an unsigned number, wrapped; the word if a = b
    uniform, floats    a + u * (b - a) with u = (the upper bits of the word) / 2^p; a where that is not below b
    normal             a + b * sqrt(-2 log u1) * cos(2 pi u2), u1 = (upper bits + 1) / 2^p, u2 = (upper bits) / 2^p

p is 53 for f64, else 24: u has all digits of f64 or of f32, which the smaller types are computed in and rounded from
once. Uniform numbers round after each operation and are exact by this contract; of normal ones the formula as a whole
is rounded once, and an implementation may round after each operation.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..attributes import ENUM, REQUIRED, Attribute
from ..ciphers import philox_bits
from ..module import Instruction
from ..numerics import as_unsigned, round_to, wrap
from ..operation import Example, require
from ..random_state import KEY, RandomState
from ..types import S32, S64, U32, U64, Array, ElementType, Shape

INPUTS = {"a": "a scalar: the lowest value, or the mean", "b": "a scalar: what all lie below, or the deviation"}
ATTRIBUTES = {"distribution": Attribute(ENUM, REQUIRED, "rng_uniform or rng_normal")}
CONSTRAINTS = {
    "C1": "distribution is rng_uniform or rng_normal",
    "C2": "a and b are scalars of one element type: floating-point, or for rng_uniform integer",
    "C3": "the result is an array of that element type",
}


def infer(instruction: Instruction, a: Shape, b: Shape) -> Shape:
    distribution = instruction.distribution
    require(distribution in ("rng_uniform", "rng_normal"), "C1", f"distribution is {distribution}")
    fits = a.is_scalar and b.is_scalar and a.element_type is b.element_type
    fits = fits and (a.element_type.is_float or (a.element_type.is_integer and distribution == "rng_uniform"))
    require(fits, "C2", f"a is {a}, b is {b}, distribution is {distribution}")
    return Shape(a.element_type, instruction.shape.dimensions)


def digits(element_type: ElementType) -> int:
    """How many bits of a word make a fraction."""
    return 53 if element_type.bits == 64 else 24


def words(instruction: Instruction, state: RandomState) -> Array:
    """The words of all elements: u64[elements, words for each]; takes them from the state."""
    shape = instruction.shape
    wide, each = shape.element_type.bits == 64, 2 if instruction.distribution == "rng_normal" else 1
    count = prod(shape.dimensions) * each
    low, high = state.take(-(-count // (2 if wide else 4)))
    with np.errstate(over="ignore"):
        _, numbers = philox_bits(np.array([KEY, low, high], np.uint64), (count,), wide)
    return numbers.reshape(-1, each)


def fractions(words: Array, element_type: ElementType) -> Array:
    """The upper bits of words, as f64: whole numbers below 2^p."""
    width = 64 if element_type.bits == 64 else 32
    return (words >> np.uint64(width - digits(element_type))).astype(np.float64)


def evaluate(instruction: Instruction, a: Array, b: Array, *, state: RandomState) -> Array:
    element_type, dimensions = instruction.shape.element_type, instruction.shape.dimensions
    drawn = words(instruction, state)
    if element_type.is_integer:
        with np.errstate(over="ignore"):
            first, last = (as_unsigned(wrap(x, _word_type(element_type))).astype(np.uint64) for x in (a, b))
            span = (last - first) & np.uint64(2 ** (64 if element_type.bits == 64 else 32) - 1)
            offset = drawn[:, 0] % span if span else drawn[:, 0]
            return wrap(first + offset, element_type).reshape(dimensions)
    real = np.float64 if element_type.bits == 64 else np.float32
    scale = real(2.0 ** -digits(element_type))
    with np.errstate(all="ignore"):
        if instruction.distribution == "rng_uniform":
            low, high = a.astype(real), b.astype(real)
            u = fractions(drawn[:, 0], element_type).astype(real) * scale
            values = round_to(low + u * (high - low), element_type)
            return np.where(values < b, values, a).astype(values.dtype).reshape(dimensions)
        normal = standard_normal(drawn, element_type)
        wide = normal.dtype.type
        return round_to(wide(a) + wide(b) * normal, element_type).reshape(dimensions)


def standard_normal(drawn: Array, element_type: ElementType) -> Array:
    """sqrt(-2 log u1) * cos(2 pi u2), in a wider type."""
    wide = np.longdouble if element_type.bits == 64 else np.float64
    scale = wide(2.0) ** -digits(element_type)
    u1, u2 = (fractions(drawn[:, n], element_type).astype(wide) for n in (0, 1))
    two_pi = 2 * wide("3.14159265358979323846264338327950288")
    return np.sqrt(-2 * np.log((u1 + 1) * scale)) * np.cos(two_pi * (u2 * scale))


def _word_type(element_type: ElementType) -> ElementType:
    if element_type.kind == "signed":
        return S64 if element_type.bits == 64 else S32
    return U64 if element_type.bits == 64 else U32


EXAMPLES = (
    Example(
        """a = f32[] constant(-1)
           b = f32[] constant(1)
           ROOT r = f32[3] rng(a, b), distribution=rng_uniform""",
        (),
        ("f32[3] {0.18378949, -0.18783736, 0.67920315}",),
    ),
    Example(
        """a = s32[] constant(1)
           b = s32[] constant(7)
           x = s32[2] rng(a, b), distribution=rng_uniform
           y = s32[2] rng(a, b), distribution=rng_uniform
           ROOT r = (s32[2], s32[2]) tuple(x, y)""",
        (),
        ("s32[2] {4, 1}", "s32[2] {6, 6}"),
        "throws of a die; the second instruction goes on where the first one ended",
    ),
    Example(
        """a = f32[] constant(10)
           b = f32[] constant(0.5)
           ROOT r = f32[2] rng(a, b), distribution=rng_normal""",
        (),
        ("f32[2] {9.574533, 10.251888}",),
    ),
)
COUNTEREXAMPLES = {
    "C1": "a = f32[] constant(0)\nb = f32[] constant(1)\nROOT r = f32[2] rng(a, b), distribution=rng_best",
    "C2": "a = s32[] constant(0)\nb = s32[] constant(1)\nROOT r = s32[2] rng(a, b), distribution=rng_normal",
    "C3": "a = f32[] constant(0)\nb = f32[] constant(1)\nROOT r = f64[2] rng(a, b), distribution=rng_uniform",
}
