"""Sorting by a key: what a comparator compare(f(a), f(b)) orders is put in order digit by digit, without comparing.

The key of a tuple is f(a) as an unsigned integer of the same order. It is computed anew in each pass, so that only the
operands move. From the least significant digit on, each pass counts how often each digit occurs and moves every tuple
to its place, keeping the order of equals.

    counts[digit of key] += 1               for all tuples
    start[digit] = sum of the counts before it
    moved[start[digit of key]++] = tuple    for all tuples, in order

An item sorts one row or several short ones. Few long rows are cut into chunks: then each pass is two kernels, in which
an item counts, and then moves, the tuples of one chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refxla_spec.module import Computation

from ..plan import Argument, Kernel
from . import scalar
from .block import Block
from .elemental import type_name

if TYPE_CHECKING:
    from .sort import Rows

SHORTEST = 16  # elements for each pass: shorter rows are sorted by merging
WIDE_FROM = 16384  # elements of a row from which on digits are wider
CHUNK = 1 << 15  # elements of a chunk of a long row, at least
MAX_CHUNKS = 64

_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}


class Key:
    """The key of operand `number`: `computation` on its elements, ordered by LT or GT and, if `total`, as
    IEEE 754's totalOrder."""

    def __init__(self, rows: Rows, number: int, computation: Computation, descending: bool, total: bool) -> None:
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


def applies(rows: Rows, key: Key) -> bool:
    """Whether the rows are long enough for counting to pay."""
    return rows.length >= SHORTEST * key.passes


def kernels(rows: Rows, key: Key) -> tuple[Kernel, ...]:
    """The kernels of a sort by a key."""
    units = max(1, rows.target.compute_units)
    if units > 1 and rows.rows < 2 * units and rows.length >= 2 * CHUNK:
        return _Chunked(rows, key).kernels()
    return (_whole_rows(rows, key),)


def _whole_rows(rows: Rows, key: Key) -> Kernel:
    """One kernel in which each row is sorted by one item."""
    block = Block()
    moved = sorted({key.number, *rows.outputs})
    arguments = [*rows.inputs_and_outputs(), *(rows.scratch(b, k) for k in moved for b in "xy")]
    first = len(rows.inputs_and_outputs())
    with rows.open_row(block) as row:
        for n, k in enumerate(moved):
            for name, which in (("s", 0), ("d", 1)):
                at = f"a{first + 2 * n + which} + (long){row} * {rows.length}"
                block.line(f"__global {rows.storage[k]}* {name}{k} = {at};")
        for p in range(key.passes):
            block.line(f"uint count{p}[{key.bins}];")
        with block.scope(f"for (int b = 0; b < {key.bins}; ++b)"):
            block.line(" ".join(f"count{p}[b] = 0;" for p in range(key.passes)))
        with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
            for k in moved:
                block.line(f"const {rows.storage[k]} t{k} = {rows.operand(k, row, 'i')};")
                block.line(f"s{k}[i] = t{k};")
            c = key.emit(f"t{key.number}", block)
            for p in range(key.passes):
                block.line(f"++count{p}[{key.digit(c, p)}];")
        for p in range(key.passes):
            with block.scope():
                c = key.emit(f"s{key.number}[0]", block)
                # Where all have the same digit nothing moves.
                with block.scope(f"if (count{p}[{key.digit(c, p)}] != {rows.length})"):
                    _starts(block, f"count{p}", key.bins)
                    with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
                        for k in moved:
                            block.line(f"const {rows.storage[k]} t{k} = s{k}[i];")
                        c = key.emit(f"t{key.number}", block)
                        block.line(f"const uint to = count{p}[{key.digit(c, p)}]++;")
                        for k in moved:
                            block.line(f"d{k}[to] = t{k};")
                    for k in moved:
                        block.line(f"{{ __global {rows.storage[k]}* t = s{k}; s{k} = d{k}; d{k} = t; }}")
        with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
            for k in rows.outputs:
                block.line(f"{rows.output(k, row, 'i')} = s{k}[i];")
    return Kernel(rows.fusion.name, block.text(), tuple(arguments), rows.items)


def _starts(block: Block, counts: str, bins: int) -> None:
    """Turns counts into the places where each digit starts."""
    block.line("uint sum = 0;")
    block.line(f"for (int b = 0; b < {bins}; ++b) {{ uint n = {counts}[b]; {counts}[b] = sum; sum += n; }}")


class _Chunked:
    """Two kernels a pass; tuples go from the operands by way of scratch memory x, y, x, ... to the outputs."""

    def __init__(self, rows: Rows, key: Key) -> None:
        self.rows, self.key = rows, key
        wanted = -(-4 * rows.target.compute_units // rows.rows)
        self.chunks = max(1, min(MAX_CHUNKS, wanted, rows.length // CHUNK))
        self.chunk = -(-rows.length // self.chunks)
        self.items = rows.rows * self.chunks
        self.counts = Argument("scratch", "uint", bytes=4 * self.items * key.bins, scratch="counts")

    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(k for p in range(self.key.passes) for k in (self._count(p), self._move(p)))

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
        rows, key, block = self.rows, self.key, Block()
        self._open(block)
        block.line(f"uint count[{key.bins}];")
        block.line(f"for (int b = 0; b < {key.bins}; ++b) count[b] = 0;")
        with block.scope("for (int i = begin; i < end; ++i)"):
            c = key.emit(self._read(number, key.number, "a0"), block)
            block.line(f"++count[{key.digit(c, number)}];")
        block.line(f"for (int b = 0; b < {key.bins}; ++b) a1[item * {key.bins} + b] = count[b];")
        arguments = (*self._source(number, [key.number]), self.counts)
        return Kernel(f"{rows.fusion.name}.count{number}", block.text(), arguments, self.items)

    def _move(self, number: int) -> Kernel:
        rows, key, block = self.rows, self.key, Block()
        last = number == key.passes - 1
        read = sorted({key.number, *rows.outputs})
        written = list(rows.outputs) if last else read
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
            block.line(f"const int to = (int)start[{key.digit(c, number)}]++;")
            for n, k in enumerate(written):
                at = rows.position("row", "to") if last else f"(long)row * {rows.length} + to"
                block.line(f"a{len(read) + 1 + n}[{at}] = t{k};")
        targets = [rows.output_argument(k) if last else rows.scratch("xy"[number % 2], k) for k in written]
        arguments = (*self._source(number, read), self.counts, *targets)
        return Kernel(f"{rows.fusion.name}.move{number}", block.text(), arguments, self.items)
