"""Launches made one: what the device is asked to start, instead of each kernel by itself.

A launch costs microseconds, and many kernels take less: the updates of an optimiser, what a batch normalisation does
for each channel, the iteration of a small loop. After a computation's steps are planned, its launches are gathered:

    side by side    kernels that do not need each other share a launch; each has its own range of items (a section;
                    launch_units.py)
    serial          kernels too small to be worth more than one core follow each other in one item, also where one
                    needs what the other makes
    loops           a loop whose iteration is one such item becomes a launch itself
    persistent      launches that follow each other become one, whose items go through them together
                    (persistent_kernel.py)

On a GPU a work-group stands for a core. It makes each call with all of its items, one work-group of the called kernel
after the other, and these wait for each other where a call needs what another one made. A loop whose parts are single
items is run by one item, which has its values in registers.

A kernel may move up past others that touch none of its memory. Nothing of this changes what a kernel computes, nor its
bits. A merged kernel is a plan.Kernel whose body, which is data (ir/merged_body.py), calls others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from ..device.description import Costs
from ..ir import merged_body as m
from ..ir import plan as p
from . import serial_control_flow
from .launch_costs import LaunchCosts, Merging
from .launch_units import LaunchUnit, LaunchUnits
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
from .persistent_kernel import (
    PERSISTENT_US,
    PersistentKernel,
    Phase,
    arguments_of,
    phase_us,
    shares_work,
    sync_bytes,
)
from .register_promotion import with_frame
from .serial_control_flow import LAUNCH_US, iterations_per_launch

SMALL_US = 60.0  # a kernel that takes longer gains little from a shared launch
LARGE_US = (
    500.0  # one that takes longer gains little from a persistent kernel, and is compiled while others are emitted
)
COPY_BYTES = 1 << 16  # a copy of up to this size can be a part of a launch
# How many times as long one core must take for a loop to be shared: what cores write for each other takes a while to
# fetch, and the others may have something else to do.
LEAST_GAIN = 1.15
MOST_SLOWER = 3.0  # of a loop on one core, inside one that saves launches by it
# On a GPU:
GROUP_ARGUMENTS = 48  # of a kernel at most: each is a pointer and an offset
GROUP_COPY_BYTES = 1 << 14  # a copy of up to this size can be a part of a launch
ITEM_COPY_BYTES = 64  # and one of up to this size a single item does


@dataclass(frozen=True)
class SerialForm:
    """The steps by which one core does what another step has several do, which take `shared_us` for it."""

    steps: tuple[p.Step, ...]
    shared_us: float


class LaunchMerger:
    """Merges the steps of one plan after the other; `kernels` are the planner's, and grow.

    `scratch(name, type, count)` gives a new buffer, `zeros(count)` one with so many zeros of type s64. `workspace`
    makes memory that is zeroed once, of so many bytes, if there are to be persistent kernels.
    """

    def __init__(
        self,
        kernels: list[p.Kernel],
        bytes_of: Callable[[int], int],
        costs: Costs,
        merging: Merging,
        scratch: Callable[[str, str, int], int],
        zeros: Callable[[int], int],
        workspace: Callable[[int], int] | None = None,
    ) -> None:
        self.kernels, self.bytes_of = kernels, bytes_of
        self.scratch, self.zeros = scratch, zeros
        self.progress: dict[int, int] = {}  # by the number of a kernel that can be left
        self.framed: dict[int, BoundKernel] = {}  # what a kernel with a frame calls, by its number
        self.sections: dict[int, list[Section]] = {}  # of a merged launch, by the number of its kernel
        self.serial_forms: dict[p.Step, SerialForm] = {}
        self.cores, self.workspace = merging.units, workspace if merging.units > 1 else None
        self.handover = merging.handover or not merging.group
        self.group, self.most_arguments = merging.group, GROUP_ARGUMENTS if merging.group else MOST_ARGUMENTS
        self.costs = LaunchCosts(costs, merging, persistent=self.workspace is not None)
        self.sync: int | None = None
        self.merged: list[MergedLaunch] = []

    def run(self, steps: Sequence[p.Step]) -> tuple[p.Step, ...]:
        """The steps, with launches made one."""
        if not self.handover:
            return tuple(steps)
        launches = LaunchUnits(self.bytes_of, self.most_arguments, self.costs.start_us)
        for step in steps:
            part = self._part(step)
            if part is None:
                launches.append_step(step, *uses(step, self.kernels))
            else:
                launches.assign(part)
        if self.workspace:
            return self._persistent_steps(launches.units)
        return tuple(map(self._step, launches.units))

    def counted_loop(
        self,
        trip_count: int,
        body: Sequence[p.Step],
        counter: int | None,
        table: int | None,
        internal: Collection[int] = (),
    ) -> tuple[p.Step, ...]:
        """A loop with a known trip count: one launch where its iteration is small, several where there are many.
        `internal` are the buffers that nothing but the loop uses, here and below."""
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
        steps = self._shared_counted_loop(step, counted)
        if section is not None and section.parts and len(steps) == 1:
            self._note_serial_form(steps[0], section, serial, body, trip_count)
        return steps

    def _serial_counted_loop(
        self, trip_count: int, section: Section, counted: SubBuffers, internal: Collection[int]
    ) -> tuple[p.Step, ...]:
        """A loop that one core runs; nothing if that has too many arguments."""
        arguments = ArgumentList(counted)
        if not section.resumable and trip_count * max(section.us, self.costs.call_us) <= LAUNCH_US:
            repeated = m.MergedBody((arguments.section(section),), trip_count)
            launch = self._enter_control_flow(arguments, repeated, [section], trip_count, internal)
            return () if launch is None else (launch,)
        start, progress, more = self._resumable()
        code = serial_control_flow.counted_loop(arguments, section, trip_count, progress, more)
        launch = self._enter_control_flow(arguments, code, [section], trip_count, internal)
        return () if launch is None else (start, self._resume(launch, progress, more))

    def _shared_counted_loop(self, step: p.Repeat, counted: SubBuffers) -> tuple[p.Step, ...]:
        """A loop whose iterations several cores share, as phases of a persistent kernel where that can be."""
        phases, trip_count = self._phases(step.body), step.trip_count
        if not phases:
            return (step,)
        count = max(
            1, min(trip_count, int(PERSISTENT_US / sum(phase_us(x, self.cores, self.costs.barrier_us) for x in phases)))
        )
        if count == trip_count:
            return (self._persistent_launch(phases, trip_count, counted),)
        if step.counter is not None or count == 1:
            return (step,)
        repeat = p.Repeat(trip_count // count, (self._persistent_launch(phases, count),))
        rest = trip_count % count
        return (repeat, self._persistent_launch(phases, rest)) if rest else (repeat,)

    def while_loop(
        self, condition: Sequence[p.Step], predicate: int, body: Sequence[p.Step], internal: Collection[int] = ()
    ) -> tuple[p.Step, ...]:
        """A loop that ends by a predicate: many iterations in one launch where an iteration is small."""
        step = p.Loop(tuple(condition), predicate, tuple(body))
        test, section = self._section(condition), self._section(body)
        if test is None or section is None or test.resumable or not (test.parts or section.parts):
            return (self._shared_while_loop(step),)

        def serial() -> tuple[p.Step, ...]:
            start, progress, _ = self._resumable(predicate)
            arguments = ArgumentList()
            code = serial_control_flow.while_loop(arguments, test, predicate, section, progress)
            launch = self._enter_control_flow(arguments, code, [test, section], 1, set(internal) - {predicate})
            return () if launch is None else (start, self._resume(launch, progress, predicate))

        if self._pays(test, condition) and self._pays(section, body):
            return serial() or (step,)
        loop = self._shared_while_loop(step)
        self._note_serial_form(loop, Section([*test.parts, *section.parts]), serial, (*condition, *body), 1)
        return (loop,)

    def _shared_while_loop(self, step: p.Loop) -> p.Step:
        """A loop whose iterations several cores share, as phases of a persistent kernel where that can be."""
        both = self._phases((*step.condition, *step.body)) if step.condition and step.body else None
        n = len(step.condition)
        return step if both is None else self._persistent_while_loop(both[:n], step.predicate, both[n:])

    def branch(
        self, index: int, of_pred: bool, branches: Sequence[Sequence[p.Step]], internal: Collection[int] = ()
    ) -> tuple[p.Step, ...]:
        """A conditional: one launch where each of its branches is small."""
        step = p.Branch(index, tuple(tuple(x) for x in branches))
        sections = _all_or_none(self._section(x) for x in branches)
        if sections is None or not any(section.parts for section in sections):
            return (step,)
        if any(part.has_barriers for section in sections for part in section.parts):
            return (step,)

        def serial() -> tuple[p.Step, ...]:
            arguments = ArgumentList()
            if not any(section.resumable for section in sections):
                code = serial_control_flow.conditional(arguments, index, of_pred, sections, None)
                launch = self._enter_control_flow(arguments, code, sections, 1, internal)
                return () if launch is None else (launch,)
            start, progress, more = self._resumable()
            code = serial_control_flow.conditional(arguments, index, of_pred, sections, (progress, more))
            launch = self._enter_control_flow(arguments, code, sections, 1, internal)
            return () if launch is None else (start, self._resume(launch, progress, more))

        if all(self._pays(section, x) for section, x in zip(sections, branches, strict=True)):
            return serial() or (step,)
        parts = [part for section in sections for part in section.parts]
        self._note_serial_form(step, Section(parts), serial, [s for x in branches for s in x], 1)
        return (step,)

    def _resumable(self, more: int | None = None) -> tuple[p.Step, int, int]:
        """The step before a kernel that can be left, its progress, and the pred that says whether there is more."""
        count = m.PROGRESS_BYTES // 8
        progress = self.scratch("progress", "s64", count)
        more = self.scratch("more", "pred", 1) if more is None else more
        return p.Copy(self.zeros(count), progress), progress, more

    def _enter_control_flow(
        self,
        arguments: ArgumentList,
        body: m.StructuredBody,
        sections: list[Section],
        trip_count: int,
        internal: Collection[int],
    ) -> p.Launch | None:
        """The launch of a kernel of control flow; None if it has too many arguments."""
        parts = [part for section in sections for part in section.parts]
        inner = self._bound(arguments, body, 1, trip_count * sum(part.us for part in parts))
        by_item = not inner.kernel.work_group
        framed = with_frame(inner, internal, self.bytes_of, self.scratch, promotes=by_item)
        if len(framed.buffers) > self.most_arguments:
            return None
        launch = self._enter(self._padded(framed), [Section(parts)], trip_count)
        if framed is not inner:
            self.framed[launch.kernel] = inner
        return launch

    def _bound(self, arguments: ArgumentList, body: m.StructuredBody, units: int, us: float) -> BoundKernel:
        """The merged kernel of so many items, or on a GPU work-groups: of single items, if it calls no others."""
        buffers, parameters = arguments.arguments()
        calls, items, group = tuple(arguments.calls), units, 0
        if self.group and (units > 1 or any(k.work_group or k.items > 1 for k in calls)):
            items, group = units * self.group, self.group
        local = max((k.local_bytes for k in calls), default=0)
        name = f"merged.{len(self.merged)}"
        return BoundKernel(
            p.Kernel(name, body, parameters, items, calls, us, work_group=group, local_bytes=local), buffers
        )

    def _padded(self, kernel: BoundKernel) -> BoundKernel:
        """With as many arguments as others have that share its __kernel; on a GPU none do."""
        return kernel if self.group else kernel.padded()

    def _resume(self, launch: p.Launch, progress: int, more: int) -> p.Loop:
        """The launch of a kernel that can be left, repeated as long as there is more."""
        self.progress[launch.kernel] = progress
        return p.Loop((launch,), more, ())

    def _section(self, body: Sequence[p.Step]) -> Section | None:
        """Steps as one section, which one core runs; None if it cannot."""
        parts = self._calls_of_steps(body)
        if parts is None or any(x.kernel.persistent for x in parts):
            return None
        if any(x.resumable for x in parts) and any(x.kernel.work_group for x in parts):
            return None  # a work-group does not leave what it waits in
        for part in parts:
            part.serial = True
        return Section(parts)

    def _pays(self, section: Section, body: Sequence[p.Step]) -> bool:
        """Whether one core has done steps about as soon as several that must be started for each of them."""
        return section.us <= LEAST_GAIN * self._shared_us(body)

    def _shared_us(self, body: Sequence[p.Step]) -> float:
        """The microseconds of steps on all cores, with a start of each: of a launch, if they cannot be phases of one
        persistent kernel, which takes no more arguments than any other."""
        start = self.costs.launch_us if self._phases(body) is None else self.costs.barrier_us
        return sum(map(self._parallel_us, body)) + start * len(body)

    def _note_serial_form(
        self,
        step: p.Step,
        section: Section,
        serial: Callable[[], tuple[p.Step, ...]],
        body: Sequence[p.Step],
        trip_count: int,
    ) -> None:
        """Note how one core would run a step, a loop or conditional of the steps `body`, if it does not take much
        longer: a loop around it may then be one kernel."""
        if self.workspace is None:
            return
        shared = trip_count * self._shared_us(body)
        if isinstance(step, p.Launch):
            shared = self.kernels[step.kernel].persistent_us
        if trip_count * section.us <= MOST_SLOWER * shared and (steps := serial()):
            self.serial_forms[step] = SerialForm(steps, shared)

    def _calls_of(self, step: p.Step) -> list[MergeableLaunch] | None:
        """A step as parts of a kernel of control flow, which calls what a merged launch calls, or what a kernel with a
        frame calls: it has a frame for both."""
        if step in self.serial_forms:
            return self._calls_of_steps(self.serial_forms[step].steps)
        launch = step.condition[0] if isinstance(step, p.Loop) and step.condition else step
        number = launch.kernel if isinstance(launch, p.Launch) else -1
        if number in self.sections:
            return self._calls_of_steps(part.step for section in self.sections[number] for part in section.parts)
        part = self._resumable_call(step) or self._part(step, alone=True)
        if part is None or number not in self.framed:
            return None if part is None else [part]
        inner = self.framed[number]
        written = {b for b, a in zip(inner.buffers, inner.kernel.arguments, strict=True) if a.role != "input"}
        reads, writes = part.reads.union(inner.buffers), part.writes.union(written)
        return [replace(part, kernel=inner.kernel, buffers=inner.buffers, reads=reads, writes=writes)]

    def _calls_of_steps(self, steps: Iterable[p.Step]) -> list[MergeableLaunch] | None:
        """Several steps as parts of a kernel of control flow."""
        called = _all_or_none(map(self._calls_of, steps))
        return None if called is None else [part for of_step in called for part in of_step]

    def _resumable_call(self, step: p.Step) -> MergeableLaunch | None:
        """The launch of a kernel that can be left, as a part of a kernel of the same kind around it."""
        match step:
            case p.Loop((p.Launch(number, buffers),), predicate, ()) if number in self.progress:
                reads, writes = uses(step, self.kernels)
                kernel, resumable = self.kernels[number], (self.progress[number], predicate)
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
                return self.costs.shared_us(self.kernels[number])
            case p.Copy(source):
                return max(self.costs.copy_us(self.bytes_of(source)), self.costs.call_us)
        return 0.0

    def _part(self, step: p.Step, alone: bool = False) -> MergeableLaunch | None:
        """A step as a call in a merged launch; None if it cannot be one. `alone`: its cost is not limited."""
        most = GROUP_COPY_BYTES if self.group else COPY_BYTES
        if isinstance(step, p.Copy) and (self.bytes_of(step.source) <= most or (alone and self.workspace)):
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
        return not self.handover or self.costs.unit_us(kernel) > (LARGE_US if self.workspace else SMALL_US) * self.cores

    # -- persistent kernels -------------------------------------------------------------------------------------------

    def _persistent_steps(self, units: Sequence[LaunchUnit]) -> tuple[p.Step, ...]:
        """The steps of the units, in as few launches as persistent kernels allow."""
        steps: list[p.Step] = []
        pending: list[LaunchUnit] = []
        phases: list[Phase] = []

        def close() -> None:
            if len(pending) > 1 and shares_work(phases):
                steps.append(self._persistent_launch(phases, 1))
            else:
                steps.extend(self._step(unit) for unit in pending)
            pending.clear()
            phases.clear()

        for unit in units:
            phase = self._phase(unit.step) if unit.step is not None else unit.sections
            if isinstance(unit.step, p.Launch) and self.stands_alone(self.kernels[unit.step.kernel]):
                phase = None
            if phase is None:
                close()
                steps.append(self._step(unit))
                continue
            if not self._fits([*phases, phase]):
                close()
            pending.append(unit)
            phases.append(phase)
        close()
        return tuple(steps)

    def _phase(self, step: p.Step) -> Phase | None:
        """A step as a phase of a persistent kernel; None if it cannot."""
        part = self._part(step, alone=True)
        return None if part is None else [Section([part])]

    def _phases(self, steps: Sequence[p.Step]) -> list[Phase] | None:
        """Steps as phases of one persistent kernel; None if they are not, or one core may as well do them."""
        phases = _all_or_none(map(self._phase, steps)) if self.workspace else None
        return None if phases is None or not shares_work(phases) or not self._fits(phases) else phases

    def _fits(self, phases: list[Phase]) -> bool:
        """Whether a persistent kernel of these phases takes few enough arguments and is soon done."""
        us = sum(phase_us(x, self.cores, self.costs.barrier_us) for x in phases)
        return len(arguments_of(phases)) + 1 <= MOST_ARGUMENTS and us <= PERSISTENT_US

    def tiled(
        self, axes: Sequence[m.Axis], sub_buffers: SubBuffers, once: Sequence[p.Step], each: Sequence[p.Step]
    ) -> p.Launch:
        """The launch of a persistent kernel that does steps, which are launches and copies, tile by tile: see
        PersistentKernel.tiles. This needs a `workspace`."""
        persistent = self._new_persistent(sub_buffers)
        first, rest = ([part for s in steps if (part := self._part(s, alone=True))] for steps in (once, each))
        assert len(first) == len(once) and len(rest) == len(each)
        persistent.tiles(axes, first, rest)
        name, trip_count = f"merged.{len(self.merged)}", prod(a.count for a in axes)
        whole = persistent.kernel(name, 1, 1)
        names = tuple(x.kernel.name for x in (*first, *rest))
        saved = (len(rest) - 1) * self.costs.launch_us
        self.merged.append(MergedLaunch(name, (names,), trip_count, whole.kernel.us, saved, tiled=True))
        self.kernels.append(whole.kernel)
        return p.Launch(len(self.kernels) - 1, whole.buffers)

    def _new_persistent(self, sub_buffers: SubBuffers | None = None) -> PersistentKernel:
        if self.sync is None:
            assert self.workspace is not None  # or there are no persistent kernels
            self.sync = self.workspace(sync_bytes(self.cores))
        return PersistentKernel(self.sync, self.cores, self.costs.barrier_us, sub_buffers)

    def _persistent_launch(
        self, phases: Sequence[Phase], trip_count: int, counted: SubBuffers | None = None
    ) -> p.Launch:
        """The launch of a persistent kernel that runs its phases `trip_count` times."""
        persistent = self._new_persistent(counted)
        for phase in phases:
            persistent.phase(phase)
        return self._enter_persistent(persistent, phases, trip_count, trip_count)

    def _persistent_while_loop(self, test: list[Phase], predicate: int, body: list[Phase]) -> p.Step:
        """A while loop as a persistent kernel, each launch of which runs many iterations."""
        persistent = self._new_persistent()
        us = sum(phase_us(x, self.cores, self.costs.barrier_us) for x in (*test, *body))
        for phase in test:
            persistent.phase(phase)
        persistent.exit_unless(predicate)
        for phase in body:
            persistent.phase(phase)
        launch = self._enter_persistent(persistent, [*test, *body], iterations_per_launch(us), 1)
        return p.Loop((launch,), predicate, ())

    def _enter_persistent(
        self, persistent: PersistentKernel, phases: Sequence[Phase], trip_count: int, counted: int
    ) -> p.Launch:
        """Launch a persistent kernel, and note what it is; `counted` iterations are in its estimates."""
        name = f"merged.{len(self.merged)}"
        whole = persistent.kernel(name, trip_count, counted)
        names = []
        for n, sections in enumerate(phases):
            parts = sum(len(section.parts) for section in sections)
            own = tuple(tuple(x.kernel.name for x in section.parts) for section in sections)
            names.append(own[0][0] if parts == 1 else p.phase_name(name, n))
            if parts > 1:
                us = sum(section.us for section in sections)
                self.merged.append(MergedLaunch(names[-1], own, 1, us, (parts - 1) * self.costs.launch_us))
        saved = (counted * len(phases) - 1) * self.costs.launch_us
        self.merged.append(MergedLaunch(name, (tuple(names),), counted, whole.kernel.us, saved, persistent=True))
        self.kernels.append(whole.kernel)
        if trip_count == 1:
            self.sections[len(self.kernels) - 1] = [section for sections in phases for section in sections]
        return p.Launch(len(self.kernels) - 1, whole.buffers)

    # -- the kernels ----------------------------------------------------------------------------------------------

    def _step(self, unit: LaunchUnit) -> p.Step:
        if unit.step is not None:
            return unit.step
        if len(unit.sections) == 1 and len(unit.sections[0].parts) == 1:
            return unit.sections[0].parts[0].step
        return self._launch(unit.sections)

    def _launch(self, sections: list[Section]) -> p.Launch:
        """The launch of a merged kernel."""
        merged = ArgumentList()
        body = m.MergedBody(tuple(map(merged.section, sections)))
        us, units = sum(section.us for section in sections), sum(section.units for section in sections)
        launch = self._enter(self._padded(self._bound(merged, body, units, us)), sections, 1)
        self.sections[launch.kernel] = sections
        return launch

    def _enter(self, merged: BoundKernel, sections: list[Section], trip_count: int) -> p.Launch:
        """Note what a merged kernel is, and launch it."""
        kernel = merged.kernel
        parts = sum(len(section.parts) for section in sections)
        names = tuple(tuple(x.kernel.name for x in section.parts) for section in sections)
        saved = (trip_count * parts - 1) * self.costs.launch_us
        self.merged.append(MergedLaunch(kernel.name, names, trip_count, kernel.us, saved))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, merged.buffers)


_T = TypeVar("_T")


def _all_or_none(values: Iterable[_T | None]) -> list[_T] | None:
    """The elements as a list, or None if one of them is None."""
    whole = []
    for x in values:
        if x is None:
            return None
        whole.append(x)
    return whole
