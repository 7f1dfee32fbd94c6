"""How two values are related where XLA:CPU differs: what the entries of xla.py explain elements by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
from refxla_spec.compare import distance, same_bits, ulp
from refxla_spec.indexing import window_slices
from refxla_spec.numerics import round_to, type_of
from refxla_spec.operation import operation
from refxla_spec.types import ELEMENT_TYPES, F32

from ..cases import Case
from .predicates import (
    ELEMENTWISE,
    evaluated,
    flushed,
    in_any_part,
    known,
    near,
    operands,
    site,
    subnormal,
    tiny,
)

XLA = "xla-cpu"
SUBNORMAL = (
    "IEEE 754-2019, 3.3: subnormal numbers are numbers of the format. XLA sets flush-to-zero and denormals-are-zero on "
    "its threads."
)
ANNEX_G = "C99, annex G (and F.9.4.3 for the modulus), is what special values of complex functions follow here; "

# The largest error seen of each function where XLA:CPU goes beyond the contract, in ULP, on the cases of this suite.
SEEN: dict[tuple[str, str], float] = {
    ("cbrt", "f64"): 3.0,
    ("exponential-minus-one", "f32"): 3.0,
    ("log-plus-one", "f32"): 2.0,
    ("logistic", "f16"): 2.0,
    ("logistic", "f32"): 2.0,
    ("logistic", "f64"): 2.0,
    ("sqrt", "f8e3m4"): 1.0,
    ("tanh", "f32"): 4.0,
    ("tanh", "f64"): 5.0,
}
# The largest part of what rounding each step to a narrow type might sum up to, on the cases of this suite.
SHARES = {
    "batch-norm-grad": 0.05,
    "batch-norm-inference": 0.15,
    "batch-norm-training": 0.03,
    "cholesky": 0.34,
    "dot": 0.15,
    "reduce": 0.31,
    "reduce-window": 0.26,
    "scatter": 0.09,
    "triangular-solve": 0.34,
}
# What JAX's wheel says where StableHLO cannot say a program.
NOT_READ = "Failed to parse using StableHLO"
# Complex functions whose special values are other ones, and that lose large and small numbers.
OF_NOT_FINITE = "abs cosine exponential exponential-minus-one logistic power sine sqrt".split()
OF_EXTREMES = (
    "abs cosine exponential exponential-minus-one log log-plus-one logistic power rsqrt sign sine sqrt tan tanh".split()
)


def _saturated(x: np.ndarray) -> np.ndarray:
    """Where a number of f6 is the largest one of either sign, or the -0 that a NaN becomes."""
    if type_of(x).name[:2] != "f6":
        return np.zeros(x.shape, bool)
    return (np.abs(x) == ml_dtypes.finfo(x.dtype).max) | (x == 0)


def _smallest(got: np.ndarray, expected: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """Where 2^-127, which is subnormal in f32, goes in or comes out, and no number comes out of the type itself."""
    found = np.zeros(expected.shape, bool)
    for a in (expected, *given):
        if type_of(a).name == "f8e8m0fnu":
            found |= a.astype(np.float64) == 2.0**-127
    return found


def _of_no_exponent(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where a function of a subnormal number is at most as large as that of the smallest normal one; of a logarithm,
    where the real part is -inf and the other an angle; of an angle, where it is pi with the other sign; of a power,
    where it is that of half the smallest subnormal number."""
    given = [o for o in operands(case, leaf) if o.shape == got.shape]
    some = in_any_part(subnormal, *given)
    if case.opcode == "cbrt":
        least = float(np.cbrt(float(ml_dtypes.finfo(got.dtype).smallest_normal)))
        return some & (np.abs(got) <= least)
    if case.opcode == "atan2" and type_of(got).is_float:
        return some & (np.abs(got.astype(np.float64)) == float(np.asarray(np.pi).astype(got.dtype)))
    if case.opcode == "power" and type_of(got).is_float:
        exponent = -1075 if type_of(got).bits == 64 else -150
        value = np.exp2(exponent * given[1].astype(np.longdouble)).astype(np.float64)
        return subnormal(given[0]) & (np.abs(got.astype(np.float64) - value) <= 4 * ulp(value, type_of(got)))
    if case.opcode == "log" and type_of(got).is_complex:
        angles = np.abs(got.imag)[..., None] - np.array([0, np.pi / 2, np.pi])
        return some & np.isneginf(got.real) & (np.abs(angles).min(-1) < 1e-6)
    return np.zeros(got.shape, bool)


