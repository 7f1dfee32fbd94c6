"""PoCL's files for a part of a program, as bytes to keep, and back.

PoCL has a directory for each program, with its bitcode and a library for each kernel that was launched. These files are
kept. PoCL 3 accepts the bitcode as a program's binary, bypassing clang, which takes most of a build just to read its
own headers. PoCL then looks for the libraries of all such programs in one place, by the names of the kernels, which are
unique (codegen/opencl_program.py). Other versions find the files in their old place when the source is built again.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

from ...codegen.program_part import ProgramPart
from ..devices import Device

_BITCODE = "program.bc"


class Directory:
    """PoCL's directory, in which programs are found by their kernels.

    The directory of a program is named after a digest that only PoCL can compute: DI/GEST. Listing all of them for each
    program would be slow in a process that compiles many, so only those that changed since the last listing are listed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listed: dict[str, int] = {}  # the time of each directory, by the first part of the digest
        self._programs: dict[str, Path] = {}  # by kernel name

    def program(self, kernel: str) -> Path | None:
        """The directory of the program with this kernel, which was launched; None if there is none."""
        if kernel not in self._programs:
            self._list()
        if kernel not in self._programs:  # a file system's clock may advance in steps of hundredths of a second
            self._listed.clear()
            self._list()
        return self._programs.get(kernel)

    def remove(self, kernel: str) -> None:
        """Removes the program with this kernel, if there is one."""
        program = self.program(kernel)
        if program is not None:
            shutil.rmtree(program, ignore_errors=True)
            self._programs = {name: path for name, path in self._programs.items() if path != program}

    def _list(self) -> None:
        with contextlib.suppress(OSError), os.scandir(self.path) as firsts:
            for first in firsts:
                if len(first.name) == 2 and first.is_dir():
                    changed = first.stat().st_mtime_ns
                    if self._listed.get(first.name) != changed and all([self._enter(p) for p in _children(first.path)]):
                        self._listed[first.name] = changed

    def _enter(self, program: os.DirEntry[str]) -> bool:
        """Records the kernels of a program. Returns whether it has any yet."""
        kernels = [entry.name for entry in _children(program.path) if entry.is_dir()]
        self._programs.update(dict.fromkeys(kernels, Path(program.path)))
        return bool(kernels)


def _children(path: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        return list(entries)
    return []


def pack(directory: Directory, part: ProgramPart) -> bytes | None:
    """PoCL's files for a part in its directory; None if some of its kernels are not compiled yet."""
    program = directory.program(part.functions[0]) if part.functions else None
    if program is None:
        return None
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        libraries = [sorted(program.glob(f"{kernel}/*/*.so")) for kernel in part.functions]
        if not all(libraries) or not (program / _BITCODE).exists():
            return None
        beside = (p for p in sorted(program.iterdir()) if p.is_file() and p.suffix != ".temp")
        for path in (*beside, *(library for each in libraries for library in each)):
            archive.write(path, path.relative_to(directory.path).as_posix())
    return out.getvalue()


def restore(content: bytes, directory: Path, device: Device, raw: Any) -> Any | None:
    """The pyopencl program of a part, with its kernels as PoCL compiled them; None if it must be built from its source,
    which is then fast.

    Raises pyopencl.Error for bitcode that PoCL does not accept.
    """
    from pyopencl import _cl

    bitcode = None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            within = inside(member)
            if not is_pocl_3(device):
                write(directory / member.filename, archive, member)
            elif "/" in within:
                write(directory / within, archive, member)
            elif within == _BITCODE:
                bitcode = archive.read(member)
    if bitcode is None:
        return None
    program = _cl._Program(device.context, [raw], [bitcode])
    program._build(device.build_options.encode(), [raw])
    return program


def is_pocl_3(device: Device) -> bool:
    """Whether a device is PoCL 3's."""
    return device.driver.split()[-1].startswith("3.")


def inside(member: zipfile.ZipInfo) -> str:
    """Where a packed file was in the directory of its program: KERNEL/SIZES/KERNEL.so, or a file's name. Raises
    ValueError for one that was elsewhere."""
    if ".." in Path(member.filename).parts or member.filename.startswith("/"):
        raise ValueError(f"{member.filename} lies outside of the directory that it is to be put in")
    return "/".join(member.filename.split("/")[2:])


def write(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Writes a packed file there, unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive.read(member))
