"""The options of scheduling: what it has to know about the device, and the transformations that are left out."""

from __future__ import annotations

from dataclasses import dataclass

from ..device.description import Costs
from .launch_costs import NOT_MERGED, MergingOptions


@dataclass(frozen=True)
class SchedulingOptions:
    """The options of a plan. None changes a bit of any result."""

    costs: Costs = Costs()
    fusion: bool = True  # without it every instruction is a kernel of its own
    tiled_fusion: bool = True  # fusions may run tile by tile (tiled_fusion.py), where kernels are persistent
    parallel_loops: bool = True  # cores may run whole iterations of a loop (parallel_loop.py), likewise
    predication: bool = True  # loops may run ahead of the host (predication.py), on a GPU
    merging: MergingOptions = NOT_MERGED  # for what device small launches are merged (launch_merging.py)

    @property
    def shares_launches(self) -> bool:
        """Whether one more kernel need be no further launch. A GPU's launches stay few without."""
        return self.merging.units > 0 and not self.merging.group

    @property
    def computes_in_pieces(self) -> bool:
        """Whether functions are computed of many elements at once, as codegen/loops/fast_path_math.py does for CPUs."""
        return not self.merging.group
