"""Convolutions in which each group has one output feature: depthwise ones, and the gradients of their filters.

The groups are contiguous in memory, so they are the lanes of vectors. An item walks over pairs of a placing of the
window and a strip of groups; each term is one vector multiply-add, in the usual order of terms. Elements of the window
outside of lhs are left out.
"""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from ..c_block import Block
from ..index_printer import c_of
from .convolution_dimensions import ConvolutionDimensions
from .convolution_input import ConvolutionInput
from .group_convolution import GroupConvolution, GroupFilters
from .packing import VECTORS


def applies(numbers: ConvolutionDimensions, input: ConvolutionInput, name: str) -> bool:
    """Whether the groups can be lanes: one output feature each, neighbours in memory, whole vectors of them."""
    lanes = VECTORS[name][1]
    if numbers.n != 1 or numbers.groups % lanes or (numbers.batch_groups > 1 and numbers.batch != 1):
        return False
    return _lane_step(numbers, input) == 1


def _lane_step(numbers: ConvolutionDimensions, input: ConvolutionInput) -> int:
    if numbers.batch_groups > 1:
        return input.strides[numbers.dims.input_batch]
    step: int = numbers.features * input.strides[numbers.dims.input_feature]
    return step


def kernels(
    fusion: Fusion, target: Target, numbers: ConvolutionDimensions, input: ConvolutionInput, name: str
) -> tuple[Kernel, ...]:
    """The kernels of such a convolution; `input` says where lhs lies."""
    vectors = next(v for v in (4, 2, 1) if numbers.groups % (v * VECTORS[name][1]) == 0)
    filters = GroupFilters(fusion, target, numbers, name, "c", 1)
    return _Depthwise(fusion, target, numbers, input, name, vectors, filters).kernels()


class _Depthwise(GroupConvolution):
    """A tile is a placing of the window and a strip of groups."""

    @property
    def _strips(self) -> int:
        return int(self.numbers.groups) // self.width

    @property
    def _order(self) -> list[int]:
        n = self.numbers
        return [n.batch if s is None else n.counts[s] for s in n.row_order()]

    @property
    def tiles(self) -> int:
        return int(prod(self._order)) * self._strips

    def _placing(self, tile: Index) -> dict[int | None, Index]:
        """The index of each spatial dimension, and that of the batch for None."""
        return dict(zip(self.numbers.row_order(), delinearize(tile // self._strips, self._order), strict=True))

    def result(self, tile: Index) -> tuple[str, list[Index]]:
        n, parts = self.numbers, self._placing(tile)
        indices = [constant(0)] * len(n.out)
        indices[n.dims.output_batch] = parts[None]
        indices[n.dims.output_feature] = variable("strip", 0, n.groups - 1) + variable("j", 0, self.width - 1)
        for s, d in enumerate(n.dims.output_spatial):
            indices[d] = parts[s]
        return str(self.width), indices

    def add_terms(self, left: str, right: str, tile: Index, block: Block) -> None:
        n, strides, segment, parts = self.numbers, self.input.strides, self.segment, self._placing(tile)
        block.line(f"const int strip = {c_of(tile % self._strips)} * {self.width};")
        position = variable("strip", 0, n.groups - 1) + self.input.base
        if n.batch_groups == 1:
            position = position + parts[None] * strides[n.dims.input_batch]
        for d in range(len(n.window)):
            block.line(
                f"const int o{d} = {c_of(parts[d])} * {n.window[d].stride} - {n.window[d].padding_low};".replace(
                    "- -", "+ "
                )
            )
        with ExitStack() as scopes:
            for d, w in enumerate(n.window):
                scopes.enter_context(block.scope(f"for (int e{d} = 0; e{d} < {w.size}; ++e{d})"))
                block.line(f"const int at{d} = o{d} + e{d} * {w.window_dilation};")
                dilated = f" || at{d} % {w.base_dilation} != 0" if w.base_dilation > 1 else ""
                limit = (n.sizes[d] - 1) * w.base_dilation
                block.line(f"if (at{d} < 0 || at{d} > {limit}{dilated}) continue;")
                block.line(f"const int s{d} = at{d} / {w.base_dilation};")
                position = position + variable(f"s{d}", 0, n.sizes[d] - 1) * strides[n.dims.input_spatial[d]]
            first = linearize((*self.filters.elements, constant(0)), n.terms)  # number of the first term of the element
            if segment and n.features > 1:
                scopes.enter_context(block.scope(f"for (int f0 = 0, f1; f0 < {n.features}; f0 = f1)"))
                first = first + variable("f0", 0, n.features - 1)
            if segment:
                self.open_segment(first, block)
            if segment and n.features > 1:
                block.line(f"const int rest = (segment + 1) * {segment} - ({c_of(first)});")
                block.line(f"f1 = rest < {n.features} - f0 ? f0 + rest : {n.features};")
                scopes.enter_context(block.scope("for (int f = f0; f < f1; ++f)"))
            elif n.features > 1:
                scopes.enter_context(block.scope(f"for (int f = 0; f < {n.features}; ++f)"))
            if n.features > 1:
                position = position + self.filters.feature * strides[n.dims.input_feature]
            strip = variable("strip", 0, n.groups - 1)
            where = self.filters.position(self.filters.elements, self.filters.feature, strip)
            block.line(f"__global const {self.element}* const x = {left} + ({c_of(position)});")
            block.line(f"__global const {self.element}* const y = {right} + ({c_of(where)});")
            for v in range(self.vectors):
                a, b = (f"*(__global const vector*)({p} + {v * self.lanes})" for p in "xy")
                block.line(f"c{v} = rx_multiply_add_vector_{self.name}({a}, {b}, c{v});")
