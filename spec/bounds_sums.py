"""What the rules of sums and products share: their bounds, and computations of errors in place of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np

from .accuracy import computed_in
from .bounds import ERROR_TYPE, Error, interval, of_errors, outwards, rounded, undecided, unit_roundoff
from .module import Computation, Instruction
from .numerics import type_of
from .operation import make
from .types import Array, ElementType, Shape


def combination(opcode: str) -> Computation:
    """The reducer of errors with a binary operation."""
    a, b = (make("parameter", shape=Shape(ERROR_TYPE), number=n) for n in (0, 1))
    c = make(opcode, a, b)
    return Computation(f"{opcode}_errors", [a, b, c], c)


def sum_of_errors(i: Instruction) -> tuple[Instruction, tuple[bool, ...]]:
    """A reduce-window or scatter of errors with an addition, and which of its operands are errors (not indices)."""
    carried = (True, False, True) if i.opcode == "scatter" else (True, True)
    return replace(of_errors(i, carried), attributes={**i.attributes, "to_apply": combination("add")}), carried


def is_rounded(value: Array) -> bool:
    """Whether arithmetic in the value's type rounds."""
    return type_of(value).is_float or type_of(value).is_complex


def sum_bound(
    absolute: Array,
    errors: Array,
    count: Array | float,
    result: Array,
    certain: bool,
    finite: Array | None = None,
    center: Array | None = None,
    operands: Sequence[Array] = (),
) -> Error:
    """n u sum(|t| + e) + sum e for sums of `count` terms; the reference's own rounding counts as one addition more.

    u is that of the type in which the sum is computed; where the result's is narrower, `center` is the sum itself, in
    f64, and the bound that of one rounding of a number so near to it. `certain`: all terms are exact, so that a result
    that is not finite is certain. But where the finite terms together exceed what the type computed in holds, some
    orders of addition overflow and others do not: undecided. `finite` is the sum of the sizes of the finite terms,
    where there are others. `operands` are those of which the terms are made: where none is infinite, a complex sum of
    which one is NaN has a NaN part, which makes it NaN (compare.distance), whatever the formula.
    """
    if not is_rounded(result):
        return None if certain else undecided(result)
    computed = computed_in(type_of(result))
    largest = float(ml_dtypes.finfo(computed.dtype).max)
    bound = np.asarray(count, np.float64) * unit_roundoff(computed) * (absolute + errors) + errors
    if center is not None and is_narrow(result):
        bound = rounded(center, bound, result, certain)
    if certain:  # a sum of one term, or of zeros, is exact
        bound = np.where(np.isfinite(np.abs(result)) | is_narrow(result), bound, 0)
    # An infinite term makes the sum infinite; finite ones of narrower types do not add up to inf in f64, and whether
    # those of f64 do is seen where they are summed up by themselves. (Of complex numbers one part may be infinite and
    # the other overflow.)
    alone = largest < MAX_F64 or (finite is not None and finite <= largest)
    infinite = np.isinf(absolute) & alone & (not np.iscomplexobj(result))
    bound = np.where((absolute > largest) & ~infinite & ~np.isnan(np.abs(result)), np.inf, bound)
    if finite is not None:
        bound = np.where((finite > largest) & ~np.isnan(np.abs(result)), np.inf, bound)
    if np.iscomplexobj(result):  # which part of a product with an infinity is NaN, HLO does not say
        bound = np.where(np.isfinite(np.abs(result)), bound, np.inf)
        if certain and operands and not any(np.isinf(x).any() for x in operands):
            bound = np.where(np.isnan(absolute), 0, bound)
    return outwards(np.where(np.isfinite(bound), bound, np.inf))


MAX_F64 = float(np.finfo(np.float64).max)


def is_narrow(value: Array) -> bool:
    """Whether the type is narrower than the one in which its sums are computed."""
    return type_of(value).is_float and computed_in(type_of(value)) is not type_of(value)


def size_of(x: Array) -> Array:
    """|x|, of the least integer, too, which has no positive counterpart in its type."""
    return np.abs(x if type_of(x).is_complex else x.astype(np.float64)).astype(np.float64)


def in_f64(x: Array) -> Array:
    return x.astype(np.float64)


def finite_size(x: Array) -> Array:
    """The sizes of the finite elements, 0 for the others."""
    return np.where(np.isfinite(x), size_of(x), 0.0)


def above_one(x: Array) -> Array:
    """The sizes of finite elements above 1: their product is the largest that any order of multiplication meets."""
    size = np.abs(x).astype(np.float64)
    return np.where(np.isfinite(size), np.maximum(size, 1), 1)


def below_one(x: Array) -> Array:
    """The sizes of elements between 0 and 1: their product is the smallest that any order meets."""
    size = np.abs(x).astype(np.float64)
    return np.where(size > 0, np.minimum(size, 1), 1)


def in_any_order(bound: Array, result: Array, most: Array, least: Array) -> Array:
    """The bound of a product; undecided where some orders of multiplication overflow or underflow and others do not."""
    info = ml_dtypes.finfo(computed_in(type_of(result)).dtype)
    matters = (most > float(info.max)) | (least < float(info.smallest_normal))
    if type_of(result).is_complex:  # an infinite part times a zero is NaN in some orders
        matters = matters | ~np.isfinite(np.abs(result))
    return np.where(matters, np.inf, bound)


def growth_of(element_type: ElementType, roundings: Array | int) -> Array:
    """(1 + u)^n - 1 for the unit roundoff u and n roundings; in f64, where 1 + u may be 1."""
    return np.expm1(roundings * np.log1p(unit_roundoff(computed_in(element_type))))


def product_bound(
    whole: Array, wide: Array, count: Array | int, r: Array, certain: bool, center: Array | None = None
) -> Error:
    """Of products of `count` factors: `whole` is the size of the product, `wide` its size with the factors' errors.

    `center` is the product in f64, where the result's type is narrower than what it is computed in.
    """
    terms = count * (4 if type_of(r).is_complex else 1)
    growth = growth_of(type_of(r), terms)
    grown = (wide - whole) + wide * growth
    if center is not None and is_narrow(r):
        return rounded(center, grown, r, certain)
    bound = np.where(np.isfinite(np.abs(r)) & np.isfinite(grown), grown, 0 if certain else np.inf)
    # of subnormal results the roundings are absolute
    return outwards(bound + terms * float(np.nextafter(np.zeros((), r.dtype).real, r.dtype.type(1).real)))


def ends_of(value: Array, error: Array) -> tuple[Array, Array]:
    low, *_, high = interval(value, error)
    return low, high
