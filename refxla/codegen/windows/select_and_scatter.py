"""The kernel of kind "select-and-scatter": the gradient of max pooling.

A unit of work owns a strip of lanes (see window_lanes.py) for all placings of the window in the other dimensions, so
that no other item writes the same elements. It fills its part of the result with init_value, then visits the placings
in row-major order:

    for each element k of the window that lies inside:
        for u:  if nothing is selected yet, or select(selected[u], operand[...]) is false: select this one, place[u] = k
    for each element k of the window that lies inside:
        for u:  if place[u] == k: result[...] = scatter(result[...], source[...])

If the window slides along the lanes, the second pass runs along them from the window's last element to its first: each
element of the result is then updated by its placings in order, one at a time.
"""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from ...analysis.accumulation import accumulator_types
from ...analysis.index_expression import Index, delinearize, linearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import combine, converted, rounded
from ..index_printer import c_of
from ..kernel_arguments import hero_of, input_argument, inputs_of, output_argument
from ..loops import elementwise
from .window_lanes import Lanes, OpenWindow, is_left_alone

LITTLE = 16384  # elements, up to which one item is enough


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a select-and-scatter: its source and init_value may be fused into it."""
    hero = hero_of(fusion)
    if fusion.outputs != (hero,) or not hero.attributes.get("window", ()):
        return elementwise.emit(fusion, target)
    kernel = _SelectAndScatter(fusion, target)
    return (kernel.kernel(),) if kernel.lanes.supported else elementwise.emit(fusion, target)


class _SelectAndScatter:
    """The kernel while it is written.

    Of the dimensions that are no lanes, `alone` are those outside of the window, whose elements are independent `rows`;
    an item loops over the placings of the window along the others, `loop_dimensions`.
    """

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self.fusion, self.hero = fusion, hero_of(fusion)
        self.operand, self.source, self.init = self.hero.operands
        self.window, self.sizes = self.hero.window, self.hero.shape.dimensions
        self.counts = self.source.shape.dimensions
        self.select, self.scatter = self.hero.attributes["select"], self.hero.attributes["scatter"]
        (self.type,) = accumulator_types(self.scatter)
        self.lanes = lanes = Lanes(self.window, self.sizes, self.counts)
        self.alone = [d for d in lanes.outer if is_left_alone(self.window[d])]
        self.loop_dimensions = [d for d in lanes.outer if d not in self.alone]
        self.rows = prod(self.sizes[d] for d in self.alone)
        self.empty = 0 in self.sizes or 0 in self.counts
        if lanes.slides is None and prod(self.sizes) > LITTLE:
            lanes.narrow(-(-4 * target.compute_units // max(1, self.rows)))
        inputs = inputs_of(fusion, fusion.outputs)
        pointers = {i: f"a{n}" for n, i in enumerate((*inputs, self.hero))}
        self.e, self.block = ElementalIrEmitter(fusion, target, pointers), Block()
        self.arguments = [*map(input_argument, inputs), output_argument(self.hero)]
        self.result = pointers[self.hero]
        # Sums of halves stay in f32 until they are complete.
        self.has_wide_sums = self.type != type_name(self.hero)
        if self.has_wide_sums:
            size = 4 * prod(self.sizes)
            self.arguments.append(Argument("scratch", "float", bytes=size, scratch=f"{fusion.name}.sums"))
            self.result = f"a{len(self.arguments) - 1}"

    def kernel(self) -> Kernel:
        lanes, block = self.lanes, self.block
        strips = lanes.strips if lanes.slides is None else 1
        units = self.rows * strips
        items = units if prod(self.sizes) > LITTLE else 1
        if 0 in self.sizes:
            return Kernel(self.fusion.name, "", tuple(self.arguments), 0)
        unit, head = variable("item", 0, units - 1), ""
        if items < units:
            unit, head = variable("unit", 0, units - 1), f"for (int unit = 0; unit < {units}; ++unit)"
        with block.scope(head):
            at = dict(zip(self.alone, delinearize(unit // strips, [self.sizes[d] for d in self.alone]), strict=True))
            if lanes.slides is None:
                lanes.open_strip(block, unit % strips)
            self._fill(at)
            if not self.empty:
                self._walk(at)
            if self.has_wide_sums:
                self._round(at)
        return Kernel(self.fusion.name, block.text(), tuple(self.arguments), items)

    def _own(self, at: dict[int, Index], scopes: ExitStack) -> list[Index]:
        """Opens loops over the unit's elements of the result. Returns their indices."""
        indices = dict(at)
        for d in self.loop_dimensions:
            indices[d], scope = self.e.loop(self.sizes[d], self.block, "x")
            scopes.enter_context(scope)
        if self.lanes.slides is None:
            _, lane = self.lanes.open_lane(self.e, self.block, scopes)
        else:
            lane, scope = self.e.loop(self.sizes[self.lanes.slides], self.block, "x")
            scopes.enter_context(scope)
        outer = [indices[d] for d in self.lanes.outer]
        return [*outer, *delinearize(lane, [self.sizes[d] for d in self.lanes.dims])]

    def _spot(self, indices: list[Index]) -> str:
        return f"{self.result}[{c_of(linearize(indices, self.sizes))}]"

    def _write(self, value: str) -> str:
        return scalar.store(self.type, value)

    def _fill(self, at: dict[int, Index]) -> None:
        value = self.e.value(self.init, (), self.block)
        init = converted(self.e, value, type_name(self.init), self.type, self.block)
        with ExitStack() as scopes:
            spot = self._spot(self._own(at, scopes))
            self.block.line(f"{spot} = {self._write(init)};")

    def _round(self, at: dict[int, Index]) -> None:
        with ExitStack() as scopes:
            indices = self._own(at, scopes)
            (value,) = rounded(self.e, self.scatter, (self._spot(indices),), self.block)
            self.e.bind(self.hero, indices, value)
            self.e.store(self.hero, indices, self.block)

    def _walk(self, at: dict[int, Index]) -> None:
        lanes, block, e = self.lanes, self.block, self.e
        with ExitStack() as scopes:
            at = dict(at)
            for d in self.loop_dimensions:
                at[d], scope = e.loop(self.counts[d], block, "o")
                scopes.enter_context(scope)
            if lanes.slides is not None:  # strips of placings, one after the other
                strip, scope = e.loop(lanes.strips, block, "strip")
                scopes.enter_context(scope)
                lanes.open_strip(block, strip)
            self._pick(at)
            self._add(at)

    def _pick(self, at: dict[int, Index]) -> None:
        """Finds for each lane the number of the window's element that is selected."""
        lanes, block, e, name = self.lanes, self.block, self.e, type_name(self.operand)
        register = scalar.register_type(name)
        self.bits = {1: "char", 2: "short", 4: "int", 8: "long"}[max(1, self.operand.shape.element_type.bytes)]
        if prod(w.size for w in self.window) > 127:
            self.bits = "int"
        block.line(f"{register} selected[{lanes.strip}];")
        block.line(f"{self.bits} place[{lanes.strip}];")
        block.line(f"{scalar.register_type(type_name(self.source))} source[{lanes.strip}];")
        with ExitStack() as inner:
            u, lane = lanes.open_lane(e, block, inner)
            block.line(f"selected[{u}] = {scalar.literal(name, 0)};")
            block.line(f"place[{u}] = -1;")
            block.line(f"source[{u}] = {e.value(self.source, lanes.placing(at, lane), block)};")
        with ExitStack() as inner:
            window = OpenWindow(lanes, e, block, at, inner)
            u, lane = lanes.open_lane(e, block, inner, window.bounds)
            value = e.value(self.operand, window.position(lane), block)
            selected = e.assign(name, f"selected[{u}]", block)
            (keep,) = e.apply(self.select, (selected, value), block)
            choice = e.names.fresh("taken")
            block.line(f"const int {choice} = (place[{u}] < 0) | !{keep};")
            block.line(f"selected[{u}] = {choice} ? {value} : {selected};")
            block.line(f"place[{u}] = {choice} ? ({self.bits})({c_of(window.number)}) : place[{u}];")

    def _add(self, at: dict[int, Index]) -> None:
        """Combines each lane's value of source into the element of the result that its window selects."""
        lanes, block, e = self.lanes, self.block, self.e
        with ExitStack() as inner:
            window = OpenWindow(lanes, e, block, at, inner, descending=True)
            u, lane = lanes.open_lane(e, block, inner, window.bounds)
            spot = self._spot(window.position(lane))
            old = e.assign(self.type, scalar.load(self.type, spot), block)
            (new,) = combine(e, self.scatter, (old, f"source[{u}]"), block)
            block.line(f"{spot} = {self._write(f'(place[{u}] == {c_of(window.number)} ? {new} : {old})')};")
