"""Sorting many elements on GPUs: by the digits of their keys, the least significant first, each time stably.

A pass moves the elements to where they lie in the order of one digit of four bits. A row is cut in tiles, one for a
work-group:

    count    how often each digit comes in each tile
    scan     how often it comes in the tiles before, for each digit
    move     a tile is brought in the order of the digit in local memory, and written out from there, so that neighbours
             are written side by side

How many elements of a tile have a digit and come before an element is known from the counts of each item, of which
sixteen fit into a word, and from their running sums over the items. Nothing depends on which item is first, so that the
order is that of any stable sort.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.plan import Argument, Kernel
from ..c_block import Block
from .key_sort import KEY_BYTES, KeySort
from .work_groups import BARRIER, LocalMemory

DIGIT_BITS = 4
BINS = 1 << DIGIT_BITS
EACH = 8  # elements of an item in a tile; a digit comes no more often among them than four bits can count
COUNTS_EACH = 4  # tiles whose counts an item adds at a time
WORDS = BINS // 4  # of 64 bits, for the counts of all digits in a tile, of 16 bits each


@dataclass(frozen=True)
class TiledRadixSort(KeySort):
    """The sort by digits, of keys of which the lowest `bits` count."""

    bits: tuple[int, ...] = ()

    @property
    def passes(self) -> list[tuple[int, int]]:
        """The digits: the number of a key, and how far to the left in it."""
        return [
            (n, shift) for n in reversed(range(len(self.types))) for shift in range(0, max(self.bits[n], 1), DIGIT_BITS)
        ]

    @property
    def tile(self) -> int:
        """The elements of a tile."""
        return self.group * EACH

    @property
    def tiles(self) -> int:
        """The tiles of a row."""
        return -(-self.length // self.tile)

    @property
    def local_bytes(self) -> int:
        """The local memory of the kernel that moves a tile, about."""
        stage = self.tile * (sum(KEY_BYTES[t] for t in self.types) + 4)
        return max(stage, 2 * WORDS * 8 * self.group) + 256

    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, to be launched in order; the last one has the name of the sort."""
        last = len(self.passes) - 1
        return tuple(
            kernel
            for number in range(last + 1)
            for kernel in (self._count(number), self._scan(number), self._move(number, number == last))
        )

    @property
    def results(self) -> tuple[Argument, ...]:
        """The arguments by which other kernels read the keys in order and, last, the numbers of the elements."""
        return self.scratch(len(self.passes))

    # -- memory --------------------------------------------------------------------------------------------------------

    @property
    def _counts(self) -> Argument:
        """How often a digit comes in a tile, and after the scan in the tiles before: for each row, digit and tile."""
        return Argument("scratch", "int", bytes=4 * self.rows * BINS * self.tiles, scratch="counts")

    @property
    def _totals(self) -> Argument:
        """How often a digit comes in a row."""
        return Argument("scratch", "int", bytes=4 * self.rows * BINS, scratch="totals")

    # -- kernels -------------------------------------------------------------------------------------------------------

    def _kernel(
        self, name: str, groups: int, block: Block, arguments: Sequence[Argument], memory: LocalMemory, shift: int,
        shared: bool,
    ) -> Kernel:  # fmt: skip
        """A kernel of so many work-groups; passes that differ in `shift` alone call the same function, where they are
        `shared`."""
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
        block.line(f"const int row = group / {self.tiles}, first = group % {self.tiles} * {self.tile};")

    def _loaded(self, number: int, block: Block, i: str, first: int = 0) -> list[str]:
        """The keys and the number of element `i` of the row, before pass `number`, as C; what the pass before it wrote
        are the arguments from number `first` on."""
        if number == 0:
            return [*self.keys(block, "row", i), i]
        return [f"a{first + n}[(long)row * {self.length} + {i}]" for n in range(len(self.types) + 1)]

    def _digit(self, key: str) -> str:
        return f"(int)(({key} >> shift) & {BINS - 1})"

    def _count(self, number: int) -> Kernel:
        (n, shift), block, memory = self.passes[number], Block(), LocalMemory()
        source = self.arguments if number == 0 else self.scratch(number)
        self._begin(block)
        sums = memory.declare(block, "sums", "ulong", 8, WORDS * self.group)
        block.line("ulong own = 0;")
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {EACH}; ++j)"):
            block.line(f"const int i = first + j * {self.group} + item;")
            with block.scope(f"if (i < {self.length})"):
                block.line(f"const {self.types[n]} key = {self._loaded(number, block, 'i')[n]};")
                block.line(f"own += 1ul << {DIGIT_BITS} * {self._digit('key')};")
        self._spread(block, "own", lambda w, value: block.line(f"{sums}[{w * self.group} + item] = {value};"))
        block.line(BARRIER)
        with block.scope(f"for (int width = {self.group // 2}; width > 0; width /= 2)"):
            with block.scope("if (item < width)"):
                for w in range(WORDS):
                    at = f"{w * self.group} + item"
                    block.line(f"{sums}[{at}] += {sums}[{at} + width];")
            block.line(BARRIER)
        with block.scope(f"if (item < {BINS})"):
            value = self._of_digit(f"{sums}[item / 4 * {self.group}]", "item")
            place = f"(row * {BINS} + item) * {self.tiles} + first / {self.tile}"
            block.line(f"a{len(source)}[{place}] = {value};")
        name = f"{self.name}.count{number}"
        arguments = (*source, self._counts)
        return self._kernel(name, self.rows * self.tiles, block, arguments, memory, shift, number > 0)

    def _scan(self, number: int) -> Kernel:
        """A work-group for each digit of a row."""
        block, memory, size = Block(), LocalMemory(), self.group * COUNTS_EACH
        sums = memory.declare(block, "sums", "int", 4, 2 * self.group)
        block.line(f"const long at = (long)group * {self.tiles};")
        block.line("int before = 0;")
        with block.scope(f"for (int first = 0; first < {self.tiles}; first += {size})"):
            block.line(f"int count[{COUNTS_EACH}], own = 0;")
            block.line("#pragma unroll")
            with block.scope(f"for (int j = 0; j < {COUNTS_EACH}; ++j)"):
                block.line(f"const int n = first + item * {COUNTS_EACH} + j;")
                block.line(f"count[j] = n < {self.tiles} ? a0[at + n] : 0;")
                block.line("own += count[j];")
            self._running_sums(block, {"own": "int"}, sums, 1)
            block.line("int sum = before + up_to0 - own;")
            block.line("#pragma unroll")
            with block.scope(f"for (int j = 0; j < {COUNTS_EACH}; ++j)"):
                block.line(f"const int n = first + item * {COUNTS_EACH} + j;")
                block.line(f"if (n < {self.tiles}) a0[at + n] = sum;")
                block.line("sum += count[j];")
            block.line(f"before += {sums}[from + {self.group - 1}];")
            block.line(BARRIER)
        block.line("if (item == 0) a1[group] = before;")
        arguments = (self._counts, self._totals)
        return self._kernel(f"{self.name}.scan{number}", self.rows * BINS, block, arguments, memory, 0, True)

    def _move(self, number: int, last: bool) -> Kernel:
        (n, shift), block, memory = self.passes[number], Block(), LocalMemory()
        use, columns = self.use if last else None, [*self.types, "int"]
        outside = self.arguments if number == 0 or use is not None else ()
        source = (*outside, *(self.scratch(number) if number else ()))
        target = () if use is not None else self.scratch(number + 1)
        arguments = (*source, self._counts, self._totals, *target)
        counts, totals = f"a{len(source)}", f"a{len(source) + 1}"
        self._begin(block)
        starts = memory.declare(block, "starts", "int", 4, BINS)
        bases = memory.declare(block, "bases", "int", 4, BINS)
        # What the tile is brought in order in was that of the sums, which nobody needs by then.
        overlay = LocalMemory(memory.bytes)
        sums = overlay.declare(block, "sums", "ulong", 8, 2 * WORDS * self.group)
        stage = [memory.declare(block, f"stage{c}", t, KEY_BYTES.get(t, 4), self.tile) for c, t in enumerate(columns)]
        memory.bytes = max(memory.bytes, overlay.bytes)
        for c, t in enumerate(columns):
            block.line(f"{t} value{c}[{EACH}];")
        block.line(f"int rank[{EACH}];")
        block.line("ulong own = 0;")
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {EACH}; ++j)"):
            block.line(f"const int i = first + item * {EACH} + j;")
            with block.scope(f"if (i < {self.length})"):
                for c, value in enumerate(self._loaded(number, block, "i", len(outside))):
                    block.line(f"value{c}[j] = {value};")
                block.line(f"const int digit = {DIGIT_BITS} * {self._digit(f'value{n}[j]')};")
                block.line(f"rank[j] = (int)((own >> digit) & {BINS - 1});")
                block.line("own += 1ul << digit;")
        words: dict[str, str] = {}

        def word(w: int, value: str) -> None:
            block.line(f"const ulong own{w} = {value};")
            words[f"own{w}"] = "ulong"

        self._spread(block, "own", word)
        self._running_sums(block, words, sums, WORDS)
        with block.scope(f"if (item < {BINS})"):
            block.line("int start = 0, base = 0;")
            with block.scope("for (int d = 0; d < item; ++d)"):
                total = f"{sums}[from + d / 4 * {self.group} + {self.group - 1}]"
                block.line(f"start += {self._of_digit(total, 'd')};")
                block.line(f"base += {totals}[row * {BINS} + d];")
            before = f"{counts}[(row * {BINS} + item) * {self.tiles} + first / {self.tile}]"
            block.line(f"{starts}[item] = start;")
            block.line(f"{bases}[item] = base + {before} - start;")
        block.line(BARRIER)
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {EACH}; ++j)"):
            with block.scope(f"if (first + item * {EACH} + j < {self.length})"):
                block.line(f"const int digit = {self._digit(f'value{n}[j]')};")
                before = " : ".join([f"digit < {4 * (w + 1)} ? up_to{w} - own{w}" for w in range(WORDS - 1)])
                before += f" : up_to{WORDS - 1} - own{WORDS - 1}"
                block.line(f"const ulong before = {before};")
                block.line(f"const int to = {starts}[digit] + {self._of_digit('before', 'digit')} + rank[j];")
                for c, array in enumerate(stage):
                    block.line(f"{array}[to] = value{c}[j];")
        block.line(BARRIER)
        block.line("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {EACH}; ++j)"):
            block.line(f"const int t = j * {self.group} + item;")
            with block.scope(f"if (first + t < {self.length})"):
                block.line(f"const int place = {bases}[{self._digit(f'{stage[n]}[t]')}] + t;")
                if use is not None:
                    block.line(f"const int n = {stage[-1]}[t];")
                    use(block, "row", "place", "n")
                for c, array in enumerate(stage if use is None else ()):
                    to = f"a{len(arguments) - len(target) + c}"
                    block.line(f"{to}[(long)row * {self.length} + place] = {array}[t];")
        name = self.name if last else f"{self.name}.move{number}"
        shared = number > 0 and use is None
        return self._kernel(name, self.rows * self.tiles, block, arguments, memory, shift, shared)

    # -- counts of digits ----------------------------------------------------------------------------------------------

    def _spread(self, block: Block, counts: str, emit: Callable[[int, str], None]) -> None:
        """The counts of all digits, of four bits each, in words of 16 bits each: `emit(w, C)` for each of them."""
        for w in range(WORDS):
            block.line(f"ulong spread{w} = ({counts} >> {16 * w}) & 0xfffful;")
            block.line(f"spread{w} = (spread{w} | (spread{w} << 24)) & 0x000000ff000000fful;")
            emit(w, f"(spread{w} | (spread{w} << 12)) & 0x000f000f000f000ful")

    def _of_digit(self, word: str, digit: str) -> str:
        """The count of a digit in its word, as C."""
        return f"(int)(({word} >> ({digit}) % 4 * 16) & 0xfffful)"

    def _running_sums(self, block: Block, values: dict[str, str], sums: str, count: int) -> None:
        """Declares `up_to0` ..., the sums of `count` values over all items up to this one. Those of all items lie in
        `sums`, at `from` and the item's number, each value's a work-group further."""
        for w, value in enumerate(values):
            block.line(f"{sums}[{w * self.group} + item] = {value};")
        block.line("int from = 0;")
        block.line(BARRIER)
        with block.scope(f"for (int step = 1; step < {self.group}; step *= 2)"):
            block.line(f"const int to = {count * self.group} - from;")
            for w in range(count):
                at = f"{w * self.group} + item"
                block.line(f"{sums}[to + {at}] = {sums}[from + {at}] + (item < step ? 0 : {sums}[from + {at} - step]);")
            block.line("from = to;")
            block.line(BARRIER)
        for w, ctype in enumerate(values.values()):
            block.line(f"const {ctype} up_to{w} = {sums}[from + {w * self.group} + item];")
