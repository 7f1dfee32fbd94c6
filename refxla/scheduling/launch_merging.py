"""Launches made one: what the device is asked to start, instead of each kernel by itself.

A launch costs microseconds, and many kernels take less: the updates of an optimiser, what a batch normalisation does
for each channel, the turn of a small loop. After a computation's steps are planned, its launches are gathered:

    side by side    kernels that do not need each other share a launch; each has its own range of items (a lane)
    in turn         kernels too small to be worth more than one core follow each other in one item, also where one
                    needs what the other makes
    turns           a loop whose turn is one such item becomes a launch itself
    teams           launches that follow each other become one, whose items go through them together
                    (persistent_kernel.py)

A kernel may move up past others that touch none of its memory; blocks then live from the earlier place on. Nothing
of this changes what a kernel computes, nor its bits. A merged kernel is a plan.Kernel whose body calls others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from .._core.fusion import Costs
from ..analysis.tiling_analysis import Axis
from ..ir import plan as p
from .merged_kernel import MOST_ARGUMENTS, Body, Lane, Merged, Part, Places, conflict, copy_kernel, uses
from .persistent_kernel import MEET_US, TEAM_US, Phase, Team, arguments_of, phase_us, shares_work, sync_bytes

SMALL_US = 60.0  # a kernel that takes longer gains little from a shared launch
LARGE_US = 500.0  # a kernel that takes longer gains little from a team, and is compiled while others are emitted
UNIT_US = 240.0  # of all kernels in a launch
FAR_BYTES = 1 << 18  # what writes more than this stays where it is, for it would lengthen the life of much memory
COPY_BYTES = 1 << 16  # a copy of up to this size can be a part of a launch
TURNS_US = 10_000.0  # of a loop in one launch: signals are answered between launches
LEAST_US = 0.05  # a call takes this


@dataclass
class _Unit:
    """What is launched at once, or another step. `time` is the planner's, of its first part."""

    time: int
    lanes: list[Lane] = field(default_factory=list)
    step: p.Step | None = None
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()

    def meets(self, part: Part) -> bool:
        return conflict(self.reads, self.writes, part)

    def includes(self, part: Part) -> None:
        self.reads |= part.reads
        self.writes |= part.writes

    @property
    def us(self) -> float:
        return sum(lane.us for lane in self.lanes)

    def holds(self, part: Part) -> bool:
        """Whether there is room for one more."""
        known = {b for lane in self.lanes for x in lane.parts for b in x.buffers}
        return self.step is None and self.us + part.us <= UNIT_US and len(known | set(part.buffers)) <= MOST_ARGUMENTS


