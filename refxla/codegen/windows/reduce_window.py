"""The kernel of kind "reduce-window": pooling and cumulative sums, with their producers and consumers.

Pooling: a unit of work is a strip of lanes (see window_lanes.py) with an accumulator each; a loop over the elements of
the window, in row-major order, combines each into the lanes in one vectorized loop.

    acc[u] = init
    for each element of the window that lies inside:  for u:  acc[u] = to_apply(acc[u], operand[...])
    for u:  store what is computed from acc[u]

A cumulative window (index_maps.cumulative) ends at the same place for all placings: its accumulators carry over from
one placing to the next, so that n results take n steps: each result is init combined with all elements up to its own,
in order. A long sum restarts with each segment (contraction_order.py), with the sum of earlier segments beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern, Store
from ...analysis.accumulation import accumulator_types, commutative_opcode
from ...analysis.contraction_order import cumulative_segment
from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...analysis.index_maps import cumulative
from ...device.description import LINE, Target
from ...ir.plan import Fusion, Kernel
from .. import scalar, wide_vectors
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import combine, converted, rounded
from ..index_printer import c_of
from ..kernel_arguments import hero_of, input_argument, inputs_of, output_argument
from ..loops import elementwise, non_temporal_stores
from ..sums import SegmentedSum, empty_sum
from .window_lanes import STRIP_LANES, Lanes, OpenWindow

CHUNK = 32768  # elements that an item combines, approximately
ROWS = 8  # cumulative rows that are computed together
BLOCK = 64  # elements of each that are transposed at a time: all fit in the innermost cache
WIDEST, NARROWEST = 4096, 64  # lanes of a strip
ITEMS = 2  # of strips for each core; 1 for those past the caches, which are memory-bound, so that long runs are best
STEPS_AHEAD = 1  # of a strip past the caches, by which prefetches are ahead
RUNNING = {"add", "multiply"}
# accumulator type -> the type of prelude/cumulative_sum.cl that has its bits, and a cast to pointers to it
RUNNING_TYPES = {
    "f32": ("f32", ""), "s32": ("u32", "(uint*)"), "u32": ("u32", ""),
    "f64": ("f64", ""), "s64": ("u64", "(ulong*)"), "u64": ("u64", ""),
}  # fmt: skip


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a reduce-window. The outputs are elementwise in it, or reshapes of values that are."""
    hero = hero_of(fusion)
    window = hero.attributes.get("window", ())
    if not window or min(result_dimensions(hero)) == 0:
        return elementwise.emit(fusion, target)
    if cumulative(hero) is not None:
        return (Cumulative(fusion, target).kernel(),)
    pooling = _Pooling(fusion, target)
    return (pooling.kernel(),) if pooling.lanes.supported else elementwise.emit(fusion, target)


def result_dimensions(hero: Instruction) -> tuple[int, ...]:
    return (hero.shape.elements[0] if hero.shape.is_tuple else hero.shape).dimensions


