"""Strips: a few adjacent placings of a window in one dimension, which one item computes together.

Their windows overlap, so an element of the operand is loaded once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product as combinations

from refxla_spec.module import WindowDimension

from ...analysis.index_expression import Index
from ...analysis.index_maps import Condition

Pairs = list[tuple[int, int]]  # a placing of a strip, and an element of its window


@dataclass(frozen=True)
class Strip:
    """`placings` at a time, of `placings_in_all`, of a window over a dimension of `size` elements."""

    window: WindowDimension
    size: int
    placings_in_all: int
    placings: int

    @property
    def count(self) -> int:
        """The number of strips, of which the last one may have fewer placings."""
        return -(-self.placings_in_all // self.placings)

    @property
    def step(self) -> int:
        """The elements from a strip to the next; 0 if that is no whole number, because of base dilation."""
        step, rest = divmod(self.placings * self.window.stride, self.window.base_dilation)
        return 0 if rest else step

    @cached_property
    def meetings(self) -> dict[int, Pairs]:
        """The elements that the windows of a strip contain, in order, as distances from the strip's number times its
        step: for each, the placings, each with the element of its window that lies there."""
        w = self.window
        found: dict[int, Pairs] = {}
        for placing, element in combinations(range(self.placings), range(w.size)):
            at = placing * w.stride + element * w.window_dilation - w.padding_low
            if at % w.base_dilation == 0:  # not in a gap
                found.setdefault(at // w.base_dilation, []).append((placing, element))
        return dict(sorted(found.items()))

    def position(self, number: Index, distance: int) -> Index:
        """The element at that distance, for the strip with that number."""
        return number * self.step + distance

    def inside(self, position: Index) -> list[Condition]:
        """The conditions that there is an element at a position."""
        return [Condition(position, ">=", 0), Condition(position, "<", self.size)]
