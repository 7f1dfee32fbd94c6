"""Depthwise convolutions whose channels lie side by side: an item computes a few channels at a few placings.

    sum[p][j] += lhs[place + p, channel + j] * rhs[element, channel + j]

For each row of the window an item loads the row's weights, and then one element of the image after the other, a vector
of channels at a time: an element serves all placings whose window it lies in. The terms of a sum follow each other in
the order of the window's elements, as everywhere; those in the padding are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
from .work_groups import group_size

WIDTHS = (4, 2)  # channels of an item
STRIPS = (4, 2, 1)  # placings of an item
GROUPS_PER_UNIT = 4  # work-groups that keep a compute unit busy: strips are shorter where there would be fewer
MOST_ELEMENTS = 64  # of a window whose loops are unrolled


def kernel(p: MatrixProduct, numbers: ConvolutionDimensions) -> Kernel | None:
    """The kernel of a convolution with one feature for each group, if it can be computed so."""
    plain = numbers.feature_groups > 1 and numbers.features == numbers.n == 1 and p.segment == 0
    if not plain or not numbers.window or p.k > MOST_ELEMENTS or numbers.window[-1].base_dilation > 1:
        return None
    enough = GROUPS_PER_UNIT * p.target.compute_units * group_size(p.target)
    for width in WIDTHS:
        strips = [s for s in STRIPS if p.groups * p.m >= enough * width * s]
        if p.groups % width == 0 and strips:
            item = _Depthwise(p, numbers, width, strips[0])
            if item.has_vectors():
                return item.kernel()
    return None


@dataclass(frozen=True)
class _Depthwise:
    """An item has `width` channels, at `strip` placings that follow each other in the window's last dimension."""

    p: MatrixProduct
    numbers: ConvolutionDimensions
    width: int
    strip: int

    @property
    def _last(self) -> int:
        """The spatial dimension of strips."""
        return len(self.numbers.window) - 1

    @property
    def _strips(self) -> int:
        return int(-(-self.numbers.counts[self._last] // self.strip))

    def has_vectors(self) -> bool:
        """Whether what is read of both operands are vectors of channels."""
        p = self.p
        g = variable("q", 0, p.groups // self.width - 1) * self.width + variable("j", 0, self.width - 1)
        m, k = variable("m", 0, p.m - 1), variable("k", 0, p.k - 1)
        places = ((p.left_operand, p.left(g, m, k)), (p.right_operand, p.right(g, k, constant(0))))
        for operand, at in places:
            pattern = AccessPattern(p.fusion)
            pattern.value(operand, at)
            varying = [a for a in pattern.accesses if a.position.factor("j") != 0]
            if not varying or len(VectorAccesses.of(pattern, "j", self.width).loads) != len(varying):
                return False
        return True

    def kernel(self) -> Kernel:
        """The kernel."""
        p, n, block, fusion = self.p, self.numbers, Block(), self.p.fusion
        inputs = list(fusion.inputs)
        e = ElementalIrEmitter(fusion, p.target, {i: f"a{k}" for k, i in enumerate((*inputs, *fusion.outputs))})
        # The batch (None) and the spatial dimensions as they follow each other in the result.
        sizes = {s: n.batch if s is None else n.counts[s] for s in n.order} | {self._last: self._strips}
        units = prod(sizes.values()) * (p.groups // self.width)
        group, unit = group_size(p.target), variable("unit", 0, units - 1)
        block.line(f"const int unit = group * {group} + item;")
        with block.scope(f"if (unit < {units})" if units % group else ""):
            *parts, q = delinearize(unit, (*sizes.values(), p.groups // self.width))
            at: dict[int | None, Index] = {}
            for s, part in zip(sizes, (*parts, q), strict=False):
                at[s] = self._named(block, "image" if s is None else f"at{s}", part)
            channels = self._named(block, "q", q)
            block.line(f"{VECTORS[p.name][0]} sum[{self.strip}][{self.width}];")
            with self._each(block, "p", self.strip), self._each(block, "j", self.width):
                block.line("sum[p][j] = 0;")
            first = at[self._last] * self.strip
            for row in combinations(*(range(size) for size in n.elements[:-1])):
                self._row(e, block, row, at, first, channels)
            self._store(e, block, at, first, channels)
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

    def _row(
        self, e: ElementalIrEmitter, block: Block, row: Sequence[int], at: dict[int | None, Index], first: Index,
        channels: Index,
    ) -> None:  # fmt: skip
        """The terms of a row of the window."""
        p, n, last = self.p, self.numbers, self.numbers.window[-1]
        conditions: list[Condition] = []
        positions: list[Index] = []
        for s, element in enumerate(row):
            inside, position = window_position(n.window[s], at[s], constant(element), n.sizes[s])
            conditions += inside
            positions.append(position)
        condition = c_of_conditions(conditions)
        g = channels * self.width + variable("j", 0, self.width - 1)
        with block.scope("" if condition is True else f"if ({condition or 0})"):
            block.line(f"{VECTORS[p.name][0]} weight[{last.size}][{self.width}];")
            for k in range(last.size):
                elements = [constant(x) for x in (*row, k)]
                right = n.right_element(elements, constant(0), g)
                self._load(e, block, p.right_operand, right, [f"weight[{k}][j] = {{}};"])
            meets: dict[int, list[tuple[int, int]]] = {}  # distance from the first element: (placing, window's element)
            for placing, k in combinations(range(self.strip), range(last.size)):
                meets.setdefault(placing * last.stride + k * last.window_dilation, []).append((placing, k))
            for distance in sorted(meets):
                x = first * last.stride + distance - last.padding_low
                exists = c_of_conditions([Condition(x, ">=", 0), Condition(x, "<", n.sizes[-1])])
                left = self._left(at[None], [*positions, x], g)
                steps = [
                    f"sum[{placing}][j] = {multiply_add(p.name, f'sum[{placing}][j]', '{}', f'weight[{k}][j]')};"
                    for placing, k in meets[distance]
                ]
                with block.scope("" if exists is True else f"if ({exists or 0})"):
                    self._load(e, block, p.left_operand, left, steps)

    def _left(self, image: Index, positions: Sequence[Index], g: Index) -> tuple[Index, ...]:
        n = self.numbers
        indices: list[Index] = [constant(0)] * len(n.lhs)
        indices[n.dims.input_batch], indices[n.dims.input_feature] = image, g
        for d, position in zip(n.dims.input_spatial, positions, strict=True):
            indices[d] = position
        return tuple(indices)

    def _load(
        self, e: ElementalIrEmitter, block: Block, operand: Instruction, at: Sequence[Index], steps: Sequence[str]
    ) -> None:
        """Evaluates an operand for each channel `j` of an item; `steps` use the value, as C with {} in its place."""
        pattern = AccessPattern(self.p.fusion)
        pattern.value(operand, at)
        with ExitStack() as scopes:
            scopes.enter_context(block.scope(""))
            scopes.enter_context(VectorAccesses.of(pattern, "j", self.width).loop(e, block, pattern))
            value = converted(e, e.value(operand, at, block), type_name(operand), self.p.name, block)
            for step in steps:
                block.line(step.replace("{}", value))

    def _store(
        self, e: ElementalIrEmitter, block: Block, at: dict[int | None, Index], first: Index, channels: Index
    ) -> None:
        """Evaluates the outputs at each placing."""
        p, n, fusion, hero = self.p, self.numbers, self.p.fusion, hero_of(self.p.fusion)
        count = n.counts[self._last]
        g = channels * self.width + variable("j", 0, self.width - 1)
        with self._each(block, "p", self.strip):
            block.line(f"const int place = {c_of(first + variable('p', 0, self.strip - 1))};")
            indices: list[Index] = [constant(0)] * len(n.out)
            indices[n.dims.output_batch], indices[n.dims.output_feature] = at[None], g
            for s, d in enumerate(n.dims.output_spatial):
                indices[d] = variable("place", 0, count - 1) if s == self._last else at[s]
            with block.scope(f"if (place < {count})" if count % self.strip else ""):
                pattern = AccessPattern(fusion)
                pattern.bind(hero, indices)
                for output in fusion.outputs:
                    own: Sequence[Index] = indices
                    if output.shape.dimensions != hero.shape.dimensions:
                        own = delinearize(linearize(indices, hero.shape.dimensions), output.shape.dimensions)
                    pattern.store(output, own)
                with VectorAccesses.of(pattern, "j", self.width).loop(e, block, pattern):
                    e.bind(hero, indices, from_accumulation(e, type_name(hero), p.name, "sum[p][j]", block))
                    store_outputs(fusion, e, indices, block)
