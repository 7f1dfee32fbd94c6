"""Compiles OpenCL C to a program, bypassing all caches."""

from __future__ import annotations

import re
from typing import Any

from refxla_spec.errors import DeviceError

from . import disk_cache
from .discovery import OpenClDevice


def program_key(sources: list[str], options: str, device: OpenClDevice) -> str:
    """The key in the cache on disk of a program built from these sources for a device's `runner`."""
    return disk_cache.key("program", *sources, options, device.platform, device.runner.name, device.driver)


def compile_source(context: Any, raw: Any, source: str, options: str = "") -> Any:
    """Compiles without any cache of ours or pyopencl's. Raises DeviceError with the compiler's log."""
    import pyopencl as cl
    from pyopencl import _cl

    program = _cl._Program(context, source)
    try:
        program._build(options.encode(), [raw])
    except cl.Error as error:
        log = str(program.get_build_info(raw, cl.program_build_info.LOG) or error)
        raise DeviceError(
            f"the OpenCL compiler of {raw.name.strip()} refuses a generated program, which is an error of refxla's; "
            f"please report it with this:\n{_excerpt(log, source)}"
        ) from error
    return program


def _excerpt(log: str, source: str, limit: int = 2000) -> str:
    """The compiler's first errors, with the source line of the first one."""
    errors = [line for line in log.splitlines() if "error" in line]
    text = "\n".join(errors or log.splitlines())[:limit]
    place = re.search(r":(\d+):\d+:", text)
    lines = source.splitlines()
    if place and 0 < int(place[1]) <= len(lines):
        text += f"\nline {place[1]}: {lines[int(place[1]) - 1].strip()}"
    return text
