"""Many cases put to several targets, in worker processes that a case may crash or hang."""

from __future__ import annotations

import os
import selectors
from collections import deque
from collections.abc import Iterator, Sequence

from refxla_spec.errors import Error

from . import worker
from .cases import Case
from .check import Verdict, died
from .targets.child import Child, ChildDied, ChildError

LIMIT = 60.0  # seconds that one case may take on one target
WORKER = "refxla_conformance.worker"


def run(
    cases: Sequence[Case], targets: Sequence[str], jobs: int | None = None, limit: float = LIMIT
) -> Iterator[Verdict]:
    """The verdict of each case on each target, as they come.

    `jobs` is the number of worker processes: as many as the machine has cores, if None; 0 runs everything in this
    process, where a crash ends it and nothing ends what hangs. A worker takes one case after the other, and puts it to
    each of the targets. A case that ends its worker, or takes more than `limit` seconds on a target, fails on that
    target; the worker is replaced.
    """
    if jobs == 0:
        for case in cases:
            for target in targets:
                yield worker.ask(case, target)
        return
    workers = [Child(WORKER) for _ in range(min(jobs or os.cpu_count() or 1, max(1, len(cases))))]
    try:
        yield from _share(workers, deque(cases), targets, limit)
    finally:
        for child in workers:
            child.close()


def _share(workers: list[Child], cases: deque[Case], targets: Sequence[str], limit: float) -> Iterator[Verdict]:
    """Keeps each worker busy with one question at a time until no case is left."""
    todo: dict[Child, deque[tuple[Case, str]]] = {child: deque() for child in workers}
    with selectors.DefaultSelector() as selector:

        def put(child: Child) -> None:
            if not todo[child] and cases:
                case = cases.popleft()
                todo[child].extend((case, target) for target in targets)
            if todo[child]:
                case, target = todo[child][0]
                child.send("ask", case, target, limit=limit)
                selector.register(child, selectors.EVENT_READ)

        for child in workers:
            put(child)
        while selector.get_map():
            ready = {key.fileobj for key, _ in selector.select(1.0)}
            waiting = [key.fileobj for key in list(selector.get_map().values())]
            for child in waiting:
                if child in ready or child.overdue:
                    selector.unregister(child)
                    yield _answer(child, *todo[child].popleft())
                    put(child)


def _answer(child: Child, case: Case, target: str) -> Verdict:
    try:
        return child.receive()
    except ChildDied as error:
        return died(case, target, f"the target's process: {error}")
    except (ChildError, Error) as error:  # the suite's own: the reference could not be asked, say
        return died(case, target, f"the case could not be checked: {error}")


def versions(targets: Sequence[str]) -> dict[str, dict[str, str]]:
    """For each target the versions that it reports. Raises InputError for a name that is no target."""
    child = Child(WORKER)
    try:
        return {target: child.ask("versions", target, limit=LIMIT) for target in targets}
    finally:
        child.close()
