"""Results that took long to compute, kept on disk: compiled programs and the properties of devices.

An entry is one file: a checksum, then the content. It is written to a temporary file and renamed, so that a reader, or
another writer of the same entry, sees all of it or nothing; a file whose checksum is wrong counts as missing and is
removed. Using an entry sets its file time; when the total size exceeds the limit, the least recently used ones are
removed. Counting many files takes a second, so a file `growth` has a byte for each KiB written since the last count.

Compiled code in the cache is executed, so the directory must be one that nobody else can write to
(private_directories.py), and is created like that. If others could have written to it, if it cannot be used for another
reason, or if the disk is full, there is one CacheWarning, and everything continues without the cache. The directory is
the platform's cache directory for "refxla", or REFXLA_CACHE_DIR.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from . import private_directories

LIMIT = 1 << 30
_MAGIC = b"refxla cache 1\n"
_SUFFIX = ".entry"
_COUNTED = 64  # files are counted again when this fraction of the limit has been written
_GROWTH = "growth"


class CacheWarning(UserWarning):
    """The cache on disk cannot be used; results are the same, and programs are compiled anew in each process."""


class Cache:
    """Stores bytes under keys in `directory`, at most `limit` bytes on disk. Methods never raise OSError."""

    def __init__(self, directory: Path, limit: int = LIMIT) -> None:
        self.directory = directory
        self._root = os.fspath(directory)
        self.limit = limit
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """The content stored under a key (see `key`), or None."""
        path = self._path(key)
        try:
            with _descriptor(os.path.dirname(path)) as directory:
                data = private_directories.read(os.path.basename(path), directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain("read", error)
            return None
        head = len(_MAGIC) + 32
        content = data[head:]
        if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : head] != hashlib.sha256(content).digest():
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def has(self, key: str) -> bool:
        """Whether there is an entry, which may still turn out to be damaged."""
        return os.path.exists(self._path(key))

    def put(self, key: str, content: bytes) -> bool:
        """Stores a content. Returns whether that worked."""
        path = self._path(key)
        try:
            with _descriptor(os.path.dirname(path), make=True):
                pass  # it exists, and is private
            handle, name = tempfile.mkstemp(dir=os.path.dirname(path))
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(content).digest() + content)
                os.replace(name, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
            self._make_room(len(content), keep=path)
        except OSError as error:
            self._complain("written", error)
            return False
        return True

    def drop(self, key: str) -> None:
        """Removes a content that turned out to be useless."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(key))

    def clear(self) -> int:
        """Remove every entry. Returns the number of bytes removed."""
        removed = 0
        for _, size, path in self._entries():
            with contextlib.suppress(OSError):
                os.unlink(path)
                removed += size
        self._restart_growth()
        return removed

    def size(self) -> int:
        """Bytes on disk."""
        return sum(size for _, size, _ in self._entries())

    def _path(self, key: str) -> str:
        return os.path.join(self._root, key[:2], key[2:] + _SUFFIX)  # a Path takes longer than reading a small entry

    def _entries(self) -> list[tuple[int, int, str]]:
        """(time of last use, size, path) of each entry, the least recently used first."""
        entries = []
        for folder in self.directory.glob("??"):
            with contextlib.suppress(OSError), os.scandir(folder) as files:
                for file in files:
                    if file.name.endswith(_SUFFIX):
                        with contextlib.suppress(OSError):  # another process may have removed it
                            status = file.stat()
                            entries.append((status.st_mtime_ns, status.st_size, file.path))
        return sorted(entries)

    def _make_room(self, written: int, keep: str) -> None:
        """Roughly enforces the limit: the files are counted once they may have grown by a fraction of it."""
        grown = self._growth(written)
        if grown is None or grown > self.limit // _COUNTED:
            self._evict(keep)
            self._restart_growth()

    def _growth(self, written: int) -> int | None:
        """The bytes that all processes have written since the files were counted, including these; None if they were
        never counted."""
        try:
            handle = os.open(self.directory / _GROWTH, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "ab", buffering=0) as file:
            file.write(bytes(1 + (written >> 10)))  # in one write: others may write as well
            return os.fstat(file.fileno()).st_size << 10

    def _restart_growth(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with contextlib.suppress(OSError):
            os.close(os.open(self.directory / _GROWTH, flags, 0o600))

    def _evict(self, keep: str) -> None:
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= self.limit:
                return
            if path != keep:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                total -= size

    def _complain(self, what: str, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        if isinstance(error, private_directories.NotPrivateError):
            reason, mend = f"is not used: {error}", "or name another directory by REFXLA_CACHE_DIR"
        else:
            reason = f"cannot be {what} ({error.strerror or error})"
            mend = "set REFXLA_CACHE_DIR to a directory that can be written"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                mend = "free some space (refxla cache --clear), or set REFXLA_CACHE_DIR to a directory that has some"
        text = f"the cache {self.directory} {reason}; programs are compiled anew in each process; {mend}"
        warnings.warn(text, CacheWarning, stacklevel=4)


@contextlib.contextmanager
def _descriptor(directory: str, make: bool = False) -> Iterator[int]:
    """The cache in a directory of entries, which is inside the cache's directory."""
    descriptor = private_directories.open_directory(directory, 2, make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def key(*parts: str) -> str:
    """The key of a result computed from these parts, in this order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def cache() -> Cache:
    """The cache that the environment names now."""
    setting = os.environ.get("REFXLA_CACHE_DIR")
    if not setting:
        return _cache_in(platformdirs.user_cache_dir("refxla"))
    return _cache_in(setting if os.path.isabs(setting) else os.path.join(os.getcwd(), setting))


@functools.cache
def _cache_in(directory: str) -> Cache:
    return Cache(Path(directory))


def clear() -> int:
    """Empty the cache on disk. Returns the number of bytes removed."""
    return cache().clear()
