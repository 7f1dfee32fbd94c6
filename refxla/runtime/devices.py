"""Which OpenCL devices there are, what they are called here, and which one is used.

Nothing happens at import: OpenCL is loaded when devices are first asked for. With that, six things are seen to, each
only where the user's environment has not decided it already:

- PoCL offers its `pthread` device (all cores) and its `basic` device (the calling thread, and so any thread of refxla's
  own crew) side by side in one context;
- Intel's CPU runtime, when it was installed with pip, is made known to the loader, which its wheel does not do;
- PoCL compiles in a directory of this process; what it makes is kept by refxla's own cache (cache.py);
- pyopencl keeps nothing on disk: it would end where it cannot write below the user's home;
- PoCL and Oclgrind, where they come with pyopencl, keep to their own LLVM: bound to TensorFlow's, PoCL crashes;
- PoCL's threads, where there is one for each core, keep to one each: woken together, two of them may otherwise share
  one for milliseconds while another idles.

The environment is left as it was found.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refxla_spec.errors import DeviceError

from .temporary_directories import scratch

if TYPE_CHECKING:
    from ..device.description import Target
    from .device_probe import Properties

FIX = "run: pip install 'pyopencl[pocl]'"


@dataclass(frozen=True)
class Device:
    """An OpenCL device, or PoCL's two devices for one CPU, under a short and stable name.

    `kind` is "cpu", "gpu", "accelerator" or "simulator" (Oclgrind). `raw` is the pyopencl device; `small`, where there
    is one, another device of the same context, which runs what it is given in the thread that gives it. `driver` tells
    one version of the driver from another. `why` says how the device came to be chosen, once it was.
    """

    name: str
    kind: str
    label: str
    platform: str
    driver: str
    compute_units: int
    raw: Any = field(repr=False, compare=False)
    small: Any = field(default=None, repr=False, compare=False)
    why: str = field(default="", repr=False, compare=False)

    @property
    def raws(self) -> tuple[Any, ...]:
        """The pyopencl devices: one, or two."""
        return (self.raw,) if self.small is None else (self.raw, self.small)

    @property
    def runner(self) -> Any:
        """The pyopencl device that programs run on: threads of refxla's own start sooner than those of a device."""
        return self.raw if self.small is None else self.small

    @cached_property
    def properties(self) -> Properties:
        """What the device can do, found by trying it in a child process; from a cache after the first time."""
        from . import device_probe

        return device_probe.properties(self)

    @property
    def target(self) -> Target:
        """What generated code may assume of the device. Raises DeviceError when the device does not work."""
        from ..device.description import Target
        from . import calibration

        p = self.properties
        if not p.works:
            raise DeviceError(f"device {self.name} ({self.label}) does not run a small program correctly: {p.problem}")
        return Target(
            kind="gpu" if self.kind == "gpu" else "cpu",
            clang=p.clang,
            vector_bytes=p.vector_bytes,
            compute_units=self.compute_units,
            fp64=p.fp64,
            fp16=p.fp16,
            max_vector=p.max_vector,
            features=p.features,
            persistent=p.persistent,
            costs=calibration.costs(self),
            bare=p.bare and self.platform == "Portable Computing Language",
        )

    @property
    def access(self) -> str:
        """How kernels reach memory: "host" (arrays are used in place), "svm" or "buffer" (they are copied)."""
        return self.properties.access

    @property
    def context(self) -> Any:
        """The pyopencl context of the device; one for each platform."""
        return _context(self.raw)

    def queue(self, raw: Any) -> Any:
        """A new in-order pyopencl command queue on one of `raws`."""
        import pyopencl

        return pyopencl.CommandQueue(self.context, raw)

    def __str__(self) -> str:
        return f"{self.name}: {self.label} ({self.platform}, {self.driver})"


def devices() -> tuple[Device, ...]:
    """Every device, the default one first; () when there is none."""
    return tuple(sorted(_load().values(), key=_rank))


def find(name: str | None = None) -> Device:
    """The device of this name; for None, the one that REFXLA_DEVICE names, or the default.

    A name that is the start of just one device's name will do. Raises DeviceError when there is no such device, or none
    at all.
    """
    return choose(name)[0]


