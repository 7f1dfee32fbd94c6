"""How far a compiled program's results may lie from the reference's: a running error analysis of a whole program.

`run_with_bounds(module, args)` interprets the module and carries, beside every value, a bound of the absolute error
that a program may have that keeps the accuracy contract (accuracy.py). The rules:

    elementwise      The operands lie in intervals [value - error, value + error], rounded outwards. The operation is
                     evaluated at the ends of these intervals (and where it turns, if it is not monotone); the largest
                     distance from the reference's result is the error passed on. To it comes what the contract allows
                     this operation itself, and half a ULP for the reference's rounding, unless it is exact.
    sums             The sum of the terms' errors, and n * u * sum |terms| for n terms and the unit roundoff u of the
                     type that sums are computed in (accuracy.py): the bound of n additions in any order (reduce, dot,
                     convolution, reduce-window, scatter, ...). A narrower result is that, rounded once.
    data movement    Errors move with their elements.
    choices          A comparison whose operands' intervals overlap is *undecided*, and so is what cannot be analysed:
                     its error is inf. A select by an undecided predicate may give either value. Integers are exact or
                     undecided; whatever undecided integers index is undecided.

An exact operation on exact operands is exact: error 0, the same bits. The rules of the structured operations stand in
bounds_structured.py, bounds_scatter.py, bounds_matrices.py, bounds_others.py. Complex errors are distances in the
plane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from .accuracy import max_ulp
from .compare import TINY, distance, same_bits, ulp
from .devices import Device
from .dynamic import meet
from .elementwise import is_elementwise
from .errors import EvaluationError
from .interpreter import MAX_DEPTH, Interpreter, check_arguments, last_uses
from .module import Computation, Instruction, Module
from .numerics import component_type, round_to, type_of
from .operation import operation
from .types import F32, F64, Array, ElementType, Shape, Value

Error = Any  # of an array: an f64 array of its dimensions, or None for zero everywhere; of a tuple: a tuple of these

# The type of errors as operands. It is not equal to f64, so that sums of errors are not accumulated in longdouble.
ERROR_TYPE = ElementType("error", -1, "float", 64, np.dtype(np.float64))


def run_with_bounds(module: Module, args: Sequence[Value]) -> tuple[Value, Value]:
    """The value of the entry computation, as the interpreter gives it, and a bound of the error of each element.

    The bounds are f64 arrays (in tuples as the value): a result that differs from the value by no more keeps the
    contract. 0 asks for the same bits, inf says that the contract does not decide this element.
    """
    arguments = check_arguments(module.entry, args)
    with np.errstate(all="ignore"):
        value, error = Bounds(Device.alone(module)).run(module.entry, arguments, tuple(no_error(v) for v in arguments))
    return value, filled(value, error)


def _met(i: Instruction, values: list[Value], errors: list[Error]) -> tuple[list[Value], list[Error]]:
    """The operands of an instruction, those that have to have one size cut to the smallest: of dynamic sizes that
    counts."""
    count, values, errors = len(values), list(values), list(errors)
    groups = [slice(count)] if is_elementwise(i.opcode) or i.opcode in ("map", "sort") else []
    if i.opcode in ("reduce", "reduce-window"):
        groups = [slice(count // 2)]
    elif i.opcode == "scatter":
        groups = [slice(count // 2), slice(count // 2 + 1, count)]
    for group in groups:
        if all(isinstance(v, np.ndarray) for v in values[group]):
            values[group] = meet(values[group])
            pairs = zip(values[group], errors[group], strict=True)
            errors[group] = [None if e is None else e[tuple(map(slice, v.shape))] for v, e in pairs]
    return values, errors


class Bounds:
    """Runs computations with errors; one object serves one run."""

    def __init__(self, device: Device | None = None) -> None:
        self.interpreter = Interpreter(device=device)
        self._depth = 0

    def run(self, computation: Computation, values: Sequence[Value], errors: Sequence[Error]) -> tuple[Value, Error]:
        """The value of a computation on arguments with errors, and its error."""
        if self._depth >= MAX_DEPTH:
            raise EvaluationError(f"{computation.name}: computations call each other {MAX_DEPTH} deep; inline some")
        self._depth += 1
        results: dict[Instruction, tuple[Value, Error]] = {}
        for i, dead in zip(computation.instructions, last_uses(computation), strict=True):
            if i.opcode == "parameter":
                results[i] = values[i.attributes["number"]], errors[i.attributes["number"]]
            else:
                operands = [results[o] for o in i.operands]
                results[i] = self.step(i, [v for v, _ in operands], [e for _, e in operands])
            for d in dead:
                del results[d]
        self._depth -= 1
        return results[computation.root]

    def step(self, i: Instruction, values: list[Value], errors: list[Error]) -> tuple[Value, Error]:
        """The value of one instruction on operands with errors, and its error."""
        from .bounds_others import CONTROL, RULES  # these rules call back

        values, errors = _met(i, values, errors)
        if i.opcode in CONTROL:
            return CONTROL[i.opcode](self, i, values, errors)
        result = self.evaluate(i, values)
        if i.opcode == "copy" and isinstance(result, tuple):
            return result, errors[0]
        if i.opcode in RULES:
            return result, RULES[i.opcode](self, i, values, errors, result)
        if is_elementwise(i.opcode) and i.opcode not in MOVES:
            return result, self.elementwise(i, values, errors, result)
        certain = exact(errors) and i.opcode in EXACT
        return result, no_error(result) if certain else undecided(result)

    def evaluate(self, i: Instruction, values: Sequence[Value]) -> Value:
        """The value alone, as the interpreter computes it."""
        return self.interpreter.evaluate(i, list(values))

    def evaluate_errors(self, i: Instruction, values: Sequence[Array]) -> Array:
        """An instruction made by `of_errors`, on arrays of f64."""
        rule = operation(i.opcode)
        return rule.evaluate(i, *values, run=self.interpreter.run) if rule.takes_run else rule.evaluate(i, *values)

    def elementwise(self, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
        """The error of an elementwise operation."""
        opcode, source = i.opcode, type_of(values[-1])
        bound = max_ulp(opcode, source.name)
        if exact(errors) and not bound:
            return None
        if source.is_complex or type_of(result).is_complex:
            return complex_error(self, i, values, errors, result, bound)
        if opcode == "compare":
            return _comparison(i, values, errors, result)
        if opcode == "select":
            return _choice(values, errors)
        error = np.zeros(result.shape)
        if exact(errors) and source.is_float and source.bits < 32:
            return self._rounded_once(i, values, result)
        if not exact(errors):
            ends = [interval(v, e) for v, e in zip(values, errors, strict=True)]
            if opcode in LIPSCHITZ:
                error = np.minimum(errors[0], LIPSCHITZ[opcode])
            else:
                if opcode in TURNS_AT_ZERO and len(ends[0]) == 2:
                    zero = np.zeros((), values[0].dtype)
                    low, high = ends[0]
                    ends[0] = (low, high, np.where((low < zero) & (high > zero), zero, low))
                for corner in product(*ends):
                    error = np.maximum(error, distance(self.evaluate(i, corner), result))
            if opcode in SINGULAR:
                error = np.where(SINGULAR[opcode](*ends), np.inf, error)
            for e in errors:
                if e is not None and source.kind != "pred":
                    error = np.where(np.isinf(e), np.inf, error)
        if bound:
            size = np.abs(result.astype(np.float64))
            own = (bound + 0.5) * ulp(np.where(np.isfinite(error), size + error, size), type_of(result))
            certain = (result == 0) & (opcode not in UNDERFLOWS)
            for v in values:
                certain |= (result == 0) & np.isinf(v)
            error = error + np.where(np.isfinite(size) & ~certain, own, 0)
        return outwards(error)

    def _rounded_once(self, i: Instruction, values: list[Array], result: Array) -> Error:
        """Of an elementary function of a narrow type, on exact operands: as in f32, rounded once."""
        center = operation(i.opcode).evaluate(i, *(v.astype(np.float64) for v in values))
        own = (max_ulp(i.opcode, "f32") + 0.5) * ulp(center, F32)
        bound = rounded(center, own, result, certain=True)
        return np.where((center == 0) & (result == 0), 0, bound)


# Operations without a rule that give the same bits for the same operands; of others nothing is known.
EXACT = frozenset(
    "constant iota after-all bitcast-convert rng-bit-generator rng-get-and-update-state get-dimension-size "
    "stochastic-convert".split()
)

# Operations whose result changes no more than their operand, with the most that it can change at all.
LIPSCHITZ = {"sine": 2.0, "cosine": 2.0}
# All other elementwise operations are monotone in each operand on either side of zero, and these turn there.
TURNS_AT_ZERO = frozenset({"abs", "cosh", "power"})

# Where a result of zero need not be the exact one.
UNDERFLOWS = frozenset({"exponential", "exp2", "logistic", "power", "atan2"})

MOVES = frozenset({"bitcast-convert", "copy"})  # elementwise operations that keep the bits


def _contains_zero(low: Array, high: Array | None = None) -> Array:
    return (low <= 0) & (high >= 0) if high is not None else np.zeros(low.shape, bool)


def _tan_has_pole(low: Array, high: Array) -> Array:
    return np.floor(low.astype(np.float64) / np.pi + 0.5) != np.floor(high.astype(np.float64) / np.pi + 0.5)


def _remainder_jumps(a: tuple[Array, ...], b: tuple[Array, ...]) -> Array:
    quotients = [np.trunc(x.astype(np.float64) / y.astype(np.float64)) for x, y in product(a, b)]
    same = np.all([q == quotients[0] for q in quotients], axis=0)
    return ~same | _contains_zero(*b)


def _atan2_jumps(y: tuple[Array, ...], x: tuple[Array, ...]) -> Array:
    return (y[0] <= 0) & (y[-1] >= 0) & (x[0] <= 0) & ((y[0] != y[-1]) | (x[0] != x[-1]))


# Where the result is unbounded or jumps inside the operands' intervals.
SINGULAR: dict[str, Callable[..., Array]] = {
    "tan": lambda x: _tan_has_pole(x[0], x[-1]),
    "divide": lambda a, b: _contains_zero(*b),
    "remainder": _remainder_jumps,
    "atan2": _atan2_jumps,
}


def _comparison(i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """Undecided where the operands' intervals have a point in common and are not both points."""
    (a, b), (ea, eb) = values, (filled(v, e) for v, e in zip(values, errors, strict=True))
    if i.operands[0] is i.operands[1]:  # x != x asks whether x is NaN, whatever its error
        return np.where(np.isinf(ea), np.inf, 0.0)
    if not type_of(a).is_float:
        return np.where((ea > 0) | (eb > 0), np.inf, 0.0)
    (a_low, *_, a_high), (b_low, *_, b_high) = (interval(v, e) for v, e in zip((a, b), (ea, eb), strict=True))
    touch = (a_low <= b_high) & (b_low <= a_high) & ((ea > 0) | (eb > 0))
    return np.where(touch | np.isinf(ea) | np.isinf(eb), np.inf, 0.0)


