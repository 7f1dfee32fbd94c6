"""How a sliding window is traversed on a CPU: one placing at a time, except those that are lanes of vectors.

The lanes are the innermost dimensions in which there is more than one placing: all dimensions outside of the window
(the channels of NHWC: each element of the window is then a run of memory), or one along which it slides (the width of
NCHW), or, if the channels are few, both: with a stride of one, the width and three colours are one run of memory, too.
The other dimensions outside of the window, and strips of the lanes, are the units of work. `Lanes` has the sizes,
`OpenWindow` the loops over a window's elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod

from refxla_spec.module import Window, WindowDimension

from ...analysis.index_expression import Index, constant, delinearize, variable
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of

STRIP_LANES = 512  # lanes with accumulators at a time
FEW_LANES = 16  # too few to fill a vector


def is_left_alone(w: WindowDimension) -> bool:
    """Whether the dimension is outside of the window: each element is a placing of its own."""
    return w.size == w.stride == w.base_dilation == w.window_dilation == 1 and w.padding_low == w.padding_high == 0


def goes_by_single_steps(w: WindowDimension) -> bool:
    """Whether consecutive placings begin at consecutive elements."""
    return w.stride == w.base_dilation == 1


class Lanes:
    """The lanes of a window on an array of `sizes` with `counts` placings.

    `dims` are the dimensions that are lanes, `slides` that one of them along which the window slides, or None; `inner`
    is the number of lanes at each position of it: one, unless `joins` says that the window may slide along several.
    `length` counts the lanes, `strip` those in a unit of work. Lanes need base_dilation 1 where the window slides:
    `supported` says so.
    """

    def __init__(self, window: Window, sizes: Sequence[int], counts: Sequence[int], joins: bool = False) -> None:
        self.window, self.sizes, self.counts = window, tuple(sizes), tuple(counts)
        first = len(window)
        while first > 0 and is_left_alone(window[first - 1]):
            first -= 1
        self.slides: int | None = None
        self.inner = 1
        lanes = prod(self.counts[first:])
        if first > 0 and (lanes == 1 or joins and lanes < FEW_LANES and goes_by_single_steps(window[first - 1])):
            first -= 1
            self.slides, self.inner = first, lanes
        self.dims = tuple(range(first, len(window)))
        self.outer = tuple(range(first))
        self.length = prod(self.counts[d] for d in self.dims)
        self.supported = self.slides is None or window[self.slides].base_dilation == 1
        self.strip = max(1, min(STRIP_LANES, self.length))
        self.strips = -(-self.length // self.strip)

    def narrow(self, units: int) -> None:
        """Cuts the lanes into more strips, so that there are about that many of them."""
        whole = 32
        strip = -(-self.length // max(1, units))
        self.strip = max(1, min(self.strip, self.length, -(-strip // whole) * whole))
        self.strips = -(-self.length // self.strip)

    def open_strip(self, block: Block, strip: Index) -> None:
        """Declares the start of a strip and its number of lanes."""
        begin = strip * self.strip
        self.begin: Index = begin
        self.width = str(self.strip)
        if not begin.is_constant:
            block.line(f"const int begin = {c_of(begin)};")
            self.begin = variable("begin", begin.low, begin.high)
        if self.length % self.strip:
            block.line(f"const int width = {self.length} - {c_of(self.begin)} < {self.strip} ? "
                       f"{self.length} - {c_of(self.begin)} : {self.strip};")  # fmt: skip
            self.width = "width"

    def open_lane(
        self, e: ElementalIrEmitter, block: Block, scopes: ExitStack, bounds: tuple[str, str] | None = None
    ) -> tuple[str, Index]:
        """Opens the loop over the lanes of the strip, or over those within `bounds`: (C name, index of the lane)."""
        low, high = bounds or ("0", self.width)
        u = e.names.fresh("u")
        if e.target.capabilities.loop_pragmas:  # a short loop that is unrolled before it is vectorized stays scalar
            block.line("#pragma clang loop unroll(disable)")
        scopes.enter_context(block.scope(f"for (int {u} = {low}; {u} < {high}; ++{u})"))
        lane = self.begin + variable(u, 0, self.strip - 1)
        if lane.high >= self.length:  # the last strip is shorter
            name = e.names.fresh("j")
            block.line(f"const int {name} = {c_of(lane)};")
            lane = variable(name, 0, self.length - 1)
        return u, lane

    def placing(self, outer: dict[int, Index], lane: Index) -> list[Index]:
        """The placing's indices, from those of the outer dimensions and the lane."""
        inside = delinearize(lane, [self.counts[d] for d in self.dims])
        return [*(outer[d] for d in self.outer), *inside]


