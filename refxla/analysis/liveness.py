"""Live ranges: between which points of a plan's execution each buffer holds a value that is read later.

The steps are walked in order, into the bodies of loops, branches and merged kernels; each launch of a single kernel,
copy or call is a point. Kernels that may run at the same time are one point: sections, the tiles of a phase, and all
calls of a GPU's work-group, whose items wait for each other only where a call needs the result of another one. A buffer
is live from its first use to its last. In addition, it is live throughout a loop

    if it is also used outside of the loop, or
    if an iteration may read it before it has overwritten it: the value is that of the iteration before.

Buffers that a kernel keeps in private memory, and its frame, are live as long as it runs: it reads them when it begins,
and writes them when it returns.

A kernel overwrites its scratch memory, and each output that does not start as the value of an input (Argument.updates).
Scratch memory that a later stage reads was written by an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir import merged_body as m
from ..ir import plan as p

Range = tuple[int, int]  # the first and the last point
# For each buffer that some steps use: whether it is overwritten before it is read, and how often it is used.
Uses = dict[int, tuple[bool, int]]


def live_ranges(steps: Sequence[p.Step], kernels: Sequence[p.Kernel]) -> dict[int, Range]:
    """The live range of each buffer that the steps use, by its number."""
    walk = _Walk(kernels, {})
    everywhere = walk.steps(steps)
    if walk.has_branches:  # is a buffer that some branches do not write used elsewhere?
        walk = _Walk(kernels, everywhere)
        walk.steps(steps)
    for first, last, inside in walk.loops:
        for buffer, (overwritten, count) in inside.items():
            if not overwritten or count < everywhere[buffer][1]:
                begin, end = walk.ranges[buffer]
                walk.ranges[buffer] = min(begin, first), max(end, last)
    return walk.ranges


class _Walk:
    """One walk over steps: the first and last points at which buffers are used, and the loops (the first and the last
    point, and what an iteration uses). `everywhere` has all uses, from an earlier walk."""

    def __init__(self, kernels: Sequence[p.Kernel], everywhere: Uses) -> None:
        self.kernels, self.everywhere = kernels, everywhere
        self.has_branches = False
        self.point = 0
        self.parallel = 0  # the depth of the walk within what is one point
        self.ranges: dict[int, Range] = {}
        self.loops: list[tuple[int, int, Uses]] = []

    def mention(self, uses: Uses, buffers: Iterable[int], overwritten: bool) -> None:
        """Records uses of buffers at this point, after those in `uses`."""
        for b in buffers:
            begin, _ = self.ranges.get(b, (self.point, 0))
            self.ranges[b] = begin, self.point
            first, count = uses.get(b, (overwritten, 0))
            uses[b] = first, count + 1

    def next(self) -> None:
        """Moves on to the next point, unless all of this is one point."""
        self.point += not self.parallel

    # -- steps ---------------------------------------------------------------------------------------------------------

    def steps(self, steps: Iterable[p.Step]) -> Uses:
        """Walks over steps. Returns what they use."""
        uses: Uses = {}
        for step in steps:
            self.next()
            match step:
                case p.Launch(number, buffers):
                    _add(uses, self.kernel(self.kernels[number], buffers))
                case p.Copy(source, target):
                    self.mention(uses, [source], False)
                    self.mention(uses, [target], True)
                case p.HostCall(_, operands, results):
                    self.mention(uses, operands, False)
                    self.mention(uses, results, True)
                case p.LibraryCall():
                    self.mention(uses, step.operands, False)
                    self.mention(uses, step.written, True)
                case p.Loop(condition, predicate, body):
                    first = self.point
                    inside = self.steps(condition)
                    self.next()
                    self.mention(inside, [predicate], False)
                    _add(inside, self.steps(body))
                    _add(uses, self.loop(first, inside))
                case p.Repeat(_, body, counter, table):
                    first, inside = self.point, {}
                    if counter is not None and table is not None:  # the host writes the counter, not an iteration
                        self.mention(inside, [table, counter], False)
                    _add(inside, self.steps(body))
                    _add(uses, self.loop(first, inside))
                case p.Branch(index, branches):
                    self.mention(uses, [index], False)
                    _add(uses, self.either([self.steps(branch) for branch in branches]))
        return uses

    def loop(self, first: int, inside: Uses) -> Uses:
        """Records a loop that began at a point, and what an iteration uses."""
        self.next()
        self.loops.append((first, self.point, dict(inside)))
        return inside

    def either(self, branches: Sequence[Uses]) -> Uses:
        """The uses where one of several branches is taken. A buffer is overwritten if all branches overwrite it first;
        it is enough that all branches that use it do, if nothing outside of them uses it, according to the counts in
        `everywhere`."""
        self.has_branches = True
        uses: Uses = {}
        for branch in branches:
            for buffer, (overwritten, count) in branch.items():
                others, before = uses.get(buffer, (True, 0))
                uses[buffer] = others and overwritten, before + count
        for buffer, (overwritten, count) in uses.items():
            if overwritten and not all(buffer in branch for branch in branches):
                uses[buffer] = buffer not in self.everywhere or self.everywhere[buffer][1] == count, count
        return uses

    # -- kernels -------------------------------------------------------------------------------------------------------

    def kernel(self, kernel: p.Kernel, buffers: Sequence[int]) -> Uses:
        """Walks over a kernel's body, whose arguments are these buffers. Returns what it uses."""
        together = kernel.work_group > 0
        self.parallel += together
        uses: Uses = {}
        self.mention(uses, [buffers[predicate.argument] for predicate in kernel.predicates], False)
        _add(uses, self.body(kernel, buffers))
        self.parallel -= together
        return uses

    def body(self, kernel: p.Kernel, buffers: Sequence[int]) -> Uses:
        """Walk over what a kernel does."""
        uses: Uses = {}
        match kernel.body:
            case str() | m.CopyBody() | m.AnyBody():
                for whole in (False, True):  # a buffer that is read as well is not overwritten first
                    arguments = zip(buffers, kernel.arguments, strict=True)
                    self.mention(uses, [b for b, a in arguments if _overwrites(a) == whole], whole)
            case m.MergedBody(sections, trip_count):
                first = self.point
                _add(uses, self.sections(kernel, buffers, sections))
                if trip_count > 1:
                    self.loop(first, uses)
            case m.IterationsBody(_, call, unfinished, more):
                if unfinished is not None and more is not None:  # what an item has written, it finds when it is resumed
                    self.mention(uses, [buffers[n] for n in (unfinished, more, *call.arguments)], False)
                _add(uses, self.calls(kernel, buffers, [call]))
            case m.PersistentBody(phases, trip_count):
                first = self.point
                self.mention(uses, [buffers[0]], False)
                for phase in phases:
                    self.next()
                    _add(uses, self.phase(kernel, buffers, phase))
                if trip_count > 1:
                    self.loop(first, uses)
            case m.CountedLoopBody(_, calls, state):
                first = self.point
                self.mention(uses, [buffers[state.progress]], False)
                self.mention(uses, [buffers[state.more]], True)
                _add(uses, self.calls(kernel, buffers, calls))
                self.loop(first, uses)
            case m.WhileLoopBody(test, predicate, calls, progress):
                first = self.point
                self.mention(uses, [buffers[progress]], False)
                _add(uses, self.calls(kernel, buffers, test))
                self.mention(uses, [buffers[predicate]], False)
                _add(uses, self.calls(kernel, buffers, calls))
                self.loop(first, uses)
            case m.ConditionalBody(index, _, branches, resumed):
                first = self.point
                self.mention(uses, [buffers[index]], False)
                if resumed is not None:
                    self.mention(uses, [buffers[resumed.progress]], False)
                    self.mention(uses, [buffers[resumed.more]], True)
                _add(uses, self.either([self.calls(kernel, buffers, calls) for calls in branches]))
                if resumed is not None:  # it is launched again to resume
                    self.loop(first, uses)
            case m.FrameBody(call, promoted):
                numbers = {call.arguments[n] for n in (*promoted, *(n for n, _ in call.offsets))}
                throughout = [buffers[n] for n in sorted(numbers)]
                self.mention(uses, throughout, False)
                _add(uses, self.calls(kernel, buffers, [call]))
                self.next()
                self.mention(uses, throughout, False)
        return uses

    def phase(self, kernel: p.Kernel, buffers: Sequence[int], phase: m.Phase) -> Uses:
        """Walk over a phase."""
        match phase:
            case m.SharedPhase(sections):
                return self.sections(kernel, buffers, sections)
            case m.NestedPhases(call):
                return self.calls(kernel, buffers, [call])
            case m.TiledPhase(_, once, each, unfinished):
                uses: Uses = {}
                calls = [*once, *each]
                if unfinished is not None:  # what a tile has written, it finds when it is resumed
                    self.mention(
                        uses, [buffers[n] for n in (unfinished, *(n for c in calls for n in c.arguments))], False
                    )
                self.parallel += 1
                _add(uses, self.calls(kernel, buffers, calls))
                self.parallel -= 1
                return uses
            case m.ExitPhase(predicate):
                uses = {}
                self.mention(uses, [buffers[predicate]], False)
                return uses

    def sections(self, kernel: p.Kernel, buffers: Sequence[int], sections: Sequence[m.SectionBody]) -> Uses:
        """Walks over sections, which run at the same time; the calls within a single one run in order."""
        self.parallel += len(sections) > 1
        uses: Uses = {}
        for section in sections:
            _add(uses, self.calls(kernel, buffers, section.calls))
        self.parallel -= len(sections) > 1
        return uses

    def calls(self, kernel: p.Kernel, buffers: Sequence[int], calls: Iterable[m.KernelCall]) -> Uses:
        """Walks over calls that run in order."""
        uses: Uses = {}
        for call in calls:
            self.next()
            _add(uses, self.kernel(kernel.calls[call.kernel], [buffers[n] for n in call.arguments]))
            if call.state is not None:  # the caller reads whether the kernel has finished
                self.mention(uses, [buffers[call.state.progress], buffers[call.state.more]], False)
        return uses


def _overwrites(argument: p.Argument) -> bool:
    """Whether a kernel writes all of an argument, and reads it only after that."""
    return argument.role == "scratch" or (argument.role == "output" and argument.updates is None)


def _add(uses: Uses, more: Uses) -> None:
    """Add `more`, the uses after those in `uses`."""
    for buffer, (overwritten, count) in more.items():
        first, before = uses.get(buffer, (overwritten, 0))
        uses[buffer] = first, before + count
