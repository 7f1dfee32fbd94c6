"""What row and column reductions have in common: one element of the operand, loops over it, and stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern, FunctionCall, Store
from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...ir.op_table import FUNCTIONS
from ..c_block import Block
from ..index_printer import c_of
from ..loops import fast_path_math, index_set_splitting
from ..loops.index_set_splitting import MAX_MEMBERS, SHARE, Range, Test
from .accumulators import (
    Accumulators,
    combine_into,
    finished,
    has_segments,
    initial_values,
    selects,
    starts_neutral,
    types,
)
from .dataflow import inputs_and_initial_values
from .kernel_body import KernelBody
from .schedule import CachedOperand, Position, ReductionPass


def clipped(first: str, end: str, part: Range) -> tuple[str, str]:
    """The first index and the end, as C, of a loop over what lies in a part of its range. A loop that begins at 0 goes
    over all of it."""
    low, high = part
    if first == "0":
        return str(low), str(high + 1)
    return f"({first} > {low} ? {first} : {low})", f"({end} < {high + 1} ? {end} : {high + 1})"


def _store(block: Block, places: Sequence[str], values: Sequence[str]) -> None:
    """Adds the assignments of values to C lvalues."""
    for place, value in zip(places, values, strict=True):
        block.line(f"{place} = {value};")


class UnitEmitter(ABC):
    """Writes one unit of work into the body of a kernel."""

    def __init__(self, body: KernelBody) -> None:
        self.body, self.schedule = body, body.schedule
        self.elements, self.block = body.elements, body.block
        self.dataflow, self.order = body.schedule.dataflow, body.schedule.order
        self._segment: Index | None = None  # the number of the segment that is written, if there are several
        self._is_thin = False  # the code being written is for few indices of a loop

    @abstractmethod
    def declare_arrays(self) -> None:
        """Declares the arrays that all units of a work item use."""

    @abstractmethod
    def emit_unit(self, unit: Index, partial: Index) -> None:
        """The statements of a unit of work; `partial` is the number of the partial result that this item computes."""

    @abstractmethod
    def bind_results(self, at: Position) -> None:
        """Binds the results of finished reduces, for an element of the operand, where they depend on the position."""

    @abstractmethod
    def cached_place(self, cached: CachedOperand, at: Position) -> str:
        """The C lvalue of a cached operand's element."""

    # Elements of the operand.

    def accumulate_element(
        self,
        step: ReductionPass,
        totals: Sequence[Accumulators],
        at: Position,
        index: Index | str,
        mask: str = "",
        is_first: bool = False,
    ) -> None:
        """Combines one element of the operand into the accumulators `index`, and computes whatever else the pass needs
        of it.

        With a `mask`, a C condition, the element does not exist where that is false, and the accumulators stay
        unchanged. If the element `is_first`, the accumulators have no value yet.
        """
        e, block = self.elements, self.block
        indices = self.schedule.operand_indices(at)
        # clang turns the conditional statements into a masked load, and the rest into plain stores, if a single
        # instruction combines the values. Otherwise the neutral element takes the place of a missing one.
        reduces = [t.reduce for t in totals]
        pads = bool(mask) and all(map(starts_neutral, reduces)) and any(map(selects, reduces))
        with block.scope():
            places = [t.at(index) for t in totals]
            results = places
            if mask:
                starts = [t.starts if pads else own for t, own in zip(totals, places, strict=True)]
                results = [
                    [e.assign(name, p, block, changes=True) for name, p in zip(types(t.reduce), own, strict=True)]
                    for t, own in zip(totals, starts, strict=True)
                ]
            with block.scope(f"if ({mask})") if mask else nullcontext():
                self._bind_passes(step.number, at)
                for t, own in zip(totals, results, strict=True):
                    values = [e.value(o, indices, block) for o in inputs_and_initial_values(t.reduce)[0]]
                    if pads:
                        _store(block, own, values)
                    else:
                        combine_into(self.body, t.reduce, own, values, t.starts if is_first else ())
                for c in self.schedule.cached:
                    if c.computed_in == step.number:
                        value = e.value(c.instruction, indices, block)
                        block.line(f"{self.cached_place(c, at)} = {value};")
                self._store_whole(step.outputs, indices)
            if mask:
                for t, own, new in zip(totals, places, results, strict=True):
                    if pads:
                        combine_into(self.body, t.reduce, own, new, t.starts if is_first else ())
                    else:
                        _store(block, own, new)

    # Ranges of units.

    def kept_at(self, unit: Index) -> Position:
        """The position of a unit in the groups that are not reduced, as far as its number determines it."""
        return {}

    def unit_ranges(self) -> Sequence[Range]:
        """Ranges of units, in order; the code of a unit is written for each range, in which all units read the same
        operand of a concatenate. Otherwise clang would vectorize over both operands, with masked loads; and a masked
        load from an unmapped address takes a hundred times as long, whatever its mask."""
        s, whole = self.schedule, (0, self.schedule.units - 1)
        fusion = self.dataflow.fusion
        has_functions = any(i.opcode in FUNCTIONS or fast_path_math.applies(i) for i in fusion.instructions)
        if not index_set_splitting.pays(fusion, s.units * s.inner_size, has_functions):
            return [whole]
        every = {n: variable(f"r{n}", 0, group.size - 1) for n, group in enumerate(self.order.groups)}

        def tests(ranges: Sequence[Range]) -> Sequence[Test]:
            at = {**every, **self.kept_at(variable("g0", *ranges[0]))}  # the name that `cut` asks for
            return [test for step in s.passes for test in self.operand_pattern(step, at).tests]

        return self.cut(whole, tests)

    def cut(self, whole: Range, tests: Callable[[Sequence[Range]], Sequence[Test]]) -> list[Range]:
        """The ranges of a loop in which the tests of pads and concatenates are decided
        (loops/index_set_splitting.py)."""
        if self._is_thin or len(self.dataflow.fusion.instructions) > MAX_MEMBERS:
            return [whole]
        found = index_set_splitting.cut([whole], tests)
        return [(low, high) for low, high, _ in found.parts] if found is not None else [whole]

    @contextmanager
    def within(self, part: Range, size: int) -> Iterator[None]:
        """The scope of the code for a part of a loop over `size` indices: within a thin part, no loop is split."""
        before, self._is_thin = self._is_thin, self._is_thin or (part[1] - part[0] + 1) * SHARE < size
        yield
        self._is_thin = before

    # Functions with a fast path.

    def fast_path_functions(
        self, step: ReductionPass, position: Callable[[Index], Position], span: Range, least: int = fast_path_math.FROM
    ) -> list[Instruction]:
        """The functions with a fast path (fast_path_math.py) that the elements at `position(k)` need, for k in `span`;
        none if that does not pay, as for fewer elements than `least`."""
        low, high = span
        if high - low + 1 < least or not any(map(fast_path_math.applies, self.dataflow.fusion.instructions)):
            return []
        k = variable("k", low, high)
        pattern = self.operand_pattern(step, position(k), fast_path_math.applies)
        return [call.instruction for call in fast_path_math.pieces(pattern.calls, k)]

    @contextmanager
    def pieces(
        self,
        step: ReductionPass,
        functions: Sequence[Instruction],
        bounds: tuple[str, str, str],
        span: Range,
        position: Callable[[Index], Position],
    ) -> Iterator[fast_path_math.LoopPiece]:
        """The scope of a piece in the loop over the elements at `position(k)`, which need these `fast_path_functions`.
        k runs from the first to the last of `bounds`, (C type, first, last), which are within `span`."""

        def index(name: str) -> Index:
            return variable(name, *span)

        def calls(k: Index) -> list[FunctionCall]:
            self._bind_passes(step.number, position(k))
            pattern = self.operand_pattern(step, position(k), fast_path_math.applies)
            return [self.elements.adopt(c, pattern, self.block) for c in fast_path_math.pieces(pattern.calls, k)]

        hint = "#pragma clang loop unroll(disable)" if self.schedule.target.capabilities.loop_pragmas else ""
        with (
            self.block.scope(),
            fast_path_math.pieces_of(self.elements, self.block, bounds, index, functions, calls, hint) as piece,
        ):
            yield piece

    def operand_pattern(
        self, step: ReductionPass, at: Position, notes: Callable[[Instruction], bool] = lambda i: False
    ) -> AccessPattern:
        """What a pass reads and stores for the operand's element at a position; `notes` as in AccessPattern."""
        pattern, indices = AccessPattern(self.dataflow.fusion, notes), self.schedule.operand_indices(at)
        for reduce in (r for level in self.dataflow.reduces[: step.number] for r in level):
            pattern.bind(reduce, self.schedule.result_indices(at))
        for c in self.schedule.cached:
            if c.computed_in < step.number:
                pattern.bind(c.instruction, indices)
        for reduce in step.reduces:
            for operand in inputs_and_initial_values(reduce)[0]:
                pattern.value(operand, indices)
        for output in step.outputs:
            pattern.value(output, indices)
        return pattern

    def store_epilogue_element(self, at: Position) -> None:
        """Stores one element of each output on the operand's index space that depends on results."""
        self._bind_passes(len(self.schedule.passes), at)
        self._store_whole(self.dataflow.epilogue_outputs, self.schedule.operand_indices(at))

    def epilogue_stores(self, at: Position) -> list[Store]:
        """Where the epilogue pass stores an element, without its value."""
        position = linearize(self.schedule.operand_indices(at), self.dataflow.dimensions)
        return [Store(o, position, "") for o in self.dataflow.epilogue_outputs]

    def store_results(self, at: Position) -> None:
        """Stores the outputs with one element for each result of a reduce."""
        indices, sizes = self.schedule.result_indices(at), self.dataflow.kept_sizes
        for o in self.dataflow.results:
            same = o.shape.dimensions == sizes
            own = indices if same else delinearize(linearize(indices, sizes), o.shape.dimensions)
            self.elements.store(o, own, self.block)

    def bind(self, reduce: Instruction, at: Position, values: Sequence[str]) -> None:
        """Binds the results of a reduce."""
        result = tuple(values) if reduce.shape.is_tuple else values[0]
        self.elements.bind(reduce, self.schedule.result_indices(at), result)

    def finish(self, step: ReductionPass, totals: Sequence[Accumulators], at: Position) -> None:
        """Binds the results of a pass, and evaluates values that depend on them and are broadcast along the operand."""
        initial = [initial_values(self.body, t.reduce) for t in totals]
        for t, own in zip(totals, initial, strict=True):
            values = finished(self.body, t.reduce, own, t.at("0"))
            if not starts_neutral(t.reduce):
                values = [
                    self.elements.assign(name, v, self.block) for name, v in zip(types(t.reduce), values, strict=True)
                ]
            self.bind(t.reduce, at, values)
        self.evaluate_broadcasts(step.number + 1, at)

    def evaluate_broadcasts(self, level: int, at: Position) -> None:
        """Evaluates values that are broadcast to the operand's index space and depend only on the indices in `at`,
        outside of the loops over the others; only members after `level` reduces."""
        if not self.dataflow.size:
            return  # there are no elements that could read it
        available = set().union(*(x.variables for x in at.values()))
        inside = {n: at.get(n, variable(f"?{n}", 0, g.size - 1)) for n, g in enumerate(self.order.groups)}
        indices = self.schedule.operand_indices(inside)
        for i in self.dataflow.fusion.instructions:
            if i.opcode != "broadcast" or i.shape.dimensions != self.dataflow.dimensions:
                continue
            if self.dataflow.levels[i] != level:
                continue
            operand = i.operands[0]
            positions = [indices[d] for d in i.attributes.get("dimensions", ())]
            positions = [x if n != 1 else constant(0) for x, n in zip(positions, operand.shape.dimensions, strict=True)]
            if all(x.variables <= available for x in positions):
                self.elements.value(operand, positions, self.block)

    def memory_place(self, output: Instruction, at: Position) -> str:
        """The C lvalue of an output's element in memory."""
        position = linearize(self.schedule.operand_indices(at), self.dataflow.dimensions)
        return f"{self.body.pointers[output]}[{c_of(position)}]"

    def _bind_passes(self, number: int, at: Position) -> None:
        """Binds what earlier passes than that number provide for the element at a position: its cached values, and
        their results."""
        for c in self.schedule.cached:
            if c.computed_in < number:
                self.elements.bind(c.instruction, self.schedule.operand_indices(at), self.cached_place(c, at))
        self.bind_results(at)

    def _store_whole(self, outputs: Sequence[Instruction], indices: tuple[Index, ...]) -> None:
        sizes, places = self.dataflow.dimensions, {}
        for o in outputs:
            same = o.shape.dimensions == sizes
            places[o] = indices if same else delinearize(linearize(indices, sizes), o.shape.dimensions)
        # All values before the first store: an output may be in the memory of an input that is read at the same index.
        for o, own in places.items():
            self.elements.value(o, own, self.block)
        for o, own in places.items():
            self.elements.store(o, own, self.block)

    # Loops.

    def partial_range(self, group: int, count: int, partial: Index) -> tuple[str, str]:
        """The bounds of the iterations of a partial result, or of one of its segments, out of `count` over a group, as
        C."""
        number, cuts = self._cut(group, partial)
        if cuts == 1:
            return "0", str(count)
        wide = "(long)" if count * cuts >= 2**31 else ""
        cast, c_number = "(int)" if wide else "", c_of(number)
        if cuts > self.order.partials > 1:  # a sum
            c_number = f"({c_number})"
        first = f"{cast}({wide}{c_number} * {count} / {cuts})"
        return first, f"{cast}(({wide}{c_number} + 1) * {count} / {cuts})"

    def last_range(self, group: int, partial: Index) -> str:
        """The C condition that a range of a group is its last one; "" if it is the only one."""
        number, cuts = self._cut(group, partial)
        return f"{c_of(number)} == {cuts - 1}" if cuts > 1 else ""

    def _cut(self, group: int, partial: Index) -> tuple[Index, int]:
        """The number of the range of a group that is written, and how many there are."""
        number, cuts, order = constant(0), 1, self.order
        if group == order.split_group and order.partials > 1:
            number, cuts = partial, order.partials
        if group == order.segment_group and self._segment is not None:
            number, cuts = number * order.segments + self._segment, cuts * order.segments
        return number, cuts

    @property
    def is_whole(self) -> bool:
        """Whether loops go over whole groups, and not over the ranges of a partial result or segment."""
        return self.order.partials == 1 and self._segment is None

    @contextmanager
    def each_segment(self) -> Iterator[None]:
        """A loop over the segments of a partial result."""
        name, count = self.body.fresh("segment"), self.order.segments
        with self.block.scope(f"for (int {name} = 0; {name} < {count}; ++{name})"), self.segment(name):
            yield

    @contextmanager
    def segment(self, name: str) -> Iterator[None]:
        """The scope of the statements for the segment whose number has that C name."""
        self._segment = variable(name, 0, self.order.segments - 1)
        yield
        self._segment = None

    def segmented(self, step: ReductionPass) -> list[Instruction]:
        """The reduces of a pass that have several segments."""
        return [r for r in step.reduces if has_segments(r)] if self.order.segments > 1 else []

    def accumulate_segments(
        self,
        step: ReductionPass,
        totals: Sequence[Accumulators],
        declared: Callable[[Sequence[Instruction]], Sequence[Accumulators]],
        accumulate: Callable[[Sequence[Accumulators]], None],
        each_total: Callable[[], AbstractContextManager[Index | str]],
    ) -> None:
        """A pass, or a partial result, segment by segment: `accumulate` writes its loops, over what is being written
        (`partial_range`), into the accumulators it is given. Those of a segment are `declared`, and added to the
        totals, each at the index that `each_total` gives."""
        if not (segmented := self.segmented(step)):
            accumulate(totals)
            return
        with self.each_segment():
            of_segment = {a.reduce: a for a in declared(segmented)}
            own = [of_segment.get(t.reduce, t) for t in totals]
            accumulate(own)
            with each_total() as index:
                self.add_segments(totals, own, index)

    def add_segments(self, totals: Sequence[Accumulators], own: Sequence[Accumulators], index: Index | str) -> None:
        """Adds the sums of a segment to the totals; a reduce without segments has the same accumulators in both."""
        for total, part in zip(totals, own, strict=True):
            if part is not total:
                combine_into(self.body, total.reduce, total.at(index), part.at(index))

    def unrolled_loop(
        self, bounds: tuple[str, str], count: int, emit: Callable[[Index, int], None], first: int = 0
    ) -> None:
        """A loop over the range `bounds` of `count` iterations, the least of them `first`; `emit(index, k)` writes k of
        them at once."""
        unsplit, unroll = self.is_whole, self.schedule.unroll
        if count == 1 and unsplit:
            emit(constant(first), 1)
            return
        name, (low, high) = self.body.fresh("c"), bounds
        steps = [unroll, 1] if 1 < unroll <= count else [1]
        if len(steps) == 2 and unsplit and count % unroll == 0:
            steps = [unroll]
        tuples = any(r.shape.is_tuple for step in self.schedule.passes for r in step.reduces)
        self.block.line(f"{'long' if tuples else 'int'} {name} = {low};")  # else clang widens the comparison
        for step in steps:
            last = f"{name} + {step - 1}" if step > 1 else name
            with self.block.scope(f"for (; {last} < {high}; {name} += {step})"):
                emit(variable(name, first, first + max(count - step, 0)), step)
