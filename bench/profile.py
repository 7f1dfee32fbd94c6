"""`python -m bench.profile PROGRAM`: how long each kernel of a program takes, alone, and what it moves and computes.

PROGRAM is a file of HLO, or the name of an entry of the suite (bench/models). Each kernel runs on memory of its own,
warm, as often as the time given allows; the best run counts. Floating-point inputs are random in [0, 1), integers are
0. Kernels in a loop count once. With `--kernel NAME` the OpenCL C of one kernel is printed.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from dataclasses import asdict, dataclass

import numpy as np

import refxla
from refxla.codegen.merged_kernel_emitter import body_text
from refxla.codegen.opencl_program import program as generate
from refxla.compiler.driver import Compiled
from refxla.compiler.explanation import fusion_cost
from refxla.ir.plan import Argument, Kernel
from refxla.runtime.devices import Device
from refxla.runtime.pocl.kernels import compiled
from refxla.scheduling.merged_kernel import COPY

from .machine import describe
from .models import ENTRIES

_RUNS = 10  # at least
_SPARE = 64  # elements beyond a value's end, so that addresses of arguments differ in more than whole pages


@dataclass(frozen=True)
class Row:
    """A kernel: `seconds` of its best run; the bytes and operations that its fusion's cost names (of a fusion of
    several kernels, the last has them all)."""

    kernel: str
    kind: str
    items: int
    seconds: float
    bytes: int
    operations: int

    @property
    def gigabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e9

    @property
    def gigaoperations_per_second(self) -> float:
        return self.operations / self.seconds / 1e9


def profile(program: Compiled, seconds: float = 0.02) -> list[Row]:
    """Each kernel of a compiled program, in the order of the plan; `seconds` are spent on each at least."""
    import pyopencl as cl

    plan, device = program.planned.plan, program.device
    kernels = [part for k in plan.kernels for part in k.parts() if part.name != COPY]
    source = generate(kernels, device.target)
    built = {f: compiled(device, device.raw, part) for part in source.parts for f in part.functions}
    queue = device.queue(device.raw)
    rows = []
    for kernel, (function, which) in zip(kernels, source.entries, strict=True):
        fusion = max((f for f in plan.fusions if kernel.name.startswith(f.name)), key=lambda f: len(f.name))
        launch = cl.Kernel(built[function], function)
        memory = [_memory(device, argument) for argument in kernel.arguments]
        launch.set_args(np.int32(which), np.int32(0), *[m[1] for m in memory])
        times = [_run(queue, launch, kernel, device)]
        while sum(times) < seconds or len(times) < _RUNS:
            times.append(_run(queue, launch, kernel, device))
        cost = fusion_cost(fusion) if kernel.name == fusion.name else None
        moved = cost.bytes_read + cost.bytes_written if cost else sum(_bytes(a) for a in kernel.arguments)
        rows.append(Row(kernel.name, fusion.kind, kernel.items, min(times), moved, cost.operations if cost else 0))
    return rows


def _run(queue: object, launch: object, kernel: Kernel, device: Device) -> float:
    import pyopencl as cl

    begin = time.perf_counter()
    if kernel.items:
        cl.enqueue_nd_range_kernel(queue, launch, (kernel.items,), None if device.kind == "gpu" else (1,))
    queue.finish()
    return time.perf_counter() - begin


def _bytes(argument: Argument) -> int:
    return argument.instruction.shape.bytes if argument.instruction is not None else argument.bytes


def _memory(device: Device, argument: Argument) -> tuple[object, object]:
    """(what keeps it alive, what a kernel takes): memory for one argument, filled."""
    import pyopencl as cl

    kind = {"float": np.float32, "double": np.float64}.get(argument.ctype, np.uint8)
    count = -(-_bytes(argument) // np.dtype(kind).itemsize) + _SPARE
    if argument.role == "input" and kind is not np.uint8:
        array = np.random.default_rng(0).random(count, dtype=kind)
    else:
        array = np.zeros(count, kind)
    if device.access == "buffer":
        buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
        return array, buffer
    if device.access == "svm":
        memory = cl.SVM(cl.svm_empty(device.context, cl.svm_mem_flags.READ_WRITE, array.shape, array.dtype))
        return memory, memory
    return array, cl.SVM(array)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program", help="an HLO program, or an entry of the suite")
    parser.add_argument("--device", help="as `refxla devices` names them")
    parser.add_argument("--top", type=int, default=20, help="how many kernels are shown, the slowest first")
    parser.add_argument("--kernel", metavar="NAME", help="print this kernel's OpenCL C")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        program = _compiled(options.program, options.device)
    except refxla.Error as error:
        parser.error(f"{error}\n(entries of the suite: {', '.join(entry.name for entry in ENTRIES)})")
    if options.kernel:
        found = [k for p in program.plan.kernels for k in (p, *p.parts()) if k.name == options.kernel]
        if not found:
            parser.error(f"no kernel is called {options.kernel}; there are: " + ", ".join(_names(program)))
        print(body_text(found[0]))
        return
    rows = sorted(profile(program), key=lambda row: -row.seconds)
    if options.json:
        print(json.dumps({"machine": describe(), "kernels": [asdict(row) for row in rows]}, indent=1))
        return
    _show(program, rows, options.top)


def _compiled(name: str, device: str | None) -> Compiled:
    """A file, or an entry of the suite of exactly this name."""
    if not any(entry.name == name for entry in ENTRIES):
        return refxla.compile(name, device=device)
    import jax

    from .child import entry
    from .frameworks import load

    framework, found = load("refxla"), entry(name)
    function = jax.jit(functools.partial(found.function, framework))
    return refxla.compile(function, *found.arguments(**found.sizes), device=device).executable.program


def _names(program: Compiled) -> list[str]:
    return [part.name for k in program.plan.kernels for part in k.parts()]


def _show(program: Compiled, rows: list[Row], top: int) -> None:
    from rich.console import Console
    from rich.table import Table

    total = sum(row.seconds for row in rows)
    table = Table(title=f"{program.plan.name}: {len(rows)} kernels, {total * 1e6:,.0f} us on {program.device.label}")
    table.add_column("kernel", overflow="fold")
    for name in ("us", "share", "items", "GB/s", "Gop/s"):
        table.add_column(name, justify="right")
    for row in rows[:top]:
        table.add_row(
            row.kernel,
            f"{row.seconds * 1e6:,.0f}",
            f"{row.seconds / total:.0%}",
            f"{row.items:,}",
            f"{row.gigabytes_per_second:.1f}",
            f"{row.gigaoperations_per_second:.1f}",
        )
    Console().print(table)
    print("load", *describe()["load"])


if __name__ == "__main__":
    main()
