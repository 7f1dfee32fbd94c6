"""OpenCL C into a built program that is ready to launch, through the cache on disk.

Two kinds of device. Most give their compiled program as bytes and take them back. PoCL does too, but compiles each
kernel a second time to make them general; what it compiles for launching lies in files in its own directory, so those
files are kept instead: the next process puts them back, and neither compiles nor links anything (program_files.py).
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from refxla_spec.errors import DeviceError

from ..codegen.opencl_program import Part, Program
from . import disk_cache
from .devices import Device, pocl_directory
from .pocl import program_files
from .pocl.compile_workers import sizes
from .pocl.parallel_build import Ahead, processors

_pocl_lock = threading.Lock()  # one thread at a time works on the files in PoCL's directory
_ROOM = 16 << 20  # more than any program was seen to take
_PART = 30_000  # characters: a quarter of a second of PoCL's time


def build(device: Device, program: Program, ahead: Ahead | None = None) -> dict[str, Any]:
    """The parts of a program built for a device's `runner`: for each __kernel its pyopencl program.

    `ahead` is what began to compile the program when its first parts were made. Raises DeviceError with the compiler's
    log.
    """
    raw, store = device.runner, disk_cache.cache()
    if device.platform != "Portable Computing Language":
        sources = [part.source for part in program.parts]
        return _by_function(
            program, [_with_binary(device, raw, source, build_options(device), store) for source in sources]
        )
    name = _key([part.source for part in program.parts], build_options(device), raw)
    directory = pocl_directory()
    with _pocl_lock:
        kept = None
        if directory is not None:
            _room(directory)
            kept = store.get(name)
        built = None if kept is None else _restored(device, raw, program.parts, kept, directory)
        if built is None:
            with ahead or Ahead(device) as work:
                built = work.finish(program.parts)
            packed = None if directory is None else program_files.pack(directory, program.parts)
            if packed is not None:
                store.put(name, packed)
    return _by_function(program, built)


def _by_function(program: Program, built: Sequence[Any]) -> dict[str, Any]:
    return {f: p for part, p in zip(program.parts, built, strict=True) for f in part.functions}


def part_size(device: Device) -> int | None:
    """How many characters of OpenCL C make a part of a program for the device; None: a program is one part."""
    return _PART if device.platform == "Portable Computing Language" and processors() > 1 else None


def build_options(device: Device) -> str:
    """The options that each program is built with for the device."""
    # Oclgrind stops at what its compiler makes of restrict in an inlined function.
    return " ".join(device.target.build_options) + (" -Drestrict=" if device.kind == "simulator" else "")


def _key(sources: list[str], options: str, raw: Any) -> str:
    return disk_cache.key("program", *sources, options, raw.platform.name, raw.name, raw.version, raw.driver_version)


def compile_source(context: Any, raw: Any, source: str, options: str = "") -> Any:
    """Compile, without any cache of ours or pyopencl's. Raises DeviceError with the compiler's log."""
    import pyopencl as cl
    from pyopencl import _cl

    program = _cl._Program(context, source)
    try:
        program._build(options.encode(), [raw])
    except cl.Error as error:
        log = program.get_build_info(raw, cl.program_build_info.LOG) or str(error)
        raise DeviceError(
            f"the OpenCL compiler of {raw.name.strip()} refuses a generated program, which is an error of refxla's; "
            f"please report it with this:\n{_excerpt(log, source)}"
        ) from error
    return program


def _excerpt(log: str, source: str, limit: int = 2000) -> str:
    """The compiler's first errors, with the line of the source that the first is about."""
    errors = [line for line in log.splitlines() if "error" in line]
    text = "\n".join(errors or log.splitlines())[:limit]
    place = re.search(r":(\d+):\d+:", text)
    lines = source.splitlines()
    if place and 0 < int(place[1]) <= len(lines):
        text += f"\nline {place[1]}: {lines[int(place[1]) - 1].strip()}"
    return text


def _with_binary(device: Device, raw: Any, source: str, options: str, store: disk_cache.Cache) -> Any:
    import pyopencl as cl
    from pyopencl import _cl

    name = _key([source], options, raw)
    kept = store.get(name)
    if kept is not None:
        try:
            program = _cl._Program(device.context, [raw], [kept])
            program._build(options.encode(), [raw])
            return program
        except cl.Error:  # another version of the driver than it says, perhaps
            store.drop(name)
    program = compile_source(device.context, raw, source, options)
    try:
        binaries = program.get_info(cl.program_info.BINARIES)
    except cl.Error:
        return program  # a device may keep its binaries to itself
    mine = [b for b in binaries if b]
    if len(mine) == 1:
        store.put(name, bytes(mine[0]))
    return program


# PoCL ----------------------------------------------------------------------------------------------------------------


def compiled(device: Device, raw: Any, part: Part) -> Any:
    """A part as a pyopencl program whose kernels are compiled, too. Raises DeviceError with the compiler's log."""
    program = compile_source(device.context, raw, part.source, build_options(device))
    _finish(device, raw, [(program, part)])
    return program


def _restored(device: Device, raw: Any, parts: Sequence[Part], kept: bytes, directory: Path) -> list[Any] | None:
    """The same for all parts of a program, from what was kept of it; None if PoCL does not take that."""
    import pyopencl as cl

    options = build_options(device)
    try:
        found = program_files.restore(kept, directory, device, raw, parts, options)
    except cl.Error:
        return None
    built = [
        compile_source(device.context, raw, part.source, options) if program is None else program
        for program, part in zip(found, parts, strict=True)
    ]
    _finish(device, raw, zip(built, parts, strict=True))
    return built


def _finish(device: Device, raw: Any, programs: Iterable[tuple[Any, Part]]) -> None:
    """Launch each kernel with a `which` that no case has, which makes PoCL compile it and does nothing else."""
    import pyopencl as cl

    queue = device.queue(raw)
    nothing = cl.SVM(np.zeros(64, np.uint8))
    for program, part in programs:
        for function in part.functions:
            kernel = cl.Kernel(program, function)
            kernel.set_arg(0, np.int32(-1))
            kernel.set_arg(1, np.int32(0))
            for n in range(2, kernel.num_args):
                kernel.set_arg(n, nothing)
            for size in sizes(part):
                cl.enqueue_nd_range_kernel(queue, kernel, (size,), (1,))
    queue.finish()


def _room(directory: Path) -> None:
    """Raises DeviceError when PoCL has no room to compile in, which it would answer with an error of another name."""
    free = shutil.disk_usage(directory.parent).free
    if free < _ROOM:
        raise DeviceError(
            f"PoCL compiles in {directory.parent}, where {free:,} bytes are free: make room there, or set TMPDIR to a "
            "directory of another disk"
        )
