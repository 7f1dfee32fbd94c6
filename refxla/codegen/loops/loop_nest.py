"""The loops over one segment of an elementwise kernel's index space, and how they fall into work items.

The innermost loop runs along memory. It is split where the outcome of a pad's or concatenate's test changes
(index_set_splitting.py), computes an element of each residue in an iteration where the outcome depends on a remainder
of its index (residue_loop.py), runs in pieces where it calls functions that are expensive for large operands
(fast_path_math.py), and stores large results past the caches (non_temporal_stores.py). item_schedules.py has what one
item computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import prod

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access, AccessPattern, FunctionCall, Store
from ...analysis.index_expression import Index, constant, delinearize, variable
from ...analysis.instruction_parallelism import vectors_at_once
from ...device.description import Target
from ...ir.op_table import ELEMENTWISE, FUNCTIONS, class_of, flops_of
from ...ir.plan import Fusion
from .. import work_items
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from . import fast_path_math, index_set_splitting, interleaved_row_copy, masked_tail, non_temporal_stores, residue_loop
from .index_set_splitting import Cut, Range, cut
from .index_space import Body, IndexSpace, Segment
from .interleaved_row_copy import InterleavedRowCopy
from .item_schedules import AppendedRows, ContiguousRows, ItemSchedule, JoinedRows, PartOfRow, WholeRows
from .row_prefetch import RowPrefetch
from .strip_mining import StripMinedLoop
from .tiled_transpose import TiledTranspose
from .transpose_schedule import TransposeSchedule, across

LEAST_CHUNK = 1024  # elements of an item, however expensive
WHOLE = 16  # elements: items have a multiple of this
EVEN_ITEMS = 64  # up to which it matters that all cores have equally many
LEAST_ALTERNATED = 64  # elements of a loop that interleaves several vectors


def is_function(i: Instruction) -> bool:
    """Whether a loop calls a function for it, or computes it in pieces."""
    return i.opcode in FUNCTIONS or fast_path_math.applies(i)


def chunk_of(fusion: Fusion, target: Target) -> int:
    """The elements that one item computes: fewer if they are expensive, and fewer if all cores would not have work
    otherwise, where that costs no launch."""
    inside = [i for i in fusion.instructions if class_of(i) == ELEMENTWISE]
    moved, costs = sum(i.shape.element_type.bits // 8 for i in (*fusion.inputs, *fusion.outputs)), target.costs
    ns = sum(flops_of(i) for i in inside) * costs.element_flop + moved * costs.byte
    chunk = max(LEAST_CHUNK, int(work_items.ELEMENTS / max(1.0, ns / work_items.CHEAP_NS)))
    size, cores = max(o.shape.size for o in fusion.outputs), target.compute_units
    items = -(-size // chunk)
    if target.persistent and size * ns >= costs.share * cores:
        items = max(items, cores)
    if items <= 1 or items >= EVEN_ITEMS:
        return chunk
    share = -(-size // (-(-items // cores) * cores))  # equally many for each core
    return -(-share // WHOLE) * WHOLE


class LoopNest(IndexSpace):
    """The loops over one segment: how its dimensions are grouped, and into how many items they fall. `written` counts
    the elements of all segments."""

    def __init__(self, fusion: Fusion, target: Target, segment: Segment, body: Body, written: int) -> None:
        self.target = target
        super().__init__(fusion, segment, body, is_function, may_unroll=True)
        pattern = self.whole_pattern
        self.has_fast_path = any(fast_path_math.applies(call.instruction) for call in pattern.calls)
        self.chunk = max(1, chunk_of(fusion, target) // self.iterations)
        self.prefetch = RowPrefetch(self, target)
        self.transpose = self._choose_transpose()
        inner = f"g{len(self.sizes) - 1}"
        self.is_dear = self.has_fast_path or any(map(is_function, fusion.instructions))
        vectorizes = target.capabilities.loop_vectorization
        self.vectors = vectors_at_once(fusion.instructions, segment.size) if vectorizes else 1
        may_be_non_temporal = self.transpose is None and not self.is_dear and self.vectors == 1
        self.non_temporal = may_be_non_temporal and non_temporal_stores.applies(
            target, pattern.stores, written, inner, self.sizes[-1]
        )
        self.cut = self._choose_cut(pattern)
        self.is_wide = False  # whether the kernel has the widest vectors, which depends on all of its nests
        self.is_first = True  # of the kernel's nests
        self.schedule = self._choose_schedule(written, may_be_non_temporal)

    @property
    def items(self) -> int:
        """The number of work items."""
        return self.schedule.items

    @property
    def by_rows(self) -> bool:
        """Whether items have whole rows."""
        return self.transpose is None and self.sizes[-1] < self.chunk

    def _choose_schedule(self, written: int, may_be_non_temporal: bool) -> ItemSchedule:
        """What an item computes. Contiguous rows go past the caches if that pays; `written` as for the class."""
        if self.transpose is not None:
            return self.transpose
        if not self.by_rows:
            return PartOfRow(self)
        if not may_be_non_temporal or self.cut is not None:
            return WholeRows(self)
        outer, run = self.sizes[:-1], self.sizes[-1]
        row, inner = variable("r", 0, prod(outer) - 1), variable("i", 0, run - 1)
        pattern = self.pattern((*delinearize(row, outer), inner))
        if non_temporal_stores.appends(self.target, pattern, written, "r", "i", run):
            return interleaved_row_copy.choose(self, self.target) or AppendedRows(self)
        if non_temporal_stores.joins(self.target, pattern.stores, written, "r", "i", run):
            return JoinedRows(self)
        return WholeRows(self)

    @property
    def gathers(self) -> int:
        """The number of loads and stores of a vector that are not contiguous."""
        name = f"g{len(self.sizes) - 1 - self.is_unrolled}"
        computed: set[str] = set()
        for symbol, start in self.starts.items():
            if any(not x.variables.isdisjoint({name, *computed}) for x in start.indices):
                computed.add(symbol)
        positions = [a.position for a in self.accesses] + [s.position for s in self.whole_pattern.stores]
        return sum(p.factor(name) not in (0, 1) or not computed.isdisjoint(p.variables) for p in positions)

    @property
    def is_run(self) -> bool:
        """Whether the segment is a contiguous copy."""
        if not self.target.capabilities.clang_builtins or self.transpose is not None or self.iterations > 1:
            return False
        if prod(self.sizes[:-1]) > 1:
            return False
        inner = f"g{len(self.sizes) - 1}"
        return self.cut is None and non_temporal_stores.moved(self.whole_pattern, inner) is not None

    def emit_run(self, e: ElementalIrEmitter, block: Block) -> None:
        """The statement that copies such a segment."""
        to, source = self.emit_moved(e, block, [constant(0)] * len(self.sizes))
        count, bits = non_temporal_stores.words(self.whole_pattern.stores[-1].instruction, str(self.sizes[-1]))
        block.line(f"rx_copy_u{bits}((ulong)({to}), (ulong)({source}), {count});")

    def emit(self, e: ElementalIrEmitter, block: Block, item: str, iterations: int) -> None:
        """The statements of one item, or for `iterations` > 1 of all items one after the other; `item` is a C
        expression."""
        if self.segment.size > 1:
            self._emit_invariants(e, block, self.whole_pattern, ())
        if iterations > 1:
            name = e.names.fresh("n")
            with block.scope(f"for (int {name} = 0; {name} < {iterations}; ++{name})"):
                self._emit_item(e, block, name)
        else:
            self._emit_item(e, block, item)

    def _emit_invariants(
        self, e: ElementalIrEmitter, block: Block, pattern: AccessPattern, outer: Sequence[Index]
    ) -> None:
        """Hoists functions that depend only on the indices `outer` out of the loops over the others: clang moves no
        code with branches out of a loop."""
        outside: set[str] = set().union(*(x.variables for x in outer))
        for name, start in pattern.starts.items():  # each after those on which its indices depend
            if all(x.variables <= outside for x in start.indices):
                outside.add(name)
        with nullcontext() if self.is_unrolled else e.single_numbers():  # the loop over rows has vectors of them
            for call in pattern.calls:
                if not call.conditional and all(x.variables <= outside for x in call.indices):
                    own = e.adopt(call, pattern, block)
                    e.value(own.instruction, own.indices, block)

    def _emit_item(self, e: ElementalIrEmitter, block: Block, item: str) -> None:
        at = e.names.fresh("n")
        block.line(f"const int {at} = {item};")
        self.schedule.emit(e, block, variable(at, 0, self.items - 1))
        if self.non_temporal or isinstance(self.schedule, ContiguousRows | InterleavedRowCopy):
            block.line("RX_FENCE();")

    def emit_moved(self, e: ElementalIrEmitter, block: Block, at: Sequence[Index]) -> tuple[str, str]:
        """Prepares the move of an element. Returns its destination and its source."""
        with e.unwritten():
            self.emit_body(e, block, at)
        pattern = self.pattern(at)
        stored = pattern.stores[-1]
        access = e.adopt(next(a for a in reversed(pattern.accesses) if a.name == stored.value), pattern, block)
        place = non_temporal_stores.place(e, e.adopt(stored, pattern, block))
        return place, f"{e.input(access.instruction)} + ({c_of(access.position)})"

    def emit_row(self, e: ElementalIrEmitter, block: Block, row: Index, spelled_out: bool = False) -> None:
        """The statements of one row, which is a whole innermost loop, or `spelled_out` for each element. The
        elements of stacked rows share what they have in common."""
        if self.is_stacked:
            for n in range(self.sizes[-1]):
                self.emit_body(e, block, (*delinearize(row, self.sizes[:-1]), constant(n)))
            return
        if spelled_out:
            for n in range(self.sizes[-1]):
                with block.scope():
                    self.emit_body(e, block, (*delinearize(row, self.sizes[:-1]), constant(n)))
            return
        strip = StripMinedLoop(e, block, constant(0), self.sizes[-1], self.sizes[-1])
        self.emit_strip(e, block, delinearize(row, self.sizes[:-1]), strip, self.cut)

    def emit_strip(
        self, e: ElementalIrEmitter, block: Block, outer: Sequence[Index], strip: StripMinedLoop, cut: Cut | None
    ) -> None:
        """The innermost loop, or the loops into which it is split, within loops with these indices."""
        if cut is None:
            self._emit_innermost(e, block, outer, strip, None)
        elif cut.loop == len(outer):
            for low, high, _ in cut.parts:
                self._emit_innermost(e, block, outer, strip, (low, high))
        else:
            name, n = outer[cut.loop].name, cut.loop
            if name is None:
                name = e.names.fresh("n")
                block.line(f"const int {name} = {c_of(outer[n])};")
            for at, (low, high, inside) in enumerate(cut.parts):
                head = f"if ({name} <= {high})" if at < len(cut.parts) - 1 else ""
                with block.scope(f"{'else ' if at else ''}{head}".rstrip()):
                    here = (*outer[:n], variable(name, low, high), *outer[n + 1 :])
                    self.emit_strip(e, block, here, strip, inside)

    def _emit_innermost(
        self, e: ElementalIrEmitter, block: Block, outer: Sequence[Index], strip: StripMinedLoop, within: Range | None
    ) -> None:
        """A loop over the innermost index, in pieces if it calls functions that are expensive for large operands."""
        low, high = within or (0, self.sizes[-1] - 1)
        vectorizes = self.target.capabilities.loop_vectorization and high > low and not self.is_unrolled

        def calls(at: Index, adopted: bool = True) -> list[FunctionCall]:
            pattern = self.pattern((*outer, at))
            parts = fast_path_math.pieces(pattern.calls, at)
            return [e.adopt(call, pattern, block) for call in parts] if adopted else parts

        def index(name: str) -> Index:
            return variable(name, low, high)

        def body(at: Index) -> None:
            if vectorizes:  # they come before the operations on them
                for access in self._adjacent_loads(self.pattern((*outer, at))):
                    e.value(access.instruction, access.indices, block)
            self.emit_body(e, block, (*outer, at))

        if high > low and outer and self.whole_pattern.calls:
            self._emit_invariants(e, block, self.pattern((*outer, index("?"))), outer)
        if self.non_temporal and high - low + 1 >= non_temporal_stores.MIN_RANGE_ELEMENTS:
            self._emit_non_temporal(e, block, outer, strip.bounds(within), index)
        elif high - low + 1 < fast_path_math.FROM or not self.has_fast_path or not calls(index("i"), False):
            period = self._period(outer, (low, high), strip)
            if period > 1:
                residue_loop.emit(e, block, strip, (low, high), period, body)
                return
            if self.is_unrolled:
                block.line("#pragma unroll")
            else:
                # Nor does it vectorize a loop whose first elements it keeps from the edge of a stencil.
                follows = not self.is_first or within is not None
                if vectorizes and follows and len(self._adjacent_loads(self.pattern((*outer, index("?"))))) > 1:
                    block.line("RX_COMPILER_FENCE();")
                self._emit_loop_hints(block, strip, within, self.pattern((*outer, index("?"))))
            with strip.loop(within) as inner:
                body(inner)
        else:
            functions = [call.instruction for call in calls(index("i"), False)]
            with fast_path_math.pieces_of(e, block, strip.bounds(within), index, functions, calls) as piece:
                with piece.elements() as at:
                    body(at)

    def _period(self, outer: Sequence[Index], within: Range, strip: StripMinedLoop) -> int:
        """The elements of an iteration of the innermost loop, within loops with these indices: several if that decides
        all tests of remainders of its index (residue_loop.py)."""
        if self.is_unrolled or strip.single or not self.whole_pattern.remainders:
            return 1
        if not index_set_splitting.pays(self.fusion, self.segment.size, self.is_dear):
            return 1
        (low, high), members = within, len(self.fusion.instructions)
        period = index_set_splitting.period(self.pattern((*outer, variable("?", low, high))).remainders, "?")
        if not 1 < period <= residue_loop.MOST_RESIDUES or period * members > residue_loop.MOST_STATEMENTS:
            return 1
        if high - low + 1 < 2 * period:
            return 1
        known: set[str] = set().union(*(x.variables for x in outer))
        first = variable("?", 0, (high + 1) // period - 1) * period
        patterns = [self.pattern((*outer, first + residue)) for residue in range(period)]
        return period if all(x.variables <= known for p in patterns for x in p.remainders) else 1

    def _emit_loop_hints(
        self, block: Block, strip: StripMinedLoop, within: Range | None, pattern: AccessPattern
    ) -> None:
        """How clang vectorizes the innermost loop, or the part of it that lies `within` a range, which reads and stores
        what `pattern` has: several vectors at once, and the last ones masked."""
        low, high = within or (0, self.sizes[-1] - 1)
        elements = high - low + 1
        vectors = self.vectors if elements >= LEAST_ALTERNATED else 1
        hints = [f"interleave_count({vectors})"] if vectors > 1 else []
        if self._masks_tail(elements, vectors, strip, within, pattern):
            hints.append(masked_tail.HINTS)
        if hints:
            block.line(f"#pragma clang loop {' '.join(hints)}")

    def _masks_tail(
        self, elements: int, vectors: int, strip: StripMinedLoop, within: Range | None, pattern: AccessPattern
    ) -> bool:
        """Whether the last of the vectors of a loop over so many elements are masked. Each read and store has to be
        contiguous, and of every iteration: clang gathers others element by element, under a condition for each."""
        if not self.is_wide or self.gathers or any(a.conditional for a in pattern.accesses):
            return False
        # A part of a range may begin and end anywhere. Of whole rows, only the last part is no multiple of a vector.
        anywhere = not strip.whole and (within is not None or strip.size % WHOLE > 0)
        elements = min(elements, strip.size) if anywhere else elements
        return masked_tail.pays(self.target, self.fusion.instructions, pattern, elements, vectors, anywhere)

    def _adjacent_loads(self, pattern: AccessPattern) -> list[Access]:
        """The loads of adjacent elements, the one at the highest address first.

        clang otherwise keeps an element for the next iterations. It vectorizes a loop that keeps one, if nothing uses
        the first before the second is loaded, but none that keeps several, such as that of a stencil."""
        loads = {
            (a.instruction, a.position): a
            for a in pattern.accesses
            if not a.conditional and a.position.variables.isdisjoint(pattern.starts)
        }
        adjacent = [
            access
            for (instruction, position), access in loads.items()
            if (instruction, position + 1) in loads or (instruction, position - 1) in loads
        ]
        return sorted(adjacent, key=lambda a: a.position.constant, reverse=True)

    def _emit_non_temporal(
        self, e: ElementalIrEmitter, block: Block, outer: Sequence[Index], bounds: tuple[str, str, str],
        index: Callable[[str], Index],
    ) -> None:  # fmt: skip
        if non_temporal_stores.moved(self.pattern((*outer, index("i"))), "i"):
            c_type, first, last = bounds
            with block.scope():
                name = e.names.fresh("b")
                block.line(f"const {c_type} {name} = {first};")
                to, source = self.emit_moved(e, block, (*outer, index(name)))
                output = self.whole_pattern.stores[-1].instruction
                count, bits = non_temporal_stores.words(output, f"({last} - {name})")
                block.line(f"rx_copy_non_temporal_u{bits}((ulong)({to}), (ulong)({source}), {count});")
            return

        def stores(name: str) -> Sequence[Store]:
            pattern = self.pattern((*outer, index(name)))
            return [e.adopt(s, pattern, block) for s in pattern.stores]

        def fetch(name: str, piece: int) -> None:
            self.prefetch.emit_next(e, block, (*outer, index(name)), piece)

        with non_temporal_stores.pieces(e, block, bounds, self.fusion.outputs, stores, fetch) as name:
            self.emit_body(e, block, (*outer, index(name)))

    def _choose_cut(self, pattern: AccessPattern) -> Cut | None:
        """How the loops are split into ranges; tiled loops are not."""
        if not pattern.tests or self.transpose is not None:
            return None
        if not index_set_splitting.pays(self.fusion, self.segment.size, self.is_dear):
            return None

        def tests(ranges: Sequence[Range]) -> Sequence[tuple[Index, int]]:
            return self.pattern([variable(f"g{n}", low, high) for n, (low, high) in enumerate(ranges)]).tests

        return cut([(0, size - 1) for size in self.sizes], tests)

    def _choose_transpose(self) -> TiledTranspose | None:
        """The loops over transposed blocks, if a read runs across memory in the innermost group, but along it in
        another."""
        inner = len(self.sizes) - 1
        if self.is_unrolled:
            return None
        for n in reversed(range(inner)):
            if self.sizes[n] >= 4 and across(self.accesses, f"g{inner}", f"g{n}"):
                schedule = TransposeSchedule.choose(self, n, self.chunk, self.target)
                return None if schedule is None else TiledTranspose(self, schedule)
        return None
