"""Launches made one: what the device is asked to start, instead of each kernel by itself.

A launch costs microseconds, and many kernels take less: the updates of an optimiser, what a batch normalisation does
for each channel, the turn of a small loop. After a computation's steps are planned, its launches are gathered:

    side by side    kernels that do not need each other share a launch; each has its own range of items (a section)
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

from ..analysis.cost_analysis import Costs
from ..analysis.tiling_analysis import Axis
from ..ir import plan as p
from .merged_kernel import MOST_ARGUMENTS, Body, Call, MergedLaunch, Places, Section, conflict, copy_kernel, uses
from .persistent_kernel import (
    BARRIER_US,
    PERSISTENT_US,
    PersistentKernel,
    Phase,
    arguments_of,
    phase_us,
    shares_work,
    sync_bytes,
)

SMALL_US = 60.0  # a kernel that takes longer gains little from a shared launch
LARGE_US = 500.0  # a kernel that takes longer gains little from a persistent, and is compiled while others are emitted
UNIT_US = 240.0  # of all kernels in a launch
FAR_BYTES = 1 << 18  # what writes more than this stays where it is, for it would lengthen the life of much memory
COPY_BYTES = 1 << 16  # a copy of up to this size can be a part of a launch
LOOP_LAUNCH_US = 10_000.0  # of a loop in one launch: signals are answered between launches
LEAST_US = 0.05  # a call takes this


@dataclass
class _Unit:
    """What is launched at once, or another step. `time` is the planner's, of its first part."""

    time: int
    sections: list[Section] = field(default_factory=list)
    step: p.Step | None = None
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()

    def meets(self, part: Call) -> bool:
        return conflict(self.reads, self.writes, part)

    def includes(self, part: Call) -> None:
        self.reads |= part.reads
        self.writes |= part.writes

    @property
    def us(self) -> float:
        return sum(section.us for section in self.sections)

    def holds(self, part: Call) -> bool:
        """Whether there is room for one more."""
        known = {b for section in self.sections for x in section.parts for b in x.buffers}
        return self.step is None and self.us + part.us <= UNIT_US and len(known | set(part.buffers)) <= MOST_ARGUMENTS


