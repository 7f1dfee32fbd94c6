"""Runs many cases on several targets, in worker processes that a case may crash or hang."""

from __future__ import annotations

import os
import selectors
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

from refxla_spec.errors import Error, InputError

from . import worker
from .case_check import Outcome, Verdict, died
from .cases import Case
from .targets.child import Child, ChildDied, ChildError, ChildTimedOut

LIMIT = 300.0  # seconds that one case may take on one target; most take 0.1 s, and far more on a machine that is busy
BATCH = 16  # cases that a worker gets at a time
WORKER = "refxla_conformance.worker"


@dataclass
class Crash:
    """How a worker ended on several cases, and the verdict of each of these by itself: if none ends a worker then, the
    combination does."""

    reason: str
    cases: list[Case]
    verdicts: list[Verdict] = field(default_factory=list)
    again: bool = False  # whether one of them has ended a worker by itself

    def settled(self) -> list[Verdict]:
        """The verdicts, once all are there; until then none. The last case fails for a crash that no single case
        causes."""
        if len(self.verdicts) < len(self.cases):
            return []
        if not self.again:
            last = self.verdicts[-1]
            more = "" if last.outcome is Outcome.PASS else f"; by itself: {last.outcome.value}, {last.reason}"
            reason = (
                f"the target's process: {self.reason}, on {len(self.cases)} cases in one process, "
                f"{self.cases[0].name} to {self.cases[-1].name}, and on none of them by itself{more}"
            )
            self.verdicts[-1] = replace(last, outcome=Outcome.FAIL, reason=reason)
        return self.verdicts


@dataclass
class Task:
    """Cases that run on a target at once; for a case that is repeated by itself, the earlier crash."""

    cases: list[Case]
    target: str
    crash: Crash | None = None


def run(
    cases: Sequence[Case], targets: Sequence[str], jobs: int | None = None, limit: float = LIMIT
) -> Generator[Verdict]:
    """The verdict of each case on each target, as they come.

    `jobs` is the number of worker processes: as many as the machine has cores, if None; 0 runs everything in this
    process, case by case, where a crash ends it and nothing ends a hang. A worker takes several cases at a time, and
    runs them on each of the targets. Cases that end their worker, or take more than `limit` seconds, run on the target
    again one by one; the one that does so alone fails on that target, and the worker is replaced. If none ends its
    worker alone, the last one fails. (If none exceeds `limit` alone, the limit was only too short for all of them.)
    """
    if jobs == 0:
        for case in cases:
            for target in targets:
                yield from worker.ask([case], target)
        return
    jobs = jobs or os.cpu_count() or 1
    size = max(1, min(BATCH, len(cases) // (4 * jobs)))
    batches = deque(list(cases[n : n + size]) for n in range(0, len(cases), size))
    workers = [Child(WORKER) for _ in range(min(jobs, len(batches)))]
    try:
        yield from _share(workers, batches, targets, limit)
    finally:
        for child in workers:
            child.close()


def _share(
    workers: list[Child], batches: deque[list[Case]], targets: Sequence[str], limit: float
) -> Generator[Verdict]:
    """Keeps each worker busy with one question at a time until no case is left."""
    todo: dict[Child, deque[Task]] = {child: deque() for child in workers}
    with selectors.DefaultSelector() as selector:

        def put(child: Child) -> None:
            if not todo[child] and batches:
                batch = batches.popleft()
                todo[child].extend(Task(batch, target) for target in targets)
            if todo[child]:
                child.send("ask", todo[child][0].cases, todo[child][0].target, limit=limit)
                selector.register(child, selectors.EVENT_READ, child)

        for child in workers:
            put(child)
        while selector.get_map():
            ready: set[Child] = {key.data for key, _ in selector.select(1.0)}
            for child in [key.data for key in selector.get_map().values()]:
                if child in ready or child.overdue:
                    selector.unregister(child)
                    task = todo[child].popleft()
                    try:
                        yield from _settled(task, child.receive())
                    except ChildDied as error:
                        if len(task.cases) == 1:
                            verdict = died(task.cases[0], task.target, f"the target's process: {error}")
                            yield from _settled(task, [verdict], True)
                        else:
                            crash = None if isinstance(error, ChildTimedOut) else Crash(str(error), task.cases)
                            todo[child].extendleft(Task([case], task.target, crash) for case in reversed(task.cases))
                    put(child)


def _settled(task: Task, verdicts: list[Verdict], died: bool = False) -> list[Verdict]:
    """The verdicts after a task, except those that may still turn out to be a crash of the combination."""
    if task.crash is None:
        return verdicts
    task.crash.again |= died
    task.crash.verdicts += verdicts
    return task.crash.settled()


def versions(targets: Sequence[str]) -> dict[str, dict[str, str]]:
    """For each target the versions that it reports. Raises InputError for an unknown target, and for one that cannot be
    created or reports no versions, for example without a device."""
    child, by_target = Child(WORKER), {}
    try:
        for target in targets:
            try:
                by_target[target] = child.ask("versions", target, limit=LIMIT)
            except InputError:
                raise
            except (Error, ChildDied, ChildError) as problem:
                raise InputError(f"target {target} cannot be asked: {problem}") from None
        return by_target
    finally:
        child.close()
