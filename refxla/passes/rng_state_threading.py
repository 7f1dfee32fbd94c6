"""The state of random numbers becomes a value: it enters each computation that uses it, and leaves it changed.

`rng-get-and-update-state` and `rng` share a counter that no instruction shows (refxla_spec.random_state). The order in
which they use it is that of the instructions in the program as it came, so this pass runs before any other. A call and
a fusion get the counter, u64[2], as one more operand, and give a pair of their result and the counter behind it; a
loop's state and a branch's operand become pairs in the same way. An rng becomes the rng-bit-generator and the
arithmetic of the specification's page.
"""

from __future__ import annotations

from math import prod

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.operation import operation
from refxla_spec.ops.rng import digits
from refxla_spec.random_state import INITIAL, KEY
from refxla_spec.types import ELEMENT_TYPES, F32, F64, PRED, U32, U64, Shape

from .._core.shapes import make
from ..ir.builder import Build
from .dce import called_first

STATE = Shape(U64, (2,))
USERS = ("rng", "rng-get-and-update-state")
CALLS = {"call": "to_apply", "fusion": "calls"}


def run(module: Module) -> int:
    """Give the state to what uses it. Returns the number of instructions replaced.

    Raises UnsupportedError for a computation that uses it and is applied to elements, in no order that HLO fixes.
    """
    computations = called_first(module.entry)
    users = _users(computations)
    if not users:
        return 0
    threaded: dict[Computation, Computation] = {}
    count = 0
    for c in computations:
        if c in users and c is not module.entry:
            threaded[c] = _Threading(c, threaded).pair()
    entry = _Threading(module.entry, threaded)
    entry.in_place()
    count = sum(i.opcode in USERS for c in users for i in c.instructions) + entry.count
    module.computations = called_first(module.entry)
    return count


def _users(computations: list[Computation]) -> set[Computation]:
    """The computations that use the state, or call one that does; callees stand first."""
    found: set[Computation] = set()
    for c in computations:
        if any(i.opcode in USERS or any(d in found for d in i.called) for i in c.instructions):
            found.add(c)
    return found


