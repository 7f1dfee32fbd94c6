"""The machine on which figures were measured, and the clock."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

from refxla.version import commit

PACKAGES = ("numpy", "jax", "pyopencl", "pocl-binary-distribution")


class Machine(TypedDict):
    """What measurements are labelled with; `load` are averages over 1, 5 and 15 minutes, `packages` their versions,
    `commit` is refxla's, "" outside a checkout."""

    processor: str
    vectors: str
    commit: str
    date: str
    cores: int | None
    load: list[float]
    system: str
    packages: dict[str, str]


def describe() -> Machine:
    """This machine, now."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "processor": processor(),
        "vectors": vectors(),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": [round(x, 2) for x in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "packages": versions,
    }


def command(module: str, arguments: Sequence[str] | None) -> str:
    """The command line that runs a module with these arguments (None: this process's own)."""
    return shlex.join(["python", "-m", module, *(sys.argv[1:] if arguments is None else arguments)])


def processor() -> str:
    """The processor's own name; if that has no number, as on some virtual machines, with its family."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    about = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    model, family = about.get("model name", ""), about.get("cpu family", "")
    if not model:
        return platform.processor() or platform.machine()
    return model if any(c.isdigit() for c in model) or not family else f"{model} (family {family})"


def vectors() -> str:
    """The widest vector registers of an x86 processor by their usual name; "" for another."""
    features = flags()
    kinds = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse2": "SSE2"}
    return next((name for flag, name in kinds.items() if flag in features), "")


def flags() -> set[str]:
    """The feature names of an x86 processor, as Linux reports them; none elsewhere."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def settle(limit: float = 2.0) -> None:
    """Waits until the machine is idle, at most `limit` seconds: threads of what ran before may spin for a while, as
    those of NumPy and of ONNX Runtime do, and would slow down what is measured next. Returns at once where the system
    does not say what its processors do."""
    state, window, idle = Path("/proc/stat"), 0.1, 0.9
    end = time.monotonic() + limit
    while state.exists() and time.monotonic() < end:
        before, whole = idle_seconds(state.read_text()), time.monotonic()
        time.sleep(window)
        passed = (time.monotonic() - whole) * (os.cpu_count() or 1)
        if idle_seconds(state.read_text()) - before > idle * passed:
            return


def idle_seconds(state: str) -> float:
    """Seconds that all processors together have been idle, of the text of /proc/stat (proc_stat(5): the fourth and
    fifth number of the first line, idle and waiting for a disk)."""
    _, _, _, _, idle, waiting, *_ = state.split()
    return (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")


def in_turns(
    calls: dict[str, Callable[[], object]], seconds: float = 2.0, turns: int = 5, pause: float = 0.0
) -> dict[str, list[float]]:
    """Seconds of each call: for each, samples of many turns, in which all are measured one after the other.

    Temporary disturbances affect all of them. Each turn gives a call its share of `seconds`: it is run once to warm up,
    then several times (at least once), each time one sample. A pause of `pause` seconds comes before it.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    share = seconds / (turns * max(1, len(calls)))
    for _ in range(turns):
        for name, call in calls.items():
            time.sleep(pause)
            call()
            end = time.perf_counter() + share
            while True:
                begin = time.perf_counter()
                call()
                now = time.perf_counter()
                samples[name].append(now - begin)
                if now >= end:
                    break
    return samples


def summary(samples: list[float]) -> dict[str, float]:
    """The median and the best of samples, in seconds."""
    return {"median": statistics.median(samples), "best": min(samples)}
