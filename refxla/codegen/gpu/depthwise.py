"""Depthwise convolutions, with one feature in each group: an item computes a few adjacent results.

    sum[r][c][j] += lhs[row + r, column + c, channel + j] * weight[element, channel + j]

An item loads one element of the image after the other, and uses each for all placings whose window contains it
(window_items.py); so it does with the weights. If the channels are contiguous in memory, it loads vectors of channels;
otherwise, as where the channels come first, vectors of columns.

The terms of a sum follow each other in the order of the window's elements, as everywhere; those in the padding are left
out.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import WindowDimension

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...ir.plan import Kernel
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import converted
from ..kernel_arguments import hero_of, input_argument, output_argument
from ..products.convolution_dimensions import ConvolutionDimensions
from ..products.epilogue import store_outputs
from ..products.packing import VECTORS, from_accumulation
from ..sums import multiply_add
from .gemm import MatrixProduct
from .vector_access import VectorAccesses
from .window_items import SlidingWindow, WindowItem, are_vectors, each_of_vectors
from .work_groups import each_unit, kernel_of_units

SIZES = (4, 2, 1)  # channels, rows and columns of an item
MOST_RESULTS = 16  # of an item: their sums, and the weights, are in registers


def kernel(p: MatrixProduct, numbers: ConvolutionDimensions) -> Kernel | None:
    """The kernel of a convolution with one feature for each group; None if an item for each result is as good."""
    if numbers.feature_groups == 1 or numbers.features != 1 or numbers.n != 1 or p.segment:
        return None
    window = _window(p, numbers)
    items = window.items(p.target, MOST_RESULTS, SIZES, other_loads=p.k)
    several = (i for i in items if i.results > 1 and (i.lanes == 1 or _has_weights(p, i.lanes)))
    return next((_Depthwise(p, i).kernel() for i in several), None)


def _window(p: MatrixProduct, n: ConvolutionDimensions) -> SlidingWindow:
    """The convolution's window, which slides along the spatial dimensions of the result."""
    dims = n.dims
    operand_of = {dims.output_batch: dims.input_batch, dims.output_feature: dims.input_feature}
    operand_of |= dict(zip(dims.output_spatial, dims.input_spatial, strict=True))
    sliding = dict(zip(dims.output_spatial, n.window, strict=True))

    def indices(positions: Sequence[Index]) -> Sequence[Index]:
        return [at for _, at in sorted((operand_of[d], at) for d, at in enumerate(positions))]

    return SlidingWindow(
        p.fusion,
        (p.left_operand,),
        tuple(sliding.get(d, WindowDimension(1)) for d in range(len(n.out))),
        tuple(n.lhs[operand_of[d]] for d in range(len(n.out))),
        n.out,
        tuple(dims.output_spatial),
        dims.output_feature,
        indices,
    )


def _has_weights(p: MatrixProduct, width: int) -> bool:
    """Whether the weights of so many adjacent channels are vectors."""
    g = variable("q", 0, p.groups // width - 1) * width + variable("j", 0, width - 1)
    return are_vectors(p.fusion, p.right_operand, p.right(g, variable("k", 0, p.k - 1), constant(0)), width)


class _Depthwise:
    """Emits the kernel of a convolution whose items have these placings."""

    def __init__(self, p: MatrixProduct, item: WindowItem) -> None:
        self.p, self.item, self.block, fusion = p, item, Block(), p.fusion
        pointers = {i: f"a{k}" for k, i in enumerate((*fusion.inputs, *fusion.outputs))}
        self.e = ElementalIrEmitter(fusion, p.target, pointers)
        self.lane = "j" if item.lanes > 1 else "0"

    def kernel(self) -> Kernel:
        """The kernel."""
        p, item, block, fusion = self.p, self.item, self.block, self.p.fusion
        number = VECTORS[p.name][0]
        with each_unit(block, p.target, item.units):
            at = item.begin(block)
            block.line(f"{number} sum{item.state} = {{{{{{0}}}}}};")
            block.line(f"{number} weight[{p.k}][{item.lanes}];")
            item.visit(self.e, block, at, self._step, lambda elements: self._weights(elements, item.along_lanes(at)))
            with item.placings(block, at) as (place, width, own):
                self._store(place, width, own)
        arguments = (*map(input_argument, fusion.inputs), *map(output_argument, fusion.outputs))
        return kernel_of_units(fusion.name, block, arguments, p.target, item.units)

    def _weights(self, elements: Sequence[int], g: Index) -> None:
        """Loads the weights of elements of the window."""
        p = self.p
        for k in elements:
            at = p.right(g, constant(k), constant(0))
            with each_of_vectors(self.e, self.block, p.fusion, [p.right_operand], at, self.item.lanes) as (value,):
                value = converted(self.e, value, type_name(p.right_operand), p.name, self.block)
                self.block.line(f"weight[{k}][{self.lane}] = {value};")

    def _step(self, placings: Sequence[tuple[int, int, int]], lane: str, values: Sequence[str]) -> None:
        p = self.p
        value = converted(self.e, values[0], type_name(p.left_operand), p.name, self.block)
        for r, c, k in placings:
            spot = f"sum[{r}][{c}][{lane}]"
            self.block.line(f"{spot} = {multiply_add(p.name, spot, value, f'weight[{k}][{lane}]')};")

    def _store(self, place: Sequence[Index], width: int, own: str) -> None:
        """Evaluates the outputs of a vector of channels, or columns, from the sums named `own`."""
        p, fusion, hero = self.p, self.p.fusion, hero_of(self.p.fusion)
        pattern = AccessPattern(fusion)
        pattern.bind(hero, place)
        for output in fusion.outputs:
            at: Sequence[Index] = place
            if output.shape.dimensions != hero.shape.dimensions:
                at = delinearize(linearize(place, hero.shape.dimensions), output.shape.dimensions)
            pattern.store(output, at)
        with VectorAccesses.of(pattern, "j", width).loop(self.e, self.block, pattern):
            value = from_accumulation(self.e, type_name(hero), p.name, f"sum{own}", self.block)
            self.e.bind(hero, place, value)
            store_outputs(fusion, self.e, place, self.block)
