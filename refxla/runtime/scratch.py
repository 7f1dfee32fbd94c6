"""Directories for what a process needs while it lives, such as what PoCL compiles.

A process that is killed cannot remove its own. Each holds a lock on a file in its directory, so the next process knows
whose owner is gone, in whatever container it ran, and removes those.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from refxla_spec.errors import DeviceError

_PREFIX = "refxla-"
_LOCK = "lock"
_held: list[int] = []  # the locks of this process, which end with it


def scratch() -> Path:
    """A new directory for this process, removed when it ends; those that killed processes left are removed now.

    Raises DeviceError if there is nowhere to make one.
    """
    try:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as error:
        raise DeviceError(
            f"OpenCL compilers need a directory for temporary files ({error}); set TMPDIR to one that can be written"
        ) from error
    with suppress(OSError):  # a file system without locks: what is killed there stays
        begun = path / "begun"
        _held.append(os.open(begun, os.O_RDWR | os.O_CREAT, 0o600))
        fcntl.flock(_held[-1], fcntl.LOCK_EX)
        begun.rename(path / _LOCK)  # so that no lock is ever seen that its owner does not hold yet
    _remove_orphans(path.parent)
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(path, ignore_errors=True) if os.getpid() == owner else None)
    return path


def _remove_orphans(place: Path) -> None:
    for lock in place.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # another user's, or removed meanwhile
            file = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its owner lives
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(file)
