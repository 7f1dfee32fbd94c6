"""The blocked matrix product behind dot and convolution.

    result[g, m, n] = sum over k of left[g, m, k] * right[g, k, n]

A tile of rows x columns of the result lives in vector registers while k runs; the order of the terms of each of its
elements is that of contraction_order.py, whatever the blocks are, so that the bits do not depend on them. Around it:

    item    a block of rows and columns of one g, whose sums stay in private memory
    block   of k, as long as what it reads of `right` stays in the cache; the next one reloads the sums
    segment of k, whose sum begins at zero and is added to the sums when it is complete; where blocks do not end with
            segments, the sums of segments that are not complete have memory of their own (`open`)
    panel   of right: as many columns as a tile has, next to each other for each k, so that they load as vectors

The panels are made by a stage before (`packed`), by the item for itself where no other item needs them (`local`), or
are read where they lie (`direct`). The rows of left come as pointers with a constant step along k, from a `Rows`: those
of a matrix for dot, those of windows for convolution. After the last block the item evaluates the fusion's outputs on
its sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from refxla_spec.module import Instruction

from ...analysis.contraction_order import segment_terms
from ...analysis.index_expression import Index, delinearize, linearize, variable
from ...device.description import LINE, Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..c_block import Block
from ..elemental_ir_emitter import Access, ElementalIrEmitter
from ..elemental_rules import type_name
from ..kernel_arguments import input_argument, inputs_of, output_argument
from .blocking import FEW_ROWS, Blocking, choose_blocking, columns_vary_first, reads_as_vectors
from .micro_kernel import SHARED_ROWS, SHARED_TERMS, Loop, Tiles
from .packing import VECTORS, direct_access, from_accumulation, scratch_argument
from .packing_functions import SumsToRows
from .panels import Panels, pack_stage, panel_elements
from .prepacked_constants import is_known, known_argument, known_value, panels_of
from .window_loop import Walk

ITEM_WORK = 1 << 20  # multiply-adds of small blocks that an item takes together: some 10 us
STREAMED_TERMS = 8  # of k in a block where the right side is streamed: memory is read best along its rows
LOCAL_ROWS = FEW_ROWS  # of the left side, up to which blocks of k are short, since an item may pack its own panels
LOCAL_TERMS = 256  # of k in a block then

Indices = tuple[Index, ...]


class Rows(Protocol):
    """Where the rows of the left side lie. Texts are C; `g`, `item` and the row numbers are C variables of type int."""

    step: int  # elements from one term to the next
    blocks: int  # into which k falls
    most_terms: int  # in a block
    least_terms: int  # in a stretch (at the end of a block there may be fewer)
    element: str  # the C type of the elements
    local: bool  # whether each item copies its rows, block by block, to private memory

    def pointer(self) -> Instruction | Argument:
        """The input that holds them, or the argument that a copy of them is. Not for what is `local`."""

    def inputs(self) -> list[Instruction]:
        """The inputs that `pack` reads."""

    def pack(self, block: Block, e: ElementalIrEmitter, most: int, terms: str) -> tuple[str, ...]:
        """Copies the `rows` rows from first_row on, at most that many, of the block that is open to array `strips`.
        Returns the texts of the functions that do it."""

    def private_elements(self, rows: int) -> int:
        """The elements of `strips` for that many rows."""

    def stage(self) -> Kernel | None:
        """The kernel that fills the scratch memory."""

    def open_block(self, block: Block, number: str) -> tuple[Index, str]:
        """Declares what block `number` of k needs; returns its first term and the number of its terms."""

    def open_tile(self, block: Block, source: str, first: Index, rows: int) -> None:
        """Declares what the rows first, first + 1, ... of pointer `source` need."""

    def walk(self, loop: Loop) -> Walk | None:
        """The function that takes a tile through a block in several stretches, by `call`; None where there is one."""

    def call(self, walk: Walk, right: str, fresh: str) -> str:
        """The statement that calls it: from the panel at `right`, with what Walk.call takes as `fresh`."""

    def run(self, rows: int) -> tuple[list[str], str]:
        """Of the one stretch the pointers to the rows and the number of terms."""


@dataclass(frozen=True)
class Lines:
    """Rows of the left side that lie evenly: from row number `first` on at C pointer `left`, `row` elements apart; or
    in strips, if `strip` is not 0 (see Tiles)."""

    left: str
    row: int
    strip: int = 0
    first: str = "0"


@dataclass(frozen=True)
class Product:
    """A contraction as matrix product, for each of `groups`; `name` is the accumulation type.

    `right(g, k, n)` gives the indices of the right operand, `result(g, m, n)` those of the hero and the C condition
    under which that element exists (True: always).
    """

    fusion: Fusion
    target: Target
    name: str
    groups: int
    m: int
    n: int
    k: int
    rows: Rows
    right_operand: Instruction
    right: Callable[[Index, Index, Index], Indices]
    result: Callable[[Index, Index, Index], tuple[Indices, bool | str]]
    terms: Sequence[int]  # the sizes that k counts
    right_matrix: Callable[[np.ndarray], np.ndarray]  # the right operand's value, as [group, k, n]
    shared: int = 1  # so many neighbouring groups have one right side
    whole: str = ""  # the complex type of which k and n count the parts (see complex_dot.py), if they do
    lines: Callable[[str], Lines | None] = lambda source: None  # how the block's rows lie behind pointer `source`

    @property
    def right_kept(self) -> bool:
        """Whether the right side is the same at every call, or in every turn of the loop around, so that its panels are
        made once."""
        invariant = set(self.fusion.loop_invariant)
        kept = bool(invariant) and set(inputs_of(self.fusion, [self.right_operand])) <= invariant
        return kept or self.right_known

    @cached_property
    def right_known(self) -> bool:
        """Whether the right side is a constant, whose panels are part of the plan."""
        return not self.whole and is_known(self.fusion, self.right_operand, self.name)

    @property
    def segment(self) -> int:
        """The terms of a segment, 0 where a sum is one chain (contraction_order.py): parts of complex terms go in
        pairs."""
        return 2 * segment_terms(self.k // 2, self.whole) if self.whole else segment_terms(self.k, self.name)

    @property
    def opens(self) -> bool:
        """Whether blocks of k may end within a segment."""
        return self.segment > 0 and self.rows.blocks > 1 and self.rows.most_terms % self.segment > 0

    def right_access(self) -> Access | None:
        """The Access of the right side as plain loads, in variables g, k and n, or None."""
        if self.whole:
            return None
        g, k, n = variable("g", 0, self.groups - 1), variable("k", 0, self.k - 1), variable("n", 0, self.n - 1)
        return direct_access(self.fusion, self.target, self.right_operand, self.right(g, k, n), self.name)


def kernels(p: Product) -> tuple[Kernel, ...]:
    """The stages of a product: what fills the scratch memory of either side, and the product itself."""
    b = choose_blocking(p)
    packed = b.panels == "packed" and not p.right_known
    stages = [p.rows.stage(), pack_stage(p, b.tile.columns) if packed else None]
    return (*(s for s in stages if s is not None), _Main(p, b).kernel())


def _least(a: str, b: str) -> str:
    return f"({a} < {b} ? {a} : {b})"


def store_outputs(fusion: Fusion, e: ElementalIrEmitter, indices: Sequence[Index], block: Block) -> None:
    """Stores the outputs, elementwise in the hero or reshapes of what is, at the hero's element of these indices."""
    dimensions = fusion.hero.shape.dimensions
    for output in fusion.outputs:
        own = indices
        if output.shape.dimensions != dimensions:
            own = delinearize(linearize(indices, dimensions), output.shape.dimensions)
        e.store(output, own, block)


