"""Sums and reductions as StableHLO's interpreter computes them: term by term, each step rounded to the type.

The order is row-major: for a dot over its contracting dimensions as listed, for a convolution over the window and then
the features, for a reduction over the operand, beginning with the initial value. Padding of a convolution is zeros,
that of a reduce-window the initial value. So each result is one number, and not a range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

import ml_dtypes
import numpy as np
from refxla_spec.compare import same_bits
from refxla_spec.indexing import window_slices
from refxla_spec.interpreter import Interpreter, run
from refxla_spec.module import Instruction
from refxla_spec.numerics import round_to, type_of
from refxla_spec.operation import operation
from refxla_spec.ops.reduce import apply
from refxla_spec.types import F64, ElementType

from ..cases import Case
from .predicates import part_of_rounding_at_each_step, site

Array = np.ndarray
Round = Callable[[Array], Array]  # numbers of f64 to those of the type, in f64

IN_ORDER = ("dot", "convolution", "reduce", "reduce-window")
# The largest observed share of the bound for rounding each step to a narrow type; 0: two units in the last place.
SHARES = {"scatter": 0.09, "select-and-scatter": 0.0, "triangular-solve": 0.0}
SMALL = ("f8e8m0fnu", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn")


def in_steps(case: Case, leaf: int, actual: Array, expected: Array) -> Array:
    """Where it is the result of rounding each step to the type of the result. For operations without an order of steps
    here, within the observed share of their bounds."""
    t = type_of(actual)
    if t.is_float and site(case, leaf).opcode in IN_ORDER:
        return steps_in(t, case, leaf, actual)
    return part_of_rounding_at_each_step(SHARES)(case, leaf, actual, expected)


def steps_in(t: ElementType, case: Case, leaf: int, actual: Array) -> Array:
    """Where the result of an instruction of IN_ORDER is that of rounding each step to a type; zeros of either sign are
    equal."""
    i = site(case, leaf)
    if i.shape.is_tuple and i is not case.module.entry.root:
        return np.zeros(actual.shape, bool)
    values = _evaluated(i, _values(case, i), lambda value: _rounded(value, t))
    value = values[leaf if i.shape.is_tuple else 0]
    return np.asarray(same_bits(actual, value) | ((actual == 0) & (value == 0)))


def _values(case: Case, i: Instruction) -> list[Array]:
    """The operands of an instruction of the entry computation."""
    entry = case.module.entry
    return [np.asarray(run(replace(case.module, entry=replace(entry, root=o)), case.inputs)) for o in i.operands]


def _rounded(value: Array, t: ElementType) -> Array:
    return step(value, t, False) if t.name in SMALL else round_to(value, t).astype(np.float64)


def step(value: Array, t: ElementType, signed: bool) -> Array:
    """A number as the interpreter rounds it to one of the smallest types, which have no infinities: those become zeros
    if there are zeros. f8e8m0fnu has neither zeros nor signs, and numbers out of its range become its ends; the sign is
    dropped. With `signed`, it sets the highest bit, and numbers above the range become NaN."""
    if t.name != "f8e8m0fnu":
        return round_to(np.where(np.isinf(value), np.copysign(0.0, value), value), t).astype(np.float64)
    info = ml_dtypes.finfo(t.dtype)
    size = np.maximum(np.abs(value), float(info.smallest_normal))  # NaN stays
    size = round_to(size if signed else np.minimum(size, float(info.max)), t)
    if signed:
        size = np.where(value < 0, (size.view(np.uint8) | 0x80).view(size.dtype), size)
    return size.astype(np.float64)


def _evaluated(i: Instruction, operands: list[Array], rounded: Round) -> tuple[Array, ...]:
    """The results of an instruction of IN_ORDER; `rounded` rounds sums of products."""
    with np.errstate(all="ignore"):
        if i.opcode in ("dot", "convolution"):
            lhs, rhs = operands
            return (_sum_of_products(i, lhs, rhs, rounded),)
        arrays, initial = operands[: len(operands) // 2], operands[len(operands) // 2 :]
        return (_reduced if i.opcode == "reduce" else _reduced_in_windows)(i, arrays, initial)


def _sum_of_products(i: Instruction, lhs: Array, rhs: Array, rounded: Round) -> Array:
    total = np.zeros(i.shape.dimensions)
    terms = _terms_of_dot if i.opcode == "dot" else _terms_of_convolution
    for term, a, b in terms(i, rounded(lhs.astype(np.float64)), rounded(rhs.astype(np.float64))):
        wide = replace(term, shape=i.shape.with_element_type(F64))
        total = rounded(total + rounded(np.asarray(operation(i.opcode).evaluate(wide, a, b))))
    return total.astype(i.shape.element_type.dtype)


def _terms_of_dot(i: Instruction, lhs: Array, rhs: Array) -> Iterator[tuple[Instruction, Array, Array]]:
    """Dots of one contracted element each."""
    for place in np.ndindex(*(lhs.shape[d] for d in i.lhs_contracting_dims)):
        a, b = lhs, rhs
        for k, d, e in zip(place, i.lhs_contracting_dims, i.rhs_contracting_dims, strict=True):
            a, b = np.take(a, [k], d), np.take(b, [k], e)
        yield i, a, b


def _terms_of_convolution(i: Instruction, lhs: Array, rhs: Array) -> Iterator[tuple[Instruction, Array, Array]]:
    """Convolutions of one element of the window and one feature of each group."""
    n = i.dim_labels
    features = rhs.shape[n.kernel_input_feature]
    for place in np.ndindex(*(d.size for d in i.window)):
        kernel, window = rhs, []
        for k, axis, d in zip(place, n.kernel_spatial, i.window, strict=True):
            kernel = np.take(kernel, [d.size - 1 - k if d.reversal else k], axis)
            low = d.padding_low - k * d.window_dilation
            high = d.padding_high - (d.size - 1 - k) * d.window_dilation
            window.append(replace(d, size=1, reversal=False, padding_low=low, padding_high=high))
        term = replace(i, attributes={**i.attributes, "window": tuple(window)})
        for f in range(features):
            own = [g * features + f for g in range(i.feature_group_count)]
            yield term, np.take(lhs, own, n.input_feature), np.take(kernel, [f], n.kernel_input_feature)


def _reduced(i: Instruction, arrays: list[Array], initial: list[Array]) -> tuple[Array, ...]:
    dimensions = tuple(sorted(i.dimensions))
    others = tuple(d for d in range(arrays[0].ndim) if d not in dimensions)
    count, sizes = prod(arrays[0].shape[d] for d in dimensions), _sizes(i)
    rows = [x.transpose(dimensions + others).reshape(count, *sizes) for x in arrays]
    totals = tuple(np.broadcast_to(v, sizes) for v in initial)
    for row in zip(*rows, strict=True):
        totals = apply(i.to_apply, totals, row, Interpreter().run)
    return totals


def _reduced_in_windows(i: Instruction, arrays: list[Array], initial: list[Array]) -> tuple[Array, ...]:
    sizes = _sizes(i)
    totals = tuple(np.broadcast_to(v, sizes) for v in initial)
    for place in np.ndindex(*(d.size for d in i.window)):
        placed, elements = window_slices(i.window, place, arrays[0].shape, sizes)
        row = tuple(np.array(np.broadcast_to(v, sizes)) for v in initial)
        for part, x in zip(row, arrays, strict=True):
            part[placed] = x[elements]
        totals = apply(i.to_apply, totals, row, Interpreter().run)
    return totals


def _sizes(i: Instruction) -> tuple[int, ...]:
    return (i.shape.elements or (i.shape,))[0].dimensions
