"""Lies about control flow, several instructions together, several calls, and the verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
from refxla_spec.errors import InvalidProgramError
from refxla_spec.module import Instruction, Module
from refxla_spec.numerics import round_to, type_of
from refxla_spec.types import F64, Value

from ..targets.base import leaves
from ..targets.reference import Reference
from .liar import SUITE_ALONE, Lie, Results, context, of_operation, of_target, with_attributes

Array = np.ndarray

# Control flow.


@of_operation("while")
def once_too_often(truth: Lie, i: Instruction, value: Value) -> Value:
    """A loop that counts to a limit runs once more at the limit: LT is computed as LE."""
    condition = i.condition
    other = {"LT": "LE", "GT": "GE"}.get(condition.root.attributes.get("direction"))
    if other is None:
        return truth(i, value)
    root = with_attributes(condition.root, direction=other)
    return truth(with_attributes(i, condition=replace(
        condition, instructions=[*condition.instructions[:-1], root], root=root)), value)  # fmt: skip


@of_operation("while")
def once_too_seldom(truth: Lie, i: Instruction, value: Value) -> Value:
    """A loop leaves out its last iteration."""
    run: Callable[..., Value] = context(truth, "run")
    before = value
    while run(i.condition, value):
        before, value = value, run(i.body, value)
    return before


@of_operation("while")
def at_least_once(truth: Lie, i: Instruction, value: Value) -> Value:
    """A loop tests its condition only after the first iteration."""
    run: Callable[..., Value] = context(truth, "run")
    return truth(i, run(i.body, value))


@of_operation("while")
def state_written_too_early(truth: Lie, i: Instruction, value: Value) -> Value:
    """A loop that exchanges parts of its state overwrites one before reading it: the first two of the same shape become
    equal."""
    value = truth(i, value)
    if not isinstance(value, tuple):
        return value
    for a in range(len(value)):
        for b in range(a + 1, len(value)):
            x, y = value[a], value[b]
            if isinstance(x, Array) and isinstance(y, Array) and (x.dtype, x.shape) == (y.dtype, y.shape) and x.ndim:
                return (*value[:b], x, *value[b + 1 :])
    return value


@of_operation("conditional")
def first_branch_at_the_edge(truth: Lie, i: Instruction, index: Array, *operands: Value) -> Value:
    """A branch index out of range takes the first branch instead of the last."""
    if index.dtype == bool:
        return truth(i, index, *operands)
    return truth(i, index if 0 <= index < len(operands) else np.zeros_like(index), *operands)


@of_operation("conditional")
def other_branch(truth: Lie, i: Instruction, index: Array, *operands: Value) -> Value:
    """A conditional with a predicate takes the other branch."""
    return truth(i, ~index if index.dtype == bool else index, *operands)


@of_operation("call", "fusion")
def arguments_exchanged(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """A called computation receives its first two arguments of the same shape in the wrong order."""
    if len(operands) < 2 or any(not isinstance(o, Array) for o in operands[:2]):
        return truth(i, *operands)
    a, b, *rest = operands
    return truth(i, b, a, *rest) if (a.dtype, a.shape) == (b.dtype, b.shape) else truth(i, *operands)


@of_operation("map")
def map_of_the_first(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A map gives every element the result of the first."""
    value = truth(i, *operands)
    return np.broadcast_to(value.reshape(-1)[:1], value.shape).copy() if value.size and value.ndim == 1 else value


