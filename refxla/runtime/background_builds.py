"""Builds of kernels by a thread of their own, while the caller goes on to its next program.

A build consists mostly of waiting for compile workers (pocl/compile_workers.py), so a script that needs many small
programs, one after the other, traces the next ones meanwhile.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from .._core.execution import settle
from .cores import cores

_MOST = 4  # builds at a time, each of which has compile workers of its own


@dataclass
class _Task:
    """A build that waits for its turn, what to do if it never comes, and its outcome."""

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
            tasks = None if self._ended else self._queue()
            if tasks is None:
                task.run()
                return task.future
            self._pending.append(task)
            tasks.put(task)
        return task.future

    def _queue(self) -> queue.SimpleQueue[_Task] | None:
        """The tasks of the thread, which is started if there is none; None if the system allows no more threads: the
        caller can do without."""
        if self._tasks is None:
            tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=_work, args=(tasks,), name="refxla builds", daemon=True).start()
                atexit.register(self.end)  # now, to run before PoCL's directory is removed
                self._tasks = tasks
        return self._tasks

    def hold(self) -> None:
        """Waits until no build is in progress, and lets none begin until `release`."""
        self._lock.acquire()
        self._wait(0)

    def release(self) -> None:
        """Lets builds begin again."""
        self._lock.release()

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


def _before_fork() -> None:
    BUILDS.hold()
    settle()  # the calls that have waited for kernels


BUILDS = BackgroundBuilds()
os.register_at_fork(before=_before_fork, after_in_parent=BUILDS.release, after_in_child=BUILDS.forget)