class WindowKernel:
    """The common part of both kinds: arguments, accumulators, and stores of results."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self.fusion, self.target, self.hero = fusion, target, hero_of(fusion)
        count = len(self.hero.operands) // 2
        self.operands, self.inits = self.hero.operands[:count], self.hero.operands[count:]
        self.reducer = self.hero.attributes["to_apply"]
        self.types = accumulator_types(self.reducer)
        self.counts = result_dimensions(self.hero)
        self.sizes = self.operands[0].shape.dimensions
        inputs = inputs_of(fusion, fusion.outputs)
        self.arguments = (*map(input_argument, inputs), *map(output_argument, fusion.outputs))
        self.pointers = {i: f"a{n}" for n, i in enumerate((*inputs, *fusion.outputs))}
        self.e = ElementalIrEmitter(fusion, target, self.pointers)
        self.block = Block()

    def start(self) -> list[str]:
        """The initial values, in the accumulators' types."""
        return [self.accumulable(init, (), name) for init, name in zip(self.inits, self.types, strict=True)]

    def accumulable(self, instruction: Instruction, indices: Sequence[Index], name: str) -> str:
        """An element of an operand or initial value, in the type of its accumulator."""
        value = self.e.value(instruction, indices, self.block)
        return converted(self.e, value, type_name(instruction), name, self.block)

    def declare(self, starts: list[str], width: int) -> list[str]:
        """Declares an array of accumulators for each operand, filled with the initial values."""
        accumulators = []
        for start, name in zip(starts, self.types, strict=True):
            acc = self.e.names.fresh("acc")
            accumulators.append(acc)
            self.block.line(f"{scalar.register_type(name)} {acc}[{width}];")
            self.block.line(f"for (int u = 0; u < {width}; ++u) {acc}[u] = {start};")
        return accumulators

    def take(self, spots: list[str], position: list[Index]) -> None:
        """Combines the operands' elements at a position into the accumulators."""
        values = [self.e.value(o, position, self.block) for o in self.operands]
        for spot, value in zip(spots, combine(self.e, self.reducer, (*spots, *values), self.block), strict=True):
            self.block.line(f"{spot} = {value};")

    def store(self, spots: Sequence[str], placing: list[Index]) -> None:
        """Stores the outputs at a placing whose accumulated values are known."""
        results = rounded(self.e, self.reducer, spots, self.block)
        self.e.bind(self.hero, placing, tuple(results) if self.hero.shape.is_tuple else results[0])
        for output, own in self._own(placing):
            self.e.store(output, own, self.block)

    def _own(self, placing: Sequence[Index]) -> Iterator[tuple[Instruction, Sequence[Index]]]:
        """The outputs, each with its indices at a placing."""
        for output in self.fusion.outputs:
            own = placing
            if output.shape.dimensions != self.counts:
                own = delinearize(linearize(placing, self.counts), output.shape.dimensions)
            yield output, own

    def units(self, units: int, work: int) -> tuple[Index, ExitStack, int]:
        """Opens the loop over an item's units of that much work each: (unit, scopes, items)."""
        per_item = units
        if units * work > CHUNK:
            share = -(-units // (4 * max(1, self.target.compute_units)))
            per_item = max(1, min(share, CHUNK // work))
        items, scopes = -(-units // per_item), ExitStack()
        if units == 1:
            return constant(0), scopes, 1
        if per_item == 1:
            return variable("item", 0, units - 1), scopes, items
        first, end = "0", str(units)
        if items > 1:
            first, end = f"item * {per_item}", f"(item + 1) * {per_item}"
            if units % per_item:
                end = f"({end} < {units} ? {end} : {units})"
        scopes.enter_context(self.block.scope(f"for (int unit = {first}; unit < {end}; ++unit)"))
        return variable("unit", 0, units - 1), scopes, items


class _Pooling(WindowKernel):
    """A window that is not cumulative: each result visits the elements of its window."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        super().__init__(fusion, target)
        self.window = self.hero.window
        self.lanes = Lanes(self.window, self.sizes, self.counts, joins=True)

    def kernel(self) -> Kernel:
        lanes, block, e = self.lanes, self.block, self.e
        outer = [self.counts[d] for d in lanes.outer]
        units = prod(outer) * lanes.strips
        starts = self.start()
        unit, scopes, items = self.units(units, prod(w.size for w in self.window) * lanes.strip)
        with scopes:
            lanes.open_strip(block, unit % lanes.strips)
            at = dict(zip(lanes.outer, delinearize(unit // lanes.strips, outer), strict=True))
            accumulators = self.declare(starts, lanes.strip)
            with ExitStack() as inner:
                window = OpenWindow(lanes, e, block, at, inner)
                u, lane = lanes.open_lane(e, block, inner, window.bounds)
                self.take([f"{a}[{u}]" for a in accumulators], window.position(lane))
            with ExitStack() as inner:
                u, lane = lanes.open_lane(e, block, inner)
                self.store([f"{a}[{u}]" for a in accumulators], lanes.placing(at, lane))
        wide = wide_vectors.window_gains(1 if lanes.slides is None else self.window[lanes.slides].stride)
        return Kernel(self.fusion.name, block.text(), self.arguments, items, wide_vectors=wide)


class Cumulative(WindowKernel):
    """The lanes are a strip of the elements inside the dimension or, if there is only one, a few rows."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        super().__init__(fusion, target)
        scan = cumulative(self.hero)
        assert scan is not None, "another kind of window"
        self.dimension, self.descending = scan
        self.before, self.after = self.counts[: self.dimension], self.counts[self.dimension + 1 :]
        self.length = self.counts[self.dimension]
        self.segment = cumulative_segment(self.hero)

    def kernel(self) -> Kernel:
        if prod(self.after) > 1:
            items = self._strips(prod(self.after), prod(self.before))
        elif self._goes_by_blocks():
            items = self._blocks(prod(self.before))
        else:
            items = self._strips(prod(self.before), 1)
        return Kernel(self.fusion.name, self.block.text(), self.arguments, items)

    def sums(self, starts: list[str], width: int) -> LaneSums:
        """Declares the accumulators of so many lanes."""
        return LaneSums(self, starts, width)

    def placing(self, n: Index, outer: Index, lane: Index) -> list[Index]:
        """The indices of the n-th result of a lane."""
        n = self.length - 1 - n if self.descending else n
        return [*delinearize(outer, self.before), n, *delinearize(lane, self.after)]

    def _strips(self, lanes: int, others: int) -> int:
        """The statements of an item that carries a strip of lanes from each position to the next. Returns the number of
        items."""
        block, inside = self.block, prod(self.after) > 1
        width = min(ROWS, lanes)
        if inside:
            at = self.placing(variable("n", 0, self.length - 1), constant(0), variable("i", 0, lanes - 1))
            width = self._strip(lanes, others, 1 if self._streams(at, "i", lanes) else ITEMS)
        strips = -(-lanes // width)
        starts = self.start()
        unit, scopes, items = self.units(others * strips, self.length * width)

        def placing(name: str) -> list[Index]:
            n, lane = variable("n", 0, self.length - 1), variable(name, 0, lanes - 1)
            return self.placing(n, unit // strips, lane) if inside else self.placing(n, lane, constant(0))

        streams = inside and self._streams(placing("i"), "i", width)
        with scopes:
            begin = unit % strips * width
            end = c_of(begin + width)
            if lanes % width:
                block.line(f"const int end = {c_of(begin)} + {width} < {lanes} ? {c_of(begin)} + {width} : {lanes};")
                end = "end"
            sums = self.sums(starts, width)
            with sums.steps(), ExitStack() as inner:
                name = "lane"
                if streams:
                    loop = non_temporal_stores.pieces(
                        self.e, block, ("int", c_of(begin), end), self.fusion.outputs,
                        lambda x: self._stores(placing(x)),
                        lambda x, piece: self._fetch(placing(x), x, piece),
                    )  # fmt: skip
                    name = inner.enter_context(loop)
                else:
                    inner.enter_context(block.scope(f"for (int lane = {c_of(begin)}; lane < {end}; ++lane)"))
                u = f"{name} - ({c_of(begin)})"
                self.take(sums.chains(u), placing(name))
                self.store(sums.results(u), placing(name))
            if streams:
                block.line("RX_FENCE();")
        return items

    def _strip(self, lanes: int, others: int, items: int) -> int:
        """The lanes of a strip: as many as leave so many items for all cores."""
        widest = WIDEST // 2 if self.segment else WIDEST  # with two accumulators
        least, cores = -(-lanes // widest), self.target.compute_units
        strips = max(least, min(-(-lanes // STRIP_LANES), -(-items * cores // others)))
        if strips * others < cores:
            strips = min(-(-lanes // NARROWEST), -(-cores // others))
        return min(lanes, -(-lanes // strips // 16) * 16)

    def _fetch(self, placing: list[Index], lane: str, count: int) -> None:
        """Prefetches so many lanes of a later step, which are distant from those of this one."""
        pattern = AccessPattern(self.fusion)
        for operand in self.operands:
            pattern.value(operand, placing)
        for a in pattern.accesses:
            step, size = a.position.factor("n"), non_temporal_stores.size_of(a.instruction)
            if step and a.position.factor(lane) == 1:
                here = self.e.adopt(a, pattern, self.block)
                place = f"{self.pointers[here.instruction]} + ({c_of(here.position)}) + {STEPS_AHEAD * step}l"
                self.block.line(f"rx_prefetch((ulong)({place}), {LINE}, {count * size // LINE});")

    def _stores(self, placing: list[Index]) -> list[Store]:
        """The stores at a placing."""
        pattern = AccessPattern(self.fusion)
        for output, own in self._own(placing):
            pattern.store(output, own, "")
        return pattern.stores

    def _streams(self, placing: list[Index], along: str, run: int) -> bool:
        """Whether results are written past the caches by a loop over so many placings with that variable."""
        return non_temporal_stores.applies(self.target, self._stores(placing), prod(self.counts), along, run)

    def _goes_by_blocks(self) -> bool:
        """Whether these are sums or products of enough long rows, whose accumulators fill whole registers."""
        is_running = commutative_opcode(self.reducer) in RUNNING and self.types[0] in RUNNING_TYPES
        is_large = prod(self.before) >= ROWS and self.length >= BLOCK
        return is_running and is_large and self.target.capabilities.vector_shuffles

    def _blocks(self, lanes: int) -> int:
        """The statements of an item that takes a few rows block by block, transposed in vector registers, so that a
        vector has an element of each row (see prelude/cumulative_sum.cl); returns the number of items."""
        block, e, (name,) = self.block, self.e, self.types
        (start,) = self.start()
        unit, scopes, items = self.units(-(-lanes // ROWS), self.length * ROWS)
        at, row = variable("at", 0, self.length - 1), variable("lane", 0, lanes - 1)
        n, first = variable("n", 0, self.length - 1), unit * ROWS
        here = self.placing(n, first, constant(0))
        with scopes:
            rows = str(ROWS)
            if lanes % ROWS:
                rows = "rows"
                block.line(f"const int rows = {lanes} - ({c_of(first)}) < {ROWS} ? {lanes} - ({c_of(first)}) : {ROWS};")
            sums = self.sums([start], ROWS)
            before, totals = sums.before or "0", sums.arrays[0]
            c_type, lines = scalar.register_type(name), self._lines(here)
            source, result = e.names.fresh("x"), e.names.fresh("y")
            room, output = BLOCK, result
            if self._is_direct(here):
                address, step = e.address(self.operands[0], here), self.length
            else:
                address, step = source, BLOCK
                block.line(f"{c_type} {source}[{ROWS * BLOCK}];")
            if lines and self.fusion.outputs == (self.hero,) and type_name(self.hero) == name:
                ((array, room, _),) = lines.values()
                output = f"{array} + {room - BLOCK}"
            else:
                block.line(f"{c_type} {result}[{ROWS * BLOCK}];")
            # If lines are written past the caches, a last block, which may be empty, writes the rest.
            with block.scope(f"for (int n = 0; {'' if lines else f'n < {self.length}'}; n += {BLOCK})"):
                block.line(f"const int count = {self.length} - n < {BLOCK} ? {self.length} - n : {BLOCK};")
                sums.begin("n")
                if address == source:
                    with self._each(rows, first) as place:
                        value = self.accumulable(self.operands[0], self.placing(at, row, constant(0)), name)
                        block.line(f"{source}[{place}] = {value};")
                product = int(commutative_opcode(self.reducer) == "multiply")
                kind, cast = RUNNING_TYPES[name]
                block.line(f"rx_cumulative_{kind}((ulong)({address}), {step}l, {rows}, count, {product}, "
                           f"{cast}{before}, {cast}{totals}, {cast}({output}), {room}l);")  # fmt: skip
                if output == result:
                    with self._each(rows, first) as place:
                        for o, (array, wide, _) in lines.items():
                            e.gather(o, f"{array}[{wide} * u + k + {wide - BLOCK}]")
                        self.store([f"{result}[{place}]"], self.placing(at, row, constant(0)))
                        for o in lines:
                            e.gather(o, None)
                if lines:
                    with block.scope(f"for (int u = 0; u < {rows}; ++u)"):
                        block.line(f"const int lane = {c_of(first)} + u;")
                        for s in self._stores(self.placing(n, row, constant(0))):
                            o, to = s.instruction, non_temporal_stores.place(e, s)
                            array, wide, rest = lines[o]
                            own, tail = f"{array} + {wide} * u", f"{rest} + {wide - BLOCK} * u"
                            block.line(non_temporal_stores.lines_of(o, to, 0, own, tail, "1", "count", BLOCK, "n == 0"))
                    block.line(f"if (count < {BLOCK}) break;")
            if lines:
                block.line("RX_FENCE();")
        return items

    def _is_direct(self, here: list[Index]) -> bool:
        """Whether the rows in memory can be used by the sums directly."""
        (operand,) = self.operands
        same = RUNNING_TYPES.get(type_name(operand)) == RUNNING_TYPES[self.types[0]]
        return same and not self.descending and self.e.address(operand, here) is not None

    @contextmanager
    def _each(self, rows: str, first: Index) -> Iterator[str]:
        """The loops over the elements of a block; gives their place in an array."""
        with self.block.scope(f"for (int u = 0; u < {rows}; ++u)"):
            self.block.line(f"const int lane = {c_of(first)} + u;")
            with self.block.scope("for (int k = 0; k < count; ++k)"):
                self.block.line("const int at = n + k;")
                yield f"{BLOCK} * u + k"

    def _lines(self, placing: list[Index]) -> dict[Instruction, tuple[str, int, str]]:
        """Where the results of a block are collected if they are written past the caches: an array, its elements for a
        row, and an array for the rest of each row's last line."""
        if self.descending or not self._streams(placing, "n", self.length):
            return {}
        lines = {}
        for output in self.fusion.outputs:
            room = LINE // non_temporal_stores.size_of(output) + BLOCK
            lines[output] = name, _, rest = self.e.names.fresh("lines"), room, self.e.names.fresh("left")
            for array, count in ((name, room), (rest, room - BLOCK)):
                self.block.line(
                    f"{non_temporal_stores.storage(output)} {array}[{ROWS * count}] __attribute__((aligned({LINE})));"
                )
        return lines


class LaneSums:
    """The accumulated values of some lanes along a cumulative window, in arrays with an element for each lane: for a
    sum in segments, the chains and the totals `before` the current segment."""

    def __init__(self, window: Cumulative, starts: list[str], width: int) -> None:
        self.window, self.width = window, width
        self.arrays, self.before = window.declare(starts, width), ""
        if window.segment:
            (self.before,) = self.arrays
            self.arrays = window.declare([empty_sum(window.types[0])], width)

    @contextmanager
    def steps(self) -> Iterator[None]:
        """Opens the loop over the steps n."""
        with self.ranges() as (first, last), self.window.block.scope(f"for (int n = {first}; n < {last}; ++n)"):
            yield

    @contextmanager
    def ranges(self) -> Iterator[tuple[str, str]]:
        """Opens the loop over the segments; gives the first step of one and the end (C)."""
        length, segment, block = self.window.length, self.window.segment, self.window.block
        if not segment:
            yield "0", str(length)
            return
        with block.scope(f"for (int first = 0; first < {length}; first += {segment})"):
            block.line(f"const int last = {length} - first < {segment} ? {length} : first + {segment};")
            yield "first", "last"
            self._close()

    def begin(self, n: str) -> None:
        """Emits the start of a segment between two steps, if step n is the first of one."""
        if self.window.segment:
            with self.window.block.scope(f"if ({n} && {n} % {self.window.segment} == 0)"):
                self._close()

    def chains(self, u: str) -> list[str]:
        """The lvalues into which the elements of lane u are combined."""
        return [f"{a}[{u}]" for a in self.arrays]

    def results(self, u: str) -> list[str]:
        """The results of lane u."""
        if not self.before:
            return self.chains(u)
        return [self.window.e.assign(self.window.types[0], self._sum(u).value, self.window.block)]

    def _close(self) -> None:
        with self.window.block.scope(f"for (int u = 0; u < {self.width}; ++u)"):
            self._sum("u").close(self.window.block)

    def _sum(self, u: str) -> SegmentedSum:
        (name,), (chain,) = self.window.types, self.chains(u)
        return SegmentedSum.of_numbers(name, f"{self.before}[{u}]", chain, empty_sum(name))