def _choice(values: list[Array], errors: list[Error]) -> Error:
    """Of select: the chosen value's error, or where the predicate is undecided the distance of the two besides."""
    predicate, a, b = values
    ea, eb = filled(a, errors[1]), filled(b, errors[2])
    error = np.where(predicate, ea, eb)
    if errors[0] is None:
        return error
    either = distance(a, b) + np.maximum(ea, eb)
    return outwards(np.where(errors[0] > 0, either, error))


def complex_error(
    self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array, bound: float
) -> Error:
    """Errors as distances in the plane: by formula, or to first order (twice the largest of four directions)."""
    es = [filled(v, e) for v, e in zip(values, errors, strict=True)]
    sizes = [np.abs(v).astype(np.float64) for v in values]
    opcode = i.opcode
    if opcode == "select":
        return _choice(values, errors)
    if opcode == "compare":
        touch = (distance(values[0], values[1]) <= es[0] + es[1]) & (es[0] + es[1] > 0)
        return np.where(touch, np.inf, 0.0)
    own = (bound + 0.5) * ulp(result) if bound else 0.0
    if opcode in ("real", "imag", "negate"):
        return es[0]
    if opcode == "abs":
        error = es[0]
    elif opcode == "complex":
        return outwards(np.hypot(*es))
    elif opcode == "convert":
        error, own = es[0], ulp(result)
    elif opcode in ("add", "subtract"):
        error, own = es[0] + es[1], 2 * ulp(result)  # two roundings in each of two parts, at right angles
    elif opcode == "multiply":
        error = sizes[0] * es[1] + sizes[1] * es[0] + es[0] * es[1]
    elif opcode == "divide":
        error = np.where(sizes[1] > es[1], (es[0] + sizes[0] / sizes[1] * es[1]) / (sizes[1] - es[1]), np.inf)
        error = np.where(es[0] + es[1] == 0, 0.0, error)
    elif not bound:
        return undecided(result)  # nothing is promised of it
    else:
        error = np.zeros(result.shape)
        for k, e in enumerate(es):
            for direction in (1, -1, 1j, -1j):
                moved = [v + direction * e if j == k else v for j, v in enumerate(values)]
                at = self.evaluate(i, [m.astype(v.dtype) for m, v in zip(moved, values, strict=True)])
                error = np.maximum(error, np.where(e > 0, 2 * distance(at, result), 0))
    exact_here = np.all([e == 0 for e in es], axis=0)
    if not bound:
        own = np.where(exact_here, 0, own)
    largest = float(ml_dtypes.finfo(component_type(type_of(result)).dtype).max)
    size = np.maximum(*(np.abs(np.where(np.isfinite(part), part, 0)) for part in (result.real, result.imag)))
    outside = (error + own > 0) & (size + error + own > largest)  # it may become an infinity
    beside: Any = 0.0
    if bound:  # a NaN is a NaN, and beside an infinity there may be a part that is rounded
        outside = outside | _outside_contract(opcode, values, largest)
        overflow = np.isinf(result) & np.all([np.isfinite(v) for v in values], axis=0)
        beside = (bound + 0.5) * ulp(np.where(overflow, largest, size), component_type(type_of(result)))
    error = np.where(np.isfinite(result), error + own, np.where(exact_here, beside, np.inf))
    return outwards(np.where(outside, np.inf, error))


