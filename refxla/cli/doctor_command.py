"""`refxla doctor`: whether everything that refxla needs is present and works, and what to do if it is not.

Each check is a function that yields findings. A fault keeps programs from running; a note says what makes them slow, or
may surprise. Nothing is changed, except that a small program is compiled and run.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from refxla_spec.errors import Error, plural
from refxla_spec.lexer import suggestion
from refxla_spec.text import parse
from rich.table import Table
from rich.text import Text

from .. import version
from ..analysis.cost_analysis import bytes_text
from ..compiler.driver import Compiled, compile_module
from ..compiler.options import Options
from ..ir.library_calls import CHOICES
from ..progress import show_progress
from ..runtime import devices as runtime_devices
from ..runtime import disk_cache, private_directories
from ..runtime.cores import cores
from ..runtime.discovery import FIX
from ..runtime.pocl import linker
from ..runtime.temporary_directories import temporary
from .console import show, write
from .results_table import duration

FINE, NOTE, FAULT = "ok", "note", "fault"
_STYLE = {FINE: "green", NOTE: "yellow", FAULT: "bold red"}
_LITTLE_MEMORY = 1 << 30
_LITTLE_DISK = 1 << 29
VARIABLES = (
    "REFXLA_DEVICE", "REFXLA_DEVICES", "REFXLA_THREADS", "REFXLA_CACHE_DIR", "REFXLA_LINEAR_ALGEBRA",
    "REFXLA_CALIBRATION", "REFXLA_GPU_MERGING", "REFXLA_TRACEBACK", "REFXLA_CHECKED", "REFXLA_BENCH_TRACEBACK",
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """The finding of a check: FINE, NOTE or FAULT, the subject, and the text; with the way to fix it, if there is
    one."""

    verdict: str
    subject: str
    text: str


def doctor(options: argparse.Namespace) -> int:
    """The command; 1 if there is a fault, otherwise 0."""
    findings: list[Finding] = []
    for check in CHECKS:
        with show_progress(f"checking {check.__name__}"):
            try:
                findings += check()
            except Error as problem:
                findings.append(Finding(FAULT, check.__name__, str(problem)))
    table = Table("", "", "", show_header=False, box=None, padding=(0, 2, 0, 0))
    subject = None
    for f in findings:
        table.add_row(
            Text(f.verdict, _STYLE[f.verdict]), Text("" if f.subject == subject else f.subject, "bold"), f.text
        )
        subject = f.subject
    show(table)
    count = {v: sum(f.verdict == v for f in findings) for v in (NOTE, FAULT)}
    notes = plural(count[NOTE], "note")
    faults = plural(count[FAULT], "fault")
    write(f"\n{faults}, {notes}." if count[FAULT] else f"\nNothing is wrong; {notes}.")
    return 1 if count[FAULT] else 0


def system() -> Iterator[Finding]:
    """refxla, Python, the machine."""
    commit = version.commit()
    where = f"{version.RELEASE}{f' ({commit})' if commit else ''} in {Path(__file__).parents[1]}"
    yield Finding(FINE, "refxla", where)
    yield Finding(FINE, "Python", f"{platform.python_version()} in {sys.prefix}, {platform.platform()}")
    if sys.platform != "linux":
        yield Finding(FAULT, "Python", f"refxla needs Linux, and this is {sys.platform}")


def packages() -> Iterator[Finding]:
    """refxla's requirements, and the frameworks, with the supported versions."""
    for line in importlib.metadata.requires("refxla") or ():
        name, minimum, condition = _requirement(line)
        extra = re.search(r'extra == "(\w+)"', condition)
        if extra and extra[1] not in ("jax", "tensorflow", "torch"):
            continue
        installed = _installed(name, *(("tensorflow",) if name == "tensorflow-cpu" else ()))
        title = "packages" if extra is None else "frameworks"
        least = f", and refxla needs {minimum} or newer: pip install -U '{name}>={minimum}'"
        if installed is None:
            verdict, state = (
                (FAULT, f"is missing: pip install '{line}'") if extra is None else (FINE, "is not installed")
            )
            yield Finding(verdict, title, f"{name} {state}")
        elif minimum and _parts(installed) < _parts(minimum):
            yield Finding(FAULT if extra is None else NOTE, title, f"{name} {installed} is too old{least}")
        else:
            yield Finding(FINE, title, f"{name} {installed}")
    plugins = [e.value for e in importlib.metadata.entry_points(group="jax_plugins") if e.name == "refxla"]
    if _installed("jax") and plugins != ["refxla.pjrt"]:
        text = "JAX does not find the platform refxla: install refxla again (pip install .)"
        yield Finding(NOTE, "frameworks", text)


def _requirement(line: str) -> tuple[str, str, str]:
    """The name, the minimum version and the condition of a requirement."""
    bare, _, condition = line.partition(";")
    match = re.match(r"([\w.-]+)(?:\[[\w,-]*\])?(?:>=([\w.]+))?", bare.strip())
    return (match[1], match[2] or "", condition) if match else (bare, "", condition)


def _installed(*names: str) -> str | None:
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:3])


