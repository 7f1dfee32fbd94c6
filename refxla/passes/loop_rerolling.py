"""Makes a loop again of what a loop of the host's language left when it was traced.

    x1 = f(x0, a[0]); x2 = f(x1, a[1]); ...; x9 = f(x8, a[8])    ->    for k < 9: x = f(x, a[k])

A program that is traced holds every iteration of such a loop (`for t in range(1000)` in a function of JAX or NumPy),
and kernels of thousands of statements take minutes to compile. As a loop they are one body. The bits stay what they
are: each instruction is executed as often as before, on the same operands.

What may differ between iterations are numbers (a table, or start + k * step), where slices begin, and movements of
values from before the loop. A value that an iteration takes from one before it becomes state; what others read of each
iteration is collected in an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction, Module, SliceDimension
from refxla_spec.types import S32, Shape

from ..analysis.repetition import FEWEST, Repeats, Repetition
from ..ir.builder import Build
from .cse import IMPURE, attribute_key, key_of
from .dce import acts, called_first, sort

LEAST = 256  # instructions that have to go: shorter programs are better as they are
LEAST_WITH_NUMBERS = 1024  # where iterations have numbers of their own: each is simpler than the loop
MOST_BACK = 4  # iterations, from which a value is taken
MOST_STACKED = 1 << 16  # bytes of values from outside that are put together, for each iteration to take one
MOST_NUMBERS = 1 << 24  # bytes of a table
MOST_COLLECTED = 1 << 26  # bytes of values that few iterations give

MOVEMENTS = ("slice", "reshape", "broadcast", "transpose", "convert")

Users = Mapping[Instruction, Sequence[Instruction]]


def run(module: Module) -> int:
    """Make loops in all computations, and in their bodies; returns how many loops."""
    waiting = list(module.computations)
    count = 0
    while waiting:
        computation = waiting.pop()
        if len(computation.instructions) < LEAST or not _may_change(computation):
            continue
        while bodies := _reroll(computation):
            waiting += bodies
            count += len(bodies)
    if count:
        module.computations = called_first(module.entry)
    return count


def _may_change(computation: Computation) -> bool:
    """Whether the order of instructions is that of their operands alone."""
    return not any(i.control_predecessors or acts(i) for i in computation.instructions)


def _reroll(computation: Computation) -> list[Computation]:
    """Make the loops of one period; returns their bodies."""
    literals = _literals(computation)
    sequence = [i for i in computation.instructions if i not in literals and i.opcode not in ("parameter", "constant")]
    users = computation.users()
    users[computation.root] = [*users[computation.root], computation.root]  # whoever calls it
    place = {i: n for n, i in enumerate(sequence)}
    for repetitions in Repeats(sequence, _kinds(sequence), literals).found(LEAST):
        bodies = list[Computation]()
        for repetition in repetitions:
            loop = _loop_of(repetition, sequence, place, literals, users)
            if loop is not None:
                for old, new in loop.write().items():
                    for user in users[old]:
                        user.operands = [new if o is old else o for o in user.operands]
                    if old is computation.root:
                        computation.root = new
                bodies.append(loop.body)
        if bodies:
            sort(computation)
            return bodies
    return []


def _literals(computation: Computation) -> dict[Instruction, Any]:
    """The arrays that constants, and broadcasts of numbers, are."""
    literals: dict[Instruction, Any] = {}
    for i in computation.instructions:
        if i.opcode == "constant" and not i.shape.is_tuple:
            literals[i] = i.literal
        elif i.opcode == "broadcast" and i.operands[0] in literals and not i.operands[0].shape.rank:
            literals[i] = np.broadcast_to(literals[i.operands[0]], i.shape.dimensions)
    return literals


def _kinds(sequence: Sequence[Instruction]) -> list[int]:
    """Numbers, equal for instructions that do the same but for where a slice begins."""
    numbers: dict[Any, int] = {}
    same = {c: key_of(c) for i in sequence for c in i.called}
    return [numbers.setdefault(_kind(i, same), len(numbers)) for i in sequence]


def _kind(i: Instruction, same: Mapping[Computation, Any]) -> Any:
    shapes = (i.shape.without_layout(), *(o.shape.without_layout() for o in i.operands))
    if i.opcode in IMPURE or any(s.is_dynamic for s in shapes):
        return i
    if i.opcode == "slice":
        attributes: Any = [(_extent(n, s.stride), s.stride) for n, s in zip(i.shape.dimensions, i.slice, strict=True)]
    else:
        attributes = sorted((k, attribute_key(v, same)) for k, v in i.attributes.items())
    return (i.opcode, i.sharding, shapes, tuple(attributes))


def _extent(count: int, stride: int) -> int:
    """The elements between the first and the last of a slice, both of them included."""
    return (count - 1) * stride + 1 if count else 0


class _NoLoop(Exception):
    """That instructions are alike, but not iterations of a loop; those before `iteration`, or from it on, may be."""

    def __init__(self, iteration: int | None = None) -> None:
        super().__init__(iteration)
        self.iteration = iteration


@dataclass(frozen=True)
class _Same:
    """An operand from outside that is the same in every iteration."""

    value: Instruction


@dataclass(frozen=True)
class _Number:
    """A literal: by iteration."""

    arrays: Sequence[Any]
    shape: Shape


@dataclass(frozen=True)
class _Within:
    """The value of the `place`-th instruction of the same iteration; or, with `first`, of as many iterations before as
    it has elements: they are the operands of those iterations that have none so far before them."""

    place: int
    first: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class _Moved:
    """Movements of values from outside, one for each iteration."""

    rows: Sequence[Instruction]
    operands: Sequence[_Operand]


@dataclass(frozen=True)
class _Stacked:
    """Small values from outside, one for each iteration."""

    rows: Sequence[Instruction]


_Operand = _Same | _Number | _Within | _Moved | _Stacked


def _loop_of(
    repetition: Repetition,
    sequence: Sequence[Instruction],
    place: Mapping[Instruction, int],
    literals: Mapping[Instruction, Any],
    users: Users,
) -> _Loop | None:
    """The longest loop that is found in a repetition; None where too little would go."""
    period, end = repetition.period, repetition.end
    # With an iteration before, whose operands are those that the loop begins with.
    start = max(repetition.alike, repetition.start - period)
    count, slack = divmod(end - start, period)
    start += _phase(start, period, slack, end, sequence, place, users)
    while count >= FEWEST and (count - 1) * period >= LEAST // 4:
        try:
            loop = _Loop(sequence, place, literals, users, start, period, count)
        except _NoLoop as none:
            if none.iteration is None:
                return None
            before, behind = none.iteration, count - none.iteration
            start, count = (start, before) if before > behind else (start + before * period, behind)
            continue
        return loop if not loop.has_other_numbers or (count - 1) * period >= LEAST_WITH_NUMBERS else None
    return None


def _phase(
    start: int,
    period: int,
    slack: int,
    end: int,
    sequence: Sequence[Instruction],
    place: Mapping[Instruction, int],
    users: Users,
) -> int:
    """How many of the first `slack` instructions are best left outside: an iteration begins where the fewest values are
    alive."""
    begin = start + period  # in the middle, whose operands are of the loop
    alive = np.zeros(2 * period + slack + 2, np.int64)
    for n in range(begin, begin + period + slack):
        last = max((p for u in users[sequence[n]] if (p := place.get(u, end)) < end), default=n)
        alive[n + 1 - begin] += 1  # where the next instruction is the first of an iteration
        alive[min(last + 1 - begin, len(alive) - 1)] -= 1
    return int(np.argmin(np.cumsum(alive)[period : period + slack + 1]))


class _Loop:
    """`count` iterations of `period` instructions of a sequence, from `start` on.

    Raises _NoLoop where an iteration takes its operands from elsewhere than the others.
    """

    def __init__(
        self,
        sequence: Sequence[Instruction],
        place: Mapping[Instruction, int],
        literals: Mapping[Instruction, Any],
        users: Users,
        start: int,
        period: int,
        count: int,
    ) -> None:
        self.rows = [sequence[start + k : start + period * count : period] for k in range(period)]
        self.start, self.period, self.count = start, period, count
        self._place, self._literals, self._users = place, literals, users
        if all(row[0].opcode in MOVEMENTS for row in self.rows):
            raise _NoLoop
        self.operands = [
            [self._operand([i.operands[n] for i in row]) for n in range(len(row[0].operands))] for row in self.rows
        ]
        self.read_outside = [self._read_outside(row) for row in self.rows]

    @property
    def has_other_numbers(self) -> bool:
        """Whether literals differ between iterations."""
        numbers = [o for operands in self.operands for o in operands if isinstance(o, _Number)]
        return any(_differ([np.asarray(a) for a in n.arrays]) for n in numbers)

    def _is_inside(self, i: Instruction) -> bool:
        return self.start <= self._place.get(i, -1) < self.start + self.period * self.count

    def _read_outside(self, row: Sequence[Instruction]) -> list[int]:
        """The iterations of which others read a value."""
        read = [n for n, i in enumerate(row) if any(u is i or not self._is_inside(u) for u in self._users[i])]
        if read and (row[0].shape.is_tuple or self._would_waste(read, row[0].shape)):
            raise _NoLoop
        return read

    def _would_waste(self, read: Sequence[int], shape: Shape) -> bool:
        """Whether much memory would hold what nobody reads."""
        few = 4 * len(read) < self.count and read[0] < self.count - 1
        return few and self.count * shape.bytes > MOST_COLLECTED

    def _operand(self, values: Sequence[Instruction]) -> _Operand:
        """What an operand of the instructions of a row is."""
        if all(v in self._literals for v in values):
            arrays = [self._literals[v] for v in values]
            if len({id(a) for a in arrays}) * _bytes(arrays[0]) > MOST_NUMBERS:
                raise _NoLoop
            return _Number(arrays, values[0].shape)
        places = [self._place.get(v, -1) - self.start for v in values]
        if places[-1] < 0:
            return self._from_outside(values, places)
        at = places[-1] - (self.count - 1) * self.period
        back = -(at // self.period)
        if values[-1].shape.is_tuple and back:
            raise _NoLoop
        if back > MOST_BACK:
            raise _NoLoop(1)
        unlike = [n for n, p in enumerate(places) if p != at + n * self.period and (n >= back or p >= 0)]
        if unlike:
            raise _NoLoop(unlike[-1] + 1)
        return _Within(at % self.period, tuple(values[:back]))

    def _from_outside(self, values: Sequence[Instruction], places: Sequence[int]) -> _Operand:
        inside = [n for n, p in enumerate(places) if p >= 0]
        if inside:
            raise _NoLoop(inside[-1] + 1)
        if all(v is values[0] for v in values):
            return _Same(values[0])
        first = values[0]
        if first.opcode in MOVEMENTS and all(v.opcode == first.opcode for v in values):
            keys = {str(_kind(v, {})) for v in values}
            if len(keys) == 1:
                operands = [self._operand([v.operands[n] for v in values]) for n in range(len(first.operands))]
                return _Moved(values, operands)
        if first.shape.is_tuple or self.count * first.shape.bytes > MOST_STACKED:
            raise _NoLoop
        return _Stacked(values)

    def write(self) -> dict[Instruction, Instruction]:
        """The loop: what stands for the values that others read."""
        b = self._build = Build(f"{self.rows[-1][0].name}.loop")
        self._state, self._chains = list[Instruction](), dict[_Within, int]()
        self._invariants, self._stacks = dict[Instruction, int](), dict[tuple[Instruction, ...], Instruction]()
        for operand in (o for operands in self.operands for o in operands):
            self._prepare(operand)
        state = self._state
        last, collected = dict[int, int](), dict[int, int]()
        newest = {w.place: n for w, n in self._chains.items()}
        for place, read in enumerate(self.read_outside):
            shape = self.rows[place][0].shape
            if read and read != [self.count - 1]:
                collected[place] = len(state)
                state.append(b.full(0, shape.with_dimensions((self.count, *shape.dimensions))))
            elif read and place not in newest:
                newest[place] = last[place] = len(state)
                state.append(b.full(0, shape))

        def iteration(k: Instruction, *values: Instruction) -> list[Instruction]:
            made = self._iteration(k, values)
            after = list(values[: len(state)])
            for within, n in self._chains.items():
                after[n : n + len(within.first)] = [made[within.place], *values[n : n + len(within.first) - 1]]
            for place, n in last.items():
                after[n] = made[place]
            for place, n in collected.items():
                row = b.reshape(made[place], (1, *made[place].shape.dimensions))
                after[n] = b.put(values[n], row, 0, k)
            return after

        results = b.repeat(self.count, iteration, state, list(self._invariants))
        self.body: Computation = results[0].operands[0].body
        replaced: dict[Instruction, Instruction] = {}
        for place, read in enumerate(self.read_outside):
            if place in collected:
                replaced |= self._read_collected(place, results[collected[place]])
            elif read:
                replaced[self.rows[place][-1]] = results[newest[place]]
        return replaced

    def _prepare(self, operand: _Operand) -> None:
        """Make room for it in the state of the loop."""
        if isinstance(operand, _Same):
            self._invariants.setdefault(operand.value, len(self._invariants))
        elif isinstance(operand, _Within) and operand.first and operand not in self._chains:
            self._chains[operand] = len(self._state)
            self._state += reversed(operand.first)
        elif isinstance(operand, _Moved):
            for o in operand.operands:
                self._prepare(o)
        elif isinstance(operand, _Stacked) and tuple(operand.rows) not in self._stacks:
            rows = [self._build.reshape(r, (1, *r.shape.dimensions)) for r in operand.rows]
            stack = self._build.make("concatenate", *rows, dimensions=(0,))
            self._stacks[tuple(operand.rows)] = stack
            self._invariants.setdefault(stack, len(self._invariants))

    def _iteration(self, k: Instruction, values: Sequence[Instruction]) -> list[Instruction]:
        """The instructions of iteration k, given the state of the loop and what stays the same."""
        made: list[Instruction] = []
        outside = {i: values[len(self._state) + n] for i, n in self._invariants.items()}

        def read(operand: _Operand) -> Instruction:
            if isinstance(operand, _Same):
                return outside[operand.value]
            if isinstance(operand, _Number):
                return _number(self._build, operand, k)
            if isinstance(operand, _Moved):
                return _copy(self._build, operand.rows, [read(o) for o in operand.operands], k)
            if isinstance(operand, _Stacked):
                return _row(self._build, outside[self._stacks[tuple(operand.rows)]], k)
            if operand.first:
                return values[self._chains[operand] + len(operand.first) - 1]
            return made[operand.place]

        for row, operands in zip(self.rows, self.operands, strict=True):
            made.append(_copy(self._build, row, [read(o) for o in operands], k))
        return made

    def _read_collected(self, place: int, collected: Instruction) -> dict[Instruction, Instruction]:
        """What stands for values of many iterations; concatenates of them take them from the array together."""
        row = self.rows[place]
        views = {row[0].shape.dimensions: {i: n for n, i in enumerate(row)}}
        for n, i in enumerate(row):
            for u in self._users[i]:
                if u.opcode == "reshape" and not self._is_inside(u):
                    views.setdefault(u.shape.dimensions, {})[u] = n
        for dimensions, number in views.items():
            array = self._build.reshape(collected, (self.count, *dimensions))
            for user in {u: None for i in number for u in self._users[i] if u.opcode == "concatenate" and u is not i}:
                if not self._is_inside(user):
                    user.operands = list(_joined(self._build, user, number, array))
        return {row[n]: _element(self._build, collected, n) for n in self.read_outside[place]}


def _joined(
    b: Build, concatenate: Instruction, number: Mapping[Instruction, int], collected: Instruction
) -> Iterator[Instruction]:
    """The operands of a concatenate, where those of neighbouring iterations, in either order, are one."""
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
        part = b.slice(collected, (first, *[0] * (rank - 1)), (last + 1, *shape[1:]))
        if number[operands[n]] > first:
            part = b.make("reverse", part, dimensions=(0,))
        part = b.transposed(part, (*range(1, 1 + dimension), 0, *range(1 + dimension, rank)))
        sizes = list(shape[1:])
        sizes[dimension] *= end - n
        yield b.reshape(part, tuple(sizes))
        n = end


def _element(b: Build, collected: Instruction, n: int) -> Instruction:
    """The value of iteration n."""
    shape = collected.shape.dimensions
    part = b.slice(collected, (n, *[0] * (len(shape) - 1)), (n + 1, *shape[1:]))
    return b.reshape(part, shape[1:])


def _row(b: Build, array: Instruction, k: Instruction) -> Instruction:
    return b.reshape(b.part(array, 0, k, 1), array.shape.dimensions[1:])


def _copy(b: Build, row: Sequence[Instruction], operands: list[Instruction], k: Instruction) -> Instruction:
    """The instruction of a row in iteration k."""
    i = row[-1]
    if i.opcode == "slice" and any(r.slice != i.slice for r in row):
        return _slice(b, row, operands[0], k)
    return Instruction(
        i.name,
        i.opcode,
        i.shape,
        operands,
        dict(i.attributes),
        i.metadata,
        i.sharding,
        i.frontend_attributes,
        i.backend_config,
    )


def _slice(b: Build, row: Sequence[Instruction], x: Instruction, k: Instruction) -> Instruction:
    """A slice that begins elsewhere in each iteration."""
    i = row[-1]
    begins = [[np.int32(r.slice[d].start) for r in row] for d in range(i.shape.rank)]
    extents = tuple(_extent(n, s.stride) for n, s in zip(i.shape.dimensions, i.slice, strict=True))
    starts = [_number(b, _Number(begin, Shape(S32)), k) for begin in begins]
    part = b.make("dynamic-slice", x, *starts, dynamic_slice_sizes=extents)
    part.metadata = i.metadata
    if any(s.stride != 1 for s in i.slice):
        steps = tuple(SliceDimension(0, n, s.stride) for n, s in zip(extents, i.slice, strict=True))
        part = b.make("slice", part, slice=steps)
    return part


def _number(b: Build, number: _Number, k: Instruction) -> Instruction:
    """A literal that may be another one in each iteration."""
    shape, arrays = number.shape.without_layout(), [np.asarray(a) for a in number.arrays]
    if shape.rank and all(_is_splat(a) for a in arrays):
        scalar = _number(b, _Number([a.flat[0] for a in arrays], Shape(shape.element_type)), k)
        return b.spread(scalar, shape, ())
    table = np.stack(arrays)
    if not _differ(arrays):
        return _constant(b, table[0], shape)
    if table.dtype in (np.int32, np.int64):
        step = table[1] - table[0]
        if np.array_equal(table, table[0] + np.multiply.outer(np.arange(len(table)), step)):
            count = b.convert(k, shape.element_type)
            count = b.spread(count, shape, ()) if shape.rank else count
            return b.add(b.multiply(count, _constant(b, step, shape)), _constant(b, table[0], shape))
    return _row(b, _constant(b, table, shape.with_dimensions(table.shape)), k)


def _differ(arrays: Sequence[Any]) -> bool:
    """Whether the bits of literals differ."""
    if all(_is_splat(a) for a in arrays):
        arrays = [a.flat[0] for a in arrays]
    return any(a.tobytes() != arrays[0].tobytes() for a in arrays)


def _is_splat(array: Any) -> bool:
    """Whether a literal is a broadcast of one number."""
    return bool(array.size) and not any(array.strides)


def _bytes(array: Any) -> int:
    """The memory that a literal takes in a table."""
    return int(array.itemsize if _is_splat(array) else array.nbytes)


def _constant(b: Build, array: Any, shape: Shape) -> Instruction:
    return b.make("constant", shape=shape, literal=np.asarray(array, shape.element_type.dtype))