class _Threading:
    """One walk over a computation: `state` is the counter before the instruction at hand."""

    def __init__(self, computation: Computation, threaded: dict[Computation, Computation]) -> None:
        self.computation, self.threaded = computation, threaded
        self.copies: dict[Instruction, Instruction] = {}
        self.order: list[Instruction] = []
        self.ordered: set[Instruction] = set()  # those in `order`
        self.count = 0
        self.state: Instruction

    def add(self, instruction: Instruction) -> Instruction:
        """An instruction, and before it what it is made of that is new."""
        stack = [instruction]
        while stack:
            i = stack[-1]
            waiting = [o for o in i.operands if o not in self.ordered]
            if waiting:
                stack.extend(waiting)
            else:
                stack.pop()
                if i not in self.ordered:
                    self.ordered.add(i)
                    self.order.append(i)
        return instruction

    def in_place(self) -> None:
        """Of the entry, which keeps its signature: the state begins as a constant."""
        self.state = self.add(
            make("constant", name="random_state", shape=STATE, literal=np.array([INITIAL, 0], np.uint64))
        )
        self.walk(self.computation.instructions)
        self.computation.instructions = self.order
        self.computation.root = self.copies[self.computation.root]

    def pair(self) -> Computation:
        """A copy of the computation whose one parameter is a pair, (what it was or a tuple of several, the state), and
        whose result is the pair of what it was and the state."""
        parameters = self.computation.parameters
        shapes = [p.shape for p in parameters]
        given = shapes[0] if len(shapes) == 1 else Shape.tuple_of(*shapes)
        name = f"{self.computation.name}.random"
        whole = Instruction(f"{name}.in", "parameter", Shape.tuple_of(given, STATE), [], {"number": 0})
        self.add(whole)
        arguments = self.add(make("get-tuple-element", whole, name=f"{name}.given", index=0))
        self.state = self.add(make("get-tuple-element", whole, name=f"{name}.state", index=1))
        for n, p in enumerate(parameters):
            one = len(shapes) == 1
            self.copies[p] = arguments if one else self.add(make("get-tuple-element", arguments, name=p.name, index=n))
        self.walk([i for i in self.computation.instructions if i.opcode != "parameter"])
        root = self.add(make("tuple", self.copies[self.computation.root], self.state, name=f"{name}.out"))
        return Computation(name, self.order, root)

    def walk(self, instructions: list[Instruction]) -> None:
        for i in instructions:
            i.operands = [self.copies[o] for o in i.operands]
            i.control_predecessors = [self.copies[o] for o in i.control_predecessors]
            self.copies[i] = self.add(self.replaced(i))

    def replaced(self, i: Instruction) -> Instruction:
        if i.opcode in USERS:
            self.count += 1
            b = Build(i.name)
            result, after = (_random if i.opcode == "rng" else _counter)(b, i, self.state)
            self.state = self.add(after)
            return result
        if not any(c in self.threaded for c in i.called):
            return i
        if i.opcode in CALLS:
            given = i.operands[0] if len(i.operands) == 1 else make("tuple", *i.operands, name=f"{i.name}.given")
            callee = self.threaded[i.attributes[CALLS[i.opcode]]]
            return self.opened(make("call", self.pair_with_state(i, given), name=f"{i.name}.random", to_apply=callee))
        if i.opcode == "while":
            parts = {k: self.threaded.get(i.attributes[k]) or _beside(i.attributes[k]) for k in ("condition", "body")}
            if i.attributes["condition"] in self.threaded:
                raise UnsupportedError(
                    f"{i.name}: the condition of a loop uses the state of random numbers; draw them in the body"
                )
            return self.opened(make("while", self.pair_with_state(i, i.operands[0]), name=f"{i.name}.random", **parts))
        if i.opcode == "conditional":
            return self.opened(self.conditional(i))
        raise UnsupportedError(
            f"{i.name}: {i.opcode} applies {i.called[0].name}, which uses the state of random numbers, in no order "
            "that HLO fixes; draw the numbers before, as an array"
        )

    def conditional(self, i: Instruction) -> Instruction:
        attributes = {  # the branches; annotations are none
            k: tuple(self.threaded.get(c) or _beside(c, True) for c in v)
            if isinstance(v, tuple)
            else self.threaded.get(v) or _beside(v, True)
            for k, v in i.attributes.items()
            if k in operation("conditional").attributes
        }
        operands = [self.pair_with_state(i, o, n) for n, o in enumerate(i.operands[1:])]
        return make("conditional", i.operands[0], *operands, name=f"{i.name}.random", **attributes)

    def pair_with_state(self, i: Instruction, given: Instruction, number: int = 0) -> Instruction:
        return make("tuple", given, self.state, name=f"{i.name}.in.{number}")

    def opened(self, pair: Instruction) -> Instruction:
        """The result of what gives a pair; the state is the pair's other half."""
        self.add(pair)
        self.state = self.add(make("get-tuple-element", pair, name=f"{pair.name}.state", index=1))
        return make("get-tuple-element", pair, name=f"{pair.name}.result", index=0)


def _beside(computation: Computation, gives_pair: bool = False) -> Computation:
    """A computation that does not use the state, as one that is given it: a condition; with `gives_pair` a branch."""
    (p,) = computation.parameters
    name = f"{computation.name}.random"
    whole = Instruction(f"{name}.in", "parameter", Shape.tuple_of(p.shape, STATE), [], {"number": 0})
    given = make("get-tuple-element", whole, name=f"{name}.given", index=0)
    called = make("call", given, name=f"{name}.call", to_apply=computation)
    instructions = [whole, given, called]
    if gives_pair:
        state = make("get-tuple-element", whole, name=f"{name}.state", index=1)
        instructions += [state, make("tuple", called, state, name=f"{name}.out")]
    return Computation(name, instructions, instructions[-1])


