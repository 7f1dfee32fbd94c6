"""The blocked matrix product of dots and convolutions.

    result[g, m, n] = sum over k of left[g, m, k] * right[g, k, n]

A tile, some rows and columns of the result, stays in vector registers during the loop over k. The terms of an element
are added in the order of contraction_order.py, so the bits do not depend on the blocking. The levels around a tile are:

    item     a block of rows and columns of one g; its sums are in private memory
    block    a range of k whose part of `right` fits into the cache; the next block loads the sums again
    segment  a range of k whose sum starts at zero, and is added to the element's sum when it is complete; where a block
             may end within a segment, the sums of incomplete segments are in an array of their own (`open`)
    panel    as many columns of `right` as a tile has, side by side for each k, so that they load as vectors

A separate stage packs the panels (`packed`), or each item packs those that no other item needs (`local`), or the
product reads the right side in place (`direct`). A `Rows` provides the rows of the left side as pointers with a
constant step along k: the rows of a matrix for a dot, windows for a convolution. After the last block, the item
evaluates the fusion's outputs from its sums.

If a matrix is multiplied by its own transpose, so that the result is symmetric, items may compute only the elements up
to the diagonal (a `triangle`), and evaluate the outputs on both sides of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, variable
from ...device.description import LINE
from ...ir.plan import Argument, Kernel
from .. import work_items
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import input_argument, inputs_of, output_argument
from .blocking import Blocking, choose_blocking, columns_vary_first, reads_as_vectors
from .micro_kernel import SHARED_ROWS, SHARED_TERMS, TermLoop, Tiles
from .packing import VECTORS, direct_access, scratch_argument
from .panels import Panels, pack_stage, panel_elements
from .prepacked_constants import constant_value, panels_of, prepacked_argument
from .product import BlockRuns, Lines, OneRun, Product
from .tile import Tile
from .tile_epilogue import TileEpilogue, least
from .words import LeastExponent, is_exact


def kernels(p: Product) -> tuple[Kernel, ...]:
    """The kernels of a product: those that fill the scratch memory of either side, then the product itself."""
    b = choose_blocking(p)
    packed = b.panels == "packed" and not p.right_prepacked
    stages = [p.rows.stage(), pack_stage(p, b.tile.columns) if packed else None]
    return (*(s for s in stages if s is not None), _Main(p, b).kernel())


@dataclass(frozen=True)
class _Operands:
    """What a kernel reads and writes: its arguments, and their names in C by the values of the fusion.

    `left` and `right` are C pointers to the elements of either side, `right` in the address space `space` and with
    `right_step` elements between terms.
    """

    arguments: tuple[Argument, ...]
    pointers: dict[Instruction, str]
    left: str
    right: str
    space: str
    right_step: int

    @staticmethod
    def of(p: Product, b: Blocking) -> _Operands:
        """The operands of the product's kernel: inputs, outputs, then what stages or the plan have prepared."""
        fusion = p.fusion
        inputs = set(inputs_of(fusion, fusion.outputs, fusion.hero))
        left = None if p.rows.local else p.rows.pointer()
        inputs |= {left} if isinstance(left, Instruction) else set()
        inputs |= set(p.rows.local.inputs()) if p.rows.local else set()
        access = p.right_access() if b.panels == "direct" else None
        right_step = b.tile.columns
        if b.panels == "direct":
            step = None if access is None else access.position.factor("k")
            assert access is not None and step is not None  # direct rows are at a constant distance
            right_step = step
            inputs.add(access.instruction)
        elif b.panels == "local":
            inputs |= set(inputs_of(fusion, [p.right_operand]))
        reads = [i for i in fusion.inputs if i in inputs]
        pointers = {i: f"a{n}" for n, i in enumerate((*reads, *fusion.outputs))}
        arguments = [*map(input_argument, reads), *map(output_argument, fusion.outputs)]

        def pointer(argument: Argument) -> str:
            arguments.append(argument)
            return f"a{len(arguments) - 1}"

        if left is None:
            left_pointer = "strips"
        else:
            left_pointer = pointers[left] if isinstance(left, Instruction) else pointer(left)
        if access is not None:
            right_pointer = pointers[access.instruction]
        else:
            right_pointer = pointer(_right_panels(p, b.tile.columns)) if b.panels == "packed" else "panels"
        space = "" if b.panels == "local" else "__global "
        return _Operands(tuple(arguments), pointers, left_pointer, right_pointer, space, right_step)


