"""Convolutions with one input and one output feature, whose windows slide along memory: filters of signals and images,
and depthwise convolutions whose features come before the spatial dimensions.

The lanes of vectors are neighbours in the last spatial dimension: a term multiplies a vector of neighbours in lhs by
one element of the window. If some of a tile's elements are outside of lhs, those inside are copied to the stack first,
and lanes without an element keep their sums.
"""

from __future__ import annotations

from collections.abc import Callable
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
from .packing import VECTORS, vector_type

REACH = 1024  # elements of lhs that are copied to the stack at a time, at most, beside the tile's width
VECTORS_OF_TILE = 4  # independent sums, which hide latency


def applies(numbers: ConvolutionDimensions, input: ConvolutionInput, name: str) -> bool:
    """Whether each element is a sum over one feature, and neighbours in the last spatial dimension are neighbours in
    lhs."""
    if not numbers.n == numbers.features == numbers.batch_groups == 1 or not numbers.window:
        return False
    window = numbers.window[-1]
    steps = window.stride == window.base_dilation == input.strides[numbers.dims.input_spatial[-1]] == 1
    return bool(steps and numbers.counts[-1] >= VECTORS[name][1])


def kernels(
    fusion: Fusion, target: Target, numbers: ConvolutionDimensions, input: ConvolutionInput, name: str
) -> tuple[Kernel, ...]:
    """The kernels of such a convolution; `input` says where lhs lies."""
    vectors = min(VECTORS_OF_TILE, -(-numbers.counts[-1] // VECTORS[name][1]))
    filters = GroupFilters(fusion, target, numbers, name, f"e{len(numbers.window) - 1}", None)
    return _Stencil(fusion, target, numbers, input, name, vectors, filters).kernels()


class _Stencil(GroupConvolution):
    """A tile is a piece of a row: of the elements of the result that differ only in the last spatial dimension."""

    @property
    def _pieces(self) -> int:
        return -(-int(self.numbers.counts[-1]) // self.width)

    @property
    def _rows_of_result(self) -> list[int]:
        n = self.numbers
        return [1 if d == n.dims.output_spatial[-1] else size for d, size in enumerate(n.out)]

    @property
    def tiles(self) -> int:
        return int(prod(self._rows_of_result) * self._pieces)

    def result(self, tile: Index) -> tuple[str, list[Index]]:
        n, last = self.numbers, self.numbers.counts[-1]
        indices = list(delinearize(tile // self._pieces, self._rows_of_result))
        indices[n.dims.output_spatial[-1]] = variable("begin", 0, last - 1) + variable("j", 0, self.width - 1)
        return f"(begin + {self.width} < {last} ? {self.width} : {last} - begin)", indices

    def add_terms(self, left: str, right: str, tile: Index, block: Block) -> None:
        n, strides = self.numbers, self.input.strides
        outer, last = range(len(n.window) - 1), len(n.window) - 1
        place = delinearize(tile // self._pieces, self._rows_of_result)
        group = place[n.dims.output_feature]
        position = place[n.dims.output_batch] * strides[n.dims.input_batch] + self.input.base
        if n.groups > 1:
            position = position + group * strides[n.dims.input_feature]
        window = n.window[last]
        block.line(f"const int begin = {c_of(tile % self._pieces)} * {self.width};")
        block.line(f"const int origin = begin - ({window.padding_low});")
        reach = (window.size - 1) * window.window_dilation
        block.line(f"const int inside = origin >= 0 && origin + {self.width + reach} <= {n.sizes[last]};")
        with ExitStack() as scopes:
            for d in outer:
                w, at = n.window[d], f"s{d}"
                o = place[n.dims.output_spatial[d]] * w.stride - w.padding_low
                scopes.enter_context(block.scope(f"for (int e{d} = 0; e{d} < {w.size}; ++e{d})"))
                block.line(f"const int d{d} = {c_of(o)} + e{d} * {w.window_dilation};")
                dilated = f" || d{d} % {w.base_dilation} != 0" if w.base_dilation > 1 else ""
                block.line(f"if (d{d} < 0 || d{d} > {(n.sizes[d] - 1) * w.base_dilation}{dilated}) continue;")
                block.line(f"const int {at} = d{d} / {w.base_dilation};")
                position = position + variable(at, 0, n.sizes[d] - 1) * strides[n.dims.input_spatial[d]]
            elements = [*self.filters.elements[:last], constant(0)]
            where = self.filters.position(elements, constant(0), group)
            block.line(f"__global const {self.element}* const x = {left} + ({c_of(position)});")
            block.line(f"__global const {self.element}* const y = {right} + ({c_of(where)});")
            first = linearize((*elements, constant(0)), n.terms)
            with block.scope("if (inside)"):
                self._terms(first, "0", str(window.size), self._add_inside, block)
            with block.scope("else"):
                self._add_at_the_edge(first, block)

    def _terms(self, first: Index, begin: str, end: str, add: Callable[[str, str, Block], None], block: Block) -> None:
        """Add the terms of the elements begin, ..., end - 1 of the window's last dimension, segment by segment; the
        first of them is term number `first`."""
        if not self.segment:
            add(begin, end, block)
            return
        with block.scope(f"for (int b = {begin}, next; b < {end}; b = next)"):
            self.open_segment(first + variable("b", 0, self.numbers.elements[-1] - 1), block)
            block.line(f"const int rest = (segment + 1) * {self.segment} - ({c_of(first)});")
            block.line(f"next = rest < {end} ? rest : {end};")
            add("b", "next", block)

    def _declare_element(self, block: Block) -> None:
        """Declares t: element e of the last dimension of the window, in all lanes."""
        last = len(self.numbers.window) - 1
        apart = self.filters.position(self.filters.elements, constant(0), self.filters.group).factor(f"e{last}")
        vector = vector_type(self.name)
        place = c_of(variable("e", 0, self.numbers.elements[last] - 1) * (apart or 0))
        block.line(f"const {vector} t = ({vector})(y[{place}]);")

    def _add_inside(self, begin: str, end: str, block: Block) -> None:
        """The terms of elements begin, ..., end - 1, with all lanes inside lhs."""
        dilation = self.numbers.window[-1].window_dilation
        with block.scope(f"for (int e = {begin}; e < {end}; ++e)"):
            self._declare_element(block)
            block.line(f"__global const {self.element}* const r = x + (origin + e * {dilation});")
            for v in range(self.vectors):
                a = f"*(__global const vector*)(r + {v * self.lanes})"
                block.line(f"c{v} = rx_multiply_add_vector_{self.name}({a}, t, c{v});")

    def _add_at_the_edge(self, first: Index, block: Block) -> None:
        """The terms of a row of the window, with some lanes outside of lhs."""
        n, width = self.numbers, self.width
        window, size = n.window[-1], n.sizes[-1]
        dilation = window.window_dilation
        most = max(1, min(window.size, REACH // dilation))  # elements of the window at a time
        unsigned = "uint" if self.element in ("float", "uint") else "ulong"
        block.line(f"{self.element} row[{width + (most - 1) * dilation}];")
        block.line(
            f"const {unsigned}{self.lanes} lane = ({unsigned}{self.lanes})({', '.join(map(str, range(self.lanes)))});"
        )
        # Those with a lane inside lhs: e >= low, e < high.
        block.line(f"const int low = origin > -{width} ? 0 : (-origin - {width} + {dilation}) / {dilation};")
        block.line(f"const int meet = origin < {size} ? ({size - 1} - origin) / {dilation} + 1 : 0;")
        block.line(f"const int high = meet < {window.size} ? meet : {window.size};")
        with block.scope(f"for (int g = low; g < high; g += {most})"):
            block.line(f"const int h = g + {most} < high ? g + {most} : high;")
            block.line(f"const int from = origin + g * {dilation};")
            with block.scope(f"for (int u = 0; u < {width} + (h - 1 - g) * {dilation}; ++u)"):
                block.line(f"row[u] = (uint)(from + u) < (uint){size} ? x[from + u] : 0;")
            self._terms(first, "g", "h", self._add_some, block)

    def _add_some(self, begin: str, end: str, block: Block) -> None:
        """The terms of elements begin, ..., end - 1, in the lanes inside lhs."""
        n, dilation = self.numbers, self.numbers.window[-1].window_dilation
        wide = "(uint)" if self.element in ("float", "uint") else "(ulong)(long)"
        with block.scope(f"for (int e = {begin}; e < {end}; ++e)"):
            self._declare_element(block)
            block.line(f"const int moved = (e - g) * {dilation};")
            for v in range(self.vectors):
                sum = f"rx_multiply_add_vector_{self.name}(*(const vector*)(row + moved + {v * self.lanes}), t, c{v})"
                is_there = f"lane + {wide}(from + moved + {v * self.lanes}) < {wide}{n.sizes[-1]}"
                block.line(f"c{v} = {is_there} ? {sum} : c{v};")
