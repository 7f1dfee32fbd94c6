"""Select-and-scatter, the gradient of max pooling, on GPUs.

Each element of the operand lies in several windows if these overlap, and the search for the selected element of a
window would be repeated for all of its elements. So a first kernel searches, a few adjacent placings in an item:

    selected[placing] = the number of the selected element in the window, or a larger number

and a second one, with an item for each element of the result, combines the source's elements of those placings, in
order, that selected the element. Small windows that do not overlap are searched for each of their elements, by one
kernel.

Large windows are searched by intervals (window_selection.py), if `select` is a comparison that orders elements, so that
the time does not grow with the window. If an element may lie in very many placings, these are not searched for those
that selected it either: the source's elements are scattered, sorted by the elements that their placings selected
(scatter.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import product as combinations
from math import prod

from refxla_spec.module import WindowDimension
from refxla_spec.types import S32, Shape

from ...analysis.accumulation import accumulator_types
from ...analysis.index_expression import Index, constant, linearize
from ...analysis.index_maps import covering_placing, most_placings
from ...device.description import Target
from ...ir.builder import Build
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import combine, converted, enter_window, rounded
from ..index_printer import c_of, scope_if
from ..kernel_arguments import hero_of, input_argument, inputs_of, members_of, output_argument
from . import elementwise, scatter, window_selection
from .window_items import MOST_ELEMENTS, MOST_RESULTS, SlidingWindow, WindowItem
from .window_selection import WindowSelection, indices_of_unit
from .work_groups import each_unit, kernel_of_units

MOST_PLACINGS = 16  # that contain an element, whose tests are unrolled
MOST_GATHERED = 256  # that an item searches for those that selected its element: sorting them takes as long


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a select-and-scatter, whose operands may be fused into it."""
    hero = hero_of(fusion)
    operand, source, _ = hero.operands
    window = hero.attributes.get("window", ())
    is_small = prod(map(most_placings, window)) == 1 and prod(w.size for w in window) <= MOST_ELEMENTS
    if fusion.outputs != (hero,) or is_small or 0 in (hero.shape.size, source.shape.size):
        return elementwise.emit(fusion, target)
    items = SlidingWindow.over(fusion, [operand], window, source.shape.dimensions).items(target, MOST_RESULTS)
    if items:
        return _Search(fusion, target, items[0]).kernel(), _gather(fusion, target, _selected(fusion))
    if operand.shape.size >= window_selection.MOST_ELEMENTS or not window_selection.is_ordered(hero.select):
        return _search_by_loops(fusion, target), _gather(fusion, target, _selected(fusion))
    selection = WindowSelection(fusion, target)
    if prod(map(most_placings, window)) <= MOST_GATHERED:
        return *selection.kernels(), _gather(fusion, target, selection.selected, by_number=True)
    return *selection.kernels(), *_scatter(fusion, target, selection.selected)


def _number_type(window: Sequence[WindowDimension]) -> tuple[str, int]:
    """The C type of the number of a window's element, and its largest value, which is the number of none."""
    elements = prod(w.size for w in window)
    return next((c, most) for c, most in (("uchar", 255), ("ushort", 65535), ("int", 2**31 - 1)) if elements <= most)


def _selected(fusion: Fusion) -> Argument:
    """The memory for the selected elements."""
    hero = hero_of(fusion)
    ctype, _ = _number_type(hero.window)
    size = hero.operands[1].shape.size * {"uchar": 1, "ushort": 2, "int": 4}[ctype]
    return Argument("scratch", ctype, bytes=size, scratch=f"{fusion.name}.selected")


def _search_by_loops(fusion: Fusion, target: Target) -> Kernel:
    """The kernel that searches the selected element of each window, one placing in an item, for windows that are too
    large for unrolled loops, and a `select` that is any computation."""
    hero, block = hero_of(fusion), Block()
    operand, source, _ = hero.operands
    window, counts, name = hero.window, source.shape.dimensions, type_name(operand)
    _, none = _number_type(window)
    inputs = inputs_of(fusion, [operand])
    e = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(inputs)})
    units = prod(counts)
    with each_unit(block, target, units):
        placing = indices_of_unit(block, counts)
        best = e.assign(name, scalar.literal(name, 0), block, changes=True)
        block.line(f"int place = {none};")
        with ExitStack() as scopes:
            elements, positions = enter_window(e, window, placing, operand.shape.dimensions, block, scopes)
            value = e.value(operand, positions, block)
            (keep,) = e.apply(hero.attributes["select"], (best, value), block)
            take = e.assign("pred", f"(place == {none}) | !{keep}", block)
            block.line(f"{best} = {take} ? {value} : {best};")
            number = linearize(elements, [w.size for w in window])
            block.line(f"place = {take} ? {c_of(number)} : place;")
        block.line(f"a{len(inputs)}[unit] = place;")
    arguments = (*map(input_argument, inputs), _selected(fusion))
    return kernel_of_units(f"{fusion.name}.selected", block, arguments, target, units)