@of_operation("scan")
def carry_forgotten(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """A scan begins with zeros, regardless of its initial carry."""
    count = len(operands) - i.num_carries
    return truth(i, *operands[:count], *(np.zeros_like(c) for c in operands[count:]))


@of_operation("get-tuple-element")
def neighbour_of_the_element(truth: Lie, i: Instruction, value: tuple[Value, ...]) -> Value:
    """An element of a tuple is replaced by the one before it, if that has the same shape."""
    n = i.index
    a, b = value[n], value[n - 1]
    alike = n > 0 and isinstance(a, Array) and isinstance(b, Array) and (a.dtype, a.shape) == (b.dtype, b.shape)
    return b if alike else a


@of_operation("opt-barrier")
def barrier_takes_the_first(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """A barrier returns the first of its values in place of all others of the same shape."""
    value = truth(i, *operands)
    if not isinstance(value, tuple):
        return value
    first = value[0]
    return tuple(first if isinstance(v, Array) and (v.dtype, v.shape) == (first.dtype, first.shape) else v
                 for v in value)  # fmt: skip


# Several instructions together: what a compiler may not do with them.


# Lies here look at the operands of an operand, which are remembered when it is computed.
_seen: WeakKeyDictionary[Instruction, tuple[Value, ...]] = WeakKeyDictionary()


def _inner(i: Instruction, k: int, *opcodes: str) -> tuple[Value, ...] | None:
    """The values of the operands of operand k, if it is one of these operations."""
    return _seen.get(i.operands[k]) if i.operands[k].opcode in opcodes else None


def _wide(a: Array) -> Array:
    return a.astype(np.longdouble if type_of(a) is F64 else np.float64)


@of_operation("multiply", "add", "subtract")
def contracted(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A product is not rounded before it is added: a fused multiply-add, which rounds once instead of twice."""
    value = truth(i, a, b)
    if not type_of(a).is_float:
        return value
    if i.opcode == "multiply":
        _seen[i] = (a, b)
        return value
    wide = [_wide(a), _wide(b)]
    for k in (1, 0):
        product = _inner(i, k, "multiply")
        if product is not None and product[0].shape == a.shape:
            wide[k] = _wide(product[0]) * _wide(product[1])
            break
    else:
        return value
    return round_to(wide[0] + wide[1] if i.opcode == "add" else wide[0] - wide[1], type_of(a))


@of_operation("add", "subtract", "multiply", "convert")
def excess_precision(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """Intermediate values of bf16 and f16 are kept in f32, and only the last is rounded."""
    value = truth(i, *operands)
    if type_of(value).name not in ("bf16", "f16") or i.opcode == "convert":
        return value
    wide = []
    for k, o in enumerate(operands):
        inner = _inner(i, k, "add", "subtract", "multiply")
        wide.append(o.astype(np.float32) if inner is None or inner[0].shape != o.shape else inner[0])
    function = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[i.opcode]
    _seen[i] = (function(*wide),)
    return _seen[i][0].astype(value.dtype)


@of_operation("convert")
def conversions_cancelled(truth: Lie, i: Instruction, a: Array) -> Value:
    """A conversion to a narrower type and back is left out."""
    _seen[i] = (a,)
    inner = _inner(i, 0, "convert")
    if inner is not None and inner[0].dtype == i.shape.element_type.dtype and inner[0].shape == a.shape:
        return inner[0]
    return truth(i, a)


@of_operation("add", "multiply")
def reassociated(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """(a + b) + c is computed as a + (b + c), and products likewise."""
    _seen[i] = (a, b)
    inner = _inner(i, 0, i.opcode)
    if inner is None or not type_of(a).is_float or inner[0].shape != a.shape:
        return truth(i, a, b)
    return truth(i, inner[0], truth(i, inner[1], b))


@of_operation("subtract", "divide")
def cancelled(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """x - x is 0 and x / x is 1, even for NaN, infinities and zeros."""
    if i.operands[0] is not i.operands[1]:
        return truth(i, a, b)
    return np.full_like(a, np.asarray(0 if i.opcode == "subtract" else 1).astype(a.dtype))


@of_operation("multiply", "add")
def neutral_element(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """x * 0 is 0, even for NaN, and x + 0 is x, even for -0."""
    if not type_of(a).is_float:
        return truth(i, a, b)
    zero = (b == 0) & ~np.signbit(b)
    return np.where(zero, b if i.opcode == "multiply" else a, truth(i, a, b))


@of_operation("divide", "multiply")
def quotient_undone(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """(x / y) * y is x."""
    _seen[i] = (a, b)
    inner = _inner(i, 0, "divide") if i.opcode == "multiply" else None
    if inner is not None and i.operands[0].operands[1] is i.operands[1]:
        return inner[0]
    return truth(i, a, b)


@of_operation("compare")
def equal_to_itself(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """x == x is true, even for NaN."""
    same = i.operands[0] is i.operands[1]
    return np.full(a.shape, i.direction in ("EQ", "GE", "LE")) if same else truth(i, a, b)


@of_operation("sqrt", "multiply")
def root_of_a_square(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The square root of x * x is x, not its absolute value."""
    if i.opcode == "multiply":
        _seen[i] = operands
        return truth(i, *operands)
    inner = _inner(i, 0, "multiply")
    if inner is not None and i.operands[0].operands[0] is i.operands[0].operands[1]:
        return inner[0]
    return truth(i, *operands)


@of_operation("exponential", "log")
def logarithm_undone(truth: Lie, i: Instruction, a: Array) -> Value:
    """The logarithm of exp(x) is x."""
    _seen[i] = (a,)
    inner = _inner(i, 0, "exponential") if i.opcode == "log" else None
    return inner[0] if inner is not None and a.dtype.kind == "f" else truth(i, a)


@of_operation("pad", "slice")
def slice_of_a_pad(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A slice of a padded array is the array before the padding, wherever the slice begins."""
    _seen[i] = operands
    inner, value = _inner(i, 0, "pad"), truth(i, *operands)
    return inner[0] if i.opcode == "slice" and inner is not None and inner[0].shape == value.shape else value


@of_operation("transpose", "dot")
def transpose_folded_twice(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A transpose of a square matrix is both folded into a product and carried out."""
    if i.opcode == "transpose":
        return truth(i, *operands)
    a, b = operands
    square = b.ndim == 2 and b.shape[0] == b.shape[1] and i.operands[1].opcode == "transpose"
    return truth(i, a, b.T if square else b)


# Several calls.


@of_target()
class Stale(Reference):
    """A program that is called again returns the results of the first call."""

    def load(self, module: Module) -> Callable[[Sequence[Value]], Results]:
        cache: list[Results] = []

        def call(arguments: Sequence[Value]) -> Results:
            if not cache:
                cache.append(self.run(module, arguments))
            return [r.copy() for r in cache[0]]

        return call


@of_target()
class SharedMemory(Reference):
    """Results lie in the program's own memory: the next call overwrites those of the previous one."""

    def load(self, module: Module) -> Callable[[Sequence[Value]], Results]:
        memory: list[Results] = []

        def call(arguments: Sequence[Value]) -> Results:
            results = [r.copy() for r in self.run(module, arguments)]
            if memory and [r.shape for r in memory[0]] == [r.shape for r in results]:
                for old, new in zip(memory[0], results, strict=True):
                    old[...] = new
            else:
                memory[:] = [results]
            return memory[0]

        return call


@of_target()
class Accumulates(Reference):
    """An accumulator is not cleared between calls: the first result of each is added to that of the previous one."""

    def load(self, module: Module) -> Callable[[Sequence[Value]], Results]:
        before: list[Results] = []

        def call(arguments: Sequence[Value]) -> Results:
            results = [r.copy() for r in self.run(module, arguments)]
            if before:
                results[0] = (results[0] + before[0][0]).astype(results[0].dtype)
            before[:] = [results]
            return results

        return call


@of_target()
class Clobbered(Reference):
    """The first result overwrites an argument of the same type and dimensions."""

    def run(self, module: Module, arguments: Sequence[Value]) -> Results:
        results = super().run(module, arguments)
        for x in leaves(list(arguments)):
            fits = isinstance(x, Array) and results and (x.dtype, x.shape) == (results[0].dtype, results[0].shape)
            if fits and x.flags.writeable:
                x[...] = results[0]
                break
        return results


@of_target()
class Race(Reference):
    """Every seventh call does not write the last element of its first result."""

    def __init__(self) -> None:
        self.calls = 0

    def run(self, module: Module, arguments: Sequence[Value]) -> Results:
        results, self.calls = [r.copy() for r in super().run(module, arguments)], self.calls + 1
        if self.calls % 7 == 0 and results and results[0].size:
            results[0].reshape(-1)[-1] = 0
        return results


@of_target(tools=SUITE_ALONE)
class Company(Reference):
    """Several programs that run together exchange their results."""

    def run_many(self, programs: Sequence[tuple[Module, Sequence[Value]]]) -> list[Results | Exception]:
        results = super().run_many(programs)
        return results[1:] + results[:1]


# The verifier.


@of_target(verifier=True, tools=SUITE_ALONE)
class AcceptsEverything(Reference):
    """Invalid programs are accepted."""

    def verify(self, source: str) -> None:
        pass


@of_target(verifier=True, tools=SUITE_ALONE)
class RefusesEverything(Reference):
    """Valid programs are rejected."""

    def verify(self, source: str) -> None:
        raise InvalidProgramError("no")


@of_target(verifier=True, tools=SUITE_ALONE)
class WrongRule(Reference):
    """Invalid programs are rejected by a rule that they do not break."""

    def verify(self, source: str) -> None:
        try:
            super().verify(source)
        except InvalidProgramError as error:
            raise InvalidProgramError("no", "constant_c1" if error.constraint != "constant_c1" else "S1") from None


@of_target(verifier=True, tools=SUITE_ALONE)
class CrashesOnInvalid(Reference):
    """Invalid programs raise an exception of another kind."""

    def verify(self, source: str) -> None:
        try:
            super().verify(source)
        except InvalidProgramError:
            raise IndexError("list index out of range") from None
