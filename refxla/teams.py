"""Launches whose items wait for each other: what would be many launches, or many turns of a loop, as one.

A launch that needs what the one before it made waits for it, and waking a device's threads takes ten microseconds and
more. On a device of which as many items run at the same time as it has compute units (Target.team) so many items, a
team, go through the launches together, phase after phase: the items of a phase's kernels are shared out among them, and
before the next phase they meet, which takes a tenth of a microsecond (codegen/prelude/team.cl). A phase is what would
be a launch: lanes side by side. What each kernel computes, and its bits, stay as they are.

Two teams of one device at the same time could wait for each other for ever; the executor starts one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import plan as p
from .together import Body, Lane

MEET_US = 0.5  # that a phase takes beside its kernels
TEAM_US = 50_000.0  # of a launch: signals are answered between launches

Phase = list[Lane]


class Team:
    """The kernel of a team while it is written. `sync` is the buffer that the team shares (of sync_bytes), `counted` as
    Body has it."""

    def __init__(self, sync: int, cores: int, counted: dict[int, tuple[int, int]] | None = None) -> None:
        self.cores = cores
        self.body = Body(counted)
        number = self.body.argument(sync, p.Argument("workspace", "int", bytes=sync_bytes(cores)))
        self.sync = f"(__global int*)a{number}"
        self.us = self.team_us = 0.0
        self.phases = 0

    def phase(self, lanes: Phase) -> None:
        """Share out the items of the lanes, then meet."""
        lines, count = self.body.lines, sum(lane.items for lane in lanes)
        self.us += sum(lane.us for lane in lanes)
        self.team_us += phase_us(lanes, self.cores)
        self.phases += 1
        if is_team(lanes):
            self.body.call(lanes[0].parts[0])
            return
        if count == 1:
            lines.append("    if (item == 0) {")
            for part in lanes[0].parts:
                self.body.call(part)
            lines.append("    }")
        else:
            lines.append("    for (int n = 0; n < team; ++n) {")
            lines.append("    const int who = item + n < team ? item + n : item + n - team;")
            lines.append(f"    for (int at; (at = rx_take_s32({self.sync}, who, team, {count})) >= 0;) {{")
            begin = 0
            for n, lane in enumerate(lanes):
                if len(lanes) > 1:
                    lines.append(f"    {'else ' if n else ''}if (at < {begin + lane.items}) {{")
                for part in lane.parts:
                    self.body.call(part, "" if lane.serial else f"at - {begin}")
                if len(lanes) > 1:
                    lines.append("    }")
                begin += lane.items
            lines.append("    }}")
        lines.append(f"    rx_meet_s32({self.sync}, team);")

    def kernel(self, name: str, turns: float) -> tuple[p.Kernel, tuple[int, ...]]:
        """The kernel and the buffers of its arguments."""
        buffers, arguments = self.body.arguments()
        calls = tuple(self.body.calls)
        us, team_us = turns * self.us, turns * self.team_us
        made = p.Kernel(name, self.body.text(), arguments, self.cores, calls, us, team=True, team_us=team_us)
        return made, buffers


def sync_bytes(cores: int) -> int:
    """The memory that a team shares: see codegen/prelude/team.cl."""
    return 64 * (2 + cores)


def is_team(lanes: Phase) -> bool:
    """Whether a phase is a team of its own: a loop, or what another computation's steps became."""
    return lanes[0].parts[0].kernel.team


def phase_us(lanes: Phase, cores: int) -> float:
    """The microseconds of a phase on so many cores, with the meeting behind it."""
    if is_team(lanes):
        return lanes[0].parts[0].kernel.team_us
    longest = max(lane.us / lane.items for lane in lanes)
    return max(longest, sum(lane.us for lane in lanes) / cores) + MEET_US


def arguments_of(phases: Iterable[Phase]) -> set[int]:
    """The buffers that phases take."""
    return {b for lanes in phases for lane in lanes for b in lane.buffers}


def shares_work(phases: Sequence[Phase]) -> bool:
    """Whether there is anything to do for more than one item."""
    return any(is_team(lanes) or sum(lane.items for lane in lanes) > 1 for lanes in phases)
