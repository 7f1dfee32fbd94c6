"""Makes the state of the random number generator a value, which is threaded through each computation that uses it.

`rng-get-and-update-state` and `rng` share a hidden counter, u64[2] (refxla_spec.random_state). They use it in the order
of the instructions in the original program, so this pass runs before any other that would change that order
(state_threading.py). An rng becomes the rng-bit-generator and the arithmetic of the specification's page.
"""

from __future__ import annotations

from math import prod

import numpy as np
from refxla_spec.module import Instruction, Module
from refxla_spec.ops.rng import digits
from refxla_spec.random_state import INITIAL, KEY
from refxla_spec.types import ELEMENT_TYPES, F32, F64, PRED, U32, U64, Shape

from ..ir.builder import Build
from .state_threading import State, thread

STATE = Shape(U64, (2,))
USERS = ("rng", "rng-get-and-update-state")


def run(module: Module) -> int:
    """Threads the state through its users. Returns the number of instructions replaced.

    Raises UnsupportedError for a computation that uses it and is applied to elements, whose order HLO does not fix.
    """
    return thread(module, _COUNTER)[0]


def _replaced(i: Instruction, state: Instruction) -> tuple[Instruction, Instruction]:
    return (_random if i.opcode == "rng" else _counter)(Build(i.name), i, state)


_COUNTER = State(
    shape=STATE,
    initial=np.array([INITIAL, 0], np.uint64),
    word="random",
    description="the state of random numbers",
    applied="draw the numbers before, as an array",
    is_user=lambda i: i.opcode in USERS,
    replace=_replaced,
)


def _counter(b: Build, i: Instruction, state: Instruction) -> tuple[Instruction, Instruction]:
    """(state, state + delta), where the state is a 128-bit number in two halves."""
    low, high = (b.slice(state, (n,), (n + 1,)) for n in (0, 1))
    delta = i.delta % 2**128
    after = b.add(low, delta % 2**64)
    carry = b.convert(b.compare(after, low, direction="LT"), U64)
    upper = b.add(b.add(high, delta >> 64), carry)
    return state, b.make("concatenate", after, upper, dimensions=(0,))


def _random(b: Build, i: Instruction, state: Instruction) -> tuple[Instruction, Instruction]:
    """The numbers of an rng, and the state after it."""
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
