"""Merge sort on GPUs: sorts the numbers of elements by their keys, with merges in which each element finds its own
place. (Long rows are sorted by digits instead: tiled_radix_sort.py.)

Two sorted runs are merged without a loop over them: an element's place is its place in its own run plus the number of
elements of the other run that precede it, which a binary search finds. Among equal elements, those of the left run come
first, so the sort is stable. The keys are unsigned integers, which are totally ordered, so no element can be lost.

    blocks of a work-group's size      in local memory, in one kernel
    longer runs                        a kernel for each doubling, between two buffers
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields

from ...ir.plan import Argument, Kernel
from ..c_block import Block
from .key_sort import BYTES, KeySort
from .tiled_radix_sort import TiledRadixSort
from .work_groups import BARRIER, LocalMemory

# Microseconds, as measured on an H200: of a kernel that merges runs; of the kernels of a digit; of four bits of rows
# that are sorted in local memory. For each, and for each element.
MERGE_US, MERGE_ELEMENT_US = 8.0, 18e-6
DIGIT_US, DIGIT_ELEMENT_US = 20.0, 12e-6
SPLIT_US, SPLIT_ELEMENT_US = 2.5, 3.6e-6


class MergeSort(KeySort):
    """The sort by merges."""

    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, to be launched in order; the last one has the name of the sort."""
        return (self._blocks(), *(self._merge(number) for number in range(1, self._merges + 1)))

    @property
    def results(self) -> tuple[Argument, ...]:
        """The arguments by which other kernels read the columns in order."""
        return self.scratch(self._merges)

    @property
    def _merges(self) -> int:
        """How often runs are merged in pairs until there is one; the first runs are blocks."""
        return max(0, -(-self.length // self.group) - 1).bit_length()

    def by_digits(self, bits: Sequence[int], local_bytes: int) -> MergeSort | TiledRadixSort:
        """The same sort as a radix sort, of keys whose lowest `bits` matter, if that takes less time on a device with
        so much local memory."""
        radix = TiledRadixSort(**{f.name: getattr(self, f.name) for f in fields(self)}, bits=tuple(bits))
        elements = self.rows * radix.tiles * radix.tile
        merging = (self._merges + 1) * (MERGE_US + MERGE_ELEMENT_US * self.rows * self.length)
        if radix.tiles == 1:
            moving = radix.splits * (SPLIT_US + SPLIT_ELEMENT_US * elements)
        else:
            moving = len(radix.passes) * (DIGIT_US + DIGIT_ELEMENT_US * elements)
        return radix if moving < merging and radix.local_bytes <= local_bytes else self

    # -- blocks of a work-group's size ---------------------------------------------------------------------------------

    def _blocks(self) -> Kernel:
        """The kernel in which a work-group sorts a block of a row, or several short rows."""
        size = min(1 << max(0, self.length - 1).bit_length(), self.group)  # of a row's part of the local memory
        blocks, whole = -(-self.length // size), self.length <= self.group
        use = self.use if whole else None
        block, memory = Block(), LocalMemory()
        self.begin()
        local = [memory.declare(block, f"k{n}", t, BYTES[t], 2 * self.group) for n, t in enumerate(self.columns)]
        if whole:
            groups = -(-self.rows // (self.group // size))
            block.line(f"const int row = group * {self.group // size} + item / {size};")
            block.line(f"const int first = 0, own = item % {size};")
        else:
            groups = self.rows * blocks
            block.line(f"const int row = group / {blocks};")
            block.line(f"const int first = group % {blocks} * {size}, own = item;")
        block.line(f"const int count = {self.length} - first < {size} ? {self.length} - first : {size};")
        block.line("const int i = first + own;")
        block.line(f"const int inside = (row < {self.rows}) & (own < count);")
        block.line("const int base = item - own;")
        block.line("int from = base;")  # where the sorted runs of the block begin
        with block.scope("if (inside)"):
            for array, value in zip(local, self.load(block, "row", "i"), strict=True):
                block.line(f"{array}[item] = {value};")
        block.line(BARRIER)
        with block.scope(f"for (int width = 1; width < {size}; width *= 2)"):
            block.line(f"const int to = 2 * base + {self.group} - from;")
            with block.scope("if (inside)"):
                self._find_place(block, local, "from", "own", "count")
                for array in local:
                    block.line(f"{array}[to + place] = {array}[from + own];")
            block.line("from = to;")
            block.line(BARRIER)
        with block.scope("if (inside)"):
            if use is not None:
                use(block, "row", "i", self._loaded(block, local, "from + own"))
            else:
                block.line(f"const long at = (long)row * {self.length} + i;")
                for n, array in enumerate(local):
                    block.line(f"a{len(self.arguments) + n}[at] = {array}[from + own];")
        items = groups * self.group
        arguments = self.arguments if use is not None else (*self.arguments, *self.scratch(0))
        name = self.name if whole else f"{self.name}.blocks"
        return Kernel(name, block.text(), arguments, items, work_group=self.group, local_bytes=memory.bytes)

    # -- longer runs ---------------------------------------------------------------------------------------------------

    def _merge(self, number: int) -> Kernel:
        """The kernel that merges runs for the `number`-th time: a function that all such kernels call, except one that
        uses the result."""
        block, width = Block(), self.group << (number - 1)
        use = self.use if number == self._merges else None
        last = use is not None
        values, source, target = self.arguments if last else (), self.scratch(number - 1), self.scratch(number)
        first = len(values)
        arrays = [f"a{first + n}" for n in range(len(source))]
        self.begin()
        with block.scope(f"if (unit < {self.rows * self.length})"):
            block.line(f"const int row = unit / {self.length}, own = unit % {self.length};")
            block.line(f"const long from = (long)row * {self.length};")
            self._find_place(block, arrays, "from", "own", str(self.length))
            if use is not None:
                use(block, "row", "place", self._loaded(block, arrays, "from + own"))
            else:
                for n, array in enumerate(arrays):
                    block.line(f"a{first + len(source) + n}[from + place] = {array}[from + own];")
        arguments = (*values, *source) if last else (*source, *target)
        items = -(-self.rows * self.length // self.group) * self.group
        unit = f"group * {self.group} + item"
        if last:
            text = f"    const int unit = {unit}, width = {width};\n{block.text()}"
            return Kernel(self.name, text, arguments, items, work_group=self.group)
        parameters = [f"__global const {a.ctype}* restrict a{n}" for n, a in enumerate(source)]
        parameters += [f"__global {a.ctype}* restrict a{n}" for n, a in enumerate(target, len(source))]
        body = f"(const int unit, const int width, {', '.join(parameters)}) {{\n{block.text()}}}\n"
        function = f"merge_{hashlib.sha256(body.encode()).hexdigest()[:8]}"
        call = f"    {function}({unit}, {width}, {', '.join(f'a{n}' for n in range(len(arguments)))});\n"
        name = f"{self.name}.merge{number}"
        return Kernel(name, call, arguments, items, work_group=self.group, helpers=(f"void {function}{body}",))

    def _loaded(self, block: Block, arrays: Sequence[str], at: str) -> list[str]:
        """Declares the values of the columns in `arrays` at index `at` (C); returns their names."""
        for n, (t, array) in enumerate(zip(self.columns, arrays, strict=True)):
            block.line(f"const {t} value{n} = {array}[{at}];")
        return [f"value{n}" for n in range(len(arrays))]

    def _find_place(self, block: Block, arrays: Sequence[str], start: str, own: str, count: str) -> None:
        """Declares `place`, the position of element `own` of `count` ones from `start` on, after runs of `width`
        elements are merged in pairs."""
        block.line(f"const int right = ({own} & width) != 0;")
        block.line(f"const int pair = {own} & -(2 * width);")
        block.line("const int other = right ? pair : pair + width;")  # where the other run begins
        block.line("int low = other, high = other + width;")
        block.line(f"high = high < {count} ? high : {count};")
        own_values = [f"{array}[{start} + {own}]" for array in arrays]
        for n, t in enumerate(self.types):
            block.line(f"const {t} own{n} = {self.key(block, n, own_values)};")
        with block.scope("while (low < high)"):
            block.line("const int middle = (low + high) >> 1;")
            others = [f"{array}[{start} + middle]" for array in arrays]
            before = "right"  # equal elements of the left run come first
            for n in reversed(range(len(self.types))):
                block.line(f"const {self.types[n]} other{n} = {self.key(block, n, others)};")
                before = f"(other{n} < own{n}) | ((other{n} == own{n}) & ({before}))"
            block.line(f"const int before = {before};")
            block.line("low = before ? middle + 1 : low;")
            block.line("high = before ? high : middle;")
        block.line(f"const int place = pair + ({own} & (width - 1)) + low - other;")
