"""Builds a program with PoCL, from the files in the cache or with compile workers.

PoCL returns its compiled program as bytes, but compiles each kernel a second time for them, for any launch. The kernels
compiled for a launch are in files in its own directory, so those files are kept: the next process puts them back, and
neither compiles nor links anything (built_parts.py, program_files.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from refxla_spec.errors import DeviceError

from ...codegen.program_part import ProgramPart
from .. import temporary_directories
from ..devices import Device
from . import built_parts, kernel_library, platform
from .parallel_build import ParallelBuild

_LEAST_FREE = 16 << 20  # more than any known program takes


def build(
    device: Device,
    parts: Sequence[ProgramPart],
    parallel_build: ParallelBuild | None = None,
    binaries: Mapping[str, bytes] | None = None,
) -> list[Any]:
    """The pyopencl programs of the parts of a program, built for a device's `runner`; `parallel_build` began to compile
    the program when its first parts were ready, `binaries` has those of parts by their keys. Raises DeviceError with
    the compiler's log."""
    directory = platform.directory()
    with nullcontext() if directory is None else temporary_directories.present(directory):
        if directory is not None:
            _check_space(directory)
        programs = {part.source: built_parts.load(device, part, binaries) for part in parts}
        rest = [part for part in parts if programs[part.source] is None]
        if rest:
            with parallel_build or ParallelBuild(device) as work:
                programs.update(zip((part.source for part in rest), work.finish(rest), strict=True))
    opened: list[Any] = [programs[part.source] for part in parts]
    if any(part.imports for part in parts):
        kernel_library.link(opened)
    return opened


def _check_space(directory: Path) -> None:
    """Raises DeviceError if PoCL has no room to compile in; PoCL itself would report a misleading error."""
    free = shutil.disk_usage(directory.parent).free
    if free < _LEAST_FREE:
        raise DeviceError(
            f"PoCL compiles in {directory.parent}, where {free:,} bytes are free: make room there, or set TMPDIR to a "
            "directory of another disk"
        )