def _outside_contract(opcode: str, values: list[Array], largest: float) -> Array | bool:
    """Where the contract promises nothing (see accuracy.py): a partial product that overflows, a power far out."""
    if opcode == "multiply":
        wide = [(np.abs(v.real).astype(np.longdouble), np.abs(v.imag).astype(np.longdouble)) for v in values]
        products = [a * b for a in wide[0] for b in wide[1]]
        finite = [np.isfinite(a) & np.isfinite(b) for a in wide[0] for b in wide[1]]
        return np.any([(p > largest) & f for p, f in zip(products, finite, strict=True)], axis=0)
    if opcode == "power":
        x, y = (v.astype(np.clongdouble) for v in values)
        return np.abs(y * np.log(np.where(x == 0, 1, x))) > 100
    if opcode == "exp2":
        return np.abs(values[0].imag) * np.log(2) > 100
    return False


# Errors and intervals.


def no_error(value: Value) -> Error:
    """The error of a value that is exact."""
    return tuple(no_error(v) for v in value) if isinstance(value, tuple) else None


def undecided(value: Value) -> Error:
    """The error of a value of which nothing is known."""
    if isinstance(value, tuple):
        return tuple(undecided(v) for v in value)
    return None if value is None else np.full(np.shape(value), np.inf)


