"""PoCL's library of built-in functions, cut down to the one that refxla's kernels call.

PoCL reads its library, 7 MB of bitcode, before the first program of a process, which takes 0.3 s; the program itself
takes 0.02. refxla's kernels call one of its functions (description.py). The bitcode that PoCL generates for a program
which calls that function contains it, and what PoCL itself needs besides, so it can replace the library. This is done
in processes that compile only for refxla (compile_workers.py). They load PoCL through a folder of links in which only
the library is another file: the PoCL of the wheel pocl-binary-distribution finds its files relative to where it was
loaded from.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from pathlib import Path

from ...codegen.primitives import GET_GLOBAL_ID

_FILES = Path("..", "..", "pocl_binary_distribution", ".libs")  # relative to the folder of libpocl
_DATA = Path("share", "pocl")
# A megabyte of declarations, which programs compiled with BARE leave out, and new names for a thousand functions, which
# they do not call: clang reads them twice for each program.
_HEADERS = ("opencl-c.h", "_builtin_renames.h")

SOURCE = f"""{GET_GLOBAL_ID}
__kernel void refxla_builtins(int which, int offset, __global ulong* a) {{
    if (which >= 0) a[which] = get_global_id(0);
}}
"""


def made_by(build: Callable[[str], object], directory: Path) -> str:
    """The library as text, made by `build`, which has PoCL build SOURCE in its `directory`; "" if PoCL leaves no
    bitcode there."""
    before = set(directory.glob("*/*/program.bc"))
    build(SOURCE)
    files = set(directory.glob("*/*/program.bc")) - before
    return base64.b64encode(zlib.compress(files.pop().read_bytes())).decode() if len(files) == 1 else ""


def folder(place: Path, pocl: Path, library: str) -> Path | None:
    """The path from which to load the PoCL at `pocl` so that it reads `library` (see made_by) instead of its own. It is
    in the folder `place`, which is created if it does not exist. Programs compiled with it must be BARE. None if this
    PoCL keeps its files elsewhere.

    Raises OSError when the folder cannot be written.
    """
    files = (pocl.parent / _FILES).resolve()
    libraries = sorted((files / _DATA).glob("kernel-*.bc"))
    if not libraries:
        return None
    loaded = place / "of_pyopencl" / "libs" / pocl.name
    if not place.exists():
        data = place / _FILES.parts[2] / _FILES.parts[3] / _DATA
        include = data / "include"
        for directory in (loaded.parent, include):
            directory.mkdir(parents=True)
        loaded.symlink_to(pocl)
        for beside in files.glob("*.so*"):
            (data.parents[1] / beside.name).symlink_to(beside)
        for header in (files / _DATA / "include").iterdir():
            if header.name in _HEADERS:
                (include / header.name).touch()
            else:
                (include / header.name).symlink_to(header)
        for each in libraries:  # PoCL picks the one for its processor, for which `library` was made
            (data / each.name).write_bytes(zlib.decompress(base64.b64decode(library)))
    return loaded
