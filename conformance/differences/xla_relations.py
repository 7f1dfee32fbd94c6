"""Relations between two values where XLA:CPU differs: the building blocks of the entries in xla.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
from refxla_spec.compare import distance, same_bits, ulp, ulp_distance
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
    is_near,
    known_operands,
    operands,
    part_of_rounding_at_each_step,
    site,
    subnormal,
    tiny,
)
from .rounded_steps import in_steps

XLA = "xla-cpu"
SUBNORMAL = (
    "IEEE 754-2019, 3.3: subnormal numbers are numbers of the format. XLA sets flush-to-zero and denormals-are-zero on "
    "its threads."
)
ANNEX_G = "C99, annex G (and F.9.4.3 for the modulus), is what special values of complex functions follow here; "

# The largest observed error of each function if XLA:CPU exceeds the contract, in ULP, on the cases of this suite.
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
# The largest observed share of the bound for rounding each step to a narrow type, on the cases of this suite.
SHARES = {
    "batch-norm-grad": 0.05,
    "batch-norm-inference": 0.15,
    "batch-norm-training": 0.03,
    "cholesky": 0.34,
    "dot": 0.15,
    "reduce": 0.31,
    "scatter": 0.09,
    "triangular-solve": 0.34,
}
# What JAX's wheel reports if StableHLO cannot represent a program.
NOT_READ = "Failed to parse using StableHLO"
# Complex functions whose special values differ, and that lose large and small numbers.
OF_NOT_FINITE = "abs cosine exponential exponential-minus-one logistic power sine sqrt".split()
OF_EXTREMES = (
    "abs cosine exponential exponential-minus-one log log-plus-one logistic power rsqrt sign sine sqrt tan tanh".split()
)


def _steps(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where a reduction in windows, or one of at most 8 bits, is the result of its steps in order; where a dot of at
    most 8 bits is the next number; where other operations are within the observed shares of their bounds."""
    opcode, t = site(case, leaf).opcode, type_of(actual)
    few_bits = t.is_float and t.bits <= 8
    if opcode == "reduce-window" or (few_bits and opcode == "reduce"):
        return in_steps(case, leaf, actual, expected)
    if few_bits and opcode == "dot":
        with np.errstate(all="ignore"):
            return np.asarray(np.isfinite(expected) & (ulp_distance(actual, expected) <= 1))
    return part_of_rounding_at_each_step(SHARES)(case, leaf, actual, expected)


def _saturated(x: np.ndarray) -> np.ndarray:
    """Where a number of f6 is the largest one of either sign, or the -0 that a NaN becomes."""
    if type_of(x).name[:2] != "f6":
        return np.zeros(x.shape, bool)
    return np.asarray((np.abs(x) == ml_dtypes.finfo(x.dtype).max) | (x == 0))