class _Search:
    """Emits the kernel that searches the selected element of each window."""

    def __init__(self, fusion: Fusion, target: Target, item: WindowItem) -> None:
        self.fusion, self.item, self.hero, self.block = fusion, item, hero_of(fusion), Block()
        self.inputs = inputs_of(fusion, [self.hero.operands[0]])
        self.e = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(self.inputs)})
        self.target = target
        _, self.none = _number_type(self.hero.window)

    def kernel(self) -> Kernel:
        """The kernel."""
        item, block = self.item, self.block
        name = type_name(self.hero.operands[0])
        with each_unit(block, self.target, item.units):
            at = item.begin(block)
            block.line(f"{scalar.register_type(name)} best{item.state};")
            block.line(f"int place{item.state};")
            item.fill(block, "best", scalar.literal(name, 0))
            item.fill(block, "place", str(self.none))
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
            take = self.e.assign("pred", f"(place{own} == {self.none}) | !{keep}", block)
            block.line(f"best{own} = {take} ? {values[0]} : {best};")
            block.line(f"place{own} = {take} ? {k} : place{own};")


def _scatter(fusion: Fusion, target: Target, selected: Argument) -> tuple[Kernel, ...]:
    """The kernels that combine the source's elements into the selected elements of the result, as those of a scatter
    whose indices are `selected`."""
    hero, b = hero_of(fusion), Build(fusion.name)
    _, source, init = hero.operands
    filled = b.spread(init, hero.shape, ())
    fill = Fusion(f"{fusion.name}.filled", "loop", (*members_of(fusion, [init]), filled), fusion.inputs, (filled,))
    target_array = b.reshape(filled, (hero.shape.size,))
    numbers = b.make("parameter", shape=Shape(S32, (source.shape.size, 1)), number=0)
    updates = b.reshape(source, (source.shape.size,))
    result = b.make(
        "scatter", target_array, numbers, updates, inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1, to_apply=hero.attributes["scatter"],
    )  # fmt: skip
    members = (*members_of(fusion, [source]), updates, result)
    inputs = (*fusion.inputs, target_array, numbers)
    combination = Fusion(fusion.name, "scatter", members, inputs, (result,), result)
    own = {filled: output_argument(hero), target_array: output_argument(hero), result: output_argument(hero)}
    own[numbers] = selected

    def with_own(kernel: Kernel) -> Kernel:
        arguments = (a if a.instruction is None else own.get(a.instruction, a) for a in kernel.arguments)
        return replace(kernel, arguments=tuple(arguments))

    return tuple(map(with_own, (*elementwise.emit(fill, target), *scatter.emit(combination, target))))


def _gather(fusion: Fusion, target: Target, selected: Argument, by_number: bool = False) -> Kernel:
    """The kernel that combines, for each element, the source's elements of the placings that selected it: `selected`
    has the number of the element in the window, or, `by_number`, in the operand."""
    hero, block = hero_of(fusion), Block()
    _, source, init = hero.operands
    sizes, counts, scatter = hero.shape.dimensions, source.shape.dimensions, hero.attributes["scatter"]
    inputs = inputs_of(fusion, [source, init])
    e = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate((*inputs, hero))})
    (name,) = accumulator_types(scatter)
    units = prod(sizes)
    with each_unit(block, target, units):
        at = indices_of_unit(block, sizes)
        total = e.assign(
            name, converted(e, e.value(init, (), block), type_name(init), name, block), block, changes=True
        )
        for placing in _covering_placings(e, hero.window, at, counts, block):
            element = constant(0)  # of the window, that lies here
            for w, x, o in zip(hero.window, at, placing, strict=True):
                element = element * w.size + (x + w.padding_low - o * w.stride)
            chosen = f"a{len(inputs) + 1}[{c_of(linearize(placing, counts))}]"
            with block.scope(f"if ({chosen} == {'unit' if by_number else c_of(element)})"):
                value = e.value(source, placing, block)
                (result,) = combine(e, scatter, (total, value), block)
                block.line(f"{total} = {result};")
        e.bind(hero, at, rounded(e, scatter, (total,), block)[0])
        e.store(hero, at, block)
    arguments = (*map(input_argument, inputs), output_argument(hero), selected)
    return kernel_of_units(fusion.name, block, arguments, target, units)


def _covering_placings(
    e: ElementalIrEmitter, window: Sequence[WindowDimension], at: Sequence[Index], counts: Sequence[int], block: Block
) -> Iterator[list[Index]]:
    """The placings of a window that contain an element, in order: each of a few, or that of a loop for each dimension.
    The block is inside the condition for it meanwhile."""
    most = [most_placings(w) for w in window]
    if prod(most) <= MOST_PLACINGS:
        for numbers in combinations(*map(range, most)):
            covered = list(map(covering_placing, window, at, map(constant, numbers), counts))
            with scope_if(block, [condition for conditions, _ in covered for condition in conditions]):
                yield [o for _, o in covered]
        return
    with ExitStack() as scopes:
        placing: list[Index] = []
        for w, x, count, n in zip(window, at, counts, most, strict=True):
            number, scope = e.loop(n, block, "t")
            scopes.enter_context(scope)
            conditions, o = covering_placing(w, x, number, count)
            scopes.enter_context(scope_if(block, conditions, own=False))
            placing.append(o)
        yield placing