def choose(name: str | None = None) -> tuple[Device, str]:
    """(device, the reason for it); see `find`."""
    found = _load()
    if not found:
        raise DeviceError(f"no OpenCL device was found{_loader_says()}; {FIX}, which brings one for the CPU")
    if name is None and os.environ.get("REFXLA_DEVICE"):
        name, origin = os.environ["REFXLA_DEVICE"], "REFXLA_DEVICE names it"
    elif name is not None:
        origin = "it was asked for"
    else:
        device = min(found.values(), key=_rank)
        if device.kind == "simulator":
            raise DeviceError(f"the only OpenCL device is a simulator, {device.name}: name it to use it, or {FIX}")
        same = sum(d.kind == device.kind for d in found.values())
        reason = "it is the only one" if len(found) == 1 else f"the best of {len(found)} devices"
        if device.kind == "gpu":
            reason += ": a GPU comes before a CPU"
        elif same > 1:
            reason += ": no GPU is here, and PoCL comes first among CPU devices"
        return replace(device, why=reason), reason
    matches = [found[name]] if name in found else [d for n, d in found.items() if n.startswith(name)]
    if len(matches) != 1:
        what = "no device is called" if not matches else f"{len(matches)} devices have names that start with"
        raise DeviceError(f"{what} {name!r} ({origin}); there are: {', '.join(d.name for d in devices())}")
    return replace(matches[0], why=origin), origin


def pocl_directory() -> Path | None:
    """Where PoCL keeps what it compiles in this process; None where the user or an earlier import decided that."""
    _load()
    return _pocl_directory


# Finding them --------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_found: dict[str, Device] | None = None
_failure: str = ""
_pocl_directory: Path | None = None
_contexts: dict[Any, Any] = {}

_NO_CACHE = "PYOPENCL_NO_CACHE"
_PREFERENCE = ("gpu", "accelerator", "cpu", "simulator")


def _rank(device: Device) -> tuple[int, int, str]:
    first = 0 if device.name.startswith("pocl") else 1
    return (_PREFERENCE.index(device.kind), first, device.name)


def _loader_says() -> str:
    return f" ({_failure})" if _failure else ""


def _load() -> dict[str, Device]:
    global _found, _failure
    with _lock:
        if _found is None:
            _found, _failure = _discover()
        return _found


def _discover() -> tuple[dict[str, Device], str]:
    """Load OpenCL and name its devices; with them, the loader's complaint if it had one."""
    before = dict(os.environ)
    try:
        _prepare()
        try:
            import pyopencl as cl
        except ImportError as error:
            raise DeviceError(f"pyopencl cannot be loaded ({error}); {FIX}") from error
        found: dict[str, Device] = {}
        try:
            with _kept_apart():  # some loaders ask for the devices of a platform, too
                platforms = cl.get_platforms()
        except cl.Error as error:  # the loader calls it an error when there is no platform
            return {}, str(error)
        for platform in platforms:
            try:
                with _kept_apart():
                    raws = platform.get_devices()
            except cl.Error as error:
                if error.code == cl.status_code.DEVICE_NOT_FOUND:
                    continue
                raise DeviceError(f"the OpenCL platform {platform.name} does not list its devices: {error}") from error
            for device in _of_platform(platform, raws):
                found[_unused(device.name, found)] = replace(device, name=_unused(device.name, found))
        return found, ""
    finally:
        for name in set(os.environ) - set(before):
            if not name.startswith("PYOPENCL") or name == _NO_CACHE:
                del os.environ[name]
        os.environ.update(before)


