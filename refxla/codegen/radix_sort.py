"""Sorting by keys: what a comparator compare(f(a), f(b)) orders is put in order digit by digit, without comparing.

The key of a tuple is f(a) as an unsigned integer of the same order. It is computed anew in each pass, so that only the
operands move. From the least significant digit on, each pass counts how often each digit occurs and moves every tuple
to its place, keeping the order of equals. Of several keys the least significant goes first.

    counts[digit of key] += 1               for all tuples
    start[digit] = sum of the counts before it
    moved[start[digit of key]++] = tuple    for all tuples, in order

An item sorts one row or several short ones. Few long rows are cut into chunks: then each pass is two kernels, in which
an item counts, and then moves, the tuples of one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Computation

from ..ir.plan import Argument, Kernel
from . import scalar
from .c_block import Block
from .elemental_rules import type_name
from .sort_rows import SortRows

SHORTEST = 16  # elements for each pass: shorter rows are sorted by merging
WIDE_FROM = 16384  # elements of a row from which on digits are wider
CHUNK = 1 << 15  # elements of a chunk of a long row, at least
MAX_CHUNKS = 64
MAX_PASSES = 16

Digits = Sequence[tuple["Key", int]]  # (key, number of the digit), as many as passes

_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}


class Key:
    """The key of operand `number`: `computation` on its elements, ordered by LT or GT and, if `total`, as
    IEEE 754's totalOrder."""

    def __init__(self, rows: SortRows, number: int, computation: Computation, descending: bool, total: bool) -> None:
        self.rows, self.number, self.computation = rows, number, computation
        self.descending, self.total = descending, total
        self.type = type_name(computation.root)
        element = computation.root.shape.element_type
        narrow = self.type in ("f16", "bf16")
        self.bits = 16 if narrow else 32 if element.is_float and element.bits < 32 else max(8, element.bits)
        width = 11 if rows.length >= WIDE_FROM and self.bits > 16 else 8
        self.passes = -(-self.bits // width)
        self.width = -(-self.bits // self.passes)

    @property
    def digits(self) -> list[tuple[Key, int]]:
        """The digits of the key, the least significant first."""
        return [(self, n) for n in range(self.passes)]

    @property
    def bins(self) -> int:
        """How many digits there are."""
        return 1 << self.width

    def digit(self, key: str, number: int) -> str:
        """The C expression of digit `number` of a key."""
        return f"(({key} >> {number * self.width}) & {self.bins - 1})"

    def emit(self, stored: str, block: Block) -> str:
        """The C variable with the key of an element as it lies in memory."""
        rows, c = self.rows, _UNSIGNED[self.bits]
        value = rows.e.assign(rows.types[self.number], scalar.load(rows.types[self.number], stored), block)
        (value,) = rows.e.apply(self.computation, (value,), block)
        sign = f"(({c})1 << {self.bits - 1})"
        if self.computation.root.shape.element_type.is_float:
            name = self.type if self.bits == 16 or self.type == "f64" else "f32"
            if not self.total:  # zeros are equal; what is no number has no place in the order, and goes to its end
                value = rows.e.assign(name, f"{value} == 0 ? 0 : {value}", block)
            bits = rows.e.names.fresh("bits")
            block.line(f"const {c} {bits} = as_{c}({scalar.store(name, value)});")
            text = f"{bits} & {sign} ? ~{bits} : {bits} | {sign}"
            if not self.total:
                text = f"{value} != {value} ? ~({c})0 : {text}"
        elif self.type.startswith("s"):
            text = f"({c}){value} ^ {sign}"
        else:
            text = f"{value}"
        key = rows.e.names.fresh("key")
        block.line(f"const {c} {key} = ({c}){'~' if self.descending else ''}({c})({text});")
        return key


def applies(rows: SortRows, keys: Sequence[Key]) -> bool:
    """Whether the rows are long enough for counting to pay."""
    passes = sum(key.passes for key in keys)
    return passes <= MAX_PASSES and rows.length >= SHORTEST * passes


def kernels(rows: SortRows, keys: Sequence[Key]) -> tuple[Kernel, ...]:
    """The kernels of a sort by keys, the most significant first."""
    digits = [d for key in reversed(keys) for d in key.digits]
    units = max(1, rows.target.compute_units)
    if units > 1 and rows.rows < 2 * units and rows.length >= 2 * CHUNK:
        return _Chunked(rows, digits).kernels()
    return (_whole_rows(rows, digits),)


def _whole_rows(rows: SortRows, digits: Digits) -> Kernel:
    """One kernel in which each row is sorted by one item."""
    block = Block()
    moved = _moved(rows, digits)
    arguments = [*rows.inputs_and_outputs(), *(rows.scratch(b, k) for k in moved for b in "xy")]
    first = len(rows.inputs_and_outputs())
    with rows.open_row(block) as row:
        for n, k in enumerate(moved):
            for name, which in (("s", 0), ("d", 1)):
                at = f"a{first + 2 * n + which} + (long){row} * {rows.length}"
                block.line(f"__global {rows.storage[k]}* {name}{k} = {at};")
        for p, (key, _) in enumerate(digits):
            block.line(f"uint count{p}[{key.bins}];")
            block.line(f"for (int b = 0; b < {key.bins}; ++b) count{p}[b] = 0;")
        with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
            for k in moved:
                block.line(f"const {rows.storage[k]} t{k} = {rows.operand(k, row, 'i')};")
                block.line(f"s{k}[i] = t{k};")
            values = {key: key.emit(f"t{key.number}", block) for key in dict.fromkeys(key for key, _ in digits)}
            for p, (key, n) in enumerate(digits):
                block.line(f"++count{p}[{key.digit(values[key], n)}];")
        for p, (key, n) in enumerate(digits):
            with block.scope():
                c = key.emit(f"s{key.number}[0]", block)
                # Where all have the same digit nothing moves.
                with block.scope(f"if (count{p}[{key.digit(c, n)}] != {rows.length})"):
                    _starts(block, f"count{p}", key.bins)
                    with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
                        for k in moved:
                            block.line(f"const {rows.storage[k]} t{k} = s{k}[i];")
                        c = key.emit(f"t{key.number}", block)
                        block.line(f"const uint to = count{p}[{key.digit(c, n)}]++;")
                        for k in moved:
                            block.line(f"d{k}[to] = t{k};")
                    for k in moved:
                        block.line(f"{{ __global {rows.storage[k]}* t = s{k}; s{k} = d{k}; d{k} = t; }}")
        with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
            for k in rows.outputs:
                block.line(f"{rows.output(k, row, 'i')} = s{k}[i];")
    return Kernel(rows.fusion.name, block.text(), tuple(arguments), rows.items)


def _moved(rows: SortRows, digits: Digits) -> list[int]:
    """The operands that must go along: those that are asked for, and the keys."""
    return sorted({*rows.outputs, *(key.number for key, _ in digits)})


def _starts(block: Block, counts: str, bins: int) -> None:
    """Turns counts into the places where each digit starts."""
    block.line("uint sum = 0;")
    block.line(f"for (int b = 0; b < {bins}; ++b) {{ uint n = {counts}[b]; {counts}[b] = sum; sum += n; }}")


class _Chunked:
    """Two kernels a pass; tuples go from the operands by way of scratch memory x, y, x, ... to the outputs."""

    def __init__(self, rows: SortRows, digits: Digits) -> None:
        self.rows, self.digits = rows, digits
        wanted = -(-4 * rows.target.compute_units // rows.rows)
        self.chunks = max(1, min(MAX_CHUNKS, wanted, rows.length // CHUNK))
        self.chunk = -(-rows.length // self.chunks)
        self.items = rows.rows * self.chunks
        bins = max(key.bins for key, _ in digits)
        self.counts = Argument("scratch", "uint", bytes=4 * self.items * bins, scratch="counts")

    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(k for p in range(len(self.digits)) for k in (self._count(p), self._move(p)))

    def _source(self, number: int, operands: list[int]) -> list[Argument]:
        if number == 0:
            return [self.rows.input(k) for k in operands]
        return [self.rows.scratch("xy"[(number - 1) % 2], k) for k in operands]

    def _open(self, block: Block) -> None:
        rows = self.rows
        block.line(f"const int row = item / {self.chunks};")
        block.line(f"const int chunk = item % {self.chunks};")
        block.line(f"const int begin = chunk * {self.chunk};")
        block.line(f"const int end = {rows.length} - begin < {self.chunk} ? {rows.length} : begin + {self.chunk};")

    def _read(self, number: int, k: int, pointer: str) -> str:
        """An element of operand k as pass `number` finds it."""
        rows = self.rows
        if number == 0:
            return f"{pointer}[{rows.position('row', 'i')}]"
        return f"{pointer}[(long)row * {rows.length} + i]"

    def _count(self, number: int) -> Kernel:
        rows, block = self.rows, Block()
        key, digit = self.digits[number]
        self._open(block)
        block.line(f"uint count[{key.bins}];")
        block.line(f"for (int b = 0; b < {key.bins}; ++b) count[b] = 0;")
        with block.scope("for (int i = begin; i < end; ++i)"):
            c = key.emit(self._read(number, key.number, "a0"), block)
            block.line(f"++count[{key.digit(c, digit)}];")
        block.line(f"for (int b = 0; b < {key.bins}; ++b) a1[item * {key.bins} + b] = count[b];")
        arguments = (*self._source(number, [key.number]), self.counts)
        return Kernel(f"{rows.fusion.name}.count{number}", block.text(), arguments, self.items)

    def _move(self, number: int) -> Kernel:
        rows, block = self.rows, Block()
        key, digit = self.digits[number]
        last = number == len(self.digits) - 1
        read = _moved(rows, self.digits[number:])
        written = list(rows.outputs) if last else _moved(rows, self.digits[number + 1 :])
        self._open(block)
        block.line(f"uint total[{key.bins}], start[{key.bins}];")
        block.line(f"for (int b = 0; b < {key.bins}; ++b) {{ total[b] = 0; start[b] = 0; }}")
        with block.scope(f"for (int c = 0; c < {self.chunks}; ++c)"):
            block.line(f"__global const uint* n = a{len(read)} + (row * {self.chunks} + c) * {key.bins};")
            block.line(f"for (int b = 0; b < {key.bins}; ++b) total[b] += n[b];")
            block.line(f"if (c < chunk) for (int b = 0; b < {key.bins}; ++b) start[b] += n[b];")
        _starts(block, "total", key.bins)
        block.line(f"for (int b = 0; b < {key.bins}; ++b) start[b] += total[b];")
        with block.scope("for (int i = begin; i < end; ++i)"):
            for n, k in enumerate(read):
                block.line(f"const {rows.storage[k]} t{k} = {self._read(number, k, f'a{n}')};")
            c = key.emit(f"t{key.number}", block)
            block.line(f"const int to = (int)start[{key.digit(c, digit)}]++;")
            for n, k in enumerate(written):
                at = rows.position("row", "to") if last else f"(long)row * {rows.length} + to"
                block.line(f"a{len(read) + 1 + n}[{at}] = t{k};")
        targets = [rows.output_argument(k) if last else rows.scratch("xy"[number % 2], k) for k in written]
        arguments = (*self._source(number, read), self.counts, *targets)
        return Kernel(f"{rows.fusion.name}.move{number}", block.text(), arguments, self.items)
