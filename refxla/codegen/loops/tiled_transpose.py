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
from typing import NamedTuple

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access, AccessPattern, FunctionCall, Store
from ...analysis.index_expression import Index, delinearize, variable
from ...device.description import LINE
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from . import fast_path_math
from .non_temporal_stores import lines_of, size_of, storage
from .strip_mining import StripMinedLoop
from .transpose_schedule import AT_ONCE, TransposeNest, TransposeSchedule, across

PREFETCH_BYTES = 1024  # bytes of a row by which prefetches are ahead of the transposes


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


class _Place(NamedTuple):
    """An address (C) for transposed elements, with `stride` elements between columns."""

    address: str
    stride: int


class _Lines(NamedTuple):
    """The arrays of an output that is written past the caches: the elements that are `collected` of a block, and those
    that are `left` of each column of the panel after its last whole line."""

    collected: str
    left: str


class TiledTranspose:
    """The loops of a nest by a schedule."""

    def __init__(self, nest: TransposeNest, schedule: TransposeSchedule) -> None:
        self.nest, self.schedule = nest, schedule
        self.items = schedule.items

    def emit(self, e: ElementalIrEmitter, block: Block, number: Index) -> None:
        """The statements of an item."""
        _Item(self.nest, self.schedule, e, block).emit(number)


