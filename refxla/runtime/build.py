"""OpenCL C into a built program that is ready to launch, through the cache on disk.

Two kinds of device. Most give their compiled program as bytes and take them back. PoCL does too, but compiles each
kernel a second time to make them general; what it compiles for launching lies in files in its own directory, so those
files are kept instead: the next process puts them back, and neither compiles nor links anything.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import threading
import time
import zipfile
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from refxla_spec.errors import DeviceError

from ..codegen.program import Part, Program
from . import cache
from .beside import Helper, libraries
from .devices import Device, pocl_directory

_pocl_lock = threading.Lock()  # which files a program makes is seen by what is new in the directory
_ROOM = 16 << 20  # more than any program was seen to take
_PART = 30_000  # characters: a quarter of a second of PoCL's time
_HELPED = 3  # so many parts are worth a process beside this one, which takes half a second to start
_PATIENCE = 2.0  # seconds that a helper is waited for at least
_SMALL_GRID = 65535  # PoCL compiles a kernel once for launches up to this size and again for larger ones


def build(device: Device, raw: Any, program: Program, items: Iterable[int] = ()) -> dict[str, Any]:
    """The parts of a program built for `raw`, one of the device's `raws`: for each __kernel its pyopencl program.

    `items` are the sizes of the launches to come: what a device puts off until the first launch is then done here.
    Raises DeviceError with the compiler's log.
    """
    options = " ".join(device.target.build_options)
    if device.kind == "simulator":
        options += " -Drestrict="  # Oclgrind stops at what its compiler makes of restrict in an inlined function
    store = cache.cache()
    if device.platform != "Portable Computing Language":
        sources = [part.source for part in program.parts]
        return _by_function(program, [_with_binary(device, raw, source, options, store) for source in sources])
    name = _key([part.source for part in program.parts], options, raw)
    kept = store.get(name)
    sizes = _sizes(items)
    with _pocl_lock:
        directory = pocl_directory()
        if directory is not None:
            _room(directory)
            if kept is not None:
                _unpack(kept, directory)
        before = _programs(directory)
        if kept is None and directory is not None and len(program.parts) >= _HELPED and _processors() > 1:
            _compile_beside(device, raw, program.parts, options, sizes, directory)
        built = [_compiled(device, raw, part, options, sizes) for part in program.parts]
        if directory is not None and kept is None:
            new = _programs(directory) - before
            if new:
                store.put(name, _pack(directory, new))
    return _by_function(program, built)


def _by_function(program: Program, built: Sequence[Any]) -> dict[str, Any]:
    return {f: p for part, p in zip(program.parts, built, strict=True) for f in part.functions}


def part_size(device: Device) -> int | None:
    """How many characters of OpenCL C make a part of a program for the device; None: a program is one part."""
    return _PART if device.platform == "Portable Computing Language" and _processors() > 1 else None


def _processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _key(sources: list[str], options: str, raw: Any) -> str:
    return cache.key("program", *sources, options, raw.platform.name, raw.name, raw.version, raw.driver_version)


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


def _with_binary(device: Device, raw: Any, source: str, options: str, store: cache.Cache) -> Any:
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


def _compiled(device: Device, raw: Any, part: Part, options: str, sizes: Iterable[int]) -> Any:
    program = compile_source(device.context, raw, part.source, options)
    _finish(device, raw, program, part.functions, sizes)
    return program


def _compile_beside(
    device: Device, raw: Any, parts: Sequence[Part], options: str, sizes: list[int], directory: Path
) -> None:
    """Have parts compiled into PoCL's directory, here and in a process beside this one, each at its own pace.

    What the other process has not done when this one is ready, and has waited as long as its own share took, is left.
    """
    paths = libraries()
    if paths is None:
        return
    left = deque(parts)
    begin = time.monotonic()
    try:
        helper = Helper(left, options, sizes, *paths, raw.platform.get_devices().index(raw), directory)
    except OSError:  # no process can be started
        return
    try:
        with contextlib.suppress(IndexError):  # nothing is left
            while True:
                _compiled(device, raw, left.popleft(), options, sizes)
        helper.wait(max(_PATIENCE, time.monotonic() - begin))
    finally:
        helper.end()


def _sizes(items: Iterable[int]) -> list[int]:
    """The sizes of launches for which PoCL compiles a kernel."""
    most = max(items, default=1)
    return [1, most] if most > _SMALL_GRID else [1]


def _finish(device: Device, raw: Any, program: Any, functions: Iterable[str], sizes: Iterable[int]) -> None:
    """Launch each kernel with a `which` that no case has, which makes PoCL compile it and does nothing else."""
    import pyopencl as cl

    queue = device.queue(raw)
    nothing = cl.SVM(np.zeros(64, np.uint8))
    for function in functions:
        kernel = cl.Kernel(program, function)
        kernel.set_arg(0, np.int32(-1))
        kernel.set_arg(1, np.int32(0))
        for n in range(2, kernel.num_args):
            kernel.set_arg(n, nothing)
        for size in sizes:
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


def _programs(directory: Path | None) -> set[Path]:
    """PoCL's directories of one program each, relative to its own."""
    if directory is None or not directory.is_dir():
        return set()
    return {path.relative_to(directory) for path in directory.glob("??/*") if path.is_dir()}


def _pack(directory: Path, programs: set[Path]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for program in sorted(programs):
            for path in sorted((directory / program).rglob("*")):
                if path.is_file() and path.suffix != ".temp":  # a helper that was ended may leave some
                    archive.write(path, path.relative_to(directory).as_posix())
    return out.getvalue()


def _unpack(content: bytes, directory: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            path = directory / member.filename
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))
