"""The elements of a merged kernel: sections of parts, which run one after the other, and the arguments that they share.

launch_merging.py says which kernels share a launch, persistent_launches.py which become phases of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..ir import merged_body as m
from ..ir import plan as p

_T = TypeVar("_T")

MOST_ARGUMENTS = 96  # of a kernel: OpenCL promises 1024 bytes
SIZES = (8, 16, 24, 32, 48, 64, MOST_ARGUMENTS)  # numbers of arguments that merged kernels have: few __kernels
COPY = "copy"  # the name of a kernel that only copies
COPY_ITEM = 1 << 16  # bytes that an item of it copies
COPIED_AT_A_TIME = 16  # bytes in flight for each item of a work-group, in the estimate


@dataclass(frozen=True)
class MergedLaunch:
    """Kernels that share a launch, for `explain`: the sections, each a list of names; the trip count; the microseconds
    that the cost model gives to the kernels and to the launches saved, in all iterations. Of a `persistent` kernel with
    phases, its one section names those; if each of `trip_count` tiles goes through the kernels, `each` is "tile", and
    "iteration" if these are the iterations of a loop that run on different cores."""

    name: str
    sections: tuple[tuple[str, ...], ...]
    trip_count: int
    kernels_us: float
    saved_us: float
    persistent: bool = False
    each: str = ""


@dataclass
class MergeableLaunch:
    """A launch that may share: `us` on one core, the buffers it reads and writes, its items or, on a GPU, work-groups
    (`units`).

    `resumable`: its kernel may return before it has finished (serial_control_flow.py); the buffers of its progress, and
    of the pred that says whether it must be called again.
    """

    step: p.Step
    kernel: p.Kernel
    buffers: tuple[int, ...]
    us: float
    reads: frozenset[int]
    writes: frozenset[int]
    serial: bool
    units: int
    resumable: tuple[int, int] | None = None

    @property
    def has_barriers(self) -> bool:
        """Whether its kernel, which is a GPU's, has barriers."""
        return self.kernel.work_group > 0 and (self.kernel.local_bytes > 0 or bool(self.kernel.calls))


@dataclass
class Section:
    """Parts that run one after the other. `serial` parts are all run by one item; otherwise there is a single part,
    whose items run in parallel."""

    parts: list[MergeableLaunch]

    @property
    def resumable(self) -> bool:
        return any(x.resumable is not None for x in self.parts)

    @property
    def serial(self) -> bool:
        return self.parts[0].serial

    @property
    def us(self) -> float:
        return sum(x.us for x in self.parts)

    @property
    def buffers(self) -> set[int]:
        return {b for x in self.parts for b in x.buffers}

    @property
    def units(self) -> int:
        return 1 if self.serial else self.parts[0].units

    def meets(self, part: MergeableLaunch) -> bool:
        """Whether a part must come after one of these, or before it."""
        return any(conflict(x.reads, x.writes, part) for x in self.parts)


def conflict(reads: frozenset[int], writes: frozenset[int], part: MergeableLaunch) -> bool:
    return not (writes.isdisjoint(part.reads) and writes.isdisjoint(part.writes) and reads.isdisjoint(part.writes))


# Buffers that are a part of another one, which may be a different part in each iteration of a loop: (the other one,
# how far into it; None: they are the same).
SubBuffers = dict[int, tuple[int, m.Offset | None]]


