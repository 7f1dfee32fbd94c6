"""Horizontal launch merging: which of a computation's kernels share a launch, in which sections.

A kernel joins the first launch that has room for it and that comes after all it depends on. There it has a section of
its own, beside the others, or follows the kernels that it depends on, or other short ones, in one item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..ir import plan as p
from .merged_kernel import MergeableLaunch, Section

UNIT_US = 240.0  # of all kernels in a launch
# A kernel that writes more does not move, since that would extend the live ranges of large buffers.
MOST_MOVED_BYTES = 1 << 18
LAST_UNITS = 512  # launches in which there may still be room: those before them are full, or as good as full


@dataclass
class LaunchUnit:
    """The sections of one launch, or a step that is not a launch."""

    sections: list[Section] = field(default_factory=list)
    step: p.Step | None = None
    us: float = 0.0
    buffers: set[int] = field(default_factory=set)

    def include(self, part: MergeableLaunch) -> None:
        """Note that a part is in one of the sections."""
        self.us += part.us
        self.buffers.update(part.buffers)

    def has_room(self, part: MergeableLaunch, most_arguments: int) -> bool:
        """Whether one more part does not make it too long, nor give it too many arguments."""
        if self.step is not None or self.us + part.us > UNIT_US:
            return False
        return len(self.buffers.union(part.buffers)) <= most_arguments

    def can_branch(self, part: MergeableLaunch) -> bool:
        """Whether a part can be in a section apart from another. Sections are the branches of a condition, and no
        barrier stands under one."""
        parts = (x for section in self.sections for x in section.parts)
        return not part.has_barriers and not any(x.has_barriers for x in parts)

    def append_to_section(self, part: MergeableLaunch, most_arguments: int, start_us: float) -> bool:
        """Append a part to the section that it depends on, to run after it in the same item. Sections that it depends
        on become one. False if this is not possible, or not worth it: the unit is then unchanged."""
        if not self.has_room(part, most_arguments) or not part.serial:
            return False
        if len(self.sections) > 1 and not self.can_branch(part):
            return False
        met = [section for section in self.sections if section.meets(part)]
        if not met or not all(section.serial for section in met):
            return False
        if len(met) > 1 and sum(section.us for section in met) > 2 * start_us:
            return False
        first = met[0]
        for other in met[1:]:
            first.parts += other.parts
            self.sections.remove(other)
        first.parts.append(part)
        return True

    def add_section(self, part: MergeableLaunch, start_us: float) -> None:
        """Put a part into a section of its own or, if both are short, into a serial section."""
        if part.serial:
            for section in self.sections:
                if section.serial and section.us + part.us <= start_us:
                    section.parts.append(part)
                    return
        self.sections.append(Section([part]))


class LaunchUnits:
    """The units of a computation so far, in order, and for each buffer the last of them that reads and that writes it.
    `start_us` is what one more launch takes."""

    def __init__(self, bytes_of: Callable[[int], int], most_arguments: int, start_us: float) -> None:
        self.units: list[LaunchUnit] = []
        self._bytes_of, self._most_arguments, self._start_us = bytes_of, most_arguments, start_us
        self._reader: dict[int, int] = {}
        self._writer: dict[int, int] = {}

    def append_step(self, step: p.Step, reads: Iterable[int], writes: Iterable[int]) -> None:
        """Appends a step that is not a launch, or cannot share one."""
        self.units.append(LaunchUnit([], step))
        self._note(len(self.units) - 1, reads, writes)

    def assign(self, part: MergeableLaunch) -> None:
        """Add a part to the first of the last units that can take it, or else to a new unit."""
        moves_ahead = sum(map(self._bytes_of, part.writes)) <= MOST_MOVED_BYTES
        count = len(self.units)
        first = max(self._free_from(part), 0 if moves_ahead else count - 1)
        if first > 0 and self.units[first - 1].append_to_section(part, self._most_arguments, self._start_us):
            return self._include(first - 1, part)
        for number in range(max(first, count - LAST_UNITS), count):
            unit = self.units[number]
            if unit.has_room(part, self._most_arguments) and unit.can_branch(part):
                unit.add_section(part, self._start_us)
                return self._include(number, part)
        self.units.append(LaunchUnit([Section([part])]))
        self._include(count, part)

    def _include(self, number: int, part: MergeableLaunch) -> None:
        self.units[number].include(part)
        self._note(number, part.reads, part.writes)

    def _free_from(self, part: MergeableLaunch) -> int:
        """The number of the first unit from which on none reads what a part writes, or writes what it uses."""
        used = [self._writer.get(b, -1) for b in (*part.reads, *part.writes)]
        return max((*used, *(self._reader.get(b, -1) for b in part.writes)), default=-1) + 1

    def _note(self, number: int, reads: Iterable[int], writes: Iterable[int]) -> None:
        for last, buffers in ((self._reader, reads), (self._writer, writes)):
            for b in buffers:
                last[b] = max(last.get(b, -1), number)
