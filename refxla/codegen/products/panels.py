"""Packing of the right side of a matrix product into panels: as many columns as a tile has, adjacent for each k.

The layout is scratch[g][panel][k][column], with zeros beyond the last column. A right side that is contiguous along k
is transposed while it is copied; where it is an input in memory, blocks of it are transposed in vector registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, variable
from ...ir.plan import Fusion, Kernel
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import input_argument, inputs_of
from .packing import (
    VECTORS,
    DirectRead,
    direct_access,
    direct_read,
    distant_terms,
    open_terms,
    scratch_argument,
    to_accumulation,
)
from .packing_functions import PANELS_AT_ONCE, WORDS, ColumnsToPanel, PackingCopy, RowsToPanels, WindowsToPanel
from .product import Product, RightSide
from .tile import Words

PACK_ELEMENTS = 16384  # elements that an item of the stage copies
LEAST_TAPS, LEAST_FEATURES = 4, 4  # of filters whose windows are transposed in registers
SPAN = 64  # terms of k that a transposing copy processes at a time


def panel_elements(p: Product, width: int) -> int:
    """The number of elements of all panels of `width` columns."""
    return p.groups // p.shared * -(-p.n // width) * width * p.k


def pack_stage(p: Product, width: int) -> Kernel:
    """The kernel that packs all panels of the right side."""
    panels = -(-p.n // width)
    terms = min(p.k, -(-max(1, PACK_ELEMENTS // (panels * width)) // 8) * 8)  # of k, for an item
    if not (p.whole or p.words) and filter_windows(p.fusion, p, p.name):
        return _window_stage(p, width)
    chunks = -(-p.k // terms)
    inputs = inputs_of(p.fusion, [p.right_operand])
    e = ElementalIrEmitter(p.fusion, p.target, {i: f"a{n}" for n, i in enumerate(inputs)})
    block = Block()
    block.line(f"const int g = item / {chunks} * {p.shared};")
    block.line(f"const int first = item % {chunks} * {terms};")
    block.line(f"const int terms = {terms} < {p.k} - first ? {terms} : {p.k} - first;")
    first, g = variable("first", 0, p.k - 1), variable("g", 0, p.groups - 1)
    out = f"a{len(inputs)}"

    def place(panel: Index, t: Index) -> tuple[str, Index]:
        return out, ((g // p.shared * panels + panel) * p.k + first + t) * width

    pointers = {i: f"a{n}" for n, i in enumerate(inputs)}
    every, term_range = (constant(0), str(p.n), panels), (first, "terms", terms)
    helpers = Panels(p, width, e, pointers, every, term_range, place, to_global=True).copy(block)
    arguments = [*map(input_argument, inputs), scratch_argument(p.fusion, "right", p.name, panel_elements(p, width))]
    items = p.groups // p.shared * chunks
    name, text = f"{p.fusion.name}.right", block.text()
    return Kernel(name, text, tuple(arguments), items, helpers=helpers, global_only=bool(helpers))


def _window_stage(p: Product, width: int) -> Kernel:
    """The kernel that packs all panels of filters that store windows: an item packs some panels, with all terms."""
    panels = -(-p.n // width)
    some = max(1, min(panels, PACK_ELEMENTS // (p.k * width)))
    chunks = -(-panels // some)
    inputs = inputs_of(p.fusion, [p.right_operand])
    pointers = {i: f"a{n}" for n, i in enumerate(inputs)}
    e, block = ElementalIrEmitter(p.fusion, p.target, pointers), Block()
    block.line(f"const int g = item / {chunks} * {p.shared};")
    block.line(f"const int panel = item % {chunks} * {some};")
    columns = f"{some * width} < {p.n} - panel * {width} ? {some * width} : {p.n} - panel * {width}"
    block.line(f"const int columns = {columns};")
    g, first = variable("g", 0, p.groups - 1), variable("panel", 0, panels - 1)

    def place(panel: Index, t: Index) -> tuple[str, Index]:
        return f"a{len(inputs)}", ((g // p.shared * panels + first + panel) * p.k + t) * width

    all_terms = (constant(0), str(p.k), p.k)
    helpers = Panels(p, width, e, pointers, (first, "columns", some), all_terms, place, to_global=True).copy(block)
    arguments = [*map(input_argument, inputs), scratch_argument(p.fusion, "right", p.name, panel_elements(p, width))]
    name, items = f"{p.fusion.name}.right", p.groups // p.shared * chunks
    return Kernel(name, block.text(), tuple(arguments), items, helpers=helpers, global_only=bool(helpers))


@dataclass(frozen=True)
class FilterWindows:
    """The layout of filters that store the elements of a window contiguously: `taps` of them, `reversed` or not, for
    each of `features` input features, which are `feature` elements apart; output features are `column` apart."""

    taps: int
    features: int
    reversed: bool
    feature: int
    column: int


def filter_windows(fusion: Fusion, p: RightSide, name: str) -> FilterWindows | None:
    """The layout of the right side, if it consists of such filters. It is best to pack these with all terms at once:
    windows are then read contiguously, instead of one element of each at a time."""
    if len(p.terms) < 2 or p.n == 1 or name == "u64":
        return None
    features, taps = p.terms[-1], prod(p.terms[:-1])
    if features < LEAST_FEATURES or taps < LEAST_TAPS:
        return None
    g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n - 1)
    k = variable("q", 0, taps - 1) * features + variable("r", 0, features - 1)
    access = direct_access(fusion, p.right_operand, p.right(g, k, n), name)
    if access is None:
        return None
    tap, feature, column = (access.position.factor(i) for i in "qrn")
    if tap not in (1, -1) or feature is None or column is None:
        return None
    return FilterWindows(taps, features, tap < 0, feature, column)


@dataclass(frozen=True)
class Panels:
    """Emits the copy of a range of terms of k to a range of panels.

    `pointers` has the C names of the inputs. `panels` is (the first panel, the number of columns from there on as C,
    the largest number of panels); `terms` is (the first term, the number of terms as C, the largest number of terms, of
    which the first term is a multiple). `place(panel, term)`, both relative to the first ones, gives the C pointer and
    the position of a row of a panel; `to_global` says whether that is global memory or the item's own. The C code uses
    the names u, t, j and n.
    """

    p: Product
    width: int
    e: ElementalIrEmitter
    pointers: dict[Instruction, str]
    panels: tuple[Index, str, int]
    terms: tuple[Index, str, int]
    place: Callable[[Index, Index], tuple[str, Index]]
    to_global: bool

    def copy(self, block: Block) -> tuple[str, ...]:
        """Emits the loops, or calls of functions that contain them; returns the texts of those functions."""
        first, columns, most = self.panels
        p, width = self.p, self.width
        terms = self.terms[1]
        count = str(most) if columns == str(p.n) else f"({columns} + {width - 1}) / {width}"
        column = (first + variable("j", 0, most - 1)) * width
        if self.terms[2] == p.k and (windows := self._filter_windows()):
            with block.scope(f"for (int j = 0; j < {count}; ++j)"):
                self._short_panel(block, column)
                return self._windows(block, column, windows)
        along_k, step, inner = self._along_k()
        if not along_k:
            # In memory order: a row of several panels, then the next term.
            g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n - 1)
            stride = 1
            if not (p.whole or p.words):
                stride = distant_terms(p.fusion, p.right_operand, lambda k: p.right(g, k, n), p.terms)
            if stride == 1 and (texts := self._rows(block)):
                return texts
            with block.scope(f"for (int j0 = 0; j0 < {count}; j0 += {PANELS_AT_ONCE})"):
                with open_terms(block, stride, terms if self.parts == 1 else f"({terms}) / {self.parts}"):
                    with block.scope(f"for (int j = j0; j < j0 + {PANELS_AT_ONCE} && j < {count}; ++j)"):
                        if p.n % width:
                            with block.scope(f"if ({c_of(column)} + {width} > {p.n})"):
                                self._row(block, column, short=True)
                                block.line("continue;")
                        self._row(block, column, short=False)
            return ()
        with block.scope(f"for (int j = 0; j < {count}; ++j)"):
            self._short_panel(block, column, step, inner)
            if step is not None:
                return self._transposed(block, column, step, inner, width)
            with block.scope(f"for (int t0 = 0; t0 < {terms}; t0 += {SPAN})"):
                with block.scope(f"for (int u = 0; u < {width}; ++u)"):
                    with block.scope(f"for (int t = t0; t < t0 + {SPAN} && t < {terms}; ++t)"):
                        block.line(f"const int n = {c_of(column)} + u;")
                        self._element(block)
        return ()

    def _filter_windows(self) -> FilterWindows | None:
        p = self.p
        return None if p.whole or p.words or p.right_prepacked else filter_windows(p.fusion, p, p.name)

    def _short_panel(self, block: Block, column: Index, step: int | None = None, inner: int = 0) -> None:
        """Emits the copy of panel j, if it has fewer columns than others, and `continue`s with the next. With a `step`
        (see _along_k), those that fill vectors are transposed."""
        lanes, width = VECTORS[self.p.name][1], self.width
        whole = self.p.n % width // lanes * lanes if step is not None and self.packed == 1 and not self.p.words else 0
        if not self.p.n % width:
            return
        with block.scope(f"if ({c_of(column)} + {width} > {self.p.n})"):
            if step is not None and whole:
                with block.scope():
                    self._transposed(block, column, step, inner, whole)
            with block.scope(f"for (int u = {whole}; u < {width}; ++u)"):
                block.line(f"const int n = {c_of(column)} + u;")
                with block.scope(f"for (int t = 0; t < {self.terms[1]}; ++t)"):
                    self._element_or_zero(block)
            block.line("continue;")

    def _windows(self, block: Block, column: Index, windows: FilterWindows) -> tuple[str, ...]:
        """Emits the copy of panel j, with all terms, from filters that store windows; returns the function's text."""
        p, w = self.p, windows
        copy = WindowsToPanel(p.name, self.width, self.to_global)
        block.line(f"const int n = {c_of(column)};")
        # The first element in memory.
        start = (w.taps - 1) * w.features if w.reversed else 0
        g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n - 1)
        read = self._read(g, constant(start), n)
        assert read is not None  # or there were no windows
        pointer, position = self.place(variable("j", 0, self.panels[2] - 1), constant(start))
        apart, source, to = -w.features if w.reversed else w.features, self._address(read, copy, block), c_of(position)
        if w.feature == w.taps:
            block.line(copy.call(source, w.column, f"{pointer} + ({to})", p.k, w.taps, apart))
        else:
            with block.scope(f"for (int f = 0; f < {w.features}; ++f)"):
                at, to = f"{source} + f * {w.feature}l", f"{pointer} + ({to}) + f * {self.width}"
                block.line(copy.call(at, w.column, to, w.taps, w.taps, apart))
        return (copy.text(),)

    def _along_k(self) -> tuple[bool, int | None, int]:
        """Whether columns are contiguous along k in memory; their distance in elements, if blocks of them can be
        transposed in registers; and the number of contiguous terms, since k may count several dimensions."""
        p = self.p
        if p.whole:
            return False, None, 0
        if p.words:
            return self._words_along_k(p.words)
        inner, lanes = p.terms[-1] if p.terms else 1, VECTORS[p.name][1] * self.packed
        g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n - 1)
        k = variable("q", 0, p.k // inner - 1) * inner + variable("r", 0, inner - 1)
        read = self._read(g, k, n)
        if read is None or read.access.position.factor("r") != 1 or read.access.position.factor("n") == 1:
            return False, None, 0
        step = read.access.position.factor("n")
        if p.name == "u64" or step is None or step % self.packed:
            step = None
        everywhere = self._read(g, variable("k", 0, p.k - 1), n)
        if everywhere is not None and everywhere.access.position.factor("k") == 1:
            return True, step, p.k
        return self.packed == 1 and inner % lanes == 0, step, inner

    def _words_along_k(self, words: Words) -> tuple[bool, int | None, int]:
        """`_along_k` for words: they can be transposed if they are in memory in this form, with no partial word after
        the last term."""
        p, own = self.p, type_name(self.p.right_operand)
        g, k, n = variable("g", 0, p.groups - 1), variable("k", 0, p.elements - 1), variable("n", 0, p.n - 1)
        read = self._read(g, k, n)
        if read is None or read.access.position.factor("k") != 1 or read.access.position.factor("n") == 1:
            return False, None, 0
        step = read.access.position.factor("n")
        if own != words.right or p.elements % words.count or step is None or step % words.count:
            step = None
        return True, step, p.k

    @property
    def packed(self) -> int:
        """The number of elements of the right side in a word of the width of an accumulator, where there is a function
        that unpacks such words; else 1."""
        return 1 if self.p.words else WORDS.get((type_name(self.p.right_operand), self.p.name), (1, ""))[0]

    def _read(self, g: Index, k: Index, n: Index) -> DirectRead | None:
        """An element of the right side, if it is a plain load, or one that is converted while words are unpacked;
        otherwise None."""
        p = self.p
        name = p.name if self.packed == 1 and not p.words else type_name(p.right_operand)
        return direct_read(p.fusion, p.right_operand, p.right(g, k, n), name, ("g",))

    @property
    def parts(self) -> int:
        """The terms and the columns of panels that one element of the right side is: two of each where it is complex.
        The loops then count elements, so that each is computed once."""
        return 2 if self.p.whole else 1

    def _row(self, block: Block, column: Index, short: bool) -> None:
        """Emits the copy of element t of each column of panel j; `short`: with zeros beyond the last column."""
        with block.scope(f"for (int u = 0; u < {self.width // self.parts}; ++u)"):
            block.line(f"const int n = {c_of(column // self.parts)} + u;")
            if not short:
                self._element(block)
                return
            self._element_or_zero(block)

    def _element_or_zero(self, block: Block) -> None:
        """Emits the copy of element u of row t, which is zero beyond the last column."""
        with block.scope(f"if (n < {self.p.n // self.parts})"):
            self._element(block)
        with block.scope("else"):
            self._store(block, ["0"] * self.parts**2)

    def _store(self, block: Block, values: Sequence[str]) -> None:
        """Emits the stores of element u of row t: one number, or four of the parts of a complex one, row by row."""
        panel, t = variable("j", 0, self.panels[2] - 1), variable("t", 0, self.terms[2] // self.parts - 1)
        for number, value in enumerate(values):
            term, part = divmod(number, self.parts)
            pointer, position = self.place(panel, t * self.parts + term)
            at = f"{c_of(position)} + u" if self.parts == 1 else f"{c_of(position + part)} + {self.parts} * u"
            block.line(f"{pointer}[{at}] = {value};")

    def _element(self, block: Block) -> None:
        p, k = self.p, self.e.names.fresh("k")
        first, _, most = self.terms
        parts = self.parts
        block.line(f"const int {k} = {c_of(first // parts + variable('t', 0, most // parts - 1))};")
        g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n // parts - 1)
        term = variable(k, 0, p.k // parts - 1)
        if p.words:
            self._store(block, [self._word(p.words, term, block)])
            return
        value = to_accumulation(self.e, p.right_operand, p.right(g, term, n), p.whole or p.name, block)
        if p.whole:
            b = self.e.assign(p.whole, value, block)
            self._store(block, [f"{b}.x", f"{b}.y", f"-{b}.y", f"{b}.x"])
        else:
            self._store(block, [value])

    def _word(self, words: Words, word: Index, block: Block) -> str:
        """The C expression, as an accumulator, of the word of column n that has the terms of k from `count * word` on:
        zeros after the last."""
        p, parts = self.p, []
        g, n = variable("g", 0, p.groups - 1), variable("n", 0, p.n - 1)
        for number in range(words.count):
            k, there = word * words.count + number, ""
            if k.high >= p.elements:
                there = f"{c_of(k)} < {p.elements}"
                name = self.e.names.fresh("k")
                block.line(f"const int {name} = {there} ? {c_of(k)} : {p.elements - 1};")
                k = variable(name, 0, p.elements - 1)
            value = words.term(to_accumulation(self.e, p.right_operand, p.right(g, k, n), p.name, block), number)
            parts.append(f"({there} ? {value} : 0)" if there else f"({value})")
        return words.word(parts)

    def _rows(self, block: Block) -> tuple[str, ...]:
        """Emits a call of the function that copies rows, which products share, and returns its text. Where the rows of
        the right side are not contiguous in memory, emits nothing and returns ()."""
        p = self.p
        if p.whole or p.words:
            return ()
        (panel, columns, most), (first, terms, most_terms) = self.panels, self.terms
        g, k, n = variable("g", 0, p.groups - 1), variable("k", 0, p.k - 1), variable("n", 0, p.n - 1)
        name = p.name
        everywhere = direct_read(p.fusion, p.right_operand, p.right(g, k, n), name, ("g",))
        step = None if everywhere is None else everywhere.access.position.factor("k")
        at = p.right(g, first, panel * self.width)
        begin = direct_read(p.fusion, p.right_operand, at, name, ("g",))
        if everywhere is None or begin is None or step is None or everywhere.access.position.factor("n") != 1:
            return ()
        pointer, position = self.place(variable("j", 0, max(1, most - 1)), variable("t", 0, most_terms - 1))
        _, start = self.place(constant(0), constant(0))
        copy = RowsToPanels(name, self.width, self.to_global)
        source = self._address(begin, copy, block)
        block.line(copy.call(source, step, f"{pointer} + ({c_of(start)})", position.stride("j"), terms, columns))
        return (copy.text(),)

    def _address(self, read: DirectRead, copy: PackingCopy, block: Block) -> str:
        """The address of an element, as a C pointer of the type that `copy` reads."""
        access = read.opened(self.e, block)
        return f"(__global const {copy.element}*)({self.pointers[access.instruction]} + ({c_of(access.position)}))"

    def _transposed(self, block: Block, column: Index, step: int, inner: int, columns: int) -> tuple[str, ...]:
        """Emits the copy of so many columns, in whole vectors, of panel j, which are contiguous along k for `inner`
        terms at a time and `step` elements apart; returns the text of the function that transposes them."""
        p = self.p
        first, terms, most = self.terms
        g, t = variable("g", 0, p.groups - 1), variable("t", 0, most - 1)
        source_type = p.name if p.words else type_name(p.right_operand)
        copy = ColumnsToPanel(p.name, self.width, self.to_global, source_type, bool(p.words and p.words.is_float))
        elements = p.words.count if p.words else 1  # of a term
        with block.scope(f"for (int t = 0, some = 0; t < {terms}; t += some)" if inner < p.k else ""):
            if inner == p.k:
                t = constant(0)
            block.line(f"const int n = {c_of(column)};")
            block.line(f"const int k = {c_of(first + t)};")
            if inner < p.k:
                rest = f"{inner} - k % {inner}"
                block.line(f"some = {terms} - t < {rest} ? {terms} - t : {rest};")
            read = self._read(g, variable("k", 0, p.k - 1) * elements, variable("n", 0, p.n - 1))
            assert read is not None  # as in _along_k
            pointer, position = self.place(variable("j", 0, self.panels[2] - 1), t)
            to, source = f"{pointer} + ({c_of(position)})", self._address(read, copy, block)
            block.line(
                copy.call(source, step // (self.packed * elements), to, "some" if inner < p.k else terms, columns)
            )
        if self.packed > 1 and (p.k % copy.block_terms or most % copy.block_terms):
            begin = f"({terms}) / {copy.block_terms} * {copy.block_terms}"
            with block.scope(f"for (int t = {begin}; t < {terms}; ++t)"):
                self._row(block, column, short=False)
        return (copy.text(),)
