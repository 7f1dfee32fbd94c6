"""Which device is used, its name, and what is known about it.

Beside the devices that are found there are two kinds that are only used when named. A described GPU
(device/gpu_models.py) need not be present: its code can be shown, not run. "pocl:gpu" is PoCL's CPU device running code
written for a GPU, in work-groups with local memory and barriers: slow, and only for tests.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

from refxla_spec.errors import DeviceError, InputError
from refxla_spec.lexer import suggestion

from ..codegen.primitives import build_options
from ..device.capabilities import capabilities_of
from ..device.description import Costs, Target
from ..device.gpu_models import EMULATED, MODELS
from . import calibration, device_probe, discovery
from .device_probe import Properties
from .discovery import OpenClDevice, remedy
from .pocl import linker
from .pocl import platform as pocl

EMULATED_NAME = "pocl:gpu"
REFERENCE = "reference"  # the name of the specification's interpreter where programs are compiled for it
_PREFERENCE = ("gpu", "accelerator", "cpu", "simulator")


MERGING = "REFXLA_GPU_MERGING"


def _merges_work_groups() -> bool:
    """Whether a GPU's kernels with work-groups are merged, which is off unless asked for: it gave wrong values on an
    NVIDIA H100, and no GPU has run the corrected code since. Raises InputError for an invalid value of the variable."""
    value = os.environ.get(MERGING, "")
    if value not in ("", "work-groups"):
        raise InputError(f"{MERGING} is {value!r}: say work-groups, or leave it unset, for loops of single items alone")
    return value == "work-groups"


@dataclass(frozen=True)
class Device(OpenClDevice):
    """An OpenCL device, with what the probe found about it."""

    @cached_property
    def properties(self) -> Properties:
        """What the device can do, found by trying in a child process; cached after the first time."""
        return device_probe.properties(self)

    @property
    def target(self) -> Target:
        """What generated code may assume of the device. Raises DeviceError when the device does not work."""
        p = self.properties
        if not p.works:
            text = f"device {self.name} ({self.label}) does not run a small program correctly: {p.problem}"
            hint = linker.is_missing() if self.platform == pocl.NAME else ""
            raise DeviceError(f"{text}; {hint}" if hint else text)
        target = _target(self.kind, self.platform, self.compute_units, p, calibration.costs(self))
        if self.kind != "gpu":
            return target
        return replace(
            target,
            sub_group=_sub_group(self.raw) or target.sub_group,
            group_size=self.raw.max_work_group_size,
            local_bytes=self.raw.local_mem_size,
            handover=p.handover and _merges_work_groups(),
        )

    @property
    def access(self) -> str:
        """How kernels reach memory: "host" (arrays are used in place), "buffer" (the device has memory of its own)."""
        return self.properties.access

    @property
    def build_options(self) -> str:
        """The options with which each program is built for the device."""
        # Oclgrind stops at the code that its compiler generates for restrict in an inlined function, and has no abs of
        # integers, which its optimizer introduces.
        return " ".join(build_options(self.target)) + (
            " -Drestrict= -cl-opt-disable" if self.kind == "simulator" else ""
        )

    @property
    def is_present(self) -> bool:
        """Whether programs can run on it."""
        return True


@cache
def _target(kind: str, platform: str, compute_units: int, p: Properties, costs: Costs) -> Target:
    """What generated code may assume of a device with these properties; a small program asks for it several times."""
    return Target(
        capabilities=capabilities_of(kind, p.clang),
        vector_bytes=p.vector_bytes,
        compute_units=compute_units,
        fp64=p.fp64,
        fp16=p.fp16,
        max_vector=p.max_vector,
        features=p.features,
        persistent=p.persistent,
        costs=costs,
        bare=p.bare and platform == pocl.NAME,
        slow_subnormals=p.slow_subnormals,
        offsets=p.access == "buffer",
    )


def _sub_group(raw: Any) -> int:
    """How many work items of a GPU run in lockstep, for which each vendor has its own query; 0 if the driver has none
    of them, and answers each with an error."""
    import pyopencl as cl

    for query in ("warp_size_nv", "wavefront_width_amd"):
        try:
            width: int = getattr(raw, query)
        except (AttributeError, cl.Error):
            continue
        return width
    return 0


@dataclass(frozen=True)
class EmulatedGpu(Device):
    """PoCL's CPU device, running code written for a GPU."""

    of: Device | None = None

    @property
    def properties(self) -> Properties:
        """Those of the CPU device."""
        assert self.of is not None
        return self.of.properties

    @property
    def target(self) -> Target:
        """Code is written with OpenCL's own functions, as for a GPU."""
        p = self.properties
        if not p.works:
            raise DeviceError(f"device {self.name} ({self.label}) does not run a small program correctly: {p.problem}")
        return replace(EMULATED, fp64=p.fp64)

    @property
    def access(self) -> str:
        """As on a GPU: memory of its own."""
        return "buffer"


@dataclass(frozen=True)
class DescribedGpu(Device):
    """A GPU that is not present."""

    @property
    def properties(self) -> Properties:
        """As described."""
        return Properties(works=True, access="buffer", fp64=self.target.fp64, fp16=self.target.fp16, rounded=True)

    @property
    def target(self) -> Target:
        """As described."""
        return MODELS[self.name].target

    @property
    def is_present(self) -> bool:
        """No."""
        return False


def devices() -> tuple[Device, ...]:
    """Every device, the default one first; () when there is none."""
    return tuple(_ordered(_load()))


def find(name: str | None = None) -> Device:
    """The device of this name; for None, the one that REFXLA_DEVICE names, or the default.

    A kind ("gpu", "cpu") means the first device of that kind, and a kind with a number ("gpu:1") another one; the
    beginning of a name also works if it is that of just one device. Raises DeviceError when there is no such device, or
    none at all.
    """
    return choose(name)[0]


