"""Launch merging: several kernels in one launch.

A launch costs microseconds, and many kernels take less: the updates of an optimiser, what a batch normalisation does
for each channel, the iteration of a small loop. After a computation's steps are planned, its launches are gathered:

    side by side    kernels that do not need each other share a launch; each has its own range of items (a section;
                    launch_units.py)
    serial          kernels too small to be worth more than one core follow each other in one item, also where one
                    needs what the other makes
    loops           a loop whose iteration is one such item becomes a launch itself
    persistent      launches that follow each other become one, whose items go through them together
                    (persistent_kernel.py)

On a GPU, a work-group takes the place of a core. It makes each call with all of its items, one work-group of the called
kernel after the other, and the items wait at a barrier where a call needs the result of another one. A loop whose parts
are single items is run by one item, which keeps its values in registers.

A kernel may move ahead of others that access none of its memory. None of this changes the bits that a kernel computes.
A merged kernel is a plan.Kernel whose body, which is data (ir/merged_body.py), calls others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ..device.description import Costs
from ..ir import merged_body as m
from ..ir import plan as p
from . import serial_control_flow
from .launch_costs import LaunchCosts, MergingOptions
from .launch_units import LaunchUnits
from .merged_kernel import (
    ArgumentList,
    BoundKernel,
    MergeableLaunch,
    Section,
    SubBuffers,
    all_or_none,
    uses,
)
from .merged_launches import MergedLaunches
from .persistent_launches import PersistentLaunches
from .register_promotion import with_frame
from .serial_control_flow import LAUNCH_US

# How many times as long one core must take for a loop to be shared: what cores write for each other takes a while to
# fetch, and the others may have something else to do.
LEAST_GAIN = 1.15
MOST_SLOWER = 3.0  # of a loop on one core, nested in one that saves launches by it


@dataclass(frozen=True)
class SerialForm:
    """The steps by which one core computes what several cores compute in another step, which takes them `shared_us`."""

    steps: tuple[p.Step, ...]
    shared_us: float


class LaunchMerger:
    """Merges the launches of a plan. `kernels` are the planner's, to which merged ones are added.

    `scratch(name, type, count)` gives a new buffer, `zeros(count)` one with so many zeros of type s64. `workspace`
    makes memory that is zeroed once, of so many bytes, if there are to be persistent kernels.
    """

    def __init__(
        self,
        kernels: list[p.Kernel],
        bytes_of: Callable[[int], int],
        costs: Costs,
        merging: MergingOptions,
        scratch: Callable[[str, str, int], int],
        zeros: Callable[[int], int],
        workspace: Callable[[int], int] | None = None,
    ) -> None:
        self.bytes_of, self.scratch, self.zeros = bytes_of, scratch, zeros
        if merging.units < 2:
            workspace = None
        self.costs = LaunchCosts(costs, merging, persistent=workspace is not None)
        self.launches = MergedLaunches(kernels, bytes_of, self.costs, merging)
        self.persistent = PersistentLaunches(self.launches, workspace)
        self.progress: dict[int, int] = {}  # by the number of a resumable kernel
        self.framed: dict[int, BoundKernel] = {}  # what a kernel with a frame calls, by its number
        self.serial_forms: dict[p.Step, SerialForm] = {}

    @property
    def has_persistent_kernels(self) -> bool:
        """Whether there are to be persistent kernels."""
        return self.launches.has_persistent_kernels

    def run(self, steps: Sequence[p.Step]) -> tuple[p.Step, ...]:
        """The steps, with launches merged."""
        if not self.launches.handover:
            return tuple(steps)
        launches = LaunchUnits(self.bytes_of, self.launches.most_arguments, self.costs.start_us)
        for step in steps:
            part = self.launches.call_of(step)
            if part is None:
                launches.append_step(step, *uses(step, self.launches.kernels))
            else:
                launches.assign(part)
        if self.has_persistent_kernels:
            return self.persistent.steps(launches.units)
        return tuple(map(self.launches.step_of, launches.units))

    def region(self, steps: Sequence[p.Step], internal: Collection[int] = ()) -> tuple[tuple[p.Step, ...], float]:
        """Steps as one launch that one core runs, which may have to be repeated, and its microseconds; no steps if that
        is impossible. Other cores run such launches at the same time, which write other parts of the buffers that are
        not `internal`."""
        section = self._section(steps)
        if section is None or not section.parts:
            return (), 0.0
        shared = {b for part in section.parts for b in part.writes}.difference(internal)
        return self._serial_counted_loop(1, section, {}, internal, shared), section.us

    def counted_loop(
        self,
        trip_count: int,
        body: Sequence[p.Step],
        counter: int | None,
        table: int | None,
        internal: Collection[int] = (),
    ) -> tuple[p.Step, ...]:
        """A loop with a known trip count: one launch where its iteration is small, several where there are many.
        `internal` are the buffers that nothing but the loop uses; likewise below."""
        step = p.Repeat(trip_count, tuple(body), counter, table)
        if trip_count < 1:
            return ()
        counted: SubBuffers = {}
        if counter is not None and table is not None:
            counted = {counter: (table, m.IterationOffset(self.bytes_of(counter)) if trip_count > 1 else None)}
        section = self._section(body)

        def serial() -> tuple[p.Step, ...]:
            assert section is not None
            return self._serial_counted_loop(trip_count, section, counted, internal)

        if section is not None and section.parts and self._pays(section, body):
            return serial() or (step,)
        steps = self.persistent.counted_loop(step, counted)
        if section is not None and section.parts and len(steps) == 1:
            self._note_serial_form(steps[0], serial, trip_count * section.us, trip_count * self._shared_us(body))
        return steps

    def iterations(self, count: int, sub_buffers: SubBuffers, launch: p.Launch) -> p.Launch:
        """The launch that runs `count` iterations of a parallel loop, each by `launch`, which is for one core or one
        item of a GPU."""
        if self.has_persistent_kernels:
            return self.persistent.iterations(count, sub_buffers, launch)
        return self.launches.iterations(count, sub_buffers, launch)

    def resumed_iterations(self, count: int, sub_buffers: SubBuffers, launch: p.Launch, unfinished: int) -> p.Loop:
        """The same of iterations that may be left before they have finished, repeated until all have. `unfinished` is
        the buffer of a pred for each that says whether it must be resumed."""
        if self.has_persistent_kernels:
            more = self.scratch("more", "pred", 1)
            return p.Loop((self.persistent.iterations(count, sub_buffers, launch, (unfinished, more)),), more, ())
        more = self.scratch("more", "s64", 1)
        some = self.launches.iterations(count, sub_buffers, launch, (unfinished, more))
        return p.Loop((p.Copy(self.zeros(1), more), some), more, ())

    def _serial_counted_loop(
        self,
        trip_count: int,
        section: Section,
        counted: SubBuffers,
        internal: Collection[int],
        shared: Collection[int] = (),
    ) -> tuple[p.Step, ...]:
        """A loop on one core; nothing if that takes too many arguments. `shared` are the buffers of which others write
        parts at the same time."""
        arguments, us = ArgumentList(counted), trip_count * section.us
        if not section.resumable and trip_count * max(section.us, self.costs.call_us) <= LAUNCH_US:
            repeated = m.MergedBody((arguments.section(section),), trip_count)
            launch = self._enter_control_flow(arguments, repeated, [section], us, trip_count, internal, shared)
            return () if launch is None else (launch,)
        start, progress, more = self._resumable()
        code = serial_control_flow.counted_loop(arguments, section, trip_count, progress, more)
        launch = self._enter_control_flow(arguments, code, [section], us, trip_count, internal, shared)
        return () if launch is None else (start, self._resume(launch, progress, more))

    def while_loop(
        self, condition: Sequence[p.Step], predicate: int, body: Sequence[p.Step], internal: Collection[int] = ()
    ) -> tuple[p.Step, ...]:
        """A loop that ends by a predicate: many iterations in one launch where an iteration is small."""
        step = p.Loop(tuple(condition), predicate, tuple(body))
        test, section = self._section(condition), self._section(body)
        if test is None or section is None or test.resumable or not (test.parts or section.parts):
            return (self.persistent.while_loop(step),)

        def serial() -> tuple[p.Step, ...]:
            start, progress, _ = self._resumable(predicate)
            arguments = ArgumentList()
            code = serial_control_flow.while_loop(arguments, test, predicate, section, progress)
            own = set(internal) - {predicate}
            launch = self._enter_control_flow(arguments, code, [test, section], test.us + section.us, 1, own)
            return () if launch is None else (start, self._resume(launch, progress, predicate))

        if self._pays(test, condition) and self._pays(section, body):
            return serial() or (step,)
        loop = self.persistent.while_loop(step)
        self._note_serial_form(loop, serial, test.us + section.us, self._shared_us((*condition, *body)))
        return (loop,)

    def branch(
        self, index: int, of_pred: bool, branches: Sequence[Sequence[p.Step]], internal: Collection[int] = ()
    ) -> tuple[p.Step, ...]:
        """A conditional: one launch where each of its branches is small. Its cost is the mean of theirs, since nobody
        knows how often each is taken."""
        step = p.Branch(index, tuple(tuple(x) for x in branches))
        sections = all_or_none(self._section(x) for x in branches)
        if sections is None or not any(section.parts for section in sections):
            return (step,)
        if any(part.has_barriers for section in sections for part in section.parts):
            return (step,)

        one_core_us = sum(section.us for section in sections) / len(sections)

        def serial() -> tuple[p.Step, ...]:
            arguments = ArgumentList()
            if not any(section.resumable for section in sections):
                code = serial_control_flow.conditional(arguments, index, of_pred, sections, None)
                launch = self._enter_control_flow(arguments, code, sections, one_core_us, 1, internal)
                return () if launch is None else (launch,)
            start, progress, more = self._resumable()
            code = serial_control_flow.conditional(arguments, index, of_pred, sections, (progress, more))
            launch = self._enter_control_flow(arguments, code, sections, one_core_us, 1, internal)
            return () if launch is None else (start, self._resume(launch, progress, more))

        if all(self._pays(section, x) for section, x in zip(sections, branches, strict=True)):
            return serial() or (step,)
        shared_us = sum(map(self._shared_us, branches)) / len(branches)
        self._note_serial_form(step, serial, one_core_us, shared_us)
        return (step,)

    def _resumable(self, more: int | None = None) -> tuple[p.Step, int, int]:
        """The step before a resumable kernel, the buffer of its progress, and that of the pred that says whether it
        must be resumed."""
        count = m.PROGRESS_BYTES // 8
        progress = self.scratch("progress", "s64", count)
        more = self.scratch("more", "pred", 1) if more is None else more
        return p.Copy(self.zeros(count), progress), progress, more

    def _enter_control_flow(
        self,
        arguments: ArgumentList,
        body: m.StructuredBody,
        sections: list[Section],
        us: float,
        trip_count: int,
        internal: Collection[int],
        shared: Collection[int] = (),
    ) -> p.Launch | None:
        """The launch of a kernel of control flow, which takes so many microseconds; None if it has too many
        arguments."""
        parts = [part for section in sections for part in section.parts]
        inner = self.launches.bound(arguments, body, 1, us)
        by_item = not inner.kernel.work_group
        framed = with_frame(inner, internal, self.bytes_of, self.scratch, by_item, shared)
        if len(framed.buffers) > self.launches.most_arguments:
            return None
        launch = self.launches.enter(self.launches.padded(framed), [Section(parts)], trip_count)
        if framed is not inner:
            self.framed[launch.kernel] = inner
        return launch

    def _resume(self, launch: p.Launch, progress: int, more: int) -> p.Loop:
        """The launch of a resumable kernel, repeated until it has finished."""
        self.progress[launch.kernel] = progress
        return p.Loop((launch,), more, ())

    def _section(self, body: Sequence[p.Step]) -> Section | None:
        """Steps as one section, which one core runs; None if it cannot."""
        parts = self._calls_of_steps(body)
        if parts is None or any(x.kernel.persistent for x in parts):
            return None
        if any(x.resumable for x in parts) and any(x.kernel.work_group for x in parts):
            return None  # a work-group cannot leave a kernel with barriers
        for part in parts:
            part.serial = True
        return Section(parts)

    def _pays(self, section: Section, body: Sequence[p.Step]) -> bool:
        """Whether one core takes about as long for the steps as several cores, which must be started for each of
        them."""
        return section.us <= LEAST_GAIN * self._shared_us(body)

    def _shared_us(self, body: Sequence[p.Step]) -> float:
        """The microseconds of steps on all cores, with the cost of starting each: that of a phase, if they fit in one
        persistent kernel, otherwise that of a launch."""
        start = self.costs.launch_us if self.persistent.phases(body) is None else self.costs.barrier_us
        return sum(map(self._parallel_us, body)) + start * len(body)

    def _note_serial_form(
        self,
        step: p.Step,
        serial: Callable[[], tuple[p.Step, ...]],
        one_core_us: float,
        shared_us: float,
    ) -> None:
        """Records how one core would run a step, a loop or conditional that takes it so many microseconds, and all
        cores `shared_us`, if that does not take much longer: an enclosing loop may then be one kernel."""
        if not self.has_persistent_kernels:
            return
        if isinstance(step, p.Launch):
            shared_us = self.launches.kernels[step.kernel].persistent_us
        if one_core_us <= MOST_SLOWER * shared_us and (steps := serial()):
            self.serial_forms[step] = SerialForm(steps, shared_us)

    def _calls_of(self, step: p.Step) -> list[MergeableLaunch] | None:
        """A step as parts of a kernel of control flow, which calls what a merged launch calls, or what a kernel with a
        frame calls: it has a frame for both."""
        if step in self.serial_forms:
            return self._calls_of_steps(self.serial_forms[step].steps)
        launch = step.condition[0] if isinstance(step, p.Loop) and step.condition else step
        number = launch.kernel if isinstance(launch, p.Launch) else -1
        if number in self.launches.sections:
            sections = self.launches.sections[number]
            return self._calls_of_steps(part.step for section in sections for part in section.parts)
        part = self._resumable_call(step) or self.launches.call_of(step, alone=True)
        if part is None or number not in self.framed:
            return None if part is None else [part]
        inner = self.framed[number]
        written = {b for b, a in zip(inner.buffers, inner.kernel.arguments, strict=True) if a.role != "input"}
        reads, writes = part.reads.union(inner.buffers), part.writes.union(written)
        return [replace(part, kernel=inner.kernel, buffers=inner.buffers, reads=reads, writes=writes)]

    def _calls_of_steps(self, steps: Iterable[p.Step]) -> list[MergeableLaunch] | None:
        """Several steps as parts of a kernel of control flow."""
        called = all_or_none(map(self._calls_of, steps))
        return None if called is None else [part for of_step in called for part in of_step]

    def _resumable_call(self, step: p.Step) -> MergeableLaunch | None:
        """The launch of a resumable kernel, as a part of an enclosing resumable kernel."""
        match step:
            case p.Loop((p.Launch(number, buffers),), predicate, ()) if number in self.progress:
                reads, writes = uses(step, self.launches.kernels)
                kernel, resumable = self.launches.kernels[number], (self.progress[number], predicate)
                return MergeableLaunch(
                    step, kernel, buffers, max(kernel.us, self.costs.call_us), reads, writes, True, 1, resumable
                )
        return None

    def _parallel_us(self, step: p.Step) -> float:
        """The estimated microseconds of a step that all cores share."""
        if step in self.serial_forms:
            return self.serial_forms[step].shared_us
        match step:
            case p.Launch(number) | p.Loop((p.Launch(number),), _, ()):
                return self.costs.shared_us(self.launches.kernels[number])
            case p.Copy(source):
                return max(self.costs.copy_us(self.bytes_of(source)), self.costs.call_us)
        return 0.0
