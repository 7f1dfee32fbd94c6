"""Launches made one: what the device is asked to start, instead of each kernel by itself.

A launch costs microseconds, and many kernels take less: the updates of an optimiser, what a batch normalisation does
for each channel, the turn of a small loop. After a computation's steps are planned, its launches are gathered:

    side by side    kernels that do not need each other share a launch; each has its own range of items (a lane)
    in turn         kernels too small to be worth more than one core follow each other in one item, also where one
                    needs what the other makes
    turns           a loop whose turn is one such item becomes a launch itself

A kernel may move up past others that touch none of its memory; blocks then live from the earlier place on. Nothing
of this changes what a kernel computes, nor its bits. A merged kernel is a plan.Kernel whose body calls others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from . import plan as p
from ._core.fusion import Costs

MOST_ARGUMENTS = 96  # of a kernel: OpenCL promises 1024 bytes
SIZES = (8, 16, 24, 32, 48, 64, MOST_ARGUMENTS)  # numbers of arguments that merged kernels have: few __kernels
SMALL_US = 60.0  # a kernel that takes longer gains little from a shared launch
UNIT_US = 240.0  # of all kernels in a launch
FAR_BYTES = 1 << 18  # what writes more than this stays where it is, for it would lengthen the life of much memory
COPY_BYTES = 1 << 16  # a copy of up to this size can be a part of a launch
TURNS_US = 10_000.0  # of a loop in one launch: signals are answered between launches
LEAST_US = 0.05  # a call takes this
COPY = "copy"  # the name of a kernel that only copies


@dataclass(frozen=True)
class Merged:
    """Kernels that share a launch, for `explain`: the lanes, each a list of names; the turns it runs; and the
    microseconds that the cost model gives to the kernels and to the launches saved (of one turn)."""

    name: str
    lanes: tuple[tuple[str, ...], ...]
    turns: int
    kernels_us: float
    saved_us: float


@dataclass
class _Part:
    """A launch that may share: `us` on one core, the buffers it reads and writes."""

    step: p.Step
    kernel: p.Kernel
    buffers: tuple[int, ...]
    us: float
    reads: frozenset[int]
    writes: frozenset[int]
    serial: bool


@dataclass
class _Lane:
    parts: list[_Part]

    @property
    def serial(self) -> bool:
        return self.parts[0].serial

    @property
    def us(self) -> float:
        return sum(x.us for x in self.parts)

    @property
    def items(self) -> int:
        return 1 if self.serial else self.parts[0].kernel.items

    def meets(self, part: _Part) -> bool:
        return any(_conflict(x.reads, x.writes, part) for x in self.parts)


@dataclass
class _Unit:
    """What is launched at once, or another step. `time` is the planner's, of its first part."""

    time: int
    lanes: list[_Lane] = field(default_factory=list)
    step: p.Step | None = None
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()

    def meets(self, part: _Part) -> bool:
        return _conflict(self.reads, self.writes, part)

    def includes(self, part: _Part) -> None:
        self.reads |= part.reads
        self.writes |= part.writes

    @property
    def us(self) -> float:
        return sum(lane.us for lane in self.lanes)

    def holds(self, part: _Part) -> bool:
        """Whether there is room for one more."""
        known = {b for lane in self.lanes for x in lane.parts for b in x.buffers}
        return self.step is None and self.us + part.us <= UNIT_US and len(known | set(part.buffers)) <= MOST_ARGUMENTS


def _conflict(reads: frozenset[int], writes: frozenset[int], part: _Part) -> bool:
    return not (writes.isdisjoint(part.reads) and writes.isdisjoint(part.writes) and reads.isdisjoint(part.writes))


