"""Cumulative windows across memory on GPUs: an item computes a lane, or a segment of one (cumulative_segments.py), if
the lanes are too few. It loads a few elements at once, and combines one after the other. If the lanes are too few and
have no segments, as those of a product, whose order is promised, work-groups load and store tiles of them for the items
that combine (cumulative_rows.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...analysis.index_expression import Index, delinearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import combine
from ..index_printer import c_of
from ..kernel_arguments import input_argument, inputs_of
from ..windows.reduce_window import Cumulative
from . import cumulative_rows
from .cumulative_segments import LEAST_SEGMENTS, SEGMENT, ParallelSegments
from .work_groups import each_unit, group_size, kernel_of_units

AT_A_TIME = 8  # elements of a lane that an item loads at once
LONG = LEAST_SEGMENTS * SEGMENT  # elements of a lane
GROUPS_PER_UNIT = 2  # work-groups of whole lanes that keep a compute unit busy


def kernels(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a cumulative window across memory, or the two of its segments."""
    lanes = _Lanes(fusion, target)
    segments = ParallelSegments(lanes, lanes.count)
    if lanes.count >= GROUPS_PER_UNIT * group_size(target) * target.compute_units or lanes.length < LONG:
        return (lanes.kernel(),)
    if not segments.size:
        return cumulative_rows.staged_lanes(fusion, target)
    return _Lanes(fusion, target).totals(segments), _Lanes(fusion, target).results(segments)


class _Lanes(Cumulative):
    """The kernels of such a window: of whole lanes, or of the segments of lanes."""

    @property
    def count(self) -> int:
        """The lanes."""
        return prod(self.before) * prod(self.after)

    def kernel(self) -> Kernel:
        """The kernel whose items have a lane each."""

        def item(lane: Index) -> None:
            sums = self.sums(self.start(), 1)
            with sums.ranges() as (first, end):
                self._go_through(lane, first, end, sums.chains("0"), lambda at: self.store(sums.results("0"), at))

        return self._kernel(self.count, item, self.fusion.name, self.arguments)

    def totals(self, segments: ParallelSegments) -> Kernel:
        """The kernel that combines the elements of each segment but the last."""
        inputs = inputs_of(self.fusion, self.operands)
        self.e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{n}" for n, i in enumerate(inputs)})

        def item(unit: Index) -> None:
            segment, lane = self._begin_segment(unit, segments)
            sums = segments.sums(self)
            self._go_through(lane, "first", "end", sums.chains("0"), lambda at: None)
            self.block.line(f"a{len(inputs)}[{segments.place(segment, lane)}] = {sums.chains('0')[0]};")

        arguments = (*map(input_argument, inputs), segments.totals)
        return self._kernel((segments.count - 1) * self.count, item, f"{self.fusion.name}.totals", arguments)

    def results(self, segments: ParallelSegments) -> Kernel:
        """The kernel that goes through each segment from the totals of those before it."""

        def item(unit: Index) -> None:
            _, lane = self._begin_segment(unit, segments)
            sums = segments.sums(self, lane, f"a{len(self.arguments)}")
            self._go_through(lane, "first", "end", sums.chains("0"), lambda at: self.store(sums.results("0"), at))

        arguments = (*self.arguments, segments.totals)
        return self._kernel(segments.count * self.count, item, self.fusion.name, arguments)

    def _begin_segment(self, unit: Index, segments: ParallelSegments) -> tuple[Index, Index]:
        """Names the segment of an item, and its range; returns its number and the lane."""
        segment, lane = delinearize(unit, (segments.count, self.count))
        self.block.line(f"const int segment = {c_of(segment)}, lane = {c_of(lane)};")
        self.block.line(f"const int first = segment * {segments.size};")
        end = f"{self.length} - first < {segments.size} ? {self.length} : first + {segments.size}"
        self.block.line(f"const int end = {end};")
        return variable("segment", 0, segments.count - 1), variable("lane", 0, self.count - 1)

    def _kernel(self, units: int, item: Callable[[Index], None], name: str, arguments: tuple[Argument, ...]) -> Kernel:
        """The kernel with the statements of so many items."""
        with each_unit(self.block, self.target, units):
            item(variable("unit", 0, units - 1))
        return kernel_of_units(name, self.block, arguments, self.target, units)

    def _go_through(
        self, lane: Index, first: str, end: str, chains: Sequence[str], then: Callable[[list[Index]], None]
    ) -> None:
        """Combines a lane's elements from `first` to `end` (C) into the chains, with `then` after each. The loads of
        some elements do not wait for what is done with those before."""
        block, k, lanes = self.block, variable("k", 0, self.length - 1), prod(self.after)
        at = self.placing(k, lane // lanes, lane % lanes)
        with block.scope(f"for (int n = {first}; n < {end}; n += {AT_A_TIME})"):
            for m, name in enumerate(self.types):
                block.line(f"{scalar.register_type(name)} next{m}[{AT_A_TIME}];")
            block.line("#pragma unroll")
            with block.scope(f"for (int u = 0; u < {AT_A_TIME}; ++u)"):
                block.line("const int k = n + u;")
                with block.scope(f"if (k < {end})"):
                    for m, (operand, name) in enumerate(zip(self.operands, self.types, strict=True)):
                        block.line(f"next{m}[u] = {self.accumulable(operand, at, name)};")
            block.line("#pragma unroll")
            with block.scope(f"for (int u = 0; u < {AT_A_TIME}; ++u)"):
                block.line("const int k = n + u;")
                with block.scope(f"if (k < {end})"):
                    elements = [f"next{m}[u]" for m in range(len(self.types))]
                    values = combine(self.e, self.reducer, (*chains, *elements), block)
                    for chain, value in zip(chains, values, strict=True):
                        block.line(f"{chain} = {value};")
                    then(at)