def _counter(b: Build, i: Instruction, state: Instruction) -> tuple[Instruction, Instruction]:
    """(state, state + delta), a number of 128 bits in two halves."""
    low, high = (b.slice(state, (n,), (n + 1,)) for n in (0, 1))
    delta = i.delta % 2**128
    after = b.add(low, delta % 2**64)
    carry = b.convert(b.compare(after, low, direction="LT"), U64)
    upper = b.add(b.add(high, delta >> 64), carry)
    return state, b.make("concatenate", after, upper, dimensions=(0,))


def _random(b: Build, i: Instruction, state: Instruction) -> tuple[Instruction, Instruction]:
    """The numbers of an rng, and the state behind it."""
    element_type, dimensions = i.shape.element_type, i.shape.dimensions
    each = 2 if i.distribution == "rng_normal" else 1
    count = prod(dimensions)
    words = Shape(U64 if element_type.bits == 64 else U32, (count * each,))
    key = b.make("constant", shape=Shape(U64, (1,)), literal=np.array([KEY], np.uint64))
    start = b.make("concatenate", key, state, dimensions=(0,))
    pair = b.make("rng-bit-generator", start, shape=Shape.tuple_of(Shape(U64, (3,)), words), algorithm="rng_philox")
    after = b.slice(b.make("get-tuple-element", pair, index=0), (1,), (3,))
    drawn = b.make("get-tuple-element", pair, index=1)
    if each == 2:
        grid = b.reshape(drawn, (count, 2))
        first, second = (b.reshape(b.slice(grid, (0, n), (count, n + 1)), dimensions) for n in (0, 1))
        values = _normal(b, i, first, second)
    else:
        drawn = b.reshape(drawn, dimensions)
        values = (_integers if element_type.is_integer else _uniform)(b, i, drawn)
    return values, after


def _integers(b: Build, i: Instruction, drawn: Instruction) -> Instruction:
    element_type, unsigned = i.shape.element_type, drawn.shape.element_type
    signed = ELEMENT_TYPES[f"s{unsigned.bits}"]
    first, last = i.operands
    if element_type.kind == "signed":
        first, last = b.convert(first, signed), b.convert(last, signed)
    first, last = b.convert(first, unsigned), b.convert(last, unsigned)
    span = b.spread(b.subtract(last, first), drawn.shape, ())
    return b.convert(b.add(b.spread(first, drawn.shape, ()), b.remainder(drawn, span)), element_type)


def _fraction(b: Build, i: Instruction, drawn: Instruction) -> Instruction:
    """The upper bits of the words, as real numbers below 2^p."""
    element_type = i.shape.element_type
    upper = b.shift_right_logical(drawn, drawn.shape.element_type.bits - digits(element_type))
    return b.convert(upper, F64 if element_type.bits == 64 else F32)


def _uniform(b: Build, i: Instruction, drawn: Instruction) -> Instruction:
    element_type = i.shape.element_type
    u = b.multiply(_fraction(b, i, drawn), 2.0 ** -digits(element_type))
    low, high = (b.spread(b.convert(o, u.shape.element_type), u.shape, ()) for o in i.operands)
    values = b.convert(b.add(low, b.multiply(u, b.subtract(high, low))), element_type)
    a, last = (b.spread(o, i.shape, ()) for o in i.operands)
    below = b.compare(values, last, direction="LT")
    assert below.shape.element_type is PRED
    return b.make("select", below, values, a)


def _normal(b: Build, i: Instruction, first: Instruction, second: Instruction) -> Instruction:
    element_type = i.shape.element_type
    scale = 2.0 ** -digits(element_type)
    u1 = b.multiply(b.add(_fraction(b, i, first), 1), scale)
    radius = b.sqrt(b.multiply(b.log(u1), -2))
    normal = b.multiply(radius, b.cosine(b.multiply(_fraction(b, i, second), 2 * np.pi * scale)))
    mean, deviation = (b.spread(b.convert(o, normal.shape.element_type), normal.shape, ()) for o in i.operands)
    return b.convert(b.add(mean, b.multiply(deviation, normal)), element_type)
