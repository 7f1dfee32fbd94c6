"""The rules of bounds.py for operations that are not elementwise: control flow, movement, sums, choices among elements.

A rule of CONTROL computes value and error, one of RULES the error alone from the operands, their errors and the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from .accuracy import computed_in
from .bounds import Bounds, Error, exact, filled, no_error, of_errors, outwards, undecided
from .bounds_sums import (
    above_one,
    below_one,
    combination,
    ends_of,
    finite_size,
    in_any_order,
    in_f64,
    is_narrow,
    is_rounded,
    product_bound,
    size_of,
    sum_bound,
    sum_of_errors,
)
from .compare import TINY, distance, same_bits
from .dynamic import meet_dimensions
from .module import Computation, Instruction
from .numerics import component_type, total_order_key, type_of
from .operation import operation
from .ops.reduce import by_component
from .sorting import ordered, sorted_order
from .types import Array, Value
from .vectorize import binary_opcode, lift, widening

# Control flow.


def _called(attribute: str) -> Any:
    def rule(self: Bounds, i: Instruction, values: list[Value], errors: list[Error]) -> tuple[Value, Error]:
        return self.run(getattr(i, attribute), values, errors)

    return rule


def _map(self: Bounds, i: Instruction, values: list[Array], errors: list[Error]) -> tuple[Value, Error]:
    lifted = lift(i.to_apply, values[0].shape)
    if lifted is None:
        result = self.evaluate(i, values)
        return result, undecided(result)
    return self.run(lifted, values, errors)


def _while(self: Bounds, i: Instruction, values: list[Value], errors: list[Error]) -> tuple[Value, Error]:
    """A loop whose condition is undecided may run more or fewer times: then all is undecided."""
    value, error = values[0], errors[0]
    while True:
        again, doubt = self.run(i.condition, (value,), (error,))
        if not exact(doubt):
            value = self.evaluate(i, [value])
            return value, undecided(value)
        if not again:
            return value, error
        value, error = self.run(i.body, (value,), (error,))


def _conditional(self: Bounds, i: Instruction, values: list[Value], errors: list[Error]) -> tuple[Value, Error]:
    from .ops.conditional import branches

    if not exact(errors[0]):
        result = self.evaluate(i, values)
        return result, undecided(result)
    called, index = branches(i), values[0]
    if index.dtype == np.bool_:
        chosen = 0 if index else 1
    else:
        chosen = int(index) if 0 <= index < len(called) else len(called) - 1
    return self.run(called[chosen], values[chosen + 1 : chosen + 2], errors[chosen + 1 : chosen + 2])


CONTROL = {
    "call": _called("to_apply"),
    "fusion": _called("calls"),
    "map": _map,
    "while": _while,
    "conditional": _conditional,
    "tuple": lambda self, i, values, errors: (tuple(values), tuple(errors)),
    "get-tuple-element": lambda self, i, values, errors: (values[0][i.index], errors[0][i.index]),
    "domain": lambda self, i, values, errors: (values[0], errors[0]),
    "opt-barrier": lambda self, i, values, errors: (values[0], errors[0]),
    "add-dependency": lambda self, i, values, errors: (values[0], errors[0]),
}

# Movement: errors go where their elements go; an undecided index leaves the whole result undecided.


def _moves(*data: int) -> Any:
    """The rule of an operation that moves its operands numbered `data` (none given: all); the others are indices."""

    def rule(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
        carried = [k in data or not data for k in range(len(values))]
        if not exact([e for e, c in zip(errors, carried, strict=True) if not c]):
            return undecided(result)
        if exact(errors):
            return None
        if i.opcode == "bitcast" and type_of(values[0]) is not type_of(result):
            return undecided(result)
        moved = [filled(v, e) if c else v for v, e, c in zip(values, errors, carried, strict=True)]
        return operation(i.opcode).evaluate(of_errors(i, carried), *moved)

    return rule


# Sums.


def _products(terms: Any) -> Any:
    """The rule of sums of products, `terms(i, lhs, rhs)` in each."""

    def rule(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
        certain = exact(errors)
        if not is_rounded(result):
            return None if certain else undecided(result)
        evaluate, j = operation(i.opcode).evaluate, of_errors(i, (True, True))
        sizes = list(map(size_of, values))
        absolute = evaluate(j, *sizes)
        spread = np.zeros(result.shape)
        if not certain:
            wide = evaluate(j, *(s + filled(s, e) for s, e in zip(sizes, errors, strict=True)))
            spread = np.maximum(wide - absolute, 0)  # |a| eb + ea |b| + ea eb
        count = terms(i, *values) * (4 if type_of(result).is_complex else 1) + 2
        count += sum(_is_rounded_into(v, result) for v in values)
        finite = None if np.all(np.isfinite(absolute)) else evaluate(j, *map(finite_size, values))
        # Of subnormal products the roundings are absolute; of complex zeros the sign depends on the formula.
        computed = component_type(computed_in(type_of(result)))
        least = float(ml_dtypes.finfo(computed.dtype).smallest_subnormal)
        if is_narrow(result):
            center = evaluate(j, *map(in_f64, values))
            spread = spread + np.where(absolute > 0, count * least, 0)
            return sum_bound(absolute, spread, count, result, certain, finite, center, values)
        bound = sum_bound(absolute, spread, count, result, certain, finite, operands=values)
        touched = absolute > 0
        if result.dtype == np.float64:  # in which the sizes of the products may be lost, too
            touched = evaluate(j, *((s > 0).astype(np.float64) for s in sizes)) > 0
        inexact = np.isfinite(np.abs(result)) & (touched | np.iscomplexobj(result))
        return np.where(inexact, bound + count * least, bound)

    return rule


def _is_rounded_into(operand: Array, result: Array) -> bool:
    """Whether integers of an operand are rounded where products are computed in the result's type."""
    computed = component_type(computed_in(type_of(result)))
    exact_bits: int = ml_dtypes.finfo(computed.dtype).nmant + 1
    return type_of(operand).is_integer and type_of(operand).bits > exact_bits


