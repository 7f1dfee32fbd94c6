"""The rows of a matrix, as the left side of a product, in place or copied."""

from __future__ import annotations

from functools import partial

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, variable
from ...device.description import Target
from ...device.tile_configurations import configuration_for
from ...ir.plan import Argument, Fusion, Kernel
from .. import work_items
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import inputs_of
from .blocking import LOCAL_ROWS, LOCAL_TERMS, STREAMED_ROWS, STREAMED_TERMS, is_deep, reads_as_vectors
from .contraction_rows import ContractionRows
from .packing import (
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

SPREAD = 16  # elements between the strips that an item copies, so that they are in different cache sets
COPIED_TERMS = 512  # of k in a block, if items copy their rows
MAX_TERMS = 1536  # of k in a block: a panel of 16 columns of f32 is then 96 KB
DIRECT_COLUMNS = 1 << 16  # elements, up to which a left side that is contiguous along m is read in place


class MatrixRows(ContractionRows):
    """The rows of lhs: in place if possible, otherwise copied, by each item for itself or to scratch memory.

    The copy is [g][m][k] or, if lhs is contiguous along m, [g][m / 8][k][m % 8]: in both cases it is written in the
    order in which it is read. An item that copies for itself copies its rows of the current block of k, which costs
    little, since each element is used for all columns of the item: it does so with rows that are contiguous along m or
    of a narrower type.
    """

    STRIP = 8

    def __init__(self, fusion: Fusion, target: Target, numbers: ContractionDimensions, name: str) -> None:
        m, k = numbers.m, numbers.k
        super().__init__(fusion, target, numbers, name, k)
        indices = self._indices("g", "m", "k")
        self.access = direct_access(fusion, self.operand, indices, name)
        self.plain = self.access
        source = source_access(fusion, self.operand, indices)
        along_m = source is not None and source.position.factor("m") == 1
        along_k = source is not None and source.position.factor("k") == 1
        step = None if self.access is None else self.access.position.factor("k")
        if step is None or (abs(step) > 64 and m * k > DIRECT_COLUMNS and m > 1):
            self.access = None
        self.prepacked = self.access is None and can_prepack(fusion, self.operand, name)
        is_local = self.access is None and not self.prepacked and (along_m or along_k) and m > STREAMED_ROWS
        self.local = self if is_local else None
        self.cut(self._block_terms())
        if self.access is not None and step is not None:
            self.strip, self.step = 0, step
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
            if reads_as_vectors(direct_access(self.fusion, n.right_operand, right, self.name)):
                return STREAMED_TERMS
        # An item that packs for itself, or has many sums, should hold little else at a time.
        if is_deep(n.m, n.n, n.k):
            return LOCAL_TERMS
        return COPIED_TERMS if self.local else MAX_TERMS if n.m > LOCAL_ROWS else LOCAL_TERMS

    def _indices(self, g: str, m: str, k: str) -> Indices:
        n = self.numbers
        return n.left(variable(g, 0, n.groups - 1), variable(m, 0, n.m - 1), variable(k, 0, n.k - 1))

    def copy(self) -> Argument:
        """A constant, or scratch memory that the stage fills."""
        n = self.numbers
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
        """The elements from one strip of an item's copy to the next."""
        return self.most_terms * self.strip + SPREAD

    def pack(self, block: Block, e: ElementalIrEmitter, most: int, terms: str) -> tuple[str, ...]:
        n = self.numbers
        term = self.first + variable("t", 0, self.most_terms - 1)
        if self.strip == 1:
            with block.scope("for (int r = 0; r < rows; ++r)"), open_terms(block, 1, terms):
                block.line(f"const int k = {c_of(term)};")
                self._copy(block, e, "first_row + r", f"r * {self._pitch} + t")
            return ()
        strips = -(-most // self.strip)
        g, m = variable("g", 0, n.groups - 1), variable("m", 0, n.m - 1)
        left = partial(n.left, g, m)
        stride = distant_terms(self.fusion, self.operand, left, n.terms)
        if self.plain is not None:
            copy = ColumnsToStrips(self.name, self.strip, to_global=False)
            apart = self.plain.position.factor("k")
            if stride == 1 and apart is not None:
                self._copy_strips(block, e, copy, (self.first, terms, apart), "strips", strips)
                return (copy.text(),)
            with open_terms(block, stride, terms):
                block.line(f"const int k = {c_of(term)};")
                each = variable("k", 0, n.k - 1), "1", 0
                self._copy_strips(block, e, copy, each, f"strips + t * {self.strip}", strips)
            return (copy.text(),)
        with open_terms(block, stride, terms):
            block.line(f"const int k = {c_of(term)};")
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
        """Copies so many strips of `terms` (the first, their number, their distance) from memory."""
        n = self.numbers
        first, count, apart = terms
        g, m = variable("g", 0, n.groups - 1), variable("first_row", 0, n.m - 1)
        at = direct_access(self.fusion, self.operand, n.left(g, m, first), self.name)
        assert at is not None  # as `plain` is not
        source = f"(__global const {self.element}*)({e.address(at.instruction, at.indices)})"
        most, there = strips * self.strip, f"{n.m} - first_row"
        rows = f"({most} < {there} ? {most} : {there})"
        block.line(copy.call(source, apart, to, self._pitch, count, rows))

    def stage(self) -> Kernel | None:
        """The kernel that makes the copy in scratch memory, if there is one."""
        if self.access is not None or self.local or self.prepacked:
            return None
        per_item = max(1, work_items.ELEMENTS // (self.strip * max(1, self.numbers.k)))
        return self.copy_stage(self.numbers.groups * self.strips, per_item, self.numbers.k)

    def emit_copy(self, e: ElementalIrEmitter, block: Block, s: Index, k: Index, to: str) -> None:
        n, strip = self.numbers, self.strip
        with block.scope(f"for (int u = 0; u < {strip}; ++u)" if strip > 1 else ""):
            u = variable("u", 0, strip - 1)
            row = s % self.strips * strip + u
            if row.high >= n.m:  # the last strip repeats the last row
                block.line(f"const int m = {c_of(row)} < {n.m} ? {c_of(row)} : {n.m - 1};")
                row = variable("m", 0, n.m - 1)
            value = to_accumulation(e, self.operand, n.left(s // self.strips, row, k), self.name, block)
            block.line(f"{to}[{c_of((s * n.k + k) * strip + u)}] = {value};")

    def open_tile(self, block: Block, source: str, first: Index, rows: int) -> None:
        """As in ContractionRows; to its own copy, if the item has made one."""
        if not self.local:
            return super().open_tile(block, source, first, rows)
        for i in range(rows):
            block.line(f"const int m{i} = i + {i} < rows ? i + {i} : rows - 1;")
            place = f"(uint)m{i} / {self.strip}u * {self._pitch} + (uint)m{i} % {self.strip}u"
            block.line(f"const {self.element}* const row{i} = strips + ({place});")

    def position(self, g: Index, m: Index) -> Index:
        n = self.numbers
        if self.access is None:
            return ((g * self.strips + m // self.strip) * n.k + self.first) * self.strip + m % self.strip
        at = direct_access(self.fusion, self.operand, n.left(g, m, self.first), self.name)
        assert at is not None  # as `access` is not
        return at.position

    def lines(self, source: str) -> Lines | None:
        """The layout of the current block's rows after pointer `source`, if they are at constant distances."""
        n = self.numbers
        if self.local:
            return Lines(source, self._pitch, self.strip if self.strip > 1 else 0)
        g, m = variable("g", 0, n.groups - 1), variable("first_row", 0, n.m - 1)
        if self.access is None:
            if self.strip > 1:
                begin = (g * (self.strips * n.k) + self.first) * self.strip
                return Lines(f"{source} + ({c_of(begin)})", n.k * self.strip, self.strip, "first_row")
            return Lines(f"{source} + ({c_of((g * self.strips + m) * n.k + self.first)})", n.k)
        row = self.access.position.factor("m")
        if row is None:
            return None
        at = direct_access(self.fusion, self.operand, n.left(g, m, self.first), self.name)
        assert at is not None  # as `access` is not
        return Lines(f"(__global const {self.element}*){source} + ({c_of(at.position)})", row)
