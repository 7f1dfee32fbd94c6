"""Processes that compile with PoCL for this one (compile_worker.py).

A compile worker is started when needed, is reused for the next program, and ends when none comes for a while. It may be
slow, fail or be killed: this process compiles what the worker has not. The exception is a part that makes the compiler
end the worker, since it would end this process, too (parallel_build.py).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

from ...codegen.primitives import GET_GLOBAL_ID
from ...codegen.program_part import ProgramPart
from ..watchdog import ProcessClock
from . import linker, processor_name

_SCRIPT = Path(__file__).with_name("compile_worker.py")
_HAND_S = 0.005  # the longest that a part's maker waits for a worker to take it
# The signals with which a compiler ends on an internal error.
_FAULTS = {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGILL, -signal.SIGBUS, -signal.SIGFPE}
_GONE_S = 5.0  # the longest that a child takes to end
_REST_S = 1.0  # the longest that a thread takes to see that no more parts come
# Building it warms up the compiler while there may be no part yet; two processes build different ones.
_FIRST = GET_GLOBAL_ID + "\n__kernel void refxla_first_{}(__global int* a) {{ a[get_global_id(0)] = 0; }}\n"
_SMALL_GRID = 65535  # PoCL compiles a kernel once for launches up to this size and again for larger ones


def libraries() -> tuple[Path, Path] | None:
    """The paths of the OpenCL loader and of PoCL in this process; None if they cannot be found."""
    global _libraries
    if _libraries is None and sys.platform == "linux":
        _libraries = _loaded_libraries()
    return _libraries


_libraries: tuple[Path, Path] | None = None  # a loaded library does not move


def _loaded_libraries() -> tuple[Path, Path] | None:
    paths = {line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    loaders = sorted(p for p in paths if Path(p).name.startswith("libOpenCL"))
    pocl = sorted(p for p in paths if Path(p).name.startswith("libpocl"))
    return (Path(loaders[0]), Path(pocl[0])) if len(loaders) == len(pocl) == 1 else None


class PartQueue:
    """A queue of parts to compile: some are added while several compile workers take others."""

    def __init__(self) -> None:
        self._left: deque[ProgramPart] = deque()
        self._changed = threading.Condition()
        self._waiting = 0  # idle threads
        self._closed = False
        self.done: set[str] = set()  # the sources of compiled parts
        self.faulty: set[str] = set()  # the sources of parts on which the compiler ended a worker

    def put(self, part: ProgramPart) -> None:
        """Adds a part. An idle compile worker takes it now: otherwise its thread would wait for milliseconds while this
        one runs Python."""
        with self._changed:
            self._left.append(part)
            self._changed.notify_all()
            if self._waiting:
                self._changed.wait_for(lambda: part not in self._left, _HAND_S)

    def close(self) -> None:
        """No more parts will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self) -> ProgramPart | None:
        """The part that has waited longest, as soon as there is one; None if none is left and no more will come."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: self._left or self._closed)
            self._waiting -= 1
            if not self._left:
                return None
            part = self._left.popleft()
            self._changed.notify_all()
            return part

    def drop(self) -> None:
        """Drops the waiting parts, and accepts no more."""
        with self._changed:
            self._left.clear()
            self._closed = True
            self._changed.notify_all()


class CompileWorker:
    """A child that compiles with the PoCL at the path `pocl`, found by the OpenCL loader at the path `loader`;
    `directory` is the POCL_CACHE_DIR of this process. Raises OSError if no child can be started."""

    def __init__(self, loader: Path, pocl: Path, directory: Path) -> None:
        environment = {
            **os.environ,
            **linker.environment(directory.with_name("linker")),
            "POCL_DEVICES": os.environ.get("POCL_DEVICES", "pthread basic"),
            "POCL_CACHE_DIR": str(directory),
            "OCL_ICD_VENDORS": str(pocl),  # the child needs no other platform
            "OCL_ICD_FILENAMES": str(pocl),  # the same for another loader
        }
        name = processor_name.substitute()
        of_processor = [str(name.offset), name.name] if name else []
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), str(loader), *of_processor],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self._child.stdin is not None and self._child.stdout is not None  # they are pipes
        self._jobs, self._answers = self._child.stdin, self._child.stdout
        self._thread: threading.Thread | None = None
        self._compiling = self._mute = False
        self._ready: set[int] = set()
        self.clock = ProcessClock(self._child.pid)

    def work(self, parts: PartQueue, number: int, options: str) -> None:
        """Compiles what it takes from `parts`, until none is left, with these `options`, for the device that has this
        `number` among PoCL's. Raises RuntimeError if the system allows no more threads."""
        task = (parts, number, options)
        thread = threading.Thread(target=self._feed, args=task, name="refxla-compile-worker", daemon=True)
        thread.start()
        self._thread = thread

    def _feed(self, parts: PartQueue, number: int, options: str) -> None:
        with contextlib.suppress(OSError):  # the child is gone
            if number not in self._ready:
                if not self._compiled(ProgramPart(_FIRST.format(self._child.pid), ()), number, options):
                    return  # no part is to blame
                self._ready.add(number)
            while (part := parts.take()) is not None and self._compiled(part, number, options):
                parts.done.add(part.source)
            if part is not None and self._ended_by_a_fault():
                parts.faulty.add(part.source)

    def _compiled(self, part: ProgramPart, number: int, options: str) -> bool:
        job = {"number": number, "source": part.source, "options": options, "functions": part.functions}
        self._compiling = True
        self._jobs.write(json.dumps({**job, "sizes": sizes(part)}) + "\n")
        self._jobs.flush()
        answer = self._answers.readline()
        self._compiling, self._mute = answer != "done\n", not answer
        return not self._compiling

    def _ended_by_a_fault(self) -> bool:
        """Whether the child has ended by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._mute and self._child.wait(_GONE_S) in _FAULTS
        return False

    def wait(self, seconds: float) -> bool:
        """Waits until the part in progress is done and no more are left, for at most so many seconds. Returns whether
        that is so."""
        if self._thread is not None:
            self._thread.join(seconds)
        return not self.busy

    @property
    def busy(self) -> bool:
        """Whether it has work."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def alive(self) -> bool:
        """Whether the child is running."""
        return self._child.poll() is None

    def rest(self) -> bool:
        """Whether it is ready for other work once no more parts come."""
        return self.alive and not self._compiling and self.wait(_REST_S)

    def end(self) -> None:
        """Ends the child, whatever it is doing."""
        self._child.kill()
        self._child.wait()
        if self._thread is not None:
            self._thread.join()
        for pipe in (self._jobs, self._answers):
            with contextlib.suppress(OSError):  # unwritten input is dropped
                pipe.close()