class _Item:
    """Emits an item. `transposed` are the arrays of the transposed inputs, `lines` those of outputs that are written
    past the caches."""

    def __init__(self, nest: TransposeNest, schedule: TransposeSchedule, e: ElementalIrEmitter, block: Block) -> None:
        self.nest, self.schedule, self.e, self.block = nest, schedule, e, block
        fresh = e.names.fresh
        self.transposed = [fresh("transposed") for _ in schedule.inputs]
        written = schedule.outputs if schedule.non_temporal else ()
        self.lines = {o: _Lines(fresh("lines"), fresh("left")) for o in written}

    def emit(self, number: Index) -> None:
        """The arrays and the loops."""
        s, e, block = self.schedule, self.e, self.block
        fresh = e.names.fresh
        counts = list(self.nest.sizes)
        counts[s.inner], counts[s.group] = s.spans, s.panels
        if not (s.straight and s.non_temporal):
            for name, i in zip(self.transposed, s.inputs, strict=True):
                self._declare(name, i, (s.width + _spare(i)) * s.height)
        for o, (collected, left) in self.lines.items():
            self._declare(collected, o, (s.width + _spare(o)) * self._gathered(o))
            self._declare(left, o, s.panel * (LINE // size_of(o)))
        with StripMinedLoop(e, block, number, s.per_item, s.units).loop() as unit:
            at = list(delinearize(unit, counts))
            first_row, last_row = self._bounds(at[s.inner], s.span, s.rows)
            first_column, last_column = self._bounds(at[s.group], s.panel, s.columns)
            row, column = fresh("r"), fresh("c")
            # The rest of the last lines is written by a final strip, which may have no rows.
            head = "" if s.non_temporal else f"{row} < {last_row}"
            with block.scope(f"for (int {row} = {first_row}; {head}; {row} += {s.height})"):
                rows = self._least(f"{last_row} - {row}", s.height)
                with block.scope(
                    f"for (int {column} = {first_column}; {column} < {last_column}; {column} += {s.width})"
                ):
                    columns = self._least(f"{last_column} - {column}", s.width)
                    at[s.inner] = variable(row, 0, max(s.rows, 2) - 1)
                    at[s.group] = variable(column, 0, max(s.columns, 2) - 1)
                    here = _Block(row, column, rows, columns, first_row, first_column, last_column, tuple(at))
                    self._emit_block(here)
                if s.non_temporal:
                    block.line(f"if ({rows} < {s.height}) break;")
        if s.non_temporal:
            block.line("RX_FENCE();")

    def _bounds(self, part: Index, size: int, limit: int) -> tuple[str, str]:
        """Declares the C variables for the bounds of a part."""
        first, last = self.e.names.fresh("b"), self.e.names.fresh("e")
        end = f"{first} + {size}"
        if limit % size:
            end = f"{end} < {limit} ? {end} : {limit}"
        self.block.line(f"const int {first} = {c_of(part * size)};")
        self.block.line(f"const int {last} = {end};")
        return first, last

    def _least(self, value: str, bound: int) -> str:
        """Declares a C variable with the lesser of a value and a bound."""
        name = self.e.names.fresh("n")
        self.block.line(f"const int {name} = {value} < {bound} ? {value} : {bound};")
        return name

    def _declare(self, name: str, i: Instruction, count: int) -> None:
        self.block.line(f"{storage(i)} {name}[{count}] __attribute__((aligned({LINE})));")

    def _gathered(self, output: Instruction) -> int:
        """The elements of a column that are collected: those of a strip, and less than a line before them."""
        return LINE // size_of(output) + self.schedule.height

    def _emit_block(self, b: _Block) -> None:
        s, e, block = self.schedule, self.e, self.block
        pattern = self.nest.pattern(b.at)
        stores = [e.adopt(store, pattern, block) for store in pattern.stores] if s.straight or self.lines else []
        place: _Place | None = None  # of the elements of a nest that only moves them
        if s.straight and s.non_temporal:
            output = stores[0].instruction
            place = _Place(self._strip(output), self._gathered(output))
        elif s.straight:
            position = stores[0].position
            place = _Place(f"{e.output(stores[0].instruction)} + ({c_of(position)})", position.stride(b.column))
        with block.scope(f"if ({b.rows} > 0)" if s.non_temporal else ""):
            accesses = [e.adopt(a, pattern, block) for a in across(pattern.accesses, b.row, b.column)]
            if place is not None and s.non_temporal:
                self._emit_transpose(b, accesses[0], place)
            elif s.rows % s.height == 0 and not s.non_temporal:
                self._emit_strip(b, accesses, place)
            else:
                with block.scope(f"if ({b.rows} == {s.height})"):
                    self._emit_strip(b._replace(rows=str(s.height)), accesses, place)
                with block.scope("else"):
                    self._emit_strip(b, accesses, None)
        for store in stores if self.lines else ():
            self._emit_lines(b, store)

    def _emit_lines(self, b: _Block, store: Store) -> None:
        """Writes the whole lines of what is collected of an output."""
        output, (collected, left) = store.instruction, self.lines[store.instruction]
        to = f"{self.e.output(output)} + ({c_of(store.position)})"
        tail = f"{left} + ({b.column} - {b.first_column}) * {LINE // size_of(output)}"
        own = f"{collected} + {_spare(output) * self._gathered(output)}"
        first = f"{b.row} == {b.first_row}"
        step = store.position.stride(b.column)
        self.block.line(lines_of(output, to, step, own, tail, b.columns, b.rows, self.schedule.height, first))

    def _strip(self, output: Instruction) -> str:
        """The start of a block's elements among the collected ones, after a line for earlier ones."""
        before = _spare(output) * self._gathered(output) + LINE // size_of(output)
        return f"{self.lines[output].collected} + {before}"

    def _emit_strip(self, b: _Block, accesses: Sequence[Access], to: _Place | None) -> None:
        """The computation of a block; elements that are only moved go directly to a place."""
        e, block, height = self.e, self.block, self.schedule.height
        if to is not None:
            self._emit_transpose(b, accesses[0], to)
            return
        for name, access in zip(self.transposed, accesses, strict=True):
            self._emit_transpose(b, access, _Place(f"{name} + {_spare(access.instruction) * height}", height))
        x = e.names.fresh("i")
        column = _Column(self, b, x)

        def compute(row: Index) -> None:
            for o in self.lines:
                place = f"{self._strip(o)} + ({x} - {b.column}) * {self._gathered(o)}"
                e.gather(o, f"({place})[{c_of(row)} - {b.row}]")
            self.nest.emit_body(e, block, column.at(row))
            for o in self.lines:
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

    def _emit_transpose(self, b: _Block, access: Access, to: _Place) -> None:
        """The block of an input, transposed to a place."""
        e, block = self.e, self.block
        sign, step = access.position.stride(b.column), access.position.stride(b.row)
        source = e.address(access.instruction, access.indices)
        if self.schedule.in_registers:
            bits = 8 * size_of(access.instruction)
            block.line(f"rx_transpose_u{bits}((ulong)({source}), {step}l, {b.rows}, {b.columns}, {sign}, "
                       f"{self._prefetch_distance(b, access)}, (ulong)({to.address}), {to.stride}l);")  # fmt: skip
            return
        c, r = e.names.fresh("i"), e.names.fresh("i")
        with (
            block.scope(f"for (int {c} = 0; {c} < {b.columns}; ++{c})"),
            block.scope(f"for (int {r} = 0; {r} < {b.rows}; ++{r})"),
        ):
            block.line(f"({to.address})[{c} * {to.stride} + {r}] = ({source})[{r} * {step}l + {c} * {sign}];")

    def _prefetch_distance(self, b: _Block, access: Access) -> str:
        """The distance, in elements, from a block to one that is read some blocks later, in the same rows or the next
        ones; 0 if nothing is prefetched."""
        s, sign, step = self.schedule, access.position.stride(b.column), access.position.stride(b.row)
        if not s.non_temporal or abs(step) * size_of(access.instruction) <= LINE:  # the hardware prefetcher does it
            return "0l"
        ahead = max(s.width, min(PREFETCH_BYTES // size_of(access.instruction), s.panel))
        below = f"{step * s.height}l + {sign} * ({ahead} - ({b.last_column} - {b.first_column}))"
        return f"({b.last_column} - {b.column} > {ahead} ? {sign * ahead} : {below})"


class _Column:
    """A column of a block, in the loop over the C variable `name`: its elements by their rows, whose inputs are in the
    arrays of the transposed inputs."""

    def __init__(self, item: _Item, b: _Block, name: str) -> None:
        self._item, self._b, self._name = item, b, name

    def row(self, name: str) -> Index:
        """The index of a row."""
        return variable(name, 0, max(self._item.schedule.rows, 2) - 1)

    def at(self, row: Index) -> list[Index]:
        """The indices of the nest's groups at a row."""
        s, at = self._item.schedule, list(self._b.at)
        at[s.inner], at[s.group] = row, variable(self._name, 0, max(s.columns, 2) - 1)
        return at

    def bind(self, row: Index) -> AccessPattern:
        """Binds the inputs of an element to their transposed values. Returns what the element reads, calls and
        stores."""
        item, e, block = self._item, self._item.e, self._item.block
        pattern = item.nest.pattern(self.at(row))
        for name, source in zip(item.transposed, across(pattern.accesses, c_of(row), self._name), strict=True):
            access = e.adopt(source, pattern, block)
            i = access.instruction
            column = f"{self._name} - {self._b.column} + {_spare(i)}"
            place = f"{name}[({column}) * {item.schedule.height} + {c_of(row)} - {self._b.row}]"
            value = e.assign(type_name(i), scalar.load_in_loop(type_name(i), place), block)
            e.bind(i, access.indices, value)
        return pattern

    def functions(self) -> list[Instruction]:
        """The functions of its elements that are computed in pieces."""
        row = self.row("?")
        pattern = self._item.nest.pattern(self.at(row))
        return [call.instruction for call in fast_path_math.pieces(pattern.calls, row)]

    def calls(self, row: Index) -> list[FunctionCall]:
        """The calls of these functions at a row."""
        pattern, e, block = self.bind(row), self._item.e, self._item.block
        return [e.adopt(call, pattern, block) for call in fast_path_math.pieces(pattern.calls, row)]


def _spare(i: Instruction) -> int:
    """Columns of padding before a block, since it is read sixteen bytes at a time."""
    return max(0, AT_ONCE // size_of(i) - 1)