class LaunchMerger:
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
        self.start_us = self.launch_us if self.workspace is None else BARRIER_US  # of one more launch, or phase
        self.sync: int | None = None
        self.merged: list[MergedLaunch] = []

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
        return self._persistent(units) if self.workspace else tuple(self._step(unit) for unit in units)

    def counted_loop(self, trip_count: int, body: Sequence[p.Step], counter: int | None, table: int | None) -> p.Step:
        """A loop of known turns, as one launch where its turn is small."""
        step = p.Repeat(trip_count, tuple(body), counter, table)
        if trip_count < 2:
            return step
        counted = {} if counter is None else {counter: (table, f"iteration * {self.bytes_of(counter)}")}
        section = self._serial(body)
        if section is not None and trip_count * max(section.us, LEAST_US) <= LOOP_LAUNCH_US:
            return self._launch([section], trip_count, counted)
        phases = self._phases(body)
        if section is None and phases and trip_count * sum(phase_us(x, self.cores) for x in phases) <= PERSISTENT_US:
            return self._persistent_launch(phases, trip_count, counted)
        return step

    def while_loop(self, condition: Sequence[p.Step], predicate: int, body: Sequence[p.Step]) -> p.Step:
        """A loop that ends by a predicate: many turns in one launch where a turn is small."""
        step = p.Loop(tuple(condition), predicate, tuple(body))
        test = self._serial(condition) if condition else Section([])
        turn = self._serial(body)
        if test is None or turn is None:
            both = self._phases((*condition, *body)) if condition and body else None
            n = len(condition)
            return step if both is None else self._waiting(both[:n], predicate, both[n:])
        us = max(test.us + turn.us, LEAST_US)
        trip_count = max(1, int(LOOP_LAUNCH_US / us))
        code = Body()
        code.lines.append(f"    for (int iteration = 0; iteration < {trip_count}; ++iteration) {{")
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

    def _serial(self, body: Sequence[p.Step]) -> Section | None:
        """All of a loop's turn as one section, if one core has done it sooner than several that must be started."""
        parts = [self._part(s, alone=True) for s in body]
        if not parts or any(x is None or x.kernel.persistent for x in parts):
            return None
        section = Section(parts)
        split = sum(self._split(x) for x in parts)
        if (
            section.us > split + self.start_us * len(parts)
            or len({b for x in parts for b in x.buffers}) > MOST_ARGUMENTS
        ):
            return None
        for part in parts:
            part.serial = True
        return section

    def _split(self, part: Call) -> float:
        """The microseconds of a kernel on all cores."""
        return part.us / max(1, min(part.kernel.items, self.cores))

    def _part(self, step: p.Step, alone: bool = False) -> Call | None:
        """A step as something that can share a launch; None if it cannot. `alone`: it may be as large as it wants."""
        if isinstance(step, p.Copy) and (self.bytes_of(step.source) <= COPY_BYTES or (alone and self.workspace)):
            size = self.bytes_of(step.source)
            kernel, buffers, us = copy_kernel(size), (step.source, step.target), size / 10e3
        elif isinstance(step, p.Launch):
            kernel, buffers, us = self.kernels[step.kernel], step.buffers, self.kernels[step.kernel].us
        else:
            return None
        reads, writes = uses(step, self.kernels)
        part = Call(step, kernel, buffers, max(us, LEAST_US), reads, writes, False)
        part.serial = part.us - self._split(part) <= self.start_us
        if len(buffers) > MOST_ARGUMENTS or ((kernel.persistent or part.us > SMALL_US * self.cores) and not alone):
            return None
        return part

    def stands_alone(self, kernel: p.Kernel) -> bool:
        """Whether a kernel is sure to be launched by itself, unless it is in a loop."""
        return kernel.us > (LARGE_US if self.workspace else SMALL_US) * self.cores

    def _place(self, units: list[_Unit], time: int, part: Call) -> None:
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
        units.append(_Unit(time, [Section([part])], None, part.reads, part.writes))

    def _moved(self, unit: _Unit, part: Call) -> None:
        unit.includes(part)
        for b in part.buffers:
            self.live(b, unit.time)

    def _follow(self, unit: _Unit, part: Call) -> bool:
        """Put a part behind those in the unit that it needs, in the same item."""
        if not unit.holds(part) or not part.serial:
            return False
        met = [section for section in unit.sections if section.meets(part)]
        if not met or not all(section.serial for section in met):
            return False
        if len(met) > 1 and sum(section.us for section in met) > 2 * self.start_us:
            return False
        first = met[0]
        for other in met[1:]:
            first.parts += other.parts
            unit.sections.remove(other)
        first.parts.append(part)
        return True

    def _beside(self, unit: _Unit, part: Call) -> None:
        """Put a part into a section of its own, or into one that is shorter than a start is worth."""
        if part.serial:
            for section in unit.sections:
                if section.serial and section.us + part.us <= self.start_us:
                    section.parts.append(part)
                    return
        unit.sections.append(Section([part]))

    # -- teams ------------------------------------------------------------------------------------------------------

    def _persistent(self, units: Sequence[_Unit]) -> tuple[p.Step, ...]:
        """The steps of units, as few launches as teams make of them."""
        steps: list[p.Step] = []
        waiting: list[_Unit] = []
        phases: list[Phase] = []

        def close() -> None:
            if len(waiting) > 1 and shares_work(phases):
                steps.append(self._persistent_launch(phases, 1, {}))
            else:
                steps.extend(self._step(unit) for unit in waiting)
            waiting.clear()
            phases.clear()

        for unit in units:
            phase = unit.sections or self._phase(unit.step)
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
        return None if part is None else [Section([part])]

    def _phases(self, steps: Sequence[p.Step]) -> list[Phase] | None:
        """Steps as phases of one team; None if they are not, or one core may as well do them."""
        phases = [self._phase(s) for s in steps] if self.workspace else [None]
        return None if None in phases or not shares_work(phases) or not self._fits(phases) else phases

    def _fits(self, phases: list[Phase]) -> bool:
        known = len(arguments_of(phases)) + 1
        return known <= MOST_ARGUMENTS and sum(phase_us(x, self.cores) for x in phases) <= PERSISTENT_US

    def tiled(self, axes: Sequence[Axis], places: Places, once: Sequence[p.Step], each: Sequence[p.Step]) -> p.Launch:
        """The launch of a persistent kernel that does steps tile by tile: see PersistentKernel.tiles. This needs a
        `workspace`."""
        persistent = self._new_persistent(places)
        first, rest = ([self._part(s, alone=True) for s in steps] for steps in (once, each))
        persistent.tiles(axes, first, rest)
        name, trip_count = f"merged.{len(self.merged)}", prod(a.count for a in axes)
        kernel, buffers = persistent.kernel(name, 1)
        names = tuple(x.kernel.name for x in (*first, *rest))
        self.merged.append(
            MergedLaunch(name, (names,), trip_count, kernel.us, (len(rest) - 1) * self.launch_us, persistent=True)
        )
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, buffers)

    def _new_persistent(self, counted: Places | None = None) -> PersistentKernel:
        if self.sync is None:
            self.sync = self.workspace(sync_bytes(self.cores))
        return PersistentKernel(self.sync, self.cores, counted)

    def _persistent_launch(self, phases: Sequence[Phase], trip_count: int, counted: Places) -> p.Step:
        """The launch of a team that goes through phases, `turns` times."""
        persistent = self._new_persistent(counted)
        if trip_count > 1:
            persistent.body.lines.append(f"    for (int iteration = 0; iteration < {trip_count}; ++iteration) {{")
        for phase in phases:
            persistent.phase(phase)
        if trip_count > 1:
            persistent.body.lines.append("    }")
        return self._enter_persistent(persistent, phases, trip_count)

    def _waiting(self, test: list[Phase], predicate: int, body: list[Phase]) -> p.Step:
        """A loop that ends by a predicate, many turns in a launch of a persistent."""
        persistent = self._new_persistent()
        us = sum(phase_us(x, self.cores) for x in (*test, *body))
        persistent.body.lines.append(f"    for (int turn = 0; turn < {max(1, int(LOOP_LAUNCH_US / us))}; ++turn) {{")
        for phase in test:
            persistent.phase(phase)
        persistent.go_while(predicate)
        for phase in body:
            persistent.phase(phase)
        persistent.body.lines.append("    }")
        return p.Loop((self._enter_persistent(persistent, [*test, *body], 1),), predicate, ())

    def _enter_persistent(self, persistent: PersistentKernel, phases: Sequence[Phase], trip_count: int) -> p.Launch:
        """Make a team's body a kernel, note what it is, and launch it."""
        name = f"merged.{len(self.merged)}"
        kernel, buffers = persistent.kernel(name, trip_count)
        names = []
        for n, sections in enumerate(phases):
            parts = sum(len(section.parts) for section in sections)
            own = tuple(tuple(x.kernel.name for x in section.parts) for section in sections)
            names.append(own[0][0] if parts == 1 else f"{name}.{n}")
            if parts > 1:
                us = sum(section.us for section in sections)
                self.merged.append(MergedLaunch(names[-1], own, 1, us, (parts - 1) * self.launch_us))
        saved = (trip_count * len(phases) - 1) * self.launch_us
        self.merged.append(MergedLaunch(name, (tuple(names),), trip_count, kernel.us, saved, persistent=True))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, buffers)

    # -- the kernels ----------------------------------------------------------------------------------------------

    def _step(self, unit: _Unit) -> p.Step:
        if unit.step is not None:
            return unit.step
        if len(unit.sections) == 1 and len(unit.sections[0].parts) == 1:
            return unit.sections[0].parts[0].step
        return self._launch(unit.sections, 1, {})

    def _launch(self, sections: list[Section], trip_count: int, counted: Places) -> p.Launch:
        """The launch of a merged kernel. `counted`: buffers that are, in each turn, the next element of a table."""
        body = Body(counted)
        begin = 0
        for n, section in enumerate(sections):
            if len(sections) > 1:
                body.lines.append(f"    {'else ' if n else ''}if (item < {begin + section.items}) {{")
            if trip_count > 1:
                body.lines.append(f"    for (int iteration = 0; iteration < {trip_count}; ++iteration) {{")
            for part in section.parts:
                body.call(part, "" if section.serial else f"item - {begin}")
            body.lines += ["    }"] * ((trip_count > 1) + (len(sections) > 1))
            begin += section.items
        return self._enter(body, sections, begin, trip_count)

    def _enter(self, body: Body, sections: list[Section], items: int, trip_count: int) -> p.Launch:
        """Make a body a kernel, note what it is, and launch it."""
        buffers, arguments = body.arguments()
        us = trip_count * sum(section.us for section in sections)
        kernel = p.Kernel(f"merged.{len(self.merged)}", body.text(), arguments, items, tuple(body.calls), us)
        parts = sum(len(section.parts) for section in sections)
        names = tuple(tuple(x.kernel.name for x in section.parts) for section in sections)
        self.merged.append(MergedLaunch(kernel.name, names, trip_count, us, (trip_count * parts - 1) * self.launch_us))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, buffers)