class IdleWorkers:
    """The idle compile workers of this process; `busy` is the number of those at work."""

    def __init__(self) -> None:
        self._idle: list[CompileWorker] = []
        self._lock = threading.Lock()
        self.busy = 0

    def take(self, loader: Path, pocl: Path, directory: Path) -> CompileWorker:
        """One of them, or a new one. Raises OSError if none can be started."""
        with self._lock:
            self.busy += 1
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
                worker.end()
        try:
            return CompileWorker(loader, pocl, directory)
        except OSError:
            self._one_fewer()
            raise

    def _one_fewer(self) -> None:
        with self._lock:
            self.busy -= 1

    def give_back(self, worker: CompileWorker) -> None:
        """Returns a worker for the next user, when no more parts come; one that is still compiling is ended."""
        self._one_fewer()
        if worker.rest():
            with self._lock:
                self._idle.append(worker)
        else:
            worker.end()

    def end(self) -> None:
        """End them all."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()

    def forget(self) -> None:
        """In a forked process: the workers belong to its parent."""
        self._idle, self._lock, self.busy = [], threading.Lock(), 0


WORKERS = IdleWorkers()
atexit.register(WORKERS.end)
os.register_at_fork(after_in_child=WORKERS.forget)


def sizes(part: ProgramPart) -> list[int]:
    """The sizes of launches for which PoCL compiles a part's kernels."""
    return [1, part.items] if part.items > _SMALL_GRID else [1]