class _Main:
    """The kernel of a product, without the stages before it."""

    def __init__(self, p: Product, b: Blocking) -> None:
        self.p, self.b, self.tile = p, b, b.tile
        self.block = Block()
        self.panels = -(-p.n // self.tile.columns)
        self.item_panels = b.columns // self.tile.columns
        self.row_blocks = -(-p.m // b.rows)
        self.column_blocks = -(-p.n // b.columns)
        self.g = variable("g", 0, p.groups - 1)
        self.helpers: tuple[str, ...] = ()
        self.apart = self._apart()
        self.closes = False  # whether segments end between blocks of k, and not in a tile's loop
        self._name_arguments()

    def _name_arguments(self) -> None:
        p, fusion = self.p, self.p.fusion
        inputs = set(inputs_of(fusion, fusion.outputs, fusion.hero))
        left = None if p.rows.local else p.rows.pointer()
        inputs |= {left} if isinstance(left, Instruction) else set()
        inputs |= set(p.rows.inputs()) if p.rows.local else set()
        self.access = p.right_access() if self.b.panels == "direct" else None
        if self.b.panels == "direct":
            inputs.add(self.access.instruction)
        elif self.b.panels == "local":
            inputs |= set(inputs_of(fusion, [p.right_operand]))
        read = [i for i in fusion.inputs if i in inputs]
        values = [*read, *fusion.outputs]
        self.arguments = [*map(input_argument, read), *map(output_argument, fusion.outputs)]
        self.pointers = {i: f"a{n}" for n, i in enumerate(values)}
        self.e = ElementalIrEmitter(fusion, p.target, self.pointers)
        if p.rows.local:
            self.left = "strips"
        else:
            self.left = f"a{values.index(left)}" if isinstance(left, Instruction) else self._pointer(left)
        if self.b.panels == "direct":
            self.right = f"a{values.index(self.access.instruction)}"
        elif self.b.panels == "packed":
            self.right = self._pointer(self._right(self.tile.columns))
        else:
            self.right = "panels"

    def _right(self, width: int) -> Argument:
        """The panels: a constant, or scratch memory that a stage fills."""
        p = self.p
        if not p.right_known:
            return scratch_argument(p.fusion, "right", p.name, panel_elements(p, width))
        panels = panels_of(p.right_matrix(known_value(p.fusion, p.right_operand, p.name)), width)
        return known_argument(p.fusion, "right", panels)

    def _pointer(self, argument: Argument) -> str:
        self.arguments.append(argument)
        return f"a{len(self.arguments) - 1}"

    def kernel(self) -> Kernel:
        p, b, block = self.p, self.b, self.block
        element, _ = VECTORS[p.name]
        block.line(f"typedef {self.tile.vector} __attribute__((aligned(sizeof({element})))) vector;  // at any address")
        blocks = p.groups * self.row_blocks * self.column_blocks
        # Many small blocks: an item takes several.
        work = b.rows * b.columns * p.k
        turns = max(1, min(ITEM_WORK // max(1, work), blocks // (4 * p.target.compute_units)))
        if turns == 1:
            self._block("item")
        else:
            head = f"for (int turn = item * {turns}; turn < item * {turns} + {turns} && turn < {blocks}; ++turn)"
            with block.scope(head):
                self._block("turn")
        text, items, helpers = block.text(), -(-blocks // turns), self.helpers
        return Kernel(p.fusion.name, text, tuple(self.arguments), items, registers=True, helpers=helpers)

    def _block(self, number: str) -> None:
        """One block of the result."""
        p, b, tile, block = self.p, self.b, self.tile, self.block
        element, _ = VECTORS[p.name]
        # What lies in more memory is gone through once.
        if columns_vary_first(p):
            row, column = f"{number} / {self.column_blocks} % {self.row_blocks}", f"{number} % {self.column_blocks}"
        else:
            row, column = f"{number} % {self.row_blocks}", f"{number} / {self.row_blocks} % {self.column_blocks}"
        block.line(f"const int first_row = {row} * {b.rows};")
        block.line(f"const int first_column = {column} * {b.columns};")
        block.line(f"const int g = {number} / {self.row_blocks * self.column_blocks};")
        block.line(f"const int rows = {_least(str(b.rows), f'{p.m} - first_row')};")
        block.line(f"const int columns = {_least(str(b.columns), f'{p.n} - first_column')};")
        held = 1 if p.rows.blocks == 1 else self.item_panels  # panels whose sums wait for the next block of k
        vectors = held * b.rows * tile.vectors
        block.line(f"{tile.vector} sums[{vectors}]{f', open[{vectors}]' if p.opens else ''};")
        if p.segment and p.rows.blocks > 1:
            zeroed = "open[n] = sums[n]" if p.opens else "sums[n]"
            block.line(f"for (int n = 0; n < {vectors}; ++n) {zeroed} = ({tile.vector})(0);")
        local_terms = min(p.rows.most_terms, p.k)
        if p.rows.local:
            block.line(f"{p.rows.element} strips[{p.rows.private_elements(b.rows)}] __attribute__((aligned(64)));")
        if b.panels == "local":
            block.line(f"{element} panels[{b.columns * local_terms}] __attribute__((aligned(64)));")
        head = f"for (int part = 0; part < {p.rows.blocks}; ++part)" if p.rows.blocks > 1 else ""
        with block.scope(head):
            first, terms = p.rows.open_block(block, "part" if p.rows.blocks > 1 else "0")
            if p.segment:
                self._open_segment(first, terms)
            if b.panels == "local":
                self._pack_local(first, terms, local_terms)
            if self.apart is not None:
                self._fetch(first, terms)
            if p.rows.local:
                self.helpers += p.rows.pack(block, self.e, b.rows, terms)
            count = f"(columns + {tile.columns - 1}) / {tile.columns}"
            with block.scope(f"for (int j = 0; j < {count}; ++j)"):
                self._declare_panel(first, local_terms)
                if p.segment and p.rows.blocks == 1:
                    block.line(f"for (int n = 0; n < {vectors}; ++n) sums[n] = ({tile.vector})(0);")
                lines = p.lines(self.left) if p.rows.least_terms >= SHARED_ROWS else None
                if lines is not None:
                    self._tiles(lines, terms)
                else:
                    with block.scope(f"for (int i = 0; i < rows; i += {tile.rows})"):
                        self._tile(terms)
                if p.rows.blocks == 1:
                    self._epilogue()
            if self.closes:
                with block.scope(f"for (int n = 0; ends && n < {vectors}; ++n)"):
                    block.line("sums[n] = sums[n] + open[n];")
                    block.line(f"open[n] = ({tile.vector})(0);")
        if p.rows.blocks > 1:
            with block.scope(f"for (int j = 0; j < {count}; ++j)"):
                self._epilogue()

    def _open_segment(self, first: Index, terms: str) -> None:
        """Declares how a block of k lies to the segments: the terms `before` it of the one that is open, and whether it
        `ends` with a segment, or is the last."""
        p, block = self.p, self.block
        rest = p.segment - 1
        block.line(f"const int shift = {rest.bit_length()};")
        if not p.opens:
            block.line("const int before = 0, ends = 1;")
            return
        block.line(f"const int before = ({first}) & {rest}, end_term = {first} + {terms};")
        block.line(f"const int ends = end_term == {p.k} || (end_term & {rest}) == 0;")

    def _pack_local(self, first: Index, terms: str, most: int) -> None:
        width, block = self.tile.columns, self.block
        block.line(f"const int panel0 = first_column / {width};")
        panel0 = variable("panel0", 0, self.panels - 1)

        def place(panel: Index, t: Index) -> tuple[str, Index]:
            return "panels", (panel * most + t) * width

        panels, stretch = (panel0, "columns", self.item_panels), (first, terms, most)
        self.helpers += Panels(self.p, width, self.e, self.pointers, panels, stretch, place).copy(block)

    def _apart(self) -> int | None:
        """How far apart rows of the right side lie, if an item fetches the next block of them while it computes: what
        makes its own panels would otherwise wait for memory first, and compute then."""
        if self.b.panels != "local" or self.p.rows.blocks == 1 or self.p.rows.least_terms < SHARED_TERMS:
            return None
        access = self.p.right_access()
        return access.position.factor("k") if reads_as_vectors(access) else None

    def _lines(self) -> int:
        """The lines of the cache that a row of the right side has in a block, as power of 2. Each of a block's tiles
        fetches one line for each term, in the order in which they lie in memory."""
        return (-(-self.b.columns * self.tile.bytes // (self.tile.lanes * LINE)) - 1).bit_length()

    def _fetch(self, first: Index, terms: str) -> None:
        """Declares `ahead`, where the next block of the right side begins, and `fetched`, how many lines it has."""
        p, block = self.p, self.block
        following = f"part + 1 < {p.rows.blocks}"
        block.line(f"const int next_term = {following} ? {first} + {terms} : {first};")
        at = p.right(self.g, variable("next_term", 0, p.k - 1), variable("first_column", 0, p.n - 1))
        access = direct_access(p.fusion, p.target, p.right_operand, at, p.name)
        element, _ = VECTORS[p.name]
        pointer = f"(__global const {element}*){self.pointers[access.instruction]}"
        block.line(f"__global const {element}* const ahead = {pointer} + ({access.position});")
        block.line(f"const int fetched = {following} ? ({terms}) << {self._lines()} : 0;")

    def _declare_panel(self, first: Index, local_terms: int) -> None:
        """Declares `b`, the first row of panel j of the block, and sets the distance of its rows."""
        p, tile, block = self.p, self.tile, self.block
        element, _ = VECTORS[p.name]
        j = variable("j", 0, self.item_panels - 1)
        self.right_step = tile.columns
        if self.b.panels == "local":
            self.space = ""
            block.line(f"const {element}* const b = panels + {j * (local_terms * tile.columns)};")
            return
        self.space = "__global "
        if self.b.panels == "packed":
            panel = variable("first_column", 0, p.n - 1) // tile.columns + j
            position = ((self.g // p.shared * self.panels + panel) * p.k + first) * tile.columns
            block.line(f"__global const {element}* const b = {self.right} + {position};")
            return
        # The last panel may begin before its place, so that it ends where the rows do.
        block.line(f"const int n = {_least(f'first_column + j * {tile.columns}', str(p.n - tile.columns))};")
        at = p.right(self.g, first, variable("n", 0, p.n - 1))
        position = direct_access(p.fusion, p.target, p.right_operand, at, p.name).position
        self.right_step = self.access.position.factor("k")
        block.line(f"__global const {element}* const b = (__global const {element}*){self.right} + ({position});")

    def _loop(self) -> Loop:
        p, tile = self.p, self.tile
        spaces = ("" if p.rows.local else "__global ", self.space)
        steps, fetches = (p.rows.step, self.right_step), self.apart is not None
        return Loop(tile, VECTORS[tile.name][0], p.rows.element, steps, spaces, fetches, p.segment > 0)

    def _tiles(self, lines: Lines, terms: str) -> None:
        """All tiles of panel j, by the function that products share."""
        p, b, tile = self.p, self.b, self.tile
        tiles = Tiles(self._loop(), lines.strip)
        self.helpers += (tiles.text(),)
        several = p.rows.blocks > 1
        panel = f" + j * {b.rows * tile.vectors}" if several else ""
        rest = [f"before, shift, ends, {'open' if p.opens else 'sums'}{panel}"] if p.segment else []
        if self.apart is not None:
            start = f"j * {-(-b.rows // tile.rows) * p.rows.most_terms}"
            rest.append(f"ahead, {self.apart}, {self._lines()}, {start}, {p.rows.most_terms}, fetched")
        fresh, (left, row, first) = "part == 0" if several else "1", (lines.left, lines.row, lines.first)
        self.block.line(tiles.call(left, row, first, "rows", "b", terms, fresh, f"sums{panel}", ", ".join(rest)))

    def _tile(self, terms: str) -> None:
        p, tile, block = self.p, self.tile, self.block
        self.loop = self._loop()
        walk = p.rows.walk(self.loop)
        across = p.segment > 0 and (not p.opens or p.segment % p.rows.most_terms > 0)  # blocks may lie in two segments
        if walk is not None or p.rows.least_terms >= SHARED_TERMS or across:
            return self._shared_tile(walk, terms)
        panel = f"j * {self.b.rows * tile.vectors} + " if p.rows.blocks > 1 else ""
        self.closes = p.segment > 0
        places = tile.places("open" if self.closes else "sums", f"{panel}i * {tile.vectors}")
        for c, place in places.items():
            start = f"part == 0 ? ({tile.vector})(0) : {place}" if p.rows.blocks > 1 else f"({tile.vector})(0)"
            block.line(f"{tile.vector} {c} = {place if self.closes else start};")
        first = variable("first_row", 0, p.m - 1) + variable("i", 0, self.b.rows - 1)
        p.rows.open_tile(block, self.left, first, tile.rows)
        self._run(*p.rows.run(tile.rows))
        for c, place in places.items():
            block.line(f"{place} = {c};")

    def _shared_tile(self, walk: Walk | None, block_terms: str) -> None:
        """The same by the function that all products share."""
        p, tile, block = self.p, self.tile, self.block
        panel = f"j * {self.b.rows * tile.vectors} + " if p.rows.blocks > 1 else ""
        block.line(f"{tile.vector}* const tile = sums + {panel}i * {tile.vectors};")
        if p.segment:
            sums = "open" if p.opens else "sums"
            block.line(f"{tile.vector}* const open_tile = {sums} + {panel}i * {tile.vectors};")
        first = variable("first_row", 0, p.m - 1) + variable("i", 0, self.b.rows - 1)
        if self.apart is not None:
            number = f"(j * {-(-self.b.rows // tile.rows)} + i / {tile.rows})"
            block.line(f"const int begin = {number} * {p.rows.most_terms}, lines = {self._lines()};")
            block.line(f"const int apart = begin < fetched ? {self.apart} : 0;")
        if walk is not None:
            self.helpers += (walk.text(),)
            p.rows.open_tile(block, self.left, first, tile.rows)
            fresh = "part == 0" if p.rows.blocks > 1 else "1"
            block.line(p.rows.call(walk, "b", block_terms if p.segment else fresh))
            return
        self.helpers += (self.loop.text(),)
        if not p.segment:
            with block.scope("if (part == 0)" if p.rows.blocks > 1 else ""):
                block.line(f"for (int n = 0; n < {tile.rows * tile.vectors}; ++n) tile[n] = ({tile.vector})(0);")
        p.rows.open_tile(block, self.left, first, tile.rows)
        pointers, terms = p.rows.run(tile.rows)
        block.line(self.loop.call(pointers, "b", terms))

    def _run(self, pointers: Sequence[str], terms: str) -> None:
        tile, block, step = self.tile, self.block, self.p.rows.step
        element, _ = VECTORS[tile.name]
        with block.scope():
            for i, pointer in enumerate(pointers):
                space = "" if self.p.rows.local else "__global "
                block.line(f"{space}const {self.p.rows.element}* const p{i} = {pointer};")
            with block.scope(f"for (int k = 0; k < {terms}; ++k)"):
                for v in range(tile.vectors):
                    place = f"b + {self._along('k', self.right_step)} + {v * tile.lanes}"
                    block.line(f"const {tile.vector} b{v} = *({self.space}const vector*)({place});")
                for i in range(tile.rows):
                    index = self._along("k", step)
                    block.line(f"const {tile.vector} x{i} = ({tile.vector})(({element})p{i}[{index}]);")
                    for v in range(tile.vectors):
                        c = f"c{i}_{v}"
                        block.line(f"{c} = {tile.multiply_add(f'x{i}', f'b{v}', c)};")

    def _along(self, terms: str, step: int) -> str:
        """The distance of that many terms, `step` apart."""
        if step == 1:
            return terms
        wide = "(long)" if abs(step) * self.p.k >= 2**31 else ""
        return f"{wide}{terms} * {step}"

    def _epilogue(self) -> None:
        """Evaluates the outputs on the sums of panel j."""
        p, b, tile, block, e = self.p, self.b, self.tile, self.block, self.e
        hero = p.fusion.hero
        element, _ = VECTORS[p.name]
        panel = f" + j * {b.rows * tile.columns}" if p.rows.blocks > 1 else ""
        block.line(f"const {element}* sum = (const {element}*)sums{panel};")
        block.line(f"const int column = first_column + j * {tile.columns};")
        block.line(f"const int width = {_least(str(tile.columns), f'{p.n} - column')};")
        if b.panels == "direct" and p.n % tile.columns:
            block.line(f"if (column > {p.n - tile.columns}) sum += column - {p.n - tile.columns};  // it began early")
        if self._stored():
            return
        parts = 2 if p.whole else 1
        m, n = variable("m", 0, p.m - 1), variable("n", 0, p.n // parts - 1)
        indices, condition = p.result(self.g, m, n)
        position = linearize(indices, hero.shape.dimensions)
        loops = [("i", "rows", "m", "first_row"), ("u", "width", "n", "column")]
        if p.whole:
            loops[1] = ("u", "width / 2", "n", "column / 2")
        if position.factor("m") == 1 and position.factor("n") != 1:
            loops.reverse()
        (a, a_end, a_name, a_first), (c, c_end, c_name, c_first) = loops
        with block.scope(f"for (int {a} = 0; {a} < {a_end}; ++{a})"):
            block.line(f"const int {a_name} = {a_first} + {a};")
            with block.scope(f"for (int {c} = 0; {c} < {c_end}; ++{c})"):
                block.line(f"const int {c_name} = {c_first} + {c};")
                with block.scope("" if condition is True else f"if ({condition})"):
                    at = f"sum[i * {tile.columns} + u"
                    if p.whole:
                        pair = f"({scalar.register_type(p.whole)})({at} * 2], {at} * 2 + 1])"
                        value = e.assign(p.whole, pair, block)
                    else:
                        value = from_accumulation(e, type_name(hero), p.name, f"{at}]", block)
                    e.bind(hero, indices, value)
                    store_outputs(p.fusion, e, indices, block)

    def _stored(self) -> bool:
        """Stores the sums of panel j, if they are all that the fusion has and rows lie in memory as they are, by the
        function that products share. Whether that is so."""
        p, e, hero = self.p, self.e, self.p.fusion.hero
        same = p.name == "f32" and type_name(hero) == "f32" or p.name == "f64"
        if list(p.fusion.outputs) != [hero] or p.whole or not same:
            return False
        indices, condition = p.result(self.g, variable("m", 0, p.m - 1), variable("n", 0, p.n - 1))
        everywhere = linearize(indices, hero.shape.dimensions)
        step = everywhere.factor("m")
        if condition is not True or step is None or everywhere.factor("n") != 1:
            return False
        at, _ = p.result(self.g, variable("first_row", 0, p.m - 1), variable("column", 0, p.n - 1))
        to = f"{e.output(hero)} + ({linearize(at, hero.shape.dimensions)})"
        copy = SumsToRows(p.name, self.tile.columns, to_global=True)
        self.helpers += (copy.text(),)
        self.block.line(copy.call("sum", to, step, "rows", "width"))
        return True