def environment() -> Iterator[Finding]:
    """The variables that refxla reads."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("REFXLA_")}
    for name, value in sorted(variables.items()):
        wrong = _wrong(name, value)
        yield Finding(NOTE if wrong else FINE, "environment", f"{name}={value}{wrong}")
    for name in ("OCL_ICD_VENDORS", "POCL_CACHE_DIR", "POCL_DEVICES", "LD_PRELOAD"):
        if os.environ.get(name):
            text = f"{name}={os.environ[name]}, which decides what OpenCL loads or where PoCL compiles"
            yield Finding(NOTE, "environment", text)


def _wrong(name: str, value: str) -> str:
    """What is wrong with a variable that no other check covers."""
    if name not in VARIABLES:
        return f": refxla knows no such variable{suggestion(name, VARIABLES)}"
    if name == "REFXLA_CALIBRATION" and value not in ("", "off"):
        return ": say off, or leave it unset"
    if name == "REFXLA_GPU_MERGING" and value not in ("", "work-groups"):
        return ": say work-groups, or leave it unset"
    if name == "REFXLA_LINEAR_ALGEBRA" and value and value not in CHOICES:
        return f": say {' or '.join(CHOICES)}"
    if name == "REFXLA_DEVICES" and not (value.isdecimal() and 1 <= int(value) <= 1024):
        return ": say how many devices JAX is to see, from 1 to 1024"
    return ""


def devices() -> Iterator[Finding]:
    """Every device, the one that is used and why, and those of the system that OpenCL does not list."""
    listed = runtime_devices.devices()
    chosen, why = runtime_devices.choose()
    yield Finding(FINE, "device", f"{chosen.name} is used: {why} ({chosen.label}; {chosen.platform}, {chosen.driver})")
    for device in listed:
        p = device.properties
        if not p.works:
            verdict = FAULT if device.name == chosen.name else NOTE
            yield Finding(verdict, "device", f"{device.name} does not run a small program correctly: {p.problem}")
        elif device.name != chosen.name:
            text = f"{device.name} works too ({device.label}); REFXLA_DEVICE={device.name} or --device uses it"
            yield Finding(FINE, "device", text)
    if not any(d.kind == "gpu" for d in listed):
        for what, sign, fix in _GPUS:
            if any(Path(path).exists() for path in sign):
                text = f"{what} is here, and has no OpenCL driver that is found: install {fix}"
                yield Finding(NOTE, "device", text)
    if any(d.name.startswith("pocl") for d in listed) and (hint := linker.is_missing()):
        yield Finding(FAULT if chosen.name.startswith("pocl") else NOTE, "device", hint)
    if not any(d.name.startswith("pocl") for d in listed):
        yield Finding(NOTE, "device", f"PoCL, the device for the CPU that refxla knows best, is not there: {FIX}")


_GPUS = (
    ("a GPU of NVIDIA", ("/proc/driver/nvidia/version", "/dev/nvidia0"), "libnvidia-opencl1 (or nvidia-opencl-icd)"),
    ("a GPU of AMD", ("/dev/kfd",), "rocm-opencl-icd (or mesa-opencl-icd)"),
)


def threads() -> Iterator[Finding]:
    """How many cores a program may use."""
    here, all_of_them = cores(), os.cpu_count() or 1
    text = plural(here.count, "core")
    if here.limit:
        yield Finding(NOTE, "threads", f"{text} of {all_of_them}: {here.limit}")
    else:
        yield Finding(FINE, "threads", text)
    load = os.getloadavg()[0]
    if load > all_of_them:
        yield Finding(NOTE, "threads", f"the load is {load:.1f}: others use the cores, and times mean little")


def memory() -> Iterator[Finding]:
    """The free space in memory and where files are written."""
    free = _free_memory()
    if free is not None:
        yield Finding(NOTE if free < _LITTLE_MEMORY else FINE, "memory", f"{bytes_text(free)} free")
    for what, place in (("temporary files", temporary()), ("the cache", _existing(disk_cache.cache().directory))):
        room = shutil.disk_usage(place).free
        verdict = FINE if room >= _LITTLE_DISK else NOTE
        yield Finding(verdict, "disk", f"{bytes_text(room)} free for {what} in {place}")


def _free_memory() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text()
        free = int(re.findall(r"MemAvailable: +(\d+)", text)[0]) * 1024
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip() if (group / "memory.max").exists() else "max"
        if limit != "max":
            free = min(free, max(0, int(limit) - int((group / "memory.current").read_text())))
        return free
    except (OSError, ValueError, IndexError):
        return None


def _existing(path: Path) -> Path:
    return path if path.exists() or path.parent == path else _existing(path.parent)


def cache() -> Iterator[Finding]:
    """The cache on disk: where it is, how full, and whether it can be used."""
    store = disk_cache.cache()
    try:
        os.close(private_directories.open_directory(store.directory, make=True))
    except OSError as problem:
        text = f"{store.directory} is not used, and programs are compiled anew in each process: {problem}"
        yield Finding(NOTE, "cache", text)
        return
    text = f"{bytes_text(store.size())} of at most {bytes_text(store.limit)} in {store.directory}"
    yield Finding(FINE, "cache", text)


_PROGRAM = """HloModule doctor
ENTRY e {
  x = f32[1000] parameter(0)
  two = f32[] constant(TWO)
  twos = f32[1000] broadcast(two), dimensions={}
  ROOT y = f32[1000] multiply(x, twos)
}
"""


def program() -> Iterator[Finding]:
    """A small program, compiled now and run."""
    x = np.arange(1000, dtype=np.float32)
    factor = 1 + time.time_ns() % 1000 / 1000  # different each time, so that no cache has it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the cache, which has a check of its own
        begin = time.perf_counter()
        executable = compile_module(parse(_PROGRAM.replace("TWO", repr(factor))), Options())
        compiled = time.perf_counter() - begin
    assert isinstance(executable, Compiled)  # a device was chosen
    result, best = executable(x), float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        executable(x)
        best = min(best, time.perf_counter() - begin)
    if not np.array_equal(result, x * np.float32(factor)):
        yield Finding(
            FAULT, "program", f"a multiplication gives wrong values on {executable.device.name}; please report it"
        )
    else:
        text = f"a multiplication is compiled in {duration(compiled)}, runs in {duration(best)}, and is right"
        yield Finding(FINE, "program", text)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    system, packages, environment, devices, threads, memory, cache, program,
)  # fmt: skip
