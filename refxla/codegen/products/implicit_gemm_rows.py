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
from ...device.description import Target
from ...device.tile_configurations import configuration_for
from ...ir.plan import Argument, Fusion, Kernel
from .. import work_items
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of, input_argument, inputs_of
from .blocking import LOCAL_ROWS, LOCAL_TERMS, MAX_COPIES
from .implicit_gemm import ImplicitGemm
from .micro_kernel import TermLoop
from .packing import VECTORS, direct_access, scratch_argument, to_accumulation
from .panels import filter_windows
from .product import BlockRuns
from .window_loop import WindowLoop

WHOLE_COLUMNS = 32  # of filters that store windows: panels are packed with all terms if so many columns fit the cache
BLOCK_TERMS = 4096  # of k in a block, if the window can be cut that way


class WindowRows:
    """The Rows of a convolution. They read lhs in place, or from a copy in which features are contiguous.

    The layout of the copy is [batch][spatial...][feature]. Where the batch is the last dimension of lhs, as in the
    gradient of the filter, it is [spatial...][feature][batch], so that the copy reads and writes contiguous memory.
    """

    local = None

    def __init__(self, fusion: Fusion, target: Target, numbers: ImplicitGemm, name: str) -> None:
        self.fusion, self.target, self.numbers, self.name = fusion, target, numbers, name
        self.operand = hero_of(fusion).operands[0]
        self.element = VECTORS[name][0]
        self._choose_memory()
        self._choose_blocks()
        self._choose_checks()

    # Where lhs lies

    def _choose_memory(self) -> None:
        """Sets `access` (None: lhs is copied), `strides`, in elements by dimension of lhs, and `base`, the position of
        element 0."""
        n = self.numbers
        rank = len(n.lhs)
        labels = [variable(f"d{d}", 0, size - 1) for d, size in enumerate(n.lhs)]
        self.access = direct_access(self.fusion, self.operand, labels, self.name)
        self.strides: dict[int, int] = {}
        if self.access is not None:
            position = self.access.position
            steps = {d: position.factor(f"d{d}") if size > 1 else 0 for d, size in enumerate(n.lhs)}
            feature, features = n.dims.input_feature, n.features * n.feature_groups
            together = steps[feature] == 1 or features == 1 or prod(n.lhs) <= 4096
            self.strides = {d: step for d, step in steps.items() if step is not None}
            self.base = position.constant
            if len(self.strides) < len(steps) or not together:
                self.access = None
        if self.access is None:
            batch, feature, spatial = n.dims.input_batch, n.dims.input_feature, n.dims.input_spatial
            last = batch == rank - 1
            self.layout = (*spatial, feature, batch) if last else (batch, *spatial, feature)
            step, self.base = 1, 0
            for d in reversed(self.layout):
                self.strides[d] = step
                step *= n.lhs[d]
        self.step = self.strides[n.dims.input_feature] if n.features > 1 else 1
        reach = sum(abs(self.strides[d]) * size for d, size in enumerate(n.lhs))
        self._wide = "(long)" if reach >= 2**31 else ""  # before distances that may not fit C's int

    def pointer(self) -> Instruction | Argument:
        """The input that is read as lhs, or the argument with its copy."""
        return self.copy() if self.access is None else self.access.instruction

    def copy(self) -> Argument:
        """The argument with the copy of lhs."""
        return scratch_argument(self.fusion, "left", self.name, prod(self.numbers.lhs))

    def stage(self) -> Kernel | None:
        """The kernel that copies lhs, if it is copied."""
        if self.access is not None:
            return None
        sizes = [self.numbers.lhs[d] for d in self.layout]
        inputs = inputs_of(self.fusion, [self.operand])
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(inputs)})
        *outer, inner = sizes
        rows = prod(outer)
        per_item = max(1, work_items.ELEMENTS // inner)
        block = Block()
        with block.scope(f"for (int s = item * {per_item}; s < {per_item} * (item + 1) && s < {rows}; ++s)"):
            with block.scope(f"for (int u = 0; u < {inner}; ++u)"):
                s, u = variable("s", 0, rows - 1), variable("u", 0, inner - 1)
                indices = [constant(0)] * len(sizes)
                for d, index in zip(self.layout, (*delinearize(s, outer), u), strict=True):
                    indices[d] = index
                value = to_accumulation(e, self.operand, indices, self.name, block)
                block.line(f"a{len(inputs)}[{c_of(s * inner + u)}] = {value};")
        arguments = (*map(input_argument, inputs), self.copy())
        return Kernel(f"{self.fusion.name}.left", block.text(), arguments, -(-rows // per_item))

    # Blocks of k in the window

    def _choose_blocks(self) -> None:
        """Sets `cut`, the spatial dimension in which the window is cut into blocks of k, and `length`, the elements of
        a block in that dimension. Each block begins at a multiple of `alignment` terms."""
        n = self.numbers
        most = BLOCK_TERMS if n.m > LOCAL_ROWS else 2 * LOCAL_TERMS  # with few rows, an item packs its own panels
        right = filter_windows(self.fusion, n, self.name)
        if right is not None and 4 * n.k * WHOLE_COLUMNS <= MAX_COPIES * self.target.caches.second:
            most = n.k
        most = configuration_for(self.fusion, self.target.tile_configurations).terms or most
        self.cut, self.length = 0, n.elements[0] if n.elements else 1
        for d, size in enumerate(n.elements):
            inner = prod(n.elements[d + 1 :]) * n.features  # terms of one element of dimension d
            self.cut, self.length = d, max(1, min(size, most // max(1, inner)))
            if inner <= most:
                break
        self.inner = prod(n.elements[self.cut + 1 :]) * n.features
        self.parts = -(-n.elements[self.cut] // self.length) if n.elements else 1
        self.length = -(-n.elements[self.cut] // self.parts) if n.elements else 1
        self.blocks = prod(n.elements[: self.cut]) * self.parts
        self.most_terms, self.least_terms = self.length * self.inner, n.features
        # The next ranges begin where those of the dimension end; the last one may be short.
        self.alignment = gcd(self.most_terms, n.elements[self.cut] * self.inner) if self.cut else self.most_terms

    def open_block(self, block: Block, number: str) -> tuple[Index, str]:
        """Declares which elements of the window are in block `number` of k; returns its first term and, as C, how many
        terms it has."""
        n = self.numbers
        if self.blocks == 1:
            return constant(0), str(n.k)
        block.line(f"const int first_element = {number} % {self.parts} * {self.length};")
        outer = delinearize(variable(number, 0, self.blocks - 1) // self.parts, n.elements[: self.cut])
        for d, index in enumerate(outer):
            block.line(f"const int outer{d} = {c_of(index)};")
        rest = f"{n.elements[self.cut]} - first_element"
        block.line(f"const int elements = {self.length} < {rest} ? {self.length} : {rest};")
        place = [variable(f"outer{d}", 0, n.elements[d] - 1) for d in range(self.cut)]
        place.append(variable("first_element", 0, n.elements[self.cut] - 1))
        first = linearize(place, n.elements[: self.cut + 1]) * self.inner
        return first, f"elements * {self.inner}"

    # Which checks are needed

    def _choose_checks(self) -> None:
        """Sets `checked[d]`, whether window elements may be out of bounds in dimension d, and `joined`, whether the
        elements of the last dimension are contiguous in memory."""
        n = self.numbers
        self.checked = []
        for d, w in enumerate(n.window):
            last = (n.placings[d] * n.periods[d] - 1) * w.stride + (w.size - 1) * w.window_dilation - w.padding_low
            self.checked.append(w.padding_low > 0 or last > (n.sizes[d] - 1) * w.base_dilation)
        self.joined = False
        if n.window:
            w, stride = n.window[-1], self.strides[n.dims.input_spatial[-1]]
            dense = w.window_dilation == 1 and w.base_dilation == 1
            self.joined = dense and stride == n.features * self.step and n.elements[-1] > 1

    def open_tile(self, block: Block, source: str, first: Index, rows: int) -> None:
        """Declares the origins of rows first, first + 1, ...: arrays `at` of their positions in memory, and o0, o1, ...
        of their places in the spatial dimensions."""
        n = self.numbers
        self.source = source if self.access is None else f"((__global const {self.element}*){source})"
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
        if self.target.capabilities.loop_pragmas:
            block.line("#pragma clang loop unroll(disable)")
        with block.scope(f"for (int r = 0; r < {rows}; ++r)"):
            row = first + variable("r", 0, rows - 1)
            block.line(f"const int m = {c_of(row)} < {n.m} ? {c_of(row)} : {n.m - 1};")
            batch, placing = n.row(variable("m", 0, n.m - 1))
            if n.batch_groups > 1:
                batch = n.group(g) * n.batch + batch
            at = batch * self.strides[n.dims.input_batch] + self.base
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
            terms = prod(n.elements[d + 1 :]) * n.features if d >= self.cut else 0
            numbers |= {f"low{d}": low, f"high{d}": high, f"terms{d}": terms, f"apart{d}": w.window_dilation}
            numbers |= {f"step{d}": step, f"size{d}": n.sizes[d], f"rest{d}": f"rest{d}"}
        return window_loop.call(self.source, right, numbers, n.features, str(self.base), fresh)

    def _range(self, d: int) -> tuple[str, str]:
        """The range of the window's elements in dimension d that belong to the block, as C: first and end."""
        if self.blocks == 1 or d > self.cut:
            return "0", str(self.numbers.elements[d])
        if d == self.cut:
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
