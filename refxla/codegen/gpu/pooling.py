"""Pooling on GPUs: windows of a reduce-window that are not cumulative, a few adjacent placings in an item."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.access_patterns import AccessPattern
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from .. import scalar
from ..elemental_rules import combine
from ..kernel_arguments import hero_of
from ..windows.reduce_window import WindowKernel
from .vector_access import VectorAccesses
from .window_items import MOST_RESULTS, SlidingWindow, WindowItem
from .work_groups import each_unit, kernel_of_units


def kernel(fusion: Fusion, target: Target) -> Kernel | None:
    """The kernel; None if an item for each result is as good."""
    pooling = _Pooling(fusion, target)
    window = SlidingWindow.over(fusion, pooling.operands, pooling.hero.window, pooling.counts)
    items = window.items(target, MOST_RESULTS)
    if not items or items[0].results == 1 or hero_of(fusion).shape.is_tuple:
        return None
    return pooling.kernel(items[0])


class _Pooling(WindowKernel):
    """The kernel of such a window, which accumulates several results in one item."""

    def kernel(self, item: WindowItem) -> Kernel:
        block = self.block
        with each_unit(block, self.target, item.units):
            at = item.begin(block)
            (start,), (name,) = self.start(), self.types
            block.line(f"{scalar.register_type(name)} total{item.state};")
            item.fill(block, "total", start)
            item.visit(self.e, block, at, self._step)
            with item.placings(block, at) as (place, width, own):
                pattern = AccessPattern(self.fusion)
                pattern.bind(self.hero, place)
                for output, indices in self._own(place):
                    pattern.store(output, indices)
                with VectorAccesses.of(pattern, "j", width).loop(self.e, block, pattern):
                    self.store([f"total{own}"], place)
        return kernel_of_units(self.fusion.name, block, self.arguments, self.target, item.units)

    def _step(self, placings: Sequence[tuple[int, int, int]], lane: str, values: Sequence[str]) -> None:
        for r, c, _ in placings:
            spot = f"total[{r}][{c}][{lane}]"
            (total,) = combine(self.e, self.reducer, (spot, *values), self.block)
            self.block.line(f"{spot} = {total};")
