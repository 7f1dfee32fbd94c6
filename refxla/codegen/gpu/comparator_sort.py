"""Merge sort on GPUs for a comparator that does not compare keys: each item produces a few elements of a merged run.

A binary search finds which parts of two sorted runs make up a stretch of the merged one (Green, McColl and Bader: GPU
merge path, 2012). The stretch that begins in the middle is searched first, then those in the middle of each half, and
so on, each between the earlier results. So no element is taken twice or lost, even if the comparator is not an order.
If it is a strict weak order, as HLO demands, the sort is stable.

    blocks of a work-group's elements  in local memory, in one kernel; an item's own elements by insertion
    longer runs                        a kernel for each doubling: a work-group takes its stretch to local memory
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.plan import Argument, Kernel
from ..c_block import Block
from ..sort import comes_before, insertion_sort
from ..sort_rows import SortRows
from .work_groups import BARRIER, LocalMemory, group_size

_ELEMENTS = (8, 4, 2, 1)  # that an item produces, as many as fit in local memory
_FEWEST_ITEMS = 32


@dataclass(frozen=True)
class ComparatorSort:
    """The sort of rows by work-groups of `group` items that produce `each` elements."""

    rows: SortRows
    group: int
    each: int

    @staticmethod
    def choose(rows: SortRows) -> ComparatorSort | None:
        """The largest work-groups that fit in local memory; None if not even the smallest do."""
        group, width = group_size(rows.target), sum(o.shape.element_type.bytes for o in rows.operands)
        while group >= _FEWEST_ITEMS:
            for each in _ELEMENTS:
                if 2 * group * each * width <= rows.target.local_bytes:
                    return ComparatorSort(rows, group, each)
            group //= 2
        return None

    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, to be launched in order; the last one has the name of the sort."""
        return (self._blocks(), *(self._merge(number) for number in range(1, self._merges + 1)))

    @property
    def _block(self) -> int:
        """The elements that a work-group produces."""
        return self.group * self.each

    @property
    def _merges(self) -> int:
        """How often runs are merged in pairs until there is one; the first runs are blocks."""
        blocks: int = -(-self.rows.length // self._block)
        return max(0, blocks - 1).bit_length()

    # -- memory --------------------------------------------------------------------------------------------------------

    def _local(self, block: Block, memory: LocalMemory) -> list[str]:
        """Declares, for each operand, two contiguous arrays of a block's elements."""
        operands = zip(self.rows.storage, self.rows.operands, strict=True)
        return [
            memory.declare(block, f"x{k}", ctype, o.shape.element_type.bytes, 2 * self._block)
            for k, (ctype, o) in enumerate(operands)
        ]

    def _scratch(self, number: int) -> list[Argument]:
        """The buffers that kernel `number` writes, if it is not the last one."""
        return [self.rows.scratch("xy"[number % 2], k) for k in range(len(self.rows.operands))]

    def _written(self, number: int, first: int) -> tuple[list[Argument], Callable[[str, str], dict[int, str]]]:
        """The arguments that kernel `number` writes, after `first` others; and for each used operand the lvalue of its
        element (row, i)."""
        rows = self.rows
        if number == self._merges:
            return [], lambda row, i: {k: rows.output(k, row, i) for k in rows.outputs}
        every = range(len(rows.operands))
        return self._scratch(number), lambda row, i: {
            k: f"a{first + k}[(long){row} * {rows.length} + {i}]" for k in every
        }

    # -- kernels -------------------------------------------------------------------------------------------------------

    def _blocks(self) -> Kernel:
        """The kernel in which a work-group sorts a block of a row, or several short rows."""
        rows, each, length = self.rows, self.each, self.rows.length
        rows.begin_function()
        block, memory = Block(), LocalMemory()
        size = min(max(each, 1 << (length - 1).bit_length()), self._block)  # of a row's part of the local memory
        per_group, blocks = self._block // size, -(-length // size)
        groups = -(-rows.rows // per_group) if blocks == 1 else rows.rows * blocks
        arguments = rows.inputs_and_outputs()
        written, results = self._written(0, len(arguments))
        local = self._local(block, memory)
        block.line(f"const int first_row = {f'group * {per_group}' if blocks == 1 else f'group / {blocks}'};")
        block.line(f"const int first = {'0' if blocks == 1 else f'group % {blocks} * {size}'};")
        block.line(f"const int count = {length} - first < {size} ? {length} - first : {size};")
        inside = f"(row < {rows.rows}) & (k % {size} < count)"
        with block.scope(f"for (int k = item; k < {self._block}; k += {self.group})"):
            block.line(f"const int row = first_row + k / {size}, i = first + k % {size};")
            with block.scope(f"if ({inside})"):
                for k, x in enumerate(local):
                    block.line(f"{x}[k] = {rows.operand(k, 'row', 'i', block)};")
        block.line(BARRIER)
        block.line(f"const int own = item * {each} % {size}, base = item * {each} - own;")
        block.line(f"const int used = first_row + item * {each} / {size} < {rows.rows} ? count : 0;")
        self._insert(block, local)
        block.line(BARRIER)
        block.line("int from = 0;")
        with block.scope(f"for (int width = {each}; width < {size}; width *= 2)"):
            self._enter_pair(block, "used", each)
            with block.scope(f"if (target * {each} < na + nb)"):
                begin = "from + base + pair"
                self._make(block, [f"{x} + {begin}" for x in local], [f"{x} + {begin} + width" for x in local], [
                    f"{x} + {self._block} - from + base + pair" for x in local
                ])  # fmt: skip
            block.line(f"from = {self._block} - from;")
            block.line(BARRIER)
        with block.scope(f"for (int k = item; k < {self._block}; k += {self.group})"):
            block.line(f"const int row = first_row + k / {size}, i = first + k % {size};")
            with block.scope(f"if ({inside})"):
                for k, place in results("row", "i").items():
                    block.line(f"{place} = {local[k]}[from + k];")
        name = f"{rows.fusion.name}.blocks" if self._merges else rows.fusion.name
        return self._kernel(name, block, [*arguments, *written], groups, memory)

    def _merge(self, number: int) -> Kernel:
        """The kernel that merges runs for the `number`-th time."""
        rows, length = self.rows, self.rows.length
        rows.begin_function()
        block, memory, width, blocks = Block(), LocalMemory(), self._block << (number - 1), -(-length // self._block)
        values = rows.inputs_and_outputs() if number == self._merges else []
        arguments = [*values, *self._scratch(number - 1)]
        written, results = self._written(number, len(arguments))
        local = self._local(block, memory)
        block.line(f"const int row = group / {blocks}, own = group % {blocks} * {self._block}, width = {width};")
        self._enter_pair(block, str(length), self._block)
        pointers = [f"run{k}" for k in range(len(local))]
        for k, (name, ctype) in enumerate(zip(pointers, rows.storage, strict=True)):
            block.line(f"__global const {ctype}* const {name} = a{len(values) + k} + (long)row * {length} + pair;")
        block.line("int begin, end, left_begin, left_end;")
        with block.scope():
            self._partition(block, pointers, [f"{name} + width" for name in pointers], self._block)
            block.line("begin = d0; end = d1; left_begin = p0; left_end = p1;")
        with block.scope():
            block.line("const int left = left_end - left_begin, right = begin - left_begin;")
            with block.scope(f"for (int k = item; k < end - begin; k += {self.group})"):
                block.line("const int from = k < left ? left_begin + k : width + right + k - left;")
                for x, name in zip(local, pointers, strict=True):
                    block.line(f"{x}[k] = {name}[from];")
        block.line(BARRIER)
        with block.scope():
            block.line("const int na = left_end - left_begin, nb = end - begin - na, target = item;")
            with block.scope(f"if (target * {self.each} < na + nb)"):
                self._make(block, local, [f"{x} + na" for x in local], [f"{x} + {self._block}" for x in local])
        block.line(BARRIER)
        with block.scope(f"for (int k = item; k < end - begin; k += {self.group})"):
            block.line("const int i = pair + begin + k;")
            for k, place in results("row", "i").items():
                block.line(f"{place} = {local[k]}[{self._block} + k];")
        name = rows.fusion.name if number == self._merges else f"{rows.fusion.name}.merge{number}"
        return self._kernel(name, block, [*arguments, *written], rows.rows * blocks, memory)

    def _kernel(
        self, name: str, block: Block, arguments: Sequence[Argument], groups: int, memory: LocalMemory
    ) -> Kernel:
        items = groups * self.group
        return Kernel(name, block.text(), tuple(arguments), items, work_group=self.group, local_bytes=memory.bytes)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _insert(self, block: Block, local: Sequence[str]) -> None:
        """Sorts an item's own elements, as far as `used` has them."""
        block.line(f"const int last = used - own < {self.each} ? used - own : {self.each};")
        with block.scope():
            for k, (x, c) in enumerate(zip(local, self.rows.storage, strict=True)):
                block.line(f"__local {c}* const s{k} = {x} + base + own;")
            insertion_sort(self.rows, block, "0", "last")

    def _enter_pair(self, block: Block, count: str, step: int) -> None:
        """Declares the starts and sizes of the two runs that contain element `own` of `count`, and the number of the
        stretch of `step` elements that begins with it."""
        block.line("const int pair = own & -(2 * width), rest = " + f"{count} - pair, more = rest - width;")
        block.line("const int na = rest < 0 ? 0 : rest < width ? rest : width;")
        block.line("const int nb = more < 0 ? 0 : more < width ? more : width;")
        block.line(f"const int target = (own - pair) / {step};")

    def _partition(self, block: Block, a: Sequence[str], b: Sequence[str], step: int) -> None:
        """Declares the sources of stretch number `target` of `step` elements: it has the elements d0 to d1 - 1 of the
        result, from p0 to p1 - 1 of run a and the others of run b."""
        block.line(f"int u0 = 0, u1 = (na + nb + {step - 1}) / {step}, p0 = 0, p1 = na, d0 = 0, d1 = na + nb;")
        with block.scope("while (u1 - u0 > 1)"):
            block.line(f"const int u = (u0 + u1) >> 1, d = u * {step};")
            block.line("int low = d - (d1 - p1), high = d - (d0 - p0);")
            block.line("low = low < p0 ? p0 : low;")
            block.line("high = high < p1 ? high : p1;")
            with block.scope("while (low < high)"):
                block.line("const int i = (low + high) >> 1, j = d - 1 - i;")
                answer = comes_before(self.rows, block, [f"({x})[j]" for x in b], [f"({x})[i]" for x in a])
                block.line(f"const int right = {answer} != 0;")  # element j of b goes before element i of a
                block.line("low = right ? low : i + 1;")
                block.line("high = right ? i : high;")
            with block.scope("if (target < u)"):
                block.line("u1 = u; d1 = d; p1 = low;")
            with block.scope("else"):
                block.line("u0 = u; d0 = d; p0 = low;")

    def _make(self, block: Block, a: Sequence[str], b: Sequence[str], to: Sequence[str]) -> None:
        """Merges an item's stretch."""
        self._partition(block, a, b, self.each)
        block.line("int i = p0, j = d0 - p0;")
        with block.scope("for (int n = d0; n < d1; ++n)"):
            block.line("int right = i >= p1;")
            with block.scope("if (i < p1 && j < d1 - p1)"):
                answer = comes_before(self.rows, block, [f"({x})[j]" for x in b], [f"({x})[i]" for x in a])
                block.line(f"right = {answer} != 0;")
            for x, y, z in zip(a, b, to, strict=True):
                block.line(f"({z})[n] = right ? ({y})[j] : ({x})[i];")
            block.line("j += right;")
            block.line("i += !right;")
