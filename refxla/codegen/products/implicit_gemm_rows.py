"""The rows of a convolution's left side as an implicit matrix: pointers into lhs, one for each position of the window.

A row of the product is one placing of the window. In each spatial dimension a placing has an origin: the element of lhs
under element 0 of the window, which may be out of bounds. The other elements of the window have the same distances from
the origin in all rows of a tile, so a tile only needs the origins of its rows, and the least and the greatest of them.
These determine which of three cases each run of window elements belongs to:

    inside lhs for all rows     the run is computed without tests, along as many window elements as are contiguous
    outside lhs for all rows    the run is skipped
    otherwise                   the run is computed, and the sums of the rows outside are restored afterwards
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...device.tile_configurations import configuration_for
from ...ir.plan import Argument, Kernel
from ..c_block import Block
from ..index_printer import c_of
from .blocking import LOCAL_ROWS, LOCAL_TERMS, MAX_COPIES
from .convolution_dimensions import ConvolutionDimensions
from .convolution_input import ConvolutionInput
from .implicit_gemm import ImplicitGemm
from .micro_kernel import TermLoop
from .panels import filter_windows
from .product import BlockRuns
from .window_loop import WindowLoop

WHOLE_COLUMNS = 32  # of filters that store windows: panels are packed with all terms if so many columns fit the cache
BLOCK_TERMS = 4096  # of k in a block, if the window can be cut that way


@dataclass(frozen=True)
class WindowBlocks:
    """The blocks of k: the window is cut in spatial dimension `cut`, each `length` elements (the last block may have
    fewer), of which each has `inner` terms. There are `parts` of the dimension, for each element of those before it."""

    dimensions: ConvolutionDimensions
    cut: int
    length: int
    inner: int
    parts: int

    @staticmethod
    def of(dimensions: ConvolutionDimensions, most: int) -> WindowBlocks:
        """The blocks of at most so many terms, or of one element of the last spatial dimension."""
        cut, length, elements = 0, 1, dimensions.elements or (1,)
        for d, size in enumerate(elements):
            inner = prod(elements[d + 1 :]) * dimensions.features  # terms of one element of dimension d
            cut, length = d, max(1, min(size, most // max(1, inner)))
            if inner <= most:
                break
        parts = -(-elements[cut] // length)
        return WindowBlocks(dimensions, cut, -(-elements[cut] // parts), inner, parts)

    @property
    def count(self) -> int:
        """How many there are."""
        return prod(self.dimensions.elements[: self.cut]) * self.parts

    @property
    def most_terms(self) -> int:
        """The terms of a block."""
        return self.length * self.inner

    @property
    def alignment(self) -> int:
        """Each block begins at a multiple of so many terms: the next ranges begin where those of the dimension end, and
        the last one may be short."""
        return gcd(self.most_terms, self.dimensions.elements[self.cut] * self.inner) if self.cut else self.most_terms


class WindowRows:
    """The Rows of a convolution, whose lhs is `input`.

    `checked[d]` says whether window elements may be out of bounds in dimension d, `joined` whether the elements of the
    last dimension are contiguous in memory.
    """

    local = None

    def __init__(self, input: ConvolutionInput, numbers: ImplicitGemm) -> None:
        n, self.input, self.numbers = numbers, input, numbers
        self.element, self.strides = input.element, input.strides
        self.step = self.strides[n.dims.input_feature] if n.features > 1 else 1
        self.cuts = WindowBlocks.of(n, self._most_terms())
        self.blocks, self.most_terms, self.alignment = self.cuts.count, self.cuts.most_terms, self.cuts.alignment
        self.least_terms = n.features
        self.checked = []
        for d, w in enumerate(n.window):
            last = (n.placings[d] * n.periods[d] - 1) * w.stride + (w.size - 1) * w.window_dilation - w.padding_low
            self.checked.append(w.padding_low > 0 or last > (n.sizes[d] - 1) * w.base_dilation)
        self.joined = False
        if n.window:
            w, stride = n.window[-1], self.strides[n.dims.input_spatial[-1]]
            dense = w.window_dilation == 1 and w.base_dilation == 1
            self.joined = dense and stride == n.features * self.step and n.elements[-1] > 1

    def pointer(self) -> Instruction | Argument:
        """The input that is read as lhs, or the argument with its copy."""
        return self.input.pointer()

    def stage(self) -> Kernel | None:
        """The kernel that copies lhs, if it is copied."""
        return self.input.stage()

    # Blocks of k in the window

    def _most_terms(self) -> int:
        """The terms that a block should have at most."""
        n, fusion, target = self.numbers, self.input.fusion, self.input.target
        most = BLOCK_TERMS if n.m > LOCAL_ROWS else 2 * LOCAL_TERMS  # with few rows, an item packs its own panels
        right = filter_windows(fusion, n, self.input.name)
        if right is not None and 4 * n.k * WHOLE_COLUMNS <= MAX_COPIES * target.caches.second:
            most = n.k
        return configuration_for(fusion, target.tile_configurations).terms or most

    def open_block(self, block: Block, number: str) -> tuple[Index, str]:
        """Declares which elements of the window are in block `number` of k; returns its first term and, as C, how many
        terms it has."""
        n, cuts = self.numbers, self.cuts
        if self.blocks == 1:
            return constant(0), str(n.k)
        block.line(f"const int first_element = {number} % {cuts.parts} * {cuts.length};")
        outer = delinearize(variable(number, 0, self.blocks - 1) // cuts.parts, n.elements[: cuts.cut])
        for d, index in enumerate(outer):
            block.line(f"const int outer{d} = {c_of(index)};")
        rest = f"{n.elements[cuts.cut]} - first_element"
        block.line(f"const int elements = {cuts.length} < {rest} ? {cuts.length} : {rest};")
        place = [variable(f"outer{d}", 0, n.elements[d] - 1) for d in range(cuts.cut)]
        place.append(variable("first_element", 0, n.elements[cuts.cut] - 1))
        first = linearize(place, n.elements[: cuts.cut + 1]) * cuts.inner
        return first, f"elements * {cuts.inner}"

    # The rows of a tile

    def open_tile(self, block: Block, source: str, first: Index, rows: int) -> None:
        """Declares the origins of rows first, first + 1, ...: arrays `at` of their positions in memory, and o0, o1, ...
        of their places in the spatial dimensions."""
        n = self.numbers
        self.source = source if self.input.access is None else f"((__global const {self.element}*){source})"
        g = variable("g", 0, n.groups * n.phases - 1)
        phase = n.phase(g)
        offsets = []
        for d, w in enumerate(n.window):
            # The origin of placing q is element q * (period * stride / base_dilation) + start of lhs. In the dilated
            # lhs, it is `rest` further on.
            at = phase[d] * w.stride - w.padding_low
            start = at // w.base_dilation
            block.line(f"const int start{d} = {c_of(start)};")
            if w.base_dilation > 1:
                block.line(f"const int rest{d} = {c_of(at % w.base_dilation)};")
            offsets.append(variable(f"start{d}", start.low, start.high))
        # A loop over the rows: unrolled, these statements would be most of a convolution's text.
        block.line(f"long at[{rows}];")
        for d in range(len(n.window)):
            block.line(f"int o{d}[{rows}];")
        if self.input.target.capabilities.loop_pragmas:
            block.line("#pragma clang loop unroll(disable)")
        with block.scope(f"for (int r = 0; r < {rows}; ++r)"):
            row = first + variable("r", 0, rows - 1)
            block.line(f"const int m = {c_of(row)} < {n.m} ? {c_of(row)} : {n.m - 1};")
            batch, placing = n.row(variable("m", 0, n.m - 1))
            if n.batch_groups > 1:
                batch = n.group(g) * n.batch + batch
            at = batch * self.strides[n.dims.input_batch] + self.input.base
            if n.feature_groups > 1:
                at = at + n.group(g) * (n.features * self.strides[n.dims.input_feature])
            for d, w in enumerate(n.window):
                origin = placing[d] * (n.periods[d] * w.stride // w.base_dilation) + offsets[d]
                block.line(f"const int origin{d} = {c_of(origin)};")
                block.line(f"o{d}[r] = origin{d};")
                at = at + variable(f"origin{d}", origin.low, origin.high) * self.strides[n.dims.input_spatial[d]]
            block.line(f"at[r] = {c_of(at)};")

    # The runs

    def runs(self, loop: TermLoop) -> BlockRuns:
        """The function that computes the runs of a block."""
        window = self.numbers.window
        dilations = tuple(w.base_dilation for w in window)
        return _WindowRuns(self, WindowLoop(loop, dilations, tuple(self.checked), self.joined))

    def call(self, window_loop: WindowLoop, right: str, fresh: str) -> str:
        """The statement that adds the runs of the current block to a tile."""
        n = self.numbers
        numbers: dict[str, int | str] = {}
        for d, w in enumerate(n.window):
            low, high = self._range(d)
            step = self.strides[n.dims.input_spatial[d]]
            terms = prod(n.elements[d + 1 :]) * n.features if d >= self.cuts.cut else 0
            numbers |= {f"low{d}": low, f"high{d}": high, f"terms{d}": terms, f"apart{d}": w.window_dilation}
            numbers |= {f"step{d}": step, f"size{d}": n.sizes[d], f"rest{d}": f"rest{d}"}
        return window_loop.call(self.source, right, numbers, n.features, str(self.input.base), fresh)

    def _range(self, d: int) -> tuple[str, str]:
        """The range of the window's elements in dimension d that belong to the block, as C: first and end."""
        if self.blocks == 1 or d > self.cuts.cut:
            return "0", str(self.numbers.elements[d])
        if d == self.cuts.cut:
            return "first_element", "first_element + elements"
        return f"outer{d}", f"outer{d} + 1"


@dataclass(frozen=True)
class _WindowRuns:
    """The runs of a block of `rows`, by the function `loop`."""

    rows: WindowRows
    loop: WindowLoop

    def text(self) -> str:
        return self.loop.text()

    def call(self, right: str, fresh: str) -> str:
        return self.rows.call(self.loop, right, fresh)