def _prepare() -> None:
    """Set the environment that OpenCL is loaded with."""
    global _pocl_directory
    already = "libpocl" in Path("/proc/self/maps").read_text() if sys.platform == "linux" else False
    os.environ.setdefault("POCL_DEVICES", "pthread basic")
    os.environ.setdefault(_NO_CACHE, "1")
    if "POCL_CACHE_DIR" not in os.environ and not already:
        _pocl_directory = scratch() / "pocl"
        os.environ["POCL_CACHE_DIR"] = str(_pocl_directory)
    if sys.platform == "linux" and not already and not os.environ.get("LD_PRELOAD"):
        _load_apart()
    if not any(os.environ.get(v) for v in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")):
        library = _intel_library()
        if library is not None:
            _announce(library)


def _threads() -> set[int]:
    """The threads of this process, where the system tells."""
    tasks = Path("/proc/self/task")
    return {int(task.name) for task in tasks.iterdir()} if sys.platform == "linux" and tasks.is_dir() else set()


@contextmanager
def _kept_apart() -> Iterator[None]:
    """Give each of the threads that are begun here a core of its own, if there are as many as this process may use."""
    before = _threads()
    yield
    threads = _threads() - before
    if not threads or "POCL_AFFINITY" in os.environ:
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(threads) != len(cores):
        return
    for thread, core in zip(sorted(threads), cores, strict=True):
        try:
            os.sched_setaffinity(thread, {core})
        except OSError:  # the thread has ended, or may not be moved: it is as quick as it was
            return


def _load_apart() -> None:
    """Load the implementations in pyopencl's wheel so that they look for symbols in themselves first.

    TensorFlow offers the symbols of its LLVM to the whole process, and these have one in them too. The loader, which
    comes later, gets the libraries as they are loaded here. (Where LD_PRELOAD replaces functions, they stay replaced.)
    """
    package = importlib.util.find_spec("pyopencl")
    if package is None or package.origin is None:
        return
    for icd in sorted((Path(package.origin).parent / ".libs").glob("*.icd")):
        try:
            ctypes.CDLL(str(icd.with_name(icd.read_text().strip())), os.RTLD_LAZY | os.RTLD_DEEPBIND)
        except OSError:  # the loader then leaves it out, which is what `devices()` shows
            continue


def _intel_library() -> Path | None:
    """libintelocl.so, where the wheel intel-opencl-rt is installed."""
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
    """Make Intel's runtime known to the loader, beside all that the system knows."""
    for name in ("libtbb.so.12", "libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so"):
        neighbour = library.with_name(name)
        if neighbour.exists():
            try:
                ctypes.CDLL(str(neighbour), ctypes.RTLD_GLOBAL)
            except OSError:  # the loader then leaves the runtime out, which is what `devices()` shows
                return
    vendors = scratch()
    for icd in Path("/etc/OpenCL/vendors").glob("*.icd"):
        shutil.copy(icd, vendors / icd.name)
    (vendors / "refxla-intel.icd").write_text(f"{library}\n")
    os.environ["OCL_ICD_VENDORS"] = str(vendors)


def _of_platform(platform: Any, raws: list[Any]) -> list[Device]:
    """The devices of one platform, named; numbers are added where a name comes twice."""
    import pyopencl as cl

    def make(name: str, kind: str, raw: Any, small: Any = None) -> Device:
        label = raw.name.strip()
        return Device(
            name=name,
            kind=kind,
            label=label.removeprefix("pthread-").removeprefix("basic-").removeprefix("cpu-"),
            platform=platform.name.strip(),
            driver=f"{raw.version} {raw.driver_version}".replace("basic-", "").replace("pthread-", "").strip(),
            compute_units=raw.max_compute_units,
            raw=raw,
            small=small,
        )

    if platform.name == "Portable Computing Language":
        cpus = {r.name.split("-")[0]: r for r in raws if r.type & cl.device_type.CPU}
        threads = cpus.get("pthread") or cpus.get("cpu")  # its name from PoCL 5 on
        basic = cpus.get("basic")
        out = []
        if threads or basic:
            out.append(make("pocl", "cpu", threads or basic, basic if threads else None))
        if threads and basic:
            out += [make("pocl:pthread", "cpu", threads), make("pocl:basic", "cpu", basic)]
        others = [r for r in raws if r not in cpus.values()]
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


def _unused(name: str, taken: dict[str, Device]) -> str:
    """The name itself, or the name with the first number that makes it new."""
    if name not in taken:
        return name
    number = 1
    while f"{name}.{number}" in taken:
        number += 1
    return f"{name}.{number}"


def _context(raw: Any) -> Any:
    import pyopencl

    platform = raw.platform
    with _lock:
        if platform not in _contexts:
            siblings = [r for d in (_found or {}).values() for r in d.raws if r.platform == platform]
            unique = list(dict.fromkeys(siblings or [raw]))
            _contexts[platform] = pyopencl.Context(unique)
        return _contexts[platform]
