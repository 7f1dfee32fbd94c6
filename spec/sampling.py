"""Programs that keep the accuracy contract, at random: the spread of what they compute.

The bounds of bounds.py are certain, and in deep programs far too wide: errors that in truth cancel add up there, layer
by layer. The other half of the answer is a sample (Monte Carlo arithmetic). `Ensemble` runs the reference and beside
it, instruction by instruction, a number of *members*: programs that make errors of their own wherever the contract
allows one, and nowhere else. So errors that are common to many values stay common, and those that cancel do. Where a
member errs:

    elementary functions    anywhere within the ULPs allowed.
    sums of n terms         n additions in no particular order: with the unit roundoff u and the sum S of the terms t,
                            the deviation is u sqrt(n (S^2 / 9 + sum t^2 / 18)). (An addition errs by up to u times the
                            partial sum, uniformly; in a random order the squares of the partial sums have that mean.)
    reducers of their own   as if each operand were off by what a sum of n terms would be; and so are batch-norm-*,
                            cholesky and triangular-solve, for their numbers of terms.
    exact operations        where an operand has an error, as the operand says; but see the next line.
    the last digit          Where a member may err, and its number is the reference's all the same, it takes the one
                            below or above: an error that is small beside the last digit moves it seldom, but then by a
                            whole one.
    narrow results          the value in f32 errs so, and is rounded once.
    all else                anywhere within the certain bound of this one instruction, given its operands. Where that is
                            unbounded nothing is known: NaN, or an arbitrary number, which is counted as unknown.
    decisions               A comparison, a rounding to an integer or a narrow type, a sort, an argmax decides as the
                            member's own operands say.

That a decision close to its edge falls otherwise may be seldom, and no member show it. So there are others, which err
in decisions alone: *deciders*. Where the operands lie closer to the edge than `window` deviations, as the members show
them, each goes either way, as by the toss of a coin. Where no decision is in doubt they are the reference.

Loops turn together while the members agree; a member that leaves a loop at another turn than the reference, or takes
another branch, goes on alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod, sqrt
from typing import Any

import numpy as np

from .accuracy import max_ulp
from .bounds import EXACT, Bounds, exact, no_error, of_errors, unit_roundoff
from .bounds_structured import _CHOOSING, _convolution_terms, _dot_terms, is_orderless
from .bounds_sums import sum_of_errors
from .collectives import started
from .compare import bits_equal, distance, ulp
from .elementwise import is_elementwise
from .errors import EvaluationError
from .interpreter import Interpreter, check_arguments, last_uses
from .module import Computation, Instruction, Module
from .numerics import component_type, make_complex, round_to, type_of
from .operation import make, operation
from .ops.conditional import branches
from .sorting import sorted_order
from .types import F32, Array, Shape, Value
from .vectorize import binary_opcode, lift

Members = list[Value]  # the reference's value, and each member's; the same object where a member agrees bit for bit

MORE_TURNS = 100  # of a loop that has ended in the reference
# Operations that decide: where their operands are near an edge, the result jumps.
DECIDING = frozenset(
    "compare floor ceil round-nearest-afz round-nearest-even sign convert reduce-precision remainder atan2 sort topk "
    "reduce reduce-window select-and-scatter custom-call".split()
)
# Operations that round nothing: what they give is exact for exact operands.
_MOVING = EXACT | frozenset(
    "get-tuple-element domain opt-barrier add-dependency tuple broadcast reshape dynamic-reshape transpose reverse "
    "slice copy bitcast pad concatenate dynamic-slice dynamic-update-slice set-dimension-size gather topk".split()
)


class Ensemble:
    """Runs computations for the reference, `members` others and `deciders`; one object serves one run.

    `unknown` counts what no error is known of, in words.
    """

    def __init__(self, members: int, deciders: int = 0, seed: int = 0, window: float = 8.0) -> None:
        draws = [np.random.default_rng([seed, m]) for m in range(members + deciders)]
        samplers = [Sampler(d, decides=m >= members, window=window) for m, d in enumerate(draws)]
        self.runs: list[Any] = [Interpreter(), *samplers]
        self.members = members
        self.window = window
        self.unknown: Counter[str] = Counter()

    def spread(self, values: Members) -> Any:
        """How far the members lie from the reference, root mean square, element by element (f64; 0 where all agree).

        In tuples as the values. inf where a member is NaN, infinite or of another size and the reference is not, and
        for integers and booleans where one differs.
        """
        return _combined(values[: self.members + 1], lambda distances: _norm(distances) / sqrt(self.members))

    def jumps(self, values: Members) -> Any:
        """How far the farthest of the deciders lies from the reference; as `spread`."""
        return _combined([values[0], *values[self.members + 1 :]], lambda distances: np.max(distances, 0))

    def run(self, computation: Computation, arguments: Sequence[Members]) -> Members:
        """The values of a computation on arguments that fit its parameters, all shared or each member's own."""
        values: dict[Instruction, Members] = {}
        for i, dead in zip(computation.instructions, last_uses(computation), strict=True):
            if i.opcode == "parameter":
                values[i] = arguments[i.attributes["number"]]
            else:
                values[i] = self.step(i, [values[o] for o in i.operands])
            for d in dead:
                del values[d]
        return values[computation.root]

    def shared(self, value: Value) -> Members:
        """A value on which all agree."""
        return [value] * len(self.runs)

    def step(self, i: Instruction, operands: list[Members]) -> Members:
        """The values of one instruction on each member's operands."""
        control = getattr(self, "_" + i.opcode.replace("-", "_"), None) if i.opcode in _CONTROL else None
        return control(i, operands) if control else self._computed(i, operands)

    # Control flow.

    def _call(self, i: Instruction, operands: list[Members]) -> Members:
        return self.run(i.calls if i.opcode == "fusion" else i.to_apply, operands)

    _fusion = _call

    def _map(self, i: Instruction, operands: list[Members]) -> Members:
        lifted = lift(i.to_apply, operands[0][0].shape)
        return self._alone(i, operands) if lifted is None else self.run(lifted, operands)

    def _async_start(self, i: Instruction, operands: list[Members]) -> Members:
        values = self.run(i.calls, operands)
        return [started(i, tuple(o[m] for o in operands), v) for m, v in enumerate(values)]

    def _tuple(self, i: Instruction, operands: list[Members]) -> Members:
        whole = tuple(o[0] for o in operands)
        return [
            whole if all(o[m] is o[0] for o in operands) else tuple(o[m] for o in operands)
            for m in range(len(self.runs))
        ]

    def _get_tuple_element(self, i: Instruction, operands: list[Members]) -> Members:
        return [v[i.index] for v in operands[0]]

    def _while(self, i: Instruction, operands: list[Members]) -> Members:
        state, turns = list(operands[0]), 0
        ends: dict[int, Value] = {}  # of members that do not turn with the reference: how they end
        while True:
            again = [bool(p) for p in self.run(i.condition, [state])]
            for m, more in enumerate(again):
                if m not in ends and more != again[0]:
                    self.unknown["a loop ends at another turn by rounding alone"] += not ends
                    ends[m] = (
                        self._tried(m, state[0], partial(self._turning, m, i, state[m], turns)) if more else state[m]
                    )
                    state[m] = state[0]
            if not again[0]:
                return [ends.get(m, v) for m, v in enumerate(state)]
            state, turns = self.run(i.body, [state]), turns + 1
            for m in ends:
                state[m] = state[0]

    def _turning(self, m: int, i: Instruction, value: Value, turns: int) -> Value:
        """How a member ends that goes on when the reference has ended, after so many turns. One that errs anew in each
        turn may never find that nothing changes."""
        run = self.runs[m]
        for _ in range(turns + MORE_TURNS):
            value = run.run(i.body, value)
            if not run.run(i.condition, value):
                return value
        raise EvaluationError(f"{i.name}: a member goes on for {turns + MORE_TURNS} turns more")

    def _tried(self, m: int, center: Value, action: Callable[[], Value]) -> Value:
        """What comes of a member's action, or anything where it cannot be computed: as of a decomposition of NaN."""
        try:
            return action()
        except EvaluationError:
            self.unknown["a value cannot be computed on operands with errors"] += 1
            return self.runs[m].lost(center)

    def _conditional(self, i: Instruction, operands: list[Members]) -> Members:
        called = branches(i)

        def chosen(index: Array) -> int:
            if index.dtype == np.bool_:
                return 0 if index else 1
            return int(index) if 0 <= index < len(called) else len(called) - 1

        numbers = [chosen(index) for index in operands[0]]
        operand = operands[1 + numbers[0]]
        along = [v if t == numbers[0] else operand[0] for v, t in zip(operand, numbers, strict=True)]
        values = self.run(called[numbers[0]], [along])
        astray = [m for m, t in enumerate(numbers) if t != numbers[0]]
        self.unknown["a branch is taken or not by rounding alone"] += bool(astray)
        for m in astray:
            values[m] = self._tried(
                m, values[0], partial(self.runs[m].run, called[numbers[m]], operands[1 + numbers[m]][m])
            )
        self.unknown += Counter()  # without what is zero
        return values

    def _alone(self, i: Instruction, operands: list[Members]) -> Members:
        """What calls computations that the members run each for itself."""
        center = self.runs[0].evaluate(i, [o[0] for o in operands])
        alone = [
            self._tried(m, center, partial(run.evaluate, i, [o[m] for o in operands]))
            for m, run in enumerate(self.runs[1:], 1)
        ]
        return [center, *alone]

    _scan = _alone

    # All else.

    def _computed(self, i: Instruction, operands: list[Members]) -> Members:
        reference, *members = self.runs
        first = [o[0] for o in operands]
        center = reference.evaluate(i, first)
        noise = Noise(i, first, center, self.unknown)
        agreed = [all(o[m] is o[0] for o in operands) for m in range(len(self.runs))]
        edges = None
        if i.opcode in DECIDING and not all(agreed):
            edges = [_scaled(self.spread(o), self.window) for o in operands]
        values = [center]
        for m, run in enumerate(members, 1):
            inputs, errs = [o[m] for o in operands], m <= self.members or noise.narrow
            if agreed[m] and not (errs and noise.errs) and edges is None and not operation(i.opcode).takes_state:
                values.append(center)
                continue
            value = self._tried(m, center, partial(run.erring, i, inputs, noise if errs else None))
            if errs and noise.errs and not noise.narrow or i.opcode in ROUNDING and not agreed[m]:
                value = run.neighbour(value, center, noise.deviation if errs else None, inputs, first)
            if errs:
                value = _numbers_for_nan(value, center, noise.deviation)
            if edges is not None and m > self.members:
                value = self._tried(m, center, partial(run.either_way, i, inputs, value, edges, first))
            values.append(_as_center(value, center))
        return values


