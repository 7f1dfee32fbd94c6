"""The cost model of launches: the times of kernels on one core, and of starting one more."""

from __future__ import annotations

from dataclasses import dataclass

from ..device.description import Costs
from ..ir import plan as p
from .merged_kernel import COPIED_AT_A_TIME


@dataclass(frozen=True)
class MergingOptions:
    """For what device launches are merged: its `units`, which are cores or compute units (0: none are merged); whether
    there may be `persistent` kernels; and of a GPU the items of a work-group, and whether these can hand values over
    (Target.handover): else only loops of single items are merged. `by_item`: the only unit is a work item of a GPU."""

    units: int = 0
    persistent: bool = False
    group: int = 0
    handover: bool = True
    by_item: bool = False


NOT_MERGED = MergingOptions()


class LaunchCosts:
    """The microseconds of kernels and launches on a device, whose cores are those of a GPU's compute units: there a
    work-group stands for a core. `persistent`: a launch can be a phase of a persistent kernel."""

    def __init__(self, costs: Costs, merging: MergingOptions, persistent: bool) -> None:
        self.persistent = persistent
        self.cores, self.group, self._copied_byte = merging.units, merging.group, costs.copied_byte
        self.launch_us, self.barrier_us = costs.launch / 1e3, costs.phase / 1e3
        self.call_us = (costs.group if merging.group else costs.call) / 1e3  # of a kernel that another calls, at least
        self.start_us = self.barrier_us if persistent else self.launch_us  # of one more launch, or phase

    def copy_us(self, bytes: int) -> float:
        """What one work item takes to copy so much, or on a GPU a work-group."""
        if self.group:
            return bytes / (COPIED_AT_A_TIME * self.group) * self.call_us
        return bytes * self._copied_byte / 1e3

    def unit_us(self, kernel: p.Kernel) -> float:
        """What a kernel takes on one core or compute unit."""
        if not self.group or not isinstance(kernel.body, str):
            return kernel.us
        return max(kernel.us * self.cores, self.unit_count(kernel) * self.call_us)

    def unit_count(self, kernel: p.Kernel) -> int:
        """The number of items that can run in parallel, or on a GPU of work-groups."""
        return -(-kernel.items // self.group) if self.group else kernel.items

    def workers(self, kernel: p.Kernel) -> int:
        """The number of cores that a kernel keeps busy."""
        return max(1, min(self.unit_count(kernel), self.cores))

    def shared_us(self, kernel: p.Kernel) -> float:
        """What a kernel takes on all cores."""
        us = kernel.persistent_us if kernel.persistent else self.unit_us(kernel) / self.workers(kernel)
        return max(us, self.call_us)
