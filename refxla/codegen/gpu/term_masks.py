"""Masks of terms without an element of a product's left side: those in the border around a convolution's input.

They are left out of the sum, not added as zeros: zero times an infinite weight is NaN. A mask has a bit for each row of
an item, and holds for a run of terms (OperandCopy.run), such as the features of an element of the window. If all rows
of an item are present in a block, as is usual, it multiplies without testing.

    tables      If each condition depends on one index of the window's element, the masks of all values of that index
                are computed once, at the start of the kernel, and are in local memory: a table for each index. The mask
                of a run is the conjunction of one entry of each.
    blocks      Otherwise, or if the tables are large, the masks of a block are stored with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...analysis.index_expression import Index, delinearize, linearize, variable
from ...analysis.index_maps import Condition
from ..c_block import Block
from ..index_printer import c_of, c_of_conditions
from .operand_copy import OperandCopy
from .work_groups import LocalMemory

MOST_TABLE_BYTES = 1 << 13
FEWEST_TERMS = 4  # of a run that has a mask of its own


@dataclass(frozen=True)
class ItemRows:
    """The rows of an item: `count` of them, the parts of `quad` neighbours as far apart as `tile_rows` allows."""

    count: int
    quad: int
    tile_rows: int

    @property
    def groups(self) -> int:
        """How many items of a work-group have different rows."""
        return self.tile_rows // self.count

    def place(self, i: int) -> int:
        """The place of an item's row `i` after its first one."""
        return i // self.quad * (self.tile_rows * self.quad // self.count) + i % self.quad


@dataclass(frozen=True)
class TermMasks:
    """The masks of the blocks that `copy` copies, for items with these rows: one for `terms` terms at a time.

    `sizes` are those of the indices of a term. `tables` are the indices on which conditions depend, each with these
    conditions; there is none if the masks of each block are stored with it.
    """

    copy: OperandCopy
    rows: ItemRows
    sizes: tuple[int, ...]
    terms: int
    tables: tuple[tuple[int, tuple[Condition, ...]], ...] = ()

    @staticmethod
    def of(copy: OperandCopy, rows: ItemRows, sizes: Sequence[int]) -> TermMasks | None:
        """The masks of an operand of which some elements do not exist; `sizes` are those of the indices of a term."""
        if c_of_conditions(copy.exists(_row(copy), variable("k", 0, copy.k - 1))) is True:
            return None
        masks = TermMasks(copy, rows, tuple(sizes), copy.run if copy.run >= FEWEST_TERMS else 1)
        tables = masks._by_index() if masks.terms > 1 else ()
        bytes = sum(sizes[d] * rows.groups for d, _ in tables)
        return replace(masks, tables=tables if bytes <= MOST_TABLE_BYTES else ())

    def _by_index(self) -> tuple[tuple[int, tuple[Condition, ...]], ...]:
        """The conditions that depend on each index of a term; () if one depends on several, or on the last index, which
        varies within a run."""
        indices = [variable(f"index{d}", 0, size - 1) for d, size in enumerate(self.sizes)]
        tables: dict[int, tuple[Condition, ...]] = {}
        for condition in self.copy.exists(_row(self.copy), linearize(indices, self.sizes)):
            if condition.simplified is True:
                continue
            by = [d for d in range(len(indices)) if f"index{d}" in condition.index.variables]
            if len(by) > 1 or by == [len(indices) - 1]:
                return ()
            d = by[0] if by else 0
            tables[d] = (*tables.get(d, ()), condition)
        return tuple(sorted(tables.items()))

    @property
    def per_block(self) -> int:
        """The masks of an item for a block."""
        return self.copy.terms // self.terms

    @property
    def full(self) -> int:
        """The mask of rows that are all present."""
        return (1 << self.rows.count) - 1

    @property
    def _count(self) -> int:
        """The masks of an item for all terms."""
        return self.copy.k // self.terms

    @property
    def _block_bytes(self) -> int:
        """The bytes of a block's masks, if they are stored with it."""
        return self.per_block * self.rows.groups

    def declare(self, block: Block, local: LocalMemory) -> None:
        """Declares the masks in local memory."""
        for d, _ in self.tables:
            local.declare(block, f"there{d}", "uchar", 1, self.sizes[d] * self.rows.groups)
        if not self.tables:
            local.declare(block, "there", "uchar", 1, 2 * self._block_bytes)

    def store_first(self, block: Block, number: str) -> None:
        """Stores an item's part of the tables, or of the masks of the first block, number `number` (C)."""
        for d, conditions in self.tables:
            self._store(block, f"there{d}", self.sizes[d], f"index{d}", "", "", conditions)
        self.store_next(block, number, "0")

    def store_next(self, block: Block, number: str, buffer: str) -> None:
        """Stores an item's part of the masks of block `number` (C) in a buffer (C), unless there are tables."""
        if self.tables:
            return
        conditions = self.copy.exists(_row(self.copy), variable("mask", 0, self._count - 1) * self.terms)
        start = f"{number} * {self.per_block} + "
        beyond = f"mask >= {self._count} || " if self.copy.k % self.copy.terms else ""  # padding changes no sum
        self._store(
            block, f"(there + {buffer} * {self._block_bytes})", self.per_block, "mask", start, beyond, conditions
        )

    def _store(
        self, block: Block, array: str, count: int, name: str, start: str, beyond: str, conditions: Sequence[Condition]
    ) -> None:
        """Stores an item's part of `count` masks of each item, from the value `start` of variable `name` on."""
        copy, groups, bytes = self.copy, self.rows.groups, count * self.rows.groups
        head = f"for (int n = item; n < {bytes}; n += {copy.group})"
        with block.scope(head if bytes > copy.group else f"if (item < {bytes})" if bytes < copy.group else ""):
            if bytes <= copy.group:
                block.line("const int n = item;")
            block.line(f"const int {name} = {start}n / {groups}, first = first_row + n % {groups} * {self.rows.quad};")
            block.line("int mask_bits = 0;")
            exists = c_of_conditions(conditions)
            for i in range(self.rows.count):
                with block.scope(""):
                    row, last = f"first + {self.rows.place(i)}", copy.size - 1
                    row = f"{row} < {last} ? {row} : {last}" if copy.size % copy.lines else row
                    block.line(f"const int row = {row};")
                    block.line(f"mask_bits |= ({beyond}({'1' if exists is True else exists or '0'})) << {i};")
            block.line(f"{array}[n] = mask_bits;")

    def load(self, block: Block, number: str, buffer: str, own: str) -> list[str]:
        """Each mask (C) of an item, whose rows are group `own` (C), for block `number` (C) in a buffer (C)."""
        groups = self.rows.groups
        if not self.tables:
            return [f"there[{buffer} * {self._block_bytes} + {n * groups} + {own}]" for n in range(self.per_block)]
        masks = []
        for n in range(self.per_block):
            run = number if self.per_block == 1 else f"{number} * {self.per_block} + {n}"
            block.line(f"const int run{n} = {run};")
            index = delinearize(variable(f"run{n}", 0, self._count - 1) * self.terms, self.sizes)
            entries = [f"there{d}[{c_of(index[d] * groups)} + {own}]" for d, _ in self.tables]
            mask = " & ".join(entries)
            is_last = self.copy.k % self.copy.terms and n
            masks.append(f"run{n} < {self._count} ? {mask} : {self.full}" if is_last else mask)
        return masks


def _row(copy: OperandCopy) -> Index:
    return variable("row", 0, copy.size - 1)
