"""The parts of programs that PoCL has compiled, kept on disk one by one.

Programs have parts in common, most of all those of a single instruction: a part that one program compiled can be loaded
by the others. A part that a compile worker compiled is loaded in the same way, from PoCL's bitcode and libraries, which
takes a tenth of the time that clang takes to see that it knows the source.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from refxla_spec.errors import DeviceError

from ...codegen.program_part import ProgramPart
from .. import disk_cache
from ..devices import Device
from ..opencl_compiler import compile_source, program_key
from . import kernel_library, platform, program_files
from .compile_workers import sizes
from .kernels import compiled, finish

_directory = cache(program_files.Directory)
_lock = threading.RLock()
_shared: dict[str, kernel_library.KernelLibrary] = {}  # those parts of all programs that are open, by their keys
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _alone(function: _Function) -> _Function:
    """A function that works on the files in PoCL's directory: one thread does so at a time."""

    @functools.wraps(function)
    def alone(*arguments: Any) -> Any:
        with _lock:
            return function(*arguments)

    return cast(_Function, alone)


def is_stored(device: Device, part: ProgramPart) -> bool:
    """Whether a part is on disk, or open."""
    name = key(device, part)
    return platform.directory() is not None and (name in _shared or disk_cache.cache().has(name))


@_alone
def load(device: Device, part: ProgramPart, binaries: Mapping[str, bytes] | None = None) -> Any | None:
    """A part from the cache with its kernels ready, as a KernelLibrary or a pyopencl program; None if there is none
    that PoCL accepts. `binaries`, by the parts' keys, takes precedence over the disk."""
    directory = platform.directory()
    if directory is None:
        return None
    name = key(device, part)
    if name in _shared:
        return _shared[name]
    content = (binaries or {}).get(name) or disk_cache.cache().get(name)
    return None if content is None else _opened(device, part, content, directory)


@_alone
def binary(device: Device, part: ProgramPart) -> bytes | None:
    """PoCL's output for a part, in the form that `load` takes; compiled anew if the cache on disk has none. None if
    PoCL's directory is not ours."""
    if platform.directory() is None:
        return None
    content = disk_cache.cache().get(key(device, part)) or keep(device, part)
    if content is None:
        compiled(device, device.runner, part)
        content = keep(device, part)
    return content


@_alone
def keep(device: Device, part: ProgramPart) -> bytes | None:
    """PoCL's output for a part in its directory, now also stored in the cache on disk; None if there is none."""
    directory = platform.directory()
    content = None if directory is None else program_files.pack(_directory(directory), part)
    if content is not None:
        disk_cache.cache().put(key(device, part), content)
    return content


@_alone
def remove_remains(part: ProgramPart) -> None:
    """Removes what PoCL left of a part that it did not finish."""
    directory = platform.directory()
    if directory is not None and part.functions:
        _directory(directory).remove(part.functions[0])


@_alone
def from_directory(device: Device, part: ProgramPart) -> Any | None:
    """The same for a part that another process compiled into PoCL's directory, now also stored on disk; None if PoCL
    does not accept the files."""
    directory, content = platform.directory(), keep(device, part)
    return None if content is None or directory is None else _opened(device, part, content, directory)


@_alone
def compiled_here(device: Device, part: ProgramPart) -> Any:
    """The same for a part that this process compiles now. If its files cannot be opened, OpenCL launches its kernels.

    Raises DeviceError with the compiler's log, or, for a part that calls functions of others or has some that others
    call, with the reason why its files cannot be opened: only a KernelLibrary can be linked.
    """
    program = compiled(device, device.runner, part)
    directory, content = platform.directory(), keep(device, part)
    try:
        if not kernel_library.applies(device):
            raise kernel_library.KernelFilesError("OpenCL launches this device's kernels")
        if directory is None or content is None:
            raise kernel_library.KernelFilesError("PoCL has written none")
        return _unpacked(content, directory, device, part)
    except kernel_library.KernelFilesError as problem:
        if part.is_linked:
            raise DeviceError(
                f"PoCL's files of a program cannot be opened ({problem}); is its directory (TMPDIR) full or mounted "
                "noexec, or has the process too many open files or mapped libraries?"
            ) from problem
        return compiled(device, device.runner, part.specialized) if part.size_values else program


def key(device: Device, part: ProgramPart) -> str:
    """The key of a part: its source, and for how many sizes of launches PoCL compiles it."""
    return program_key([part.source, str(len(sizes(part)))], device.build_options, device)


def _unpacked(content: bytes, directory: Path, device: Device, part: ProgramPart) -> kernel_library.KernelLibrary:
    library = kernel_library.unpacked(content, directory, device, part)
    if part.shared:
        _shared[key(device, part)] = library
    return library


def _opened(device: Device, part: ProgramPart, content: bytes, directory: Path) -> Any | None:
    import pyopencl as cl

    if kernel_library.applies(device):
        try:
            return _unpacked(content, directory, device, part)
        except kernel_library.KernelFilesError:
            return None  # it is compiled again; if those files cannot be opened either, that says why
    if part.is_linked or part.size_values:
        return None
    raw = device.runner
    try:
        program = program_files.restore(content, directory, device, raw)
    except cl.Error:
        return None
    if program is None:
        program = compile_source(device.context, raw, part.source, device.build_options)
    finish(device, raw, [(program, part)])
    return program
