"""Persistent kernels: many launches, or many iterations of a loop, as phases of one launch.

A launch that needs what the one before it made waits for it, and waking a device's threads takes ten microseconds and
more. A persistent kernel has as many items as there are compute units, which go through the launches phase by phase:
the items of a phase's kernels are distributed over them, and the next phase begins when all are done, which takes less
than a microsecond to see (codegen/prelude/persistent_kernel.cl). A phase is what would be a launch: sections in
parallel. What each kernel computes, and its bits, stay as they are.

No item waits for one that has not started: running items take all the work, and one that starts late finds it done. So
a persistent kernel needs nothing of a device but atomic operations, and a thread that is kept from running delays no
more than the item that it was at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ..ir import merged_body as m
from ..ir import plan as p
from .merged_kernel import ArgumentList, BoundKernel, MergeableLaunch, Section, SubBuffers

PERSISTENT_US = 50_000.0  # of a launch: signals are answered between launches

Phase = list[Section]


class PersistentKernel:
    """Builds a persistent kernel, phase by phase. `sync` is the buffer that its workers share (of sync_bytes),
    `barrier_us` the overhead of a phase, `sub_buffers` as in ArgumentList."""

    def __init__(self, sync: int, cores: int, barrier_us: float, sub_buffers: SubBuffers | None = None) -> None:
        self.cores, self.barrier_us = cores, barrier_us
        self.arguments = ArgumentList(sub_buffers)
        number = self.arguments.argument(sync, p.Argument("workspace", "long", bytes=sync_bytes(cores)))
        assert number == 0  # where PersistentBody has it
        self.phases: list[m.Phase] = []
        self.us = self.persistent_us = 0.0

    def phase(self, sections: Phase) -> None:
        """Adds a phase with the items of the sections."""
        self.us += sum(section.us for section in sections)
        self.persistent_us += phase_us(sections, self.cores, self.barrier_us)
        if is_persistent(sections):
            self.phases.append(m.NestedPhases(self.arguments.call(sections[0].parts[0])))
            return
        # Long sections come first, so that short ones do not move the items of long ones from core to core.
        sections = sorted(sections, key=lambda section: -section.us / section.units)
        self.phases.append(m.SharedPhase(tuple(map(self.arguments.section, sections))))

    def tiles(
        self,
        axes: Sequence[m.Axis],
        once: Sequence[MergeableLaunch],
        each: Sequence[MergeableLaunch],
        unfinished: int | None = None,
    ) -> None:
        """A phase whose items are the tiles of these axes: see TiledPhase. `unfinished` is a buffer."""
        trip_count = prod(a.count for a in axes)
        us = trip_count * sum(part.us for part in each)
        self.us += us
        self.persistent_us += us / trip_count * -(-trip_count // self.cores) + self.barrier_us
        first, rest = (tuple(map(self.arguments.call, parts)) for parts in (once, each))
        number = None
        if unfinished is not None:
            number = self.arguments.argument(unfinished, p.Argument("output", "uchar", bytes=trip_count))
        self.phases.append(m.TiledPhase(tuple(axes), first, rest, number))

    def exit_unless(self, predicate: int) -> None:
        """Leave the launch unless the pred in that buffer is true: a phase, so that all workers see the same."""
        number = self.arguments.argument(predicate, p.Argument("input", "uchar", bytes=1))
        self.phases.append(m.ExitPhase(number))

    def kernel(self, name: str, trip_count: int, counted: int) -> BoundKernel:
        """The kernel that runs its phases `trip_count` times, on the buffers of its arguments. Its estimates are those
        of `counted` times: of a loop that ends by a predicate, one iteration counts."""
        buffers, arguments = self.arguments.arguments()
        body, calls = m.PersistentBody(tuple(self.phases), trip_count), tuple(self.arguments.calls)
        us, persistent_us = counted * self.us, counted * self.persistent_us
        kernel = p.Kernel(name, body, arguments, self.cores, calls, us, persistent_us=persistent_us)
        return BoundKernel(kernel, buffers).padded()


def sync_bytes(cores: int) -> int:
    """The memory that the items of a persistent kernel share: see codegen/prelude/persistent_kernel.cl."""
    return 64 * (4 + cores)


def is_persistent(sections: Phase) -> bool:
    """Whether a phase is a persistent kernel of its own: a loop, or the steps of another computation."""
    return sections[0].parts[0].kernel.persistent


def phase_us(sections: Phase, cores: int, barrier_us: float) -> float:
    """The microseconds of a phase on so many cores, with the wait after it."""
    if is_persistent(sections):
        return sections[0].parts[0].kernel.persistent_us
    longest = max(section.us / section.units for section in sections)
    return max(longest, sum(section.us for section in sections) / cores) + barrier_us


def arguments_of(phases: Iterable[Phase]) -> set[int]:
    """The buffers that phases take."""
    return {b for sections in phases for section in sections for b in section.buffers}


def shares_work(phases: Sequence[Phase]) -> bool:
    """Whether there is anything to do for more than one item."""
    return any(is_persistent(sections) or sum(section.units for section in sections) > 1 for sections in phases)
