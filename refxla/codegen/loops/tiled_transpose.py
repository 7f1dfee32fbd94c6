"""The loops of a nest in which some reads run across memory: a transpose, alone or fused with other work.

The innermost group of indices, along which results are written, counts the rows of such a read; another group, along
which it is read, its columns. A unit of work is a panel of columns, walked down its rows a few at a time:

    for each strip of `height` rows:
        for each block of `width` columns, about a line of what is read:
            transpose the block of each such input in vector registers, into a private array
            for each column of the block:  for each of its rows:  compute, from there, and store

Elements that are only moved are transposed directly into the result. If the results are larger than the caches, a block
is collected in a private array and written past the caches in whole lines: then lines are not read before they are
written, and evict nothing. Rows of results may begin anywhere in a line, so each column of a panel keeps the elements
after its last whole line until it is written again; those before its first line and after its last one are stored one
by one, since other items have the rest of these lines. Lines are written while others are read, so each block is small,
and prefetches what is read some blocks later. A panel has no more columns than the TLB has pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Protocol

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access, AccessPattern, FunctionCall, Store
from ...analysis.index_expression import Index, delinearize, variable
from ...device.description import LINE, Target
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from . import fast_path_math
from .non_temporal_stores import is_moved, lines_of, size_of, storage
from .strip_mining import StripMinedLoop

REACH = 4  # elements between consecutive reads, from which on they run across memory
FAR = 16  # of them, from which on transposing them one by one in the caches pays
MAX_INPUTS = 4  # whose blocks are transposed
PANEL = 128  # columns of a panel whose results stay in the caches
PAGES = 2048  # columns of a panel otherwise, since each may be in a page of its own
LEAST_PIECE = 64  # rows of a strip with functions in pieces (fast_path_math.py), at least
RUN = 256  # bytes of a column of results that are written at a time
MOST_ROWS = 256  # of a strip then: what is read of them at a time stays in the first-level cache
NON_TEMPORAL_PART = 2  # results of at least this part of the last cache are written past it
NON_TEMPORAL_ITEMS = 2  # for each core then, if there are enough: few long columns are best
EVEN = 1.05  # times the shortest total time, which longer columns may cost
PREFETCH_BYTES = 1024  # bytes of a row by which prefetches are ahead of the transposes
AT_ONCE = 16  # bytes of a row that are read at once
SAME_PLACES = 1024  # bytes: lines at a multiple of this distance compete for few places of a cache


class TransposeNest(Protocol):
    """What is needed of the nest: its groups' sizes, whether it calls functions of fast_path_math.py, and its body at
    indices of the groups."""

    sizes: list[int]
    has_fast_path: bool

    def emit_body(self, e: ElementalIrEmitter, block: Block, at: Sequence[Index]) -> None: ...

    def pattern(self, at: Sequence[Index]) -> AccessPattern: ...


def across(accesses: Sequence[Access], row: str, column: str) -> list[Access]:
    """The accesses that run across memory with the variable `row` and along it with `column`, each once."""
    by_element: dict[tuple[Instruction, tuple[Index, ...]], Access] = {}
    for a in accesses:
        step = a.position.factor(row)
        if a.conditional or step is None or abs(step) < REACH or a.position.factor(column) not in (1, -1):
            continue
        if len(by_element) < MAX_INPUTS:
            by_element[a.instruction, a.indices] = a
    return list(by_element.values())


class _Block(NamedTuple):
    """As C, the variables of a block's first row and column, its numbers of rows and columns, and the bounds of the
    unit's rows and columns; and the indices of its first element."""

    row: str
    column: str
    rows: str
    columns: str
    first_row: str
    first_column: str
    last_column: str
    at: tuple[Index, ...]


