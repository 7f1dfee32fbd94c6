"""Directories that only this user and root can change, the only ones that compiled code is loaded from.

A directory is private if it belongs to the user (or to root), neither its group nor others may write to it, and nobody
else can replace it: each directory above it must belong to the user or to root, and be either not writable by anyone
else or sticky, as /tmp is. A symbolic link on the way counts as a component: it must belong to the user or to root, and
its target is checked in the same way.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40  # as in Linux


class NotPrivateError(OSError):
    """A directory or a file that others could have written; the message names it and says how to fix it."""


def check(path: Path | str, last: int = 1) -> None:
    """Raises NotPrivateError unless the directory at `path` is private, including the `last` of its parents (0: it may
    be sticky itself, so that a new directory in it is safe); OSError if it does not exist."""
    if not os.path.isabs(path):
        raise NotPrivateError(f"the user has no home directory in which {path} could be")
    names = _names(os.fspath(path))[::-1]
    here, links = "/", 0
    _check_mode(here, os.lstat(here), len(names) < last)
    while names:
        name = names.pop()
        if name == "..":
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, name)
        status = os.lstat(place)
        if not _is_ours(status):
            raise NotPrivateError(f"{place} belongs to another user (number {status.st_uid})")
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise NotPrivateError(f"{path} leads through too many symbolic links")
            target = os.readlink(place)
            names += _names(target)[::-1]
            here = "/" if os.path.isabs(target) else here
        elif stat.S_ISDIR(status.st_mode):
            here = place
            _check_mode(here, status, len(names) < last)
        else:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)


def open_directory(path: Path | str, last: int = 1, make: bool = False) -> int:
    """A descriptor of the private directory at `path` (see `check`). With `make`, missing directories are created,
    including its parents, but none inside a directory that is not private. Raises as `check` does, and OSError for one
    that cannot be created."""
    if make and os.path.isabs(path):
        _make(Path(path), last)
    check(path, last)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def read(name: str, directory: int) -> bytes:
    """The contents of a file in an open private directory. Raises NotPrivateError for a file that others could have
    written, whatever the directory's permissions, and OSError as `os.open` does."""
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_mode & _OTHERS:
            raise NotPrivateError(f"{name} may have been written by another user; remove it")
        return file.read()


def _names(path: str) -> list[str]:
    """The components of a path below its root or its beginning."""
    return [name for name in path.split("/") if name not in ("", ".")]


def _check_mode(path: str, status: os.stat_result, private: bool) -> None:
    if status.st_mode & _OTHERS and (private or not status.st_mode & stat.S_ISVTX):
        raise NotPrivateError(f"other users may write to {path}; run: chmod go-w {path}")


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _make(path: Path, last: int) -> None:
    """Creates a directory and its missing parents, for this user alone. Raises as `check` does."""
    if path.is_dir():
        return
    if path.parent != path:
        _make(path.parent, max(0, last - 1))
    check(path.parent, max(0, last - 1))
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:  # another process was faster, or something else exists there, which `check` reports
        pass
