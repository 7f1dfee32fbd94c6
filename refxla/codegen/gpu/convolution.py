"""The kernels of kind "convolution" for GPUs: an implicit matrix product, whose left side is read in place.

A row of the left side is a placing of the window in an image of the batch, a term an element of the window and an input
feature. It is never materialized: the copy of a block to local memory evaluates the elements in place
(operand_copy.py). Terms in the padding, or in the gaps of dilation, are left out (term_masks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from ...analysis import index_maps
from ...analysis.index_expression import Index, constant, delinearize
from ...analysis.index_maps import Condition
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from ..element_builder import type_name
from ..kernel_arguments import hero_of
from ..products.convolution_dimensions import ConvolutionDimensions
from ..products.packing import accumulation_type
from ..products.small_products import has_little_work
from . import depthwise as depthwise_convolution
from . import elementwise, segment_sums
from .gemm import Indices, MatrixProduct, kernels, tiled
from .transposed_operands import LINES, SUB_GROUP, TransposedOperands, bytes_saved, excess_sectors

SIDES = ("left", "right")


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a convolution with its producers and consumers.

    The outputs are elementwise in the convolution, or reshapes of values that are. Types without accumulators and tiny
    convolutions become plain loops; convolutions with one feature in each group have schedules of their own.
    """
    hero = hero_of(fusion)
    numbers = ConvolutionDimensions(hero)
    name = accumulation_type(type_name(hero))
    small = has_little_work(hero.shape.size, numbers.k) or 0 in numbers.lhs
    depthwise = numbers.n == 1 and numbers.groups > 1
    if name is None or small or (name == "f64" and not target.fp64):
        return elementwise.emit(fusion, target)
    product = _product(fusion, target, name, numbers, False)
    if depthwise and not segment_sums.applies(product):
        own = depthwise_convolution.kernel(product, numbers)
        return elementwise.emit(fusion, target) if own is None else (own,)
    product, transposed = _with_transposed_operands(product, numbers, depthwise)
    return transposed.kernels(segment_sums.kernels(product) if depthwise else kernels(product))


def _product(
    fusion: Fusion, target: Target, name: str, numbers: ConvolutionDimensions, batch_last: bool
) -> MatrixProduct:
    """The convolution as a product, whose rows run over the batch last, or in the order of the result."""
    windows, (left, right) = _Windows(numbers, batch_last), hero_of(fusion).operands
    return MatrixProduct(
        fusion, target, name, numbers.groups, windows.m, numbers.n, numbers.k,
        left, right, windows.left, windows.right, windows.result, windows.exists,
        numbers.terms,
    )  # fmt: skip


def _with_transposed_operands(
    p: MatrixProduct, numbers: ConvolutionDimensions, depthwise: bool
) -> tuple[MatrixProduct, TransposedOperands]:
    """The product with copies of the operands that pay, in which the features lie side by side that adjacent items
    read."""
    transposed, dims = TransposedOperands(p.fusion, p.target), numbers.dims
    if depthwise:
        reads = segment_sums.reads(p)
        together = segment_sums.adjacent_reads(p, SUB_GROUP)
    else:
        tiles = tiled(p)
        reads = p.groups * p.m * p.k * tiles.column_tiles, p.groups * p.n * p.k * tiles.row_tiles
        left_at, right_at = ([] if c.width > 1 else c.block_reads(LINES) for c in (tiles.left, tiles.right))
        together = left_at, right_at
    operands = (p.left_operand, p.right_operand)
    orders = (
        (*dims.input_spatial, dims.input_feature, dims.input_batch),
        (*dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature),
    )
    saved = [
        0.0
        if order == tuple(range(len(order)))
        else bytes_saved(operand, count, partial(excess_sectors, p.fusion, operand, at))
        for operand, order, count, at in zip(operands, orders, reads, together, strict=True)
    ]
    if depthwise:  # adjacent items have adjacent channels in both operands, or in none
        saved = [sum(saved) if order != tuple(range(len(order))) else 0.0 for order in orders]
    copies = [
        transposed.add(side, operand, order) if count > 0 else None
        for side, operand, order, count in zip(SIDES, operands, orders, saved, strict=True)
    ]
    if copies[0] is not None:
        p = _product(p.fusion, p.target, p.name, numbers, True)
    left, right = p.left, p.right
    if copies[0] is not None:
        p = replace(p, left_operand=copies[0], left=lambda g, m, k: _reordered(left(g, m, k), orders[0]))
    if copies[1] is not None:
        p = replace(p, right_operand=copies[1], right=lambda g, k, n: _reordered(right(g, k, n), orders[1]))
    return replace(p, fusion=transposed.fusion), transposed


