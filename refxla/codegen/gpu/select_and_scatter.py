"""Select-and-scatter, the gradient of max pooling, on GPUs.

If windows overlap, each element of the operand lies in several of them, and the search for the selected element of each
would be repeated for all of its elements. So a first kernel searches, a few adjacent placings in an item:

    selected[placing] = the number of the selected element in the window, or NONE

and a second one, with an item for each element of the result, combines the source's elements of those placings, in
order, that selected the element.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from math import prod

from ...analysis.accumulation import accumulator_types
from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...analysis.index_maps import Condition, covering_placing, most_placings
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import combine, converted, rounded
from ..index_printer import c_of, scope_if
from ..kernel_arguments import hero_of, input_argument, inputs_of, output_argument
from . import elementwise
from .window_items import MOST_RESULTS, SlidingWindow, WindowItem
from .work_groups import each_unit, kernel_of_units

NONE = 255  # larger than the number of any element of a window
MOST_PLACINGS = 16  # that contain an element, whose tests are unrolled


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a select-and-scatter, whose operands may be fused into it."""
    hero = hero_of(fusion)
    placings = prod(map(most_placings, hero.attributes.get("window", ())))
    if fusion.outputs != (hero,) or not 1 < placings <= MOST_PLACINGS or not hero.shape.size:
        return elementwise.emit(fusion, target)
    operand, source, _ = hero.operands
    items = SlidingWindow.over(fusion, [operand], hero.window, source.shape.dimensions).items(target, MOST_RESULTS)
    if not items:
        return elementwise.emit(fusion, target)
    return _Search(fusion, target, items[0]).kernel(), _gather(fusion, target)


def _selected(fusion: Fusion) -> Argument:
    """The memory for the selected elements."""
    size = hero_of(fusion).operands[1].shape.size
    return Argument("scratch", "uchar", bytes=size, scratch=f"{fusion.name}.selected")


class _Search:
    """Emits the kernel that searches the selected element of each window."""

    def __init__(self, fusion: Fusion, target: Target, item: WindowItem) -> None:
        self.fusion, self.item, self.hero, self.block = fusion, item, hero_of(fusion), Block()
        self.inputs = inputs_of(fusion, [self.hero.operands[0]])
        self.e = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(self.inputs)})
        self.target = target

    def kernel(self) -> Kernel:
        """The kernel."""
        item, block = self.item, self.block
        name = type_name(self.hero.operands[0])
        with each_unit(block, self.target, item.units):
            at = item.begin(block)
            block.line(f"{scalar.register_type(name)} best{item.state};")
            block.line(f"int place{item.state};")
            item.fill(block, "best", scalar.literal(name, 0))
            item.fill(block, "place", str(NONE))
            item.visit(self.e, block, at, self._step)
            with item.placings(block, at) as (place, width, own):
                position = linearize(place, item.of.counts)
                if width > 1:
                    block.line("#pragma unroll")
                with block.scope(f"for (int j = 0; j < {width}; ++j)" if width > 1 else ""):
                    block.line(f"a{len(self.inputs)}[{c_of(position)}] = place{own};")
        arguments = (*map(input_argument, self.inputs), _selected(self.fusion))
        return kernel_of_units(f"{self.fusion.name}.selected", block, arguments, self.target, item.units)

    def _step(self, placings: Sequence[tuple[int, int, int]], lane: str, values: Sequence[str]) -> None:
        name, block = type_name(self.hero.operands[0]), self.block
        for r, c, k in placings:
            own = f"[{r}][{c}][{lane}]"
            best = self.e.assign(name, f"best{own}", block)
            (keep,) = self.e.apply(self.hero.attributes["select"], (best, values[0]), block)
            take = self.e.assign("pred", f"(place{own} == {NONE}) | !{keep}", block)
            block.line(f"best{own} = {take} ? {values[0]} : {best};")
            block.line(f"place{own} = {take} ? {k} : place{own};")


def _gather(fusion: Fusion, target: Target) -> Kernel:
    """The kernel that combines, for each element, the source's elements of the placings that selected it."""
    hero, block = hero_of(fusion), Block()
    _, source, init = hero.operands
    sizes, counts, scatter = hero.shape.dimensions, source.shape.dimensions, hero.attributes["scatter"]
    inputs = inputs_of(fusion, [source, init])
    e = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate((*inputs, hero))})
    (name,) = accumulator_types(scatter)
    units = prod(sizes)
    with each_unit(block, target, units):
        at: list[Index] = []
        for d, part in enumerate(delinearize(variable("unit", 0, units - 1), sizes)):
            block.line(f"const int at{d} = {c_of(part)};")
            at.append(variable(f"at{d}", part.low, part.high))
        total = e.assign(
            name, converted(e, e.value(init, (), block), type_name(init), name, block), block, changes=True
        )
        for numbers in combinations(*(range(most_placings(w)) for w in hero.window)):
            conditions: list[Condition] = []
            placing: list[Index] = []
            element = constant(0)  # of the window, that lies here
            for w, x, number, count in zip(hero.window, at, numbers, counts, strict=True):
                covered, o = covering_placing(w, x, constant(number), count)
                conditions += covered
                placing.append(o)
                element = element * w.size + (x + w.padding_low - o * w.stride)
            with scope_if(block, conditions):
                chosen = f"a{len(inputs) + 1}[{c_of(linearize(placing, counts))}]"
                with block.scope(f"if ({chosen} == {c_of(element)})"):
                    value = e.value(source, placing, block)
                    (result,) = combine(e, scatter, (total, value), block)
                    block.line(f"{total} = {result};")
        e.bind(hero, at, rounded(e, scatter, (total,), block)[0])
        e.store(hero, at, block)
    arguments = (*map(input_argument, inputs), output_argument(hero), _selected(fusion))
    return kernel_of_units(fusion.name, block, arguments, target, units)
