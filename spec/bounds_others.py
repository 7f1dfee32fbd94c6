"""The rules of bounds.py for rarer operations: scan, random numbers, relatives of dot, custom calls."""

from __future__ import annotations

from math import log, pi, prod, sqrt

import numpy as np

from . import bounds_devices, bounds_matrices, bounds_scatter, bounds_structured
from .bounds import Bounds, Error, exact, filled, no_error, of_errors, outwards, undecided, unit_roundoff
from .bounds_sums import finite_size, is_narrow, size_of, sum_bound
from .compare import ulp
from .custom_calls import TARGETS, identity, sharded
from .module import Instruction
from .numerics import type_of
from .operation import operation
from .ops.rng import digits
from .types import F32, F64, Array, Value


def _scan(self: Bounds, i: Instruction, values: list[Array], errors: list[Error]) -> tuple[Value, Error]:
    """Turn by turn, as the interpreter does it; each slice of the outputs has the error of its turn."""
    count, (d,), body = len(values) - i.num_carries, i.dimensions, i.to_apply
    result = i.shape.elements or (i.shape,)
    slices = len(result) - i.num_carries
    outputs = [np.zeros(s.dimensions, s.element_type.dtype) for s in result[:slices]]
    spread = [np.zeros(s.dimensions) for s in result[:slices]]
    carried, doubt = list(values[count:]), list(errors[count:])
    size = values[0].shape[d]
    for turn in reversed(range(size)) if i.is_reverse else range(size):
        at = (slice(None),) * d + (turn,)
        inputs = [np.asarray(v[at]) for v in values[:count]]
        input_errors = [None if e is None else np.asarray(e[at]) for e in errors[:count]]
        value, error = self.run(body, [*inputs, *carried], [*input_errors, *doubt])
        if not body.root.shape.is_tuple:
            value, error = (value,), (error,)
        for k in range(slices):
            outputs[k][at], spread[k][at] = value[k], filled(value[k], error[k])
        carried, doubt = list(value[slices:]), list(error[slices:])
    pair = (*outputs, *carried), (*spread, *doubt)
    return pair if i.shape.is_tuple else (pair[0][0], pair[1][0])


def _rng(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """Uniform numbers are exact. Of normal ones, mu + sigma r c, an implementation rounds r, c and each step.

    With the unit roundoff u of the type computed in: log and so r are within 2 u of r, the angle below 2 pi is within
    4 pi u, and cos within one ULP more, 2 u; r is at most sqrt(2 p log 2). Two more roundings follow, and one to the
    result's type, on either side.
    """
    if not exact(errors):
        return undecided(result)
    if i.distribution == "rng_uniform":
        return None
    element_type = type_of(result)
    u = unit_roundoff(F64 if element_type.bits == 64 else F32)
    mean, deviation = (float(np.abs(v.astype(np.float64))) for v in values)
    largest = sqrt(2 * digits(element_type) * log(2))
    of_normal = largest * (4 * pi + 2 + 2 + 1) * u * (1 + 2.0**-10)  # the last factor: products of these
    size = np.abs(result.astype(np.float64))
    bound = deviation * of_normal + 2 * u * (deviation * largest + mean + size) + ulp(result)
    return outwards(np.where(np.isfinite(size), bound, np.inf if not np.isfinite(deviation + mean) else 0))


def _ragged_dot(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    if not exact(errors[2]):
        return undecided(result)
    terms = prod(values[0].shape[d] for d in i.lhs_contracting_dims)
    return _sum_of_products(i, values, errors, result, 2, terms)


def _scaled_dot(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """The scaled operands are exact, where the operands are: both sides round them in the same way."""
    terms = prod(values[0].shape[d] for d in i.lhs_contracting_dims)
    return _sum_of_products(i, values, errors, result, 4, terms + 2)


def _sum_of_products(
    i: Instruction, values: list[Array], errors: list[Error], result: Array, factors: int, terms: int
) -> Error:
    """Of sums of products of the first `factors` operands: as of a dot."""
    known = exact(errors)
    if not (type_of(result).is_float or type_of(result).is_complex):
        return None if known else undecided(result)
    evaluate, rest = operation(i.opcode).evaluate, values[factors:]
    j = of_errors(i, [k < factors for k in range(len(values))])
    sizes = list(map(size_of, values[:factors]))
    absolute = evaluate(j, *sizes, *rest)
    spread = np.zeros(result.shape)
    if not known:
        wide = evaluate(j, *(s + filled(s, e) for s, e in zip(sizes, errors[:factors], strict=True)), *rest)
        spread = np.maximum(wide - absolute, 0)
    count = terms * (4 if type_of(result).is_complex else 1) + 2
    center = evaluate(j, *(v.astype(np.float64) for v in values[:factors]), *rest) if is_narrow(result) else None
    finite = None if np.isfinite(absolute).all() else evaluate(j, *map(finite_size, values[:factors]), *rest)
    return sum_bound(absolute, spread, count, result, known, finite, center)


_EXACT_CALLS = ("TopK", "ApproxTopK", "cu_threefry2x32", "cu_threefry2x32_ffi")


def _custom_call(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
    """A marker passes errors on; choices and ciphers are exact. Of matrices, properties say more than elements do."""
    if TARGETS.get(i.custom_call_target) is identity:  # of one value, which may be a tuple
        return errors[0]
    if i.custom_call_target in sharded.TARGETS:
        return tuple(errors) if isinstance(result, tuple) else errors[0]
    known = exact(errors) and i.custom_call_target in _EXACT_CALLS
    return no_error(result) if known else undecided(result)


CONTROL = {**bounds_structured.CONTROL, **bounds_devices.CONTROL, "scan": _scan}
RULES = {
    **bounds_structured.RULES,
    **bounds_devices.RULES,
    **bounds_matrices.RULES,
    **bounds_scatter.RULES,
    "custom-call": _custom_call,
    "ragged-dot": _ragged_dot,
    "rng": _rng,
    "scaled-dot": _scaled_dot,
}
