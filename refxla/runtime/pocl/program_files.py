"""What PoCL makes of a program, as bytes to keep, and back.

PoCL has a directory for each program: its bitcode, and a library for each kernel that was launched. Kept are these
files. PoCL 3 takes the bitcode as a program's binary, past clang, whose reading of its own headers alone takes most of
a build; it then looks for the libraries of all such programs in one place, by the names of the kernels, of which no two
are alike (codegen/opencl_program.py). Other versions find the files where they were, when the source is built again.
"""

from __future__ import annotations

import io
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...codegen.opencl_program import Part
from ..devices import Device

_BITCODE = "program.bc"


def pack(directory: Path, parts: Sequence[Part]) -> bytes | None:
    """The files that PoCL made of these parts in its directory; None if there are none."""
    kernels = {function for part in parts for function in part.functions}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for library in sorted(directory.glob("??/*/*/*/*.so")):
            kernel = library.parents[1]
            if kernel.name in kernels:
                beside = (p for p in sorted(kernel.parent.iterdir()) if p.is_file() and p.suffix != ".temp")
                for path in (*beside, library):
                    name = path.relative_to(directory).as_posix()
                    if name not in archive.NameToInfo:
                        archive.write(path, name)
    return out.getvalue() if archive.NameToInfo else None


def restore(
    content: bytes, directory: Path, device: Device, raw: Any, parts: Sequence[Part], options: str
) -> list[Any]:
    """For each part its pyopencl program, with its kernels as PoCL compiled them; None where it is not in `content`,
    or must be built from its source, which then takes little.

    Raises pyopencl.Error for bitcode that PoCL does not take.
    """
    from pyopencl import _cl

    takes_bitcode = device.driver.split()[-1].startswith("3.")
    bitcode: dict[str, zipfile.ZipInfo] = {}  # by the names of the program's kernels
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = defaultdict(list)
        for member in archive.infolist():
            members["/".join(member.filename.split("/")[:2])].append(member)
        for program, files in members.items():
            for member in files:
                inside = member.filename[len(program) + 1 :]
                if takes_bitcode and "/" in inside:
                    bitcode[inside.split("/")[0]] = next(m for m in files if m.filename == f"{program}/{_BITCODE}")
                    _write(directory / inside, archive, member)
                elif not takes_bitcode:
                    _write(directory / member.filename, archive, member)
        made: list[Any] = []
        for part in parts:
            member = next((bitcode[f] for f in part.functions if f in bitcode), None)
            made.append(None if member is None else _cl._Program(device.context, [raw], [archive.read(member)]))
            if member is not None:
                made[-1]._build(options.encode(), [raw])
    return made


def _write(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive.read(member))
