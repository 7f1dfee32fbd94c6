"""A compiled program that is called with arrays and returns arrays."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import NamedTuple

from refxla_spec.errors import plural

from .._core.execution import wake
from .._core.executor import Executor
from ..codegen.opencl_program import Program
from ..device.description import Costs
from ..ir.plan import Branch, Copy, HostCall, Launch, LibraryCall, Loop, Plan, Repeat, Step
from ..progress import show_progress
from .background_builds import BUILDS
from .devices import Device
from .pocl.parallel_build import ParallelBuild
from .program_build import Binaries, build
from .result_memory import Memory, check_device_memory


class Executable(Executor):
    """A plan on a device.

    Call it with the flattened arguments (NumPy arrays, or anything with `__array__`, `__dlpack__` or the buffer
    protocol; Python numbers for 0-d parameters) of exactly the parameters' types and shapes. It returns the tuple of
    results as new NumPy arrays. On a CPU device, dense and aligned arguments are read in place.

    It may be called from several threads; calls then run one at a time. Raises InputError for arguments that do not
    fit, and DeviceError if the device fails. KeyboardInterrupt is handled between the iterations of a `while` and
    between the matrices of a batched library call.
    """

    def __init__(
        self,
        plan: Plan,
        program: Program,
        device: Device,
        operations: int = 0,
        parallel_build: ParallelBuild | None = None,
        binaries: Binaries | None = None,
        in_background: bool = False,
    ) -> None:
        """`program` is built from the plan's kernels; `operations` estimates the arithmetic in a call (0: unknown);
        `parallel_build` has begun to compile the program, and is ended here; `binaries` are the device compiler's
        earlier output. `in_background`: another thread builds the program if compile workers do the work, and calls
        wait for it."""
        self.program = program
        self.device = device
        check_device_memory(plan, device)
        choice = choose_cores(plan, device, operations)
        self._cores_reason, self.gain_us = choice.reason, choice.gain_us
        queue, *others = [device.queue(device.runner) for _ in range(choice.cores)]
        local = 0 if device.target.capabilities.work_groups else 1
        super().__init__(plan, queue, device.context, device.access, local, others)
        work = functools.partial(self._build, parallel_build, binaries)
        if in_background and parallel_build is not None and parallel_build.has_workers and not self.calls_host:
            self.assembled_by(BUILDS.submit(work, parallel_build.cancel))
        else:
            work()

    def _build(self, parallel_build: ParallelBuild | None, binaries: Binaries | None) -> None:
        try:
            with parallel_build or nullcontext(), show_progress(f"compiling {self.plan.name}"):
                programs = build(self.device, self.program, parallel_build, binaries)
                self.assemble(self.program.entries, programs, self.program.pointers)
        except BaseException:
            self.give_up()
            raise
        finally:
            wake()

    @property
    def opencl(self) -> str:
        """The OpenCL C of all kernels."""
        return self.program.source

    @property
    def memory(self) -> Memory:
        """How many bytes the program needs, by purpose."""
        return Memory.of(self.plan)

    @property
    def device_reason(self) -> str:
        """Why the program runs where it does."""
        return "; ".join(reason for reason in (self.device.why, self._cores_reason) if reason)

    def __repr__(self) -> str:
        kernels = len(self.plan.kernels)
        return f"<Executable {self.plan.name}: {plural(kernels, 'kernel')} on {self.device.name}>"


class CoreChoice(NamedTuple):
    """How many of refxla's threads run a program, and why; `gain_us` is what all cores save in a call, in microseconds,
    0 if the calling thread runs the program alone."""

    cores: int
    reason: str
    gain_us: float = 0.0


def choose_cores(plan: Plan, device: Device, operations: int = 0) -> CoreChoice:
    """How many of refxla's threads share the work of a plan, and why; also 1 for a device that has its own threads.

    The calling thread runs the plan alone if splitting it would save less than it costs. A loop of unknown trip count
    counts as one iteration. `operations` estimates the arithmetic in a call.
    """
    if device.small is None:
        return CoreChoice(1, "")
    share = 1 - 1 / max(1, device.compute_units)  # the share of all cores but one
    costs = device.target.costs
    saved, cost = _gain(plan, plan.steps, share, costs)
    if saved:  # some work can be split
        saved = max(saved, share * operations * costs.flop / 1e3)
    cost += costs.wake / 1e3
    if saved > cost:
        reason = f"on all {device.compute_units} cores, which saves about {saved:.0f} us a call"
        return CoreChoice(device.compute_units, reason, saved - cost)
    reason = f"in the calling thread: more cores would save {saved:.0f} us a call and cost {cost:.0f} us"
    return CoreChoice(1, reason)


def _gain(plan: Plan, steps: tuple[Step, ...], share: float, costs: Costs) -> tuple[float, float]:
    """(microseconds saved, microseconds spent) by running steps on all cores."""
    saved = cost = 0.0
    for step in steps:
        parts: tuple[tuple[Step, ...], ...] = ()
        times = 1
        match step:
            case Launch(kernel, buffers):
                items, us = plan.kernels[kernel].items, plan.kernels[kernel].us
                if plan.kernels[kernel].persistent:
                    saved += us - plan.kernels[kernel].persistent_us
                elif items > 1:
                    if not us:
                        size = sum(plan.buffers[b].bytes for b in set(buffers))
                        us = max(size * costs.byte, items * costs.item) / 1e3
                    saved += us * min(share, 1 - 1 / items)
                cost += costs.handover / 1e3
            case LibraryCall():
                saved += step.items * step.us * min(share, 1 - 1 / step.items)
                cost += costs.handover / 1e3
            case Loop(condition, _, body):
                parts = (condition, body)
            case Repeat(trip_count, body):
                parts, times = (body,), trip_count
            case Branch(_, branches):
                parts = branches
            case HostCall() | Copy():
                pass
        for part in parts:
            more_saved, more_cost = _gain(plan, part, share, costs)
            saved, cost = saved + times * more_saved, cost + times * more_cost
    return saved, cost
