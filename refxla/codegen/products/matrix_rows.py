"""The rows of a matrix, as the left side of a product: where they lie, or copied."""

from __future__ import annotations

from functools import partial

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, variable
from ...device.description import Target
from ...device.tile_configurations import configuration_for
from ...ir.plan import Argument, Fusion, Kernel
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..kernel_arguments import input_argument, inputs_of
from .blocking import LOCAL_ROWS, LOCAL_TERMS, STREAMED_ROWS, STREAMED_TERMS, is_deep, reads_as_vectors
from .micro_kernel import Loop
from .packing import (
    VECTORS,
    declare_block,
    direct_access,
    distant_terms,
    open_terms,
    scratch_argument,
    source_access,
    to_accumulation,
)
from .packing_functions import ColumnsToStrips
from .prepacked_constants import can_prepack, constant_value, prepacked_argument, strips_of
from .product import ContractionDimensions, Indices, Lines

SPREAD = 16  # elements between the strips that an item copies, so that they fall on different sets of the cache
COPIED_TERMS = 512  # of k in a block of which items copy their rows
MAX_TERMS = 1536  # of k in a block: a panel of 16 columns of f32 is then 96 KB
DIRECT_COLUMNS = 1 << 16  # elements up to which a left side that lies along m is read as it is
COPY_ELEMENTS = 16384  # elements that an item of the copy of the left side computes


