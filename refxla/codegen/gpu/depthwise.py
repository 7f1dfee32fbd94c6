"""Depthwise convolutions, with one feature in each group: an item computes a few adjacent results.

    sum[r][c][j] += lhs[row + r, column + c, channel + j] * rhs[element, channel + j]

An item has `rows` placings of the window in the last but one spatial dimension, by `columns` in the last one, of
`channels` channels. It loads one element of the image after the other, and uses each for all placings whose window
contains it; so it does with the weights. If the channels are contiguous in memory, it loads vectors of channels;
otherwise, as where the channels come first, vectors of columns. Without vectors, it has a single column, so that
adjacent items still access adjacent elements.

The terms of a sum follow each other in the order of the window's elements, as everywhere; those in the padding are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product as combinations
from math import prod

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...analysis.index_maps import Condition, window_position
from ...ir.plan import Kernel
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import converted
from ..index_printer import c_of, c_of_conditions
from ..kernel_arguments import hero_of, input_argument, output_argument
from ..products.convolution_dimensions import ConvolutionDimensions
from ..products.epilogue import store_outputs
from ..products.packing import VECTORS, from_accumulation
from ..sums import multiply_add
from .gemm import MatrixProduct
from .vector_access import VectorAccesses
from .window_strips import Pairs, Strip
from .work_groups import group_size

SIZES = (4, 2, 1)  # channels, rows and columns of an item
MOST_RESULTS = 16  # of an item: their sums, and the weights, are in registers
GROUPS_PER_UNIT = 4  # work-groups that keep a compute unit busy: items have fewer results if there would be fewer
MOST_ELEMENTS = 64  # of a window whose loops are unrolled


def kernel(p: MatrixProduct, numbers: ConvolutionDimensions) -> Kernel | None:
    """The kernel of a convolution with one feature for each group; None if an item for each result is as good."""
    plain = numbers.feature_groups > 1 and numbers.features == numbers.n == 1 and p.segment == 0
    if not plain or not numbers.window or p.k > MOST_ELEMENTS:
        return None
    most = min(MOST_RESULTS, p.groups * p.m // (GROUPS_PER_UNIT * p.target.compute_units * group_size(p.target)))
    sizes = combinations(SIZES, SIZES if len(numbers.window) > 1 else (1,), SIZES)
    items = (_Depthwise(p, numbers, *size) for size in sizes if 1 < prod(size) <= most)
    possible = [item for item in items if item.is_possible()]
    return min(possible, key=lambda item: item.loads_per_result).kernel() if possible else None


@dataclass(frozen=True)
class _Depthwise:
    """An item has `rows` x `columns` placings of `channels` channels."""

    p: MatrixProduct
    numbers: ConvolutionDimensions
    channels: int
    rows: int
    columns: int

    @cached_property
    def _strips(self) -> tuple[Strip, ...]:
        """The placings of an item in the last spatial dimensions: rows, if there are two, and columns."""
        n = self.numbers
        placings = (self.rows, self.columns)[-len(n.window) :]
        strips = zip(n.window[-2:], n.sizes[-2:], n.counts[-2:], placings, strict=True)
        return tuple(Strip(*parts) for parts in strips)

    @property
    def _outer(self) -> int:
        """The spatial dimensions before those, of which an item has one placing."""
        return len(self.numbers.window) - len(self._strips)

    @property
    def _along_channels(self) -> bool:
        return self.channels > 1

    @cached_property
    def _width(self) -> int:
        """The columns of the image in a vector, without vectors of channels."""
        step, size = self._strips[-1].step, self.numbers.sizes[-1]
        widths = [w for w in SIZES if self.columns > 1 and step % w == size % w == 0 and self._has_columns(w)]
        return max(widths, default=1)

    def is_possible(self) -> bool:
        """Whether the strips repeat after whole elements of the image, and the loads are vectors."""
        if any(strip.step == 0 for strip in self._strips) or self.p.groups % self.channels:
            return False
        if self._along_channels:
            return self._has_channels()
        return self.columns == 1 or (self.numbers.counts[-1] % self.columns == 0 and self._width > 1)

    @property
    def loads_per_result(self) -> float:
        """The loads of an item for each of its results."""
        *rows, columns = (len(strip.meetings) for strip in self._strips)
        if not self._along_channels:
            columns = len({distance // self._width for distance in self._strips[-1].meetings})
        loads: int = prod(self.numbers.elements[: self._outer]) * prod(rows) * columns + self.p.k
        results: int = self.channels * self.rows * self.columns
        return loads / results

    def _has_channels(self) -> bool:
        """Whether what is read of both operands are vectors of channels."""
        p = self.p
        g = variable("q", 0, p.groups // self.channels - 1) * self.channels + variable("j", 0, self.channels - 1)
        m, k = variable("m", 0, p.m - 1), variable("k", 0, p.k - 1)
        left = self._are_vectors(p.left_operand, p.left(g, m, k), self.channels)
        return left and self._are_vectors(p.right_operand, p.right(g, k, constant(0)), self.channels)

    def _has_columns(self, width: int) -> bool:
        """Whether what is read of the image are vectors of so many columns."""
        n = self.numbers
        positions = [variable(f"at{s}", 0, size - 1) for s, size in enumerate(n.sizes[:-1])]
        x = variable("q", 0, n.sizes[-1] // width - 1) * width + variable("j", 0, width - 1)
        image, g = variable("image", 0, n.batch - 1), variable("g", 0, self.p.groups - 1)
        return width > 1 and self._are_vectors(self.p.left_operand, self._left(image, [*positions, x], g), width)

    def _are_vectors(self, operand: Instruction, at: Sequence[Index], width: int) -> bool:
        pattern = AccessPattern(self.p.fusion)
        pattern.value(operand, at)
        varying = [a for a in pattern.accesses if a.position.factor("j") != 0]
        return bool(varying) and len(VectorAccesses.of(pattern, "j", width).loads) == len(varying)

    def kernel(self) -> Kernel:
        """The kernel."""
        p, n, block, fusion = self.p, self.numbers, Block(), self.p.fusion
        inputs = list(fusion.inputs)
        e = ElementalIrEmitter(fusion, p.target, {i: f"a{k}" for k, i in enumerate((*inputs, *fusion.outputs))})
        strips = dict(enumerate(self._strips, self._outer))
        # The items are numbered in the order of the result in memory.
        counts = {d: strips[s].count if s in strips else n.counts[s] for s, d in enumerate(n.dims.output_spatial)}
        counts |= {n.dims.output_batch: n.batch, n.dims.output_feature: p.groups // self.channels}
        sizes = [counts[d] for d in range(len(n.out))]
        group, units = group_size(p.target), prod(sizes)
        block.line(f"const int unit = group * {group} + item;")
        with block.scope(f"if (unit < {units})" if units % group else ""):
            parts = delinearize(variable("unit", 0, units - 1), sizes)
            image = self._named(block, "image", parts[n.dims.output_batch])
            channel = self._named(block, "channel", parts[n.dims.output_feature])
            at = [self._named(block, f"at{s}", parts[d]) for s, d in enumerate(n.dims.output_spatial)]
            g = channel * self.channels + variable("j", 0, self.channels - 1)
            block.line(f"{VECTORS[p.name][0]} sum[{self.rows}][{self.columns}][{self.channels}] = {{{{{{0}}}}}};")
            for outer in combinations(*(range(size) for size in n.elements[: self._outer])):
                self._terms(e, block, outer, image, at, g)
            self._store(e, block, image, at, g)
        arguments = (*map(input_argument, inputs), *map(output_argument, fusion.outputs))
        return Kernel(fusion.name, block.text(), arguments, -(-units // group) * group, work_group=group)

    def _named(self, block: Block, name: str, index: Index) -> Index:
        block.line(f"const int {name} = {c_of(index)};")
        return variable(name, index.low, index.high)

    @contextmanager
    def _each(self, block: Block, name: str, count: int) -> Iterator[None]:
        block.line("#pragma unroll")
        with block.scope(f"for (int {name} = 0; {name} < {count}; ++{name})"):
            yield

    @contextmanager
    def _if(self, block: Block, conditions: Sequence[Condition]) -> Iterator[None]:
        condition = c_of_conditions(conditions)
        with block.scope("" if condition is True else f"if ({condition or 0})"):
            yield

    def _terms(
        self, e: ElementalIrEmitter, block: Block, outer: Sequence[int], image: Index, at: Sequence[Index], g: Index
    ) -> None:
        """The terms of the window's last dimensions, at an element of those before."""
        n, (*rows, columns) = self.numbers, self._strips
        conditions: list[Condition] = []
        positions: list[Index] = []
        for s, element in enumerate(outer):
            inside, position = window_position(n.window[s], at[s], constant(element), n.sizes[s])
            conditions += inside
            positions.append(position)
        with self._if(block, conditions):
            heights = rows[0].window.size if rows else 1
            block.line(f"{VECTORS[self.p.name][0]} weight[{heights}][{columns.window.size}][{self.channels}];")
            loaded: set[int] = set()
            one_row: dict[int, Pairs] = {0: [(0, 0)]}
            for distance, pairs in (rows[0].meetings if rows else one_row).items():
                for element in sorted({k for _, k in pairs} - loaded):
                    self._weights(e, block, [*outer, element] if rows else list(outer), element, g)
                    loaded.add(element)
                row = [rows[0].position(at[-2], distance)] if rows else []
                with self._if(block, rows[0].inside(row[0]) if rows else ()):
                    self._row(e, block, image, [*positions, *row], at[-1], pairs, g)

    def _weights(self, e: ElementalIrEmitter, block: Block, before: list[int], row: int, g: Index) -> None:
        """Loads the weights of a row of the window."""
        for k in range(self.numbers.window[-1].size):
            right = self.numbers.right_element([constant(x) for x in (*before, k)], constant(0), g)
            place = f"weight[{row}][{k}][{'j' if self._along_channels else '0'}]"
            self._load(e, block, self.p.right_operand, right, self.channels, [f"{place} = {{}};"])

    def _row(
        self, e: ElementalIrEmitter, block: Block, image: Index, positions: list[Index], at: Index, rows: Pairs,
        g: Index,
    ) -> None:  # fmt: skip
        """The terms in a row of the image; `rows` are the placings that it belongs to, with the window's rows."""
        columns, p = self._strips[-1], self.p

        def steps(pairs: Pairs, lane: str, value: str) -> list[str]:
            every = [(f"[{r}][{c}][{lane}]", f"[{y}][{x}][{lane}]") for r, y in rows for c, x in pairs]
            return [f"sum{s} = {multiply_add(p.name, f'sum{s}', value, f'weight{w}')};" for s, w in every]

        if self._along_channels:
            for distance, pairs in columns.meetings.items():
                x = columns.position(at, distance)
                with self._if(block, columns.inside(x)):
                    left = self._left(image, [*positions, x], g)
                    self._load(e, block, p.left_operand, left, self.channels, steps(pairs, "j", "{}"))
            return
        width = self._width
        for first in sorted({distance // width * width for distance in columns.meetings}):
            x = columns.position(at, first)
            # The image's columns are a multiple of the width: all of a vector, or nothing, lies inside.
            with self._if(block, columns.inside(x)):
                block.line(f"{VECTORS[p.name][0]} element[{width}];")
                left = self._left(image, [*positions, x + variable("j", 0, width - 1)], g)
                self._load(e, block, p.left_operand, left, width, [f"element[{'j' if width > 1 else '0'}] = {{}};"])
                for k in range(width):
                    for step in steps(columns.meetings.get(first + k, []), "0", f"element[{k}]"):
                        block.line(step)

    def _left(self, image: Index, positions: Sequence[Index], g: Index) -> tuple[Index, ...]:
        n = self.numbers
        indices: list[Index] = [constant(0)] * len(n.lhs)
        indices[n.dims.input_batch], indices[n.dims.input_feature] = image, g
        for d, position in zip(n.dims.input_spatial, positions, strict=True):
            indices[d] = position
        return tuple(indices)

    def _load(
        self, e: ElementalIrEmitter, block: Block, operand: Instruction, at: Sequence[Index], width: int,
        steps: Sequence[str],
    ) -> None:  # fmt: skip
        """Evaluates `width` elements of an operand, counted by `j`; `steps` use the value, as C with {} in its
        place."""
        pattern = AccessPattern(self.p.fusion)
        pattern.value(operand, at)
        with ExitStack() as scopes:
            scopes.enter_context(block.scope(""))
            scopes.enter_context(VectorAccesses.of(pattern, "j", width).loop(e, block, pattern))
            value = converted(e, e.value(operand, at, block), type_name(operand), self.p.name, block)
            for step in steps:
                block.line(step.replace("{}", value))

    def _store(self, e: ElementalIrEmitter, block: Block, image: Index, at: Sequence[Index], g: Index) -> None:
        """Evaluates the outputs at each placing."""
        places = list(at)
        with ExitStack() as scopes:
            if len(self._strips) > 1:
                scopes.enter_context(self._each(block, "r", self.rows))
                places[-2] = self._place(block, scopes, "row", self._strips[-2], at[-2], "r")
            if self._along_channels:
                scopes.enter_context(self._each(block, "c", self.columns))
                places[-1] = self._place(block, scopes, "column", self._strips[-1], at[-1], "c")
            else:
                places[-1] = at[-1] * self.columns + variable("j", 0, self.columns - 1)
            self._outputs(e, block, image, places, g)

    def _place(self, block: Block, scopes: ExitStack, name: str, strip: Strip, at: Index, number: str) -> Index:
        """Names the placing with that number (C) in a strip; what follows is computed if there is that placing."""
        total = strip.placings_in_all
        block.line(f"const int {name} = {c_of(at * strip.placings + variable(number, 0, strip.placings - 1))};")
        scopes.enter_context(block.scope(f"if ({name} < {total})" if total % strip.placings else ""))
        return variable(name, 0, total - 1)

    def _outputs(
        self, e: ElementalIrEmitter, block: Block, image: Index, places: Sequence[Index], g: Index
    ) -> None:  # fmt: skip
        """Evaluates the outputs of a vector of channels, or columns."""
        p, n, fusion, hero = self.p, self.numbers, self.p.fusion, hero_of(self.p.fusion)
        indices: list[Index] = [constant(0)] * len(n.out)
        indices[n.dims.output_batch], indices[n.dims.output_feature] = image, g
        for s, d in enumerate(n.dims.output_spatial):
            indices[d] = places[s]
        pattern = AccessPattern(fusion)
        pattern.bind(hero, indices)
        for output in fusion.outputs:
            own: Sequence[Index] = indices
            if output.shape.dimensions != hero.shape.dimensions:
                own = delinearize(linearize(indices, hero.shape.dimensions), output.shape.dimensions)
            pattern.store(output, own)
        row = "[r]" if len(self._strips) > 1 else "[0]"
        width = self.channels if self._along_channels else self.columns
        lane = "j" if width > 1 else "0"
        part = f"[c][{lane}]" if self._along_channels else f"[{lane}][0]"
        with VectorAccesses.of(pattern, "j", width).loop(e, block, pattern):
            e.bind(hero, indices, from_accumulation(e, type_name(hero), p.name, f"sum{row}{part}", block))
            store_outputs(fusion, e, indices, block)
