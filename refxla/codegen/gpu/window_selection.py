"""The element that each placing of a large window selects, by intervals whose lengths are multiplied from kernel to
kernel.

A select-and-scatter of w elements would take w steps for each placing, though neighbours read nearly the same elements.
If its `select` orders them, as `a >= b` does, what an interval selects follows from the selections of its parts:

    selected(x, y) = y        if x is empty, y has a NaN, or select(x, y) is false
                     x        otherwise

where the parts may overlap, as long as x begins first: no element is selected because it is met twice. (A NaN is equal
to nothing, so that select is false: each candidate after it is taken, and so is the NaN itself. What comes before the
last NaN does not matter.) So a kernel computes the selections of the intervals of RADIX elements from each place, the
next one those of RADIX * RADIX, and the last one those of the window, one dimension after the other: some
log(w) / log(RADIX) steps for each element.

    places[...] = 2 * number of the element in the operand + whether the interval has a NaN; NONE if it is empty
    values[...] = the selected element
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from refxla_spec.module import Computation, WindowDimension
from refxla_spec.ops.compare import is_total

from ...analysis.index_expression import Index, delinearize, linearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of, input_argument, inputs_of
from ..windows.window_lanes import is_left_alone
from .work_groups import each_unit, kernel_of_units, register_bytes

RADIX = 8  # intervals that an item combines
NONE = -1  # the place of the element that an empty window selects
MOST_ELEMENTS = 1 << 30  # of the operand, whose numbers have a bit beside them


def is_ordered(select: Computation) -> bool:
    """Whether a `select` is a comparison that orders its two parameters, so that selections can be combined."""
    root, parameters = select.root, select.parameters
    return (
        root.opcode == "compare"
        and root.direction in ("GE", "GT", "LE", "LT")
        and root.operands in (parameters, parameters[::-1])
    )


def indices_of_unit(block: Block, sizes: Sequence[int]) -> list[Index]:
    """Declares the indices of the item's element of an array; returns them."""
    at: list[Index] = []
    for d, part in enumerate(delinearize(variable("unit", 0, prod(sizes) - 1), sizes)):
        block.line(f"const int at{d} = {c_of(part)};")
        at.append(variable(f"at{d}", part.low, part.high))
    return at


@dataclass(frozen=True)
class _Combination:
    """What a kernel combines for each element of its result: in a dimension of an array, the intervals of `length`
    elements that begin `step` * index - `before` + 0, `length`, 2 * `length`, ...; the last of the `intervals` begins
    at `last`. Those outside of the array are empty."""

    dimension: int
    count: int  # elements of the result along the dimension
    step: int
    before: int
    length: int
    intervals: int
    last: int


