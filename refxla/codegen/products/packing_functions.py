"""Copies between memory and panels, strips or results, as functions that the matrix products of a program share.

The sizes of a product are arguments; so equal copies are compiled once, and a product's own text is little more than
the calls. They copy plain memory; everything else is written inline (panels.py, dot.py, gemm.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..c_block import Block
from .packing import VECTORS, open_columns, vector_type

PANELS_AT_ONCE = 16  # panels that a copy along rows of memory fills at a time
STRIPS_PER_TEST = 4  # strips that are copied between one test and the next
# (type, accumulation type) -> elements in a word, and C that takes one of them out of each word of vector w: a word is
# shifted up until the element ends it, and down until the element begins it.
WORDS = {
    ("bf16", "f32"): (2, "as_float8(as_uint8({w}) << {up}u & 0xffff0000u)"),
    ("s8", "u32"): (4, "as_uint8(as_int8({w} << {up}u) >> {down})"),
    ("u8", "u32"): (4, "{w} << {up}u >> {down}u"),
    ("s16", "u32"): (2, "as_uint8(as_int8({w} << {up}u) >> {down})"),
    ("u16", "u32"): (2, "{w} << {up}u >> {down}u"),
}


@dataclass(frozen=True)
class PackingCopy:
    """The common part of the copies: the accumulation type, the adjacent elements in a panel or strip (`width`), and
    whether that is in global memory."""

    name: str
    width: int
    to_global: bool

    @property
    def element(self) -> str:
        return VECTORS[self.name][0]

    @property
    def space(self) -> str:
        """The address space of the panels, as a prefix."""
        return "__global " if self.to_global else ""

    @property
    def suffix(self) -> str:
        return f"{self.name}_{self.width}_{'g' if self.to_global else 'p'}"

    def parameters(self, *rest: str) -> str:
        """Its source (`from`), its destination (`to`), and further parameters."""
        from_, to = f"__global const {self.element}* restrict from", f"{self.space}{self.element}* restrict to"
        return ", ".join([from_, to, *rest])

    def vector(self, block: Block, bytes: int = 32) -> None:
        """Declares `vector`, which may be at the address of any element."""
        block.line(f"typedef {vector_type(self.name, bytes)} __attribute__((aligned(sizeof({self.element})))) vector;")


@dataclass(frozen=True)
class RowsToPanels(PackingCopy):
    """Panels of a matrix with adjacent columns in memory, and rows `step` apart; panels begin `apart` from each other.
    After the last of `columns` columns, a panel has zeros."""

    @property
    def function(self) -> str:
        return f"panels_of_rows_{self.suffix}"

    def call(self, source: str, step: int, to: str, apart: int, terms: str, columns: str) -> str:
        return f"{self.function}({source}, {to}, {step}, {apart}, {terms}, {columns});"

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, width = Block(), self.width
        numbers = "const long step", "const long apart", "const int terms", "const int columns"
        with block.scope(f"void {self.function}({self.parameters(*numbers)})"):
            self.vector(block)
            # Along rows of memory: some panels, then the next term.
            with (
                block.scope(f"for (int n0 = 0; n0 < columns; n0 += {PANELS_AT_ONCE * width})"),
                block.scope("for (int t = 0; t < terms; ++t)"),
                block.scope(f"for (int n = n0; n < n0 + {PANELS_AT_ONCE * width} && n < columns; n += {width})"),
            ):
                block.line(f"__global const {self.element}* const x = from + t * step + n;")
                block.line(f"{self.space}{self.element}* const y = to + n / {width} * apart + t * {width};")
                with block.scope(f"if (n + {width} <= columns)"):
                    for u in range(0, width, VECTORS[self.name][1]):
                        block.line(f"*({self.space}vector*)(y + {u}) = *(__global const vector*)(x + {u});")
                with block.scope("else"):
                    block.line(f"for (int u = 0; u < {width}; ++u) y[u] = n + u < columns ? x[u] : 0;")
        return block.text()


@dataclass(frozen=True)
class ColumnsToPanel(PackingCopy):
    """A panel of a matrix of element type `source` whose columns are contiguous in memory, `step` words of an
    accumulator's width apart: blocks of them are transposed in registers. With several elements in a word, terms that
    do not fill a block are left out. If they are `exchanged`, the halves of a word change places."""

    source: str
    exchanged: bool = False

    @property
    def packed(self) -> int:
        """How many elements a word holds, if there are several and words can be unpacked; otherwise 1."""
        return WORDS.get((self.source, self.name), (1, ""))[0]

    @property
    def block_terms(self) -> int:
        """How many terms a block has."""
        return VECTORS[self.name][1] * self.packed

    @property
    def function(self) -> str:
        kind = "exchanged_" if self.exchanged else self.source + "_" if self.packed > 1 else ""
        return f"panel_of_columns_{kind}{self.suffix}"

    def call(self, source: str, step: int, to: str, terms: str, columns: int) -> str:
        return f"{self.function}({source}, {to}, {step}, {terms}, {columns});"

    def text(self) -> str:
        """The function, without what says how it is compiled. It copies so many columns, in whole vectors."""
        block, width, lanes = Block(), self.width, VECTORS[self.name][1]
        parameters = self.parameters("const long step", "const int terms", "const int columns")
        with block.scope(f"void {self.function}({parameters})"):
            self.vector(block)
            # A cache line is read as a whole: the lines of columns that are a power of two apart evict each other.
            least, most = lanes * self.packed, 2 * lanes if self.packed == 1 else lanes
            block.line("int t = 0;")
            with block.scope(f"for (int words; t + {least} <= terms; t += words * {self.packed})"):
                block.line(f"words = t + {most * self.packed} <= terms ? {most} : {lanes};")
                with block.scope(f"for (int u = 0; u < columns; u += {lanes})"):
                    block.line(f"__global const {self.element}* x = from + u * step + t / {self.packed};")
                    block.line(f"{self.space}{self.element}* y = to + t * {width} + u;")
                    self._columns(block)
            if self.packed == 1:
                with block.scope("for (; t < terms; ++t)"):
                    value = "from[u * step + t]"
                    if self.exchanged:
                        value = f"as_float(as_uint({value}) << 16u | as_uint({value}) >> 16u)"
                    block.line(f"for (int u = 0; u < columns; ++u) to[t * {width} + u] = {value};")
        return block.text()

    def _columns(self, block: Block) -> None:
        """Stores `words` words of each column, half as many at a time as a vector has lanes: in a loop, which compiles
        in a third of the time that the unrolled code takes."""
        packed, parts = WORDS.get((self.source, self.name), (1, "{w}"))
        if self.exchanged:
            parts = "as_float8(as_uint8({w}) << 16u | as_uint8({w}) >> 16u)"
        words = VECTORS[self.name][1] // 2
        block.line("#pragma clang loop unroll(disable)")
        with block.scope(f"for (int w = 0; w < words; w += {words}, x += {words}, y += {words * packed * self.width})"):
            open_columns(block, self.name, "x", "step", "r", packed)
            for i in range(words):
                for e in range(packed):
                    value = parts.format(w=f"r[{i}]", up=32 - 32 // packed * (e + 1), down=32 - 32 // packed)
                    block.line(f"*({self.space}vector*)(y + {(i * packed + e) * self.width}) = {value};")


@dataclass(frozen=True)
class WindowsToPanel(PackingCopy):
    """A panel of a matrix whose columns are contiguous in memory, `step` elements apart, but in another order of terms,
    as in filters that store a window for each feature: term t in memory is row t % taps * apart + t / taps of the
    panel."""

    @property
    def function(self) -> str:
        return f"panel_of_windows_{self.suffix}"

    def call(self, source: str, step: int, to: str, terms: int, taps: int, apart: int) -> str:
        return f"{self.function}({source}, {to}, {step}, {terms}, {taps}, {apart});"

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, width, lanes = Block(), self.width, VECTORS[self.name][1]
        half = lanes // 2
        numbers = "const long step", "const int terms", "const int taps", "const int apart"
        with block.scope(f"void {self.function}({self.parameters(*numbers)})"):
            self.vector(block)
            block.line("int t = 0, first_tap = 0, first_row = 0;  // t % taps, t / taps")
            # Cache lines are read as a whole, as in ColumnsToPanel.
            with block.scope(f"for (int some; t + {lanes} <= terms; t += some)"):
                block.line(f"some = t + {2 * lanes} <= terms ? {2 * lanes} : {lanes};")
                block.line("first_tap = t % taps;")
                block.line("first_row = t / taps;")
                with block.scope(f"for (int u = 0; u < {width}; u += {lanes})"):
                    block.line(f"__global const {self.element}* x = from + u * step + t;")
                    block.line("int tap = first_tap, row = first_row;")
                    block.line("#pragma clang loop unroll(disable)")
                    with block.scope(f"for (int w = 0; w < some; w += {half}, x += {half})"):
                        open_columns(block, self.name, "x", "step", "r")
                        for i in range(half):
                            place = f"to + (tap * apart + row) * {width} + u"
                            block.line(f"*({self.space}vector*)({place}) = r[{i}];")
                            block.line("tap = tap + 1 == taps ? 0 : tap + 1;")
                            block.line("row += tap == 0;")
            with block.scope("for (; t < terms; ++t)"):
                block.line(f"{self.space}{self.element}* const y = to + (t % taps * apart + t / taps) * {width};")
                block.line(f"for (int u = 0; u < {width}; ++u) y[u] = from[u * step + t];")
        return block.text()


@dataclass(frozen=True)
class ColumnsToStrips(PackingCopy):
    """Strips of `width` rows of a matrix with adjacent rows in memory, and terms `step` apart; strips begin `apart`
    from each other. Places of a strip after the last of `rows` rows are left unchanged."""

    @property
    def function(self) -> str:
        return f"strips_of_columns_{self.suffix}"

    def call(self, source: str, step: int, to: str, apart: int, terms: str, rows: str) -> str:
        return f"{self.function}({source}, {to}, {step}, {apart}, {terms}, {rows});"

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, width = Block(), self.width
        numbers = "const long step", "const long apart", "const int terms", "const int rows"
        with block.scope(f"void {self.function}({self.parameters(*numbers)})"):
            self.vector(block, 32 * width // VECTORS[self.name][1])
            with block.scope("for (int t = 0; t < terms; ++t)"):
                block.line(f"__global const {self.element}* x = from + t * step;")
                block.line(f"{self.space}{self.element}* y = to + t * {width};")
                block.line("int left = rows;")
                for strips in (STRIPS_PER_TEST, 1):
                    size = strips * width
                    with block.scope(f"for (; left >= {size}; left -= {size}, x += {size}, y += {strips} * apart)"):
                        for s in range(strips):
                            value = f"*(__global const vector*)(x + {s * width})"
                            block.line(f"*({self.space}vector*)(y + {s} * apart) = {value};")
                block.line("for (int u = 0; u < left; ++u) y[u] = x[u];")
        return block.text()


@dataclass(frozen=True)
class SumsToRows(PackingCopy):
    """A panel's sums, `width` adjacent ones for each row, to `columns` columns of the rows of a matrix in memory,
    `step` elements apart."""

    @property
    def function(self) -> str:
        return f"rows_of_sums_{self.suffix}"

    def call(self, sums: str, to: str, step: int, rows: str, columns: str) -> str:
        return f"{self.function}({sums}, {to}, {step}, {rows}, {columns});"

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, width, element = Block(), self.width, self.element
        from_, to = f"const {element}* restrict from", f"{self.space}{element}* restrict to"
        rest = "const long step, const int rows, const int columns"
        with (
            block.scope(f"void {self.function}({from_}, {to}, {rest})"),
            block.scope("for (int i = 0; i < rows; ++i)"),
        ):
            self.vector(block)
            block.line(f"const {element}* const x = from + i * {width};")
            block.line(f"{self.space}{element}* const y = to + i * step;")
            with block.scope(f"if (columns == {width})"):
                for u in range(0, width, VECTORS[self.name][1]):
                    block.line(f"*({self.space}vector*)(y + {u}) = *(const vector*)(x + {u});")
            with block.scope("else"):
                block.line("for (int u = 0; u < columns; ++u) y[u] = x[u];")
        return block.text()


@dataclass(frozen=True)
class SumsToColumns(PackingCopy):
    """A panel's sums, `width` adjacent ones for each row, transposed: the sums of a column, of at most `most` rows,
    become adjacent. Both are in private memory."""

    most: int

    @property
    def function(self) -> str:
        return f"columns_of_sums_{self.suffix}_{self.most}"

    def call(self, sums: str, to: str, rows: str) -> str:
        return f"{self.function}({sums}, {to}, {rows});"

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, width, element, lanes = Block(), self.width, self.element, VECTORS[self.name][1]
        pointers = f"const {element}* restrict from, {element}* restrict to"
        with block.scope(f"void {self.function}({pointers}, const int rows)"):
            self.vector(block)
            block.line("int i = 0;")
            with block.scope(f"for (; i + {lanes} <= rows; i += {lanes})"):
                block.line("#pragma clang loop unroll(disable)")
                with block.scope(f"for (int u = 0; u < {width}; u += {lanes // 2})"):
                    open_columns(block, self.name, f"from + i * {width} + u", width, "r", space="")
                    for n in range(lanes // 2):
                        block.line(f"*(vector*)(to + (u + {n}) * {self.most} + i) = r[{n}];")
            with block.scope("for (; i < rows; ++i)"):
                block.line(f"for (int u = 0; u < {width}; ++u) to[u * {self.most} + i] = from[i * {width} + u];")
        return block.text()
