"""Work for PoCL's compiler, done by this process and by a child beside it (helper.py).

The child may be slow, may fail or be killed: what it has not done when this process has finished its own share and
waited as long again, this process does itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

from ..codegen.program import Part

_SCRIPT = Path(__file__).with_name("helper.py")
_SMALL_GRID = 65535  # PoCL compiles a kernel once for launches up to this size and again for larger ones


def libraries() -> tuple[str, str] | None:
    """The paths of the OpenCL loader and of PoCL in this process; None where they are not to be found."""
    if sys.platform != "linux":
        return None
    paths = {line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    loaders = sorted(p for p in paths if Path(p).name.startswith("libOpenCL"))
    pocl = sorted(p for p in paths if Path(p).name.startswith("libpocl"))
    return (loaders[0], pocl[0]) if len(loaders) == len(pocl) == 1 else None


class Parts:
    """Parts that wait to be compiled: some come while others are taken, by this process and its helper."""

    def __init__(self) -> None:
        self._left: deque[Part] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, part: Part) -> None:
        """One more."""
        with self._changed:
            self._left.append(part)
            self._changed.notify()

    def close(self) -> None:
        """No more will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self) -> Part | None:
        """The one that has waited longest, once there is one; None if none is left and no more will come."""
        with self._changed:
            while not self._left and not self._closed:
                self._changed.wait()
            return self._left.popleft() if self._left else None

    def drop(self) -> None:
        """Leave those that wait, and let no more come."""
        with self._changed:
            self._left.clear()
            self._closed = True
            self._changed.notify_all()


class Helper:
    """A child that compiles what it takes from `parts`, from which others take too, until none is left.

    `options` are those of all parts, `first` is a program that it builds before; `number` is the device's place among
    PoCL's devices, `directory` the POCL_CACHE_DIR of this process. Raises OSError when no child can be started.
    """

    def __init__(
        self, parts: Parts, options: str, first: Part, loader: str, pocl: str, number: int, directory: Path
    ) -> None:
        environment = {
            **os.environ,
            "POCL_DEVICES": os.environ.get("POCL_DEVICES", "pthread basic"),
            "POCL_CACHE_DIR": str(directory),
            "OCL_ICD_VENDORS": pocl,  # the child needs no other platform
            "OCL_ICD_FILENAMES": pocl,  # the same for another loader
        }
        self._parts, self._options, self._first = parts, options, first
        self.done: set[str] = set()  # the sources of the parts that it has compiled
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(_SCRIPT), loader, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self._thread = threading.Thread(target=self._feed, name="refxla-helper", daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        part: Part | None = self._first
        with contextlib.suppress(OSError):  # the child is gone
            while part is not None and self._compiled(part):
                self.done.add(part.source)
                part = self._parts.take()

    def _compiled(self, part: Part) -> bool:
        job = {"source": part.source, "functions": part.functions, "options": self._options, "sizes": sizes(part)}
        self._child.stdin.write(json.dumps(job) + "\n")
        self._child.stdin.flush()
        return self._child.stdout.readline() == "done\n"

    def wait(self, seconds: float) -> None:
        """Until the part under way is done, for so many seconds at most; no more parts may come."""
        self._thread.join(seconds)

    def end(self) -> None:
        """End the child, whatever it does."""
        self._child.kill()
        self._child.wait()
        self._parts.drop()
        self._thread.join()
        for pipe in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):  # what was not written yet has nowhere to go
                pipe.close()


def sizes(part: Part) -> list[int]:
    """The sizes of launches for which PoCL compiles a part's kernels."""
    return [1, part.items] if part.items > _SMALL_GRID else [1]
