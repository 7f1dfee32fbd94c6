"""A program compiled by PoCL while it is still being made: here, and by a process beside this one (beside.py).

PoCL compiles for seconds what takes Python as long to write. So the process beside this one starts when a large program
begins to be compiled, and takes each part when it is full; this one joins it when all parts are there.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from refxla_spec.errors import DeviceError

from ..codegen.program import Part
from ..progress import stage
from .beside import Helper, Parts, libraries
from .devices import Device, pocl_directory

LARGE = 250  # instructions of a program that has several parts, most likely
_HELPED = 3  # so many parts are worth a process beside this one, which takes half a second to start
_PATIENCE = 2.0  # seconds that a helper is waited for at least


class Ahead:
    """What is compiled of a program for a PoCL device before it is asked for. As a context it ends what it started.

    On other devices, and where there is one processor, it does nothing.
    """

    def __init__(self, device: Device, raw: Any = None) -> None:
        """`raw` is the one of the device's `raws` that the program will run on: by default that of large programs."""
        self.device, self.raw = device, device.raw if raw is None else raw
        self.directory = pocl_directory() if device.platform == "Portable Computing Language" else None
        self._options = " ".join(device.target.build_options)
        self._able = self.directory is not None and processors() > 1
        self._parts = Parts()
        self._put: set[str] = set()
        self._helper: Helper | None = None
        self._warming: threading.Thread | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def expect(self, instructions: int) -> None:
        """A program of about so many instructions will come: if it is large, the compilers are made ready here and in
        the process beside, which takes them half a second."""
        if instructions >= LARGE and self._start():
            self._warming = threading.Thread(target=self._warm, name="refxla-warm", daemon=True)
            self._warming.start()

    def take(self, part: Part) -> None:
        """A part that is ready to be compiled."""
        if part.source not in self._put:
            self._put.add(part.source)
            self._parts.put(part)
            if len(self._put) == _HELPED:
                self._start()

    def finish(self, parts: Sequence[Part]) -> list[Any]:
        """The pyopencl programs of all parts of the program, each built and its kernels compiled.

        What the other process has not done when this one is ready, and has waited as long as its own share took, this
        one does, too. Raises DeviceError with the compiler's log.
        """
        from .build import compiled

        made: dict[str, Any] = {}
        for part in parts:
            self.take(part)
        self._parts.close()
        begin = time.monotonic()
        try:
            while self._helper is not None and (part := self._parts.take()) is not None:
                stage(f"part {len(made) + 1} of {len(parts)} of the OpenCL C")
                made[part.source] = compiled(self.device, self.raw, part)
            if self._helper is not None:
                for part in parts:  # what is there to be opened, while the other process is at its last
                    if part.source in self._helper.done and part.source not in made:
                        made[part.source] = compiled(self.device, self.raw, part)
                self._helper.wait(max(_PATIENCE, time.monotonic() - begin))
        finally:
            self.end()
        return [made.get(p.source) or compiled(self.device, self.raw, p) for p in parts]

    def end(self) -> None:
        """End the process beside this one."""
        if self._helper is not None:
            self._helper.end()
            self._helper = None
        if self._warming is not None:
            self._warming.join()
            self._warming = None

    def _start(self) -> bool:
        """Start the process beside this one, if there is none and one can be started. Whether it is there."""
        if self._able and self._helper is None:
            paths = libraries()
            if paths is not None:
                number = self.raw.platform.get_devices().index(self.raw)
                with contextlib.suppress(OSError):  # no process can be started
                    first = Part(_nothing(self.device, "beside"), ())
                    self._helper = Helper(self._parts, self._options, first, *paths, number, self.directory)
        return self._helper is not None

    def _warm(self) -> None:
        from .build import compile_source

        with contextlib.suppress(DeviceError):  # which the program itself will meet
            compile_source(self.device.context, self.raw, _nothing(self.device, "here"), self._options)


def _nothing(device: Device, name: str) -> str:
    """A program that does nothing: to build it loads a compiler. Two that are built at once have different names."""
    return device.target.primitives() + f"__kernel void refxla_{name}(__global int* a) {{ a[get_global_id(0)] = 0; }}\n"


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
