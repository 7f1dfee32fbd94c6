"""Programs with their kernels compiled: PoCL does that only when they are first launched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...codegen.program_part import ProgramPart
from ..devices import Device
from ..opencl_compiler import compile_source
from .compile_workers import sizes


def compiled(device: Device, raw: Any, part: ProgramPart) -> Any:
    """A part as a pyopencl program with its kernels compiled. Raises DeviceError with the compiler's log."""
    program = compile_source(device.context, raw, part.source, device.build_options)
    finish(device, raw, [(program, part)])
    return program


def finish(device: Device, raw: Any, programs: Iterable[tuple[Any, ProgramPart]]) -> None:
    """Launches each kernel with a `which` that no case has, which only makes PoCL compile it."""
    import pyopencl as cl

    queue = device.queue(raw)
    nothing = cl.SVM(np.zeros(64, np.uint8))
    for program, part in programs:
        for function in part.functions:
            kernel = cl.Kernel(program, function)
            kernel.set_arg(0, np.int32(-1))
            kernel.set_arg(1, np.int32(0))
            pointers = (kernel.num_args - 2) // (2 if part.offsets else 1)
            for n in range(2, kernel.num_args):
                kernel.set_arg(n, nothing if n < 2 + pointers else np.int64(0))
            for size in sizes(part):
                cl.enqueue_nd_range_kernel(queue, kernel, (size,), (1,))
    queue.finish()