class MatrixRows:
    """The rows of lhs: where they lie if that will do, or copied, by each item for itself or to scratch memory.

    The copy is [g][m][k] or, where lhs lies along m, [g][m / 8][k][m % 8]: either way it is written in the order it is
    read. An item copies the rows and the block of k that it is at, which costs little as each element is then used for
    as many columns as an item has: it does so with what lies along m or is of a narrower type.
    """

    STRIP = 8

    def __init__(self, fusion: Fusion, target: Target, numbers: ContractionDimensions, name: str) -> None:
        self.fusion, self.target, self.numbers, self.name = fusion, target, numbers, name
        self.operand = fusion.hero.operands[0]
        self.element = VECTORS[name][0]
        m, k = numbers.m, numbers.k
        indices = self._indices("g", "m", "k")
        self.access = direct_access(fusion, target, self.operand, indices, name)
        self.plain = self.access
        source = source_access(fusion, target, self.operand, indices)
        along_m = source is not None and source.position.factor("m") == 1
        along_k = source is not None and source.position.factor("k") == 1
        if self.access is not None:
            step = self.access.position.factor("k")
            if step is None or (abs(step) > 64 and m * k > DIRECT_COLUMNS and m > 1):
                self.access = None
        self.prepacked = self.access is None and can_prepack(fusion, self.operand, name)
        self.local = self.access is None and not self.prepacked and (along_m or along_k) and m > STREAMED_ROWS
        self.most_terms = min(k, self._block_terms())
        self.least_terms = self.most_terms
        self.blocks = max(1, -(-k // self.most_terms))
        if self.access is not None:
            self.strip, self.step = 0, self.access.position.factor("k")
        else:
            self.strip = self.STRIP if along_m else 1
            self.step = self.strip
        self.strips = -(-m // self.strip) if self.strip else 0

    def _block_terms(self) -> int:
        n = self.numbers
        chosen = configuration_for(self.fusion, self.target.tile_configurations).terms
        if chosen is not None:
            return chosen
        if n.m <= STREAMED_ROWS:
            g, k, column = (variable(c, 0, size - 1) for c, size in (("g", n.groups), ("k", n.k), ("n", n.n)))
            right = n.right(g, k, column)
            if reads_as_vectors(
                direct_access(self.fusion, self.target, self.fusion.hero.operands[1], right, self.name)
            ):
                return STREAMED_TERMS
        # An item that packs for itself should hold little at a time, and one that holds many sums, too.
        if is_deep(n.m, n.n, n.k):
            return LOCAL_TERMS
        return COPIED_TERMS if self.local else MAX_TERMS if n.m > LOCAL_ROWS else LOCAL_TERMS

    def _indices(self, g: str, m: str, k: str) -> Indices:
        n = self.numbers
        return n.left(variable(g, 0, n.groups - 1), variable(m, 0, n.m - 1), variable(k, 0, n.k - 1))

    def pointer(self) -> Instruction | Argument:
        n = self.numbers
        if self.access is not None:
            return self.access.instruction
        if self.prepacked:
            strips = strips_of(n.left_matrix(constant_value(self.fusion, self.operand, self.name)), self.strip)
            return prepacked_argument(self.fusion, "left", strips)
        return scratch_argument(self.fusion, "left", self.name, n.groups * self.strips * self.strip * n.k)

    def inputs(self) -> list[Instruction]:
        return inputs_of(self.fusion, [self.operand])

    def private_elements(self, rows: int) -> int:
        return -(-rows // self.strip) * self._pitch

    @property
    def _pitch(self) -> int:
        """Elements from one strip of an item's copy to the next."""
        return self.most_terms * self.strip + SPREAD

    def pack(self, block: Block, e: ElementalIrEmitter, most: int, terms: str) -> tuple[str, ...]:
        n = self.numbers
        term = self.first + variable("t", 0, self.most_terms - 1)
        if self.strip == 1:
            with block.scope("for (int r = 0; r < rows; ++r)"), open_terms(block, 1, terms):
                block.line(f"const int k = {term};")
                self._copy(block, e, "first_row + r", f"r * {self._pitch} + t")
            return ()
        strips = -(-most // self.strip)
        g, m = variable("g", 0, n.groups - 1), variable("m", 0, n.m - 1)
        left = partial(n.left, g, m)
        stride = distant_terms(self.fusion, self.target, self.operand, left, n.terms)
        if self.plain is not None:
            copy = ColumnsToStrips(self.name, self.strip, to_global=False)
            apart = self.plain.position.factor("k")
            if stride == 1 and apart is not None:
                self._copy_strips(block, e, copy, (self.first, terms, apart), "strips", strips)
                return (copy.text(),)
            with open_terms(block, stride, terms):
                block.line(f"const int k = {term};")
                each = variable("k", 0, n.k - 1), "1", 0
                self._copy_strips(block, e, copy, each, f"strips + t * {self.strip}", strips)
            return (copy.text(),)
        with open_terms(block, stride, terms):
            block.line(f"const int k = {term};")
            with block.scope(f"if (first_row + {strips * self.strip} <= {n.m})"):
                for s in range(strips):
                    with block.scope(f"for (int u = 0; u < {self.strip}; ++u)"):
                        place = f"{s * self._pitch} + t * {self.strip} + u"
                        self._copy(block, e, f"first_row + {s * self.strip} + u", place)
            with (
                block.scope("else"),
                block.scope(f"for (int r = 0; r < {n.m} - first_row && r < {strips * self.strip}; ++r)"),
            ):
                place = f"r / {self.strip} * {self._pitch} + t * {self.strip} + r % {self.strip}"
                self._copy(block, e, "first_row + r", place)
        return ()

    def _copy(self, block: Block, e: ElementalIrEmitter, row: str, place: str) -> None:
        """Copies the element of C variable k and a row to that place in `strips`."""
        n = self.numbers
        g, m, k = (variable(c, 0, size - 1) for c, size in (("g", n.groups), ("m", n.m), ("k", n.k)))
        block.line(f"const int m = {row};")
        value = to_accumulation(e, self.operand, n.left(g, m, k), self.name, block)
        block.line(f"strips[{place}] = {value};")

    def _copy_strips(
        self,
        block: Block,
        e: ElementalIrEmitter,
        copy: ColumnsToStrips,
        terms: tuple[Index, str, int],
        to: str,
        strips: int,
    ) -> None:
        """Copies so many strips of terms (the first, how many, how far apart) from where they lie in memory."""
        n = self.numbers
        first, count, apart = terms
        g, m = variable("g", 0, n.groups - 1), variable("first_row", 0, n.m - 1)
        at = direct_access(self.fusion, self.target, self.operand, n.left(g, m, first), self.name)
        source = f"(__global const {self.element}*)({e.address(at.instruction, at.indices)})"
        most, there = strips * self.strip, f"{n.m} - first_row"
        rows = f"({most} < {there} ? {most} : {there})"
        block.line(copy.call(source, apart, to, self._pitch, count, rows))

    def stage(self) -> Kernel | None:
        if self.access is not None or self.local or self.prepacked:
            return None
        n, strip = self.numbers, self.strip
        inputs = inputs_of(self.fusion, [self.operand])
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(inputs)})
        per_item = max(1, COPY_ELEMENTS // (strip * max(1, n.k)))
        total = n.groups * self.strips
        block = Block()
        with block.scope(f"for (int s = item * {per_item}; s < {per_item} * (item + 1) && s < {total}; ++s)"):
            s = variable("s", 0, total - 1)
            g = s // self.strips
            with block.scope(f"for (int k = 0; k < {n.k}; ++k)"):
                with block.scope(f"for (int u = 0; u < {strip}; ++u)" if strip > 1 else ""):
                    k, u = variable("k", 0, n.k - 1), variable("u", 0, strip - 1)
                    row = s % self.strips * strip + u
                    if row.high >= n.m:  # the last strip repeats the last row
                        block.line(f"const int m = {row} < {n.m} ? {row} : {n.m - 1};")
                        row = variable("m", 0, n.m - 1)
                    value = to_accumulation(e, self.operand, n.left(g, row, k), self.name, block)
                    block.line(f"a{len(inputs)}[{(s * n.k + k) * strip + u}] = {value};")
        arguments = (*map(input_argument, inputs), self.pointer())
        return Kernel(f"{self.fusion.name}.left", block.text(), arguments, -(-total // per_item))

    def open_block(self, block: Block, number: str) -> tuple[Index, str]:
        if self.blocks == 1:
            self.first = constant(0)
            return self.first, str(self.numbers.k)
        self.first, terms = declare_block(block, number, self.most_terms, self.numbers.k)
        return self.first, terms

    def open_tile(self, block: Block, source: str, first: Index, rows: int) -> None:
        n = self.numbers
        if self.local:
            # Of a tile that is not whole, the rows beyond are the last one.
            for i in range(rows):
                block.line(f"const int m{i} = i + {i} < rows ? i + {i} : rows - 1;")
                place = f"(uint)m{i} / {self.strip}u * {self._pitch} + (uint)m{i} % {self.strip}u"
                block.line(f"const {self.element}* const row{i} = strips + ({place});")
            return
        g = variable("g", 0, n.groups - 1)
        cast = f"(__global const {self.element}*)" if self.access is not None else ""
        for i in range(rows):
            row = first + i
            block.line(f"const int m{i} = {row} < {n.m} ? {row} : {n.m - 1};")
            m = variable(f"m{i}", 0, n.m - 1)
            if self.access is not None:
                at = n.left(g, m, self.first)
                position = direct_access(self.fusion, self.target, self.operand, at, self.name).position
            else:
                position = ((g * self.strips + m // self.strip) * n.k + self.first) * self.strip + m % self.strip
            block.line(f"__global const {self.element}* const row{i} = {cast}{source} + ({position});")

    def lines(self, source: str) -> Lines | None:
        """How the rows of the block that is open lie, if evenly, behind pointer `source`."""
        n = self.numbers
        if self.local:
            return Lines(source, self._pitch, self.strip if self.strip > 1 else 0)
        g, m = variable("g", 0, n.groups - 1), variable("first_row", 0, n.m - 1)
        if self.access is None:
            if self.strip > 1:
                begin = (g * (self.strips * n.k) + self.first) * self.strip
                return Lines(f"{source} + ({begin})", n.k * self.strip, self.strip, "first_row")
            return Lines(f"{source} + ({(g * self.strips + m) * n.k + self.first})", n.k)
        row = self.access.position.factor("m")
        if row is None:
            return None
        at = direct_access(self.fusion, self.target, self.operand, n.left(g, m, self.first), self.name)
        return Lines(f"(__global const {self.element}*){source} + ({at.position})", row)

    def window_loop(self, loop: Loop) -> None:
        return None

    def run(self, rows: int) -> tuple[list[str], str]:
        return [f"row{i}" for i in range(rows)], str(self.numbers.k) if self.blocks == 1 else "terms"
