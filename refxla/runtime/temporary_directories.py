"""Directories that a process needs while it runs, such as that for PoCL's output.

They are in memory if the system has a file system there: PoCL waits for a disk some five times for each program.

A killed process cannot remove its own directory. Each process holds a lock on a file in its directory, so the next
process knows which owners are gone, in whatever container they ran, and removes those directories.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import platformdirs
from refxla_spec.errors import DeviceError

from . import private_directories

_PREFIX = "refxla-"
_LOCK = "lock"
_IN_MEMORY = "/dev/shm"
_LEAST_FREE = 1 << 30  # free bytes in memory below which the memory is left to others
_CHOICES = ("TMPDIR", "TEMP", "TMP")  # set by a user to choose where temporary files are
_own: list[Path] = []  # those of this process
_removed: set[Path] = set()  # directories of this process, which is ending
_locks: list[int] = []  # the locks of this process, released when it ends


def scratch() -> Path:
    """A new directory for this process, removed when it ends; those of killed processes are removed now.

    Raises DeviceError if there is no place for one.
    """
    place = temporary()
    try:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    except OSError as error:
        raise DeviceError(_refusal(str(error))) from error
    with suppress(OSError):  # a file system without locks: directories of killed processes stay
        begun = path / "begun"
        _locks.append(os.open(begun, os.O_RDWR | os.O_CREAT, 0o600))
        fcntl.flock(_locks[-1], fcntl.LOCK_EX)
        begun.rename(path / _LOCK)  # so that a lock never exists before its owner holds it
    _remove_orphans(place)
    atexit.register(_remove_at_exit, path, os.getpid())
    _own.append(path)
    return path


def leave() -> NoReturn:
    """Ends this process at once, which ignores what a broken driver does at exit; its directories are removed."""
    for path in _own:
        shutil.rmtree(path, ignore_errors=True)
    os._exit(0)


def _remove_at_exit(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
        _removed.add(path)


@contextmanager
def present(directory: Path) -> Iterator[None]:
    """Waits while a directory within one of `scratch` exists: exit handlers that run after the one that removes it may
    still need it."""
    gone = next((path for path in _removed if path in directory.parents), None)
    if gone is None:
        yield
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(gone, ignore_errors=True)


def temporary() -> Path:
    """The directory for temporary ones: one in memory, otherwise Python's, which a user may choose; if other users
    could replace what is in that, one of this user's.

    Raises DeviceError if none can be used.
    """
    reasons = []
    for find in (_in_memory, tempfile.gettempdir, _runtime_directory, lambda: platformdirs.user_cache_dir("refxla")):
        try:
            place = find()
            if place is not None:
                private_directories.check(Path(place), last=0)
                return Path(place)
        except OSError as error:
            reasons.append(str(error))
    raise DeviceError(_refusal(reasons[0]))


def _in_memory() -> str | None:
    """The directory for files in memory, if libraries can be loaded from it, there is room, and the user has not chosen
    another."""
    if any(os.environ.get(name) for name in _CHOICES):
        return None
    with suppress(OSError, AttributeError):  # another system than Linux
        about = os.statvfs(_IN_MEMORY)
        if not about.f_flag & os.ST_NOEXEC and about.f_bavail * about.f_frsize >= _LEAST_FREE:
            return _IN_MEMORY
    return None


def _runtime_directory() -> str | None:
    return os.environ.get("XDG_RUNTIME_DIR")


def _refusal(reason: str) -> str:
    return (
        f"OpenCL compilers need a directory for temporary files ({reason}); set TMPDIR to one that can be written, and "
        "in which other users cannot replace files"
    )


def _remove_orphans(place: Path) -> None:
    for directory in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, one without a lock, or removed meanwhile
            if os.lstat(directory).st_uid != os.geteuid():
                continue
            file = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its owner is alive
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(file)
