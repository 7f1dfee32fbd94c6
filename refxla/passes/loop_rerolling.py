"""Rerolls loops that tracing unrolled: loops of the host language, whose iterations are all in the program.

    x1 = f(x0, a[0]); x2 = f(x1, a[1]); ...; x9 = f(x8, a[8])    ->    for k < 9: x = f(x, a[k])

A program that is traced holds every iteration of such a loop (`for t in range(1000)` in a function of JAX or NumPy),
and kernels of thousands of statements take minutes to compile. A loop has a single body. The bits stay the same: each
instruction is executed as often as before, on the same operands.

Iterations may differ in constants (a table, or start + k * step), in the starts of slices, and in data movement of
values from before the loop. A value that an iteration takes from the previous one becomes state; values of all
iterations that are read after the loop are collected in an array.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction, Module, SliceDimension
from refxla_spec.types import S32, Shape

from ..analysis.repetition import FEWEST, Repeats, Repetition
from ..analysis.traced_loop import (
    CarriedValue,
    Invariant,
    LoopLiterals,
    LoopOperand,
    MovedValues,
    StackedValues,
    TracedLoop,
    TracedProgram,
    longest_loop,
    slice_steps,
)
from ..ir.builder import Build
from .cse import IMPURE, attribute_key, key_of
from .dce import acts, called_first, sort

LEAST = 256  # instructions that all loops of a period have to remove together: shorter programs are better unrolled
LEAST_OF_ONE = 64  # and each of them
LEAST_WITH_NUMBERS = 512  # where iterations have constants of their own, which may make each simpler than the loop


def run(module: Module) -> int:
    """Rerolls loops in all computations, and then in the new bodies. Returns the number of loops."""
    waiting = list(module.computations)
    kinds = _Kinds()
    count = 0
    while waiting:
        computation = waiting.pop()
        if len(computation.instructions) < LEAST or not _may_change(computation):
            continue
        while bodies := _reroll(computation, kinds):
            waiting += bodies
            count += len(bodies)
    if count:
        module.computations = called_first(module.entry)
    return count


def _may_change(computation: Computation) -> bool:
    """Whether nothing but data dependences orders the instructions."""
    return not any(i.control_predecessors or acts(i) for i in computation.instructions)


def _reroll(computation: Computation, kinds: _Kinds) -> list[Computation]:
    """Rerolls the loops of one period, in the order of instructions in which most of them recur. Returns their
    bodies."""
    program = _program(computation, kinds)
    candidates = list(Repeats(program).candidates(LEAST))
    early = program.reordered(_earliest_order(program))
    candidates_of_early = list(Repeats(early).candidates(LEAST))
    attempts = [(program, repetitions) for repetitions in candidates]
    if _saved_by_first(candidates_of_early) > _saved_by_first(candidates):
        attempts = [(early, repetitions) for repetitions in candidates_of_early] + attempts
    for program, repetitions in attempts:
        bodies = list[Computation]()
        for repetition in repetitions:
            loop = _loop_of(repetition, program)
            if loop is not None:
                writer = _Writer(loop)
                for old, new in writer.results.items():
                    for user in program.users[old]:
                        user.operands = [new if o is old else o for o in user.operands]
                    if old is computation.root:
                        computation.root = new
                bodies.append(writer.body)
        if bodies:
            sort(computation)
            return bodies
    return []


def _saved_by_first(candidates: Sequence[Sequence[Repetition]]) -> int:
    """The instructions that the first candidate saves."""
    return sum(r.saved for r in candidates[0]) if candidates else 0


def _earliest_order(program: TracedProgram) -> list[Instruction]:
    """The instructions in another order: each directly after the last of its operands.

    In the order of a walk from the results, which is that of HLO text, a loop with two results has all iterations of
    the first before those of the second, which would then be a loop of its own that reads collected values. In this
    order, both are in one iteration. Instructions without operands in the program keep their order.
    """
    place, order = program.place, list[Instruction]()
    waiting = {i: len({o for o in i.operands if o in place}) for i in program.sequence}
    for first in program.sequence:
        ready = [first] if not any(o in place for o in first.operands) else []
        while ready:
            i = ready.pop()
            order.append(i)
            freed = list[Instruction]()
            for user in dict.fromkeys(u for u in program.users[i] if u in place and u is not i):
                waiting[user] -= 1
                if not waiting[user]:
                    freed.append(user)
            ready += sorted(freed, key=lambda u: -place[u])
    return order


def _program(computation: Computation, kinds: _Kinds) -> TracedProgram:
    literals: dict[Instruction, Any] = {}
    for i in computation.instructions:
        if i.opcode == "constant" and not i.shape.is_tuple:
            literals[i] = i.literal
        elif i.opcode == "broadcast" and i.operands[0] in literals and not i.operands[0].shape.rank:
            literals[i] = np.broadcast_to(literals[i.operands[0]], i.shape.dimensions)
    sequence = [i for i in computation.instructions if i not in literals and i.opcode not in ("parameter", "constant")]
    users = computation.users()
    users[computation.root] = [*users[computation.root], computation.root]  # its caller reads it
    return TracedProgram(sequence, cache(kinds.of), literals, users)  # each is asked for in several orders


class _Kinds:
    """Numbers instructions; those that differ at most in the start of a slice have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._computations: dict[Computation, int] = {}

    def of(self, i: Instruction) -> int:
        """The number of an instruction."""
        for c in (c for called in i.called if called not in self._computations for c in called_first(called)):
            self._computations[c] = self._number(key_of(c, self._computations))
        return self._number(self._key(i))

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _key(self, i: Instruction) -> Hashable:
        shapes = (i.shape.without_layout(), *(o.shape.without_layout() for o in i.operands))
        if i.opcode in IMPURE or any(s.is_dynamic for s in shapes):
            return i
        if i.opcode == "slice":
            attributes: Iterable[Hashable] = slice_steps(i)
        else:
            attributes = sorted((k, attribute_key(v, self._computations)) for k, v in i.attributes.items())
        return (i.opcode, i.sharding, shapes, tuple(attributes))


