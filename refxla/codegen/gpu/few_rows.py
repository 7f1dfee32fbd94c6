"""Matrix products of few rows, or few columns, for GPUs: decode steps, and layers of small batches.

Such a product takes as long as reading its large operand. Each element of that is read once, by the item that has all
rows of its column. The rows' elements are in local memory, from which all items read the same ones, four rows at a
time. If the columns of a term are contiguous, an item loads its own columns directly to registers, some terms ahead. If
the terms of a column are contiguous, a work-group copies blocks to local memory, in which they are also contiguous: an
item reads four terms of its column at a time.

Sums are added as in gemm.py, and so is a product with few columns, whose operands change places. Work-groups share the
segments of a sum if there are too few of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import variable
from ...ir.plan import Kernel
from ..sums import multiply_add
from .gemm import MatrixProduct, TiledProduct, segments_added
from .operand_copy import WIDTHS
from .tiles import MOST_SPLIT_BYTES, Split, WorkGroupTile
from .vector_access import ACCESS_BYTES
from .work_groups import group_size

ROWS = (1, 2, 4, 8, 16)  # of an item: the first that suffices
MOST_SUMS = 32  # of an item
AHEAD_BYTES = 128  # of the large operand, in the registers of an item
MOST_ROW_ELEMENTS = 128  # of the rows, in unrolled statements: compilers for AMD load all of them to registers first
STAGED_TERMS = 16  # of a block in local memory
GROUPS_PER_UNIT = 2  # work-groups of a compute unit that keep enough loads in flight
FILLED = 0.75  # of compute units with work, and of items with columns, that is enough


def kernels(p: MatrixProduct) -> tuple[Kernel, ...] | None:
    """The kernel of a product of few rows or columns, or two; None if tiles suit it better."""
    if p.m > ROWS[-1]:
        p = _transposed(p)
    group = group_size(p.target)
    if p.m > ROWS[-1] or p.n < group:
        return None
    options = list(_options(p, next(rows for rows in ROWS if rows >= p.m), group))
    if not options:
        return None
    best = max(options, key=lambda option: option.filled)  # the first of equal ones, with the widest loads
    if 2 * best.most_groups < p.target.compute_units:
        return None
    product = best.kernel()
    return (product,) if best.split.parts == 1 else (product, segments_added(p))


def _transposed(p: MatrixProduct) -> MatrixProduct:
    """The same product, with its columns as rows."""
    return replace(
        p, m=p.n, n=p.m, left_operand=p.right_operand, right_operand=p.left_operand,
        left=lambda g, m, k: p.right(g, k, m), right=lambda g, k, n: p.left(g, n, k),
        result=lambda g, m, n: p.result(g, n, m),
    )  # fmt: skip


def _options(p: MatrixProduct, rows: int, group: int) -> Iterator[_FewRows]:
    """The ways to read the large operand, the widest first."""
    items: list[_FewRows] = []
    for width in (*WIDTHS, 1):
        if rows * width <= MOST_SUMS and width * p.element_bytes <= ACCESS_BYTES:
            terms = min(AHEAD_BYTES // (width * p.element_bytes), MOST_ROW_ELEMENTS // rows)
            items.append(_Direct(p, _split(p, WorkGroupTile(rows, group * width, terms, rows, width))))
    # Fewer items, so that local memory has room for runs that fill the sectors of memory.
    items.append(_StagedProduct(p, _split(p, WorkGroupTile(rows, group // 2, STAGED_TERMS, rows, 1))))
    return (item for item in items if item.is_possible())


def _split(p: MatrixProduct, tile: WorkGroupTile) -> Split:
    """The largest parts of sums of which there are enough work-groups."""
    count = p.segments if p.segment else 1
    tiles = p.groups * -(-p.n // tile.columns)
    share = count  # segments of a part
    fits = count * p.groups * p.m * p.n * p.element_bytes <= MOST_SPLIT_BYTES
    while fits and share > 1 and tiles * -(-count // share) < GROUPS_PER_UNIT * p.target.compute_units:
        share = -(-share // 2)
    return Split(tile, -(-count // share), share)


class _FewRows(TiledProduct):
    """Emits the kernel of a product in which an item has all rows of a few columns."""

    @property
    def most_groups(self) -> int:
        """The work-groups if all segments of the sums are shared out."""
        return self.tiles * (self.p.segments if self.segment else 1)

    @property
    def filled(self) -> float:
        """The part of the GPU that has work; 1 if that is enough."""
        units = self.most_groups / self.p.target.compute_units
        items = self.p.n / (self.column_tiles * self.tile.columns)
        return min(1.0, units / FILLED) * min(1.0, items / FILLED)

    def is_possible(self) -> bool:
        """Whether the large operand can be read in this way, and local memory suffices."""
        bytes = sum(2 * copy.block_elements * self.p.element_bytes for copy in self.in_local)
        return self._reads_runs() and bytes <= self.p.target.local_bytes

    def _reads_runs(self) -> bool:
        """Whether adjacent items read adjacent elements of the large operand."""
        raise NotImplementedError


class _Direct(_FewRows):
    """The columns of a term are contiguous: an item's own are in its registers, as many terms as a block has."""

    def __init__(self, p: MatrixProduct, split: Split) -> None:
        super().__init__(p, split)
        self.right = self.right.reading(along_terms=False, width=split.tile.item_columns)
        self.in_local = [self.left]

    def _reads_runs(self) -> bool:
        copy = self.right
        if copy.width > 1:
            return copy.has_vectors(copy.along_terms, copy.width)
        pattern = AccessPattern(copy.fusion)
        pattern.value(copy.operand, copy.element(variable("i", 0, copy.size - 1), variable("k", 0, copy.k - 1)))
        return any(a.position.factor("i") == 1 for a in pattern.accesses)

    def _first_block(self, number: str) -> None:
        super()._first_block(number)
        self.right.fetch(self.e, self.block, self._block_number(number), self._tile(self.right))

    def _multiply_terms(self, mask: str = "") -> None:
        """The terms of a block. Where a term has been used, that of the next block is loaded."""
        block, tile = self.block, self.tile
        for k in range(tile.terms):
            with block.scope(""):
                block.line(f"const int k = {k};")
                self._quads("row", self.left, "y", tile.item_rows, self.row_quad)
                parts = [f".s{j}" for j in range(tile.item_columns)] if tile.item_columns > 1 else [""]
                own = ", ".join(f"right_staged[{k}]{part}" for part in parts)
                block.line(f"const {self.c_type} column[{tile.item_columns}] = {{{own}}};")
                with self._each("i", tile.item_rows), self._each("j", tile.item_columns):
                    block.line(f"sum[i][j] = {multiply_add(self.p.name, 'sum[i][j]', 'row[i]', 'column[j]')};")
                self.right.fetch_slot(self.e, block, k, self._block_number("next"), self._tile(self.right))


