"""Files that are written atomically."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from refxla_spec.errors import InputError


def make_folder(name: str | Path) -> None:
    """A folder for files that an option names; it may exist. Raises InputError."""
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{name} is a file; name a folder") from None
    except (OSError, ValueError) as problem:
        raise InputError(f"cannot make {name}: {getattr(problem, 'strerror', None) or problem}") from None


def write_whole(name: str | Path, data: bytes) -> None:
    """Writes a file atomically. Raises InputError."""
    try:
        path = Path(os.path.realpath(name))
        if path.is_dir():
            raise IsADirectoryError(0, "it is a directory")
        if path.exists() and not path.is_file():  # a device or a pipe is written to, not replaced
            path.write_bytes(data)
            return
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), mode)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except (OSError, ValueError) as problem:
        raise InputError(f"cannot write {name}: {getattr(problem, 'strerror', None) or problem}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