def _combinations(d: int, w: WindowDimension, count: int) -> list[_Combination]:
    """Those that compute the selections of `count` placings along a dimension, one after the other."""
    result: list[_Combination] = []
    length, before = 1, w.padding_low
    while length * RADIX < w.size:
        longer = length * RADIX
        starts = (count - 1) * w.stride + w.size - longer + 1
        result.append(_Combination(d, starts, 1, before, length, RADIX, longer - length))
        length, before = longer, 0
    return [*result, _Combination(d, count, w.stride, before, length, -(-w.size // length), w.size - length)]


class WindowSelection:
    """The kernels that find the selected elements of a select-and-scatter whose `select` is ordered."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self.fusion, self.target, self.hero = fusion, target, hero_of(fusion)
        self.operand, self.source, _ = self.hero.operands
        self.select, self.type = self.hero.attributes["select"], type_name(self.operand)
        self.has_nans = self.operand.shape.element_type.is_float and not is_total(self.select.root.attributes)

    @property
    def selected(self) -> Argument:
        """The memory for the numbers of the selected elements in the operand, or NONE; ints."""
        size = self.source.shape.size * 4
        return Argument("scratch", "int", bytes=size, scratch=f"{self.fusion.name}.selected")

    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, of which the last stores `selected`."""
        window, counts = self.hero.window, self.source.shape.dimensions
        steps = [
            step
            for d in reversed(range(len(window)))
            if not is_left_alone(window[d])
            for step in _combinations(d, window[d], counts[d])
        ]
        sizes, result = list(self.operand.shape.dimensions), list[Kernel]()
        for n, step in enumerate(steps):
            own = [step.count if d == step.dimension else size for d, size in enumerate(sizes)]
            result.append(self._kernel(n, step, sizes, own, is_last=n == len(steps) - 1))
            sizes = own
        return tuple(result)

    def _arrays(self, n: int, sizes: Sequence[int]) -> tuple[Argument, Argument]:
        """The memory for the values and places that kernel number n stores; two of them take turns."""
        name, size = f"{self.fusion.name}.selection{n % 2}", prod(sizes)
        values = size * register_bytes(self.type)
        return (
            Argument("scratch", scalar.register_type(self.type), bytes=values, scratch=f"{name}.values"),
            Argument("scratch", "int", bytes=size * 4, scratch=f"{name}.places"),
        )

    def _kernel(self, n: int, step: _Combination, sizes: Sequence[int], own: Sequence[int], is_last: bool) -> Kernel:
        block, d, t = Block(), step.dimension, scalar.register_type(self.type)
        inputs = inputs_of(self.fusion, [self.operand]) if n == 0 else []
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{k}" for k, i in enumerate(inputs)})
        read = () if n == 0 else self._arrays(n - 1, sizes)
        written = (self.selected,) if is_last else self._arrays(n, own)
        first = len(inputs) + len(read)
        with each_unit(block, self.target, prod(own)):
            at = indices_of_unit(block, own)
            block.line(f"{t} value = {scalar.literal(self.type, 0)};")
            block.line(f"int place = {NONE};")
            block.line("#pragma unroll")
            with block.scope(f"for (int k = 0; k < {step.intervals}; ++k)"):
                begin = at[d] * step.step - step.before
                offset = f"(k < {step.intervals - 1} ? k * {step.length} : {step.last})"
                block.line(f"const int x = {c_of(begin)} + {offset};")
                is_inside = begin.low >= 0 and begin.high + step.last < sizes[d]
                with block.scope("" if is_inside else f"if ((x >= 0) & (x < {sizes[d]}))"):
                    position = [*at]
                    position[d] = variable("x", 0, sizes[d] - 1)
                    self._combine(e, block, position, sizes, [f"a{len(inputs) + k}" for k in range(len(read))])
            number = c_of(variable("unit", 0, prod(own) - 1))
            if is_last:
                block.line(f"a{first}[{number}] = place >> 1;")
            else:
                block.line(f"a{first}[{number}] = value;")
                block.line(f"a{first + 1}[{number}] = place;")
        arguments = (*map(input_argument, inputs), *read, *written)
        return kernel_of_units(f"{self.fusion.name}.selected{n}", block, arguments, self.target, prod(own))

    def _combine(
        self,
        e: ElementalIrEmitter,
        block: Block,
        position: Sequence[Index],
        sizes: Sequence[int],
        arrays: Sequence[str],
    ) -> None:
        """Combines what is selected so far with the interval that begins at a position: an element of the operand, or
        one of the arrays (values and places)."""
        number = c_of(linearize(position, sizes))
        if arrays:
            value = e.assign(self.type, f"{arrays[0]}[{number}]", block)
            block.line(f"const int next = {arrays[1]}[{number}];")
        else:
            value = e.value(self.operand, position, block)
            block.line(f"const int next = 2 * ({number}){f' + ({value} != {value})' if self.has_nans else ''};")
        held = e.assign(self.type, "value", block)
        (keep,) = e.apply(self.select, (held, value), block)
        has_nan = " | (next & 1)" if self.has_nans else ""
        block.line(f"const int take = (next >= 0) & ((place < 0){has_nan} | !{keep});")
        block.line(f"value = take ? {value} : value;")
        before = " | (place >= 0 ? place & 1 : 0)" if self.has_nans else ""
        block.line(f"place = take ? next{before} : place;")