def _loop_of(repetition: Repetition, program: TracedProgram) -> TracedLoop | None:
    """The loop of a repetition; None where there is none, or where too few instructions would be removed."""
    period = repetition.period
    # With the iteration before, whose operands are the initial values of the loop.
    start = max(repetition.alike, repetition.start - period)
    count, slack = divmod(repetition.end - start, period)
    start += _phase(program, start, repetition.end, period, slack)
    loop = longest_loop(program, start, period, count, LEAST_OF_ONE)
    if loop is None or loop.count < FEWEST:
        return None
    enough = (loop.count - 1) * period >= LEAST_WITH_NUMBERS
    return loop if enough or not loop.computes_with_numbers else None


def _phase(program: TracedProgram, start: int, end: int, period: int, slack: int) -> int:
    """How many of the first `slack` instructions are best left before the loop: an iteration begins where the fewest
    values are live."""
    begin = start + period  # of the second iteration: operands of the first differ from those of the others
    alive = np.zeros(2 * period + slack + 2, np.int64)
    for n in range(begin, begin + period + slack):
        places = (program.place.get(u, end) for u in program.users[program.sequence[n]])
        last = max((p for p in places if p < end), default=n)
        alive[n + 1 - begin] += 1  # where the next instruction is the first of an iteration
        alive[min(last + 1 - begin, len(alive) - 1)] -= 1
    return int(np.argmin(np.cumsum(alive)[period : period + slack + 1]))


