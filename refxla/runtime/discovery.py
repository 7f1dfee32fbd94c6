"""The OpenCL devices of this machine, found when OpenCL is loaded.

Nothing happens at import: OpenCL is loaded when devices are first requested. Eight things are arranged at that point,
each only if the user's environment has not already decided it:

- PoCL offers its `pthread` device (all cores) and its `basic` device (the calling thread, and so any thread of refxla's
  own thread pool) side by side in one context;
- Intel's CPU runtime, when it was installed with pip, is registered with the loader, which its wheel does not do;
- PoCL compiles for a processor that its compiler knows, if it does not know this one (pocl/processor_name.py);
- PoCL compiles in a directory of this process; its output is kept by refxla's own cache (disk_cache.py);
- pyopencl keeps nothing on disk: it fails if it cannot write below the user's home;
- PoCL and Oclgrind, if they come with pyopencl, use their own LLVM: bound to TensorFlow's, PoCL crashes;
- PoCL's threads, if there is one for each core, are each bound to one: woken together, two of them may otherwise share
  one for milliseconds while another idles;
- the process keeps its signal handlers, which LLVM replaces (signal_handlers.py).

The environment is restored afterwards.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refxla_spec.errors import DeviceError

from . import signal_handlers
from .cores import cores
from .pocl import platform as pocl
from .pocl import processor_name
from .temporary_directories import scratch

if TYPE_CHECKING:
    import pyopencl as cl

FIX = "run: pip install 'pyopencl[pocl]'"


@dataclass(frozen=True)
class OpenClDevice:
    """An OpenCL device, or PoCL's two devices for one CPU, under a short and stable name.

    `kind` is "cpu", "gpu", "accelerator" or "simulator" (Oclgrind). `raw` is the pyopencl device; `small`, if there is
    one, is another device of the same context, which runs work in the thread that submits it. `driver` distinguishes
    versions of the driver. `why` says how the device came to be chosen, once it was.
    """

    name: str
    kind: str
    label: str
    platform: str
    driver: str
    compute_units: int
    raw: cl.Device = field(repr=False, compare=False)
    small: cl.Device | None = field(default=None, repr=False, compare=False)
    why: str = field(default="", repr=False, compare=False)

    @property
    def raws(self) -> tuple[cl.Device, ...]:
        """The pyopencl devices: one, or two."""
        return (self.raw,) if self.small is None else (self.raw, self.small)

    @property
    def runner(self) -> cl.Device:
        """The pyopencl device that programs run on: refxla's own threads start sooner than those of a device."""
        return self.raw if self.small is None else self.small

    @property
    def context(self) -> cl.Context:
        """The pyopencl context of the device; one for each platform."""
        return _context(self.raw)

    def queue(self, raw: cl.Device) -> cl.CommandQueue:
        """A new in-order pyopencl command queue on one of `raws`."""
        import pyopencl

        return pyopencl.CommandQueue(self.context, raw)

    def __str__(self) -> str:
        return f"{self.name}: {self.label} ({self.platform}, {self.driver})"


# Finding them --------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_devices: dict[str, OpenClDevice] | None = None
_failure: str = ""
_contexts: dict[Any, cl.Context] = {}

_NO_CACHE = "PYOPENCL_NO_CACHE"


def load(own_pocl: Path | None = None) -> dict[str, OpenClDevice]:
    """The devices by their names. `own_pocl` is the path of a link to the PoCL in pyopencl's wheel, through which to
    load it (pocl/builtins_library.py); `has_own_pocl` says whether that was possible. Raises DeviceError when pyopencl
    cannot be loaded."""
    global _devices, _failure
    with _lock:
        if _devices is None:
            with signal_handlers.preserved():
                _devices, _failure = _discover(own_pocl)
        return _devices


def has_own_pocl() -> bool:
    """Whether PoCL was loaded through the path that `load` had."""
    return _has_own_pocl


_has_own_pocl = False


def _discover(own_pocl: Path | None) -> tuple[dict[str, OpenClDevice], str]:
    """Loads OpenCL and names its devices. Returns them with the loader's error message, if it had one."""
    before = dict(os.environ)
    try:
        _prepare(own_pocl)
        try:
            import pyopencl as cl
        except ImportError as error:
            raise DeviceError(f"pyopencl cannot be loaded ({error}); {FIX}") from error
        devices: dict[str, OpenClDevice] = {}
        try:
            with pocl.threads_apart():  # some loaders query the devices of a platform as well
                platforms = cl.get_platforms()
        except cl.Error as error:  # the loader reports an error if there is no platform
            return {}, str(error)
        for platform in platforms:
            try:
                with pocl.threads_apart():
                    raws = platform.get_devices()
            except cl.Error as error:
                if error.code == cl.status_code.DEVICE_NOT_FOUND:
                    continue
                raise DeviceError(f"the OpenCL platform {platform.name} does not list its devices: {error}") from error
            for device in _of_platform(platform, raws):
                devices[_unused(device.name, devices)] = replace(device, name=_unused(device.name, devices))
        return devices, ""
    finally:
        for name in set(os.environ) - set(before):
            if not name.startswith("PYOPENCL") or name == _NO_CACHE:
                del os.environ[name]
        os.environ.update(before)


def pocl_directory() -> Path | None:
    """Where PoCL keeps what it compiles in this process; None if the user or an earlier import decided that."""
    load()
    return pocl.directory()


def remedy() -> str:
    """What to do if there is no device for the CPU, as the end of a sentence."""
    chosen = os.environ.get("POCL_DEVICES")
    if chosen is not None and importlib.util.find_spec("pocl_binary_distribution") is not None:
        return f"unset POCL_DEVICES: it is {chosen!r}, and PoCL has only the devices that it names"
    return FIX


