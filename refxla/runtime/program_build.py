"""Builds OpenCL C to a program that is ready to launch, through the cache on disk.

Most devices return their compiled program as bytes and accept them again. PoCL needs more (pocl/pocl_build.py). These
bytes are the *binaries* of a program, each under the key of its part; executable files contain them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..codegen.opencl_program import Program
from . import disk_cache
from .cores import cores
from .devices import Device
from .opencl_compiler import compile_source, program_key
from .pocl import built_parts, kernel_library, pocl_build
from .pocl import platform as pocl
from .pocl.parallel_build import ParallelBuild, processes

_PART = 12_000  # characters: some five times PoCL's fixed cost of a part


Binaries = Mapping[str, bytes]


def build(
    device: Device, program: Program, parallel_build: ParallelBuild | None = None, archive: Binaries | None = None
) -> dict[str, Any]:
    """The parts of a program built for a device's `runner`: the pyopencl program of each __kernel.

    `parallel_build` began to compile the program when its first parts were ready; binaries in `archive` take precedence
    over the cache on disk. Raises DeviceError with the compiler's log.
    """
    if device.platform == pocl.NAME:
        return _by_function(program, pocl_build.build(device, program.parts, parallel_build, archive))
    store = disk_cache.cache()
    return _by_function(program, [_with_binary(device, part.source, store, archive or {}) for part in program.parts])


def binaries(device: Device, program: Program) -> dict[str, bytes]:
    """The binaries of a program that was built for a device: from the cache on disk, or made now. A part is left out if
    the device returns none for it."""
    contents: dict[str, bytes | None] = {}
    for part in program.parts:
        if device.platform == pocl.NAME:
            contents[built_parts.key(device, part)] = built_parts.binary(device, part)
        else:
            contents[program_key([part.source], device.build_options, device)] = _binary(device, part.source)
    return {name: content for name, content in contents.items() if content is not None}


def _binary(device: Device, source: str) -> bytes | None:
    content = disk_cache.cache().get(program_key([source], device.build_options, device))
    return content or _binary_of(compile_source(device.context, device.runner, source, device.build_options))


def _binary_of(program: Any) -> bytes | None:
    """The device's binaries of a program that was built for it alone; it may not return any."""
    import pyopencl as cl

    try:
        contents = [b for b in program.get_info(cl.program_info.BINARIES) if b]
    except cl.Error:
        return None
    return bytes(contents[0]) if len(contents) == 1 else None


def _by_function(program: Program, programs: Sequence[Any]) -> dict[str, Any]:
    return {f: p for part, p in zip(program.parts, programs, strict=True) for f in part.functions}


def part_size(device: Device) -> int | None:
    """How many characters of OpenCL C form a part of a program for the device; None: a program is one part."""
    return _PART if device.platform == pocl.NAME and cores().count > 1 else None


def can_link(device: Device) -> bool:
    """Whether parts of a program for the device can call each other's functions."""
    return device.platform == pocl.NAME and pocl.directory() is not None and kernel_library.links(device)


def linked_parts(device: Device) -> int:
    """How many linked parts a program for the device has: as many as are compiled at a time."""
    return processes() if can_link(device) else 1


def _with_binary(device: Device, source: str, store: disk_cache.Cache, archive: Binaries) -> Any:
    import pyopencl as cl
    from pyopencl import _cl

    raw, options = device.runner, device.build_options
    name = program_key([source], options, device)
    content = archive.get(name) or store.get(name)
    if content is not None:
        try:
            program = _cl._Program(device.context, [raw], [content])
            program._build(options.encode(), [raw])
            return program
        except cl.Error:  # perhaps another version of the driver than it claims
            store.drop(name)
    program = compile_source(device.context, raw, source, options)
    binary = _binary_of(program)
    if binary is not None:
        store.put(name, binary)
    return program