class _Writer:
    """Writes a loop: `body` is that of the `while`, `results` has the replacements of the values that are read after
    it."""

    def __init__(self, loop: TracedLoop) -> None:
        self._loop = loop
        self._build = b = Build(f"{loop.rows[-1][0].name}.loop")
        self._state = list[Instruction]()  # the initial values
        self._invariants = dict[Instruction, None]()
        # The first of its elements of the state: the previous iteration's value.
        self._carried = dict[CarriedValue, int]()
        self._stacks = dict[StackedValues, Instruction]()
        for operand in (o for operands in loop.operands for o in operands):
            self._prepare(operand)
        self._last, self._collected = dict[int, int](), dict[int, int]()
        newest = {carried.place: n for carried, n in self._carried.items()}
        for place, read in enumerate(loop.read):
            shape = loop.rows[place][0].shape
            if read and read != [loop.count - 1]:
                self._collected[place] = len(self._state)
                self._state.append(b.full(0, shape.with_dimensions((loop.count, *shape.dimensions))))
            elif read and place not in newest:
                newest[place] = self._last[place] = len(self._state)
                self._state.append(b.full(0, shape))
        after = b.repeat(loop.count, self._iteration, self._state, list(self._invariants))
        self.body: Computation = after[0].operands[0].body
        self.results: dict[Instruction, Instruction] = {}
        for place, read in enumerate(loop.read):
            if place in self._collected:
                self.results |= self._read_collected(place, after[self._collected[place]])
            elif read:
                self.results[loop.rows[place][-1]] = after[newest[place]]

    def _prepare(self, operand: LoopOperand) -> None:
        """Adds what an operand needs to the invariants or to the state of the loop."""
        if isinstance(operand, Invariant):
            self._invariants[operand.value] = None
        elif isinstance(operand, CarriedValue):
            if operand.first and operand not in self._carried:
                self._carried[operand] = len(self._state)
                self._state += reversed(operand.first)
        elif isinstance(operand, MovedValues):
            for o in operand.operands:
                self._prepare(o)
        elif isinstance(operand, StackedValues) and operand not in self._stacks:
            rows = [self._build.reshape(r, (1, *r.shape.dimensions)) for r in operand.row]
            self._stacks[operand] = self._build.make("concatenate", *rows, dimensions=(0,))
            self._invariants[self._stacks[operand]] = None

    def _iteration(self, k: Instruction, *values: Instruction) -> list[Instruction]:
        """The state after iteration k, from the state before it and the loop-invariant values."""
        b, made = self._build, list[Instruction]()
        outside = dict(zip(self._invariants, values[len(self._state) :], strict=True))

        def read(operand: LoopOperand) -> Instruction:
            if isinstance(operand, Invariant):
                return outside[operand.value]
            if isinstance(operand, LoopLiterals):
                return _number(b, operand, k)
            if isinstance(operand, MovedValues):
                return _copy(b, operand.row, [read(o) for o in operand.operands], k)
            if isinstance(operand, StackedValues):
                return _row(b, outside[self._stacks[operand]], k)
            if operand.first:
                return values[self._carried[operand] + len(operand.first) - 1]
            return made[operand.place]

        for row, operands in zip(self._loop.rows, self._loop.operands, strict=True):
            made.append(_copy(b, row, [read(o) for o in operands], k))
        after = list(values[: len(self._state)])
        for carried, n in self._carried.items():
            back = len(carried.first)
            after[n : n + back] = [made[carried.place], *values[n : n + back - 1]]
        for place, n in self._last.items():
            after[n] = made[place]
        for place, n in self._collected.items():
            after[n] = b.put(values[n], b.reshape(made[place], (1, *made[place].shape.dimensions)), 0, k)
        return after

    def _read_collected(self, place: int, collected: Instruction) -> dict[Instruction, Instruction]:
        """The replacements of values of many iterations; a concatenate of them reads them from the array at once."""
        b, row, users = self._build, self._loop.rows[place], self._loop.program.users
        views = {row[0].shape.dimensions: {i: n for n, i in enumerate(row)}}
        for n, i in enumerate(row):
            for u in users[i]:
                if u.opcode == "reshape" and not self._loop.holds(u):
                    views.setdefault(u.shape.dimensions, {})[u] = n
        for dimensions, number in views.items():
            array = b.reshape(collected, (len(row), *dimensions))
            for user in {u: None for i in number for u in users[i] if u.opcode == "concatenate" and u is not i}:
                if not self._loop.holds(user):
                    user.operands = list(_joined(b, user, number, array))
        return {row[n]: _element(b, collected, n) for n in self._loop.read[place]}


