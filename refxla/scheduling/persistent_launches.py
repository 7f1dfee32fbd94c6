"""Steps as phases of persistent kernels: consecutive launches, the iterations of a loop, the tiles of a tiled
fusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..ir import merged_body as m
from ..ir import plan as p
from .launch_units import LaunchUnit
from .merged_kernel import MOST_ARGUMENTS, MergeableLaunch, MergedLaunch, Section, SubBuffers, all_or_none
from .merged_launches import MergedLaunches
from .persistent_kernel import (
    PERSISTENT_US,
    PersistentKernel,
    Phase,
    arguments_of,
    is_persistent,
    phase_us,
    shares_work,
    sync_bytes,
)
from .serial_control_flow import iterations_per_launch


class PersistentLaunches:
    """Makes the launches of persistent kernels. `workspace` makes memory that is zeroed once, of so many bytes; None:
    there are to be no persistent kernels."""

    def __init__(self, launches: MergedLaunches, workspace: Callable[[int], int] | None) -> None:
        self.launches, self.workspace = launches, workspace
        self.cores, self.costs = launches.cores, launches.costs
        self.sync: int | None = None

    def steps(self, units: Sequence[LaunchUnit]) -> tuple[p.Step, ...]:
        """The steps of the units, in as few launches as persistent kernels allow."""
        steps: list[p.Step] = []
        pending: list[LaunchUnit] = []
        phases: list[Phase] = []

        def close() -> None:
            if len(pending) > 1 and shares_work(phases):
                steps.append(self._launch(phases, 1))
            else:
                steps.extend(self.launches.step_of(unit) for unit in pending)
            pending.clear()
            phases.clear()

        for unit in units:
            phase = self._phase(unit.step) if unit.step is not None else unit.sections
            if isinstance(unit.step, p.Launch) and self.launches.stands_alone(self.launches.kernels[unit.step.kernel]):
                phase = None
            if phase is None:
                close()
                steps.append(self.launches.step_of(unit))
                continue
            beside = phases and _shared_phase(phases[-1], phase)
            if beside and self._fits([*phases[:-1], beside]):
                pending.append(unit)
                phases[-1] = beside
                continue
            if not self._fits([*phases, phase]):
                close()
            pending.append(unit)
            phases.append(phase)
        close()
        return tuple(steps)

    def counted_loop(self, step: p.Repeat, counted: SubBuffers) -> tuple[p.Step, ...]:
        """A loop whose iterations several cores share, as phases of a persistent kernel where that can be."""
        phases, trip_count = self.phases(step.body), step.trip_count
        if not phases:
            return (step,)
        count = max(
            1, min(trip_count, int(PERSISTENT_US / sum(phase_us(x, self.cores, self.costs.barrier_us) for x in phases)))
        )
        if count == trip_count:
            return (self._launch(phases, trip_count, counted),)
        if step.counter is not None or count == 1:
            return (step,)
        repeat = p.Repeat(trip_count // count, (self._launch(phases, count),))
        rest = trip_count % count
        return (repeat, self._launch(phases, rest)) if rest else (repeat,)

    def while_loop(self, step: p.Loop) -> p.Step:
        """A loop whose iterations several cores share, as phases of a persistent kernel where that can be."""
        both = self.phases((*step.condition, *step.body)) if step.condition and step.body else None
        n = len(step.condition)
        return step if both is None else self._while_loop(both[:n], step.predicate, both[n:])

    def _while_loop(self, test: list[Phase], predicate: int, body: list[Phase]) -> p.Step:
        """A while loop as a persistent kernel, each launch of which runs many iterations."""
        persistent = self._new_kernel()
        us = sum(phase_us(x, self.cores, self.costs.barrier_us) for x in (*test, *body))
        for phase in test:
            persistent.phase(phase)
        persistent.exit_unless(predicate)
        for phase in body:
            persistent.phase(phase)
        launch = self._enter(persistent, [*test, *body], iterations_per_launch(us), 1)
        return p.Loop((launch,), predicate, ())

    def tiled(
        self, axes: Sequence[m.Axis], sub_buffers: SubBuffers, once: Sequence[p.Step], each: Sequence[p.Step]
    ) -> p.Launch:
        """The launch of a persistent kernel that runs steps, which are launches and copies, tile by tile: see
        PersistentKernel.tiles. This needs a `workspace`."""
        persistent = self._new_kernel(sub_buffers)
        call_of = self.launches.call_of
        first, rest = ([part for s in steps if (part := call_of(s, alone=True))] for steps in (once, each))
        assert len(first) == len(once) and len(rest) == len(each)
        persistent.tiles(axes, first, rest)
        return self._enter_tiles(persistent, [*first, *rest], prod(a.count for a in axes), len(rest), "tile")

    def iterations(
        self, count: int, sub_buffers: SubBuffers, launch: p.Launch, resumed: tuple[int, int] | None = None
    ) -> p.Launch:
        """The launch of a persistent kernel whose workers run `count` iterations, each by `launch`, which is for one
        core. `resumed`: if an iteration may be left before it has finished, the buffer of a pred for each that says
        whether it must be resumed, and that of the pred whether any must. This needs a `workspace`."""
        persistent = self._new_kernel(sub_buffers)
        part = self.launches.call_of(launch, alone=True)
        assert part is not None
        unfinished = None if resumed is None else resumed[0]
        persistent.tiles([m.Axis(count, 1)], (), [part], unfinished)
        if resumed is not None:
            persistent.phase([Section([self._any(count, *resumed)])])
        return self._enter_tiles(persistent, [part], count, 1, "iteration")

    def _enter_tiles(
        self, persistent: PersistentKernel, parts: Sequence[MergeableLaunch], count: int, launches: int, each: str
    ) -> p.Launch:
        """Adds a persistent kernel of `count` tiles, or iterations, that would be so many `launches` each. Returns its
        launch."""
        name = self.launches.next_name
        whole = persistent.kernel(name, 1, 1)
        names = tuple(x.kernel.name for x in parts)
        saved = (launches - 1) * self.costs.launch_us
        self.launches.merged.append(MergedLaunch(name, (names,), count, whole.kernel.us, saved, each=each))
        self.launches.kernels.append(whole.kernel)
        return p.Launch(len(self.launches.kernels) - 1, whole.buffers)

    def _any(self, count: int, preds: int, result: int) -> MergeableLaunch:
        """Whether any of so many preds is true."""
        arguments = (p.Argument("input", "uchar", bytes=count), p.Argument("output", "uchar", bytes=1))
        kernel = p.Kernel("any", m.AnyBody(count), arguments, 1)
        self.launches.kernels.append(kernel)
        step = p.Launch(len(self.launches.kernels) - 1, (preds, result))
        part = self.launches.call_of(step, alone=True)
        assert part is not None
        part.serial = True
        return part

    def _phase(self, step: p.Step) -> Phase | None:
        """A step as a phase of a persistent kernel; None if it cannot."""
        part = self.launches.call_of(step, alone=True)
        return None if part is None else [Section([part])]

    def phases(self, steps: Sequence[p.Step]) -> list[Phase] | None:
        """Steps as phases of one persistent kernel; None if that is impossible, or if one core is enough."""
        phases = all_or_none(map(self._phase, steps)) if self.workspace is not None else None
        return None if phases is None or not shares_work(phases) or not self._fits(phases) else phases

    def _fits(self, phases: list[Phase]) -> bool:
        """Whether a persistent kernel of these phases takes few enough arguments and little enough time."""
        us = sum(phase_us(x, self.cores, self.costs.barrier_us) for x in phases)
        return len(arguments_of(phases)) + 1 <= MOST_ARGUMENTS and us <= PERSISTENT_US

    def _launch(self, phases: Sequence[Phase], trip_count: int, counted: SubBuffers | None = None) -> p.Launch:
        """The launch of a persistent kernel that runs its phases `trip_count` times."""
        persistent = self._new_kernel(counted)
        for phase in phases:
            persistent.phase(phase)
        return self._enter(persistent, phases, trip_count, trip_count)

    def _new_kernel(self, sub_buffers: SubBuffers | None = None) -> PersistentKernel:
        if self.sync is None:
            assert self.workspace is not None  # or there are no persistent kernels
            self.sync = self.workspace(sync_bytes(self.cores))
        return PersistentKernel(self.sync, self.cores, self.costs.barrier_us, sub_buffers)

    def _enter(self, persistent: PersistentKernel, phases: Sequence[Phase], trip_count: int, counted: int) -> p.Launch:
        """Adds a persistent kernel, with `counted` iterations in its estimates. Returns its launch."""
        name = self.launches.next_name
        whole = persistent.kernel(name, trip_count, counted)
        names = []
        for n, sections in enumerate(phases):
            parts = sum(len(section.parts) for section in sections)
            own = tuple(tuple(x.kernel.name for x in section.parts) for section in sections)
            names.append(own[0][0] if parts == 1 else p.phase_name(name, n))
            if parts > 1:
                us = sum(section.us for section in sections)
                self.launches.merged.append(MergedLaunch(names[-1], own, 1, us, (parts - 1) * self.costs.launch_us))
        saved = (counted * len(phases) - 1) * self.costs.launch_us
        merged = MergedLaunch(name, (tuple(names),), counted, whole.kernel.us, saved, persistent=True)
        self.launches.merged.append(merged)
        self.launches.kernels.append(whole.kernel)
        number = len(self.launches.kernels) - 1
        if trip_count == 1:
            self.launches.sections[number] = [section for sections in phases for section in sections]
        return p.Launch(number, whole.buffers)


def _shared_phase(last: Phase, phase: Phase) -> Phase | None:
    """Two phases that follow each other as one, whose sections run side by side; None if the second one needs the first
    one's results, or if it would not gain: two loops that run on one core each do, whatever their length."""
    sections = [*last, *phase]
    if any(is_persistent([section]) for section in sections) or any(s.units > 1 for s in sections):
        return None
    if any(section.meets(part) for section in last for other in phase for part in other.parts):
        return None
    return sections