class TiledTranspose:
    """The loops of `nest` whose reads run along group `columns` and across the innermost one."""

    def __init__(self, nest: TransposeNest, columns: int, chunk: int, target: Target) -> None:
        self.nest, self.group, self.inner, self.target = nest, columns, len(nest.sizes) - 1, target
        self.rows, self.columns = nest.sizes[self.inner], nest.sizes[columns]
        pattern = nest.pattern([variable(f"g{n}", 0, size - 1) for n, size in enumerate(nest.sizes)])
        inputs = across(pattern.accesses, f"g{self.inner}", f"g{columns}")
        self.inputs, self.outputs = [a.instruction for a in inputs], [s.instruction for s in pattern.stores]
        reads, writes = list(map(size_of, self.inputs)), list(map(size_of, self.outputs))
        self.height, self.width = LINE // min(*reads, *writes), max(4, LINE // max(reads))
        if nest.has_fast_path:
            self.height = max(self.height, LEAST_PIECE)
        along = all(s.position.factor(f"g{self.inner}") == 1 for s in pattern.stores)
        self.in_registers = target.capabilities.vector_shuffles and all(
            n <= 8 and AT_ONCE // n <= self.columns for n in reads
        )
        single = self.in_registers and along and len(inputs) == len(pattern.stores) == 1
        self.moved = single and is_moved(inputs[0], pattern.stores[0])
        size = prod(nest.sizes)
        far = any(abs(a.position.stride(f"g{self.inner}")) >= FAR for a in inputs)
        large = sum(writes) * size >= target.caches.last // NON_TEMPORAL_PART
        self.non_temporal = target.capabilities.non_temporal_stores and along and large
        self.pays = far or self.non_temporal or self.in_registers
        panel, chunk = PANEL, max(chunk, self.height * self.width)
        if self.non_temporal:
            self.height = max(min(RUN // max(writes), MOST_ROWS), LINE // min(writes), 2 * AT_ONCE // min(reads))
            panel = PAGES // len(writes)
            chunk = max(chunk, size // (NON_TEMPORAL_ITEMS * target.compute_units))
        parts = -(-self.columns // max(panel, self.width))
        self.panel = -(-self.columns // (parts * self.width)) * self.width
        self.panels = -(-self.columns // self.panel)
        panels = size // (self.rows * self.columns) * self.panels
        parts = max(1, self.rows * min(self.panel, self.columns) // chunk)
        self.span = -(-self.rows // (parts * self.height)) * self.height
        if self.non_temporal:
            self.span = self._even_span(panels)
        self.spans = -(-self.rows // self.span)
        self.units = panels * self.spans
        self.per_item = 1 if self.non_temporal else -(-self.units // max(1, size // chunk))
        self.items = -(-self.units // self.per_item)
        self.straight = self.moved and (self.non_temporal or self._is_apart(pattern.stores[0], f"g{columns}"))

    def _even_span(self, panels: int) -> int:
        """The most rows of an item, up to the present number, with which the last core finishes about as early as with
        any number."""
        cores, spans = self.target.compute_units, range(self.span, 0, -self.height)
        makespan = {span: -(-panels * -(-self.rows // span) // cores) * span for span in spans}
        most = EVEN * min(makespan.values())
        return next(span for span in spans if makespan[span] <= most)

    def _is_apart(self, store: Store, column: str) -> bool:
        """Whether elements can be moved directly into a result: no columns before the last panel's would be moved
        again, and the lines of a block do not evict each other from their few places in a cache."""
        size = size_of(store.instruction)
        last = self.columns - (self.panels - 1) * self.panel
        return last >= AT_ONCE // size and store.position.stride(column) * size % SAME_PLACES != 0

    def emit(self, e: ElementalIrEmitter, block: Block, number: Index) -> None:
        """The statements of an item."""
        fresh = e.names.fresh
        counts = list(self.nest.sizes)
        counts[self.inner], counts[self.group] = self.spans, self.panels
        transposed = [fresh("transposed") for _ in self.inputs]
        if not (self.straight and self.non_temporal):
            for name, i in zip(transposed, self.inputs, strict=True):
                _declare(block, name, i, (self.width + _spare(i)) * self.height)
        lines = {o: (fresh("lines"), fresh("left")) for o in self.outputs if self.non_temporal}
        for o, (name, rest) in lines.items():
            _declare(block, name, o, (self.width + _spare(o)) * self._gathered(o))
            _declare(block, rest, o, self.panel * (LINE // size_of(o)))
        with StripMinedLoop(e, block, number, self.per_item, self.units).loop() as unit:
            at = list(delinearize(unit, counts))
            first_row, last_row = self._bounds(e, block, at[self.inner], self.span, self.rows)
            first_column, last_column = self._bounds(e, block, at[self.group], self.panel, self.columns)
            row, column = fresh("r"), fresh("c")
            # The rest of the last lines is written by a final strip, which may have no rows.
            head = "" if self.non_temporal else f"{row} < {last_row}"
            with block.scope(f"for (int {row} = {first_row}; {head}; {row} += {self.height})"):
                rows = _least(e, block, f"{last_row} - {row}", self.height)
                with block.scope(
                    f"for (int {column} = {first_column}; {column} < {last_column}; {column} += {self.width})"
                ):
                    columns = _least(e, block, f"{last_column} - {column}", self.width)
                    at[self.inner] = variable(row, 0, max(self.rows, 2) - 1)
                    at[self.group] = variable(column, 0, max(self.columns, 2) - 1)
                    here = _Block(row, column, rows, columns, first_row, first_column, last_column, tuple(at))
                    self._emit_block(e, block, here, transposed, lines)
                if self.non_temporal:
                    block.line(f"if ({rows} < {self.height}) break;")
        if self.non_temporal:
            block.line("RX_FENCE();")

    def _bounds(self, e: ElementalIrEmitter, block: Block, part: Index, size: int, limit: int) -> tuple[str, str]:
        """Declares the C variables for the bounds of a part."""
        first, last = e.names.fresh("b"), e.names.fresh("e")
        end = f"{first} + {size}"
        if limit % size:
            end = f"{end} < {limit} ? {end} : {limit}"
        block.line(f"const int {first} = {c_of(part * size)};")
        block.line(f"const int {last} = {end};")
        return first, last

    def _gathered(self, output: Instruction) -> int:
        """The elements of a column that are collected: those of a strip, and less than a line before them."""
        return LINE // size_of(output) + self.height

    def _emit_block(
        self, e: ElementalIrEmitter, block: Block, b: _Block, transposed: Sequence[str],
        lines: dict[Instruction, tuple[str, str]],
    ) -> None:  # fmt: skip
        pattern = self.nest.pattern(b.at)
        stores = [e.adopt(s, pattern, block) for s in pattern.stores] if self.straight or lines else []
        if self.straight:
            store = stores[0]
            step = store.position.stride(b.column)
            to = f"{e.output(store.instruction)} + ({c_of(store.position)})"
            if self.non_temporal:
                step = self._gathered(store.instruction)
                to = self._strip(store.instruction, lines)
        with block.scope(f"if ({b.rows} > 0)" if self.non_temporal else ""):
            accesses = [e.adopt(a, pattern, block) for a in across(pattern.accesses, b.row, b.column)]
            if self.straight and self.non_temporal:
                self._emit_transpose(e, block, b, accesses[0], to, step)
            elif self.rows % self.height == 0 and not self.non_temporal:
                self._emit_strip(e, block, b, accesses, transposed, lines, (to, step) if self.straight else None)
            else:
                with block.scope(f"if ({b.rows} == {self.height})"):
                    whole = b._replace(rows=str(self.height))
                    self._emit_strip(
                        e, block, whole, accesses, transposed, lines, (to, step) if self.straight else None
                    )
                with block.scope("else"):
                    self._emit_strip(e, block, b, accesses, transposed, lines, None)
        for store in stores if lines else ():
            output, (name, rest) = store.instruction, lines[store.instruction]
            to = f"{e.output(output)} + ({c_of(store.position)})"
            tail = f"{rest} + ({b.column} - {b.first_column}) * {LINE // size_of(output)}"
            own = f"{name} + {_spare(output) * self._gathered(output)}"
            first = f"{b.row} == {b.first_row}"
            step = store.position.stride(b.column)
            block.line(lines_of(output, to, step, own, tail, b.columns, b.rows, self.height, first))

    def _strip(self, output: Instruction, lines: dict[Instruction, tuple[str, str]]) -> str:
        """The start of a block's elements among the collected ones, after a line for earlier ones."""
        return f"{lines[output][0]} + {_spare(output) * self._gathered(output) + LINE // size_of(output)}"

    def _emit_strip(
        self, e: ElementalIrEmitter, block: Block, b: _Block, accesses: Sequence[Access], transposed: Sequence[str],
        lines: dict[Instruction, tuple[str, str]], to: tuple[str, int] | None,
    ) -> None:  # fmt: skip
        """The computation of a block; elements that are only moved go directly to an address, with a stride between
        columns."""
        if to is not None:
            self._emit_transpose(e, block, b, accesses[0], *to)
            return
        for name, access in zip(transposed, accesses, strict=True):
            place = f"{name} + {_spare(access.instruction) * self.height}"
            self._emit_transpose(e, block, b, access, place, self.height)
        x = e.names.fresh("i")
        column = _Column(self, e, block, b, transposed, x)

        def compute(row: Index) -> None:
            for o in lines:
                place = f"{self._strip(o, lines)} + ({x} - {b.column}) * {self._gathered(o)}"
                e.gather(o, f"({place})[{c_of(row)} - {b.row}]")
            self.nest.emit_body(e, block, column.at(row))
            for o in lines:
                e.gather(o, None)

        bounds, functions = ("int", b.row, f"{b.row} + {b.rows}"), column.functions()
        with block.scope(f"for (int {x} = {b.column}; {x} < {b.column} + {b.columns}; ++{x})"):
            if functions:
                pieces = fast_path_math.pieces_of(e, block, bounds, column.row, functions, column.calls)
                with pieces as piece, piece.elements() as row:
                    column.bind(row)
                    compute(row)
                return
            y = e.names.fresh("i")
            with block.scope(f"for (int {y} = {bounds[1]}; {y} < {bounds[2]}; ++{y})"):
                column.bind(column.row(y))
                compute(column.row(y))

    def _emit_transpose(
        self, e: ElementalIrEmitter, block: Block, b: _Block, access: Access, to: str, stride: int
    ) -> None:
        """The block of an input, transposed to the address `to`, with `stride` elements between its columns."""
        sign, step = access.position.stride(b.column), access.position.stride(b.row)
        source = e.address(access.instruction, access.indices)
        if self.in_registers:
            bits = 8 * size_of(access.instruction)
            block.line(f"rx_transpose_u{bits}((ulong)({source}), {step}l, {b.rows}, {b.columns}, {sign}, "
                       f"{self._prefetch_distance(b, access)}, (ulong)({to}), {stride}l);")  # fmt: skip
            return
        c, r = e.names.fresh("i"), e.names.fresh("i")
        with (
            block.scope(f"for (int {c} = 0; {c} < {b.columns}; ++{c})"),
            block.scope(f"for (int {r} = 0; {r} < {b.rows}; ++{r})"),
        ):
            block.line(f"({to})[{c} * {stride} + {r}] = ({source})[{r} * {step}l + {c} * {sign}];")

    def _prefetch_distance(self, b: _Block, access: Access) -> str:
        """The distance, in elements, from a block to one that is read some blocks later, in the same rows or the next
        ones; 0 if nothing is prefetched."""
        sign, step = access.position.stride(b.column), access.position.stride(b.row)
        if not self.non_temporal or abs(step) * size_of(access.instruction) <= LINE:  # the hardware prefetcher does it
            return "0l"
        ahead = max(self.width, min(PREFETCH_BYTES // size_of(access.instruction), self.panel))
        below = f"{step * self.height}l + {sign} * ({ahead} - ({b.last_column} - {b.first_column}))"
        return f"({b.last_column} - {b.column} > {ahead} ? {sign * ahead} : {below})"


class _Column:
    """A column of a block, in the loop over the C variable `name`: its elements by their rows, whose inputs are in the
    arrays `transposed`."""

    def __init__(
        self,
        tiled: TiledTranspose,
        e: ElementalIrEmitter,
        block: Block,
        b: _Block,
        transposed: Sequence[str],
        name: str,
    ) -> None:
        self._tiled, self._elements, self._block, self._b, self._transposed = tiled, e, block, b, transposed
        self._name = name

    def row(self, name: str) -> Index:
        """The index of a row."""
        return variable(name, 0, max(self._tiled.rows, 2) - 1)

    def at(self, row: Index) -> list[Index]:
        """The indices of the nest's groups at a row."""
        at = list(self._b.at)
        at[self._tiled.inner], at[self._tiled.group] = row, variable(self._name, 0, max(self._tiled.columns, 2) - 1)
        return at

    def bind(self, row: Index) -> AccessPattern:
        """Binds the inputs of an element to their transposed values. Returns what the element reads, calls and
        stores."""
        e, pattern = self._elements, self._tiled.nest.pattern(self.at(row))
        for name, source in zip(self._transposed, across(pattern.accesses, c_of(row), self._name), strict=True):
            access = e.adopt(source, pattern, self._block)
            i = access.instruction
            column = f"{self._name} - {self._b.column} + {_spare(i)}"
            place = f"{name}[({column}) * {self._tiled.height} + {c_of(row)} - {self._b.row}]"
            value = e.assign(type_name(i), scalar.load_in_loop(type_name(i), place), self._block)
            e.bind(i, access.indices, value)
        return pattern

    def functions(self) -> list[Instruction]:
        """The functions of its elements that are computed in pieces."""
        row = self.row("?")
        return [call.instruction for call in fast_path_math.pieces(self._tiled.nest.pattern(self.at(row)).calls, row)]

    def calls(self, row: Index) -> list[FunctionCall]:
        """The calls of these functions at a row."""
        pattern = self.bind(row)
        return [self._elements.adopt(call, pattern, self._block) for call in fast_path_math.pieces(pattern.calls, row)]


def _least(e: ElementalIrEmitter, block: Block, value: str, bound: int) -> str:
    """Declares a C variable with the lesser of a value and a bound."""
    name = e.names.fresh("n")
    block.line(f"const int {name} = {value} < {bound} ? {value} : {bound};")
    return name


def _declare(block: Block, name: str, i: Instruction, count: int) -> None:
    block.line(f"{storage(i)} {name}[{count}] __attribute__((aligned({LINE})));")


def _spare(i: Instruction) -> int:
    """Columns of padding before a block, since it is read sixteen bytes at a time."""
    return max(0, AT_ONCE // size_of(i) - 1)