def sample(module: Module, args: Sequence[Value], seed: int) -> Value:
    """The value that one program which keeps the contract may give. The same seed gives the same value."""
    with np.errstate(all="ignore"):
        return Sampler(np.random.default_rng(seed)).run(module.entry, *check_arguments(module.entry, args))


_CONTROL = frozenset("call fusion map async-start tuple get-tuple-element while conditional scan".split())


def _as_center(value: Value, center: Value) -> Value:
    """The reference's own object where it is the same anyway: it need not be computed with again."""
    if isinstance(value, tuple):
        parts = tuple(_as_center(v, c) for v, c in zip(value, center, strict=True))
        return center if all(p is c for p, c in zip(parts, center, strict=True)) else parts
    return center if value is center or bits_equal(value, center) else value


def _numbers_for_nan(value: Value, center: Value, deviation: Any) -> Value:
    """The value, but zero where all is open and the reference is NaN, as members are elsewhere: they would agree."""
    if deviation is None or value is None:
        return value
    if isinstance(value, tuple):
        return tuple(_numbers_for_nan(*parts) for parts in zip(value, center, deviation, strict=True))
    if value.shape != center.shape:
        return value
    may_differ = np.isinf(deviation) & (center != center)
    return np.where(may_differ, value.dtype.type(0), value) if may_differ.any() else value


