"""Many cases put to several targets, in worker processes that a case may crash or hang."""

from __future__ import annotations

import os
import selectors
from collections import deque
from collections.abc import Iterator, Sequence

from refxla_spec.errors import Error, InputError

from . import worker
from .cases import Case
from .check import Verdict, died
from .targets.child import Child, ChildDied, ChildError

LIMIT = 300.0  # seconds that one case may take on one target; most take 0.1 s, and far more on a machine that is busy
BATCH = 16  # cases that a worker is given at a time
WORKER = "refxla_conformance.worker"

Task = tuple[list[Case], str]  # cases that are put to a target in one go


def run(
    cases: Sequence[Case], targets: Sequence[str], jobs: int | None = None, limit: float = LIMIT
) -> Iterator[Verdict]:
    """The verdict of each case on each target, as they come.

    `jobs` is the number of worker processes: as many as the machine has cores, if None; 0 runs everything in this
    process, case by case, where a crash ends it and nothing ends what hangs. A worker takes some cases at a time, and
    puts them to each of the targets. Cases that end their worker, or take more than `limit` seconds, are put to the
    target again one by one; the one that does so alone fails on that target, and the worker is replaced.
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


def _share(workers: list[Child], batches: deque[list[Case]], targets: Sequence[str], limit: float) -> Iterator[Verdict]:
    """Keeps each worker busy with one question at a time until no case is left."""
    todo: dict[Child, deque[Task]] = {child: deque() for child in workers}
    with selectors.DefaultSelector() as selector:

        def put(child: Child) -> None:
            if not todo[child] and batches:
                batch = batches.popleft()
                todo[child].extend((batch, target) for target in targets)
            if todo[child]:
                child.send("ask", *todo[child][0], limit=limit)
                selector.register(child, selectors.EVENT_READ)

        for child in workers:
            put(child)
        while selector.get_map():
            ready = {key.fileobj for key, _ in selector.select(1.0)}
            for child in [key.fileobj for key in selector.get_map().values()]:
                if child in ready or child.overdue:
                    selector.unregister(child)
                    cases, target = todo[child].popleft()
                    try:
                        yield from child.receive()
                    except ChildDied as error:
                        if len(cases) == 1:
                            yield died(cases[0], target, f"the target's process: {error}")
                        else:
                            todo[child].extendleft(([case], target) for case in reversed(cases))
                    put(child)


def versions(targets: Sequence[str]) -> dict[str, dict[str, str]]:
    """For each target the versions that it reports. Raises InputError for a name that is no target, and for a target
    that cannot be made or says no versions: without a device, say."""
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
