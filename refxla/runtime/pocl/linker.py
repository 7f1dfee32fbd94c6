"""A linker for processes that compile kernels alone, which reads no library where none is needed.

PoCL has clang link each kernel, and clang names the C library and the compiler's own to the linker. To read them takes
three quarters of a link, and the kernels need nothing from them: what they call is part of PoCL's library of built-in
functions (builtins_library.py). So `ld` is a script here that leaves the libraries out at first, and links with them
where a symbol stays undefined. clang looks for its tools in the directories that COMPILER_PATH names before others.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from pathlib import Path

_NAME = "ld"
_SCRIPT = """#!/bin/sh
without_libraries() {{
    count=$#
    for word; do
        case $word in -l*) ;; *) set -- "$@" "$word" ;; esac
    done
    shift $count
    {ld} --no-undefined "$@" 2>/dev/null
}}
without_libraries "$@" || exec {ld} "$@"
"""


def is_missing() -> str:
    """What to do where there is no linker, which PoCL calls for each kernel; "" where there is one."""
    if shutil.which(_NAME) is not None:
        return ""
    return f"PoCL links kernels with {_NAME}, which is not on the PATH: apt install binutils"


def environment(place: Path) -> dict[str, str]:
    """The variables by which a process links so; the script lies in the folder `place`, and is made now if it is not
    there. Nothing where there is no linker, or no room for the script."""
    linker = shutil.which(_NAME)
    if linker is None:
        return {}
    script = place / _NAME
    try:
        if not script.exists():
            _write(script, _SCRIPT.format(ld=shlex.quote(linker)))
    except OSError:
        return {}
    others = os.environ.get("COMPILER_PATH")
    return {"COMPILER_PATH": f"{place}{os.pathsep}{others}" if others else str(place)}


def _write(script: Path, text: str) -> None:
    """A script that is there as a whole once it is there: another process may be about to run it."""
    script.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=script.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o700)
        os.replace(name, script)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
