"""Ends a child process that hangs, and none that is only slow.

On a busy machine a program waits for a processor most of the time; a program that was stopped (Ctrl-Z, SIGSTOP, a
suspended virtual machine) does nothing at all. Neither is a fault of the program. So a limit on how long a child may
be silent counts two things: the time that it spends on a processor, and the time in which it sleeps.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path

UNCOUNTED = "not counting time in which it was stopped or waited for a processor"  # for messages about a limit
_LOOK_S = 0.2  # between two laps of a watchdog
_LONGEST_LAP_S = 1.0  # if more passes between two laps, it is the caller that did not run
_PROC = Path("/proc")


class ProcessClock:
    """Measures what a process and its descendants do, by Linux's /proc: without it, all time counts as sleep."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._spent = 0.0
        self._last = time.perf_counter()  # not time.monotonic, which tests of programs replace, such as JAX's own

    def lap(self) -> tuple[float, float]:
        """The seconds since the last lap that the processes spent on a processor, and those in which they slept, as
        waiting for a disk or a device is.

        The sum is at most the time since then, and at most 1 s, since a caller asks more often unless it was itself
        stopped or without a processor.
        """
        spent, states = _usage(self._process)
        now = time.perf_counter()
        passed = min(now - self._last, _LONGEST_LAP_S)
        ran = min(max(spent - self._spent, 0.0), passed)
        self._last, self._spent = now, max(spent, self._spent)
        waiting = states & set("RTt")  # ready to run, or stopped
        return ran, 0.0 if waiting else passed - ran


def _usage(process: int) -> tuple[float, set[str]]:
    """The processor time in seconds that a process, its descendants and those that have ended have used, and the
    states of all their threads, as letters of proc(5)."""
    spent, states = 0.0, set()
    queue = [str(process)]
    ticks = os.sysconf("SC_CLK_TCK")
    while queue:
        folder = _PROC / queue.pop()
        with contextlib.suppress(OSError):  # the process has ended
            spent += sum(map(int, _fields(folder / "stat")[11:15])) / ticks
            for thread in list((folder / "task").iterdir()):
                with contextlib.suppress(OSError):  # the thread has ended, or the kernel does not list children
                    states.add(_fields(thread / "stat")[0])
                    queue += (thread / "children").read_text().split()
    return spent, states


def _fields(stat: Path) -> list[str]:
    """The fields of a stat file of /proc after the name, which may contain anything."""
    return stat.read_text().rpartition(")")[2].split()


class Watchdog:
    """Kills a child process that gives no sign of life for `limit` seconds, as its ProcessClock counts them. A context
    manager: on leaving it, the child is no longer watched."""

    def __init__(self, child: subprocess.Popen[str], limit: float) -> None:
        self._child = child
        self.limit = self._left = limit
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="refxla-watchdog", daemon=True)
        self.expired = False  # whether it has killed the child

    def restart(self, limit: float) -> None:
        """Gives the child so many seconds from now on."""
        self.limit = self._left = limit

    def _watch(self) -> None:
        clock = ProcessClock(self._child.pid)
        while not self._done.wait(_LOOK_S):
            self._left -= sum(clock.lap())
            if self._left <= 0:
                self.expired = True
                self._child.kill()
                return

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