class OpenWindow:
    """The loops over the elements of a window in the outer dimensions and, if it slides there, along the lanes.

    Enters them in `scopes`: elements outside of the array are skipped by `continue`. Then `number` is the row-major
    number of the window's element, `bounds` are the lanes for which it lies inside (None: all of the strip), and
    `position(lane)` gives the indices of the array's elements. With `descending`, the loop along the lanes runs from
    the window's last element to its first.
    """

    def __init__(
        self, lanes: Lanes, e: ElementalIrEmitter, block: Block, outer: dict[int, Index], scopes: ExitStack,
        descending: bool = False,
    ) -> None:  # fmt: skip
        self.lanes, self.e, self.block = lanes, e, block
        self.at: dict[int, Index] = {}
        self.number = constant(0)
        self.bounds: tuple[str, str] | None = None
        for d in lanes.outer:
            w, size = lanes.window[d], lanes.sizes[d]
            if is_left_alone(w):
                self.at[d] = outer[d]
                continue
            k = self._loop(w, scopes, False)
            x = outer[d] * w.stride + k * w.window_dilation - w.padding_low
            if x.low < 0 or x.high > (size - 1) * w.base_dilation or w.base_dilation > 1:
                name = e.names.fresh("x")
                block.line(f"const int {name} = {c_of(x)};")
                block.line(f"if ({name} < 0 | {name} > {(size - 1) * w.base_dilation}) continue;")
                x = variable(name, 0, max(0, (size - 1) * w.base_dilation))
                if w.base_dilation > 1:
                    block.line(f"if ({c_of(x % w.base_dilation)} != 0) continue;")
                    x = x // w.base_dilation
            self.at[d] = x
        if lanes.slides is not None:
            size = lanes.sizes[lanes.slides] * lanes.inner
            self._open_sliding(lanes.window[lanes.slides], size, scopes, descending)

    def _loop(self, w: WindowDimension, scopes: ExitStack, descending: bool) -> Index:
        """The loop over a window's elements in one dimension."""
        name = self.e.names.fresh("k")
        head = f"for (int {name} = 0; {name} < {w.size}; ++{name})"
        if descending:
            head = f"for (int {name} = {w.size - 1}; {name} >= 0; --{name})"
        scopes.enter_context(self.block.scope(head))  # also over one element: `continue` needs a loop
        k = variable(name, 0, w.size - 1)
        self.number = self.number * w.size + k
        return k

    def _open_sliding(self, w: WindowDimension, size: int, scopes: ExitStack, descending: bool) -> None:
        k, lanes, block = self._loop(w, scopes, descending), self.lanes, self.block
        # lane * stride + shift must lie in 0..size-1
        self.shift = (k * w.window_dilation - w.padding_low) * lanes.inner
        least, most = self.shift.low, (lanes.length - 1) * w.stride + self.shift.high
        if least >= 0 and most < size:
            return
        low, high = self.e.names.fresh("low"), self.e.names.fresh("high")
        shift = self.e.names.fresh("s")
        block.line(f"const int {shift} = {c_of(self.shift)};")
        # The first lane with lane * stride >= -shift and the first with lane * stride >= size - shift, in the strip.
        for name, bound in ((low, f"-{shift}"), (high, f"{size} - {shift}")):
            block.line(f"int {name} = {bound} > 0 ? ({bound} + {w.stride - 1}) / {w.stride} : 0;")
            if lanes.begin != constant(0):
                block.line(f"{name} = {name} - {c_of(lanes.begin)} > 0 ? {name} - {c_of(lanes.begin)} : 0;")
            block.line(f"{name} = {name} < {lanes.width} ? {name} : {lanes.width};")
        self.shift = variable(shift, self.shift.low, self.shift.high)
        self.bounds = low, high

    def position(self, lane: Index) -> list[Index]:
        """The indices of the array's element for a lane."""
        lanes = self.lanes
        result = [self.at[d] for d in lanes.outer]
        if lanes.slides is None:
            return [*result, *delinearize(lane, [lanes.sizes[d] for d in lanes.dims])]
        sizes = [lanes.sizes[d] for d in lanes.dims]
        x = lane * lanes.window[lanes.slides].stride + self.shift
        if x.low < 0 or x.high >= prod(sizes):
            name = self.e.names.fresh("x")
            self.block.line(f"const int {name} = {c_of(x)};")
            x = variable(name, 0, max(0, prod(sizes) - 1))
        return [*result, *delinearize(x, sizes)]