def _dot_terms(i: Instruction, lhs: Array, rhs: Array) -> int:
    return prod(lhs.shape[d] for d in i.lhs_contracting_dims)


def _convolution_terms(i: Instruction, lhs: Array, rhs: Array) -> int:
    return rhs.size // max(1, rhs.shape[i.dim_labels.kernel_output_feature])


def _convolution(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """Of sums of products; undecided where a NaN or an infinity of the kernel meets padding."""
    bound = _products(_convolution_terms)(self, i, values, errors, result)
    lhs, rhs = values
    if not is_rounded(result) or bool(np.isfinite(rhs.astype(np.complex128)).all()):
        return bound
    n = i.dim_labels
    if i.feature_group_count == 1:
        lhs, rhs = meet_dimensions(lhs, rhs, [(n.input_feature, n.kernel_input_feature)])
    odd = (~np.isfinite(rhs.astype(np.complex128))).astype(np.float64)
    met = operation("convolution").evaluate(of_errors(i, (True, True)), np.ones(lhs.shape), odd)
    odd = odd.sum(axis=tuple(d for d in range(odd.ndim) if d != n.kernel_output_feature))
    odd = odd.reshape([-1 if d == n.output_feature else 1 for d in range(result.ndim)])
    return np.where(met < odd, np.inf, filled(result, bound))


def _fft(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """Each element of a transform is a sum over all elements of its operand, turned; the inverse divides by their
    number."""
    (x,), (e,) = values, (filled(v, e) for v, e in zip(values, errors, strict=True))
    terms = prod(i.fft_length)
    axes = tuple(range(x.ndim - len(i.fft_length), x.ndim))
    twice = 2 if i.fft_type == "IRFFT" else 1  # each element stands for its mirror image, too
    divisor = max(1, terms) if i.fft_type in ("IFFT", "IRFFT") else 1
    sums = [twice * a.sum(axes, keepdims=True) / divisor for a in (np.abs(x).astype(np.float64), e)]
    absolute, spread = (np.broadcast_to(a, result.shape) for a in sums)
    error = sum_bound(absolute, spread, 4 * terms + 2, result, exact(errors), operands=values)
    largest = float(ml_dtypes.finfo(component_type(type_of(result)).dtype).max)
    # The sums, before they are divided, may overflow.
    error = np.where((2 * divisor * absolute < largest) | np.isnan(absolute), error, np.inf)
    return np.maximum(error, TINY)  # a sum of zeros has the sign that the order of its terms gives it


def _reduce(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Value) -> Error:
    if isinstance(result, tuple) and (parts := by_component(i)) is not None:
        return _apart(_reduce, self, parts, values, errors, result)
    axes, opcode, certain = tuple(i.dimensions), binary_opcode(i.to_apply), exact(errors)
    if wider := widening(i.to_apply):
        opcode, values = wider[0], [values[0].astype(values[1].dtype), values[1]]
    if not values[0].size:
        inits = errors[len(values) // 2 :]
        if isinstance(result, tuple):
            return tuple(_spread(e, r) for e, r in zip(inits, result, strict=True))
        return _spread(inits[0], result)
    if isinstance(result, tuple) or opcode not in (_REDUCED if is_rounded(result) else _ORDERLESS):
        return _reduce_in_pairs(self, i, values, errors, result)
    if not is_rounded(result):
        return None if certain else undecided(result)
    x, init = values
    return _REDUCED[opcode]((x, init), (filled(x, errors[0]), filled(init, errors[1])), axes, result, certain)


def _apart(
    rule: Callable[..., Error],
    self: Bounds,
    parts: list[Instruction],
    values: list[Array],
    errors: list[Error],
    results: tuple[Array, ...],
) -> Error:
    """The bounds of a reduction of N arrays as those of N reductions of one."""
    n = len(parts)
    return tuple(
        rule(self, part, [values[k], values[n + k]], [errors[k], errors[n + k]], result)
        for k, (part, result) in enumerate(zip(parts, results, strict=True))
    )


def _spread(error: Error, result: Array) -> Error:
    return None if error is None else np.broadcast_to(error, result.shape)


Pair = tuple[Array, Array]  # the elements that are reduced, and the initial value
Reduced = Callable[[Pair, Pair, tuple[int, ...], Array, bool], Error]  # of values, errors, dimensions, the result


def _reduced_sum(pair: Pair, es: Pair, axes: tuple[int, ...], r: Array, certain: bool) -> Error:
    absolute = np.abs(pair[0]).astype(np.float64).sum(axes) + np.abs(pair[1]).astype(np.float64)
    terms = pair[0].size // max(1, r.size)
    finite = finite_size(pair[0]).sum(axes) + finite_size(pair[1])
    center = in_f64(pair[0]).sum(axes) + in_f64(pair[1]) if is_narrow(r) else None
    return sum_bound(absolute, es[0].sum(axes) + es[1], terms + 1, r, certain, finite, center)


def _reduced_product(pair: Pair, es: Pair, axes: tuple[int, ...], r: Array, certain: bool) -> Error:
    sizes = [np.abs(p).astype(np.float64) for p in pair]
    whole = sizes[0].prod(axes) * sizes[1]
    wide = (sizes[0] + es[0]).prod(axes) * (sizes[1] + es[1])
    center = in_f64(pair[0]).prod(axes) * in_f64(pair[1]) if is_narrow(r) else None
    bound = product_bound(whole, wide, pair[0].size // max(1, r.size) + 1, r, certain, center)
    return in_any_order(bound, r, *(f(pair[0]).prod(axes) * f(pair[1]) for f in (above_one, below_one)))


def _reduced_extreme(ufunc: np.ufunc) -> Reduced:
    def rule(pair: Pair, es: Pair, axes: tuple[int, ...], r: Array, certain: bool) -> Error:
        if certain or type_of(r).is_complex:
            return None if certain else undecided(r)
        ends = [np.broadcast_arrays(*ends_of(v, e)) for v, e in zip(pair, es, strict=True)]
        bound = np.zeros(r.shape)
        for low_or_high in (0, 1):
            elements, init = (end[low_or_high].astype(np.float64) for end in ends)
            at = ufunc(ufunc.reduce(elements, axis=axes), init)  # a NaN wins, as it does in HLO
            bound = np.maximum(bound, distance(at, r.astype(np.float64)))
        return outwards(np.where(np.isinf(ufunc_error(es, axes)), np.inf, bound))

    return rule


def ufunc_error(es: Pair, axes: tuple[int, ...]) -> Array:
    """The largest error among the elements reduced."""
    return np.maximum(es[0].max(axes), es[1])


_REDUCED: dict[str | None, Reduced] = {
    "add": _reduced_sum,
    "multiply": _reduced_product,
    "maximum": _reduced_extreme(np.maximum),
    "minimum": _reduced_extreme(np.minimum),
}

# Operations that round nothing: a reducer made of them gives the same whatever the order, up to its choices.
_CHOOSING = frozenset(
    "parameter constant tuple get-tuple-element compare select and or xor not maximum minimum copy negate abs".split()
)


# Operations of integers that a reducer is made of if it gives the same in any order, as far as opcodes tell.
_ORDERLESS = _CHOOSING | {"add", "multiply"}


Pairs = tuple[list[Array], list[Array]]  # values, and their errors


def _reduce_in_pairs(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Value) -> Error:
    """Of a reducer that only chooses, such as argmax: neighbours combined, with their errors, until one is left."""
    reducer, n = i.to_apply, len(values) // 2
    floats = any(type_of(v).is_float or type_of(v).is_complex for v in values)
    if exact(errors) and (not floats or all(j.opcode in _CHOOSING for j in reducer.instructions)):
        return no_error(result) if is_orderless(reducer) else _where_orders_agree(self, i, values, result)
    axes = tuple(sorted(i.dimensions))
    others = tuple(d for d in range(values[0].ndim) if d not in axes)
    sizes = tuple(values[0].shape[d] for d in others)
    if any(j.opcode not in _CHOOSING for j in reducer.instructions) or lift(reducer, ()) is None:
        return undecided(result)

    def rows(a: Array) -> Array:
        return a.transpose(axes + others).reshape(-1, *sizes)

    def select(side: Pairs, part: slice | int) -> Pairs:
        return [v[part] for v in side[0]], [e[part] for e in side[1]]

    def combine(left: Pairs, right: Pairs) -> Pairs:
        lifted = lift(reducer, left[0][0].shape)
        assert lifted is not None  # since it can be lifted to scalars
        value, error = self.run(lifted, [*left[0], *right[0]], [*left[1], *right[1]])
        if not isinstance(value, tuple):
            value, error = (value,), (error,)
        return list(value), [filled(v, e) for v, e in zip(value, error, strict=True)]

    def joined(pairs: list[Array], rest: list[Array]) -> list[Array]:
        return [np.concatenate([p, r]) for p, r in zip(pairs, rest, strict=True)]

    current = [rows(v) for v in values[:n]], [rows(filled(v, e)) for v, e in zip(values[:n], errors[:n], strict=True)]
    while (count := len(current[0][0])) > 1:
        even = count // 2 * 2
        pairs = combine(select(current, slice(0, even, 2)), select(current, slice(1, even, 2)))
        rest = select(current, slice(even, None))
        current = joined(pairs[0], rest[0]), joined(pairs[1], rest[1])
    inits = [np.broadcast_to(v, sizes) for v in values[n:]]
    init_errors = [np.broadcast_to(filled(v, e), sizes) for v, e in zip(values[n:], errors[n:], strict=True)]
    _, error = combine((inits, init_errors), select(current, 0))
    return tuple(error) if isinstance(result, tuple) else error[0]


def is_orderless(reducer: Computation) -> bool:
    """Whether a reducer that rounds nothing is sure to give the same in any order."""
    return all(j.opcode in _ORDERLESS for j in reducer.instructions)


def _where_orders_agree(self: Bounds, i: Instruction, values: list[Array], result: Value) -> Error:
    """Of a reducer of integers that may give something else in another order, which is open (`subtract`): exact where
    the elements in reverse, and in reverse from the last but one on, give the same; undecided elsewhere."""
    n, axes = len(values) // 2, tuple(sorted(i.dimensions))
    several = isinstance(result, tuple)
    errors = [np.zeros(np.shape(r)) for r in (result if several else (result,))]
    for shift in (0, 1):
        moved = [np.roll(np.flip(v, axes), shift, axes) for v in values[:n]]
        other = self.evaluate(i, [*moved, *values[n:]])
        for error, r, o in zip(errors, result if several else (result,), other if several else (other,), strict=True):
            error[...] = np.where(r == o, error, np.inf)
    return tuple(errors) if several else errors[0]


def _reduce_window(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Value) -> Error:
    if isinstance(result, tuple) and (parts := by_component(i)) is not None:
        return _apart(_reduce_window, self, parts, values, errors, result)
    opcode = binary_opcode(i.to_apply)
    choosing = all(j.opcode in _CHOOSING for j in i.to_apply.instructions)
    if exact(errors) and (choosing or not any(is_rounded(v) for v in values)):
        return no_error(result)
    if isinstance(result, tuple) or not is_rounded(values[0]):
        return undecided(result)
    es = [filled(v, e) for v, e in zip(values, errors, strict=True)]
    if opcode == "add":
        j, _ = sum_of_errors(i)
        absolute = self.evaluate_errors(j, [np.abs(v).astype(np.float64) for v in values])
        spread = self.evaluate_errors(j, es) if not exact(errors) else np.zeros(result.shape)
        center = self.evaluate_errors(j, list(map(in_f64, values))) if is_narrow(result) else None
        count = prod(w.size for w in i.window) + 2
        finite = None if np.isfinite(absolute).all() else self.evaluate_errors(j, list(map(finite_size, values)))
        return sum_bound(absolute, spread, count, result, exact(errors), finite, center)
    if opcode == "multiply":
        j = replace(of_errors(i, (True, True)), attributes={**i.attributes, "to_apply": combination("multiply")})
        sizes = [np.abs(v).astype(np.float64) for v in values]
        wide = self.evaluate_errors(j, [size + e for size, e in zip(sizes, es, strict=True)])
        whole = self.evaluate_errors(j, sizes)
        center = self.evaluate_errors(j, list(map(in_f64, values))) if is_narrow(result) else None
        bound = product_bound(whole, wide, prod(w.size for w in i.window) + 1, result, exact(errors), center)
        most, least = (self.evaluate_errors(j, [f(v) for v in values]) for f in (above_one, below_one))
        return in_any_order(bound, result, most, least)
    if opcode in ("maximum", "minimum") and type_of(values[0]).is_float:
        ends = [ends_of(v, e) for v, e in zip(values, es, strict=True)]
        bound = np.zeros(result.shape)
        for k in (0, 1):
            bound = np.maximum(bound, distance(self.evaluate(i, [end[k] for end in ends]), result))
        return outwards(bound)
    return undecided(result)


# Orders.


def _sort(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Value) -> Error:
    """Sorted rows fall into groups that their errors keep apart; inside a group any element may be anywhere. Of rows
    that the comparator gives no order, nothing is known."""
    (axis,) = i.dimensions

    def rows(a: Array) -> Array:
        moved = np.moveaxis(a, axis, -1)
        return moved.reshape(prod(moved.shape[:-1]), moved.shape[-1])

    is_exact = exact(errors)
    errors = [filled(v, e) for v, e in zip(values, errors, strict=True)]
    flat, es = [rows(v) for v in values], [rows(e) for e in errors]
    if not flat[0].size:
        return no_error(result)
    order = sorted_order(i.to_apply, flat, self.interpreter.run)
    decided = ordered(i.to_apply, flat, order, self.interpreter.run)
    if is_exact and decided.all():
        return no_error(result)
    flat, es = ([np.take_along_axis(a, order, 1) for a in side] for side in (flat, es))
    lifted = lift(i.to_apply, flat[0][:, 1:].shape)
    if lifted is None:
        return undecided(result)
    worst = [np.broadcast_to(e.max(1, keepdims=True), e.shape) for e in es]
    pairs = [(a[:, :-1], a[:, 1:]) for a in flat], [(w[:, :-1], w[:, 1:]) for w in worst]
    used, spread = ([side for pair in part for side in pair] for part in pairs)
    _, forth = self.run(lifted, used, spread)
    swapped = ([side for pair in part for side in pair[::-1]] for part in pairs)
    _, back = self.run(lifted, *swapped)
    open_ = (filled(used[0], forth) > 0) | (filled(used[0], back) > 0)
    bounds = [np.where(decided[:, None], _group_error(a, e, open_), np.inf) for a, e in zip(flat, es, strict=True)]
    shape = np.moveaxis(values[0], axis, -1).shape
    bounds = [np.moveaxis(f.reshape(shape), -1, axis) for f in bounds]
    return tuple(bounds) if isinstance(result, tuple) else bounds[0]


def _group_error(sorted_values: Array, errors: Array, open_: Array) -> Array:
    """The error of each position of rows whose neighbours p and p + 1 may change places where open_[:, p]."""
    starts = np.concatenate([np.ones((len(open_), 1), bool), ~open_], axis=1).reshape(-1)
    first = np.flatnonzero(starts)
    if not first.size:
        return errors
    group = np.cumsum(starts) - 1
    flat, worst = sorted_values.reshape(-1), np.maximum.reduceat(errors.reshape(-1), first)
    alone = (np.diff(np.append(first, len(flat))) == 1)[group]
    wide = flat.astype(np.float64) if not np.iscomplexobj(flat) else np.abs(flat)
    low, high = np.minimum.reduceat(wide, first), np.maximum.reduceat(wide, first)
    differ = ~np.logical_and.reduceat(same_bits(flat, flat[first][group]), first)
    apart = np.maximum(distance(high, low), TINY) if type_of(flat).is_float else np.inf  # TINY: of 0 and -0
    apart = np.where(differ, np.where(np.isnan(low), np.inf, apart), 0)
    return outwards(np.where(alone, errors.reshape(-1), (apart + worst)[group])).reshape(errors.shape)


def _topk(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Value) -> Error:
    """The k-th largest moves no more than the largest error; an index is undecided where its neighbour comes near."""
    if exact(errors):
        return no_error(result)
    (x,), (e,) = values, errors
    keys = total_order_key(x)
    ranks = np.unique(keys, return_inverse=True)[1].reshape(x.shape)
    order = np.argsort(-ranks if i.largest else ranks, axis=-1, kind="stable")
    ordered = np.take_along_axis(x, order, -1).astype(np.float64)
    worst = e.max(-1, keepdims=True)
    near = distance(ordered[..., 1:], ordered[..., :-1]) <= 2 * worst
    none = np.zeros((*x.shape[:-1], 1), bool)
    doubt = np.concatenate([near, none], -1) | np.concatenate([none, near], -1)
    doubt = (doubt & (worst > 0))[..., : i.k]
    return np.broadcast_to(worst, result[0].shape), np.where(doubt, np.inf, 0.0)


RULES = {
    "broadcast": _moves(0),
    "reshape": _moves(0),
    "dynamic-reshape": _moves(0),
    "transpose": _moves(0),
    "reverse": _moves(0),
    "shuffle": _moves(0),
    "slice": _moves(0),
    "copy": _moves(0),
    "bitcast": _moves(0),
    "pad": _moves(0, 1),
    "concatenate": _moves(),
    "dynamic-slice": _moves(0),
    "dynamic-update-slice": _moves(0, 1),
    "set-dimension-size": _moves(0),
    "fft": _fft,
    "gather": _moves(0),
    "dot": _products(_dot_terms),
    "convolution": _convolution,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "sort": _sort,
    "topk": _topk,
}
