"""Radix sort of many elements on GPUs: stably by each digit of their keys, the least significant first.

A pass moves the elements to their places in the order of one 8-bit digit. A row is cut into tiles, one for each
work-group:

    count    how often each digit comes in each tile
    scan     how often it comes in the tiles before, for each digit
    move     a tile is brought in the order of the digit in local memory, and written out from there, so that neighbours
             are written side by side

In local memory a tile is sorted by four bits, then by the next four. An item has a few neighbouring elements in
registers. It counts in a single word how many of them with the same four bits precede each element, since there are at
most eight; those of earlier items, or with smaller digits, follow from the prefix sums of all items' counts, four of
which fit in a word (Merrill and Grimshaw: High performance and scalable radix sorting, 2011). Nothing depends on the
scheduling of items, so that the result is that of any stable sort.

Rows of one tile are sorted by one kernel, which keeps its elements in registers from pass to pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...ir.plan import Argument, Kernel
from ..c_block import Block
from .key_sort import BYTES, KeySort
from .work_groups import BARRIER, LocalMemory

SPLIT_BITS = 4  # of a digit by which a tile is sorted at a time
DIGIT_BITS = 2 * SPLIT_BITS
WORDS = 4  # of 64 bits, for the counts of all values of SPLIT_BITS bits: value 4 f + w is field f of word w
MOST_EACH, MOST_EACH_WIDE = 16, 8  # elements of an item in a tile; of those that have a column of eight bytes
COUNTED = 8  # elements of an item that a word counts: four bits hold no more
COPIES = 8  # of the counts of a tile, so that items with the same digit rarely contend
COUNTS_EACH = 4  # tiles whose counts an item adds at a time
FEW_TILES = 32  # whose counts each tile adds itself


class DigitPass(NamedTuple):
    """A digit: the number of its key, its shift, and in how many parts a tile is sorted by it."""

    key: int
    shift: int
    splits: int

    @property
    def bins(self) -> int:
        """The values that the digit can have."""
        return 1 << SPLIT_BITS * self.splits


@dataclass(frozen=True)
class TiledRadixSort(KeySort):
    """The radix sort of keys whose lowest `bits` matter."""

    bits: tuple[int, ...] = ()

    @property
    def passes(self) -> list[DigitPass]:
        """The digits."""
        return [
            DigitPass(n, shift, 2 if bits - shift > SPLIT_BITS else 1)
            for n, bits in reversed(list(enumerate(self.bits)))
            for shift in range(0, max(bits, 1), DIGIT_BITS)
        ]

    @property
    def splits(self) -> int:
        """How often a tile is reordered in local memory."""
        return sum(p.splits for p in self.passes)

    @property
    def each(self) -> int:
        """The elements of an item in a tile, a power of two."""
        most = MOST_EACH if max(BYTES[t] for t in self.columns) <= 4 else MOST_EACH_WIDE
        return min(most, 1 << (-(-self.length // self.group) - 1).bit_length())

    @property
    def tile(self) -> int:
        """The elements of a tile."""
        return self.group * self.each

    @property
    def tiles(self) -> int:
        """The tiles of a row."""
        return -(-self.length // self.tile)

    @property
    def local_bytes(self) -> int:
        """The local memory of the kernel that needs most."""
        return max(kernel.local_bytes for kernel in self.kernels())

    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, to be launched in order; the last one has the name of the sort."""
        if self.tiles == 1:
            return (self._alone(),)
        last = len(self.passes) - 1
        return tuple(
            kernel
            for number in range(last + 1)
            for kernel in (self._count(number), *self._scans(number), self._move(number, number == last))
        )

    @property
    def results(self) -> tuple[Argument, ...]:
        """The arguments by which other kernels read the columns in order."""
        return self.scratch(0 if self.tiles == 1 else len(self.passes))

    # -- memory --------------------------------------------------------------------------------------------------------

    @property
    def _counts(self) -> Argument:
        """The number of a digit's occurrences in a tile and, after the scan, in all earlier tiles: for each row, digit
        and tile."""
        return Argument("scratch", "int", bytes=4 * self.rows * self._most_bins * self.tiles, scratch="counts")

    @property
    def _totals(self) -> Argument:
        """The number of a digit's occurrences in a row."""
        return Argument("scratch", "int", bytes=4 * self.rows * self._most_bins, scratch="totals")

    @property
    def _most_bins(self) -> int:
        return max(p.bins for p in self.passes)

    # -- kernels -------------------------------------------------------------------------------------------------------

    def _kernel(
        self, name: str, groups: int, block: Block, arguments: Sequence[Argument], memory: LocalMemory, shift: int,
        shared: bool,
    ) -> Kernel:  # fmt: skip
        """A kernel of so many work-groups; `shared` passes that differ only in `shift` call the same function."""
        head, items = f"    const int shift = {shift};\n", groups * self.group
        if not shared:
            return Kernel(
                name, head + block.text(), tuple(arguments), items, work_group=self.group, local_bytes=memory.bytes
            )
        parameters = [f"__global {a.ctype}* restrict a{n}" for n, a in enumerate(arguments)]
        head = "(const int shift, const int group, const int item, __local uchar* local_memory, "
        body = f"{head}{', '.join(parameters)}) {{\n{block.text()}}}\n"
        function = f"radix_{hashlib.sha256(body.encode()).hexdigest()[:8]}"
        pointers = ", ".join(f"a{n}" for n in range(len(arguments)))
        call = f"    {function}({shift}, group, item, local_memory, {pointers});\n"
        return Kernel(
            name, call, tuple(arguments), items, work_group=self.group, local_bytes=memory.bytes,
            helpers=(f"void {function}{body}",),
        )  # fmt: skip

    def _begin(self, block: Block) -> None:
        self.begin()
        block.line(f"const int row = group / {self.tiles}, first = group % {self.tiles} * {self.tile};")
        block.line(f"const int count = {self.length} - first < {self.tile} ? {self.length} - first : {self.tile};")

    def _loaded(self, number: int, block: Block, i: str, first: int = 0) -> Sequence[str]:
        """The columns of element `i` of the row, before pass `number`, as C; the previous pass wrote the arguments from
        number `first` on."""
        if number == 0:
            return self.load(block, "row", i)
        return [f"a{first + n}[(long)row * {self.length} + {i}]" for n in range(len(self.columns))]

    def _digit(self, block: Block, p: DigitPass, values: Sequence[str]) -> str:
        return f"(int)((({self.key(block, p.key, values)}) >> shift) & {p.bins - 1})"

    def _count(self, number: int) -> Kernel:
        p, block, memory = self.passes[number], Block(), LocalMemory()
        source = self.arguments if number == 0 else self.scratch(number)
        self._begin(block)
        counts = memory.declare(block, "counts", "int", 4, p.bins * COPIES)
        with block.scope(f"for (int k = item; k < {p.bins * COPIES}; k += {self.group})"):
            block.line(f"{counts}[k] = 0;")
        block.line(BARRIER)
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {self.each}; ++j)"):
            block.line(f"const int t = j * {self.group} + item;")
            with block.scope("if (t < count)"):
                block.line("const int i = first + t;")
                digit = self._digit(block, p, self._loaded(number, block, "i"))
                block.line(f"atomic_inc((volatile __local int*)({counts} + {digit} * {COPIES} + item % {COPIES}));")
        block.line(BARRIER)
        with block.scope(f"for (int d = item; d < {p.bins}; d += {self.group})"):
            block.line("int sum = 0;")
            with block.scope(f"for (int copy = 0; copy < {COPIES}; ++copy)"):
                block.line(f"sum += {counts}[d * {COPIES} + copy];")
            block.line(f"a{len(source)}[(row * {p.bins} + d) * {self.tiles} + first / {self.tile}] = sum;")
        name = f"{self.name}.count{number}"
        arguments = (*source, self._counts)
        return self._kernel(name, self.rows * self.tiles, block, arguments, memory, p.shift, number > 0)

    def _scans(self, number: int) -> tuple[Kernel, ...]:
        """The kernel of the scan, if there are enough tiles for one."""
        return (self._scan(number),) if self.tiles > FEW_TILES else ()

    def _scan(self, number: int) -> Kernel:
        """The prefix sums of counts over tiles, and their totals: with a work-group for each digit of a row."""
        block, memory, digits = Block(), LocalMemory(), self.rows * self.passes[number].bins
        name, arguments = f"{self.name}.scan{number}", (self._counts, self._totals)
        size = self.group * COUNTS_EACH
        sums = memory.declare(block, "sums", "ulong", 8, 2 * self.group)
        block.line(f"const long at = (long)group * {self.tiles};")
        block.line("int before = 0;")
        with block.scope(f"for (int first = 0; first < {self.tiles}; first += {size})"):
            block.line(f"int count[{COUNTS_EACH}], own = 0;")
            block.line("#pragma unroll")
            with block.scope(f"for (int j = 0; j < {COUNTS_EACH}; ++j)"):
                block.line(f"const int n = first + item * {COUNTS_EACH} + j;")
                block.line(f"count[j] = n < {self.tiles} ? a0[at + n] : 0;")
                block.line("own += count[j];")
            earlier, total = self._running_sum(block, "own", sums)
            block.line(f"int sum = before + (int){earlier};")
            block.line("#pragma unroll")
            with block.scope(f"for (int j = 0; j < {COUNTS_EACH}; ++j)"):
                block.line(f"const int n = first + item * {COUNTS_EACH} + j;")
                block.line(f"if (n < {self.tiles}) a0[at + n] = sum;")
                block.line("sum += count[j];")
            block.line(f"before += (int){total};")
            block.line(BARRIER)
        block.line("if (item == 0) a1[group] = before;")
        return self._kernel(name, digits, block, arguments, memory, 0, True)

    def _move(self, number: int, last: bool) -> Kernel:
        p, block, memory = self.passes[number], Block(), LocalMemory()
        use = self.use if last else None
        outside = self.arguments if number == 0 or use is not None else ()
        source = (*outside, *(self.scratch(number) if number else ()))
        target = () if use is not None else self.scratch(number + 1)
        scanned = (self._totals,) if self.tiles > FEW_TILES else ()
        arguments = (*source, self._counts, *scanned, *target)
        self._begin(block)
        bases = memory.declare(block, "bases", "int", 4, p.bins)
        stage, sums = self._local(block, memory)
        self._find_bases(block, p, bases, sums, f"a{len(source)}", f"a{len(source) + 1}" if scanned else "")
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {self.each}; ++j)"):
            block.line(f"const int t = j * {self.group} + item;")
            with block.scope("if (t < count)"):
                block.line("const int i = first + t;")
                for c, value in enumerate(self._loaded(number, block, "i", len(outside))):
                    block.line(f"value{c}[j] = {value};")
        self._to_neighbours(block, stage)
        for split in range(p.splits):
            final = split == p.splits - 1
            self._split(block, p.key, f"shift + {SPLIT_BITS * split}", stage, sums, across=final)
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {self.each}; ++j)"):
            block.line(f"const int t = j * {self.group} + item;")
            with block.scope("if (t < count)"):
                values = [f"value{c}[j]" for c in range(len(self.columns))]
                block.line(f"const int place = {bases}[{self._digit(block, p, values)}] + t;")
                if use is not None:
                    use(block, "row", "place", values)
                for c, value in enumerate(values if use is None else ()):
                    to = f"a{len(arguments) - len(target) + c}"
                    block.line(f"{to}[(long)row * {self.length} + place] = {value};")
        name = self.name if last else f"{self.name}.move{number}"
        shared = number > 0 and use is None
        return self._kernel(name, self.rows * self.tiles, block, arguments, memory, p.shift, shared)

    def _alone(self) -> Kernel:
        """The kernel that sorts rows of one tile."""
        block, memory = Block(), LocalMemory()
        self._begin(block)
        stage, sums = self._local(block, memory)
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {self.each}; ++j)"):
            block.line(f"const int i = j * {self.group} + item;")
            with block.scope("if (i < count)"):
                for c, value in enumerate(self.load(block, "row", "i")):
                    block.line(f"value{c}[j] = {value};")
        self._to_neighbours(block, stage)
        for n, bits in reversed(list(enumerate(self.bits))):
            splits = -(-max(bits, 1) // SPLIT_BITS)
            with block.scope(f"for (int shift = 0; shift < {SPLIT_BITS * splits}; shift += {SPLIT_BITS})"):
                self._split(block, n, "shift", stage, sums, across=False)
        self._exchange(block, stage, f"item * {self.each} + j", f"j * {self.group} + item")
        target = () if self.use is not None else self.scratch(0)
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {self.each}; ++j)"):
            block.line(f"const int i = j * {self.group} + item;")
            with block.scope("if (i < count)"):
                values = [f"value{c}[j]" for c in range(len(self.columns))]
                if self.use is not None:
                    self.use(block, "row", "i", values)
                for c, value in enumerate(values if self.use is None else ()):
                    block.line(f"a{len(self.arguments) + c}[(long)row * {self.length} + i] = {value};")
        return self._kernel(self.name, self.rows, block, (*self.arguments, *target), memory, 0, False)

    # -- a tile in local memory ----------------------------------------------------------------------------------------

    def _local(self, block: Block, memory: LocalMemory) -> tuple[list[str], str]:
        """Declares an item's elements, `value0[each]` ..., and local memory that is reused: pointers to a tile of each
        column, and one to sums."""
        begin, stage = memory.bytes, []
        for c, t in enumerate(self.columns):
            block.line(f"{t} value{c}[{self.each}];")
            overlay = LocalMemory(begin)
            stage.append(overlay.declare(block, f"stage{c}", t, BYTES[t], self.tile + self.group))
            memory.bytes = max(memory.bytes, overlay.bytes)
        overlay = LocalMemory(begin)
        sums = overlay.declare(block, "sums", "ulong", 8, 2 * self.group)
        overlay.declare(block, "words", "ulong", 8, WORDS * self.group + self.group)
        memory.bytes = max(memory.bytes, overlay.bytes)
        return stage, sums

    def _padded(self, place: str) -> str:
        """The position of an element of a tile in local memory, such that neighbouring items' first elements are in
        different banks."""
        return f"{place} + {place} / {self.each}"

    def _to_neighbours(self, block: Block, stage: Sequence[str]) -> None:
        """Exchanges elements, so that each item has neighbouring ones instead of those with a stride of the number of
        items."""
        self._exchange(block, stage, f"j * {self.group} + item", f"item * {self.each} + j")

    def _exchange(self, block: Block, stage: Sequence[str], to: str, source: str) -> None:
        """Moves an item's element j to place `to` of the tile, and loads the one at `source` (C)."""
        for c, array in enumerate(stage):
            block.line(BARRIER)
            block.line("#pragma unroll")
            with block.scope(f"for (int j = 0; j < {self.each}; ++j)"):
                block.line(f"const int to = {to};")
                block.line(f"if (to < count) {array}[{self._padded('to')}] = value{c}[j];")
            block.line(BARRIER)
            block.line("#pragma unroll")
            with block.scope(f"for (int j = 0; j < {self.each}; ++j)"):
                block.line(f"const int from = {source};")
                block.line(f"if (from < count) value{c}[j] = {array}[{self._padded('from')}];")

    def _split(self, block: Block, n: int, shift: str, stage: Sequence[str], sums: str, across: bool) -> None:
        """Sorts a tile stably by four bits of key `n`, from `shift` on. Items have neighbouring elements before and
        after or, if `across` is set, after it those with a stride of the number of items."""
        with block.scope():
            block.line(f"int place[{self.each}];")
            counted: list[str] = []
            for first in range(0, self.each, COUNTED):
                own = f"own{first // COUNTED}"
                counted.append(own)
                block.line(f"ulong {own} = 0;")
                block.line("#pragma unroll")
                with block.scope(f"for (int j = {first}; j < {min(first + COUNTED, self.each)}; ++j)"):
                    with block.scope(f"if (item * {self.each} + j < count)"):
                        key = self.key(block, n, [f"value{c}[j]" for c in range(len(self.columns))])
                        block.line(f"const int at = (int)(({key} >> ({shift})) & {(1 << SPLIT_BITS) - 1}) * 4;")
                        earlier = " + ".join(f"(int)(({word} >> at) & 15)" for word in counted)
                        block.line(f"place[j] = {earlier};")
                        block.line(f"{own} += 1ul << at;")
            for w in range(WORDS):
                fields = " + ".join(f"(({own} >> {SPLIT_BITS * w}) & 0x000f000f000f000ful)" for own in counted)
                block.line(f"const ulong word{w} = {fields};")
            words = self._running_words(block, sums)
            block.line("#pragma unroll")
            with block.scope(f"for (int j = 0; j < {self.each}; ++j)"):
                with block.scope(f"if (item * {self.each} + j < count)"):
                    key = self.key(block, n, [f"value{c}[j]" for c in range(len(self.columns))])
                    block.line(f"const int digit = (int)(({key} >> ({shift})) & {(1 << SPLIT_BITS) - 1});")
                    block.line(f"const int at = (digit & {WORDS - 1}) * {self.group} + item;")
                    block.line(
                        f"place[j] += (int)(({words}[{self._spread('at')}] >> (digit / {WORDS}) * 16) & 0xffff);"
                    )
                block.line(f"else place[j] = {self.tile};")
            there = f"j * {self.group} + item" if across else f"item * {self.each} + j"
            self._exchange(block, stage, "place[j]", there)

    def _running_words(self, block: Block, sums: str) -> str:
        """Replaces the counts `word0` ... of an item by their prefix sums: in each field, the number of the tile's
        elements with smaller bits, or with the same bits in an earlier item. Returns their positions in local memory:
        those of word w at the position that `_spread` gives for w times the number of items plus the item's own."""
        words = f"({sums} + {2 * self.group})"
        block.line(BARRIER)
        for w in range(WORDS):
            block.line(f"{words}[{self._spread(f'{w * self.group} + item')}] = word{w};")
        block.line(BARRIER)
        # An item adds neighbours among the counts of all words, in their order.
        for w in range(WORDS):
            block.line(f"const ulong part{w} = {words}[{self._spread(f'item * {WORDS} + {w}')}];")
        earlier, total = self._running_sum(block, " + ".join(f"part{w}" for w in range(WORDS)), sums)
        block.line(f"ulong sum = {earlier} + ({total} << 16) + ({total} << 32) + ({total} << 48);")
        for w in range(WORDS):
            block.line(f"{words}[{self._spread(f'item * {WORDS} + {w}')}] = sum;")
            block.line(f"sum += part{w};")
        block.line(BARRIER)
        return words

    def _spread(self, place: str) -> str:
        """The position of the count with that number, such that items' first ones are in different banks."""
        return f"({place}) + ({place}) / {WORDS}"

    def _running_sum(self, block: Block, value: str, sums: str) -> tuple[str, str]:
        """Declares the sum of a C value over all earlier items, and over all; returns their names."""
        block.line(f"const ulong mine = {value};")
        block.line("ulong up_to = mine;")
        block.line(f"{sums}[item] = up_to;")
        block.line(BARRIER)
        block.line("int from = 0;")
        with block.scope(f"for (int step = 1; step < {self.group}; step *= 2)"):
            block.line(f"up_to += item < step ? 0ul : {sums}[from + item - step];")
            block.line(f"from = {self.group} - from;")
            block.line(f"{sums}[from + item] = up_to;")
            block.line(BARRIER)
        block.line("const ulong earlier = up_to - mine;")
        block.line(f"const ulong all = {sums}[from + {self.group - 1}];")
        return "earlier", "all"

    def _find_bases(self, block: Block, p: DigitPass, bases: str, sums: str, counts: str, totals: str) -> None:
        """Writes for each digit the distance from the places of its elements in the sorted tile to those in the row:
        the elements with smaller digits in the row, and with this one in earlier tiles, less those with smaller digits
        in the tile. `counts` are those of the scan if there are `totals`, otherwise those of each tile."""
        each = max(1, p.bins // self.group)
        with block.scope():
            block.line(f"const int tile = first / {self.tile};")
            block.line(f"int before[{each}];")
            block.line(f"ulong counted[{each}], own = 0;  // in the tile, and in the row")
            with block.scope(f"for (int k = 0; k < {each}; ++k)"):
                block.line(f"const int d = item * {each} + k;")
                block.line("int mine = 0, total = 0;")
                block.line("before[k] = 0;")
                with block.scope(f"if (d < {p.bins})"):
                    block.line(f"const int at = (row * {p.bins} + d) * {self.tiles};")
                    if totals:
                        block.line(f"total = {totals}[row * {p.bins} + d];")
                        block.line(f"before[k] = {counts}[at + tile];")
                        block.line(f"mine = (tile + 1 < {self.tiles} ? {counts}[at + tile + 1] : total) - before[k];")
                    else:
                        with block.scope(f"for (int n = 0; n < {self.tiles}; ++n)"):
                            block.line(f"const int count = {counts}[at + n];")
                            block.line("before[k] += n < tile ? count : 0;")
                            block.line("mine = n == tile ? count : mine;")
                            block.line("total += count;")
                block.line("counted[k] = (ulong)mine | (ulong)total << 32;")
                block.line("own += counted[k];")
            self._running_sum(block, "own", sums)
            block.line("ulong sum = earlier;")
            with block.scope(f"for (int k = 0; k < {each}; ++k)"):
                block.line(f"const int d = item * {each} + k;")
                block.line(f"if (d < {p.bins}) {bases}[d] = (int)(sum >> 32) + before[k] - (int)(sum & 0xfffffffful);")
                block.line("sum += counted[k];")
