"""The right side of a matrix product, copied to panels: as many columns as a tile has, side by side for each k.

scratch[g][panel][k][column], with zeros beyond the last column. A right side that lies along k is transposed on the
way, block by block in registers where it is read from memory as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..plan import Kernel
from .block import Block
from .elemental import type_name
from .expressions import Access, Elements
from .indexing import Index, constant, variable
from .packing import (
    VECTORS,
    direct_access,
    distant_terms,
    input_argument,
    inputs_of,
    open_columns,
    open_terms,
    scratch_argument,
    to_accumulation,
    vector_type,
)

if TYPE_CHECKING:
    from .matmul import Product

PACK_ELEMENTS = 16384  # elements that an item of the stage copies
STRETCH = 16  # panels that a copy along rows of memory takes at a time
SPAN = 64  # terms of k that a transposing copy takes at a time
# (type, accumulation type) -> elements in a word, and C that takes one of them out of each word of vector w: a word is
# shifted up until the element ends it, and down until the element begins it.
WORDS = {
    ("bf16", "f32"): (2, "as_float8(as_uint8({w}) << {up}u & 0xffff0000u)"),
    ("s8", "u32"): (4, "as_uint8(as_int8({w} << {up}u) >> {down})"),
    ("u8", "u32"): (4, "{w} << {up}u >> {down}u"),
    ("s16", "u32"): (2, "as_uint8(as_int8({w} << {up}u) >> {down})"),
    ("u16", "u32"): (2, "{w} << {up}u >> {down}u"),
}


def panel_elements(p: Product, width: int) -> int:
    """The elements of all panels of `width` columns."""
    return p.groups // p.shared * -(-p.n // width) * width * p.k


def pack_stage(p: Product, width: int) -> Kernel:
    """The kernel that makes all panels of the right side."""
    panels = -(-p.n // width)
    terms = min(p.k, -(-max(1, PACK_ELEMENTS // (panels * width)) // 8) * 8)  # of k, for an item
    chunks = -(-p.k // terms)
    inputs = inputs_of(p.fusion, [p.right_operand])
    e = Elements(p.fusion, p.target, {i: f"a{n}" for n, i in enumerate(inputs)})
    block = Block()
    block.line(f"const int g = item / {chunks} * {p.shared};")
    block.line(f"const int first = item % {chunks} * {terms};")
    block.line(f"const int terms = {terms} < {p.k} - first ? {terms} : {p.k} - first;")
    first, g = variable("first", 0, p.k - 1), variable("g", 0, p.groups - 1)
    out = f"a{len(inputs)}"

    def place(panel: Index, t: Index) -> tuple[str, Index]:
        return out, ((g // p.shared * panels + panel) * p.k + first + t) * width

    pointers = {i: f"a{n}" for n, i in enumerate(inputs)}
    every, stretch = (constant(0), str(panels), panels), (first, "terms", terms)
    Panels(p, width, e, pointers, every, stretch, place, even=True).copy(block)
    arguments = [*map(input_argument, inputs), scratch_argument(p.fusion, "right", p.name, panel_elements(p, width))]
    return Kernel(f"{p.fusion.name}.right", block.text(), tuple(arguments), p.groups // p.shared * chunks)


@dataclass(frozen=True)
class Panels:
    """A copy of some terms of k to some panels.

    `pointers` gives the C names of the inputs. `panels` is (the first panel, the C text of how many, their largest
    number), `terms` likewise (the first term, how many, at most); place(panel, term), both counted from 0, gives the
    pointer and the position of a row of a panel. Names u, t, j and n are taken in the C text.
    """

    p: Product
    width: int
    e: Elements
    pointers: dict
    panels: tuple[Index, str, int]
    terms: tuple[Index, str, int]
    place: Callable[[Index, Index], tuple[str, Index]]
    even: bool  # whether the first term is always a multiple of the lanes of a vector

    def copy(self, block: Block) -> None:
        """Emits the loops."""
        first, count, most = self.panels
        p, width = self.p, self.width
        terms = self.terms[1]
        column = (first + variable("j", 0, most - 1)) * width
        along_k, step, vectors = self._along_k()
        if not along_k:
            # Along rows of memory: a stretch of some panels, then the next term.
            g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n - 1)
            turn = 1
            if not p.whole:
                turn = distant_terms(p.fusion, p.target, p.right_operand, lambda k: p.right(g, k, n), p.terms)
            with block.scope(f"for (int j0 = 0; j0 < {count}; j0 += {STRETCH})"):
                with open_terms(block, turn, terms):
                    with block.scope(f"for (int j = j0; j < j0 + {STRETCH} && j < {count}; ++j)"):
                        if p.n % width:
                            with block.scope(f"if ({column} + {width} > {p.n})"):
                                self._row(block, column, short=True)
                                block.line("continue;")
                        self._row(block, column, short=False)
            return
        with block.scope(f"for (int j = 0; j < {count}; ++j)"):
            if p.n % width:
                with block.scope(f"if ({column} + {width} > {p.n})"):
                    with block.scope(f"for (int t = 0; t < {terms}; ++t)"):
                        self._row(block, column, short=True)
                    block.line("continue;")
            if step is not None:
                self._transposed(block, column, step, vectors)
                return
            with block.scope(f"for (int t0 = 0; t0 < {terms}; t0 += {SPAN})"):
                with block.scope(f"for (int u = 0; u < {width}; ++u)"):
                    with block.scope(f"for (int t = t0; t < t0 + {SPAN} && t < {terms}; ++t)"):
                        block.line(f"const int n = {column} + u;")
                        self._element(block)

    def _along_k(self) -> tuple[bool, int | None, int]:
        """Whether columns lie along k in memory; if blocks of them can be transposed in registers, how far apart; and
        how many vectors of a column are read at a time.

        They may do so in stretches, where k counts several dimensions: a block must not go beyond a stretch.
        """
        p = self.p
        if p.whole:
            return False, None, 0
        inner, lanes = p.terms[-1] if p.terms else 1, VECTORS[p.name][1] * self.packed
        g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n - 1)
        k = variable("q", 0, p.k // inner - 1) * inner + variable("r", 0, inner - 1)
        access = self._access(g, k, n)
        if access is None or access.position.factor("r") != 1 or access.position.factor("n") == 1:
            return False, None, 0
        step = access.position.factor("n")
        if p.name == "u64" or step is None or step % self.packed:
            step = None
        everywhere = self._access(g, variable("k", 0, p.k - 1), n)
        if everywhere is not None and everywhere.position.factor("k") == 1:
            return True, step, 2 if self.packed == 1 else 1
        return self.even and self.packed == 1 and inner % lanes == 0, step, 1

    @property
    def packed(self) -> int:
        """How many elements of the right side a word as wide as an accumulator holds, where that is more than one and
        words can be taken apart; else 1."""
        return WORDS.get((type_name(self.p.right_operand), self.p.name), (1, ""))[0]

    def _access(self, g: Index, k: Index, n: Index) -> Access | None:
        """The Access of an element of the right side, if that is a plain load, with a conversion where words can be
        taken apart."""
        p = self.p
        name = p.name if self.packed == 1 else type_name(p.right_operand)
        return direct_access(p.fusion, p.target, p.right_operand, p.right(g, k, n), name)

    def _row(self, block: Block, column: Index, short: bool) -> None:
        """Row t of panel j."""
        with block.scope(f"for (int u = 0; u < {self.width}; ++u)"):
            block.line(f"const int n = {column} + u;")
            if not short:
                self._element(block)
                return
            with block.scope(f"if (n < {self.p.n})"):
                self._element(block)
            with block.scope("else"):
                pointer, position = self._place()
                block.line(f"{pointer}[{position} + u] = 0;")

    def _place(self) -> tuple[str, Index]:
        return self.place(variable("j", 0, self.panels[2] - 1), variable("t", 0, self.terms[2] - 1))

    def _element(self, block: Block) -> None:
        p, k = self.p, self.e.names.fresh("k")
        first, _, most = self.terms
        block.line(f"const int {k} = {first + variable('t', 0, most - 1)};")
        g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n - 1)
        term, pointer, position = variable(k, 0, p.k - 1), *self._place()
        if p.whole:
            both = to_accumulation(self.e, p.right_operand, p.right(g, term // 2, n // 2), p.whole, block)
            b = self.e.assign(p.whole, both, block)
            value = f"{k} % 2 == 0 ? (n % 2 == 0 ? {b}.x : {b}.y) : (n % 2 == 0 ? -{b}.y : {b}.x)"
        else:
            value = to_accumulation(self.e, p.right_operand, p.right(g, term, n), p.name, block)
        block.line(f"{pointer}[{position} + u] = {value};")

    def _transposed(self, block: Block, column: Index, step: int, vectors: int) -> None:
        """A whole panel, from columns that are contiguous along k and lie `step` apart. Where it can be, a line of the
        cache is read whole: the lines of columns that lie a power of two apart push each other out."""
        p, packed = self.p, self.packed
        element, lanes = VECTORS[p.name]
        first, terms, most = self.terms
        g, t = variable("g", 0, p.groups - 1), variable("t", 0, most - 1)
        block.line(f"typedef {vector_type(p.name)} __attribute__((aligned(sizeof({element})))) unaligned;")
        block.line("int t = 0;")
        for words in range(vectors * lanes, 0, -lanes):  # at a time
            with block.scope(f"for (; t + {words * packed} <= {terms}; t += {words * packed})"):
                with block.scope(f"for (int u = 0; u < {self.width}; u += {lanes})"):
                    block.line(f"const int n = {column} + u;")
                    block.line(f"const int k = {first + t};")
                    access = self._access(g, variable("k", 0, p.k - 1), variable("n", 0, p.n - 1))
                    source = f"{self.pointers[access.instruction]} + ({access.position})"
                    space = "__global const"
                    block.line(f"{space} {element}* const from = ({space} {element}*)({source});")
                    for part in range(0, words, lanes // 2):
                        self._columns(block, part, step // packed)
        with block.scope(f"for (; t < {terms}; ++t)"):
            self._row(block, column, short=False)

    def _columns(self, block: Block, part: int, step: int) -> None:
        """Stores half as many words of each column as a vector has lanes, from word number `part` on."""
        name, packed = self.p.name, self.packed
        half = VECTORS[name][1] // 2
        pointer, position = self._place()
        space = "" if pointer == "panels" else "__global "
        parts = WORDS[type_name(self.p.right_operand), name][1] if packed > 1 else "{w}"
        with block.scope():
            open_columns(block, name, f"from + {part}", step, "r", packed)
            for i in range(half):
                for e in range(packed):
                    row = (part + i) * packed + e
                    value = parts.format(w=f"r[{i}]", up=32 - 32 // packed * (e + 1), down=32 - 32 // packed)
                    block.line(f"*({space}unaligned*)({pointer} + ({position} + u + {row * self.width})) = {value};")