def exact(error: Error) -> bool:
    """Whether an error, or each of several, is zero everywhere."""
    return all(exact(e) for e in error) if isinstance(error, (tuple, list)) else error is None or not np.any(error)


def filled(value: Value, error: Error) -> Any:
    """The error with arrays of zeros for None."""
    if isinstance(value, tuple):
        errors = (None,) * len(value) if error is None else error
        return tuple(filled(v, e) for v, e in zip(value, errors, strict=True))
    if value is None:
        return None
    return np.zeros(np.shape(value)) if error is None else np.broadcast_to(error, np.shape(value))


def outwards(error: Array) -> Array:
    """The error with what its own rounding in f64 may have lost; NaN, where a formula failed, is undecided."""
    return np.where(np.isnan(error), np.inf, np.where(error > 0, error * (1 + 2.0**-50), error))


def unit_roundoff(element_type: ElementType) -> float:
    """The largest relative error of one rounding to a floating-point or complex type."""
    return float(ml_dtypes.finfo(component_type(element_type).dtype).eps) / 2


def rounded(center: Array, error: Array, result: Array, certain: bool) -> Array:
    """The bound of one rounding of a number that lies within `error` of `center`, from the result that it is near.

    Rounding is monotone, so that it is the farther of the two ends, rounded; 0 where both are the result's bits. A
    center that is not finite has no error where what it comes from is `certain`.
    """
    error = np.where(np.isfinite(center), error, 0 if certain else np.inf)
    bound = np.zeros(result.shape)
    for end in (center - error, center + error):
        end = round_to(end, type_of(result))
        apart = np.maximum(distance(end, result), TINY)
        bound = np.maximum(bound, np.where(same_bits(end, result), 0, apart))
    return bound


def interval(value: Array, error: Error) -> tuple[Array, ...]:
    """The ends of [value - error, value + error] in the value's type, rounded outwards; the value alone if exact.

    An undecided pred is false or true; an integer is returned alone.
    """
    element_type = type_of(value)
    if error is None:
        return (value,)
    if element_type.kind == "pred":
        return value & ~(error > 0), value | (error > 0)
    if not element_type.is_float:
        return (value,)
    wide = value.astype(np.longdouble if element_type is F64 else np.float64)
    ends = []
    for exact_end, beyond in ((wide - error, -1), (wide + error, 1)):
        end = round_to(exact_end, element_type)
        inside = (end.astype(wide.dtype) - exact_end) * beyond < 0
        further = round_to(exact_end + beyond * ulp(exact_end, element_type), element_type)
        ends.append(
            np.where((error == 0) | (np.isinf(wide) & np.isfinite(error)), value, np.where(inside, further, end))
        )
    return tuple(ends)


def of_errors(i: Instruction, carried: Sequence[bool]) -> Instruction:
    """The instruction with errors in place of some of its operands (where `carried`) and of its result."""

    def shape_of(shape: Shape) -> Shape:
        return replace(shape, element_type=ERROR_TYPE)

    operands = [replace(o, shape=shape_of(o.shape)) if c else o for o, c in zip(i.operands, carried, strict=True)]
    return replace(i, operands=operands, shape=i.shape if i.shape.is_tuple else shape_of(i.shape))
