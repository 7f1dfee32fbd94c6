"""OpenCL C into a built program that is ready to launch, through the cache on disk.

Most devices give their compiled program as bytes and take them back. PoCL needs more (pocl/program_build.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.opencl_program import Program
from . import disk_cache
from .devices import Device
from .opencl_compiler import compile_source, program_key
from .pocl import platform as pocl
from .pocl import program_build as pocl_build
from .pocl.parallel_build import Ahead, processors

_PART = 30_000  # characters: a quarter of a second of PoCL's time


def build(device: Device, program: Program, ahead: Ahead | None = None) -> dict[str, Any]:
    """The parts of a program built for a device's `runner`: for each __kernel its pyopencl program.

    `ahead` is what began to compile the program when its first parts were made. Raises DeviceError with the compiler's
    log.
    """
    if device.platform == pocl.NAME:
        return _by_function(program, pocl_build.build(device, program.parts, ahead))
    store = disk_cache.cache()
    return _by_function(program, [_with_binary(device, part.source, store) for part in program.parts])


def _by_function(program: Program, built: Sequence[Any]) -> dict[str, Any]:
    return {f: p for part, p in zip(program.parts, built, strict=True) for f in part.functions}


def part_size(device: Device) -> int | None:
    """How many characters of OpenCL C make a part of a program for the device; None: a program is one part."""
    return _PART if device.platform == pocl.NAME and processors() > 1 else None


def _with_binary(device: Device, source: str, store: disk_cache.Cache) -> Any:
    import pyopencl as cl
    from pyopencl import _cl

    raw, options = device.runner, device.build_options
    name = program_key([source], options, raw)
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