def _joined(
    b: Build, concatenate: Instruction, number: Mapping[Instruction, int], collected: Instruction
) -> Iterator[Instruction]:
    """The operands of a concatenate, with those of consecutive iterations, ascending or descending, joined into one."""
    operands = concatenate.operands
    dimension = concatenate.dimensions[0]
    n = 0
    while n < len(operands):
        end = n + 1
        if operands[n] in number and end < len(operands) and operands[end] in number:
            step = number[operands[end]] - number[operands[n]]
            if abs(step) == 1:
                while end < len(operands) and number.get(operands[end]) == number[operands[end - 1]] + step:
                    end += 1
        if end - n < FEWEST:
            yield operands[n]
            n += 1
            continue
        first, last = sorted((number[operands[n]], number[operands[end - 1]]))
        rank, shape = collected.shape.rank, collected.shape.dimensions
        part = _iterations(b, collected, first, last)
        if number[operands[n]] > first:
            part = b.make("reverse", part, dimensions=(0,))
        part = b.transposed(part, (*range(1, 1 + dimension), 0, *range(1 + dimension, rank)))
        sizes = list(shape[1:])
        sizes[dimension] *= end - n
        yield b.reshape(part, tuple(sizes))
        n = end


def _element(b: Build, collected: Instruction, n: int) -> Instruction:
    """A value of iteration n."""
    return b.reshape(_iterations(b, collected, n, n), collected.shape.dimensions[1:])


def _iterations(b: Build, collected: Instruction, first: int, last: int) -> Instruction:
    """The values of consecutive iterations."""
    sizes = collected.shape.dimensions[1:]
    return b.slice(collected, (first, *[0] * len(sizes)), (last + 1, *sizes))


def _row(b: Build, array: Instruction, k: Instruction) -> Instruction:
    return b.reshape(b.part(array, 0, k, 1), array.shape.dimensions[1:])


def _copy(b: Build, row: Sequence[Instruction], operands: list[Instruction], k: Instruction) -> Instruction:
    """The copy of an instruction in iteration k."""
    i = row[-1]
    if i.opcode == "slice" and any(r.slice != i.slice for r in row):
        return _slice(b, row, operands[0], k)
    return replace(i, operands=operands, attributes=dict(i.attributes))


def _slice(b: Build, row: Sequence[Instruction], x: Instruction, k: Instruction) -> Instruction:
    """A slice whose start differs between iterations."""
    i = row[-1]
    begins = [[np.int32(r.slice[d].start) for r in row] for d in range(i.shape.rank)]
    starts = [_number(b, LoopLiterals(begin, Shape(S32)), k) for begin in begins]
    extents = tuple(extent for extent, _ in slice_steps(i))
    part = b.make("dynamic-slice", x, *starts, dynamic_slice_sizes=extents)
    part.metadata = i.metadata
    if extents != i.shape.dimensions:
        steps = tuple(SliceDimension(0, n, s.stride) for n, s in zip(extents, i.slice, strict=True))
        part = b.make("slice", part, slice=steps)
    return part


def _number(b: Build, number: LoopLiterals, k: Instruction) -> Instruction:
    """A literal that may differ between iterations."""
    shape, arrays = number.shape.without_layout(), number.arrays
    if shape.rank and number.is_splat:
        scalar = _number(b, LoopLiterals([a.flat[0] for a in arrays], Shape(shape.element_type)), k)
        return b.spread(scalar, shape, ())
    if not number.differ:
        return _constant(b, arrays[0], shape)
    table = np.stack(arrays)
    if table.dtype in (np.int32, np.int64):
        step = table[1] - table[0]
        if np.array_equal(table, table[0] + np.multiply.outer(np.arange(len(table)), step)):
            count = b.convert(k, shape.element_type)
            count = b.spread(count, shape, ()) if shape.rank else count
            return b.add(b.multiply(count, _constant(b, step, shape)), _constant(b, table[0], shape))
    return _row(b, _constant(b, table, shape.with_dimensions(table.shape)), k)


def _constant(b: Build, array: Any, shape: Shape) -> Instruction:
    return b.make("constant", shape=shape, literal=np.asarray(array, shape.element_type.dtype))
