"""The end of the blocked matrix product (gemm.py): the fusion's outputs, evaluated from the sums of a panel.

The sums are stored unchanged by a function if they are the only output; column by column if the columns of the result
are apart in memory; otherwise row by row. Texts refer to the C variables that the product declares: `sums`, `j` (the
panel's number in the block), `first_row`, `rows`, `first_column`, `columns`, `g`.
"""

from __future__ import annotations

from math import prod

from ...analysis.index_expression import Index, linearize, variable
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of
from .blocking import Blocking
from .epilogue import store_outputs
from .packing import VECTORS, from_accumulation
from .packing_functions import SumsToColumns, SumsToRows
from .product import Product

TRANSPOSED_ROWS = 64  # whose sums are transposed at a time, if the result's columns are contiguous
LEAST_RUN = 4  # rows that are adjacent in memory, from which on sums are transposed


def least(a: str, b: str) -> str:
    """The lesser of two C expressions."""
    return f"({a} < {b} ? {a} : {b})"


class TileEpilogue:
    """Emits the evaluation of the outputs of a product with this blocking, for the group `g`."""

    def __init__(self, p: Product, b: Blocking, block: Block, e: ElementalIrEmitter, g: Index) -> None:
        self.p, self.b, self.tile = p, b, b.tile
        self.block, self.e, self.g = block, e, g
        self.early = ""  # C that adds the columns by which the last panel overlaps the previous one, if it may
        self.helpers: tuple[str, ...] = ()

    def emit(self) -> tuple[str, ...]:
        """Emits the evaluation of the outputs from the sums of panel j. Returns the texts of the functions it calls."""
        p, b, tile, block = self.p, self.b, self.tile, self.block
        element, _ = VECTORS[p.name]
        panel = f" + j * {b.rows * tile.columns}" if p.rows.blocks > 1 else ""
        block.line(f"const {element}* const sum = (const {element}*)sums{panel};")
        block.line(f"const int column = first_column + j * {tile.columns};")
        end = "first_column + columns" if b.triangle else str(p.n)
        block.line(f"const int width = {least(str(tile.columns), f'{end} - column')};")
        if b.panels == "direct" and p.n % tile.columns:
            block.line(f"const int early = column > {p.n - tile.columns} ? column - {p.n - tile.columns} : 0;")
            self.early = "early + "
        if not (self._stored() or self._stored_by_columns()):
            self._stored_by_rows()
        if b.triangle:
            self._mirror()
        return self.helpers

    def _stored_by_rows(self) -> None:
        """Emits the outputs of panel j, row by row."""
        p, tile, block = self.p, self.tile, self.block
        parts = 2 if p.whole else 1
        m, n = variable("m", 0, p.m - 1), variable("n", 0, p.n // parts - 1)
        width, first = ("width / 2", "column / 2") if p.whole else ("width", "column")
        with block.scope("for (int i = 0; i < rows; ++i)"):
            block.line("const int m = first_row + i;")
            with block.scope(f"for (int u = 0; u < {width}; ++u)"):
                block.line(f"const int n = {first} + u;")
                self._store_element(m, n, f"sum[{self.early}i * {tile.columns} + u")

    def _mirror(self) -> None:
        """Emits the outputs on the other side of the diagonal, from the sums of panel j to the left of the square where
        the block's rows and columns cross it; that square is computed as a whole."""
        p, block = self.p, self.block
        block.line(f"const int mirrored = {least('width', 'first_row - column')};")
        with block.scope("for (int u = 0; u < mirrored; ++u)"):
            block.line("const int m = column + u;")
            with block.scope("for (int i = 0; i < rows; ++i)"):
                block.line("const int n = first_row + i;")
                place = f"sum[{self.early}i * {self.tile.columns} + u"
                self._store_element(variable("m", 0, p.m - 1), variable("n", 0, p.n - 1), place)

    def _store_element(self, m: Index, n: Index, place: str) -> None:
        """Emits the outputs at row m and column n, from the sum at a place: C text of an element up to its bracket."""
        p, block, e, hero = self.p, self.block, self.e, hero_of(self.p.fusion)
        indices, condition = p.result(self.g, m, n)
        with block.scope("" if condition is True else f"if ({condition})"):
            if p.whole:
                pair = f"({scalar.register_type(p.whole)})({place} * 2], {place} * 2 + 1])"
                value = e.assign(p.whole, pair, block)
            else:
                value = from_accumulation(e, type_name(hero), p.name, f"{place}]", block)
            e.bind(hero, indices, value)
            store_outputs(p.fusion, e, indices, block)

    def _stored_by_columns(self) -> bool:
        """Emits the outputs of panel j column by column, from sums that are transposed some rows at a time. Returns
        False if it cannot: columns must be apart in the result, and some rows adjacent."""
        p, block, columns = self.p, self.block, self.tile.columns
        run = self._contiguous_rows()
        if run < LEAST_RUN:
            return False
        transposed = SumsToColumns(p.name, columns, False, TRANSPOSED_ROWS)
        self.helpers += (transposed.text(),)
        with block.scope(f"for (int i0 = 0; i0 < rows; i0 += {TRANSPOSED_ROWS})"):
            block.line(f"const int some = {least(str(TRANSPOSED_ROWS), 'rows - i0')};")
            block.line(f"{transposed.element} transposed[{TRANSPOSED_ROWS * columns}] __attribute__((aligned(64)));")
            block.line(transposed.call(f"sum + i0 * {columns}", "transposed", "some"))
            with block.scope("for (int i = 0, next; i < some; i = next)"):
                block.line(f"const int run = (first_row + i0 + i) / {run}, begin = (first_row + i0 + i) % {run};")
                block.line(f"next = {least('some', f'i + {run} - begin')};")
                with block.scope("for (int u = 0; u < width; ++u)"):
                    block.line("const int n = column + u;")
                    with block.scope("for (int r = 0; r < next - i; ++r)"):
                        block.line("const int row = begin + r;")
                        m = variable("run", 0, p.m // run - 1) * run + variable("row", 0, run - 1)
                        place = f"transposed[({self.early}u) * {TRANSPOSED_ROWS} + i + r"
                        self._store_element(m, variable("n", 0, p.n - 1), place)
        return True

    def _contiguous_rows(self) -> int:
        """How many rows, from each multiple of it on, are adjacent in the product's result, if columns are not;
        otherwise 0."""
        p, dimensions = self.p, hero_of(self.p.fusion).shape.dimensions
        if p.whole or p.name == "u64":
            return 0
        sizes = p.row_sizes or (p.m,)
        n = variable("n", 0, p.n - 1)
        for d in range(len(sizes)):
            run = prod(sizes[d:])
            m = variable("run", 0, p.m // run - 1) * run + variable("row", 0, run - 1)
            position = linearize(p.result(self.g, m, n)[0], dimensions)
            if position.factor("row") == 1:
                return run if position.factor("n") != 1 else 0
        return 0

    def _stored(self) -> bool:
        """Emits a call of the function that stores the sums of panel j unchanged. Returns False if it cannot: the
        product must be the fusion's only output, with rows that are contiguous in memory."""
        p, e, hero = self.p, self.e, hero_of(self.p.fusion)
        same = p.name == "f32" and type_name(hero) == "f32" or p.name == "f64"
        if list(p.fusion.outputs) != [hero] or p.whole or not same:
            return False
        indices, condition = p.result(self.g, variable("m", 0, p.m - 1), variable("n", 0, p.n - 1))
        everywhere = linearize(indices, hero.shape.dimensions)
        step = everywhere.factor("m")
        if condition is not True or step is None or everywhere.factor("n") != 1:
            return False
        at, _ = p.result(self.g, variable("first_row", 0, p.m - 1), variable("column", 0, p.n - 1))
        to = f"{e.output(hero)} + ({c_of(linearize(at, hero.shape.dimensions))})"
        copy = SumsToRows(p.name, self.tile.columns, to_global=True)
        self.helpers += (copy.text(),)
        self.block.line(copy.call(f"{self.early}sum", to, step, "rows", "width"))
        return True
