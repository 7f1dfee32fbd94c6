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


def libraries() -> tuple[str, str] | None:
    """The paths of the OpenCL loader and of PoCL in this process; None where they are not to be found."""
    if sys.platform != "linux":
        return None
    paths = {line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    loaders = sorted(p for p in paths if Path(p).name.startswith("libOpenCL"))
    pocl = sorted(p for p in paths if Path(p).name.startswith("libpocl"))
    return (loaders[0], pocl[0]) if len(loaders) == len(pocl) == 1 else None


class Helper:
    """A child that compiles what it takes from the left of `parts`, from which others take too, until none is left.

    `options` and `sizes` (of launches) are those of all parts; `number` is the device's place among PoCL's devices,
    `directory` the POCL_CACHE_DIR of this process. Raises OSError when no child can be started.
    """

    def __init__(
        self,
        parts: deque[Part],
        options: str,
        sizes: list[int],
        loader: str,
        pocl: str,
        number: int,
        directory: Path,
    ) -> None:
        environment = {
            **os.environ,
            "POCL_DEVICES": os.environ.get("POCL_DEVICES", "pthread basic"),
            "POCL_CACHE_DIR": str(directory),
            "OCL_ICD_VENDORS": pocl,  # the child needs no other platform
            "OCL_ICD_FILENAMES": pocl,  # the same for another loader
        }
        self._parts = parts
        self._common = {"options": options, "sizes": sizes}
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
        try:
            while True:
                part = self._parts.popleft()
                job = {"source": part.source, "functions": part.functions, **self._common}
                self._child.stdin.write(json.dumps(job) + "\n")
                self._child.stdin.flush()
                if self._child.stdout.readline() != "done\n":
                    return
        except (IndexError, OSError):  # no part is left, or the child is gone
            return

    def wait(self, seconds: float) -> None:
        """Until the part under way is done, for so many seconds at most."""
        self._thread.join(seconds)

    def end(self) -> None:
        """End the child, whatever it does."""
        self._child.kill()
        self._child.wait()
        self._thread.join()
        for pipe in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):  # what was not written yet has nowhere to go
                pipe.close()