def _combined(values: Members, combine: Callable[[list[Array]], Array]) -> Any:
    """What `combine` makes of the distances of all values from the first one."""
    center, *others = values
    if isinstance(center, tuple):
        return tuple(_combined([v[k] for v in values], combine) for k in range(len(center)))
    if center is None or all(v is center for v in others):
        return np.zeros(np.shape(center))
    return combine([_distance(v, center) for v in others if v is not center])


def _norm(distances: list[Array]) -> Array:
    """The root of the sum of squares, of numbers whose squares vanish, too."""
    largest = np.max(distances, 0)
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    return unit * np.sqrt(np.sum([(d / unit) ** 2 for d in distances], 0))


def _distance(value: Array, center: Array) -> Array:
    return distance(value, center) if value.shape == center.shape else np.full(center.shape, np.inf)


class Noise:
    """The errors that one instruction may make, given its operands: their deviation, element by element.

    `deviation` is an f64 array (in a tuple as the value), or None for none; `of_operands` that of the terms of a
    reducer of its own, relative to each. Of `narrow` results `instruction` is what is computed in f32.
    """

    def __init__(self, i: Instruction, operands: list[Value], value: Value, unknown: Counter[str]) -> None:
        self.instruction = i
        self.of_operands = 0.0
        self.narrow = False
        self.deviation: Any = None
        if i.opcode in _MOVING or value is None or not operands or _REDUCES & {i.opcode} and _chooses(i):
            return
        if not isinstance(value, tuple):
            element_type = type_of(value)
            if not (element_type.is_float or element_type.is_complex):
                self.deviation = self._bounded(operands, value, unknown)
                return
            narrow = element_type.is_float and element_type.bits < 32
            if narrow and (wider := _in_f32(i)) is not None:
                self.instruction = wider
                self.narrow = True
                operands = [_to_f32(o) for o in operands]
                value = Interpreter().evaluate(wider, operands) if self._may_err(operands) else value
        self.deviation = self._deviation(operands, value, unknown)

    @property
    def errs(self) -> bool:
        """Whether this instruction makes errors."""
        return self.deviation is not None or bool(self.of_operands)

    def _may_err(self, operands: list[Value]) -> bool:
        i = self.instruction
        return bool(max_ulp(i.opcode, type_of(operands[-1]).name)) if is_elementwise(i.opcode) else i.opcode in _SUMS

    def _deviation(self, operands: list[Value], value: Value, unknown: Counter[str]) -> Any:
        i = self.instruction
        if is_elementwise(i.opcode):
            allowed = max_ulp(i.opcode, type_of(operands[-1]).name)
            return np.where(np.isfinite(value), allowed / sqrt(3) * ulp(value), 0) if allowed else None
        if i.opcode in _SUMS and not isinstance(value, tuple):
            sums = _SUMS[i.opcode](i, operands, value)
            if sums is not None:
                terms, squares = sums
                size = np.abs(value).astype(np.float64) ** 2 / 9
                u = unit_roundoff(type_of(value)) * (2 if type_of(value).is_complex else 1)
                of_terms = np.sqrt(terms * (size + squares / 18))
                of_terms = np.where(np.isfinite(of_terms), of_terms, np.sqrt(terms) * np.abs(value))  # squares overflow
                errors = np.where(np.isfinite(value), np.hypot(u * of_terms, ulp(value) / 2), 0)
                largest = float(np.finfo(component_type(type_of(value)).dtype).max)
                if (np.sqrt(terms * squares) < largest).all():  # and so the sum of the sizes (Cauchy and Schwarz)
                    return errors
                bound = self._certain(operands)  # unbounded where some orders of addition overflow, and others do not
                return errors if bound is None else np.where(np.isinf(bound), np.inf, errors)
        if i.opcode in _REDUCES or i.opcode in _BACKWARD:  # of several arrays some may be of integers
            rounded = [t for t in map(type_of, operands) if t.is_float or t.is_complex]
            if rounded and (i.opcode in _REDUCES or rounded[0].bits >= 32):
                self.of_operands = unit_roundoff(rounded[0]) * sqrt(_terms(i, operands))
                return None
        return self._bounded(operands, value, unknown)

    def _certain(self, operands: list[Value]) -> Any:
        """The certain bound of this one instruction."""
        return Bounds().step(self.instruction, operands, [no_error(o) for o in operands])[1]

    def _bounded(self, operands: list[Value], value: Value, unknown: Counter[str]) -> Any:
        i = self.instruction
        if is_elementwise(i.opcode):
            return None
        error = self._certain(operands)
        if exact(error):
            return None
        if any(np.isinf(e).any() for e in _flat(error) if e is not None):
            target = f" {i.custom_call_target}" if i.opcode == "custom-call" else ""
            no_order = "the comparator of a sort gives its values no order"
            unknown[no_order if i.opcode == "sort" else f"no error bound of {i.opcode}{target}"] += 1
        return _scaled(error, 1 / sqrt(3))