class _StagedProduct(_FewRows):
    """The terms of a column are contiguous: blocks of both operands are in local memory."""

    def __init__(self, p: MatrixProduct, split: Split) -> None:
        super().__init__(p, split)
        self.right = replace(self.right, by_line=True).reading(along_terms=True, width=self.quad)
        self.in_local = [self.left, self.right]

    def _reads_runs(self) -> bool:
        return self.right.has_vectors(True, self.quad)

    def _multiply_terms(self, mask: str = "") -> None:
        """The terms of a block, a vector of an item's column at a time."""
        block, tile, quad, right = self.block, self.tile, self.quad, self.right
        vector = f"{self.c_type}{quad}"
        block.line(f"#pragma unroll {max(1, MOST_ROW_ELEMENTS // (tile.item_rows * quad))}")
        with block.scope(f"for (int q = 0; q < {tile.terms // quad}; ++q)"):
            place = f"right_block + x * {right.pitch} + q * {quad}"
            block.line(f"const {vector} terms = *(__local const {vector}*)({place});")
            block.line(f"const {self.c_type} column[{quad}] = {{{', '.join(f'terms.s{j}' for j in range(quad))}}};")
            with self._each("u", quad):
                block.line(f"const int k = q * {quad} + u;")
                self._quads("row", self.left, "y", tile.item_rows, self.row_quad)
                with self._each("i", tile.item_rows):
                    block.line(f"sum[i][0] = {multiply_add(self.p.name, 'sum[i][0]', 'row[i]', 'column[u]')};")
