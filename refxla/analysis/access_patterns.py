"""What the elements of a fusion read and store, as data: loads of inputs at symbolic indices, and the bounds against
which indices are tested.

An emitter uses them to decide whether memory is read contiguously or with a stride, whether a result is only moved, and
where loops are split. They follow from the index maps of the members (index_maps.py), without any code being written.
Values that are not in C yet, such as the start of a dynamic-slice, are symbols (`index_expression.symbol`), so that no
emitter prints them.

    pattern = AccessPattern(fusion)
    pattern.store(output, (i, j))
    pattern.accesses, pattern.stores
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from refxla_spec.module import Instruction, Window

from ..ir.literals import is_splat
from ..ir.plan import Fusion
from . import index_maps
from .element_rules import Request, Rule, run_rule
from .index_expression import Index, linearize, symbol
from .index_maps import Condition, Indices, Start
from .index_values import known_start


@dataclass(frozen=True)
class Access:
    """A load of the element `indices` of an input, at `position` in memory, with a unique name.

    `conditional` says that it is under an if, or in a loop within the element on whose variable it depends, so that it
    is not one load for each element.
    """

    instruction: Instruction
    indices: Indices
    position: Index
    conditional: bool
    name: str

    def mapped(self, index: Callable[[Index], Index]) -> Access:
        """The same load with each index replaced."""
        return replace(self, indices=tuple(map(index, self.indices)), position=index(self.position))


@dataclass(frozen=True)
class Store:
    """A store to an output at `position` in memory; `value` is the name of what is stored, such as a load."""

    instruction: Instruction
    position: Index
    value: str

    def mapped(self, index: Callable[[Index], Index]) -> Store:
        """The same store with its index replaced."""
        return replace(self, position=index(self.position))


@dataclass(frozen=True)
class FunctionCall:
    """The computation of an element of an elementwise member; `conditional` as of an Access."""

    instruction: Instruction
    indices: Indices
    conditional: bool

    def mapped(self, index: Callable[[Index], Index]) -> FunctionCall:
        """The same call with each index replaced."""
        return replace(self, indices=tuple(map(index, self.indices)))


Record = TypeVar("Record", Access, Store, FunctionCall)


class AccessPattern:
    """The loads, stores and tests of the requested elements, each once in a scope, as in the generated code.

    accesses   loads of inputs, in order
    stores     stores of outputs, in order
    tests      (index, bound): an index was tested for being at least the bound
    remainders those that the code has to test for equality, as the index of a pad between elements
    starts     the symbols of start indices that the program computes, by name, each after those that it depends on
    calls      the elementwise operations that `notes` accepts
    iterations of the loops within one element, approximately: a measure of its cost
    divisions  index divisions in the code
    """

    def __init__(self, fusion: Fusion, notes: Callable[[Instruction], bool] = lambda i: False) -> None:
        self._fusion, self._inputs = fusion, frozenset(fusion.inputs)
        self._notes = notes
        self.accesses: list[Access] = []
        self.stores: list[Store] = []
        self.tests: list[tuple[Index, int]] = []
        self.remainders: list[Index] = []
        self.starts: dict[str, Start] = {}
        self.calls: list[FunctionCall] = []
        self.iterations = 1
        self.divisions = 0
        self._counters: set[str] = set()
        self._symbols = 0
        self._values: list[dict[Hashable, Any]] = [{}]
        self._conditions = 0

    def value(self, instruction: Instruction, indices: Sequence[Index]) -> Any:
        """Records what the element reads. Returns a name for its value, the load's name if it is a loaded element, or a
        tuple of names for an instruction with several results.

        Raises UnsupportedError for an operation that has no elementwise form.
        """

        def request() -> Rule:
            return (yield instruction, tuple(indices))

        return self._run(request())

    def store(self, instruction: Instruction, indices: Sequence[Index], value: Any = None) -> None:
        """Records a store of the element, of its own value or of the given one."""
        value = self.value(instruction, indices) if value is None else value
        position = linearize(indices, instruction.shape.dimensions)
        self.divisions += position.divisions
        self.stores.append(Store(instruction, position, value))

    def bind(self, instruction: Instruction, indices: Sequence[Index]) -> None:
        """Marks an element as known: from now on, nothing is read for it."""
        self._values[0][instruction, tuple(indices)] = self._computed()

    def start_indices(self, starts: Sequence[Start]) -> list[Index]:
        """Symbols for start indices, whose values are recorded as read."""

        def rule() -> Rule:
            return (yield from self._starts(starts))

        return cast("list[Index]", self._run(rule()))

    def _run(self, rule: Rule) -> Any:
        return run_rule(rule, self._rule, self._recall, self._remember)

    def _remember(self, request: Request, answer: Any) -> None:
        self._values[-1][request] = answer

    def _recall(self, request: Hashable) -> Any:
        for values in reversed(self._values):
            if request in values:
                return values[request]
        return None

    def _rule(self, instruction: Instruction, indices: Indices) -> Rule:
        if instruction.shape.is_array and not instruction.shape.size:
            return self._nothing()
        if instruction in self._inputs:
            return self._load(instruction, indices)
        source = index_maps.SOURCES.get(instruction.opcode)
        if source is not None:
            return self._through(instruction.operands[0], source(instruction, indices))
        rule = _RULES.get(instruction.opcode)
        if rule is not None:
            return rule(self, instruction, indices)
        index_maps.require_elements(instruction)
        return self._elementwise(instruction, indices)

    def _computed(self) -> str:
        """A new name, for a value that is computed."""
        self._symbols += 1
        return f"value{self._symbols}"

    def _nothing(self) -> Rule:
        return "0"
        yield  # makes this a generator, as every rule is, though it requests nothing

    def _load(self, instruction: Instruction, indices: Indices) -> Rule:
        position = linearize(indices, instruction.shape.dimensions)
        self.divisions += position.divisions
        name = f"load{len(self.accesses)}"
        conditional = self._conditions > 0 or not self._counters.isdisjoint(position.variables)
        self.accesses.append(Access(instruction, indices, position, conditional, name))
        return name
        yield

    def _through(self, operand: Instruction, indices: Indices) -> Rule:
        return (yield operand, indices)

    def _elementwise(self, i: Instruction, indices: Indices) -> Rule:
        values = []
        for operand in i.operands:
            values.append((yield operand, index_maps.elementwise_operand(operand, indices)))
        if self._notes(i):
            counted = any(not self._counters.isdisjoint(x.variables) for x in indices)
            self.calls.append(FunctionCall(i, indices, self._conditions > 0 or counted))
        return values[0] if _is_identity(i) else self._computed()

    def symbol(self, prefix: str, low: int, high: int) -> Index:
        """A new symbol with that range."""
        self._symbols += 1
        return symbol(f"{prefix}{self._symbols}", low, high)

    def shift(self, values: Sequence[int]) -> Index:
        """A symbol for one of several distances; a load there is not one load for each element."""
        index = self.symbol("shift", min(values), max(values))
        self._counters |= index.variables
        return index

    def _starts(self, starts: Sequence[Start]) -> Rule:
        symbols = []
        for s in starts:
            symbols.append((yield from self._start(s)))
        return symbols

    def _start(self, s: Start) -> Rule:
        known = known_start(s)
        if known is not None:
            return known
        value = yield s.value, s.indices
        key = (value, s.value.shape.element_type.name, s.limit)
        start = self._recall(key)
        if start is None:
            start = self.symbol("start", 0, max(0, s.limit))
            self.starts |= dict.fromkeys(start.variables, s)
            self._values[-1][key] = start
        return start

    @contextmanager
    def _scope(self, conditional: bool = False) -> Iterator[None]:
        self._values.append({})
        self._conditions += conditional
        try:
            yield
        finally:
            self._values.pop()
            self._conditions -= conditional

    def _loop(self, size: int, scopes: ExitStack) -> Index:
        """The index of a loop within the element, whose body ends with the scopes."""
        self.iterations *= max(size, 1)
        index = self.symbol("loop", 0, max(size - 1, 0))
        self._counters |= index.variables
        scopes.enter_context(self._scope())
        return index

    def _ask(self, conditions: Sequence[Condition]) -> bool | None:
        """Whether the conditions hold; None if the code has to test them."""
        self.tests += [(c.index, c.bound) for c in conditions if c.relation != "=="]
        tests: dict[tuple[str, Index, int], int] = {}  # with the number of divisions in each
        for c in conditions:
            test = c.simplified
            if test is False:
                return False
            if test is not True:
                index, bound = test
                tests[c.relation, index, bound] = index.divisions
        self.remainders += [index for relation, index, _ in tests if relation == "=="]
        self.divisions += sum(tests.values())
        return None if tests else True

    def _guard(self, conditions: Sequence[Condition], scopes: ExitStack) -> None:
        if self._ask(conditions) is not True:
            scopes.enter_context(self._scope(conditional=True))

    def _window(self, window: Window, placing: Sequence[Index], sizes: Sequence[int], descending: bool,
                scopes: ExitStack) -> tuple[list[Index], list[Index]]:  # fmt: skip
        """(elements of the window, positions in the array), in loops over those elements of the window that lie on the
        array."""
        elements, positions = [], []
        for w, o, size in zip(window, placing, sizes, strict=True):
            k = self._loop(w.size, scopes)
            k = w.size - 1 - k if descending else k
            conditions, at = index_maps.window_position(w, o, k, size)
            self._guard(conditions, scopes)
            elements.append(k)
            positions.append(at)
        return elements, positions


def _is_identity(i: Instruction) -> bool:
    """Whether an elementwise operation returns its operand unchanged."""
    source, result = i.operands[0].shape.element_type, i.shape.element_type
    return source is result and (i.opcode == "convert" or (i.opcode == "real" and not source.is_complex))


_Rule = Callable[[AccessPattern, Instruction, Indices], Rule]
_RULES: dict[str, _Rule] = {}


def _enter(rule: _Rule) -> _Rule:
    """Registers a rule under the opcode that its name spells."""
    _RULES[rule.__name__[1:].replace("_", "-")] = rule
    return rule


@_enter
def _constant(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    values = np.asarray(i.attributes["literal"])
    if not is_splat(values):
        position = linearize(indices, i.shape.dimensions)
        p.divisions += position.divisions * (1 if values.dtype.kind in "iu" else max(0, values.size - 1))
        return p._computed()
    return f"literal {values.flat[0]!r}"
    yield


@_enter
def _iota(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    p.divisions += indices[i.attributes["iota_dimension"]].divisions
    return p._computed()
    yield


@_enter
def _pad(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    operand, padding = i.operands
    conditions, source = index_maps.pad(i, indices)
    inside = p._ask(conditions)
    if inside is True:
        return (yield operand, source)
    outside = yield padding, ()
    if inside is False:
        return outside
    with p._scope(conditional=True):
        yield operand, source
    return p._computed()


@_enter
def _concatenate(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    pieces = index_maps.concatenate(i, indices)
    if len(pieces) == 1:
        return (yield pieces[0].operand, pieces[0].indices)
    (axis,) = i.attributes["dimensions"]
    rotation = index_maps.rotation(i, indices, p._fusion)
    if rotation is not None:
        return (yield rotation)
    window = index_maps.window(i, indices, pieces, p._fusion)
    if window is not None and not any(window.shifts):
        return (yield window.array, window.indices)
    for piece in pieces[:-1]:
        p._ask([Condition(indices[axis], "<", piece.end)])
    if window is not None:
        return (yield window.array, tuple(x + p.shift(of) if of else x for x, of in window.places))
    for piece in pieces:
        with p._scope(conditional=True):
            yield piece.operand, piece.indices
    return p._computed()


@_enter
def _dynamic_slice(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    starts = yield from p._starts(index_maps.slice_starts(i))
    return (yield i.operands[0], index_maps.shifted(indices, starts))


@_enter
def _dynamic_update_slice(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    operand, update = i.operands[:2]
    starts = yield from p._starts(index_maps.update_starts(i))
    conditions, source = index_maps.updated(i, indices, starts)
    inside = p._ask(conditions)
    if inside is not None:
        return (yield (update, source) if inside else (operand, indices))
    with p._scope(conditional=True):
        positions = []
        for x, n in zip(source, update.shape.dimensions, strict=True):
            if x.low < 0 or x.high >= n:
                p.divisions += x.divisions
                x = p.symbol("inside", 0, n - 1)
            positions.append(x)
        yield update, tuple(positions)
    with p._scope(conditional=True):
        yield operand, indices
    return p._computed()


@_enter
def _gather(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    starts = []
    for d, start in index_maps.gather_starts(i, indices):
        starts.append((d, (yield from p._start(start))))
    return (yield i.operands[0], index_maps.gathered(i, indices, starts))


@_enter
def _get_tuple_element(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    values = yield i.operands[0], indices
    return values[i.attributes["index"]]


@_enter
def _tuple(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    values = []
    for operand in i.operands:
        values.append((yield operand, indices))
    return tuple(values)


@_enter
def _bitcast_convert(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    if i.operands[0].shape.element_type.bits > i.shape.element_type.bits:
        p.divisions += indices[-1].divisions
    for source in index_maps.bitcast_operands(i, indices):
        yield i.operands[0], source
    return p._computed()


@_enter
def _dot(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    with ExitStack() as scopes:
        terms = [p._loop(size, scopes) for size in index_maps.dot_terms(i)]
        left, right = index_maps.dot_operands(i, indices, terms)
        yield i.operands[0], left
        yield i.operands[1], right
    return p._computed()


@_enter
def _convolution(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    n, window = i.attributes["dim_labels"], i.attributes.get("window", ())
    with ExitStack() as scopes:
        placing = [indices[d] for d in n.output_spatial]
        sizes = [i.operands[0].shape.dimensions[d] for d in n.input_spatial]
        elements, positions = p._window(window, placing, sizes, False, scopes)
        feature = p._loop(index_maps.convolution_terms(i)[-1], scopes)
        left, right = index_maps.convolution_operands(i, indices, elements, positions, feature)
        yield i.operands[0], left
        yield i.operands[1], right
    return p._computed()


@_enter
def _reduce_window(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    count = len(i.operands) // 2
    operands, inits = i.operands[:count], i.operands[count:]
    for init in inits:
        yield init, ()
    running = index_maps.cumulative(i)
    with ExitStack() as scopes:
        sizes, backward = operands[0].shape.dimensions, running is not None and running[1]
        _, positions = p._window(i.window, indices, sizes, backward, scopes)
        for operand in operands:
            yield operand, tuple(positions)
    return tuple(p._computed() for _ in operands) if i.shape.is_tuple else p._computed()


@_enter
def _select_and_scatter(p: AccessPattern, i: Instruction, indices: Indices) -> Rule:
    operand, source, init = i.operands
    sizes = operand.shape.dimensions
    yield init, ()
    with ExitStack() as scopes:
        placing = []
        for w, x, count in zip(i.window, indices, source.shape.dimensions, strict=True):
            number = p._loop(index_maps.most_placings(w), scopes)
            conditions, o = index_maps.covering_placing(w, x, number, count)
            p._guard(conditions, scopes)
            placing.append(o)
        with ExitStack() as inner:
            _, positions = p._window(i.window, placing, sizes, False, inner)
            yield operand, tuple(positions)
            p.divisions += linearize(positions, sizes).divisions
        yield source, tuple(placing)
    p.divisions += linearize(indices, sizes).divisions
    return p._computed()
