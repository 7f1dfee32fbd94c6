"""Builds of kernels by a thread of their own, while the caller goes on to its next program.

A build consists mostly of waiting for compile workers (pocl/compile_workers.py), so a script that needs many small
programs, one after the other, traces the next ones meanwhile.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from .cores import cores

_MOST = 4  # builds at a time, each of which has compile workers of its own


@dataclass
class _Task:
    build: Callable[[], None]
    cancel: Callable[[], None]
    future: Future[None] = field(default_factory=Future)

    def run(self) -> None:
        try:
            self.build()
            self.future.set_result(None)
        except BaseException as problem:
            self.future.set_exception(problem)


class BackgroundBuilds:
    """A thread that works off builds in order."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[_Task] | None = None
        self._pending: deque[_Task] = deque()
        self._lock = threading.Lock()
        self._ended = False

    def submit(self, build: Callable[[], None], cancel: Callable[[], None]) -> Future[None]:
        """Has the thread do this build after those before, and returns its future, which has its error. `cancel` has it
        end soon. Waits while there is a build in progress for each core."""
        task = _Task(build, cancel)
        with self._lock:
            self._wait(min(_MOST, cores().count) - 1)
            if self._ended:
                task.run()
                return task.future
            if self._tasks is None:
                self._tasks = queue.SimpleQueue()
                atexit.register(self.end)  # now, to run before PoCL's directory is removed
                threading.Thread(target=_work, args=(self._tasks,), name="refxla builds", daemon=True).start()
            self._pending.append(task)
            self._tasks.put(task)
        return task.future

    def drain(self) -> None:
        """Waits until no build is in progress."""
        with self._lock:
            self._wait(0)

    def end(self) -> None:
        """Cancels the builds in progress; later ones are done by their callers. Called when Python ends: nobody wants
        the kernels any more."""
        self._ended = True
        for task in tuple(self._pending):
            task.cancel()

    def forget(self) -> None:
        """In a forked process: the thread belongs to its parent."""
        self._tasks, self._pending, self._lock = None, deque(), threading.Lock()

    def _wait(self, left: int) -> None:
        """Waits until at most so many builds are in progress."""
        while len(self._pending) > left:
            wait([self._pending[0].future])
            self._pending.popleft()


def _work(tasks: queue.SimpleQueue[_Task]) -> None:
    while True:
        tasks.get().run()


BUILDS = BackgroundBuilds()
os.register_at_fork(before=BUILDS.drain, after_in_child=BUILDS.forget)