def choose(name: str | None = None) -> tuple[Device, str]:
    """(device, the reason for it); see `find`."""
    by_name = _load()
    if not by_name:
        raise DeviceError(f"no OpenCL device was found{discovery.failure()}; for one that is the CPU, {remedy()}")
    if name is None and os.environ.get("REFXLA_DEVICE"):
        name, origin = os.environ["REFXLA_DEVICE"], "REFXLA_DEVICE names it"
    elif name is not None:
        origin = "it was asked for"
    else:
        device = _ordered(by_name)[0]
        if device.kind == "simulator":
            raise DeviceError(f"the only OpenCL device is a simulator, {device.name}: name it to use it, or {remedy()}")
        same = sum(d.kind == device.kind for d in by_name.values())
        reason = "it is the only one" if len(by_name) == 1 else f"the best of {len(by_name)} devices"
        if device.kind == "gpu":
            reason += f": {_faster(device, by_name) or 'a GPU comes before a CPU'}"
        elif any(d.kind == "gpu" for d in by_name.values()):
            reason += f": {_faster(device, by_name)}"
        elif same > 1:
            reason += ": no GPU is here, and PoCL comes first among CPU devices"
        return replace(device, why=reason), reason
    if name in by_name:
        matches = [by_name[name]]
    elif (choice := _named(name, by_name) or _of_kind(name, by_name)) is not None:
        matches = [choice]
    else:
        matches = [d for n, d in by_name.items() if n.startswith(name)]
    kind, _, which = name.partition(":")
    known = suggestion(name, [*by_name, EMULATED_NAME, *MODELS])
    if kind == "gpu" and which and not which.isdecimal():
        known = f"; models of GPUs, for `refxla show --opencl`: {', '.join(MODELS)}{known}"
    if not matches and kind in ("cpu", "gpu") and all(d.kind != kind for d in by_name.values()):
        there = ", ".join(d.name for d in devices())
        raise DeviceError(
            f"no {kind.upper()} was found, and {name!r} is one ({origin}); there are: {there}; refxla devices and "
            f"refxla doctor show what was found{known}"
        )
    if name == REFERENCE:
        raise DeviceError(
            f"{name!r} ({origin}) is the specification's interpreter, which has no memory of arrays and is no device: "
            "programs that are compiled for it run on it, by refxla.compile(f, device='reference') or refxla run "
            f"--device reference; devices are: {', '.join(d.name for d in devices())}"
        )
    if len(matches) != 1:
        what = "no device is called" if not matches else f"{len(matches)} devices have names that start with"
        raise DeviceError(f"{what} {name!r} ({origin}); there are: {', '.join(d.name for d in devices())}{known}")
    return replace(matches[0], why=origin), origin


def _named(name: str, by_name: dict[str, Device]) -> Device | None:
    """A device that is only used when named."""
    if name in MODELS:
        model = MODELS[name]
        raw: Any = None  # nothing runs on it
        return DescribedGpu(name, "gpu", model.label, "described", model.architecture, model.target.compute_units, raw)
    base = by_name.get("pocl:pthread") or by_name.get("pocl")
    if name != EMULATED_NAME or base is None:
        return None
    platform = f"{base.platform} as a GPU"
    return EmulatedGpu(name, "cpu", base.label, platform, base.driver, base.compute_units, base.raw, of=base)


def _of_kind(name: str, by_name: dict[str, Device]) -> Device | None:
    """The device named by its kind: "gpu", the first one, or "gpu:1", the second."""
    kind, colon, number = name.partition(":")
    of_kind = sorted((d for d in by_name.values() if d.kind == kind), key=_rank)
    if not of_kind or (colon and not (number.isdecimal() and int(number) < len(of_kind))):
        return None
    return of_kind[int(number or 0)]


def _ordered(by_name: dict[str, Device]) -> list[Device]:
    """The devices, the default one first: a GPU, unless a CPU is known to be faster."""
    ordered = sorted(by_name.values(), key=_rank)
    first = {kind: next((d for d in ordered if d.kind == kind), None) for kind in ("gpu", "cpu")}
    gpu, cpu = first["gpu"], first["cpu"]
    if gpu is not None and cpu is not None and 0 < _speed(gpu) < _speed(cpu):
        ordered.sort(key=lambda d: d.kind == "gpu")
    return ordered


def _speed(device: Device) -> float:
    """A figure for how fast a device is, from its bandwidth and arithmetic; 0 if they were not measured."""
    rates = calibration.known_rates(device)
    return 0.0 if rates is None else (rates.bandwidth * rates.arithmetic) ** 0.5 * device.compute_units


def _faster(device: Device, by_name: dict[str, Device]) -> str:
    """Why the first device of one kind comes before that of the other; "" unless both were measured."""
    kind = "cpu" if device.kind == "gpu" else "gpu"
    other = next((d for d in sorted(by_name.values(), key=_rank) if d.kind == kind), None)
    rates = [(d, calibration.known_rates(d)) for d in (device, other) if d is not None]
    texts = [f"{r.bandwidth * d.compute_units:,.0f} GB/s" for d, r in rates if r is not None]
    return f"it was measured to be faster, {' against '.join(texts)}" if len(texts) == 2 else ""


def _rank(device: Device) -> tuple[int, int, str]:
    first = 0 if device.name.startswith("pocl") else 1
    return (_PREFERENCE.index(device.kind), first, device.name)


def _load() -> dict[str, Device]:
    return {name: d if isinstance(d, Device) else _described_device(d) for name, d in discovery.load().items()}


@cache
def _described_device(device: OpenClDevice) -> Device:
    return Device(**{f.name: getattr(device, f.name) for f in fields(device)})
