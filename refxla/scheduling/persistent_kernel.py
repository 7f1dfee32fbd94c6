"""Persistent kernels: what would be many launches, or many iterations of a loop, as phases of one launch.

A launch that needs what the one before it made waits for it, and waking a device's threads takes ten microseconds and
more. A persistent kernel has as many items as there are compute units, which go through the launches phase by phase:
the items of a phase's kernels are shared out among them, and the next phase begins when all are done, which takes a
tenth of a microsecond to see (codegen/prelude/persistent_kernel.cl). A phase is what would be a launch: sections in
parallel. What each kernel computes, and its bits, stay as they are.

No item waits for one that has not begun: those that run take all there is to do, and one that starts after them finds
it done. So a persistent kernel needs nothing of a device but atomic operations, and a thread that is kept from running
delays no more than the item that it was at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ..analysis.tiling_analysis import Axis
from ..ir import plan as p
from .merged_kernel import Body, Call, Places, Section

BARRIER_US = 0.5  # that a phase takes beside its kernels
PERSISTENT_US = 50_000.0  # of a launch: signals are answered between launches

Phase = list[Section]


class PersistentKernel:
    """A persistent kernel while it is written. `sync` is the buffer that its items share (of sync_bytes), `places` as
    Body has it."""

    def __init__(self, sync: int, cores: int, places: Places | None = None) -> None:
        self.cores = cores
        self.body = Body(places)
        number = self.body.argument(sync, p.Argument("workspace", "long", bytes=sync_bytes(cores)))
        assert number == 0  # the dispatcher's rx_leave knows it there
        self.sync = f"(__global long*)a{number}"
        self.us = self.persistent_us = 0.0

    def phase(self, sections: Phase) -> None:
        """Share out the items of the sections."""
        lines, count = self.body.lines, sum(section.items for section in sections)
        self.us += sum(section.us for section in sections)
        self.persistent_us += phase_us(sections, self.cores)
        if is_persistent(sections):
            self.body.call(sections[0].parts[0])
            return
        # What takes long comes first, and small things do not shift the shares of large ones from core to core.
        sections = sorted(sections, key=lambda section: -section.us / section.items)
        begin = 0
        self._open(count)
        for n, section in enumerate(sections):
            if len(sections) > 1:
                lines.append(f"    {'else ' if n else ''}if (at < {begin + section.items}) {{")
            for part in section.parts:
                self.body.call(part, "" if section.serial else f"at - {begin}")
            if len(sections) > 1:
                lines.append("    }")
            begin += section.items
        self._close()

    def tiles(self, axes: Sequence[Axis], once: Sequence[Call], each: Sequence[Call]) -> None:
        """A phase whose items are the tiles of these axes: `each` for every tile, by one core, and `once` before them
        where the tile before was at another place of an axis but the last. In their places, s0, s1, ... are where the
        tile begins on each axis, t0, t1, ... how many steps come before it, `item` the core."""
        lines, trip_count = self.body.lines, prod(a.count for a in axes)
        us = trip_count * sum(part.us for part in each)
        self.us += us
        self.persistent_us += us / trip_count * -(-trip_count // self.cores) + BARRIER_US
        if once:
            lines.append("    int before = -1;")
        self._open(trip_count)
        behind = 1
        for n, axis in reversed(list(enumerate(axes))):
            lines.append(f"    const int t{n} = at / {behind} % {axis.count};")
            lines.append(f"    const int s{n} = {axis.start(f't{n}')};")
            behind *= axis.count
        if once:
            lines.append(f"    if (before != at / {axes[-1].count}) {{")
            for part in once:
                self.body.call(part)
            lines += [f"    before = at / {axes[-1].count};", "    }"]
        for part in each:
            self.body.call(part)
        self._close()

    def go_while(self, predicate: int) -> None:
        """Leave the launch unless the pred in that buffer is true: a phase, so that all see the same."""
        number = self.body.argument(predicate, p.Argument("input", "uchar", bytes=1))
        self._open(1)
        self.body.lines.append(f"    rx_note_s32({self.sync}, *(__global const uchar*)a{number} != 0);")
        self._close()
        self.body.lines.append(f"    if (!rx_goes_s32({self.sync}, phase[0])) return;")

    def _open(self, count: int) -> None:
        """What follows, until `_close`, is done for each of `count` things."""
        next = f"rx_next_s32({self.sync}, phase, item, workers, {count})"
        self.body.lines.append(f"    for (int at; (at = {next}) >= 0;) {{")

    def _close(self) -> None:
        self.body.lines.append("    }")

    def kernel(self, name: str, trip_count: float) -> tuple[p.Kernel, tuple[int, ...]]:
        """The kernel and the buffers of its arguments."""
        buffers, arguments = self.body.arguments()
        calls = tuple(self.body.calls)
        us, persistent_us = trip_count * self.us, trip_count * self.persistent_us
        made = p.Kernel(
            name, self.body.text(), arguments, self.cores, calls, us, persistent=True, persistent_us=persistent_us
        )
        return made, buffers


def sync_bytes(cores: int) -> int:
    """The memory that the items of a persistent kernel share: see codegen/prelude/persistent_kernel.cl."""
    return 64 * (4 + cores)


def is_persistent(sections: Phase) -> bool:
    """Whether a phase is a persistent kernel of its own: a loop, or what another computation's steps became."""
    return sections[0].parts[0].kernel.persistent


def phase_us(sections: Phase, cores: int) -> float:
    """The microseconds of a phase on so many cores, with the wait behind it."""
    if is_persistent(sections):
        return sections[0].parts[0].kernel.persistent_us
    longest = max(section.us / section.items for section in sections)
    return max(longest, sum(section.us for section in sections) / cores) + BARRIER_US


def arguments_of(phases: Iterable[Phase]) -> set[int]:
    """The buffers that phases take."""
    return {b for sections in phases for section in sections for b in section.buffers}


def shares_work(phases: Sequence[Phase]) -> bool:
    """Whether there is anything to do for more than one item."""
    return any(is_persistent(sections) or sum(section.items for section in sections) > 1 for sections in phases)