# Operations on real numbers that round what they compute: exactly for the same operands.
_BACKWARD = frozenset("batch-norm-inference batch-norm-training batch-norm-grad cholesky triangular-solve".split())
ROUNDING = frozenset("add subtract multiply divide sqrt".split())
_REDUCES = frozenset(("reduce", "reduce-window", "scatter"))


def _flat(error: Any) -> list[Any]:
    return [leaf for part in error for leaf in _flat(part)] if isinstance(error, tuple) else [error]


def _scaled(error: Any, factor: float) -> Any:
    if isinstance(error, tuple):
        return tuple(_scaled(e, factor) for e in error)
    return None if error is None or not error.any() else error * factor


def _chooses(i: Instruction) -> bool:
    """Whether the computation that an instruction calls rounds nothing."""
    computations = [c for c in i.called if isinstance(c, Computation)]
    types = {p.shape.element_type for c in computations for p in c.parameters}
    rounds = any(t.is_float or t.is_complex for t in types)
    if i.opcode == "reduce" and not is_orderless(i.to_apply):  # another order, which is allowed, may give another value
        return False
    return not rounds or all(j.opcode in _CHOOSING for c in computations for j in c.instructions)


def _terms(i: Instruction, operands: list[Array]) -> int:
    """How many terms an element of the result of a reduction has, at most."""
    if i.opcode == "reduce":
        return prod(operands[0].shape[d] for d in i.dimensions) + 1
    if i.opcode == "reduce-window":
        return prod(w.size for w in i.window) + 1
    if i.opcode in _BACKWARD:
        batch = operands[0].size // max(1, operands[0].shape[i.feature_index]) if "norm" in i.opcode else 0
        return 8 if i.opcode == "batch-norm-inference" else max(8, batch or operands[0].shape[-1])
    return operands[-1].size + 1


