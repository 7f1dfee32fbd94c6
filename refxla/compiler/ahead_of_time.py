"""Executables from files: unchanged on the device that a file was made for, compiled from their program elsewhere."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

from refxla_spec.errors import InputError
from refxla_spec.module import Module

from ..ir.fingerprint import Source
from ..runtime import device_probe, processor
from ..runtime.device_probe import Properties
from ..runtime.devices import REFERENCE, Device, choose, devices
from ..runtime.program_build import can_link
from . import compilation_cache, driver
from .driver import Compiled, Request
from .executable_file import SavedDevice, SavedExecutable
from .options import Options


def module_of(saved: SavedExecutable) -> Module:
    """The program in a file."""
    from ..ir.proto import from_proto  # and Google's protobuf, which a process without protos need not load

    return from_proto(saved.program)


def executable(
    saved: SavedExecutable,
    where: str,
    *,
    device: str | None = None,
    machine_code: bool = True,
    source: Source | None = None,
) -> Compiled:
    """The executable in a file, ready to be called; `where` is the file's name in messages.

    `device` is a device's name; None means REFXLA_DEVICE, or the device that the file was made for if it is present, or
    the default. Without `machine_code`, or on another device, the program is compiled, and `device_reason` says why.
    `source` is the program to compile, if it is not the one in the file.

    Raises DeviceError if there is no device, and the errors of compiling.
    """
    if device == REFERENCE:
        raise InputError(f"{where} holds kernels, which the reference does not run; compile the program itself for it")
    source = source or Source(f"saved {hashlib.sha256(saved.program).hexdigest()}", lambda: module_of(saved))
    opencl_device = _device(saved, device)
    reason = "its machine code was not to be run" if not machine_code else _misfit(saved.device, opencl_device)
    if not reason and saved.device.properties.keys() == Properties.__dataclass_fields__.keys():
        device_probe.adopt(opencl_device, saved.device.probe, Properties(**saved.device.properties))
    linear_algebra = "library" if saved.library_calls else "expanded"
    target = driver.target_of(opencl_device, Options(winograd=saved.winograd, linear_algebra=linear_algebra))
    if not reason and driver.saved_device(opencl_device, target).target != saved.device.target:
        reason = _difference(saved.device, driver.saved_device(opencl_device, target))
    if not reason:
        compilation = compilation_cache.read(saved.compilation)
        if compilation is None:
            reason = f"refxla {saved.release} made it"
        elif compilation.program.is_linked and not can_link(opencl_device):
            reason = "its parts call each other, and cannot where POCL_CACHE_DIR is set"
        else:
            kernels = "its kernels are those" if saved.binaries else "its kernels were compiled from the OpenCL C"
            here = replace(opencl_device, why=f"{opencl_device.why}; {kernels} in {where}")
            return driver.restore_executable(Request(source, here, saved.without, target), compilation, saved.binaries)
    here = replace(opencl_device, why=f"{opencl_device.why}; {where} was compiled here: {reason}")
    return driver.compile_request(Request(source, here, saved.without, target))


def _device(saved: SavedExecutable, name: str | None) -> Device:
    """The device to run on, with the reason for it."""
    if name is None and not os.environ.get("REFXLA_DEVICE"):
        for each in devices():
            if _is_same(saved.device, each):
                return replace(each, why="the file was made for it")
    return choose(name)[0]


def _is_same(saved: SavedDevice, device: Device) -> bool:
    identity = (device.name, device.label, device.platform, device.driver, device.kind)
    return identity == (saved.name, saved.label, saved.platform, saved.driver, saved.kind)


def _misfit(saved: SavedDevice, device: Device) -> str:
    """Why the machine code in a file does not fit a device, as far as that can be told without trying; "" if it may."""
    if saved.architecture != processor.architecture():
        return f"it has kernels for {saved.architecture}"
    if not _is_same(saved, device):
        return f"it has kernels for {saved.name}: {saved.label} ({saved.platform}, {saved.driver})"
    missing = set(saved.instruction_sets) - set(processor.instruction_sets()) if device.kind == "cpu" else ()
    return f"this processor lacks {', '.join(sorted(missing))}" if missing else ""


def _difference(saved: SavedDevice, here: SavedDevice) -> str:
    """What has changed about the device since the file was made."""
    if saved.target["compute_units"] != here.target["compute_units"]:
        return f"it was made for {saved.target['compute_units']} cores, and here are {here.target['compute_units']}"
    other = sorted(name for name, value in here.target.items() if saved.target.get(name) != value)
    return f"the device is not as it was ({', '.join(other)})"
