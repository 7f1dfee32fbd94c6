"""A program built by PoCL, from the files that were kept of it or by processes beside this one.

PoCL gives its compiled program as bytes, but compiles each kernel a second time to make them general; what it compiles
for launching lies in files in its own directory, so those files are kept: the next process puts them back, and neither
compiles nor links anything (program_files.py).
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refxla_spec.errors import DeviceError

from ...codegen.opencl_program import Part
from .. import disk_cache
from ..devices import Device
from ..opencl_compiler import compile_source, program_key
from . import platform, program_files
from .kernels import finish
from .parallel_build import Ahead

_lock = threading.Lock()  # one thread at a time works on the files in PoCL's directory
_ROOM = 16 << 20  # more than any program was seen to take


def build(device: Device, parts: Sequence[Part], ahead: Ahead | None = None) -> list[Any]:
    """The pyopencl programs of the parts of a program, built for a device's `runner`; `ahead` is what began to compile
    the program when its first parts were made. Raises DeviceError with the compiler's log."""
    raw, store = device.runner, disk_cache.cache()
    name = program_key([part.source for part in parts], device.build_options, raw)
    directory = platform.directory()
    with _lock:
        kept = None
        if directory is not None:
            _room(directory)
            kept = store.get(name)
        built = None if kept is None or directory is None else _restored(device, raw, parts, kept, directory)
        if built is None:
            with ahead or Ahead(device) as work:
                built = work.finish(parts)
            packed = None if directory is None else program_files.pack(directory, parts)
            if packed is not None:
                store.put(name, packed)
    return built


def _restored(device: Device, raw: Any, parts: Sequence[Part], kept: bytes, directory: Path) -> list[Any] | None:
    """The same for all parts of a program, from what was kept of it; None if PoCL does not take that."""
    import pyopencl as cl

    options = device.build_options
    try:
        found = program_files.restore(kept, directory, device, raw, parts, options)
    except cl.Error:
        return None
    built = [
        compile_source(device.context, raw, part.source, options) if program is None else program
        for program, part in zip(found, parts, strict=True)
    ]
    finish(device, raw, zip(built, parts, strict=True))
    return built


def _room(directory: Path) -> None:
    """Raises DeviceError when PoCL has no room to compile in, which it would answer with an error of another name."""
    free = shutil.disk_usage(directory.parent).free
    if free < _ROOM:
        raise DeviceError(
            f"PoCL compiles in {directory.parent}, where {free:,} bytes are free: make room there, or set TMPDIR to a "
            "directory of another disk"
        )