# Sums: the number of terms and the sum of their squares, of each element; None if it is no sum.


def _squared(a: Array) -> Array:
    return np.abs(a).astype(np.float64) ** 2


def _reduce_terms(i: Instruction, operands: list[Array], value: Array) -> Any:
    if binary_opcode(i.to_apply) != "add":
        return None
    return _terms(i, operands), _squared(operands[0]).sum(tuple(i.dimensions)) + _squared(operands[1])


def _product_terms(count: Any) -> Any:
    def rule(i: Instruction, operands: list[Array], value: Array) -> Any:
        squares = operation(i.opcode).evaluate(of_errors(i, (True, True)), *map(_squared, operands))
        return count(i, *operands), squares

    return rule


def _placed_terms(i: Instruction, operands: list[Array], value: Array) -> Any:
    if binary_opcode(i.to_apply) != "add" or len(operands) != len(sum_of_errors(i)[1]):
        return None
    j, carried = sum_of_errors(i)
    ones = [np.ones(o.shape) if c else o for o, c in zip(operands, carried, strict=True)]
    squares = [_squared(o) if c else o for o, c in zip(operands, carried, strict=True)]
    terms, summed = (Bounds().evaluate_errors(j, a) for a in (ones, squares))
    return np.where(terms > 1, terms, 0), summed  # what nothing is added to keeps its bits


def _fft_terms(i: Instruction, operands: list[Array], value: Array) -> Any:
    axes, terms = tuple(range(-len(i.fft_length), 0)), prod(i.fft_length)
    inverse = i.fft_type in ("IFFT", "IRFFT")
    squares = (2 if i.fft_type == "IRFFT" else 1) * _squared(operands[0]).sum(axes, keepdims=True)
    return terms, np.broadcast_to(squares / (terms**2 if inverse else 1), value.shape)


_SUMS = {
    "reduce": _reduce_terms,
    "dot": _product_terms(_dot_terms),
    "convolution": _product_terms(_convolution_terms),
    "reduce-window": _placed_terms,
    "scatter": _placed_terms,
    "fft": _fft_terms,
}


def _to_f32(a: Value) -> Value:
    narrow = a is not None and type_of(a).is_float and type_of(a).bits < 32
    return a.astype(np.float32) if narrow else a


def _shape_in_f32(shape: Shape) -> Shape:
    narrow = shape.element_type.is_float and shape.element_type.bits < 32
    return shape.with_element_type(F32) if narrow else shape


