"""What a merged kernel is made of: parts, one after the other in sections, and a body of text that calls them.

launch_merging.py says which kernels share a launch, persistent_kernel.py how the items of one go through many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import plan as p

MOST_ARGUMENTS = 96  # of a kernel: OpenCL promises 1024 bytes
SIZES = (8, 16, 24, 32, 48, 64, MOST_ARGUMENTS)  # numbers of arguments that merged kernels have: few __kernels
COPY = "copy"  # the name of a kernel that only copies
COPY_ITEM = 1 << 16  # bytes that an item of it copies


@dataclass(frozen=True)
class MergedLaunch:
    """Kernels that share a launch, for `explain`: the sections, each a list of names; the trip count; the microseconds
    that the cost model gives to the kernels and to the launches saved (of one iteration); and whether it is a
    persistent kernel, whose phases the sections then are."""

    name: str
    sections: tuple[tuple[str, ...], ...]
    trip_count: int
    kernels_us: float
    saved_us: float
    persistent: bool = False


@dataclass
class Call:
    """A launch that may share: `us` on one core, the buffers it reads and writes.

    `resumable`: its kernel may leave before it has done all (serial_control_flow.py); the buffers of its progress, and
    of the pred that says whether it must be called again.
    """

    step: p.Step
    kernel: p.Kernel
    buffers: tuple[int, ...]
    us: float
    reads: frozenset[int]
    writes: frozenset[int]
    serial: bool
    resumable: tuple[int, int] | None = None


@dataclass
class Section:
    parts: list[Call]

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
    def items(self) -> int:
        return 1 if self.serial else self.parts[0].kernel.items

    def meets(self, part: Call) -> bool:
        return any(conflict(x.reads, x.writes, part) for x in self.parts)


def conflict(reads: frozenset[int], writes: frozenset[int], part: Call) -> bool:
    return not (writes.isdisjoint(part.reads) and writes.isdisjoint(part.writes) and reads.isdisjoint(part.writes))


# Buffers that are a part of another one, which may be a different part in each iteration of a loop: (the other one, C).
Places = dict[int, tuple[int, str]]


class Body:
    """The text of a merged kernel: calls of others, each on some of its own arguments, one for each buffer.

    `places` has the buffers that lie in others: which one, and how many bytes into it, as C (see Places).
    """

    def __init__(self, places: Places | None = None) -> None:
        self.places = places or {}
        self.numbers: dict[int, int] = {}  # buffer -> argument
        self.first: dict[int, p.Argument] = {}
        self.written: set[int] = set()
        self.calls: list[p.Kernel] = []
        self.lines: list[str] = []

    def call(self, part: Call, item: str = "") -> None:
        """Run one item of a part, or all of them one after the other."""
        given = []
        for b, a in zip(part.buffers, part.kernel.arguments, strict=True):
            around, offset = self.places.get(b, (b, ""))
            number = self.argument(around, a)
            qualifier = "const " if a.role == "input" else ""
            place = f"((__global {qualifier}uchar*)a{number} + {offset})" if offset else f"a{number}"
            given.append(f"(__global {qualifier}{a.ctype}*){place}")
        name, items = f"call_{len(self.calls)}", part.kernel.items
        self.calls.append(part.kernel)
        if part.kernel.persistent:
            self.lines.append(f"    {name}(item, workers, phase, {', '.join(given)});")
            return
        loop = f"for (int i = 0; i < {items}; ++i) " if not item and items > 1 else ""
        item = item or ("i" if loop else "0")
        self.lines.append(f"    {loop}{name}({item}, {', '.join(given)});")

    def argument(self, buffer: int, a: p.Argument) -> int:
        if a.role != "input":
            self.written.add(buffer)
        self.first.setdefault(buffer, a)
        return self.numbers.setdefault(buffer, len(self.numbers))

    def arguments(self) -> tuple[tuple[int, ...], tuple[p.Argument, ...]]:
        """The buffers, and the arguments for them; the first again to fill up one of SIZES."""
        made = [
            p.Argument("output" if b in self.written else "input", "uchar", a.instruction, a.bytes)
            for b, a in self.first.items()
        ]
        spare = min(n for n in SIZES if n >= len(made)) - len(made)
        buffers = list(self.numbers)
        again = p.Argument("input", "uchar", made[0].instruction, made[0].bytes)
        return (*buffers, *buffers[:1] * spare), (*made, *[again] * spare)

    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)


def copy_kernel(size: int) -> p.Kernel:
    """A kernel that copies so many bytes."""
    ctype, width = next((c, w) for c, w in (("uint", 4), ("ushort", 2), ("uchar", 1)) if size % w == 0)
    count, each = size // width, COPY_ITEM // width
    if size <= COPY_ITEM:
        body = f"    for (int i = 0; i < {count}; ++i) a1[i] = a0[i];\n"
    else:
        body = f"    const long begin = (long)item * {each};\n"
        body += f"    const int n = {count} - begin < {each} ? (int)({count} - begin) : {each};\n"
        body += "    for (int i = 0; i < n; ++i) a1[begin + i] = a0[begin + i];\n"
    arguments = (p.Argument("input", ctype, bytes=size), p.Argument("output", ctype, bytes=size))
    return p.Kernel(COPY, body, arguments, -(-size // COPY_ITEM))


def uses(step: p.Step, kernels: Sequence[p.Kernel]) -> tuple[frozenset[int], frozenset[int]]:
    """The buffers that a step reads and those that it writes."""
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
            inside, reads, writes = (*condition, *body), {predicate}, set()
        case p.Repeat(_, body, counter, table):
            inside = body
            reads, writes = (set(), set()) if counter is None else ({table}, {counter})
        case p.Branch(index, branches):
            inside, reads, writes = tuple(s for b in branches for s in b), {index}, set()
        case _:
            raise TypeError(f"{step!r} is no step of a plan")
    for s in inside:
        r, w = uses(s, kernels)
        reads |= r
        writes |= w
    return frozenset(reads), frozenset(writes)
