"""Cumulative windows across memory on GPUs: an item computes a lane, or a segment of one.

An item loads a few elements of its lane at once, and combines one after the other. If the lanes are too few for a GPU,
the segments of each are computed in parallel: a first kernel combines the elements of each segment,

    totals[segment, outer, lane] = neutral element, combined with the elements of the segment

and each item of a second one combines the totals of the segments before its own, in order, and goes on from there.
Sums of floating-point numbers have such segments on every device (contraction_order.py); maxima, and operations on
integers, give the same bits in any. The elements are read twice, but by the whole GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...analysis.accumulation import commutative_opcode
from ...analysis.index_expression import Index, delinearize, linearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import combine
from ..index_printer import c_of
from ..kernel_arguments import input_argument, inputs_of
from ..reductions.accumulators import neutral_element
from ..sums import SegmentedSum, empty_sum
from ..windows.reduce_window import Cumulative
from .work_groups import group_size, register_bytes

AT_A_TIME = 8  # elements of a lane that an item loads at once
SEGMENT = 256  # elements of a segment, at least, and lanes' lengths from which on there are segments
# Operations whose bits are the same in any order: on integers, and on floating-point numbers with infinities.
EXACT = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
EXACT_OF_FLOATS, FLOATS = ("maximum", "minimum"), ("f16", "bf16", "f32", "f64")
GROUPS_PER_UNIT = 2  # work-groups of whole lanes that keep a compute unit busy


def kernels(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a cumulative window across memory, or the two of its segments."""
    segment = _segment(_Lanes(fusion, target))
    if not segment:
        return (_Lanes(fusion, target).kernel(),)
    return _Totals(fusion, target, segment).kernel(), _Results(fusion, target, segment).kernel()


def _segment(lanes: _Lanes) -> int:
    """The elements of the segments that are computed in parallel; 0 if items compute whole lanes."""
    enough = GROUPS_PER_UNIT * group_size(lanes.target) * lanes.target.compute_units
    if len(lanes.types) > 1 or lanes.length < 2 * SEGMENT or lanes.all_lanes >= enough:
        return 0
    opcode, (name,) = commutative_opcode(lanes.reducer), lanes.types
    is_integer = name == "pred" or (name[0] in "su" and name[1:].isdigit())
    if is_integer and opcode in EXACT or name in FLOATS and opcode in EXACT_OF_FLOATS:
        return max(SEGMENT, 1 << lanes.length.bit_length() // 2)
    return lanes.segment


class _Lanes(Cumulative):
    """An item has a whole lane."""

    @property
    def lanes(self) -> int:
        """The lanes inside the dimension."""
        return prod(self.after)

    @property
    def all_lanes(self) -> int:
        """The lanes in all."""
        return prod(self.before) * self.lanes

    def kernel(self) -> Kernel:
        """The kernel."""

        def lane(unit: Index) -> None:
            sums = self.sums(self.start(), 1)
            with sums.ranges() as (first, end):
                self.go_through(unit, first, end, sums.chains("0"), lambda at: self.store(sums.results("0"), at))

        return self.kernel_of(self.all_lanes, lane, self.fusion.name, self.arguments)

    def kernel_of(
        self, units: int, item: Callable[[Index], None], name: str, arguments: tuple[Argument, ...]
    ) -> Kernel:
        """The kernel with the statements of so many items."""
        group = group_size(self.target)
        self.block.line(f"const int unit = group * {group} + item;")
        with self.block.scope(f"if (unit < {units})" if units % group else ""):
            item(variable("unit", 0, units - 1))
        return Kernel(name, self.block.text(), arguments, -(-units // group) * group, work_group=group)

    def go_through(
        self, lane: Index, first: str, end: str, chains: Sequence[str], then: Callable[[list[Index]], None]
    ) -> None:
        """Combines a lane's elements from `first` to `end` (C) into the chains, with `then` after each. The loads of
        some elements do not wait for what is done with those before."""
        block, k = self.block, variable("k", 0, self.length - 1)
        at = self.placing(k, lane // self.lanes, lane % self.lanes)
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


class _Segments(_Lanes):
    """An item has a segment of a lane."""

    def __init__(self, fusion: Fusion, target: Target, parallel: int) -> None:
        super().__init__(fusion, target)
        self.parallel, self.count = parallel, -(-self.length // parallel)
        (self.name,) = self.types
        self.ctype = scalar.register_type(self.name)
        size = self.count * self.all_lanes * register_bytes(self.name)
        self.totals = Argument("scratch", self.ctype, bytes=size, scratch=f"{fusion.name}.totals")
        opcode = commutative_opcode(self.reducer)
        neutral = empty_sum(self.name) if self.segment else neutral_element(opcode, self.name)
        assert neutral is not None, "_segment has asked for it"
        self.neutral = neutral

    def begin(self, unit: Index) -> tuple[Index, Index]:
        """Names the segment of an item, with its range; returns its number and the lane."""
        segment, lane = delinearize(unit, (self.count, self.all_lanes))
        self.block.line(f"const int segment = {c_of(segment)}, lane = {c_of(lane)};")
        self.block.line(f"const int first = segment * {self.parallel};")
        end = f"{self.length} - first < {self.parallel} ? {self.length} : first + {self.parallel}"
        self.block.line(f"const int end = {end};")
        return variable("segment", 0, self.count - 1), variable("lane", 0, self.all_lanes - 1)


class _Totals(_Segments):
    """The first kernel. The last segment has no total."""

    def kernel(self) -> Kernel:
        """The kernel."""
        inputs = inputs_of(self.fusion, self.operands)
        self.e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{n}" for n, i in enumerate(inputs)})

        def item(unit: Index) -> None:
            segment, lane = self.begin(unit)
            self.block.line(f"{self.ctype} chain = {self.neutral};")
            self.go_through(lane, "first", "end", ["chain"], lambda at: None)
            place = linearize((segment, lane), (self.count, self.all_lanes))
            self.block.line(f"a{len(inputs)}[{c_of(place)}] = chain;")

        arguments = (*map(input_argument, inputs), self.totals)
        return self.kernel_of((self.count - 1) * self.all_lanes, item, f"{self.fusion.name}.totals", arguments)


class _Results(_Segments):
    """The second kernel."""

    def kernel(self) -> Kernel:
        """The kernel."""

        def item(unit: Index) -> None:
            segment, lane = self.begin(unit)
            block, (start,) = self.block, self.start()
            block.line(f"{self.ctype} before = {start}, chain = {self.neutral};")
            sums = SegmentedSum.of_numbers(self.name, "before", "chain", self.neutral)
            place = linearize((variable("s", 0, self.count - 1), lane), (self.count, self.all_lanes))
            block.line(f"#pragma unroll {AT_A_TIME}")
            with block.scope("for (int s = 0; s < segment; ++s)"):
                total = f"a{len(self.arguments)}[{c_of(place)}]"
                if self.segment:
                    block.line(f"chain = {total};")
                    sums.close(block)
                else:
                    (value,) = combine(self.e, self.reducer, ("before", total), block)
                    block.line(f"before = {value};")
            if self.segment:
                self.go_through(lane, "first", "end", ["chain"], lambda at: self.store([self._sum(sums)], at))
            else:
                self.go_through(lane, "first", "end", ["before"], lambda at: self.store(["before"], at))

        name = self.fusion.name
        return self.kernel_of(self.count * self.all_lanes, item, name, (*self.arguments, self.totals))

    def _sum(self, sums: SegmentedSum) -> str:
        return self.e.assign(self.name, sums.value, self.block)
