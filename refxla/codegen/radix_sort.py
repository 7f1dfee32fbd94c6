"""Radix sort: what a comparator compare(f(a), f(b)) orders is sorted digit by digit, without comparisons.

The key of a tuple is f(a) as an unsigned integer with the same order. It is recomputed in each pass, so that only the
operands move. Starting with the least significant digit, each pass counts how often each digit occurs and moves every
tuple to its place, stably. Of several keys, the least significant is sorted by first.

    counts[digit of key] += 1               for all tuples
    start[digit] = sum of the counts before it
    moved[start[digit of key]++] = tuple    for all tuples, in order

An item sorts one row or several short ones. Few long rows are cut into chunks: then each pass is two kernels, in which
an item counts, and then moves, the tuples of one chunk. The passes of a key are a loop, or calls of a function with the
digit as an argument, so that a pass is compiled once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from refxla_spec.sorting import SortKey

from ..ir.op_table import LONG_ROW
from ..ir.plan import Argument, Kernel
from . import scalar
from .c_block import Block
from .element_builder import type_name
from .sort_rows import SortRows

SHORTEST = 16  # elements for each pass: shorter rows are merge-sorted
WIDE_FROM = 16384  # elements of a row from which on digits are wider
CHUNK = LONG_ROW // 2  # elements of a chunk of a long row, at least
MAX_CHUNKS = 64
MAX_PASSES = 16

Digits = Sequence[tuple["Key", int]]  # (key, number of the digit), as many as passes


class Key:
    """A sort key as an unsigned integer: that of operand `number`, by `computation` on its elements."""

    def __init__(self, rows: SortRows, key: SortKey) -> None:
        self.rows, self.number, self.computation = rows, key.operand, key.function
        self.descending, self.total = key.descending, key.total
        self.type = type_name(key.function.root)
        element = key.function.root.shape.element_type
        narrow = self.type in ("f16", "bf16")
        self.bits = 16 if narrow else 32 if element.is_float and element.bits < 32 else max(8, element.bits)
        width = 11 if rows.length >= WIDE_FROM and self.bits > 16 else 8
        self.passes = -(-self.bits // width)
        self.width = -(-self.bits // self.passes)

    @property
    def ctype(self) -> str:
        """The C type of a key."""
        return scalar.UNSIGNED_OF_BITS[self.bits]

    @property
    def digits(self) -> list[tuple[Key, int]]:
        """The digits of the key, the least significant first."""
        return [(self, n) for n in range(self.passes)]

    @property
    def bins(self) -> int:
        """How many digits there are."""
        return 1 << self.width

    def digit(self, key: str, shift: int | str) -> str:
        """The C expression of the digit of a key that starts at bit `shift`."""
        return f"(({key} >> {shift}) & {self.bins - 1})"

    def emit(self, stored: str, block: Block) -> str:
        """The C variable with the key of an element, given as stored in memory."""
        rows, c = self.rows, self.ctype
        value = rows.e.assign(rows.types[self.number], scalar.load(rows.types[self.number], stored), block)
        (value,) = rows.e.apply(self.computation, (value,), block)
        sign = f"(({c})1 << {self.bits - 1})"
        if self.computation.root.shape.element_type.is_float:
            name = self.type if self.bits == 16 or self.type == "f64" else "f32"
            if not self.total:  # zeros are equal, and so are NaNs, which are greater than numbers
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
    units = max(1, rows.target.compute_units)
    if units > 1 and rows.rows < 2 * units and rows.length >= LONG_ROW:
        return _ChunkedPasses(rows, [d for key in reversed(keys) for d in key.digits]).kernels()
    return (_whole_rows(rows, keys[::-1]),)


def _whole_rows(rows: SortRows, keys: Sequence[Key]) -> Kernel:
    """One kernel in which each row is sorted by one item, by the least significant key first."""
    block = Block()
    moved = _moved(rows, keys)
    arguments = [*rows.inputs_and_outputs(), *(rows.scratch(b, k) for k in moved for b in "xy")]
    first = len(rows.inputs_and_outputs())
    with rows.open_row(block) as row:
        for n, k in enumerate(moved):
            for name, which in (("s", 0), ("d", 1)):
                at = f"a{first + 2 * n + which} + (long){row} * {rows.length}"
                block.line(f"__global {rows.storage[k]}* {name}{k} = {at};")
        for p, key in enumerate(keys):
            block.line(f"uint counts{p}[{key.passes * key.bins}];")
            block.line(f"for (int b = 0; b < {key.passes * key.bins}; ++b) counts{p}[b] = 0;")
        with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
            for k in moved:
                block.line(f"const {rows.storage[k]} t{k} = {rows.operand(k, row, 'i', block)};")
                block.line(f"s{k}[i] = t{k};")
            for p, key in enumerate(keys):
                value = key.emit(f"t{key.number}", block)
                for n in range(key.passes):
                    block.line(f"++counts{p}[{n * key.bins} + {key.digit(value, n * key.width)}];")
        for p, key in enumerate(keys):
            block.line("#pragma clang loop unroll(disable)")
            with block.scope(f"for (int pass = 0; pass < {key.passes}; ++pass)"):
                block.line(f"uint* const count = counts{p} + pass * {key.bins};")
                block.line(f"const int shift = pass * {key.width};")
                block.line("uint alike = 0;")  # where all have the same digit nothing moves
                block.line(f"for (int b = 0; b < {key.bins}; ++b) alike |= count[b] == {rows.length};")
                block.line("if (alike) continue;")
                _starts(block, "count", key.bins)
                block.line("#pragma clang loop unroll(disable)")
                with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
                    for k in moved:
                        block.line(f"const {rows.storage[k]} t{k} = s{k}[i];")
                    c = key.emit(f"t{key.number}", block)
                    block.line(f"const uint to = count[{key.digit(c, 'shift')}]++;")
                    for k in moved:
                        block.line(f"d{k}[to] = t{k};")
                for k in moved:
                    block.line(f"{{ __global {rows.storage[k]}* t = s{k}; s{k} = d{k}; d{k} = t; }}")
        with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
            for k in rows.outputs:
                block.line(f"{rows.output(k, row, 'i')} = s{k}[i];")
    return Kernel(rows.fusion.name, block.text(), tuple(arguments), rows.items, global_only=True)


def _moved(rows: SortRows, keys: Iterable[Key]) -> list[int]:
    """The operands that have to be moved: those whose results are used, and the keys."""
    return sorted({*rows.outputs, *(key.number for key in keys)})


def _starts(block: Block, counts: str, bins: int) -> None:
    """Turns counts into the places where each digit starts."""
    block.line("uint sum = 0;")
    block.line(f"for (int b = 0; b < {bins}; ++b) {{ uint n = {counts}[b]; {counts}[b] = sum; sum += n; }}")


class _ChunkedPasses:
    """Two kernels a pass; tuples go from the operands by way of scratch memory x, y, x, ... to the outputs.

    A pass is a function of its buffers and of the first bit of its digit, shared by all passes with the same layouts of
    input and output.
    """

    def __init__(self, rows: SortRows, digits: Digits) -> None:
        self.rows, self.digits = rows, digits
        enough = -(-4 * rows.target.compute_units // rows.rows)
        self.chunks = max(1, min(MAX_CHUNKS, enough, rows.length // CHUNK))
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
        """Begins the function of a pass."""
        rows = self.rows
        rows.begin_function()
        block.line(f"const int row = item / {self.chunks};")
        block.line(f"const int chunk = item % {self.chunks};")
        block.line(f"const int begin = chunk * {self.chunk};")
        block.line(f"const int end = {rows.length} - begin < {self.chunk} ? {rows.length} : begin + {self.chunk};")

    def _place(self, in_arrays: bool, i: str) -> str:
        """The position of element i of a row: in the layout of operands and outputs, or row by row."""
        rows = self.rows
        if in_arrays and rows.dimension != len(rows.sizes) - 1:
            return rows.position("row", i)
        return f"(long)row * {rows.length} + {i}"

    def _call(self, what: str, number: int, arguments: Sequence[Argument], text: str) -> Kernel:
        """The kernel of pass `number` that calls a function, whose `text` follows its name."""
        key, digit = self.digits[number]
        name = f"{what}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        passed = ", ".join(["item", str(digit * key.width), *(f"a{n}" for n in range(len(arguments)))])
        kernel = f"{self.rows.fusion.name}.{what}{number}"
        helpers = (f"void {name}{text}",)
        return Kernel(kernel, f"{name}({passed});\n", tuple(arguments), self.items, helpers=helpers, global_only=True)

    def _count(self, number: int) -> Kernel:
        block = Block()
        key, _ = self.digits[number]
        self._open(block)
        block.line(f"uint count[{key.bins}];")
        block.line(f"for (int b = 0; b < {key.bins}; ++b) count[b] = 0;")
        with block.scope("for (int i = begin; i < end; ++i)"):
            c = key.emit(f"from[{self._place(number == 0, 'i')}]", block)
            block.line(f"++count[{key.digit(c, 'shift')}];")
        block.line(f"for (int b = 0; b < {key.bins}; ++b) counts[item * {key.bins} + b] = count[b];")
        types = f"__global const {self.rows.storage[key.number]}* restrict from, __global uint* restrict counts"
        text = f"(const int item, const int shift, {types}) {{\n{block.text()}}}\n"
        return self._call("count", number, (*self._source(number, [key.number]), self.counts), text)

    def _move(self, number: int) -> Kernel:
        rows, block = self.rows, Block()
        key, _ = self.digits[number]
        last = number == len(self.digits) - 1
        reads = _moved(rows, (key for key, _ in self.digits[number:]))
        written = list(rows.outputs) if last else _moved(rows, (key for key, _ in self.digits[number + 1 :]))
        self._open(block)
        block.line(f"uint total[{key.bins}], start[{key.bins}];")
        block.line(f"for (int b = 0; b < {key.bins}; ++b) {{ total[b] = 0; start[b] = 0; }}")
        with block.scope(f"for (int c = 0; c < {self.chunks}; ++c)"):
            block.line(f"__global const uint* n = counts + (row * {self.chunks} + c) * {key.bins};")
            block.line(f"for (int b = 0; b < {key.bins}; ++b) total[b] += n[b];")
            block.line(f"if (c < chunk) for (int b = 0; b < {key.bins}; ++b) start[b] += n[b];")
        _starts(block, "total", key.bins)
        block.line(f"for (int b = 0; b < {key.bins}; ++b) start[b] += total[b];")
        with block.scope("for (int i = begin; i < end; ++i)"):
            for k in reads:
                block.line(f"const {rows.storage[k]} t{k} = from{k}[{self._place(number == 0, 'i')}];")
            c = key.emit(f"t{key.number}", block)
            block.line(f"const int to = (int)start[{key.digit(c, 'shift')}]++;")
            for k in written:
                block.line(f"to{k}[{self._place(last, 'to')}] = t{k};")
        targets = [rows.output_argument(k) if last else rows.scratch("xy"[number % 2], k) for k in written]
        parameters = ["const int item", "const int shift"]
        parameters += [f"__global const {rows.storage[k]}* restrict from{k}" for k in reads]
        parameters += ["__global const uint* restrict counts"]
        parameters += [f"__global {rows.storage[k]}* restrict to{k}" for k in written]
        text = f"({', '.join(parameters)}) {{\n{block.text()}}}\n"
        return self._call("move", number, (*self._source(number, reads), self.counts, *targets), text)
