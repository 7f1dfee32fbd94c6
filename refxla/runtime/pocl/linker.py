"""A linker for processes that only compile kernels, which reads no library unless one is needed.

PoCL has clang link each kernel, and clang passes the C library and the compiler's own to the linker. Reading them takes
three quarters of a link, and the kernels need nothing from them: the functions they call are in PoCL's library of
built-in functions (builtins_library.py). So `ld` is a script here that first links without the libraries, and links
with them if a symbol stays undefined. clang looks for its tools in the directories of COMPILER_PATH first.
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
    """What to do if there is no linker, which PoCL calls for each kernel; "" if there is one."""
    if shutil.which(_NAME) is not None:
        return ""
    return f"PoCL links kernels with {_NAME}, which is not on the PATH: apt install binutils"


def environment(place: Path) -> dict[str, str]:
    """The environment variables that make a process link like this. The script is created in the folder `place` if it
    does not exist. Empty if there is no linker, or no room for the script."""
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
    """Creates a script atomically: another process may be about to run it."""
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
