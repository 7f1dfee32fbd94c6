"""The contents of a merged kernel as data: which kernels it calls, on which of its arguments, in which control flow.

The scheduler creates these bodies (scheduling/launch_merging.py); codegen/merged_kernel_emitter.py prints them as
OpenCL C. Kernels are referred to by their number in `Kernel.calls`, arguments by their number in `Kernel.arguments`.

    CopyBody          a copy of memory; it calls no kernel
    AnyBody           whether one of several preds is true; it calls no kernel
    MergedBody        kernels side by side in one launch, each with a range of work items of its own
    IterationsBody    the iterations of a loop that do not need each other, one for each work item of a GPU
    PersistentBody    the phases of a persistent kernel, which all work items go through together
    CountedLoopBody, WhileLoopBody, ConditionalBody
                      control flow that a single work item or work-group runs, and that can be left and resumed
    FrameBody         one call, with a frame that has the small values that only the called kernel uses
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

PROGRESS_BYTES = 32  # of the buffer in which a resumable kernel stores its progress
MOST_PROMOTED_BYTES = 256  # of a value that a FrameBody may keep in private memory


@dataclass(frozen=True)
class Axis:
    """Dimensions of `size` elements that are iterated in steps of `block`. If that does not divide `size`, the last
    step begins earlier and recomputes some elements."""

    size: int
    block: int

    @property
    def count(self) -> int:
        """The number of steps."""
        return -(-self.size // self.block)

    def starts(self) -> np.ndarray:
        """The start of each step."""
        return np.minimum(np.arange(self.count) * self.block, self.size - self.block).astype(np.int32)


# -- parts of arguments: the byte offset in an argument of the memory that a called kernel takes ----------------------


@dataclass(frozen=True)
class IterationOffset:
    """`stride` bytes for each previous iteration of the loop."""

    stride: int

    def __str__(self) -> str:
        return "iteration"


@dataclass(frozen=True)
class WorkerOffset:
    """Each worker of a persistent kernel has `stride` bytes of its own; the part begins `offset` bytes into them."""

    stride: int
    offset: int

    def __str__(self) -> str:
        return f"worker, {self.offset}"


@dataclass(frozen=True)
class TileOffset:
    """`offset` bytes, and `strides[a]` more for each element of axis a before the tile."""

    strides: tuple[int, ...]
    offset: int

    def __str__(self) -> str:
        return "tile"


@dataclass(frozen=True)
class TileNumberOffset:
    """`offset` bytes, and `stride` more for each previous tile along an axis."""

    axis: int
    stride: int
    offset: int = 0

    def __str__(self) -> str:
        return f"tile, {self.offset}" if self.offset else "tile"


@dataclass(frozen=True)
class FrameOffset:
    """The part begins `offset` bytes into a frame."""

    offset: int

    def __str__(self) -> str:
        return str(self.offset)


Offset = IterationOffset | WorkerOffset | TileOffset | TileNumberOffset | FrameOffset


# -- calls -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResumeState:
    """The arguments by which a resumable kernel of control flow saves its state: its `progress` (PROGRESS_BYTES, zero
    before the first launch), and the pred `more`, which is true as long as the kernel must be launched again."""

    progress: int
    more: int


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel on the arguments of these numbers; `offsets` has (position, offset) for each of them of which
    the kernel takes a part. `state`: for a kernel that may return before it has finished."""

    kernel: int
    arguments: tuple[int, ...]
    offsets: tuple[tuple[int, Offset], ...] = ()
    state: ResumeState | None = None


@dataclass(frozen=True)
class SectionBody:
    """Calls that share a range of `units`: work items, or in a kernel of work-groups, work-groups. Each unit makes the
    calls for its own number in that range; the unit of a `serial` section makes each call for all units of the called
    kernel, in order."""

    units: int
    calls: tuple[KernelCall, ...]
    serial: bool


# -- bodies ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CopyBody:
    """Copies `count` elements of argument 0 to argument 1; each work item copies `per_item` of them. If that is 0, they
    are distributed over the items of so many work-groups."""

    count: int
    per_item: int
    groups: int = 1


@dataclass(frozen=True)
class AnyBody:
    """Sets the pred that is argument 1 to whether one of the `count` preds of argument 0 is true."""

    count: int


@dataclass(frozen=True)
class MergedBody:
    """Sections in parallel: each work item runs one item of one section, `trip_count` times."""

    sections: tuple[SectionBody, ...]
    trip_count: int = 1


