"""The rules of bounds.py for what combines values at places that are computed: scatter, select-and-scatter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .bounds import ERROR_TYPE, Bounds, Error, exact, filled, no_error, of_errors, outwards, undecided
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
from .compare import distance
from .indexing import window_count, window_slices
from .module import Computation, Instruction, Window
from .numerics import type_of
from .operation import make
from .types import Array, Shape, Value
from .vectorize import binary_opcode, components, lift


def _scatter(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Value) -> Error:
    n = len(values) // 2
    opcode = binary_opcode(i.to_apply)
    floats = is_rounded(values[0])
    overwrites = n == 1 and i.to_apply.root is i.to_apply.parameters[1]
    if exact(errors) and (overwrites or not floats or opcode in ("maximum", "minimum")):
        return no_error(result)
    if not exact(errors[n]):
        return undecided(result)
    if n > 1 and (parts := components(i.to_apply)) is not None:
        scatters = (_one_of_several(i, k, part, values, errors) for k, part in enumerate(parts))
        return tuple(_scatter(self, j, vs, es, r) for (j, vs, es), r in zip(scatters, result, strict=True))
    if n == 1 and not floats and opcode is not None:
        return undecided(result)
    carried = (True, False, True)
    if n > 1 or opcode not in ("add", "multiply", "maximum", "minimum") and not overwrites:
        return _scattered_once(self, i, values, errors, result)
    operand, indices, updates = values
    es = filled(operand, errors[0]), filled(updates, errors[2])
    if overwrites:
        a, b = (make("parameter", shape=Shape(ERROR_TYPE), number=k) for k in (0, 1))
        j = replace(of_errors(i, carried), attributes={**i.attributes, "to_apply": Computation("second", [a, b], b)})
        return self.evaluate_errors(j, [es[0], indices, es[1]])
    if opcode == "add":
        j, _ = sum_of_errors(i)
        zeros = np.zeros(operand.shape)
        count = self.evaluate_errors(j, [zeros, indices, np.ones(updates.shape)])
        absolute = self.evaluate_errors(
            j, [np.abs(operand).astype(np.float64), indices, np.abs(updates).astype(np.float64)]
        )
        spread = self.evaluate_errors(j, [es[0], indices, es[1]])
        # an element that nothing is added to keeps its bits
        center = None
        if is_narrow(result):
            center = self.evaluate_errors(j, [in_f64(operand), indices, in_f64(updates)])
        finite = None
        if not np.isfinite(absolute).all():
            finite = self.evaluate_errors(j, [finite_size(operand), indices, finite_size(updates)])
        count = np.where(count > 0, count + 1, 0)
        return sum_bound(absolute, spread, count, result, exact(errors), finite, center)
    if opcode == "multiply" and exact(errors) and type_of(operand).is_float:
        j, _ = sum_of_errors(i)
        count = self.evaluate_errors(j, [np.zeros(operand.shape), indices, np.ones(updates.shape)])
        product = replace(j, attributes={**i.attributes, "to_apply": combination("multiply")})
        center, whole = (self.evaluate_errors(product, [f(operand), indices, f(updates)]) for f in (in_f64, size_of))
        bound = product_bound(whole, whole, count + (count > 0), result, True, center)
        bound = np.where(count > 0, bound, 0)
        most, least = (self.evaluate_errors(product, [f(operand), indices, f(updates)]) for f in (above_one, below_one))
        return in_any_order(bound, result, np.where(count > 0, most, 1), np.where(count > 0, least, 1))
    if opcode in ("maximum", "minimum") and type_of(operand).is_float:
        ends = [ends_of(v, e) for v, e in ((operand, es[0]), (updates, es[1]))]
        bound = np.zeros(result.shape)
        for k in (0, 1):
            bound = np.maximum(bound, distance(self.evaluate(i, [ends[0][k], indices, ends[1][k]]), result))
        return outwards(bound)
    return undecided(result)


def _one_of_several(
    i: Instruction, k: int, part: Computation, values: list[Array], errors: list[Error]
) -> tuple[Instruction, list[Array], list[Error]]:
    """The k-th of several scatters that a computation does side by side, which combines its pair by `part`:
    (instruction, operands, their errors)."""
    n = len(values) // 2
    chosen = (k, n, n + 1 + k)
    single = replace(
        i,
        operands=[i.operands[m] for m in chosen],
        shape=i.shape.elements[k],
        attributes={**i.attributes, "to_apply": part},
    )
    return single, [values[m] for m in chosen], [errors[m] for m in chosen]


def _scattered_once(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
    """By any computation: decided where an element is changed once at most, since the order of several is open."""
    n = len(values) // 2
    indices, parts = values[n], result if isinstance(result, tuple) else (result,)
    a, b = (make("parameter", shape=Shape(ERROR_TYPE), number=k) for k in (0, 1))
    single = replace(i, operands=[i.operands[k] for k in (0, n, n + 1)], shape=Shape.of(parts[0]))
    j = of_errors(single, (True, False, True))
    last = replace(j, attributes={**i.attributes, "to_apply": Computation("second", [a, b], b)})
    zeros = np.zeros(values[0].shape)
    count = np.arange(values[n + 1].size, dtype=np.float64).reshape(values[n + 1].shape)
    source = self.evaluate_errors(last, [zeros - 1, indices, count]).astype(np.int64)  # which update comes where
    added = replace(j, attributes={**i.attributes, "to_apply": combination("add")})
    hits = self.evaluate_errors(added, [zeros, indices, np.ones(count.shape)])
    lifted = lift(i.to_apply, parts[0].shape)
    if lifted is None:
        return undecided(result)
    updates = [
        u.reshape(-1)[np.maximum(source, 0)] if u.size else np.zeros(source.shape, u.dtype) for u in values[n + 1 :]
    ]
    spread = [None if e is None else e.reshape(-1)[np.maximum(source, 0)] for e in errors[n + 1 :]]
    _, changed = self.run(lifted, [*values[:n], *updates], [*errors[:n], *spread])
    changes = changed if isinstance(changed, tuple) else (changed,)
    bounds = []
    for r, e, before in zip(parts, changes, errors[:n], strict=True):
        once = np.where(hits == 1, filled(r, e), np.inf)
        bounds.append(np.where(hits == 0, filled(r, before), once))
    return tuple(bounds) if isinstance(result, tuple) else bounds[0]


def _select_and_scatter(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """A window whose largest elements lie within their errors may give its source element to any of these."""
    operand, source, init = values
    counts = (window_count(s, w) for s, w in zip(operand.shape, i.window, strict=True))
    cut = tuple(slice(n) for n in counts)  # one of dynamic size may be longer
    source, errors = source[cut], [errors[0], None if errors[1] is None else errors[1][cut], errors[2]]
    opcode = binary_opcode(i.scatter)
    if exact(errors) and (opcode in ("maximum", "minimum") or not is_rounded(source)):
        return no_error(result)
    if exact(errors) and opcode == "multiply":
        return _selected_product(self, i, operand, source, init, result)
    if opcode != "add" or not type_of(operand).is_float:
        return undecided(result)
    e = filled(operand, errors[0])
    j = replace(
        i, attributes={**i.attributes, "scatter": combination("add")}, shape=replace(i.shape, element_type=ERROR_TYPE)
    )
    amount = np.abs(source).astype(np.float64)
    spread_source = filled(source, errors[1])

    def scattered(a: Array, start: Array) -> Array:
        return self.evaluate_errors(j, [operand, a, start])

    count = scattered(np.ones(source.shape), np.zeros(()))
    absolute = scattered(amount, np.abs(np.float64(init)))
    spread = scattered(spread_source, np.asarray(filled(init, errors[2])))
    if not exact(errors[0]):
        sign = {"GE": 1, "GT": 1, "LE": -1, "LT": -1}.get(_direction(i.select), 0)
        if not sign:
            return undecided(result)
        value = sign * operand.astype(np.float64)
        placings = list(_placings(i.window, operand.shape, source.shape))
        leader = np.full(source.shape, -np.inf)
        for placed, elements in placings:
            leader[placed] = np.maximum(leader[placed], (value - e)[elements])
        rivals, doubt = np.zeros(source.shape), np.zeros(source.shape)
        for placed, elements in placings:
            rival = (value + e)[elements] >= leader[placed]
            rivals[placed] += rival
            doubt[placed] = np.maximum(doubt[placed], np.where(rival, e[elements], 0))
        open_ = (rivals > 1) & (doubt > 0)
        extra = np.zeros(operand.shape)
        for placed, elements in placings:
            rival = open_[placed] & ((value + e)[elements] >= leader[placed])
            extra[elements] += np.where(rival, amount[placed] + spread_source[placed], 0)
            count[elements] += rival
        spread = spread + extra
    center = scattered(in_f64(source), in_f64(np.asarray(init))) if is_narrow(result) else None
    finite = None if np.isfinite(absolute).all() else scattered(finite_size(source), finite_size(np.asarray(init)))
    return sum_bound(absolute, spread, np.where(count > 0, count + 1, 0), result, exact(errors), finite, center)


def _selected_product(self: Bounds, i: Instruction, operand: Array, source: Array, init: Array, result: Array) -> Error:
    """Of select-and-scatter with a multiplication, on exact operands."""

    def scattered(opcode: str, a: Array, start: Array) -> Array:
        shape = replace(i.shape, element_type=ERROR_TYPE)
        j = replace(i, attributes={**i.attributes, "scatter": combination(opcode)}, shape=shape)
        return self.evaluate_errors(j, [operand, a, start])

    count = scattered("add", np.ones(source.shape), np.zeros(()))
    whole, center, most, least = (
        scattered("multiply", f(source), f(np.asarray(init))) for f in (size_of, in_f64, above_one, below_one)
    )
    bound = product_bound(whole, whole, count + (count > 0), result, True, center)
    return np.where(count > 0, in_any_order(bound, result, most, least), 0)


def _direction(select: Computation) -> str:
    root = select.root
    in_order = root.opcode == "compare" and root.operands == select.parameters
    return root.direction if in_order else ""


def _placings(
    window: Window, sizes: tuple[int, ...], counts: tuple[int, ...]
) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    assert all(n <= window_count(s, w) for n, s, w in zip(counts, sizes, window, strict=True))
    for k in np.ndindex(tuple(w.size for w in window)):
        yield window_slices(window, k, sizes, counts)


RULES = {"scatter": _scatter, "select-and-scatter": _select_and_scatter}
