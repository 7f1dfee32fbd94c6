"""The kernel of kind "reduce-window": pooling and cumulative sums, with their producers and consumers.

Pooling: a unit of work is a strip of lanes (see `lanes`) with an accumulator each; the elements of the window are gone
through in row-major order, and each is combined into the lanes in one vectorised loop.

    acc[u] = init
    for each element of the window that lies inside:  for u:  acc[u] = to_apply(acc[u], operand[...])
    for u:  store what is computed from acc[u]

A cumulative window (`elemental.cumulative`) ends at the same place for all placings: its accumulators go on from one
placing to the next, so that n results take n steps. That has the bits of the definition, as each result is
init combined with the elements up to its own, one after the other.
"""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from refxla_spec.module import Instruction

from ..plan import Fusion, Kernel
from . import loop, scalar
from .block import Block
from .elemental import accumulator_types, combine, cumulative, rounded, type_name
from .expressions import Elements
from .indexing import Index, constant, delinearize, linearize, variable
from .lanes import STRIP, Lanes, OpenWindow
from .packing import input_argument, inputs_of, output_argument
from .target import Target

CHUNK = 32768  # elements that an item combines, about
ROWS = 8  # cumulative rows that go side by side


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a reduce-window whose outputs are elementwise in it, or reshapes of what is."""
    hero = fusion.hero
    window = hero.attributes.get("window", ())
    if target.kind != "cpu" or not window or min(_dimensions(hero)) == 0:
        return loop.emit(fusion, target)
    if cumulative(hero) is not None:
        return (_Cumulative(fusion, target).kernel(),)
    pooling = _Pooling(fusion, target)
    return (pooling.kernel(),) if pooling.lanes.supported else loop.emit(fusion, target)


def _dimensions(hero: Instruction) -> tuple[int, ...]:
    return (hero.shape.elements[0] if hero.shape.is_tuple else hero.shape).dimensions


class _Kernel:
    """What both kinds share: arguments, accumulators, and how results are stored."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self.fusion, self.target, self.hero = fusion, target, fusion.hero
        count = len(self.hero.operands) // 2
        self.operands, self.inits = self.hero.operands[:count], self.hero.operands[count:]
        self.reducer = self.hero.attributes["to_apply"]
        self.types = accumulator_types(self.reducer)
        self.counts = _dimensions(self.hero)
        self.sizes = self.operands[0].shape.dimensions
        inputs = inputs_of(fusion, fusion.outputs)
        self.arguments = (*map(input_argument, inputs), *map(output_argument, fusion.outputs))
        self.e = Elements(fusion, target, {i: f"a{n}" for n, i in enumerate((*inputs, *fusion.outputs))})
        self.block = Block()

    def start(self) -> list[str]:
        """The initial values, in the accumulators' types."""
        values = []
        for init, name in zip(self.inits, self.types, strict=True):
            value, own = self.e.value(init, (), self.block), type_name(init)
            if own != name:
                value = self.e.assign(name, scalar.expression("convert", (own,), name, (value,)), self.block)
            values.append(value)
        return values

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

    def store(self, spots: list[str], placing: list[Index]) -> None:
        """Stores the outputs at a placing whose accumulated values are known."""
        e, block, dimensions = self.e, self.block, self.counts
        results = rounded(e, self.reducer, spots, block)
        e.bind(self.hero, placing, tuple(results) if self.hero.shape.is_tuple else results[0])
        for output in self.fusion.outputs:
            own = placing
            if output.shape.dimensions != dimensions:
                own = delinearize(linearize(placing, dimensions), output.shape.dimensions)
            e.store(output, own, block)

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


class _Pooling(_Kernel):
    def __init__(self, fusion: Fusion, target: Target) -> None:
        super().__init__(fusion, target)
        self.window = self.hero.window
        self.lanes = Lanes(self.window, self.sizes, self.counts)

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
        return Kernel(self.fusion.name, block.text(), self.arguments, items)


class _Cumulative(_Kernel):
    """The lanes are a strip of what lies inside of the dimension or, where that is 1, a few of the rows."""

    def kernel(self) -> Kernel:
        block = self.block
        dimension, descending = cumulative(self.hero)
        before, after = self.counts[:dimension], self.counts[dimension + 1 :]
        length, inside = self.counts[dimension], prod(after) > 1
        lanes, others = (prod(after), prod(before)) if inside else (prod(before), 1)
        width = min(STRIP if inside else ROWS, lanes)
        strips = -(-lanes // width)
        starts = self.start()
        unit, scopes, items = self.units(others * strips, length * width)
        with scopes:
            begin, end = unit % strips * width, str(width)
            if lanes % width:
                block.line(f"const int width = {lanes} - ({begin}) < {width} ? {lanes} - ({begin}) : {width};")
                end = "width"
            accumulators = self.declare(starts, width)
            with block.scope(f"for (int n = 0; n < {length}; ++n)"), block.scope(f"for (int u = 0; u < {end}; ++u)"):
                n = variable("n", 0, length - 1)
                n = length - 1 - n if descending else n
                lane = begin + variable("u", 0, width - 1)
                if lane.high >= lanes:
                    block.line(f"const int lane = {lane};")
                    lane = variable("lane", 0, lanes - 1)
                left, right = (unit // strips, lane) if inside else (lane, constant(0))
                placing = [*delinearize(left, before), n, *delinearize(right, after)]
                spots = [f"{a}[u]" for a in accumulators]
                self.take(spots, placing)
                self.store(spots, placing)
        return Kernel(self.fusion.name, block.text(), self.arguments, items)
