"""rng-bit-generator as integer arithmetic: the ciphers on its page in the specification."""

from __future__ import annotations

from math import prod

from refxla_spec.module import Instruction
from refxla_spec.types import U32, U64, Shape

from ...ir.builder import Build

Words = list[Instruction]


def _expand(i: Instruction) -> Instruction:
    b, state = Build(i.name), i.operands[0]
    shape = i.shape.elements[1]
    wide = shape.element_type.bits == 64
    size = state.shape.dimensions[0]
    parts = [b.reshape(b.slice(state, (n,), (n + 1,)), ()) for n in range(size)]
    generate = _three_fry_bits if i.algorithm == "rng_three_fry" else _philox_bits
    after, numbers = generate(b, parts, shape.dimensions, wide)
    new_state = b.make("concatenate", *(b.reshape(p, (1,)) for p in after), dimensions=(0,))
    unsigned = U64 if wide else U32
    bits = shape.element_type.bits
    if bits < 32 or shape.element_type.kind == "signed":
        numbers = b.convert(numbers, shape.element_type)
    assert numbers.shape.element_type in (unsigned, shape.element_type)
    return b.tuple(new_state, numbers)


def _low(b: Build, x: Instruction) -> Instruction:
    return b.convert(x, U32)


def _high(b: Build, x: Instruction) -> Instruction:
    return b.convert(b.shift_right_logical(x, 32), U32)


def _join(b: Build, low: Instruction, high: Instruction) -> Instruction:
    return b.or_(b.convert(low, U64), b.shift_left(b.convert(high, U64), 32))


def _counters(b: Build, start: Instruction, count: int) -> Instruction:
    shape = Shape(U64, (count,))
    return b.add(b.spread(start, shape, ()), b.iota(U64, (count,), 0))


def _three_fry_bits(b: Build, state: Words, dimensions: tuple[int, ...], wide: bool) -> tuple[Words, Instruction]:
    if wide:
        blocks = prod(dimensions)
        low, high = _three_fry(b, state[0], _counters(b, state[1], blocks))
        numbers = b.reshape(_join(b, low, high), dimensions)
    else:
        dims = dimensions or (1,)
        even = [d for d, size in enumerate(dims) if size % 2 == 0]
        split = even[0] if even else dims.index(max(dims))
        before, half, after = prod(dims[:split]), -(-dims[split] // 2), prod(dims[split + 1 :])
        blocks = before * half * after
        words = _three_fry(b, state[0], _counters(b, state[1], blocks))
        pairs = b.make("concatenate", *(b.reshape(w, (before, half, 1, after)) for w in words), dimensions=(2,))
        numbers = b.reshape(pairs, (before, 2 * half, after))
        if 2 * half != dims[split]:
            numbers = b.slice(numbers, (0, 0, 0), (before, dims[split], after))
        numbers = b.reshape(numbers, dimensions)
    return [state[0], b.add(state[1], blocks)], numbers


def _three_fry(b: Build, key: Instruction, counter: Instruction) -> Words:
    shape = counter.shape.with_element_type(U32)
    first, second = (b.spread(k, shape, ()) for k in (_low(b, key), _high(b, key)))
    keys = (first, second, b.xor(b.xor(first, second), 0x1BD11BDA))
    x, y = b.add(_low(b, counter), first), b.add(_high(b, counter), second)
    for group in range(5):
        for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = b.add(x, y)
            y = b.xor(b.or_(b.shift_left(y, distance), b.shift_right_logical(y, 32 - distance)), x)
        x = b.add(x, keys[(group + 1) % 3])
        y = b.add(b.add(y, keys[(group + 2) % 3]), group + 1)
    return [x, y]


def _philox_bits(b: Build, state: Words, dimensions: tuple[int, ...], wide: bool) -> tuple[Words, Instruction]:
    size = prod(dimensions)
    blocks = -(-size // (2 if wide else 4))
    low, high = state[1], state[2] if len(state) == 3 else state[0]
    counters = _counters(b, low, blocks)
    carried = b.convert(b.compare(counters, b.spread(low, counters.shape, ()), direction="LT"), U64)
    words = _philox(b, state[0], counters, b.add(b.spread(high, counters.shape, ()), carried))
    if wide:
        words = [_join(b, words[0], words[1]), _join(b, words[2], words[3])]
    columns = [b.reshape(w, (blocks, 1)) for w in words]
    flat = b.reshape(b.make("concatenate", *columns, dimensions=(1,)), (blocks * len(words),))
    numbers = b.reshape(b.slice(flat, (0,), (size,)), dimensions)
    after = b.add(low, blocks)
    carry = b.convert(b.compare(after, low, direction="LT"), U64)
    return [state[0], after, b.add(high, carry)][: len(state)], numbers


def _philox(b: Build, key: Instruction, low: Instruction, high: Instruction) -> Words:
    shape = low.shape.with_element_type(U32)
    x = [_low(b, low), _high(b, low), _low(b, high), _high(b, high)]
    k = [b.spread(w, shape, ()) for w in (_low(b, key), _high(b, key))]
    for _ in range(10):
        p = b.multiply(b.convert(x[0], U64), 0xD2511F53)
        q = b.multiply(b.convert(x[2], U64), 0xCD9E8D57)
        x = [
            b.xor(b.xor(_high(b, q), x[1]), k[0]),
            _low(b, q),
            b.xor(b.xor(_high(b, p), x[3]), k[1]),
            _low(b, p),
        ]
        k = [b.add(k[0], 0x9E3779B9), b.add(k[1], 0xBB67AE85)]
    return x


EXPANSIONS = {"rng-bit-generator": _expand}
