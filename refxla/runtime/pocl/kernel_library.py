"""The kernels of a part of a program as functions, past OpenCL.

PoCL 3 makes of each kernel a shared library with a function

    void _pocl_kernel_NAME_workgroup(void** arguments, void* context, size_t x, size_t y, size_t z)

that runs one work group: `arguments` has a pointer to each argument, x, y and z are the group's indices. Its device
"basic" calls it for each group in the thread that launches the kernel, after it has copied each argument into memory of
its own. The executor (_core/launch.pyx) calls it, too, which takes some nanoseconds where OpenCL takes a microsecond
and 75 ns more for each argument; and to open a part is to open its libraries, without a program or kernel of OpenCL's.
`context` has what kernels may ask about the launch; refxla's ask for nothing but their index (get_global_id), which is
x where groups are of one item.

Parts may call each other's functions (codegen/opencl_program.py). Once all are opened, `link` puts the addresses of
those that a part imports into the variables that its stubs jump by.
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

from ...codegen.opencl_program import ProgramPart, link_name
from ..devices import Device
from . import program_files
from .kernels import compiled

_PROCESSORS = ("x86_64", "aarch64")  # on which the executor knows how to set the modes of arithmetic
_PT_LOAD, _PF_R = 1, 4  # of an ELF file: the kind of a segment that is mapped, the flag of one that can be read


class KernelLibrary:
    """The kernels of a part. `addresses` has their functions, which are there as long as this is."""

    def __init__(self, device: Device, part: ProgramPart, files: Sequence[Path]) -> None:
        """Opens the libraries, one for each kernel of the part. Raises OSError or AttributeError for files that are
        none of PoCL's."""
        self._device, self._part = device, part
        self._libraries: list[ctypes.CDLL] = []
        self._imported: list[KernelLibrary] = []  # which are there as long as this is
        self.addresses: dict[str, int] = {}
        for kernel, file in zip(part.functions, files, strict=True):
            library = ctypes.CDLL(str(file), mode=os.RTLD_NOW | os.RTLD_LOCAL)
            weakref.finalize(self, _ctypes.dlclose, library._handle).atexit = False
            self._libraries.append(library)
            _touch_pages(library)
            self.addresses[kernel] = _address(library, f"_pocl_kernel_{kernel}_workgroup")

    @property
    def exports(self) -> dict[str, int]:
        """The addresses of the functions that other parts call, which the last kernel has, too. Raises AttributeError
        for one that is not there."""
        return {name: _address(self._libraries[-1], name) for name in self._part.exports}

    def import_from(self, parts: Sequence[KernelLibrary], addresses: Mapping[str, int]) -> None:
        """Have the functions that this part imports called at the `addresses` of what these parts export. Raises
        KeyError for one that none exports."""
        self._imported = [part for part in parts if part is not self]
        for library in self._libraries:
            for name in self._part.imports:
                with contextlib.suppress(ValueError):  # a kernel that does not call it
                    ctypes.c_void_p.in_dll(library, link_name(name)).value = addresses[name]

    @cached_property
    def _program(self) -> Any:
        return compiled(self._device, self._device.runner, self._part)

    @property
    def int_ptr(self) -> int:
        """The part as a program of OpenCL's, for who launches its kernels: as pyopencl's programs have it."""
        number: int = self._program.int_ptr
        return number


def _touch_pages(library: ctypes.CDLL) -> None:
    """Have every page of a library that was opened mapped now. Kernels load constants by instructions with masks; where
    all elements are masked out, the processor neither reads the page nor has it mapped, and each such instruction takes
    a hundred times as long while it is not: the page of the constants of a rare case would never be."""
    base = ctypes.c_size_t.from_address(library._handle).value  # the first field of glibc's link_map, and of musl's dso
    (table,) = struct.unpack("<Q", ctypes.string_at(base + 0x20, 8))
    size, count = struct.unpack("<HH", ctypes.string_at(base + 0x36, 4))
    for n in range(count):
        kind, flags, _, begin, _, length = struct.unpack("<IIQQQQ", ctypes.string_at(base + table + n * size, 40))
        if kind == _PT_LOAD and flags & _PF_R and length:
            for page in range(begin // mmap.PAGESIZE, -(-(begin + length) // mmap.PAGESIZE)):
                ctypes.string_at(base + page * mmap.PAGESIZE, 1)


def _address(library: ctypes.CDLL, name: str) -> int:
    """Where a function lies. Raises AttributeError where there is none."""
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None  # a symbol that is found lies somewhere
    return address


def links(device: Device) -> bool:
    """Whether parts of a program for the device may call each other's functions: stubs are written for x86-64."""
    return applies(device) and machine.machine() == "x86_64"


def link(programs: Sequence[Any]) -> None:
    """Link the parts of a program, all of which are opened. Raises DeviceError if one is not a KernelLibrary or lacks a
    function."""
    libraries = [program for program in programs if isinstance(program, KernelLibrary)]
    if len(libraries) < len(programs):
        raise DeviceError("PoCL's files of a program cannot be opened; is its directory (TMPDIR) mounted noexec?")
    try:
        addresses = {name: address for library in libraries for name, address in library.exports.items()}
        for library in libraries:
            library.import_from(libraries, addresses)
    except (AttributeError, KeyError) as problem:
        raise DeviceError(f"PoCL's files of a program lack a function: {problem}") from None


def applies(device: Device) -> bool:
    """Whether the kernels of a device can be called."""
    return (
        sys.platform == "linux"
        and machine.machine() in _PROCESSORS
        and program_files.is_pocl_3(device)
        and device.runner.name.startswith("basic")
        and not device.target.capabilities.work_groups
        and device.access == "host"
    )


def unpacked(content: bytes, directory: Path, device: Device, part: ProgramPart) -> KernelLibrary | None:
    """The kernels of a part whose files were packed (program_files.py) and are now put into `directory`; None where one
    of them has no file, or one that is no library of PoCL's."""
    files: list[Path] = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(member, program_files.inside(member).split("/")) for member in archive.infolist()]
        for kernel in part.functions:
            own = [m for m, names in members if len(names) == 3 and names[0] == kernel and names[2].endswith(".so")]
            if not own:
                return None
            files.append(directory / program_files.inside(own[0]))
            program_files.write(files[-1], archive, own[0])
    try:
        return KernelLibrary(device, part, files)
    except (OSError, AttributeError):
        for file in files:
            file.unlink(missing_ok=True)
        return None