def _right_panels(p: Product, width: int) -> Argument:
    """The argument with the panels: a constant, or scratch memory that a stage fills."""
    if not p.right_prepacked:
        return scratch_argument(p.fusion, "right", p.name, panel_elements(p, width))
    panels = panels_of(p.right_matrix(constant_value(p.fusion, p.right_operand, p.name)), width)
    return prepacked_argument(p.fusion, "right", panels)


class _Main:
    """Emits the kernel of a product, without the stages before it."""

    def __init__(self, p: Product, b: Blocking) -> None:
        self.p, self.b = p, b
        self.block = Block()
        self.operands = _Operands.of(p, b)
        self.e = ElementalIrEmitter(p.fusion, p.target, self.operands.pointers)
        self.g = variable("g", 0, p.groups - 1)
        self.helpers: tuple[str, ...] = ()
        self.prefetch_stride = self._prefetch_stride()
        self.closes = False  # whether segments end between blocks of k, not in a tile's loop

    @property
    def tile(self) -> Tile:
        return self.b.tile

    @property
    def panels(self) -> int:
        """Panels of the whole right side."""
        return -(-self.p.n // self.tile.columns)

    @property
    def item_panels(self) -> int:
        """Panels of a block of the result."""
        return self.b.columns // self.tile.columns

    @property
    def row_blocks(self) -> int:
        return -(-self.p.m // self.b.rows)

    @property
    def column_blocks(self) -> int:
        return -(-self.p.n // self.b.columns)

    def kernel(self) -> Kernel:
        p, b, block = self.p, self.b, self.block
        element, _ = VECTORS[p.name]
        block.line(f"typedef {self.tile.vector} __attribute__((aligned(sizeof({element})))) vector;  // at any address")
        blocks = p.groups * self.row_blocks * self.column_blocks
        # An item computes several blocks if they are small.
        work = b.rows * b.columns * p.k
        blocks_per_item = max(1, min(work_items.MULTIPLY_ADDS // max(1, work), blocks // (4 * p.target.compute_units)))
        if blocks_per_item == 1:
            self._block("item")
        else:
            n = blocks_per_item
            head = f"for (int number = item * {n}; number < item * {n} + {n} && number < {blocks}; ++number)"
            with block.scope(head):
                self._block("number")
        return Kernel(
            p.fusion.name,
            block.text(),
            self.operands.arguments,
            -(-blocks // blocks_per_item),
            wide_vectors=True,
            helpers=self.helpers,
            global_only=True,
        )

    def _block(self, number: str) -> None:
        """Emits block `number` (C) of the result: its place, the loop over k, and the epilogue."""
        p, b, block = self.p, self.b, self.block
        # The larger side is read only once.
        if columns_vary_first(p):
            row, column = f"{number} / {self.column_blocks} % {self.row_blocks}", f"{number} % {self.column_blocks}"
        else:
            row, column = f"{number} % {self.row_blocks}", f"{number} / {self.row_blocks} % {self.column_blocks}"
        if b.triangle:  # the longest rows first
            row = f"({self.row_blocks - 1} - {row})"
        block.line(f"const int first_row = {row} * {b.rows};")
        block.line(f"const int first_column = {column} * {b.columns};")
        block.line(f"const int g = {number} / {self.row_blocks * self.column_blocks};")
        block.line(f"const int rows = {least(str(b.rows), f'{p.m} - first_row')};")
        end = "first_row + rows" if b.triangle else str(p.n)
        block.line(f"const int columns = {least(str(b.columns), f'{end} - first_column')};")
        with block.scope("if (columns > 0)") if b.triangle else nullcontext():
            self._rows_of_block()

    def _rows_of_block(self) -> None:
        """Emits the loop over k of a block whose place is declared, and the epilogue."""
        p, b, tile, block = self.p, self.b, self.tile, self.block
        element, _ = VECTORS[p.name]
        live_panels = 1 if p.rows.blocks == 1 else self.item_panels  # those whose sums the next block of k needs
        vectors = live_panels * b.rows * tile.vectors
        block.line(f"{tile.vector} sums[{vectors}]{f', open[{vectors}]' if p.opens else ''};")
        if p.segment and p.rows.blocks > 1:
            zeroed = "open[n] = sums[n]" if p.opens else "sums[n]"
            block.line(f"for (int n = 0; n < {vectors}; ++n) {zeroed} = ({tile.vector})(0);")
        local_terms = min(p.rows.most_terms, p.k)
        if p.rows.local:
            block.line(
                f"{p.rows.element} strips[{p.rows.local.private_elements(b.rows)}] __attribute__((aligned(64)));"
            )
        if b.panels == "local":
            block.line(f"{element} panels[{b.columns * local_terms}] __attribute__((aligned(64)));")
        head = f"for (int part = 0; part < {p.rows.blocks}; ++part)" if p.rows.blocks > 1 else ""
        with block.scope(head):
            first, terms = p.rows.open_block(block, "part" if p.rows.blocks > 1 else "0")
            if p.segment:
                self._open_segment(first, terms)
            if b.panels == "local":
                self._pack_local(first, terms, local_terms)
            if self.prefetch_stride is not None:
                self._fetch(first, terms)
            if p.rows.local:
                self.helpers += p.rows.local.pack(block, self.e, b.rows, terms)
            lines = p.lines(self.operands.left) if p.rows.least_terms >= SHARED_ROWS else None
            if p.words and p.words.is_float:
                assert lines is not None  # or there were no such words
                self._left_exponent(lines, terms)
            count = f"(columns + {tile.columns - 1}) / {tile.columns}"
            with block.scope(f"for (int j = 0; j < {count}; ++j)"):
                self._declare_panel(first, local_terms)
                if p.segment and p.rows.blocks == 1:
                    block.line(f"for (int n = 0; n < {vectors}; ++n) sums[n] = ({tile.vector})(0);")
                if lines is not None:
                    self._tiles(lines, terms)
                else:
                    with block.scope(f"for (int i = 0; i < rows; i += {tile.rows})"):
                        self._tile(terms)
                if p.rows.blocks == 1:
                    self.helpers += TileEpilogue(p, b, block, self.e, self.g).emit()
            if self.closes:
                with block.scope(f"for (int n = 0; ends && n < {vectors}; ++n)"):
                    block.line("sums[n] = sums[n] + open[n];")
                    block.line(f"open[n] = ({tile.vector})(0);")
        if p.rows.blocks > 1:
            with block.scope(f"for (int j = 0; j < {count}; ++j)"):
                self.helpers += TileEpilogue(p, b, block, self.e, self.g).emit()

    def _open_segment(self, first: Index, terms: str) -> None:
        """Declares the position of a block of k relative to segments: `before`, the terms of its first segment that
        earlier blocks have added, and `ends`, whether a segment ends with the block, as the last one does."""
        p, block = self.p, self.block
        rest = p.segment - 1
        block.line(f"const int shift = {rest.bit_length()};")
        if not p.opens:
            block.line("const int before = 0, ends = 1;")
            return
        block.line(f"const int before = ({c_of(first)}) & {rest}, end_term = {c_of(first)} + {terms};")
        block.line(f"const int ends = end_term == {p.k} || (end_term & {rest}) == 0;")

    def _pack_local(self, first: Index, terms: str, most: int) -> None:
        width, block = self.tile.columns, self.block
        block.line(f"const int panel0 = first_column / {width};")
        panel0 = variable("panel0", 0, self.panels - 1)

        def place(panel: Index, t: Index) -> tuple[str, Index]:
            return "panels", (panel * most + t) * width

        panels, term_range = (panel0, "columns", self.item_panels), (first, terms, most)
        copy = Panels(self.p, width, self.e, self.operands.pointers, panels, term_range, place, to_global=False)
        self.helpers += copy.copy(block)

    def _prefetch_stride(self) -> int | None:
        """The distance between rows of the right side, in elements, if an item prefetches the next block of them while
        it computes; otherwise None. Without prefetches, an item that packs its own panels would wait for memory before
        it computes."""
        if self.b.panels != "local" or self.p.rows.blocks == 1 or self.p.rows.least_terms < SHARED_TERMS:
            return None
        access = self.p.right_access()
        return access.position.factor("k") if access is not None and reads_as_vectors(access) else None

    def _lines(self) -> int:
        """The binary logarithm, rounded up, of the number of cache lines that a row of the right side has in a block.
        Each tile of a block prefetches one line per term, in the order of memory."""
        return (-(-self.b.columns * self.tile.bytes // (self.tile.lanes * LINE)) - 1).bit_length()

    def _fetch(self, first: Index, terms: str) -> None:
        """Declares `ahead`, the start of the next block of the right side, and `fetched`, its number of cache lines."""
        p, block = self.p, self.block
        following = f"part + 1 < {p.rows.blocks}"
        block.line(f"const int next_term = {following} ? {c_of(first)} + {terms} : {c_of(first)};")
        at = p.right(self.g, variable("next_term", 0, p.k - 1), variable("first_column", 0, p.n - 1))
        access = direct_access(p.fusion, p.right_operand, at, p.name)
        assert access is not None  # or rows would not be prefetched
        element, _ = VECTORS[p.name]
        pointer = f"(__global const {element}*){self.operands.pointers[access.instruction]}"
        block.line(f"__global const {element}* const ahead = {pointer} + ({c_of(access.position)});")
        block.line(f"const int fetched = {following} ? ({terms}) << {self._lines()} : 0;")

    def _declare_panel(self, first: Index, local_terms: int) -> None:
        """Declares `b`, a pointer to the first row of panel j of the block."""
        p, tile, block = self.p, self.tile, self.block
        element, _ = VECTORS[p.name]
        j = variable("j", 0, self.item_panels - 1)
        if self.b.panels == "local":
            block.line(f"const {element}* const b = panels + {c_of(j * (local_terms * tile.columns))};")
            return
        if self.b.panels == "packed":
            panel = variable("first_column", 0, p.n - 1) // tile.columns + j
            position = ((self.g // p.shared * self.panels + panel) * p.k + first) * tile.columns
            block.line(f"__global const {element}* const b = {self.operands.right} + {c_of(position)};")
            return
        # The last panel begins early, so that it ends with the rows.
        block.line(f"const int n = {least(f'first_column + j * {tile.columns}', str(p.n - tile.columns))};")
        at = p.right(self.g, first, variable("n", 0, p.n - 1))
        access = direct_access(p.fusion, p.right_operand, at, p.name)
        assert access is not None  # or panels would not be direct
        pointer = f"(__global const {element}*){self.operands.right} + ({c_of(access.position)})"
        block.line(f"__global const {element}* const b = {pointer};")

    def _loop(self) -> TermLoop:
        p, tile = self.p, self.tile
        spaces = ("" if p.rows.local else "__global ", self.operands.space)
        steps, fetches = (p.rows.step, self.operands.right_step), self.prefetch_stride is not None
        return TermLoop(tile, VECTORS[tile.name][0], p.rows.element, steps, spaces, fetches, p.segment > 0)

    def _left_exponent(self, lines: Lines, terms: str) -> None:
        """Declares the least exponent of the block's rows of words of floats."""
        find = LeastExponent("__global ")
        self.helpers += (find.text(),)
        left, rows, strip = lines.left, "rows", lines.strip
        if strip:
            left = f"{left} + {lines.first} / {strip} * {lines.row}l"
            rows = f"({lines.first} + rows + {strip - 1}) / {strip} - {lines.first} / {strip}"
        find.call(self.block, "left_exponent", left, rows, lines.row, f"{terms} * {strip}" if strip else terms)

    def _tiles(self, lines: Lines, terms: str) -> None:
        """Emits a call of the function that computes all tiles of panel j, which products share; of two such functions,
        where the processor's own sums of floats may not be exact."""
        p, block, tile, loop = self.p, self.block, self.tile, self._loop()
        if not (p.words and p.words.is_float):
            return self._call_tiles(loop, lines, terms)
        find = LeastExponent(self.operands.space)
        self.helpers += (find.text(),)
        find.call(block, "right_exponent", "b", "1", 0, f"{terms} * {tile.columns}")
        with block.scope(f"if ({is_exact('left_exponent', 'right_exponent')})"):
            self._call_tiles(loop, lines, terms)
        # A smaller tile, which takes less time to compile.
        rows = next(r for r in (2, 3, tile.rows) if tile.rows % r == 0)
        unpacked = replace(tile, rows=rows, words=replace(p.words, unpacked=True))
        with block.scope("else"):
            self._call_tiles(replace(loop, tile=unpacked), lines, terms)

    def _call_tiles(self, loop: TermLoop, lines: Lines, terms: str) -> None:
        p, b, tile = self.p, self.b, self.tile
        tiles = Tiles(loop, lines.strip)
        self.helpers += (tiles.text(),)
        several = p.rows.blocks > 1
        panel = f" + j * {b.rows * tile.vectors}" if several else ""
        rest = [f"before, shift, ends, {'open' if p.opens else 'sums'}{panel}"] if p.segment else []
        if self.prefetch_stride is not None:
            start = f"j * {-(-b.rows // tile.rows) * p.rows.most_terms}"
            rest.append(f"ahead, {self.prefetch_stride}, {self._lines()}, {start}, {p.rows.most_terms}, fetched")
        fresh, (left, row, first) = "part == 0" if several else "1", (lines.left, lines.row, lines.first)
        self.block.line(tiles.call(left, row, first, "rows", "b", terms, fresh, f"sums{panel}", ", ".join(rest)))

    def _tile(self, terms: str) -> None:
        """Emits the computation of the tile at row i of panel j: a loop over k, or a call of a shared function."""
        p, tile, block = self.p, self.tile, self.block
        loop = self._loop()
        runs = p.rows.runs(loop)
        within = p.opens and p.segment % p.rows.alignment == 0 and p.rows.most_terms <= p.rows.alignment
        across = p.segment > 0 and not within  # blocks may lie in two segments
        if not isinstance(runs, OneRun) or p.rows.least_terms >= SHARED_TERMS or across:
            return self._shared_tile(loop, runs, terms)
        panel = f"j * {self.b.rows * tile.vectors} + " if p.rows.blocks > 1 else ""
        self.closes = p.segment > 0
        places = tile.places("open" if self.closes else "sums", f"{panel}i * {tile.vectors}")
        tile.open_offsets(block, self._right_vector("{v}"), runs.terms)
        for c, place in places.items():
            start = f"part == 0 ? ({tile.vector})(0) : {place}" if p.rows.blocks > 1 else f"({tile.vector})(0)"
            block.line(tile.start(c, place if self.closes else start))
        first = variable("first_row", 0, p.m - 1) + variable("i", 0, self.b.rows - 1)
        p.rows.open_tile(block, self.operands.left, first, tile.rows)
        self._run(runs.pointers, runs.terms)
        for c, place in places.items():
            block.line(f"{place} = {c};")

    def _shared_tile(self, loop: TermLoop, runs: BlockRuns | OneRun, block_terms: str) -> None:
        """Emits the computation of one tile as a call of a function that products share."""
        p, tile, block = self.p, self.tile, self.block
        panel = f"j * {self.b.rows * tile.vectors} + " if p.rows.blocks > 1 else ""
        block.line(f"{tile.vector}* const tile = sums + {panel}i * {tile.vectors};")
        if p.segment:
            sums = "open" if p.opens else "sums"
            block.line(f"{tile.vector}* const open_tile = {sums} + {panel}i * {tile.vectors};")
        first = variable("first_row", 0, p.m - 1) + variable("i", 0, self.b.rows - 1)
        if self.prefetch_stride is not None:
            number = f"(j * {-(-self.b.rows // tile.rows)} + i / {tile.rows})"
            block.line(f"const int begin = {number} * {p.rows.most_terms}, lines = {self._lines()};")
            block.line(f"const int apart = begin < fetched ? {self.prefetch_stride} : 0;")
        if not isinstance(runs, OneRun):
            self.helpers += (runs.text(),)
            p.rows.open_tile(block, self.operands.left, first, tile.rows)
            fresh = "part == 0" if p.rows.blocks > 1 else "1"
            block.line(runs.call("b", block_terms if p.segment else fresh))
            return
        self.helpers += (loop.text(),)
        if not p.segment:
            with block.scope("if (part == 0)" if p.rows.blocks > 1 else ""):
                block.line(f"for (int n = 0; n < {tile.rows * tile.vectors}; ++n) tile[n] = ({tile.vector})(0);")
        p.rows.open_tile(block, self.operands.left, first, tile.rows)
        block.line(loop.call(runs.pointers, "b", runs.terms))

    def _run(self, pointers: Sequence[str], terms: str) -> None:
        """Emits the loop over `terms` terms of k, which adds to the sums c{row}_{vector} of the tile."""
        tile, block, step = self.tile, self.block, self.p.rows.step
        element, _ = VECTORS[tile.name]
        with block.scope():
            for i, pointer in enumerate(pointers):
                space = "" if self.p.rows.local else "__global "
                block.line(f"{space}const {self.p.rows.element}* const p{i} = {pointer};")
            with block.scope(f"for (int k = 0; k < {terms}; ++k)"):
                for v in range(tile.vectors):
                    block.line(f"const {tile.vector} b{v} = {self._right_vector(str(v))};")
                for i in range(tile.rows):
                    index = self._along("k", step)
                    block.line(f"const {tile.vector} x{i} = ({tile.vector})(({element})p{i}[{index}]);")
                    for v in range(tile.vectors):
                        c = f"c{i}_{v}"
                        block.line(f"{c} = {tile.multiply_add(f'x{i}', f'b{v}', c)};")

    def _right_vector(self, vector: str) -> str:
        """The C lvalue of a vector of the panel's row at term k."""
        place = f"b + {self._along('k', self.operands.right_step)} + {vector} * {self.tile.lanes}"
        return f"*({self.operands.space}const vector*)({place})"

    def _along(self, terms: str, step: int) -> str:
        """The distance of a term from the one `terms` later, in elements, if terms are `step` apart."""
        if step == 1:
            return terms
        wide = "(long)" if abs(step) * self.p.k >= 2**31 else ""
        return f"{wide}{terms} * {step}"
