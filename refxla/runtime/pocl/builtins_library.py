"""A library of built-in functions for PoCL with the one that refxla's kernels call.

PoCL links every program with its library of OpenCL C's built-in functions: 7 MB of LLVM bitcode, which it reads before
the first program of a process, in 0.3 s, and whose tables of constants it copies into each program. refxla's kernels
call one of its functions (codegen/primitives.py). Processes that compile only for refxla (compile_workers.py), and the
one that probes the device (device_probe.py), load PoCL through a folder of links in which only the library and two
headers are other files: the PoCL of the wheel pocl-binary-distribution finds its files relative to where it was loaded
from.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FILES = Path("..", "..", "pocl_binary_distribution", ".libs")  # relative to the folder of libpocl
_DATA = Path("share", "pocl")
# A megabyte of declarations, which programs compiled with BARE leave out, and new names for a thousand functions, which
# they do not call: clang reads them twice for each program.
_HEADERS = ("opencl-c.h", "_builtin_renames.h")

# The library as LLVM's text, which LLVM reads like bitcode: `size_t get_global_id(uint)` of the first dimension, the
# only one that kernels ask for. The variables are PoCL's own, which it replaces by what a work-group is called with; it
# looks for all of them.
_INDICES = ("global_offset", "group_id", "local_id", "local_size", "num_groups")
LIBRARY = "\n".join(
    (
        *(f"@_{name}_{axis} = external global i64" for name in _INDICES for axis in "xyz"),
        "@_work_dim = external global i32",
        "define i64 @_Z13get_global_idj(i32 %dimension) nounwind {",
        "  %offset = load i64, i64* @_global_offset_x",
        "  %size = load i64, i64* @_local_size_x",
        "  %group = load i64, i64* @_group_id_x",
        "  %local = load i64, i64* @_local_id_x",
        "  %before = mul i64 %size, %group",
        "  %first = add i64 %offset, %before",
        "  %id = add i64 %first, %local",
        "  ret i64 %id",
        "}",
        "",
    )
)


@cache
def folder(directory: Path, pocl: Path) -> Path | None:
    """The path from which to load the PoCL at `pocl` so that it reads LIBRARY instead of its own. It is in a folder
    beside `directory`, which is created if it does not exist. Programs compiled with it must be BARE. None if this PoCL
    keeps its files elsewhere.

    Raises OSError when the folder cannot be written.
    """
    place = directory.with_name("beside")
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
        for each in libraries:  # PoCL picks the one for its processor
            (data / each.name).write_text(LIBRARY)
    return loaded