def _tied(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are largest (or smallest) in some window together with another one, subnormal ones taken for zero,
    or are in a window with a NaN, which compares with none."""
    i = site(case, leaf)
    operand = operands(case, leaf)[0]
    if type_of(operand).is_float:
        operand = np.where(subnormal(operand), np.zeros((), operand.dtype), operand)
    counts = i.operands[1].shape.dimensions
    best = {"GE": np.maximum, "GT": np.maximum}.get(i.select.root.direction, np.minimum)
    placings = [window_slices(i.window, k, operand.shape, counts) for k in np.ndindex(*(w.size for w in i.window))]
    extreme = np.full(counts, np.nan)
    for placed, taken in placings:
        extreme[placed] = best(np.where(np.isnan(extreme[placed]), operand[taken], extreme[placed]), operand[taken])
    number = np.zeros(counts, int)
    for placed, taken in placings:
        number[placed] += operand[taken] == extreme[placed]
    tied = np.zeros(operand.shape, bool)
    unordered = np.zeros(counts, bool)
    for placed, taken in placings:
        unordered[placed] |= operand[taken] != operand[taken]
    for placed, taken in placings:
        tied[taken] |= ((operand[taken] == extreme[placed]) & (number[placed] > 1)) | unordered[placed]
    return tied & _adds_some(case, leaf, got)


def _adds_some(case: Case, leaf: int, got: np.ndarray) -> np.ndarray:
    """Where the result is the initial value and some of the source's elements whose windows hold it, combined."""
    i, t = site(case, leaf), type_of(got)
    operand, source, init = operands(case, leaf)
    held: list[list] = [[] for _ in range(got.size)]
    index = np.arange(got.size).reshape(got.shape)
    for k in np.ndindex(*(w.size for w in i.window)):
        placed, taken = window_slices(i.window, k, operand.shape, source.shape)
        for place, value in zip(index[taken].flat, source[placed].flat, strict=True):
            held[place].append(value)
    found = np.zeros(got.size, bool)
    combine = COMBINE[i.scatter.root.opcode]
    for place, values in enumerate(held):
        sums = [init]
        for value in values:
            sums += [combine(s, value).astype(got.dtype) for s in sums]
        one = np.broadcast_to(got.reshape(-1)[place], (len(sums),))
        found[place] = same_bits(one, np.asarray(sums, got.dtype)).any()
        if t.is_float and values:
            allowed = len(values) * ulp(np.abs(np.asarray(values, np.float64)).sum(), t)
            found[place] |= bool((distance(one, np.asarray(sums, got.dtype)) <= allowed).any())
    return found.reshape(got.shape)


def _equal_real_parts(expected: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """Where two of the operands have the same real part, or a part of one is NaN."""
    found = in_any_part(np.isnan, *given)
    for k, a in enumerate(given):
        for b in given[k + 1 :]:
            found = found | (a.real == b.real)
    return found


def _subnormal_terms(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where subnormal terms are lost: results off by as many times the smallest normal number as there are terms, or,
    of products, zero or NaN."""
    given = operands(case, leaf) if case.kind == "step" else [np.asarray(x) for x in case.inputs]
    if type_of(expected).kind not in ("float", "complex") or not given:
        return np.zeros(got.shape, bool)
    some = in_any_part(tiny, expected) | any(in_any_part(subnormal, x).any() for x in given if type_of(x).is_float)
    least = float(ml_dtypes.finfo(expected.real.dtype).smallest_normal)
    terms = max(x.size for x in given) / max(1, expected.size)
    with np.errstate(all="ignore"):
        product = (got == 0) | np.isnan(got)  # of a subnormal number with a large one, or an infinity
        return some & (product | (distance(got, expected) <= 2 * max(2.0, terms) * least))


def _both_nan(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of each two results of topk, values and places: where both are NaNs, or places of NaNs."""
    if got.dtype.kind not in "iu":
        return np.isnan(got) & np.isnan(expected)
    nan = np.isnan(operands(case, leaf)[0])
    if got.shape[:-1] != nan.shape[:-1] or not np.all((got >= 0) & (got < nan.shape[-1])):
        return np.zeros(got.shape, bool)
    return np.take_along_axis(nan, got, -1) & np.take_along_axis(nan, expected, -1)


def _by_way_of_f32(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are what two roundings give."""
    x = next(iter(operands(case, leaf)), None)
    if x is None or type_of(x).name != "f64" or not type_of(expected).is_float:
        return np.zeros(got.shape, bool)
    return same_bits(got, round_to(round_to(x, F32), type_of(expected)))


def _sums_by_way_of_f16(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are what sums in f32 give when they are rounded to f16 first."""
    i = site(case, leaf)
    wide = replace(i, shape=replace(i.shape, element_type=F32))
    with np.errstate(all="ignore"):
        sums = np.asarray(operation(i.opcode).evaluate(wide, *operands(case, leaf)))
    return same_bits(got, round_to(round_to(sums, ELEMENT_TYPES["f16"]), type_of(got)))


def _integers_by_way_of_f32(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are what two roundings of an integer give."""
    x = next(iter(operands(case, leaf)), None)
    if x is None or not type_of(x).is_integer or not type_of(expected).is_float or type_of(expected).bits > 16:
        return np.zeros(got.shape, bool)
    return same_bits(got, round_to(x.astype(np.float32), type_of(expected)))


def _nan_for_infinities(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are NaN where an infinity is expected."""
    return np.isnan(got) & np.isinf(expected)


def _spread_in_the_matrix(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """NaN where the two matrices that belong together hold a NaN or an infinity."""
    if site(case, leaf).opcode != "triangular-solve" or len(operands(case, leaf)) != 2:
        return np.zeros(got.shape, bool)
    special = [~np.isfinite(x).all(axis=(-2, -1), keepdims=True) for x in operands(case, leaf)]
    return np.isnan(got) & np.logical_or(*special)


def _of_six_bits(got: np.ndarray, expected: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """Where an integer is the power of the exponent modulo 64."""
    if not type_of(expected).is_integer:
        return np.zeros(got.shape, bool)
    x, y = (g.astype(object) for g in given)
    turns = 2 ** type_of(got).bits
    found = [
        int(g) % turns == pow(int(a), int(b) % 64, turns) for g, a, b in zip(got.flat, x.flat, y.flat, strict=True)
    ]
    return np.reshape(found, got.shape) & (y >= 64).astype(bool)


def _ones(x: np.ndarray) -> np.ndarray:
    """How many bits of each byte are set."""
    return np.unpackbits(x.view(np.uint8).reshape(-1, 1), axis=1).sum(1, dtype=np.int64).reshape(x.shape)


def _end(x: np.ndarray, sign: int) -> int:
    """The largest number of an integer type, or the smallest; of another type a number that it does not have."""
    if not type_of(x).is_integer:
        return -1
    info = ml_dtypes.iinfo(x.dtype)
    return int(info.max if sign > 0 else info.min)


def case_of_one(given: Sequence[np.ndarray]) -> np.ndarray:
    """Where one is raised to a power."""
    return (given[0] == 1) if len(given) == 2 else np.zeros(given[0].shape, bool)


def _by_wider_precision(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where a subnormal number has the digits and exponents that it has in a wider type, or becomes zero."""
    (x,) = operands(case, leaf)
    found = got == 0
    for wide in (np.float16, np.float32, ml_dtypes.bfloat16):
        value = evaluated(case, leaf, [x.astype(wide)])
        found |= same_bits(got, round_to(value.astype(np.float64), type_of(got)))
    return found & in_any_part(subnormal, x)


def _without_the_smallest(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where 2^-127 goes in or comes out of f8e8m0fnu, and the result is NaN, or what zero or 2^-150 give in its
    place, to the next number of the type."""
    given = operands(case, leaf)
    met = _smallest(got, expected, *(o for o in given if o.shape == got.shape))
    met = met | any(o.shape != got.shape and _smallest(got, o).any() for o in given if type_of(o).name == "f8e8m0fnu")
    found = np.isnan(got) if type_of(got).is_float else np.zeros(got.shape, bool)
    if case.opcode in ELEMENTWISE and case.opcode != "bitcast-convert":
        for instead in (0.0, 2.0**-150):
            wide = [
                np.where(o.astype(np.float64) == 2.0**-127, instead, o.astype(np.float64))
                if type_of(o).name == "f8e8m0fnu"
                else o
                for o in given
            ]
            value = evaluated(case, leaf, wide)
            if type_of(got).name == "f8e8m0fnu":
                value = round_to(value.astype(np.float64), type_of(got))
            found = found | (same_bits(got, value) if value.dtype == got.dtype else got == value)
    return met & found


def _mirrored(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """On the cut of atan2: where the real part is pi or -pi, and the other one of these is asked for."""
    both = (np.abs(expected.real) > 3.14159) & (np.sign(got.real) == -np.sign(expected.real))
    return both & near(np.abs(got.real) + 1j * got.imag, np.abs(expected.real) + 1j * expected.imag)


def _one_of(got: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """Where the result is one of the operands."""
    return np.logical_or.reduce([same_bits(got, g.astype(got.dtype)) for g in given])


def _by_real_parts(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where the result of clamp is an operand with the real part that is asked for, or one beside a NaN."""
    given = [np.broadcast_to(o, got.shape) for o in operands(case, leaf)]
    return _one_of(got, *given) & ((got.real == expected.real) | np.isnan(got) | np.isnan(expected))


def _beside(got: np.ndarray, expected: np.ndarray, x: np.ndarray, *_: np.ndarray) -> np.ndarray:
    """Where the result is an integer next to the operand; of f4e2m1fn's 6 the largest or smallest integer."""
    exact = x.astype(np.float64)
    next_to = np.abs(got.astype(np.float64) - exact) < 1
    return next_to | ((np.abs(exact) == 6) & (type_of(x).name == "f4e2m1fn"))


def _of_distribution(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Numbers that rng may draw: of uniform ones those from a up to b, of normal ones all that are finite."""
    i, numbers = site(case, leaf), got.astype(np.float64)
    if i.opcode == "add" and i.operands[0].opcode == "rng":  # and a parameter
        i, numbers = i.operands[0], numbers - operands(case, leaf)[0]
        got = numbers
    given = known(case, i)
    if i.opcode != "rng" or len(given) != 2:
        return np.zeros(got.shape, bool)
    first, second = (float(x) for x in given)
    if i.distribution == "rng_normal":
        fits, mean, deviation = np.isfinite(numbers), first, second
    else:
        fits, mean, deviation = (got >= first) & (got < second), (first + second) / 2, (second - first) / 3.4
    # and they are no constant: their mean is within 6 of its deviations, and so is their spread
    spread = 6 * deviation / np.sqrt(max(1, got.size))
    random = abs(numbers.mean() - mean) <= spread and (got.size < 4 or numbers.std() > 0) if got.size else True
    return fits & random


def _flushed_at_each_step(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements of an elementwise program that are, but for 4 ULPs, what comes where subnormal operands and results of
    each of its instructions are zeros."""
    if not type_of(got).is_float:
        return np.zeros(got.shape, bool)
    values: dict[str, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for i in case.module.entry.instructions:
            if i.opcode == "parameter":
                values[i.name] = flushed(np.asarray(case.inputs[i.attributes["number"]]))
            elif i.opcode != "tuple":
                given = [values[o.name] for o in i.operands]
                values[i.name] = flushed(np.asarray(operation(i.opcode).evaluate(i, *given)))
        value = values[site(case, leaf).name]
        return same_bits(got, value) | (distance(got, value) <= 4 * ulp(value))


def _contracted(case: Case, leaf: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements of a sum or difference of a product of parameters and a parameter that round its exact value."""
    i, found = site(case, leaf), np.zeros(got.shape, bool)
    product = [o for o in i.operands if o.opcode == "multiply"]
    if i.opcode not in ("add", "subtract") or len(product) != 1 or not type_of(got).is_float:
        return found
    if len(known(case, product[0])) != 2 or len(known(case, i)) != 1:
        return found
    (x, y), (z,) = known(case, product[0]), known(case, i)
    first = i.operands[0] is product[0]
    for n, numbers in enumerate(zip(*(v.astype(np.float64).flat for v in (got, x, y, z)), strict=True)):
        if np.isfinite(numbers).all():
            g, a, b, c = map(Fraction, numbers)
            signs = (1, 1) if i.opcode == "add" else (1, -1) if first else (-1, 1)
            half = Fraction(float(ulp(got.reshape(-1)[n : n + 1])[0])) * Fraction(513, 1024)  # narrow types round twice
            found.flat[n] = abs(g - signs[0] * a * b - signs[1] * c) <= half
    return found


COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
