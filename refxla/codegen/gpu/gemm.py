"""The tiled matrix product for GPUs.

    result[g, m, n] = sum over k of left[g, m, k] * right[g, k, n]

A work-group computes a tile of the result (tiles.py). While its items multiply a block of the operands in local memory,
the next block is being loaded into their registers; then it is stored to the other of two buffers in local memory, with
one barrier for each block. Each element belongs to one item, which adds its terms in the order of contraction_order.py:
one chain, or segments whose sums are added in order. So the bits are those of a CPU.

If tiles are few and sums long, the segments of a tile are distributed over several work-groups. They store the sum of
each segment in scratch memory, and a second kernel adds them in order:

    scratch[segment, g, m, n]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import gcd

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern
from ...analysis.contraction_order import segment_terms
from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...analysis.index_maps import Condition
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of, c_of_conditions
from ..kernel_arguments import hero_of, input_argument, inputs_of, output_argument
from ..products.epilogue import store_outputs
from ..products.packing import VECTORS, from_accumulation
from ..sums import multiply_add
from .operand_copy import Element, OperandCopy
from .term_masks import ItemRows, TermMasks
from .tiles import QUAD, Split, choose
from .vector_access import ACCESS_BYTES, VectorAccesses
from .work_groups import BARRIER, LocalMemory, each_unit, kernel_of_units

Indices = tuple[Index, ...]

# Compilers for AMD's GPUs unroll a loop over few blocks, load the blocks of all iterations first, and spill registers.
ROLLED = "#pragma unroll 1"
SEGMENTS_AT_A_TIME = 32  # whose sums an item loads together
MASKED_AT_A_TIME = 4  # terms of a block with masks, which is rare: more would need registers


@dataclass(frozen=True)
class MatrixProduct:
    """A contraction as a matrix product, for each of `groups`; `name` is the accumulation type. `left(g, m, k)`,
    `right(g, k, n)` and `result(g, m, n)` give the indices of the operands and of the hero; `left_exists(g, m, k)` the
    conditions under which there is that element of the left side, without which the term is left out. `term_sizes` are
    those of the indices that k consists of, if it consists of several."""

    fusion: Fusion
    target: Target
    name: str
    groups: int
    m: int
    n: int
    k: int
    left_operand: Instruction
    right_operand: Instruction
    left: Callable[[Index, Index, Index], Indices]
    right: Callable[[Index, Index, Index], Indices]
    result: Callable[[Index, Index, Index], Indices]
    left_exists: Callable[[Index, Index, Index], Sequence[Condition]] = lambda g, m, k: ()
    term_sizes: tuple[int, ...] = ()

    @property
    def element_bytes(self) -> int:
        """The size of an accumulator, in bytes."""
        return 32 // VECTORS[self.name][1]

    @property
    def segment(self) -> int:
        """The terms of a segment of a sum; 0 where all terms are one chain."""
        return segment_terms(self.k, self.name)

    @property
    def segments(self) -> int:
        """The segments of a sum that has some."""
        return -(-self.k // self.segment)


def kernels(p: MatrixProduct) -> tuple[Kernel, ...]:
    """The kernel of a product, or two, with its producers and consumers."""
    product = tiled(p)
    return (product.kernel(),) if product.split.parts == 1 else (product.kernel(), segments_added(p))


def tiled(p: MatrixProduct) -> TiledProduct:
    """A product in the tiles that take the least time."""
    any_term = [variable(name, 0, count - 1) for name, count in (("g", p.groups), ("i", p.m), ("k", p.k))]
    masked = c_of_conditions(p.left_exists(*any_term)) is not True
    return TiledProduct(p, choose(p.groups, p.m, p.n, p.k, p.segment, p.target, p.element_bytes, masked))


class TiledProduct:
    """Emits the kernel of a product in tiles."""

    def __init__(self, p: MatrixProduct, split: Split) -> None:
        tile = split.tile
        self.p, self.split, self.tile, self.block = p, split, tile, Block()
        self.c_type = VECTORS[p.name][0]
        self.quad = min(QUAD, ACCESS_BYTES // p.element_bytes)
        self.row_quad, self.column_quad = min(self.quad, tile.item_rows), min(self.quad, tile.item_columns)
        self.segment = p.segment
        self.blocks = -(-p.k // tile.terms)
        self.row_tiles, self.column_tiles = -(-p.m // tile.rows), -(-p.n // tile.columns)
        self.tiles = p.groups * self.row_tiles * self.column_tiles
        self.g = variable("g", 0, p.groups - 1)
        # A term that does not exist adds -0, which changes no sum.
        signs = ("-0.0", "0.0") if p.name[0] == "f" else ("0", "0")
        self.left = self._operand("left", p.left_operand, lambda i, k: p.left(self.g, i, k), tile.rows, p.m, signs[0])
        self.left = replace(self.left, exists=lambda i, k: p.left_exists(self.g, i, k)).chosen()
        self.right = self._operand(
            "right", p.right_operand, lambda i, k: p.right(self.g, k, i), tile.columns, p.n, signs[1]
        ).chosen()
        self.in_local = [self.left, self.right]  # operands of which blocks are in local memory
        rows = ItemRows(tile.item_rows, self.row_quad, tile.rows)
        self.masks = TermMasks.of(self.left, rows, p.term_sizes or (p.k,))
        fusion = p.fusion
        reads = set(inputs_of(fusion, [p.left_operand, p.right_operand]))
        outputs: Sequence[Instruction] = ()
        if split.parts == 1:
            outputs = fusion.outputs
            reads.update(inputs_of(fusion, outputs, fusion.hero))
        self.inputs = [i for i in fusion.inputs if i in reads]
        pointers = {i: f"a{n}" for n, i in enumerate((*self.inputs, *outputs))}
        self.e = ElementalIrEmitter(fusion, p.target, pointers)

    def _operand(
        self, prefix: str, operand: Instruction, element: Element, lines: int, size: int, padding: str
    ) -> OperandCopy:
        p, tile = self.p, self.tile
        number = f"({self.c_type})({padding})"
        along = next((s for s in reversed(p.term_sizes) if s > 1), p.k)  # terms that differ in the last index alone
        return OperandCopy(
            p.fusion, operand, element, p.name, number, lines, size, tile.terms, p.k, tile.group, prefix,
            run=gcd(along, tile.terms),
        )  # fmt: skip

    def kernel(self) -> Kernel:
        """The kernel."""
        p, split, tile, block, local = self.p, self.split, self.tile, self.block, LocalMemory()
        counts = (split.parts, p.groups, self.row_tiles, self.column_tiles)
        part, g, row, column = delinearize(variable("group", 0, split.parts * self.tiles - 1), counts)
        block.line(f"const int g = {c_of(g)}, row_tile = {c_of(row)}, column_tile = {c_of(column)};")
        block.line(f"const int first_row = row_tile * {tile.rows}, first_column = column_tile * {tile.columns};")
        across = tile.columns // tile.item_columns
        block.line(f"const int x = item % {across} * {self.column_quad}, y = item / {across} * {self.row_quad};")
        local.declare(block, "blocks", self.c_type, p.element_bytes, 2 * self._buffer_elements)
        for copy in (self.left, self.right):
            copy.declare(block)
        if self.masks:
            self.masks.declare(block, local)
        self._declare_sums("sum")
        block.line("int buffer = 0;")
        first = "0"
        if split.parts > 1:
            blocks = split.segments * self.segment // tile.terms  # of a part
            block.line(f"const int part = {c_of(part)}, begin = part * {blocks};")
            block.line(f"const int beyond = begin + {blocks} < {self.blocks} ? begin + {blocks} : {self.blocks};")
            first = "begin"
        elif self.segment:
            self._declare_sums("total")
        self._first_block(first)
        if self.masks:
            self.masks.store_first(block, first)
        block.line(BARRIER)
        if self.masks and self.masks.tables:
            self._load_masks(self.masks, first, "0", "int here")
        self._loop_over_blocks()
        arguments = [*map(input_argument, self.inputs)]
        name = p.fusion.name
        if split.parts > 1:
            arguments.append(scratch_argument(p))
            name += ".segments"
        else:
            self._epilogue()
            arguments += map(output_argument, p.fusion.outputs)
        items = split.parts * self.tiles * tile.group
        return Kernel(name, block.text(), tuple(arguments), items, work_group=tile.group, local_bytes=local.bytes)

    def _declare_sums(self, name: str) -> None:
        """The array of an item's sums, of zeros."""
        self.block.line(f"{self.c_type} {name}[{self.tile.item_rows}][{self.tile.item_columns}];")
        with self._each("i", self.tile.item_rows), self._each("j", self.tile.item_columns):
            self.block.line(f"{name}[i][j] = 0;")

    def _each(self, name: str, count: int, at_a_time: int = 0) -> ExitStack:
        """A loop that is unrolled, so many iterations at a time, or all of them."""
        scopes = ExitStack()
        self.block.line(f"#pragma unroll {at_a_time}" if at_a_time else "#pragma unroll")
        scopes.enter_context(self.block.scope(f"for (int {name} = 0; {name} < {count}; ++{name})"))
        return scopes

    def _first_block(self, number: str) -> None:
        """Copies the first block, with that number (C), to local memory."""
        self._fetch(self._block_number(number))
        self._store_fetched("buffer")

    def _block_number(self, number: str) -> Index:
        """The number of a block that is a C variable, or 0."""
        return constant(0) if number == "0" else variable(number, 0, self.blocks - 1)

    def _tile(self, copy: OperandCopy) -> Index:
        """The number of the work-group's tile among the lines of an operand."""
        name, tiles = ("row_tile", self.row_tiles) if copy is self.left else ("column_tile", self.column_tiles)
        return variable(name, 0, tiles - 1)

    @property
    def _buffer_elements(self) -> int:
        """The elements of local memory for a block of each operand."""
        return sum(copy.block_elements for copy in self.in_local)

    def _in_buffer(self, copy: OperandCopy, buffer: str) -> str:
        """The place of an operand's block (C) in the buffer that begins at element `buffer` (C)."""
        before = sum(c.block_elements for c in self.in_local[: self.in_local.index(copy)])
        return f"blocks + {buffer}{f' + {before}' if before else ''}"

    def _fetch(self, number: Index) -> None:
        """Loads block `number` of each operand."""
        for copy in self.in_local:
            copy.fetch(self.e, self.block, number, self._tile(copy))

    def _store_fetched(self, buffer: str) -> None:
        """Stores the loaded blocks to a buffer (C)."""
        for copy in self.in_local:
            copy.store(self.e, self.block, self._in_buffer(copy, buffer))

    def _loop_over_blocks(self) -> None:
        """All blocks of terms, segment by segment if sums have several."""
        block, each = self.block, self.segment // self.tile.terms
        begin, beyond = ("0", str(self.blocks)) if self.split.parts == 1 else ("begin", "beyond")
        if not self.segment:
            block.line(ROLLED)
            with block.scope(f"for (int t = 0; t < {beyond}; ++t)"):
                self._multiply_block(beyond)
            return
        with block.scope(f"for (int first = {begin}; first < {beyond}; first += {each})"):
            block.line(f"const int end = first + {each} < {beyond} ? first + {each} : {beyond};")
            block.line(ROLLED)
            with block.scope("for (int t = first; t < end; ++t)"):
                self._multiply_block(beyond)
            if self.split.parts > 1:
                self._store_segment(f"first / {each}")
            with self._each("i", self.tile.item_rows), self._each("j", self.tile.item_columns):
                if self.split.parts == 1:
                    block.line("total[i][j] += sum[i][j];")
                block.line("sum[i][j] = 0;")

    def _multiply_block(self, beyond: str) -> None:
        """Multiplies block t while the next one is loaded."""
        block = self.block
        block.line(f"const int next = t + 1 < {beyond} ? t + 1 : t;")
        # The loads are apart from the multiplications (if there are masks, by conditions of their own). Otherwise
        # compilers for AMD's GPUs move all loads from local memory to the beginning, and spill registers.
        with block.scope(f"if (t + 1 < {beyond})" if self.masks is None else ""):
            self._fetch(self._block_number("next"))
        for copy in self.in_local:
            place = self._in_buffer(copy, "buffer")
            block.line(f"__local const {self.c_type}* const {copy.prefix}_block = {place};")
        if self.masks is None:
            self._multiply_terms()
        else:
            self._multiply_masked(self.masks)
        block.line(f"buffer = {self._buffer_elements} - buffer;")
        self._store_fetched("buffer")
        block.line(BARRIER)

    def _multiply_terms(self, mask: str = "") -> None:
        """The terms of a block, each of the rows under the C condition `mask`."""
        block, tile = self.block, self.tile
        with self._each("k", tile.terms, MASKED_AT_A_TIME if mask else 0):
            self._quads("row", self.left, "y", tile.item_rows, self.row_quad)
            self._quads("column", self.right, "x", tile.item_columns, self.column_quad)
            with self._each("i", tile.item_rows), block.scope(f"if ({mask})" if mask else ""):
                with self._each("j", tile.item_columns):
                    block.line(f"sum[i][j] = {multiply_add(self.p.name, 'sum[i][j]', 'row[i]', 'column[j]')};")

    def _load_masks(self, masks: TermMasks, number: str, buffer: str, name: str) -> None:
        """Declares the array `name` (C) of an item's masks for block `number` (C)."""
        own = f"item / {self.tile.columns // self.tile.item_columns}"
        values = masks.load(self.block, number, buffer, own)
        self.block.line(f"{name}[{len(values)}] = {{{', '.join(values)}}};")

    def _multiply_masked(self, masks: TermMasks) -> None:
        """The terms of a block if some rows leave some out."""
        block, count = self.block, masks.per_block
        if masks.tables:
            self._load_masks(masks, "next", "(buffer == 0)", "const int next_here")
        else:
            masks.store_next(block, "next", "(buffer == 0)")
            self._load_masks(masks, "t", "(buffer > 0)", "const int here")
        with block.scope(f"if (({' & '.join(f'here[{n}]' for n in range(count))}) == {masks.full})"):
            self._multiply_terms()
        with block.scope("else"):
            self._multiply_terms(f"here[k / {masks.terms}] >> i & 1")
        if masks.tables:
            for n in range(count):
                block.line(f"here[{n}] = next_here[{n}];")

    def _quads(self, name: str, copy: OperandCopy, offset: str, count: int, quad: int) -> None:
        """Loads an item's lines of term k as quads."""
        vector = self.c_type + (str(quad) if quad > 1 else "")
        parts = count // quad
        elements = []
        for n in range(parts):
            place = f"{copy.prefix}_block + k * {copy.pitch} + {offset} + {n * copy.lines // parts}"
            self.block.line(f"const {vector} {name}{n} = *(__local const {vector}*)({place});")
            elements += [f"{name}{n}.s{j}" for j in range(quad)] if quad > 1 else [f"{name}{n}"]
        self.block.line(f"const {self.c_type} {name}[{count}] = {{{', '.join(elements)}}};")

    @contextmanager
    def _each_quad(self) -> Iterator[None]:
        """The statements for each quad of an item's elements, which is in row `m` of the result, from column `n` on:
        elements `i`, `u * quad ...` of its sums."""
        p, tile, block, quad = self.p, self.tile, self.block, self.column_quad
        row_parts, column_parts = tile.item_rows // self.row_quad, tile.item_columns // quad
        with self._each("i", tile.item_rows):
            line = f"i / {self.row_quad} * {tile.rows // row_parts} + i % {self.row_quad}"
            block.line(f"const int m = first_row + y + {line};")
            with block.scope(f"if (m < {p.m})" if p.m % tile.rows else ""), self._each("u", column_parts):
                block.line(f"const int n = first_column + x + u * {tile.columns // column_parts};")
                yield

    def _column(self, j: str) -> str:
        """The number of element `j` (C) of a quad among an item's columns."""
        return f"u * {self.column_quad} + {j}" if self.column_quad > 1 else "u"

    def _store_segment(self, number: str) -> None:
        """Writes an item's sums of the segment with that number (C) to the scratch memory."""
        p, quad, block = self.p, self.column_quad, self.block
        scratch = f"a{len(self.inputs)}"
        with self._each_quad():
            block.line(f"const int place = (({number} * {p.groups} + g) * {p.m} + m) * {p.n} + n;")
            if quad > 1 and p.n % quad == 0:
                with block.scope(f"if (n < {p.n})" if p.n % self.tile.columns else ""):
                    values = ", ".join(f"sum[i][{self._column(str(j))}]" for j in range(quad))
                    vector = f"{self.c_type}{quad}"
                    block.line(f"*(__global {vector}*)({scratch} + place) = ({vector})({values});")
            else:
                with self._each("j", quad), block.scope(f"if (n + j < {p.n})"):
                    block.line(f"{scratch}[place + j] = sum[i][{self._column('j')}];")

    def _epilogue(self) -> None:
        """Evaluates the fusion's outputs from the sums of an item, a quad of a row at a time."""
        p, tile, block, e, quad = self.p, self.tile, self.block, self.e, self.column_quad
        hero = hero_of(p.fusion)
        quads = p.n % quad == 0
        with self._each_quad():
            m, element = variable("m", 0, p.m - 1), variable("j", 0, quad - 1)
            if quads:
                with block.scope(f"if (n < {p.n})" if p.n % tile.columns else ""):
                    block.line(f"const int q = n / {quad};")
                    at = p.result(self.g, m, variable("q", 0, p.n // quad - 1) * quad + element)
                    pattern = self._pattern(at)
                    with VectorAccesses.of(pattern, "j", quad).loop(e, block, pattern):
                        self._store(hero, at)
            else:
                with self._each("j", quad):
                    block.line("const int column = n + j;")
                    with block.scope(f"if (column < {p.n})"):
                        self._store(hero, p.result(self.g, m, variable("column", 0, p.n - 1)))

    def _pattern(self, at: Indices) -> AccessPattern:
        """The loads and stores for an element of the product."""
        fusion, hero = self.p.fusion, hero_of(self.p.fusion)
        pattern = AccessPattern(fusion)
        pattern.bind(hero, at)
        for output in fusion.outputs:
            own = at
            if output.shape.dimensions != hero.shape.dimensions:
                own = delinearize(linearize(at, hero.shape.dimensions), output.shape.dimensions)
            pattern.store(output, own)
        return pattern

    def _store(self, hero: Instruction, at: Indices) -> None:
        sums = "total" if self.segment else "sum"
        value = from_accumulation(self.e, type_name(hero), self.p.name, f"{sums}[i][{self._column('j')}]", self.block)
        self.e.bind(hero, at, value)
        store_outputs(self.p.fusion, self.e, at, self.block)


def scratch_argument(p: MatrixProduct) -> Argument:
    """The memory for the sums of all segments."""
    count = p.segments * p.groups * p.m * p.n
    return Argument("scratch", VECTORS[p.name][0], bytes=count * p.element_bytes, scratch=f"{p.fusion.name}.sums")


def segments_added(p: MatrixProduct) -> Kernel:
    """The kernel that adds the sums of segments in order, an item for each element, and evaluates the outputs."""
    fusion, hero, block = p.fusion, hero_of(p.fusion), Block()
    inputs = [i for i in fusion.inputs if i in inputs_of(fusion, fusion.outputs, hero)]
    pointers = {i: f"a{n}" for n, i in enumerate((*inputs, *fusion.outputs))}
    e, size = ElementalIrEmitter(fusion, p.target, pointers), p.groups * p.m * p.n
    with each_unit(block, p.target, size):
        block.line(f"{VECTORS[p.name][0]} total = 0;")
        block.line(f"#pragma unroll {SEGMENTS_AT_A_TIME}")
        with block.scope(f"for (int segment = 0; segment < {p.segments}; ++segment)"):
            block.line(f"total += a{len(pointers)}[segment * {size} + unit];")
        at = p.result(*delinearize(variable("unit", 0, size - 1), (p.groups, p.m, p.n)))
        e.bind(hero, at, from_accumulation(e, type_name(hero), p.name, "total", block))
        store_outputs(fusion, e, at, block)
    arguments = (*map(input_argument, inputs), *map(output_argument, fusion.outputs), scratch_argument(p))
    return kernel_of_units(fusion.name, block, arguments, p.target, size)
