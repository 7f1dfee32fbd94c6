"""The kernels of kind "reduce-window" for GPUs.

Cumulative sums and the like carry over from one result to the next, so that n results take n steps; each result
combines the previous one with one more element, as on a CPU. The steps run along memory (cumulative_rows.py), or across
it (cumulative_lanes.py). Other windows are pooling.
"""

from __future__ import annotations

from math import prod

from ...analysis.index_maps import cumulative
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from ..kernel_arguments import hero_of
from ..windows.reduce_window import result_dimensions
from . import cumulative_lanes, cumulative_rows, elementwise, pooling


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a reduce-window. The outputs are elementwise in it, or reshapes of values that are."""
    hero = hero_of(fusion)
    counts = result_dimensions(hero)
    if min(counts, default=0) == 0:
        return elementwise.emit(fusion, target)
    scan = cumulative(hero)
    if scan is None:
        own = pooling.kernel(fusion, target)
        return elementwise.emit(fusion, target) if own is None else (own,)
    if prod(counts[scan[0] + 1 :]) == 1:
        return cumulative_rows.kernels(fusion, target)
    return cumulative_lanes.kernels(fusion, target)