class Merging:
    """Merges the steps of one plan after the other; `kernels` are the planner's, and grow.

    `live(buffer, time)` is called for a buffer that must have memory from `time` on.
    """

    def __init__(
        self,
        kernels: list[p.Kernel],
        bytes_of: Callable[[int], int],
        live: Callable[[int, int], None],
        costs: Costs,
        cores: int,
    ) -> None:
        self.kernels, self.bytes_of, self.live = kernels, bytes_of, live
        self.launch_us, self.cores = costs.launch / 1e3, cores
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
        return tuple(self._step(unit) for unit in units)

    def folded(self, turns: int, body: Sequence[p.Step], counter: int | None, table: int | None) -> p.Step:
        """A loop of known turns, as one launch where its turn is small."""
        step = p.Repeat(turns, tuple(body), counter, table)
        lane = self._serial(body)
        if lane is None or turns < 2 or turns * max(lane.us, LEAST_US) > TURNS_US:
            return step
        size = 0 if counter is None else self.bytes_of(counter)
        return self._launch([lane], turns, {counter: (table, size)} if counter is not None else {})

    def waited(self, condition: Sequence[p.Step], predicate: int, body: Sequence[p.Step]) -> p.Step:
        """A loop that ends by a predicate: many turns in one launch where a turn is small."""
        step = p.Loop(tuple(condition), predicate, tuple(body))
        test = self._serial(condition) if condition else _Lane([])
        turn = self._serial(body)
        if test is None or turn is None:
            return step
        us = max(test.us + turn.us, LEAST_US)
        turns = int(TURNS_US / us)
        code = _Body()
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

    def _serial(self, body: Sequence[p.Step]) -> _Lane | None:
        """All of a loop's turn as one lane, if one core has done it sooner than several that must be started."""
        parts = [self._part(s, alone=True) for s in body]
        if not parts or None in parts:
            return None
        lane = _Lane(parts)
        split = sum(self._split(x) for x in parts)
        if lane.us > split + self.launch_us * len(parts) or len({b for x in parts for b in x.buffers}) > MOST_ARGUMENTS:
            return None
        for part in parts:
            part.serial = True
        return lane

    def _split(self, part: _Part) -> float:
        """The microseconds of a kernel on all cores."""
        return part.us / max(1, min(part.kernel.items, self.cores))

    def _part(self, step: p.Step, alone: bool = False) -> _Part | None:
        """A step as something that can share a launch; None if it cannot. `alone`: it may be as large as it wants."""
        if isinstance(step, p.Copy) and self.bytes_of(step.source) <= COPY_BYTES:
            size = self.bytes_of(step.source)
            kernel, buffers, us = copy_kernel(size), (step.source, step.target), size / 10e3
        elif isinstance(step, p.Launch):
            kernel, buffers, us = self.kernels[step.kernel], step.buffers, self.kernels[step.kernel].us
        else:
            return None
        reads, writes = uses(step, self.kernels)
        part = _Part(step, kernel, buffers, max(us, LEAST_US), reads, writes, False)
        part.serial = part.us - self._split(part) <= self.launch_us
        if len(buffers) > MOST_ARGUMENTS or (part.us > SMALL_US * self.cores and not alone):
            return None
        return part

    def _place(self, units: list[_Unit], time: int, part: _Part) -> None:
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
        units.append(_Unit(time, [_Lane([part])], None, part.reads, part.writes))

    def _moved(self, unit: _Unit, part: _Part) -> None:
        unit.includes(part)
        for b in part.buffers:
            self.live(b, unit.time)

    def _follow(self, unit: _Unit, part: _Part) -> bool:
        """Put a part behind those in the unit that it needs, in the same item."""
        if not unit.holds(part) or not part.serial:
            return False
        met = [lane for lane in unit.lanes if lane.meets(part)]
        if not all(lane.serial for lane in met):
            return False
        if len(met) > 1 and sum(lane.us for lane in met) > 2 * self.launch_us:
            return False
        first = met[0]
        for other in met[1:]:
            first.parts += other.parts
            unit.lanes.remove(other)
        first.parts.append(part)
        return True

    def _beside(self, unit: _Unit, part: _Part) -> None:
        """Put a part into a lane of its own, or into one that is shorter than a start is worth."""
        if part.serial:
            for lane in unit.lanes:
                if lane.serial and lane.us + part.us <= self.launch_us:
                    lane.parts.append(part)
                    return
        unit.lanes.append(_Lane([part]))

    # -- the kernels ----------------------------------------------------------------------------------------------

    def _step(self, unit: _Unit) -> p.Step:
        if unit.step is not None:
            return unit.step
        if len(unit.lanes) == 1 and len(unit.lanes[0].parts) == 1:
            return unit.lanes[0].parts[0].step
        return self._launch(unit.lanes, 1, {})

    def _launch(self, lanes: list[_Lane], turns: int, counted: dict[int, tuple[int, int]]) -> p.Launch:
        """The launch of a merged kernel. `counted`: buffers that are, in each turn, the next element of a table (its
        buffer, the bytes of an element)."""
        body = _Body(counted)
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

    def _enter(self, body: _Body, lanes: list[_Lane], items: int, turns: int) -> p.Launch:
        """Make a body a kernel, note what it is, and launch it."""
        buffers, arguments = body.arguments()
        us = turns * sum(lane.us for lane in lanes)
        kernel = p.Kernel(f"together.{len(self.merged)}", body.text(), arguments, items, tuple(body.calls), us)
        parts = sum(len(lane.parts) for lane in lanes)
        names = tuple(tuple(x.kernel.name for x in lane.parts) for lane in lanes)
        self.merged.append(Merged(kernel.name, names, turns, us, (turns * parts - 1) * self.launch_us))
        self.kernels.append(kernel)
        return p.Launch(len(self.kernels) - 1, buffers)


class _Body:
    """The text of a merged kernel: calls of others, each on some of its own arguments, one for each buffer."""

    def __init__(self, counted: dict[int, tuple[int, int]] | None = None) -> None:
        self.counted = counted or {}
        self.numbers: dict[int, int] = {}  # buffer -> argument
        self.first: dict[int, p.Argument] = {}
        self.written: set[int] = set()
        self.calls: list[p.Kernel] = []
        self.lines: list[str] = []

    def call(self, part: _Part, item: str = "") -> None:
        """Run one item of a part, or all of them in turn."""
        given = []
        for b, a in zip(part.buffers, part.kernel.arguments, strict=True):
            table, size = self.counted.get(b, (b, 0))
            number = self.argument(table, a)
            qualifier = "const " if a.role == "input" else ""
            place = f"((__global const uchar*)a{number} + turn * {size})" if size else f"a{number}"
            given.append(f"(__global {qualifier}{a.ctype}*){place}")
        name, items = f"call_{len(self.calls)}", part.kernel.items
        self.calls.append(part.kernel)
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
    """A kernel of one item that copies so many bytes."""
    ctype, width = next((c, w) for c, w in (("uint", 4), ("ushort", 2), ("uchar", 1)) if size % w == 0)
    body = f"    for (int i = 0; i < {size // width}; ++i) a1[i] = a0[i];\n"
    arguments = (p.Argument("input", ctype, bytes=size), p.Argument("output", ctype, bytes=size))
    return p.Kernel(COPY, body, arguments, 1)


def uses(step: p.Step, kernels: Sequence[p.Kernel]) -> tuple[frozenset[int], frozenset[int]]:
    """The buffers that a step reads and those that it writes."""
    match step:
        case p.Launch(kernel, buffers):
            roles = [a.role for a in kernels[kernel].arguments]
            written = frozenset(b for b, role in zip(buffers, roles, strict=True) if role != "input")
            return frozenset(buffers), written
        case p.Copy(source, target):
            return frozenset([source]), frozenset([target])
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
