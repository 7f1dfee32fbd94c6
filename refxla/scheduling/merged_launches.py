"""Which steps can be calls in a merged kernel, and the merged kernels of a plan."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import merged_body as m
from ..ir import plan as p
from .launch_costs import LaunchCosts, MergingOptions
from .launch_units import LaunchUnit
from .merged_kernel import (
    MOST_ARGUMENTS,
    ArgumentList,
    BoundKernel,
    MergeableLaunch,
    MergedLaunch,
    Section,
    SubBuffers,
    copy_kernel,
    uses,
)

SMALL_US = 60.0  # a kernel that takes longer gains little from a shared launch
# A kernel that takes longer gains little from a persistent kernel, and is compiled while others are emitted.
LARGE_US = 500.0
COPY_BYTES = 1 << 16  # a copy of up to this size can be a part of a launch
# On a GPU:
GROUP_ARGUMENTS = 48  # of a kernel at most: each is a pointer and an offset
GROUP_COPY_BYTES = 1 << 14  # a copy of up to this size can be a part of a launch
ITEM_COPY_BYTES = 64  # and one of up to this size a single item does


class MergedLaunches:
    """The kernels of a plan (`kernels`, which grow) and, for `explain`, what was merged (`merged`). `bytes_of` gives
    the size of a buffer."""

    def __init__(
        self, kernels: list[p.Kernel], bytes_of: Callable[[int], int], costs: LaunchCosts, merging: MergingOptions
    ) -> None:
        self.kernels, self.bytes_of, self.costs = kernels, bytes_of, costs
        self.merged: list[MergedLaunch] = []
        self.sections: dict[int, list[Section]] = {}  # of a merged launch, by the number of its kernel
        self.cores, self.group, self.has_persistent_kernels = merging.units, merging.group, costs.persistent
        self.handover = merging.handover or not merging.group
        self.shares_kernels = not merging.group and not merging.by_item
        self.most_arguments = MOST_ARGUMENTS if self.shares_kernels else GROUP_ARGUMENTS

    @property
    def next_name(self) -> str:
        """The name of the next merged kernel."""
        return f"merged.{len(self.merged)}"

    def call_of(self, step: p.Step, alone: bool = False) -> MergeableLaunch | None:
        """A step as a call in a merged kernel; None if it cannot be one. `alone`: its cost is not limited."""
        most = GROUP_COPY_BYTES if self.group else COPY_BYTES
        if isinstance(step, p.Copy) and (self.bytes_of(step.source) <= most or (alone and not self.group)):
            size = self.bytes_of(step.source)
            kernel, us = copy_kernel(size, self.group if size > ITEM_COPY_BYTES else 0), self.costs.copy_us(size)
            buffers: tuple[int, ...] = (step.source, step.target)
        elif isinstance(step, p.Launch):
            kernel, buffers, us = self.kernels[step.kernel], step.buffers, self.costs.unit_us(self.kernels[step.kernel])
        else:
            return None
        if kernel.work_group not in (0, self.group) or (not self.handover and kernel.items > 1):
            return None
        reads, writes = uses(step, self.kernels)
        part = MergeableLaunch(
            step, kernel, buffers, max(us, self.costs.call_us), reads, writes, False, self.costs.unit_count(kernel)
        )
        part.serial = part.us - part.us / self.costs.workers(kernel) <= self.costs.start_us
        many = len(buffers) > self.most_arguments
        if many or ((kernel.persistent or part.us > SMALL_US * self.cores) and not alone):
            return None
        return part

    def stands_alone(self, kernel: p.Kernel) -> bool:
        """Whether a kernel is sure to be launched by itself, unless it is in a loop."""
        least_us = LARGE_US if self.has_persistent_kernels else SMALL_US
        return not self.handover or self.costs.unit_us(kernel) > least_us * self.cores

    def step_of(self, unit: LaunchUnit) -> p.Step:
        """The step that a unit becomes: its own, that of its only call, or the launch of a merged kernel."""
        if unit.step is not None:
            return unit.step
        if len(unit.sections) == 1 and len(unit.sections[0].parts) == 1:
            return unit.sections[0].parts[0].step
        return self.launch(unit.sections)

    def launch(self, sections: list[Section]) -> p.Launch:
        """The launch of a merged kernel."""
        merged = ArgumentList()
        body = m.MergedBody(tuple(map(merged.section, sections)))
        us, units = sum(section.us for section in sections), sum(section.units for section in sections)
        launch = self.enter(self.padded(self.bound(merged, body, units, us)), sections, 1)
        self.sections[launch.kernel] = sections
        return launch

    def bound(self, arguments: ArgumentList, body: m.StructuredBody, units: int, us: float) -> BoundKernel:
        """A merged kernel of so many items, or on a GPU of so many work-groups, unless it calls only kernels of single
        items."""
        buffers, parameters = arguments.arguments()
        calls, items, group = tuple(arguments.calls), units, 0
        if self.group and (units > 1 or any(k.work_group or k.items > 1 for k in calls)):
            items, group = units * self.group, self.group
        local = max((k.local_bytes for k in calls), default=0)
        return BoundKernel(
            p.Kernel(self.next_name, body, parameters, items, calls, us, work_group=group, local_bytes=local), buffers
        )

    def padded(self, kernel: BoundKernel) -> BoundKernel:
        """The kernel with as many arguments as others that share its __kernel; on a GPU none do."""
        return kernel.padded() if self.shares_kernels else kernel

    def enter(self, merged: BoundKernel, sections: list[Section], trip_count: int) -> p.Launch:
        """Adds a merged kernel. Returns its launch."""
        kernel = merged.kernel
        parts = sum(len(section.parts) for section in sections)
        names = tuple(tuple(x.kernel.name for x in section.parts) for section in sections)
        saved = (trip_count * parts - 1) * self.costs.launch_us
        self.merged.append(MergedLaunch(kernel.name, names, trip_count, kernel.us, saved))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, merged.buffers)

    def iterations(
        self, count: int, sub_buffers: SubBuffers, launch: p.Launch, resumed: tuple[int, int] | None = None
    ) -> p.Launch:
        """The launch of a GPU's kernel whose items make `count` launches for one item. `resumed`: if one may return
        before it has finished, the buffer of a pred for each that says whether it must be resumed, and that of an s64,
        0 before, that is 1 if any must."""
        part = self.call_of(launch, alone=True)
        assert part is not None and self.group
        arguments = ArgumentList(sub_buffers)
        call = arguments.call(part)
        numbers: tuple[int | None, int | None] = (None, None)
        if resumed is not None:
            unfinished, more = resumed
            preds, any_ = p.Argument("output", "uchar", bytes=count), p.Argument("output", "long", bytes=8)
            numbers = arguments.argument(unfinished, preds), arguments.argument(more, any_)
        buffers, parameters = arguments.arguments()
        items = -(-count // self.group) * self.group
        body, us = m.IterationsBody(count, call, *numbers), part.us * count / (self.cores * self.group)
        name = self.next_name
        kernel = p.Kernel(name, body, parameters, items, tuple(arguments.calls), us, work_group=self.group)
        self.merged.append(MergedLaunch(name, ((part.kernel.name,),), count, us, 0.0, each="iteration"))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, buffers)
