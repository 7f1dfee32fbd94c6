"""What a device reaches, measured once: bytes and multiply-adds a second, and the time of a launch.

The costs by which fusion is decided (Costs) were fitted to one machine. On another machine, each cost is scaled by the
ratio of a core's measured figure to the same figure there. The ratio is rounded to the nearest power of two, so that
noise does not change decisions from one measurement to the next. On a GPU, whose compute units all work on the same
kernel, the figures of all units are compared with those of all cores there. No bit of any result depends on them.

Measuring takes a child process about a second with the cores to itself. So it starts when a process ends that has
compiled a program for a device without measured rates. The results are kept on disk for later processes; until then,
and where measuring fails, the default costs apply. `refxla devices` waits for the measurement. REFXLA_CALIBRATION=off
always uses the default costs. A process keeps the rates that it saw first, so that compiling a program twice gives the
same plan.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache

from refxla_spec.errors import InputError

from ..device.description import Costs
from . import disk_cache as disk
from . import temporary_directories
from .device_probe import PACKAGES, Bench
from .discovery import OpenClDevice, load

BYTES = 1 << 26  # of a copy: larger than the caches
CHUNK = 1 << 14  # float8 that an item copies
TERMS = 1 << 14  # multiply-adds of each of the sums of an item
SUMS = 12  # vectors of 8
GPU_BYTES = 1 << 28  # of a copy
GPU_TERMS = 1 << 12
GPU_ITEMS = 2048  # of a compute unit
GROUP = 256  # items of a work-group: what kernels for GPUs have (codegen/gpu/work_groups.py)
LAUNCHES = 64  # waited for together
RUNS = 6  # the best one counts
SHARE = 0.9  # of the cores, which a measurement must have had to itself


@dataclass(frozen=True)
class MeasuredRates:
    """What one core of a device, or one compute unit of a GPU, reaches while all are busy: `bandwidth`, the gigabytes
    per second that a copy reads and writes; `arithmetic`, billions of f32 operations per second, where a multiply-add
    is two operations (in vectors of 32 bytes on a CPU); `launch`, the microseconds of one launch among many."""

    bandwidth: float
    arithmetic: float
    launch: float

    def costs(self, units: int = 0) -> Costs:
        """The rates of such a device; `units` are the compute units of a GPU."""
        share, most = (REFERENCE_CORES / units, 1 << 12) if units else (1.0, 16)
        return Costs().scaled(
            byte=_step(share * REFERENCE.bandwidth / self.bandwidth, most),
            flop=_step(share * REFERENCE.arithmetic / self.arithmetic, most),
            launch=_step(self.launch / REFERENCE.launch, 16),
        )

    def text(self, kind: str) -> str:
        """The rates in words, of a device of this kind."""
        unit = "compute unit" if kind == "gpu" else "core"
        return f"{self.bandwidth:.1f} GB/s and {self.arithmetic:.0f} Gop/s a {unit}, {self.launch:.1f} us a launch"


REFERENCE = MeasuredRates(bandwidth=15.5, arithmetic=107.0, launch=2.8)  # of the machine that Costs was fitted to
REFERENCE_CORES = 2
USUAL_GPU = MeasuredRates(bandwidth=20.0, arithmetic=400.0, launch=6.0)  # of a compute unit, until they are measured


def _step(ratio: float, most: int) -> float:
    """The nearest power of two, limited to a factor of so many."""
    limit = most.bit_length() - 1
    return 2.0 ** max(-limit, min(limit, round(math.log2(ratio))))


def costs(device: OpenClDevice) -> Costs:
    """The known rates of a device. They do not change during the life of the process."""
    if not _is_asked():
        return Costs()
    entry = _entry(device)
    if entry not in _costs:
        gpu = device.kind == "gpu"
        rates = load_rates(device) or (USUAL_GPU if gpu else REFERENCE)
        _costs[entry] = rates.costs(device.compute_units if gpu else 0)
    return _costs[entry]


def load_rates(device: OpenClDevice) -> MeasuredRates | None:
    """The rates of a device on disk; None if there are none, or if calibration is off."""
    content = disk.cache().get(_entry(device)) if _is_asked() else None
    try:
        return None if content is None else MeasuredRates(**json.loads(content))
    except (TypeError, ValueError):  # written by another version
        return None


@cache
def known_rates(device: OpenClDevice) -> MeasuredRates | None:
    """The rates that were on disk when this process first asked for them."""
    return load_rates(device)


def calibrate(device: OpenClDevice) -> MeasuredRates | None:
    """The rates of a device: from disk, or measured now in a child process; None if that fails, as on a busy
    machine."""
    if _is_wanted(device):
        child = _begin(device.name)
        if child is not None:
            child.wait()
    return load_rates(device)


def calibrate_at_exit(device: OpenClDevice) -> None:
    """Has a child process measure a device without known rates when this process ends."""
    if device.name not in _later and _is_wanted(device):
        if not _later:
            atexit.register(_begin_and_leave)
        _later.append(device.name)


def _begin_and_leave() -> None:
    """Starts what is to run after this process."""
    for name in _later:
        child = _begin(name)
        if child is not None:
            child.returncode = 0  # nobody waits for it, and Python must not warn of that


def _is_wanted(device: OpenClDevice) -> bool:
    return _is_asked() and device.kind in ("cpu", "gpu") and load_rates(device) is None


def _begin(name: str) -> subprocess.Popen[bytes] | None:
    """A child that measures a device and stores the result; None if no process can be started, for example."""
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-m", "refxla.runtime.calibration", name]
    try:
        return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, cwd=PACKAGES)
    except OSError:
        return None


_costs: dict[str, Costs] = {}
_later: list[str] = []  # the names of the devices to measure when this process has ended


def _is_asked() -> bool:
    """Whether rates are measured. Raises InputError if REFXLA_CALIBRATION is neither "off" nor unset."""
    value = os.environ.get("REFXLA_CALIBRATION", "")
    if value not in ("", "off"):
        raise InputError(f"REFXLA_CALIBRATION is {value!r}: say off, for the default cost model, or leave it unset")
    return not value


@cache
def _source_digest() -> str:
    """The hash of this file, so that rates measured by another version of it are not used."""
    with open(__file__, encoding="utf-8") as file:
        return disk.key(file.read())


def _entry(device: OpenClDevice) -> str:
    return _entry_of(device.platform, device.label, device.driver, device.kind, str(device.compute_units))


@cache
def _entry_of(*names: str) -> str:
    return disk.key("figures", _source_digest(), *names)


# In the child --------------------------------------------------------------------------------------------------------

_SOURCE = f"""
__kernel void copy(__global const float8* restrict a, __global float8* restrict b) {{
    const long begin = (long)get_global_id(0) * {CHUNK};
    for (int i = 0; i < {CHUNK}; ++i) b[begin + i] = a[begin + i];
}}
__kernel void sums(__global const float8* restrict a, __global float8* restrict b) {{
    {" ".join(f"float8 c{n} = a[{n}];" for n in range(SUMS))}
    const float8 x = a[{SUMS}], y = a[{SUMS + 1}];
    for (int k = 0; k < {TERMS}; ++k) {{
        {" ".join(f"c{n} = c{n} * x + y;" for n in range(SUMS))}
    }}
    b[get_global_id(0)] = {" + ".join(f"c{n}" for n in range(SUMS))};
}}
__kernel void nothing(__global const float8* restrict a, __global float8* restrict b) {{ b[get_global_id(0)] = a[0]; }}
"""

# As in kernels for GPUs: adjacent items read adjacent elements, 16 bytes per item.
_GPU_SOURCE = f"""
__kernel void copy(__global const float4* restrict a, __global float4* restrict b) {{
    const size_t i = get_global_id(0);
    b[i] = a[i];
}}
__kernel void sums(__global const float4* restrict a, __global float4* restrict b) {{
    {" ".join(f"float4 c{n} = a[{n}];" for n in range(SUMS // 4))}
    const float x = a[0].x, y = a[1].x;
    for (int k = 0; k < {GPU_TERMS}; ++k) {{
        {" ".join(f"c{n} = fma(c{n}, (float4)(x), (float4)(y));" for n in range(SUMS // 4))}
    }}
    b[get_global_id(0)] = {" + ".join(f"c{n}" for n in range(SUMS // 4))};
}}
__kernel void nothing(__global const float4* restrict a, __global float4* restrict b) {{ b[get_global_id(0)] = a[0]; }}
"""


def measure_rates(bench: Bench) -> MeasuredRates | None:
    """The rates, measured in this process; None if others used the cores meanwhile."""
    import numpy as np
    import pyopencl as cl

    units, gpu = bench.device.compute_units, bench.device.kind == "gpu"
    program = bench.build(_GPU_SOURCE if gpu else _SOURCE)
    size = GPU_BYTES if gpu else BYTES
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    a, b = (cl.Buffer(bench.context, flags, hostbuf=np.full(size // 4, 0.5, np.float32)) for _ in range(2))
    kernels = {name: cl.Kernel(program, name) for name in ("copy", "sums", "nothing")}
    for kernel in kernels.values():
        kernel.set_args(a, b)

    def best(name: str, items: int, times: int = 1) -> float:
        """The seconds per launch in the best of several runs."""
        local = (min(GROUP, items, bench.raw.max_work_group_size) if gpu else 1,)

        def run() -> None:
            for _ in range(times):
                cl.enqueue_nd_range_kernel(bench.queue, kernels[name], (items,), local)
            bench.queue.finish()

        run()
        return min(_seconds(run) for _ in range(RUNS)) / times

    if gpu:  # a single launch with a wait takes as long as the copy: measure several of each together
        items = GPU_ITEMS * units
        copied = 2 * size / best("copy", size // 16, 8)
        flops = items * SUMS * GPU_TERMS * 2 / best("sums", items, 8)
        launch = best("nothing", GROUP, LAUNCHES)
        return MeasuredRates(copied / units / 1e9, flops / units / 1e9, launch * 1e6)
    items = 16 * units
    copied = 2 * size / best("copy", size // (32 * CHUNK))
    wall, used = time.perf_counter(), time.process_time()
    flops = items * SUMS * TERMS * 16 / best("sums", items)
    wall, used = time.perf_counter() - wall, time.process_time() - used
    if used < SHARE * units * wall:
        return None
    return MeasuredRates(copied / units / 1e9, flops / units / 1e9, best("nothing", units, LAUNCHES) * 1e6)


def _seconds(action: Callable[[], None]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main(name: str) -> None:
    """`python -m refxla.runtime.calibration DEVICE`: measure the device and keep its rates on disk."""
    device = load()[name]
    rates = measure_rates(Bench(device))
    if rates is not None:
        disk.cache().put(_entry(device), json.dumps(asdict(rates)).encode())
    print(rates and rates.text(device.kind))


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    temporary_directories.leave()