def _smallest(actual: np.ndarray, expected: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """Where 2^-127, which is subnormal in f32, is an input or output, and no number results from the type itself."""
    mask = np.zeros(expected.shape, bool)
    for a in (expected, *inputs):
        if type_of(a).name == "f8e8m0fnu":
            mask |= a.astype(np.float64) == 2.0**-127
    return mask


def _of_no_exponent(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where a function of a subnormal number is at most as large as that of the smallest normal one; for a logarithm,
    where the real part is -inf and the other an angle; for an angle, where it is pi with the other sign; for a power,
    where it is that of half the smallest subnormal number."""
    inputs = [o for o in operands(case, leaf) if o.shape == actual.shape]
    some = in_any_part(subnormal, *inputs)
    if case.opcode == "cbrt":
        least = float(np.cbrt(float(ml_dtypes.finfo(actual.dtype).smallest_normal)))
        return np.asarray(some & (np.abs(actual) <= least))
    if case.opcode == "atan2" and type_of(actual).is_float:
        return np.asarray(some & (np.abs(actual.astype(np.float64)) == float(np.asarray(np.pi).astype(actual.dtype))))
    if case.opcode == "power" and type_of(actual).is_float:
        exponent = -1075 if type_of(actual).bits == 64 else -150
        value = np.exp2(exponent * inputs[1].astype(np.longdouble)).astype(np.float64)
        return subnormal(inputs[0]) & (np.abs(actual.astype(np.float64) - value) <= 4 * ulp(value, type_of(actual)))
    if case.opcode == "log" and type_of(actual).is_complex:
        angles = np.abs(actual.imag)[..., None] - np.array([0, np.pi / 2, np.pi])
        return np.asarray(some & np.isneginf(actual.real) & (np.abs(angles).min(-1) < 1e-6))
    return np.zeros(actual.shape, bool)


def _tied(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are the maximum (or minimum) of some window together with another one, with subnormal ones taken as
    zero, or are in a window with a NaN, which is unordered."""
    i = site(case, leaf)
    operand = operands(case, leaf)[0]
    if type_of(operand).is_float:
        operand = np.where(subnormal(operand), np.zeros((), operand.dtype), operand)
    counts = i.operands[1].shape.dimensions
    best = {"GE": np.maximum, "GT": np.maximum}.get(i.select.root.direction, np.minimum)
    placings = [window_slices(i.window, k, operand.shape, counts) for k in np.ndindex(*(w.size for w in i.window))]
    extreme = np.full(counts, np.nan)
    for placed, elements in placings:
        extreme[placed] = best(
            np.where(np.isnan(extreme[placed]), operand[elements], extreme[placed]), operand[elements]
        )
    number = np.zeros(counts, int)
    for placed, elements in placings:
        number[placed] += operand[elements] == extreme[placed]
    tied = np.zeros(operand.shape, bool)
    unordered = np.zeros(counts, bool)
    for placed, elements in placings:
        unordered[placed] |= operand[elements] != operand[elements]
    for placed, elements in placings:
        tied[elements] |= ((operand[elements] == extreme[placed]) & (number[placed] > 1)) | unordered[placed]
    return np.asarray(tied & _adds_some(case, leaf, actual))


def _adds_some(case: Case, leaf: int, actual: np.ndarray) -> np.ndarray:
    """Where the result is the initial value combined with some of the source's elements whose windows contain it."""
    i, t = site(case, leaf), type_of(actual)
    operand, source, init = operands(case, leaf)
    contributions: list[list[np.generic]] = [[] for _ in range(actual.size)]
    index = np.arange(actual.size).reshape(actual.shape)
    for k in np.ndindex(*(w.size for w in i.window)):
        placed, elements = window_slices(i.window, k, operand.shape, source.shape)
        for place, value in zip(index[elements].flat, source[placed].flat, strict=True):
            contributions[place].append(value)
    mask = np.zeros(actual.size, bool)
    combine = COMBINE[i.scatter.root.opcode]
    for place, values in enumerate(contributions):
        sums = [init]
        for value in values:
            sums += [combine(s, value).astype(actual.dtype) for s in sums]
        one = np.broadcast_to(actual.reshape(-1)[place], (len(sums),))
        mask[place] = same_bits(one, np.asarray(sums, actual.dtype)).any()
        if t.is_float and values:
            allowed = len(values) * ulp(np.asarray(np.abs(np.asarray(values, np.float64)).sum()), t)
            mask[place] |= bool((distance(one, np.asarray(sums, actual.dtype)) <= allowed).any())
    return mask.reshape(actual.shape)


def _equal_real_parts(expected: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """Where two of the operands have the same real part, or a part of one is NaN."""
    mask = in_any_part(np.isnan, *inputs)
    for k, a in enumerate(inputs):
        for b in inputs[k + 1 :]:
            mask = mask | (a.real == b.real)
    return mask


def _subnormal_terms(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where subnormal terms are lost: results off by as many times the smallest normal number as there are terms, or,
    for products, zero or NaN."""
    inputs = operands(case, leaf) if case.kind == "step" else [np.asarray(x) for x in case.inputs]
    if type_of(expected).kind not in ("float", "complex") or not inputs:
        return np.zeros(actual.shape, bool)
    some = in_any_part(tiny, expected) | any(in_any_part(subnormal, x).any() for x in inputs if type_of(x).is_float)
    least = float(ml_dtypes.finfo(expected.real.dtype).smallest_normal)
    terms = max(x.size for x in inputs) / max(1, expected.size)
    with np.errstate(all="ignore"):
        product = (actual == 0) | np.isnan(actual)  # of a subnormal number with a large one, or an infinity
        return np.asarray(some & (product | (distance(actual, expected) <= 2 * max(2.0, terms) * least)))


def _both_nan(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """For each two results of topk, values and positions: where both are NaNs, or positions of NaNs."""
    if actual.dtype.kind not in "iu":
        return np.asarray(np.isnan(actual) & np.isnan(expected))
    nan = np.isnan(operands(case, leaf)[0])
    if actual.shape[:-1] != nan.shape[:-1] or not np.all((actual >= 0) & (actual < nan.shape[-1])):
        return np.zeros(actual.shape, bool)
    return np.asarray(np.take_along_axis(nan, actual, -1) & np.take_along_axis(nan, expected, -1))


def _by_way_of_f32(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are the result of double rounding."""
    x = next(iter(operands(case, leaf)), None)
    if x is None or type_of(x).name != "f64" or not type_of(expected).is_float:
        return np.zeros(actual.shape, bool)
    return same_bits(actual, round_to(round_to(x, F32), type_of(expected)))


def _sums_by_way_of_f16(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are the result of sums in f32 that are first rounded to f16."""
    i = site(case, leaf)
    wide = replace(i, shape=replace(i.shape, element_type=F32))
    with np.errstate(all="ignore"):
        sums = np.asarray(operation(i.opcode).evaluate(wide, *operands(case, leaf)))
    return same_bits(actual, round_to(round_to(sums, ELEMENT_TYPES["f16"]), type_of(actual)))


def _integers_by_way_of_f32(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are the result of double rounding of an integer."""
    x = next(iter(operands(case, leaf)), None)
    if x is None or not type_of(x).is_integer or not type_of(expected).is_float or type_of(expected).bits > 16:
        return np.zeros(actual.shape, bool)
    return same_bits(actual, round_to(x.astype(np.float32), type_of(expected)))


def _nan_for_infinities(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that are NaN where an infinity is expected."""
    return np.asarray(np.isnan(actual) & np.isinf(expected))


def _spread_in_the_matrix(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """NaN where the two corresponding matrices contain a NaN or an infinity."""
    if site(case, leaf).opcode != "triangular-solve" or len(operands(case, leaf)) != 2:
        return np.zeros(actual.shape, bool)
    special = [~np.isfinite(x).all(axis=(-2, -1), keepdims=True) for x in operands(case, leaf)]
    return np.asarray(np.isnan(actual) & np.logical_or(*special))


def _of_six_bits(actual: np.ndarray, expected: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """Where an integer is the power of the exponent modulo 64."""
    if not type_of(expected).is_integer:
        return np.zeros(actual.shape, bool)
    x, y = (g.astype(object) for g in inputs)
    turns = 2 ** type_of(actual).bits
    matches = [
        int(g) % turns == pow(int(a), int(b) % 64, turns) for g, a, b in zip(actual.flat, x.flat, y.flat, strict=True)
    ]
    return np.asarray(np.reshape(matches, actual.shape) & (y >= 64).astype(bool))


def _ones(x: np.ndarray) -> np.ndarray:
    """How many bits of each byte are set."""
    return np.asarray(np.unpackbits(x.view(np.uint8).reshape(-1, 1), axis=1).sum(1, dtype=np.int64).reshape(x.shape))


def _end(x: np.ndarray, sign: int) -> int:
    """The maximum of an integer type, or the minimum; for another type a number that it does not have."""
    if not type_of(x).is_integer:
        return -1
    info = ml_dtypes.iinfo(x.dtype)
    return int(info.max if sign > 0 else info.min)


def case_of_one(inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Where one is raised to a power."""
    return (inputs[0] == 1) if len(inputs) == 2 else np.zeros(inputs[0].shape, bool)


def _by_wider_precision(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where a subnormal number has the digits and exponents that it has in a wider type, or becomes zero."""
    (x,) = operands(case, leaf)
    mask = actual == 0
    for wide in (np.float16, np.float32, ml_dtypes.bfloat16):
        value = evaluated(case, leaf, [x.astype(wide)])
        mask |= same_bits(actual, round_to(value.astype(np.float64), type_of(actual)))
    return np.asarray(mask & in_any_part(subnormal, x))


def _without_the_smallest(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where 2^-127 is an input or output of f8e8m0fnu, and the result is NaN, or that for zero or 2^-150 in its place,
    to the next number of the type."""
    inputs = operands(case, leaf)
    met = _smallest(actual, expected, *(o for o in inputs if o.shape == actual.shape))
    met = met | any(
        o.shape != actual.shape and _smallest(actual, o).any() for o in inputs if type_of(o).name == "f8e8m0fnu"
    )
    mask = np.isnan(actual) if type_of(actual).is_float else np.zeros(actual.shape, bool)
    if case.opcode in ELEMENTWISE and case.opcode != "bitcast-convert":
        for instead in (0.0, 2.0**-150):
            wide = [
                np.where(o.astype(np.float64) == 2.0**-127, instead, o.astype(np.float64))
                if type_of(o).name == "f8e8m0fnu"
                else o
                for o in inputs
            ]
            value = evaluated(case, leaf, wide)
            if type_of(actual).name == "f8e8m0fnu":
                value = round_to(value.astype(np.float64), type_of(actual))
            mask = mask | (same_bits(actual, value) if value.dtype == actual.dtype else actual == value)
    return np.asarray(met & mask)


def _mirrored(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """On the cut of atan2: where the real part is pi or -pi, and the other one of these is expected."""
    both = (np.abs(expected.real) > 3.14159) & (np.sign(actual.real) == -np.sign(expected.real))
    return np.asarray(
        both & is_near(np.abs(actual.real) + 1j * actual.imag, np.abs(expected.real) + 1j * expected.imag)
    )


def _one_of(actual: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """Where the result is one of the operands."""
    return np.asarray(np.any([same_bits(actual, g.astype(actual.dtype)) for g in inputs], axis=0))


def _by_real_parts(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where the result of clamp is an operand with the expected real part, or one paired with a NaN."""
    inputs = [np.broadcast_to(o, actual.shape) for o in operands(case, leaf)]
    return np.asarray(
        _one_of(actual, *inputs) & ((actual.real == expected.real) | np.isnan(actual) | np.isnan(expected))
    )


def _is_next_integer(actual: np.ndarray, expected: np.ndarray, x: np.ndarray, *_: np.ndarray) -> np.ndarray:
    """Where the result is an integer next to the operand; for f4e2m1fn's 6, the maximum or minimum integer."""
    exact = x.astype(np.float64)
    next_to = np.abs(actual.astype(np.float64) - exact) < 1
    return np.asarray(next_to | ((np.abs(exact) == 6) & (type_of(x).name == "f4e2m1fn")))


def _of_distribution(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Numbers that rng may draw: for uniform ones those from a up to b, for normal ones all that are finite."""
    i, numbers = site(case, leaf), actual.astype(np.float64)
    if i.opcode == "add" and i.operands[0].opcode == "rng":  # and a parameter
        i, numbers = i.operands[0], numbers - operands(case, leaf)[0]
        actual = numbers
    inputs = known_operands(case, i)
    if i.opcode != "rng" or len(inputs) != 2:
        return np.zeros(actual.shape, bool)
    first, second = (float(x) for x in inputs)
    if i.distribution == "rng_normal":
        fits, mean, deviation = np.isfinite(numbers), first, second
    else:
        fits, mean, deviation = (actual >= first) & (actual < second), (first + second) / 2, (second - first) / 3.4
    # and they are not constant: their mean is within 6 standard deviations, and so is their spread
    spread = 6 * deviation / np.sqrt(max(1, actual.size))
    random = abs(numbers.mean() - mean) <= spread and (actual.size < 4 or numbers.std() > 0) if actual.size else True
    return fits & random


def _flushed_at_each_step(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements of an elementwise program that equal, within 4 ULPs, the result of flushing subnormal operands and
    results of each of its instructions to zero."""
    if not type_of(actual).is_float:
        return np.zeros(actual.shape, bool)
    values: dict[str, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for i in case.module.entry.instructions:
            if i.opcode == "parameter":
                values[i.name] = flushed(np.asarray(case.inputs[i.attributes["number"]]))
            elif i.opcode != "tuple":
                inputs = [values[o.name] for o in i.operands]
                values[i.name] = flushed(np.asarray(operation(i.opcode).evaluate(i, *inputs)))
        value = values[site(case, leaf).name]
        return same_bits(actual, value) | (distance(actual, value) <= 4 * ulp(value))


def _contracted(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements of a sum or difference of a product of parameters and a parameter that round its exact value."""
    i, mask = site(case, leaf), np.zeros(actual.shape, bool)
    product = [o for o in i.operands if o.opcode == "multiply"]
    if i.opcode not in ("add", "subtract") or len(product) != 1 or not type_of(actual).is_float:
        return mask
    if len(known_operands(case, product[0])) != 2 or len(known_operands(case, i)) != 1:
        return mask
    (x, y), (z,) = known_operands(case, product[0]), known_operands(case, i)
    first = i.operands[0] is product[0]
    for n, numbers in enumerate(zip(*(v.astype(np.float64).flat for v in (actual, x, y, z)), strict=True)):
        if np.isfinite(numbers).all():
            g, a, b, c = map(Fraction, numbers)
            signs = (1, 1) if i.opcode == "add" else (1, -1) if first else (-1, 1)
            # narrow types round twice
            half = Fraction(float(ulp(actual.reshape(-1)[n : n + 1])[0])) * Fraction(513, 1024)
            mask.flat[n] = abs(g - signs[0] * a * b - signs[1] * c) <= half
    return mask


COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def _of_a_variance_in_one_pass(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Variances whose error is within that of the mean of the squares, and results that are right for one of those."""
    if leaf == 1 or not np.size(case.inputs[0]):
        return np.zeros(actual.shape, bool)
    instruction = case.module.entry.root
    x, scale, offset = (np.asarray(v).astype(np.float64) for v in case.inputs)
    others = tuple(d for d in range(x.ndim) if d != instruction.feature_index)
    reach = 16 * np.finfo(expected.dtype).eps * np.mean(x * x, others)
    most = np.var(x, others) + reach
    if leaf == 2:
        return np.asarray((actual >= 0) & (actual <= most))
    shape = [-1 if d == instruction.feature_index else 1 for d in range(x.ndim)]
    centred = x - np.mean(x, others, keepdims=True)
    brought = (actual.astype(np.float64) - offset.reshape(shape)) / scale.reshape(shape)
    slope = np.sum(brought * centred, others) / np.sum(centred**2, others)  # 1 / sqrt(variance + epsilon)
    possible = (slope > 0) & (slope**-2 - instruction.epsilon <= most) & (slope**2 * instruction.epsilon < 1.001)
    away = np.abs(brought - slope.reshape(shape) * centred)
    return np.asarray(
        possible.reshape(shape) & (away <= 16 * np.finfo(expected.dtype).eps * np.abs(slope.reshape(shape) * x))
    )