class Merging:
    """Merges the steps of one plan after the other; `kernels` are the planner's, and grow.

    `live(buffer, time)` is called for a buffer that must have memory from `time` on. `workspace` makes memory that is
    zeroed once, of so many bytes, if there are to be teams.
    """

    def __init__(
        self,
        kernels: list[p.Kernel],
        bytes_of: Callable[[int], int],
        live: Callable[[int, int], None],
        costs: Costs,
        cores: int,
        workspace: Callable[[int], int] | None = None,
    ) -> None:
        self.kernels, self.bytes_of, self.live = kernels, bytes_of, live
        self.cores, self.workspace = cores, workspace if cores > 1 else None
        self.launch_us = costs.launch / 1e3
        self.start_us = self.launch_us if self.workspace is None else MEET_US  # of one more launch, or phase
        self.sync: int | None = None
        self.merged: list[Merged] = []

    def run(self, steps: Sequence[tuple[int, p.Step]]) -> tuple[p.Step, ...]:
        """The steps, each given with its time, with launches made one."""
        units: list[_Unit] = []
        for time, step in steps:
            part = self._part(step)
            if part is None:
                reads, writes = uses(step, self.kernels)
                units.append(_Unit(time, [], step, reads, writes))
            else:
                self._place(units, time, part)
        return self._in_teams(units) if self.workspace else tuple(self._step(unit) for unit in units)

    def folded(self, turns: int, body: Sequence[p.Step], counter: int | None, table: int | None) -> p.Step:
        """A loop of known turns, as one launch where its turn is small."""
        step = p.Repeat(turns, tuple(body), counter, table)
        if turns < 2:
            return step
        counted = {} if counter is None else {counter: (table, f"turn * {self.bytes_of(counter)}")}
        lane = self._serial(body)
        if lane is not None and turns * max(lane.us, LEAST_US) <= TURNS_US:
            return self._launch([lane], turns, counted)
        phases = self._phases(body)
        if lane is None and phases and turns * sum(phase_us(x, self.cores) for x in phases) <= TEAM_US:
            return self._team(phases, turns, counted)
        return step

    def waited(self, condition: Sequence[p.Step], predicate: int, body: Sequence[p.Step]) -> p.Step:
        """A loop that ends by a predicate: many turns in one launch where a turn is small."""
        step = p.Loop(tuple(condition), predicate, tuple(body))
        test = self._serial(condition) if condition else Lane([])
        turn = self._serial(body)
        if test is None or turn is None:
            both = self._phases((*condition, *body)) if condition and body else None
            n = len(condition)
            return step if both is None else self._waiting(both[:n], predicate, both[n:])
        us = max(test.us + turn.us, LEAST_US)
        turns = int(TURNS_US / us)
        code = Body()
        code.lines.append(f"    for (int turn = 0; turn < {turns}; ++turn) {{")
        for part in test.parts:
            code.call(part)
        code.lines.append("")
        at = len(code.lines) - 1
        for part in turn.parts:
            code.call(part)
        if predicate not in code.numbers or len(code.numbers) > MOST_ARGUMENTS:
            return step
        code.lines[at] = f"    if (!*(__global const uchar*)a{code.numbers[predicate]}) return;"
        code.lines.append("    }")
        return p.Loop((self._enter(code, [test, turn], 1, 1),), predicate, ())

    def _serial(self, body: Sequence[p.Step]) -> Lane | None:
        """All of a loop's turn as one lane, if one core has done it sooner than several that must be started."""
        parts = [self._part(s, alone=True) for s in body]
        if not parts or any(x is None or x.kernel.team for x in parts):
            return None
        lane = Lane(parts)
        split = sum(self._split(x) for x in parts)
        if lane.us > split + self.start_us * len(parts) or len({b for x in parts for b in x.buffers}) > MOST_ARGUMENTS:
            return None
        for part in parts:
            part.serial = True
        return lane

    def _split(self, part: Part) -> float:
        """The microseconds of a kernel on all cores."""
        return part.us / max(1, min(part.kernel.items, self.cores))

    def _part(self, step: p.Step, alone: bool = False) -> Part | None:
        """A step as something that can share a launch; None if it cannot. `alone`: it may be as large as it wants."""
        if isinstance(step, p.Copy) and (self.bytes_of(step.source) <= COPY_BYTES or (alone and self.workspace)):
            size = self.bytes_of(step.source)
            kernel, buffers, us = copy_kernel(size), (step.source, step.target), size / 10e3
        elif isinstance(step, p.Launch):
            kernel, buffers, us = self.kernels[step.kernel], step.buffers, self.kernels[step.kernel].us
        else:
            return None
        reads, writes = uses(step, self.kernels)
        part = Part(step, kernel, buffers, max(us, LEAST_US), reads, writes, False)
        part.serial = part.us - self._split(part) <= self.start_us
        if len(buffers) > MOST_ARGUMENTS or ((kernel.team or part.us > SMALL_US * self.cores) and not alone):
            return None
        return part

    def stands_alone(self, kernel: p.Kernel) -> bool:
        """Whether a kernel is sure to be launched by itself, unless it is in a loop."""
        return kernel.us > (LARGE_US if self.workspace else SMALL_US) * self.cores

    def _place(self, units: list[_Unit], time: int, part: Part) -> None:
        """Let a part join the first unit that can have it, or make it one of its own."""
        far = sum(self.bytes_of(b) for b in part.writes) <= FAR_BYTES
        at = len(units)
        while at > 0 and (far or at == len(units)) and not units[at - 1].meets(part):
            at -= 1
        if at > 0 and self._follow(units[at - 1], part):
            return self._moved(units[at - 1], part)
        for unit in units[at:]:
            if unit.holds(part):
                self._beside(unit, part)
                return self._moved(unit, part)
        units.append(_Unit(time, [Lane([part])], None, part.reads, part.writes))

    def _moved(self, unit: _Unit, part: Part) -> None:
        unit.includes(part)
        for b in part.buffers:
            self.live(b, unit.time)

    def _follow(self, unit: _Unit, part: Part) -> bool:
        """Put a part behind those in the unit that it needs, in the same item."""
        if not unit.holds(part) or not part.serial:
            return False
        met = [lane for lane in unit.lanes if lane.meets(part)]
        if not met or not all(lane.serial for lane in met):
            return False
        if len(met) > 1 and sum(lane.us for lane in met) > 2 * self.start_us:
            return False
        first = met[0]
        for other in met[1:]:
            first.parts += other.parts
            unit.lanes.remove(other)
        first.parts.append(part)
        return True

    def _beside(self, unit: _Unit, part: Part) -> None:
        """Put a part into a lane of its own, or into one that is shorter than a start is worth."""
        if part.serial:
            for lane in unit.lanes:
                if lane.serial and lane.us + part.us <= self.start_us:
                    lane.parts.append(part)
                    return
        unit.lanes.append(Lane([part]))

    # -- teams ------------------------------------------------------------------------------------------------------

    def _in_teams(self, units: Sequence[_Unit]) -> tuple[p.Step, ...]:
        """The steps of units, as few launches as teams make of them."""
        steps: list[p.Step] = []
        waiting: list[_Unit] = []
        phases: list[Phase] = []

        def close() -> None:
            if len(waiting) > 1 and shares_work(phases):
                steps.append(self._team(phases, 1, {}))
            else:
                steps.extend(self._step(unit) for unit in waiting)
            waiting.clear()
            phases.clear()

        for unit in units:
            phase = unit.lanes or self._phase(unit.step)
            if isinstance(unit.step, p.Launch) and self.stands_alone(self.kernels[unit.step.kernel]):
                phase = None
            if phase is None:
                close()
                steps.append(self._step(unit))
                continue
            if not self._fits([*phases, phase]):
                close()
            waiting.append(unit)
            phases.append(phase)
        close()
        return tuple(steps)

    def _phase(self, step: p.Step) -> Phase | None:
        """A step as a phase of a team; None if it cannot."""
        part = self._part(step, alone=True)
        return None if part is None else [Lane([part])]

    def _phases(self, steps: Sequence[p.Step]) -> list[Phase] | None:
        """Steps as phases of one team; None if they are not, or one core may as well do them."""
        phases = [self._phase(s) for s in steps] if self.workspace else [None]
        return None if None in phases or not shares_work(phases) or not self._fits(phases) else phases

    def _fits(self, phases: list[Phase]) -> bool:
        known = len(arguments_of(phases)) + 1
        return known <= MOST_ARGUMENTS and sum(phase_us(x, self.cores) for x in phases) <= TEAM_US

    def banded(self, axes: Sequence[Axis], places: Places, once: Sequence[p.Step], each: Sequence[p.Step]) -> p.Launch:
        """The launch of a team that does steps band by band: see Team.bands. Merging must have a `workspace`."""
        team = self._new_team(places)
        first, rest = ([self._part(s, alone=True) for s in steps] for steps in (once, each))
        team.bands(axes, first, rest)
        name, turns = f"together.{len(self.merged)}", prod(a.count for a in axes)
        kernel, buffers = team.kernel(name, 1)
        names = tuple(x.kernel.name for x in (*first, *rest))
        self.merged.append(Merged(name, (names,), turns, kernel.us, (len(rest) - 1) * self.launch_us, team=True))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, buffers)

    def _new_team(self, counted: Places | None = None) -> Team:
        if self.sync is None:
            self.sync = self.workspace(sync_bytes(self.cores))
        return Team(self.sync, self.cores, counted)

    def _team(self, phases: Sequence[Phase], turns: int, counted: Places) -> p.Step:
        """The launch of a team that goes through phases, `turns` times."""
        team = self._new_team(counted)
        if turns > 1:
            team.body.lines.append(f"    for (int turn = 0; turn < {turns}; ++turn) {{")
        for phase in phases:
            team.phase(phase)
        if turns > 1:
            team.body.lines.append("    }")
        return self._enter_team(team, phases, turns)

    def _waiting(self, test: list[Phase], predicate: int, body: list[Phase]) -> p.Step:
        """A loop that ends by a predicate, many turns in a launch of a team."""
        team = self._new_team()
        us = sum(phase_us(x, self.cores) for x in (*test, *body))
        team.body.lines.append(f"    for (int turn = 0; turn < {max(1, int(TURNS_US / us))}; ++turn) {{")
        for phase in test:
            team.phase(phase)
        team.go_while(predicate)
        for phase in body:
            team.phase(phase)
        team.body.lines.append("    }")
        return p.Loop((self._enter_team(team, [*test, *body], 1),), predicate, ())

    def _enter_team(self, team: Team, phases: Sequence[Phase], turns: int) -> p.Launch:
        """Make a team's body a kernel, note what it is, and launch it."""
        name = f"together.{len(self.merged)}"
        kernel, buffers = team.kernel(name, turns)
        names = []
        for n, lanes in enumerate(phases):
            parts = sum(len(lane.parts) for lane in lanes)
            own = tuple(tuple(x.kernel.name for x in lane.parts) for lane in lanes)
            names.append(own[0][0] if parts == 1 else f"{name}.{n}")
            if parts > 1:
                us = sum(lane.us for lane in lanes)
                self.merged.append(Merged(names[-1], own, 1, us, (parts - 1) * self.launch_us))
        saved = (turns * len(phases) - 1) * self.launch_us
        self.merged.append(Merged(name, (tuple(names),), turns, kernel.us, saved, team=True))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, buffers)

    # -- the kernels ----------------------------------------------------------------------------------------------

    def _step(self, unit: _Unit) -> p.Step:
        if unit.step is not None:
            return unit.step
        if len(unit.lanes) == 1 and len(unit.lanes[0].parts) == 1:
            return unit.lanes[0].parts[0].step
        return self._launch(unit.lanes, 1, {})

    def _launch(self, lanes: list[Lane], turns: int, counted: Places) -> p.Launch:
        """The launch of a merged kernel. `counted`: buffers that are, in each turn, the next element of a table."""
        body = Body(counted)
        begin = 0
        for n, lane in enumerate(lanes):
            if len(lanes) > 1:
                body.lines.append(f"    {'else ' if n else ''}if (item < {begin + lane.items}) {{")
            if turns > 1:
                body.lines.append(f"    for (int turn = 0; turn < {turns}; ++turn) {{")
            for part in lane.parts:
                body.call(part, "" if lane.serial else f"item - {begin}")
            body.lines += ["    }"] * ((turns > 1) + (len(lanes) > 1))
            begin += lane.items
        return self._enter(body, lanes, begin, turns)

    def _enter(self, body: Body, lanes: list[Lane], items: int, turns: int) -> p.Launch:
        """Make a body a kernel, note what it is, and launch it."""
        buffers, arguments = body.arguments()
        us = turns * sum(lane.us for lane in lanes)
        kernel = p.Kernel(f"together.{len(self.merged)}", body.text(), arguments, items, tuple(body.calls), us)
        parts = sum(len(lane.parts) for lane in lanes)
        names = tuple(tuple(x.kernel.name for x in lane.parts) for lane in lanes)
        self.merged.append(Merged(kernel.name, names, turns, us, (turns * parts - 1) * self.launch_us))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, buffers)
