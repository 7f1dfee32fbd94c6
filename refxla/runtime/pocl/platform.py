"""PoCL's platform: the environment set before loading it, its devices, and its threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..cores import cores
from ..temporary_directories import scratch

NAME = "Portable Computing Language"

_directory: Path | None = None


def directory() -> Path | None:
    """`discovery.pocl_directory`, in a process that has loaded OpenCL."""
    return _directory


def is_loaded() -> bool:
    """Whether this process has loaded PoCL before."""
    return "libpocl" in Path("/proc/self/maps").read_text() if sys.platform == "linux" else False


def prepare() -> None:
    """Sets the environment for loading PoCL: both of its CPU devices, as many threads as may share work, and a
    directory of this process."""
    global _directory
    os.environ.setdefault("POCL_DEVICES", "pthread basic")
    if (here := cores()).limit:
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(here.count))
    if "POCL_CACHE_DIR" not in os.environ and not is_loaded():
        _directory = scratch() / "pocl"
        os.environ["POCL_CACHE_DIR"] = str(_directory)


def cpus(raws: Sequence[Any]) -> tuple[Any, Any]:
    """PoCL's CPU devices among these pyopencl devices: (the one with threads, the one without), None for a missing
    one."""
    by_name = {r.name.split("-")[0]: r for r in raws}
    return by_name.get("pthread") or by_name.get("cpu"), by_name.get("basic")  # PoCL 5 and later name it "cpu"


def plain(text: str) -> str:
    """A name or version without the names of PoCL's two devices."""
    return text.replace("basic-", "").replace("pthread-", "")


def threads() -> set[int]:
    """The threads of this process, if the system lists them."""
    tasks = Path("/proc/self/task")
    return {int(task.name) for task in tasks.iterdir()} if sys.platform == "linux" and tasks.is_dir() else set()


@contextmanager
def threads_apart() -> Iterator[None]:
    """Binds each thread that starts within the block to a core of its own, if there are as many cores as this process
    may use."""
    before = threads()
    yield
    begun = threads() - before
    if not begun or "POCL_AFFINITY" in os.environ:
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(begun) != len(cores):
        return
    for thread, core in zip(sorted(begun), cores, strict=True):
        try:
            os.sched_setaffinity(thread, {core})
        except OSError:  # the thread has ended, or may not be bound: it only runs slower
            return