@dataclass(frozen=True)
class IterationsBody:
    """Makes the call `count` times, each in a work item of its own; the offsets of the call are those of tiles along
    one axis. If the call may return before it has finished, argument `unfinished` has a pred for each item that says
    whether it must be made, again or for the first time, and argument `more`, an s64 that is 0 before, becomes 1 if any
    of them must be made again."""

    count: int
    call: KernelCall
    unfinished: int | None = None
    more: int | None = None


@dataclass(frozen=True)
class SharedPhase:
    """A phase whose work items, those of all sections, are distributed over the workers."""

    sections: tuple[SectionBody, ...]


@dataclass(frozen=True)
class NestedPhases:
    """The phases of a persistent kernel that is called."""

    call: KernelCall


@dataclass(frozen=True)
class TiledPhase:
    """A phase whose work items are the tiles of these axes, the last axis fastest. A worker makes the calls `each` for
    every tile, and before them `once` if its previous tile was elsewhere on an axis other than the last. If the calls
    may return before they have finished, argument `unfinished` has a pred for each tile of the only axis that says
    whether they must be made, again or for the first time."""

    axes: tuple[Axis, ...]
    once: tuple[KernelCall, ...]
    each: tuple[KernelCall, ...]
    unfinished: int | None = None


@dataclass(frozen=True)
class ExitPhase:
    """A phase after which all workers leave the kernel unless the pred in argument `predicate` is true."""

    predicate: int


Phase = SharedPhase | NestedPhases | TiledPhase | ExitPhase


@dataclass(frozen=True)
class PersistentBody:
    """Phases that all workers go through together, `trip_count` times. Argument 0 is the memory that they share."""

    phases: tuple[Phase, ...]
    trip_count: int = 1


@dataclass(frozen=True)
class CountedLoopBody:
    """Makes the calls `trip_count` times. The kernel returns after `limit_ns`, where an iteration counts as
    `iteration_ns`, plus the time that inner loops add."""

    trip_count: int
    calls: tuple[KernelCall, ...]
    state: ResumeState
    iteration_ns: int
    limit_ns: int


@dataclass(frozen=True)
class WhileLoopBody:
    """Makes the calls as long as the pred in argument `predicate`, which the calls `test` compute, is true. The pred
    also says whether the kernel, which returns like a CountedLoopBody, must be launched again."""

    test: tuple[KernelCall, ...]
    predicate: int
    calls: tuple[KernelCall, ...]
    progress: int
    iteration_ns: int
    limit_ns: int


@dataclass(frozen=True)
class ConditionalBody:
    """Makes the calls of one branch: by a pred (`of_pred`) in argument `index` the first if it is true, by an s32 the
    last if it is out of range. `state`: if a call of a branch may return before it has finished."""

    index: int
    of_pred: bool
    branches: tuple[tuple[KernelCall, ...], ...]
    state: ResumeState | None


@dataclass(frozen=True)
class FrameBody:
    """Makes one call, of a kernel of control flow, which may take more arguments than a launch can. While it runs,
    those at the positions `promoted` are in private memory: they are copied there before, and those that it writes are
    copied back after it."""

    call: KernelCall
    promoted: tuple[int, ...]


StructuredBody = (
    CopyBody
    | AnyBody
    | MergedBody
    | IterationsBody
    | PersistentBody
    | CountedLoopBody
    | WhileLoopBody
    | ConditionalBody
    | FrameBody
)


def calls(body: StructuredBody) -> Iterator[KernelCall]:
    """The calls that a body makes, each once."""
    match body:
        case MergedBody(sections):
            for section in sections:
                yield from section.calls
        case PersistentBody(phases):
            for phase in phases:
                yield from calls_of_phase(phase)
        case FrameBody(call) | IterationsBody(_, call):
            yield call
        case CountedLoopBody():
            yield from body.calls
        case WhileLoopBody():
            yield from (*body.test, *body.calls)
        case ConditionalBody():
            for branch in body.branches:
                yield from branch


def calls_of_phase(phase: Phase) -> Iterator[KernelCall]:
    """The calls that a phase of a persistent kernel makes, each once."""
    match phase:
        case SharedPhase(sections):
            for section in sections:
                yield from section.calls
        case NestedPhases(call):
            yield call
        case TiledPhase(_, once, each):
            yield from (*once, *each)


def own_arguments(body: StructuredBody) -> Iterator[tuple[int, str]]:
    """The arguments that control flow itself reads and writes, with their C types."""
    states = [call.state for call in calls(body)]
    match body:
        case CountedLoopBody() | ConditionalBody():
            states.append(body.state)
    for state in states:
        if state is not None:
            yield from ((state.progress, "long"), (state.more, "uchar"))
    match body:
        case WhileLoopBody():
            yield from ((body.progress, "long"), (body.predicate, "uchar"))
        case ConditionalBody():
            yield body.index, "uchar" if body.of_pred else "int"
