"""Compiles a program with PoCL in other processes (compile_workers.py) while it is still being generated.

PoCL takes seconds to compile a program, and Python takes as long to generate it. So compile workers start when the
compilation of a program begins, and take each part when it is full; this process then only loads the results.

LLVM has bugs, and ends the process on an internal error ("Cannot select"). If that ends a worker, workers also compile
the rest of the program, and a part that ends one is compiled without the instructions that not every processor of the
device's family has: its results have the same bits.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from refxla_spec.errors import DeviceError

from ...codegen.program_part import ProgramPart
from ...progress import stage
from ..cores import cores
from ..devices import Device
from . import built_parts, builtins_library, platform
from .compile_workers import WORKERS, CompileWorker, PartQueue, libraries

MULTI_PART_INSTRUCTIONS = 250  # instructions of a program that very likely has several parts
# the attribute of functions for instructions that other processors may lack
_TARGET = re.compile(r'(?<!push\()__attribute__\(\(target\("[^"]*"\)\)\)')
_MAX_PROCESSES = 4  # at a time: few programs have more parts
_LOOK_S = 0.05  # between two checks of what a worker does
_PATIENCE_S = 10.0  # workers that have slept for so long, without using a processor, are considered hung

# The sources of parts that workers compile now: programs that are built at the same time have parts in common, and the
# one that began first stores them.
_IN_PROGRESS: set[str] = set()


def processes() -> int:
    """The maximum number of parts compiled at a time."""
    return min(cores().count, _MAX_PROCESSES)


class ParallelBuild:
    """The part of a program's compilation for a PoCL device that runs ahead. On leaving its context, it ends the
    processes that it started.

    On other devices, and with a single processor, it does nothing.
    """

    def __init__(self, device: Device) -> None:
        self.device, self.raw = device, device.runner
        self._options = device.build_options
        self._most = 0
        directory = platform.directory() if device.platform == platform.NAME else None
        paths = libraries() if directory is not None else None
        if directory is not None and paths is not None and cores().count > 1:
            self._most = processes()
            self._paths = (paths[0], self._pocl(paths[1], directory), directory)
            self._number = self.raw.platform.get_devices().index(self.raw)
        self._parts = PartQueue()
        self._seen: set[str] = set()  # the sources of parts that were added
        self._asked: set[str] = set()  # the sources of parts that workers are to compile
        self._workers: list[CompileWorker] = []
        self._cancelled = False

    def __enter__(self) -> ParallelBuild:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def has_workers(self) -> bool:
        """Whether other processes compile the program."""
        return bool(self._workers)

    def expect(self, instructions: int) -> None:
        """Announces a program of about so many instructions, so that workers start while it is planned."""
        self._start(self._most if instructions >= MULTI_PART_INSTRUCTIONS else 1)

    def take(self, part: ProgramPart) -> None:
        """Adds a part that is ready to be compiled."""
        if part.source not in self._seen:
            self._seen.add(part.source)
            if part.source not in _IN_PROGRESS and not built_parts.is_stored(self.device, part):
                self._put(part)

    def finish(self, parts: Sequence[ProgramPart]) -> list[Any]:
        """The pyopencl programs of these parts of the program, each built with its kernels compiled, and stored on
        disk.

        Parts that workers have finished are loaded here while they work; this process compiles the others. Raises
        DeviceError with the compiler's log.
        """
        self._check_cancelled()
        for part in {p.source: p for p in parts if p.source not in self._asked}.values():
            self._put(part)
        self._parts.close()
        programs: dict[str, Any] = {}
        asleep = 0.0
        while busy := [w for w in self._workers if w.busy]:
            stage(f"{len(self._parts.done)} of {len(parts)} parts of the OpenCL C compiled")
            ready = [p for p in parts if p.source in self._parts.done and p.source not in programs]
            for part in ready:
                programs[part.source] = self._built(part)
            busy[0].wait(_LOOK_S)
            laps = [w.clock.lap() for w in busy]
            asleep = 0.0 if ready or any(ran for ran, _ in laps) else asleep + min(slept for _, slept in laps)
            if asleep > _PATIENCE_S:
                break
        self.end()
        return [programs.get(p.source) or self._built(p) for p in parts]

    def end(self) -> None:
        """Releases the workers; busy ones are ended."""
        _IN_PROGRESS.difference_update(self._asked)
        self._parts.drop()
        while self._workers:
            WORKERS.give_back(self._workers.pop())

    def cancel(self) -> None:
        """Ends the workers; `finish`, which may be at work in another thread, raises DeviceError."""
        self._cancelled = True
        self.end()

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise DeviceError("the compilation was cancelled, since the process ends")

    def _put(self, part: ProgramPart) -> None:
        """Has a worker compile a part."""
        self._asked.add(part.source)
        _IN_PROGRESS.add(part.source)
        self._parts.put(part)
        self._start(len(self._asked))

    def _built(self, part: ProgramPart) -> Any:
        """A part as a worker compiled it, otherwise compiled by this process."""
        self._check_cancelled()
        if part.source in self._parts.done:
            program = built_parts.from_directory(self.device, part)
            if program is not None:
                return program
        if self._parts.faulty:
            return self._compiled_apart(part)
        return built_parts.compiled_here(self.device, part)

    def _compiled_apart(self, part: ProgramPart) -> Any:
        """A part compiled by a worker, since the compiler may end the process; if it does, compiled again without the
        further instructions. Raises DeviceError if that ends a worker, too."""
        for source in dict.fromkeys((part.source, _TARGET.sub("", part.source))):
            if source in self._parts.faulty:
                built_parts.remove_remains(part)
                continue
            queue = PartQueue()
            queue.put(replace(part, source=source))
            queue.close()
            worker = WORKERS.take(*self._paths)
            worker.work(queue, self._number, self._options)
            while not worker.wait(_LOOK_S):
                stage("a part of the OpenCL C compiled once more, after the compiler has failed")
            WORKERS.give_back(worker)
            self._parts.faulty |= queue.faulty
            program = built_parts.from_directory(self.device, part) if source in queue.done else None
            if program is not None:
                return program
            built_parts.remove_remains(part)
        raise DeviceError(
            f"the OpenCL compiler of {self.raw.name.strip()} ends its process on a generated program, which is an "
            "error of its own; please report it to refxla with the program, and try without=('fusion',)"
        )

    def _start(self, count: int) -> None:
        """Starts workers up to this number, as far as they are allowed and can be started; only one if other builds
        occupy the processor."""
        with contextlib.suppress(OSError, RuntimeError):  # no process or no thread can be started
            while len(self._workers) < min(count, self._most) and (not self._workers or WORKERS.busy < self._most):
                self._workers.append(WORKERS.take(*self._paths))
                self._workers[-1].work(self._parts, self._number, self._options)

    def _pocl(self, pocl: Path, directory: Path) -> Path:
        """The path from which workers load PoCL."""
        if self.device.properties.builtins and self.device.target.bare:
            with contextlib.suppress(OSError):  # no room: compiling works, only slower
                return builtins_library.folder(directory, pocl) or pocl
        return pocl