def _reordered(indices: Sequence[Index], order: Sequence[int]) -> Indices:
    return tuple(indices[d] for d in order)


@dataclass(frozen=True)
class _Windows:
    """The indices of a convolution's operands and result for the g, m, n and k of its product: m runs over the batch
    and the spatial dimensions in their order in the result, or over the batch last."""

    numbers: ConvolutionDimensions
    batch_last: bool = False

    @property
    def _order(self) -> list[int | None]:
        """The spatial dimensions, and None for the batch, over which the rows run."""
        return self.numbers.row_order(self.batch_last)

    @property
    def _m_sizes(self) -> list[int]:
        return [self.numbers.batch if s is None else self.numbers.counts[s] for s in self._order]

    @property
    def m(self) -> int:
        """The placings of the window in all images."""
        return prod(self._m_sizes)

    def _row(self, m: Index) -> tuple[Index, list[Index]]:
        """The image and the placing of a row."""
        parts = dict(zip(self._order, delinearize(m, self._m_sizes), strict=True))
        return parts[None], [parts[s] for s in range(len(self.numbers.window))]

    def _elements(self, k: Index) -> tuple[list[Index], Index]:
        """The element of the window and the input feature of a term."""
        *elements, feature = delinearize(k, self.numbers.terms)
        return elements, feature

    def _positions(self, m: Index, k: Index) -> tuple[list[Condition], list[Index]]:
        n = self.numbers
        conditions: list[Condition] = []
        positions = []
        places = zip(n.window, self._row(m)[1], self._elements(k)[0], n.sizes, strict=True)
        for window, place, element, size in places:
            inside, at = index_maps.window_position(window, place, element, size)
            conditions += inside
            positions.append(at)
        return conditions, positions

    def exists(self, g: Index, m: Index, k: Index) -> list[Condition]:
        """The conditions that a term has an element of the input."""
        return self._positions(m, k)[0]

    def left(self, g: Index, m: Index, k: Index) -> Indices:
        """The indices of lhs, for a term that has an element."""
        n, (batch, _), (_, feature) = self.numbers, self._row(m), self._elements(k)
        indices: list[Index] = [constant(0)] * len(n.lhs)
        indices[n.dims.input_batch] = g * n.batch + batch if n.batch_groups > 1 else batch
        indices[n.dims.input_feature] = g * n.features + feature if n.feature_groups > 1 else feature
        for d, at in zip(n.dims.input_spatial, self._positions(m, k)[1], strict=True):
            indices[d] = at
        return tuple(indices)

    def right(self, g: Index, k: Index, n: Index) -> Indices:
        """The indices of rhs."""
        elements, feature = self._elements(k)
        return self.numbers.right_element(elements, feature, g * self.numbers.n + n)

    def result(self, g: Index, m: Index, n: Index) -> Indices:
        """The indices of the convolution itself."""
        dims, (batch, placing) = self.numbers.dims, self._row(m)
        indices: list[Index] = [constant(0)] * len(self.numbers.out)
        indices[dims.output_batch], indices[dims.output_feature] = batch, g * self.numbers.n + n
        for d, place in zip(dims.output_spatial, placing, strict=True):
            indices[d] = place
        return tuple(indices)
