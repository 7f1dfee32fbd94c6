"""Segments of cumulative windows that a GPU computes in parallel, where its rows or lanes are few.

A first kernel combines the elements of each segment but the last,

    totals[segment, lane] = neutral element, combined with the elements of the segment

and each item of a second one combines the totals of the segments before its own, in order, and goes on from there. Sums
of floating-point numbers have such segments on every device (contraction_order.py); maxima, and operations on integers,
give the same bits in any. The elements are read twice, but by the whole GPU.
"""

from __future__ import annotations

from ...analysis.accumulation import commutative_opcode
from ...analysis.index_expression import Index, linearize, variable
from ...ir.plan import Argument
from .. import scalar
from ..elemental_rules import combine
from ..index_printer import c_of
from ..reductions.accumulators import neutral_element
from ..sums import SegmentedSum, empty_sum
from ..windows.reduce_window import Cumulative
from .work_groups import register_bytes

SEGMENT = 256  # elements of a segment, at least
LEAST_SEGMENTS = 2
AT_A_TIME = 8  # totals that an item loads together
# Operations whose bits are the same in any order: on integers, and on floating-point numbers with infinities.
EXACT = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
EXACT_OF_FLOATS, FLOATS = ("maximum", "minimum"), ("f16", "bf16", "f32", "f64")


class ParallelSegments:
    """The segments of `size` elements, `count` in each of so many lanes. They are possible if `size` is not 0."""

    def __init__(self, window: Cumulative, lanes: int) -> None:
        self.lanes, self.name = lanes, window.types[0]
        self._opcode = commutative_opcode(window.reducer)
        self._is_sum = window.segment > 0  # whose segments have a sum each
        self.size = self._size(window)
        self.count = -(-window.length // self.size) if self.size else 1
        self.ctype = scalar.register_type(self.name)
        bytes_of_totals = self.count * lanes * register_bytes(self.name)
        self.totals = Argument("scratch", self.ctype, bytes=bytes_of_totals, scratch=f"{window.fusion.name}.totals")

    def _size(self, window: Cumulative) -> int:
        if len(window.types) > 1 or window.length < LEAST_SEGMENTS * SEGMENT:
            return 0
        is_integer = self.name == "pred" or (self.name[0] in "su" and self.name[1:].isdigit())
        if is_integer and self._opcode in EXACT or self.name in FLOATS and self._opcode in EXACT_OF_FLOATS:
            return max(SEGMENT, 1 << window.length.bit_length() // 2)
        return window.segment

    @property
    def neutral(self) -> str:
        """The C value of no elements."""
        value = empty_sum(self.name) if self._is_sum else neutral_element(self._opcode, self.name)
        assert value is not None, "the segments are not possible"
        return value

    def place(self, segment: Index, lane: Index) -> str:
        """The C index of a total."""
        return c_of(linearize((segment, lane), (self.count, self.lanes)))

    def sums(self, window: Cumulative, lane: Index | None = None, pointer: str = "") -> SegmentSums:
        """Declares the accumulators of a segment. If its lane is given, they begin with the totals of those before the
        segment `segment` (C), which are at a pointer, and with the initial value."""
        block = window.block
        if lane is None:
            block.line(f"{self.ctype} chain = {self.neutral};")
            return SegmentSums(window, "chain", None)
        (start,) = window.start()
        block.line(f"{self.ctype} before = {start}, chain = {self.neutral};")
        sum_ = SegmentedSum.of_numbers(self.name, "before", "chain", self.neutral)
        block.line(f"#pragma unroll {AT_A_TIME}")
        with block.scope("for (int s = 0; s < segment; ++s)"):
            total = f"{pointer}[{self.place(variable('s', 0, self.count - 1), lane)}]"
            if self._is_sum:
                block.line(f"chain = {total};")
                sum_.close(block)
            else:
                (value,) = combine(window.e, window.reducer, ("before", total), block)
                block.line(f"before = {value};")
        return SegmentSums(window, "chain", sum_) if self._is_sum else SegmentSums(window, "before", None)


class SegmentSums:
    """The accumulators of a segment: as of LaneSums, for one lane and one segment."""

    def __init__(self, window: Cumulative, chain: str, total: SegmentedSum | None) -> None:
        self._window, self._chain, self._total = window, chain, total

    def begin(self, n: str) -> None:
        """No segment begins between two steps."""

    def chains(self, u: str) -> list[str]:
        """The lvalue into which elements are combined."""
        return [self._chain]

    def results(self, u: str) -> list[str]:
        """The result so far."""
        window = self._window
        return [
            self._chain if self._total is None else window.e.assign(window.types[0], self._total.value, window.block)
        ]
