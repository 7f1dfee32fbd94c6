"""Executables as files: a compilation, its kernels in machine code, and the program itself.

A file is a magic number, the format's number, the length and the SHA-256 of what follows, and a SavedExecutable as
serialization.py writes it. If the device, its driver and the processor are those that the file was made with, its
kernels run unchanged; otherwise the program in it is compiled again. JAX gets the same bytes when it serializes an
executable on refxla's platform (pjrt/programs.py), and the compilation in them is what the cache on disk stores.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refxla_spec.errors import InputError, plural

from ..files import write_whole
from ..ir.calling_convention import CallingConvention
from ..version import RELEASE
from . import serialization

MARK = b"\x89refxla\r\n\x1a\n"  # not text, and damaged by anything that changes line ends
FORMAT = 1
_HEAD = len(MARK) + 4 + 8 + 32


@serialization.register
@dataclass(frozen=True)
class SavedDevice:
    """The device that a file was made for: the properties that decide whether the file's kernels run unchanged.

    `architecture` and `instruction_sets` are the processor's, under the system's names; `target` and `properties` have
    the fields of Target and of Properties; `probe` is the key of the latter.
    """

    name: str
    label: str
    platform: str
    driver: str
    kind: str
    architecture: str
    instruction_sets: tuple[str, ...]
    target: dict[str, Any]
    properties: dict[str, Any]
    probe: str


@serialization.register
@dataclass(frozen=True)
class SavedExecutable:
    """The contents of a file.

    `program` is a serialized HloModuleProto; `without`, `winograd` and `library_calls` are how it was compiled.
    `compilation` is a Compilation as serialization.py writes it. `binaries` has, under the key of each part of the
    OpenCL C, the output of the device's compiler. `calling` says how a function's arguments become the program's; None:
    it is a program. `options` is JAX's.
    """

    release: str
    name: str
    program: bytes
    without: tuple[str, ...]
    winograd: bool
    library_calls: bool
    device: SavedDevice
    compilation: bytes
    binaries: dict[str, bytes] = field(default_factory=dict)
    calling: CallingConvention | None = None
    options: bytes = b""


def is_executable(data: bytes | memoryview) -> bool:
    """Whether bytes begin like such a file."""
    return bytes(data[: len(MARK)]) == MARK


def pack(saved: SavedExecutable) -> bytes:
    """The bytes of a file."""
    content = serialization.dumps(saved)
    head = MARK + FORMAT.to_bytes(4, "little") + len(content).to_bytes(8, "little")
    return head + hashlib.sha256(content).digest() + content


def write(path: str | Path, saved: SavedExecutable) -> None:
    """Writes a file atomically. Raises InputError."""
    write_whole(path, pack(saved))


def read(path: str | Path) -> SavedExecutable:
    """The contents of the file at a path. Raises InputError."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as problem:
        raise InputError(f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}") from None
    return unpack(data, str(path))


def unpack(data: bytes, name: str) -> SavedExecutable:
    """The contents of a file; `name` is its name in messages. Raises InputError for anything that is not such a file,
    is incomplete, or has another format."""
    if not is_executable(data):
        changed = data.lstrip(MARK[:1]).startswith(MARK[1:7])
        if changed:
            raise InputError(f"{name} was changed on its way, as a text is; copy or build it again")
        raise InputError(
            f"{name} is not an executable of refxla's, as `refxla build PROGRAM -o OUT` or executable.save(...) makes "
            "one; a program is compiled by refxla.compile(path)"
        )
    if len(data) < _HEAD:
        raise InputError(f"{name} is cut off after {plural(len(data), 'byte')}; copy or build it again")
    place = len(MARK)
    number, size = (int.from_bytes(data[a:b], "little") for a, b in ((place, place + 4), (place + 4, place + 12)))
    if number != FORMAT:
        raise InputError(
            f"{name} has the format {number}, and this is refxla {RELEASE}, which reads the format {FORMAT}; build it "
            "again with this version"
        )
    content = memoryview(data)[_HEAD:]
    if len(content) != size:
        what = "is cut off" if len(content) < size else "has something after its end"
        raise InputError(f"{name} {what}: {len(content):,} bytes instead of {size:,}; copy or build it again")
    if hashlib.sha256(content).digest() != data[place + 12 : _HEAD]:
        raise InputError(f"{name} is damaged: its checksum is wrong; copy or build it again")
    try:
        executable = serialization.loads(content)
    except serialization.UnreadableError as problem:
        raise InputError(
            f"{name} cannot be read by refxla {RELEASE}: {problem}; build it again with this version"
        ) from None
    if not isinstance(executable, SavedExecutable):
        raise InputError(f"{name} is not an executable of refxla's; build it again")
    return executable
