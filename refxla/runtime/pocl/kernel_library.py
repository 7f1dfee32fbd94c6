"""The kernels of a part of a program as functions, bypassing OpenCL.

PoCL 3 compiles each kernel to a shared library with a function

    void _pocl_kernel_NAME_workgroup(void** arguments, void* context, size_t x, size_t y, size_t z)

that runs one work-group: `arguments` has a pointer to each argument; x, y and z are the group's indices. Its device
"basic" copies each argument into memory of its own, then calls the function for each group in the thread that launches
the kernel. The executor (_core/launch.pyx) also calls it, which takes some nanoseconds where OpenCL takes a microsecond
and 75 ns more for each argument. A part is loaded by loading its libraries, without an OpenCL program or kernel.
`context` has what kernels may query about the launch; refxla's only query their index (get_global_id), which is x in
groups of one item.

Parts may call each other's functions (codegen/linked_parts.py). Once all are loaded, `link` stores the addresses of
the functions that a part imports in the variables through which its stubs jump. A part whose code is shared by programs
of several sizes (codegen/size_variables.py) is loaded once for each of them, from a file of its own, since a file that
is loaded twice has its variables once.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import io
import mmap
import os
import platform as machine
import struct
import sys
import weakref
import zipfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from refxla_spec.errors import DeviceError

from ...codegen.program_part import ProgramPart, link_name
from ...codegen.size_variables import SYMBOL
from ..devices import Device
from . import program_files
from .kernels import compiled

_PROCESSORS = ("x86_64", "aarch64")  # for which the executor can set the arithmetic modes
_PT_LOAD, _PF_R = 1, 4  # of an ELF file: the type of a mapped segment, and the flag of a readable one


class KernelFilesError(Exception):
    """PoCL's files of a part cannot be opened; the message says why."""


class KernelLibrary:
    """The kernels of a part. `addresses` has their functions, which exist as long as this object."""

    def __init__(self, device: Device, part: ProgramPart, files: Sequence[Path]) -> None:
        """Loads the libraries, one for each kernel of the part. Raises OSError for files that are not PoCL's."""
        self._device, self._part = device, part
        self._libraries: list[int] = []  # handles; a CDLL would be a class of its own for each
        self._imported: list[KernelLibrary] = []  # to keep them loaded
        self.addresses: dict[str, int] = {}
        for kernel, file in zip(part.functions, files, strict=True):
            library = _ctypes.dlopen(str(file), os.RTLD_NOW | os.RTLD_LOCAL)
            weakref.finalize(self, _ctypes.dlclose, library).atexit = False
            self._libraries.append(library)
            _touch_pages(library)
            self.addresses[kernel] = _ctypes.dlsym(library, f"_pocl_kernel_{kernel}_workgroup")
        if part.size_values:
            values = struct.pack(f"{len(part.size_values)}i", *part.size_values)
            ctypes.memmove(_ctypes.dlsym(self._libraries[-1], SYMBOL), values, len(values))

    @property
    def exports(self) -> dict[str, int]:
        """The addresses of the functions that other parts call, which are in the last kernel's library. Raises OSError
        for one that does not exist."""
        return {name: _ctypes.dlsym(self._libraries[-1], name) for name in self._part.exports}

    def import_from(self, parts: Sequence[KernelLibrary], addresses: Mapping[str, int]) -> None:
        """Links the functions that this part imports to the `addresses` of these parts' exports. Raises KeyError for
        one that none exports."""
        self._imported = [part for part in parts if part is not self]
        for library in self._libraries:
            for name in self._part.imports:
                with contextlib.suppress(OSError):  # a kernel that does not call it
                    ctypes.c_void_p.from_address(_ctypes.dlsym(library, link_name(name))).value = addresses[name]

    @cached_property
    def _program(self) -> Any:
        return compiled(self._device, self._device.runner, self._part.specialized)

    @property
    def int_ptr(self) -> int:
        """The part as an OpenCL program, for callers that launch its kernels as with pyopencl's programs. Raises
        DeviceError if it calls functions of others: nobody links an OpenCL program."""
        if self._part.imports:
            raise DeviceError(
                "PoCL's files of a part of this program cannot be opened, and only parts that are opened can be "
                "linked; is its directory (TMPDIR) full, or has the process too many open files or mapped libraries?"
            )
        number: int = self._program.int_ptr
        return number


def _touch_pages(library: int) -> None:
    """Maps every page of a loaded library now. Kernels load constants by masked instructions; if all elements are
    masked out, the processor does not read the page, so it is never mapped, and while it is not mapped, each such
    instruction takes a hundred times as long. The page with the constants of a rare case would never be mapped."""
    # the first field of the link_map of glibc, and of the dso of musl
    base = ctypes.c_size_t.from_address(library).value
    (table,) = struct.unpack("<Q", ctypes.string_at(base + 0x20, 8))
    size, count = struct.unpack("<HH", ctypes.string_at(base + 0x36, 4))
    for n in range(count):
        kind, flags, _, begin, _, length = struct.unpack("<IIQQQQ", ctypes.string_at(base + table + n * size, 40))
        if kind == _PT_LOAD and flags & _PF_R and length:
            for page in range(begin // mmap.PAGESIZE, -(-(begin + length) // mmap.PAGESIZE)):
                ctypes.string_at(base + page * mmap.PAGESIZE, 1)


def links(device: Device) -> bool:
    """Whether parts of a program for the device may call each other's functions: stubs exist for x86-64 only."""
    return applies(device) and machine.machine() == "x86_64"


def link(libraries: Sequence[KernelLibrary]) -> None:
    """Links the parts of a program. Raises DeviceError if one lacks a function."""
    try:
        addresses = {name: address for library in libraries for name, address in library.exports.items()}
        for library in libraries:
            library.import_from(libraries, addresses)
    except (OSError, KeyError) as problem:
        raise DeviceError(f"PoCL's files of a program lack a function: {problem}") from None


def applies(device: Device) -> bool:
    """Whether the kernels of a device can be called as functions."""
    return (
        sys.platform == "linux"
        and machine.machine() in _PROCESSORS
        and program_files.is_pocl_3(device)
        and device.runner.name.startswith("basic")
        and not device.target.capabilities.work_groups
        and device.access == "host"
    )


def unpacked(content: bytes, directory: Path, device: Device, part: ProgramPart) -> KernelLibrary:
    """The kernels of a part whose files were packed (program_files.py) and are now written to `directory`. Raises
    KernelFilesError if one of them has no file, or one that is not a library of PoCL's."""
    files: list[Path] = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(member, program_files.inside(member).split("/")) for member in archive.infolist()]
        for kernel in part.functions:
            own = [m for m, names in members if len(names) == 3 and names[0] == kernel and names[2].endswith(".so")]
            if not own:
                raise KernelFilesError(f"there is none of the kernel {kernel}")
            file = directory / program_files.inside(own[0])
            if part.size_values:
                file = file.parent / "-".join(map(str, part.size_values)) / file.name
            files.append(file)
            program_files.write(files[-1], archive, own[0])
    try:
        return KernelLibrary(device, part, files)
    except OSError as problem:
        for file in files:
            file.unlink(missing_ok=True)
        raise KernelFilesError(str(problem)) from problem