class ArgumentList:
    """The arguments of a merged kernel while it is made, one for each buffer, and the kernels that it calls."""

    def __init__(self, sub_buffers: SubBuffers | None = None) -> None:
        self.sub_buffers = sub_buffers or {}
        self.numbers: dict[int, int] = {}  # buffer -> argument
        self.first: dict[int, p.Argument] = {}
        self.written: set[int] = set()
        self.calls: list[p.Kernel] = []

    def call(self, part: MergeableLaunch) -> m.KernelCall:
        """The call of a part, whose buffers become arguments."""
        numbers: list[int] = []
        offsets: list[tuple[int, m.Offset]] = []
        for b, a in zip(part.buffers, part.kernel.arguments, strict=True):
            surrounding, offset = self.sub_buffers.get(b, (b, None))
            if offset is not None:
                offsets.append((len(numbers), offset))
            numbers.append(self.argument(surrounding, a))
        state = None if part.resumable is None else m.ResumeState(*(self.numbers[b] for b in part.resumable))
        self.calls.append(part.kernel)
        return m.KernelCall(len(self.calls) - 1, tuple(numbers), tuple(offsets), state)

    def section(self, section: Section) -> m.SectionBody:
        """The calls of a section."""
        return m.SectionBody(section.units, tuple(map(self.call, section.parts)), section.serial)

    def argument(self, buffer: int, a: p.Argument) -> int:
        """The number of the argument for a buffer, which a part takes as `a`."""
        if a.role != "input":
            self.written.add(buffer)
        self.first.setdefault(buffer, a)
        return self.numbers.setdefault(buffer, len(self.numbers))

    def arguments(self) -> tuple[tuple[int, ...], tuple[p.Argument, ...]]:
        """The buffers, and the arguments for them."""
        arguments = tuple(
            p.Argument("output" if b in self.written else "input", "uchar", a.instruction, a.bytes)
            for b, a in self.first.items()
        )
        return tuple(self.numbers), arguments


@dataclass(frozen=True)
class BoundKernel:
    """A merged kernel with the buffers of its arguments."""

    kernel: p.Kernel
    buffers: tuple[int, ...]

    def padded(self) -> BoundKernel:
        """With the first buffer repeated up to one of SIZES."""
        first, count = self.kernel.arguments[0], len(self.buffers)
        spare = min(n for n in SIZES if n >= count) - count
        again = p.Argument("input", "uchar", first.instruction, first.bytes)
        arguments = (*self.kernel.arguments, *[again] * spare)
        return BoundKernel(replace(self.kernel, arguments=arguments), (*self.buffers, *self.buffers[:1] * spare))


def copy_kernel(size: int, group: int = 0, groups: int = 1) -> p.Kernel:
    """A kernel that copies so many bytes; `group`: by at most `groups` work-groups of so many items."""
    ctype, width = next((c, w) for c, w in (("uint", 4), ("ushort", 2), ("uchar", 1)) if size % w == 0)
    groups = max(1, min(groups, -(-size // width // group))) if group else 1
    body = m.CopyBody(size // width, 0 if group else COPY_ITEM // width, groups)
    arguments = (p.Argument("input", ctype, bytes=size), p.Argument("output", ctype, bytes=size))
    return p.Kernel(COPY, body, arguments, group * groups or -(-size // COPY_ITEM), work_group=group)


def uses(step: p.Step, kernels: Sequence[p.Kernel]) -> tuple[frozenset[int], frozenset[int]]:
    """The buffers that a step reads and those that it writes."""
    reads: set[int] = set()
    writes: set[int] = set()
    match step:
        case p.Launch(kernel, buffers):
            roles = [a.role for a in kernels[kernel].arguments]
            written = frozenset(b for b, role in zip(buffers, roles, strict=True) if role != "input")
            return frozenset(buffers), written
        case p.Copy(source, target):
            return frozenset([source]), frozenset([target])
        case p.HostCall(_, operands, results):
            return frozenset(operands), frozenset(results)
        case p.LibraryCall():
            return frozenset(step.operands), frozenset(step.written)
        case p.Loop(condition, predicate, body):
            inside, reads = (*condition, *body), {predicate}
        case p.Repeat(_, body, counter, table):
            inside = body
            if counter is not None and table is not None:
                reads, writes = {table}, {counter}
        case p.Branch(index, branches):
            inside, reads = tuple(s for b in branches for s in b), {index}
        case _:
            raise TypeError(f"{step!r} is no step of a plan")
    for s in inside:
        r, w = uses(s, kernels)
        reads |= r
        writes |= w
    return frozenset(reads), frozenset(writes)


def all_or_none(values: Iterable[_T | None]) -> list[_T] | None:
    """The elements as a list, or None if one of them is None."""
    whole = []
    for x in values:
        if x is None:
            return None
        whole.append(x)
    return whole