def failure() -> str:
    """The loader's message if it found no devices, in parentheses; "" if there was none."""
    return f" ({_failure})" if _failure else ""


def _prepare(own_pocl: Path | None) -> None:
    """Sets the environment for loading OpenCL."""
    already = pocl.is_loaded()
    pocl.prepare()
    os.environ.setdefault(_NO_CACHE, "1")
    if sys.platform == "linux" and not already:
        _load_apart(own_pocl)
    if not any(os.environ.get(v) for v in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")):
        library = _intel_library()
        if library is not None:
            _announce(library)


def _load_apart(own_pocl: Path | None) -> None:
    """Loads the implementations in pyopencl's wheel so that they look up symbols in themselves first; PoCL through
    `own_pocl`, if there is one.

    TensorFlow exports the symbols of its LLVM to the whole process, and these implementations contain an LLVM, too. The
    loader, which comes later, gets the libraries as they are loaded here. (Functions that LD_PRELOAD replaces stay
    replaced.)
    """
    global _has_own_pocl
    mode = os.RTLD_LAZY | (0 if os.environ.get("LD_PRELOAD") else os.RTLD_DEEPBIND)
    package = importlib.util.find_spec("pyopencl")
    if package is None or package.origin is None:
        return
    for icd in sorted((Path(package.origin).parent / ".libs").glob("*.icd")):
        library = icd.with_name(icd.read_text().strip())
        is_own = own_pocl is not None and own_pocl.name == library.name
        try:
            ctypes.CDLL(str(own_pocl if is_own else library), mode)
        except OSError:  # the loader then skips it, and `devices()` shows that
            continue
        _has_own_pocl |= is_own


def _intel_library() -> Path | None:
    """libintelocl.so, if the wheel intel-opencl-rt is installed."""
    try:
        files = importlib.metadata.distribution("intel-opencl-rt").files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "libintelocl.so":
            path = Path(str(file.locate())).resolve()
            return path if path.exists() else None
    return None


def _announce(library: Path) -> None:
    """Registers Intel's runtime with the loader, in addition to those that the system has."""
    for name in ("libtbb.so.12", "libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so"):
        neighbour = library.with_name(name)
        if neighbour.exists():
            try:
                ctypes.CDLL(str(neighbour), ctypes.RTLD_GLOBAL)
            except OSError:  # the loader then skips the runtime, and `devices()` shows that
                return
    vendors = scratch()
    for icd in Path("/etc/OpenCL/vendors").glob("*.icd"):
        shutil.copy(icd, vendors / icd.name)
    (vendors / "refxla-intel.icd").write_text(f"{library}\n")
    os.environ["OCL_ICD_VENDORS"] = str(vendors)


def _of_platform(platform: Any, raws: Sequence[Any]) -> list[OpenClDevice]:
    """The devices of one platform with their names; numbers are appended to names that occur twice."""
    import pyopencl as cl

    def make(name: str, kind: str, raw: Any, small: Any = None) -> OpenClDevice:
        label = raw.name.strip()
        return OpenClDevice(
            name=name,
            kind=kind,
            label=label.removeprefix("pthread-").removeprefix("basic-").removeprefix("cpu-"),
            platform=platform.name.strip(),
            driver=pocl.plain(f"{processor_name.version(raw)} {raw.driver_version}").strip(),
            compute_units=min(raw.max_compute_units, cores().count) if kind == "cpu" else raw.max_compute_units,
            raw=raw,
            small=small,
        )

    if platform.name == pocl.NAME:
        processor_name.settle(raws)
        cpus = [r for r in raws if r.type & cl.device_type.CPU]
        threads, basic = pocl.cpus(cpus)
        out = []
        if threads or basic:
            out.append(make("pocl", "cpu", threads or basic, basic if threads else None))
        if threads and basic:
            out += [make("pocl:pthread", "cpu", threads), make("pocl:basic", "cpu", basic)]
        others = [r for r in raws if r not in cpus]
        return out + [make(f"pocl:{_kind(r)}", _kind(r), r) for r in others]
    if platform.name == "Oclgrind":
        return [make("oclgrind", "simulator", r) for r in raws]
    word = platform.vendor.lower()
    vendor = next(
        (v for v in ("nvidia", "intel", "amd", "advanced micro", "apple", "arm", "qualcomm") if v in word), ""
    )
    vendor = {"advanced micro": "amd"}.get(vendor, vendor or platform.name.split()[0].lower())
    out = []
    for raw in raws:
        kind = _kind(raw)
        out.append(make(vendor if kind == "cpu" else f"{vendor}:{sum(d.kind == kind for d in out)}", kind, raw))
    return out


def _kind(raw: Any) -> str:
    import pyopencl as cl

    return "gpu" if raw.type & cl.device_type.GPU else "cpu" if raw.type & cl.device_type.CPU else "accelerator"


def _unused(name: str, devices: dict[str, OpenClDevice]) -> str:
    """The name itself, or with the first number that makes it unique."""
    if name not in devices:
        return name
    number = 1
    while f"{name}.{number}" in devices:
        number += 1
    return f"{name}.{number}"


def _context(raw: cl.Device) -> cl.Context:
    import pyopencl

    platform = raw.platform
    with _lock:
        if platform not in _contexts:
            siblings = [r for d in (_devices or {}).values() for r in d.raws if r.platform == platform]
            unique = list(dict.fromkeys(siblings or [raw]))
            _contexts[platform] = pyopencl.Context(unique)
        return _contexts[platform]