def _in_f32(i: Instruction) -> Instruction | None:
    """An instruction with a narrow result as it is computed: in f32. None if it makes no errors there."""
    attributes = i.attributes
    if is_elementwise(i.opcode):
        if not max_ulp(i.opcode, "f32"):
            return None
    elif i.opcode in ("reduce", "reduce-window", "scatter"):
        if binary_opcode(i.to_apply) != "add":
            return None
        attributes = {**attributes, "to_apply": _ADD_F32}
    elif i.opcode not in ("dot", "convolution"):
        return None
    operands = [replace(o, shape=_shape_in_f32(o.shape)) for o in i.operands]
    return replace(i, operands=operands, shape=_shape_in_f32(i.shape), attributes=attributes)


def _add_f32() -> Computation:
    a, b = (make("parameter", shape=Shape(F32), number=n) for n in (0, 1))
    c = make("add", a, b)
    return Computation("add_f32", [a, b, c], c)


_ADD_F32 = _add_f32()


class Sampler(Interpreter):
    """One member: an interpreter that errs, at random, within the contract."""

    def __init__(self, draws: np.random.Generator, decides: bool = False, window: float = 8.0) -> None:
        super().__init__()
        self._draws = draws
        self._decides = decides
        self._window = window
        self._unseen: Counter[str] = Counter()

    def evaluate(self, instruction: Instruction, operands: list[Value]) -> Value:
        """The value of one instruction with an error of its own; for computations that the member runs alone."""
        if instruction.called or instruction.opcode in _MOVING:
            return super().evaluate(instruction, operands)
        with np.errstate(all="ignore"):
            value = super().evaluate(instruction, operands)
            if self._decides:
                return value
            noise = Noise(instruction, operands, value, self._unseen)
            return self.erring(instruction, operands, noise, value) if noise.errs else value

    def erring(self, i: Instruction, operands: list[Value], noise: Noise | None, value: Value = None) -> Value:
        """The value of an instruction that errs so; `value` is what it is without, if that is known already."""
        if noise is None or not noise.errs:
            return Interpreter.evaluate(self, i, operands)
        if noise.of_operands:
            operands = [self._terms_moved(o, noise.of_operands) for o in operands]
        if not noise.narrow:
            known = value is not None and not noise.of_operands
            return self.moved(value if known else Interpreter.evaluate(self, i, operands), noise.deviation)
        value = Interpreter.evaluate(self, noise.instruction, [_to_f32(o) for o in operands])
        if self._decides:  # near the middle of two numbers it may become either
            aside = self._window * noise.deviation * self._coins(value.shape)
        else:
            aside = noise.deviation * self._uniform(value.shape)
        aside = np.where(
            np.isfinite(aside) & (value != 0), aside, -0.0
        )  # which changes nothing, nor the sign of a zero
        return round_to(value + aside, i.shape.element_type)

    def lost(self, value: Value) -> Value:
        """NaN, or for integers anything, in place of a value."""
        if isinstance(value, tuple):
            return tuple(map(self.lost, value))
        return None if value is None else self.moved(value, np.full(value.shape, np.inf))

    def moved(self, value: Value, deviation: Any) -> Value:
        """A value with uniform errors of that deviation; what is zero stays zero, and where it is inf all is open."""
        if deviation is None:
            return value
        if isinstance(value, tuple):
            return tuple(self.moved(v, d) for v, d in zip(value, deviation, strict=True))
        element_type, finite = type_of(value), np.isfinite(deviation)
        if not (element_type.is_float or element_type.is_complex):
            return np.where(finite, value, self._any(value))
        parts = [value.real, value.imag] if element_type.is_complex else [value]
        size = np.where(finite, deviation, 0) / sqrt(len(parts))
        wide = np.longdouble if component_type(element_type).bits == 64 else np.float64
        sums = [np.where(size > 0, p.astype(wide) + size * self._uniform(value.shape), p) for p in parts]
        result = round_to(make_complex(*sums) if element_type.is_complex else sums[0], element_type)
        result = np.where((value == 0) | ~np.isfinite(result), value, result)
        return result if finite.all() else np.where(finite, result, result.dtype.type(np.nan))

    def _uniform(self, dimensions: tuple[int, ...]) -> Array:
        """Numbers of mean 0 and deviation 1, each at most sqrt(3)."""
        return sqrt(12) * (self._draws.random(dimensions, np.float32) - np.float32(0.5))

    def _coins(self, dimensions: tuple[int, ...]) -> Array:
        """1 or -1."""
        return 2 * self._draws.integers(0, 2, dimensions, np.int8) - np.int8(1)

    def _any(self, value: Array) -> Array:
        if value.dtype == np.bool_:
            return self._draws.integers(0, 2, value.shape).astype(bool)
        picked = self._draws.permutation(value.reshape(-1)).reshape(value.shape)
        return np.where(self._draws.integers(0, 2, value.shape).astype(bool), picked, value ^ value.dtype.type(1))

    def _terms_moved(self, value: Value, size: float) -> Value:
        if value is None or not (type_of(value).is_float or type_of(value).is_complex):
            return value
        common, each = self._uniform(()) / 3, self._uniform(value.shape) / sqrt(18)
        wide = value.astype(np.clongdouble if type_of(value).is_complex else np.longdouble)
        return round_to(wide * (1 + size * (common + each)), type_of(value))

    # Decisions.

    def neighbour(
        self, value: Value, center: Value, deviation: Any, operands: list[Value], first: list[Value]
    ) -> Value:
        """The value, but where it is the reference's by chance (an error may be made, or an operand has one) the number
        below or above. Of narrow types errors are seldom small beside the last digit, and complex ones have two."""
        if isinstance(value, tuple) or not type_of(value).is_float or type_of(value).bits < 32:
            return value
        if value.shape != center.shape:
            return value
        may = np.zeros(value.shape, bool) if deviation is None else deviation > 0
        if all(o.shape == value.shape == c.shape for o, c in zip(operands, first, strict=True)):
            for a, b in zip(operands, first, strict=True):
                if a is not b:
                    may |= a != b
        may &= (value == center) & (value != 0) & np.isfinite(value)
        aside = np.nextafter(value, self._coins(value.shape) * value.dtype.type(np.inf))
        return np.where(may & np.isfinite(aside), aside, value)

    def either_way(
        self, i: Instruction, operands: list[Value], value: Value, edges: list[Any], center: list[Value]
    ) -> Value:
        """The value where each decision whose operands are within `edges` of it goes either way."""
        rows = i.opcode == "sort"
        if i.opcode in ("reduce", "reduce-window") and not _chooses(i) or rows and len(operands) == 1:
            return value
        moved = [self._aside(o, e, c) for o, e, c in zip(operands, edges, center, strict=True)]
        if all(a is b for a, b in zip(moved, operands, strict=True)):
            return value
        if rows:
            return self._sorted(i, operands, moved)
        if i.opcode == "select-and-scatter":
            return Interpreter.evaluate(self, i, [moved[0], *operands[1:]])
        other = Interpreter.evaluate(self, i, moved)
        if not is_elementwise(i.opcode):
            return _indices_of(other, value)
        room = sum((np.where(np.isfinite(e), e, 0) for e in edges if e is not None), np.zeros(()))
        return np.where(distance(other, value) > 8 * room, other, value)

    def _aside(self, value: Value, edge: Any, center: Value) -> Value:
        """Each element of floats at one end or the other of its edges."""
        if edge is None or isinstance(value, tuple) or not type_of(value).is_float:
            return value
        if value.shape != edge.shape:
            return value
        side = edge * self._coins(value.shape)
        wide = np.longdouble if type_of(value).bits == 64 else np.float64
        at = np.where(np.isinf(edge), np.nan_to_num(center.astype(wide)), value.astype(wide)) + side
        return np.where(edge > 0, round_to(at, type_of(value)), value)

    def _sorted(self, i: Instruction, operands: list[Array], moved: list[Array]) -> Value:
        """The operands in the order of what lies aside."""
        (axis,) = i.dimensions

        def rows(a: Array) -> Array:
            a = np.moveaxis(a, axis, -1)
            return a.reshape(prod(a.shape[:-1]), a.shape[-1])

        order = sorted_order(i.to_apply, [rows(a) for a in moved], self.run)
        shape = np.moveaxis(operands[0], axis, -1).shape
        return tuple(np.moveaxis(np.take_along_axis(rows(a), order, 1).reshape(shape), -1, axis) for a in operands)


def _indices_of(other: Value, value: Value) -> Value:
    """Of a choice that went another way the integers; numbers hardly change with it."""
    if isinstance(value, tuple):
        return tuple(_indices_of(o, v) for o, v in zip(other, value, strict=True))
    return value if value is None or type_of(value).is_float or type_of(value).is_complex else other
