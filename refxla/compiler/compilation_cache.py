"""Compilations kept on disk, so that the next process need not repeat them.

An entry has what the runtime needs: the plan without its fusions, the OpenCL C, the cost of a call. Its key covers the
program (fingerprint.py), the device with all assumptions about it, the disabled passes, the tile configurations, and
this version of refxla, down to the file times of its sources. An entry is written after a program was verified, planned
and built, so a program that is found needs none of these steps. An unreadable entry counts as missing.

Entries have the format of executable files (serialization.py), which may contain the same; reading one executes
nothing. They are stored next to PoCL's programs, which are loaded and run, so the cache itself is in a private
directory (runtime/private_directories.py).
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec

import ml_dtypes
import numpy as np
from refxla_spec.module import Module
from refxla_spec.types import Shape, leaves

from ..analysis.cost_analysis import Cost
from ..codegen.opencl_program import Program
from ..device.description import Target
from ..ir.plan import Argument, Kernel, Plan
from ..runtime import disk_cache as disk
from ..runtime.devices import Device
from ..runtime.program_build import can_link, linked_parts, part_size
from . import serialization

_PACKAGES = ("refxla", "refxla_spec")


@serialization.register
@dataclass(frozen=True)
class Compilation:
    """The result of compiling a program. `plan` has no fusions, and its kernels' arguments name no instructions;
    `arity` is the number of the entry's parameters; for a program with dynamic shapes, `dynamic` has the array shapes
    of its parameters, those of its results, and whether it has a single result. `note` is that of its Source."""

    plan: Plan
    program: Program
    cost: Cost
    arity: int
    dynamic: tuple[tuple[Shape, ...], tuple[Shape, ...], bool] | None
    note: object | None = None

    @staticmethod
    def of(module: Module, plan: Plan, program: Program, cost: Cost, note: object | None = None) -> Compilation:
        """The compilation of a module, whose plan may still have its fusions."""
        parameters, root = module.entry.parameters, module.entry.root.shape
        dynamic = None
        if any(s.is_dynamic for s in (*(p.shape for p in parameters), root)):
            shapes = tuple(leaf for p in parameters for leaf in leaves(p.shape))
            dynamic = (shapes, tuple(leaves(root)), not root.is_tuple)
        kernels = _Bare()
        bare = replace(plan, kernels=tuple(map(kernels.kernel, plan.kernels)), fusions=())
        return Compilation(bare, program, cost, len(parameters), dynamic, note)


class _Bare:
    """Kernels and arguments without their instructions; objects that were shared stay shared."""

    def __init__(self) -> None:
        self.kernels: dict[int, Kernel] = {}
        self.arguments: dict[Argument, Argument] = {}

    def kernel(self, kernel: Kernel) -> Kernel:
        if id(kernel) not in self.kernels:
            arguments, calls = tuple(map(self.argument, kernel.arguments)), tuple(map(self.kernel, kernel.calls))
            self.kernels[id(kernel)] = replace(kernel, arguments=arguments, calls=calls)
        return self.kernels[id(kernel)]

    def argument(self, a: Argument) -> Argument:
        bare = Argument(a.role, a.ctype, None, a.bytes, a.scratch)
        return self.arguments.setdefault(bare, bare)


def key(what: str, fingerprint: str, device: Device, target: Target, without: Collection[str]) -> str:
    """The key of a program's compilation for a target on a device. Raises DeviceError if the device does not work."""
    configurations = sorted((name, repr(configuration)) for name, configuration in target.tile_configurations.items())
    machine = (device.name, device.label, device.platform, device.driver, device.kind, device.access)
    parts = (part_size(device), linked_parts(device), can_link(device))
    passes = (without,) if isinstance(without, str) else without
    return disk.key(
        what,
        build(),
        fingerprint,
        repr(machine + parts),
        _text(target),
        repr(configurations),
        repr(sorted(set(passes))),
    )


@cache
def _text(target: Target) -> str:
    """The fields of a target, except the tile configurations."""
    return repr(target)


def load(name: str | None) -> Compilation | None:
    """The compilation kept under a key, or None."""
    store = disk.cache()
    if name is None or (content := store.get(name)) is None:
        return None
    compilation = read(content)
    if compilation is None:
        store.drop(name)
    return compilation


def read(content: bytes) -> Compilation | None:
    """A compilation from its bytes; None if they are not one of this version's."""
    try:
        value = serialization.loads(content)
    except serialization.UnreadableError:
        return None
    return value if isinstance(value, Compilation) else None


def save(name: str | None, compilation: Compilation) -> None:
    """Stores a compilation under a key; None stores nothing, nor does a process whose own sources were edited since."""
    if name is not None and _is_as_it_began():
        disk.cache().put(name, serialization.dumps(compilation))


def _is_as_it_began() -> bool:
    """Whether the code of this process is that of `build`: whether no file had been edited when it was read. The file
    of a module is compared once, after its import; other files are compared whenever a module was imported since."""
    new = sys.modules.keys() - _imported
    if new:
        modules = [sys.modules.get(name) for name in new if name.partition(".")[0] in _PACKAGES]
        files = [file for module in modules if (file := getattr(module, "__file__", None))]
        if any(_sources().get(file) != _state(file) for file in (*files, *_data())):
            return False
        _imported.update(new)
    return True


def load_names(name: str | None) -> list[str] | None:
    """The names stored under a key, or None."""
    content = None if name is None else disk.cache().get(name)
    return None if content is None else json.loads(content)


def save_names(name: str | None, names: Iterable[str]) -> None:
    """Stores names under a key; None stores nothing."""
    if name is not None:
        disk.cache().put(name, json.dumps(list(names)).encode())


@cache
def build() -> str:
    """Identifies this refxla: the time and size of each source file, and whatever else affects results; as of the first
    call."""
    parts = [platform.python_version(), np.__version__, ml_dtypes.__version__]
    for folder in _folders():
        inside = [path for path in _sources() if path.startswith(folder + os.sep)]
        parts += sorted(f"{path[len(folder) :]} {_sources()[path]}" for path in inside)
    return disk.key(*parts)


def _folders() -> list[str]:
    """Where the packages are."""
    specs = map(find_spec, _PACKAGES)
    return [folder for spec in specs if spec is not None for folder in spec.submodule_search_locations or ()]


@cache
def _sources() -> dict[str, str]:
    """The state of each source file, by its path, as of the first call."""
    found = {}
    for folder in _folders():
        for directory, inner, names in os.walk(folder):
            if "__pycache__" in inner:  # where another process that starts may be writing its bytecode
                inner.remove("__pycache__")
            paths = (os.path.join(directory, name) for name in names if not name.endswith(".pyi"))
            found.update({path: _state(path) for path in paths})
    return found


@cache
def _data() -> list[str]:
    """The source files that are not modules."""
    return [path for path in _sources() if not path.endswith((".py", ".so", ".pyd"))]


def _state(path: str) -> str:
    """The size and the time of a file; "" if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"


_imported: set[str] = set()  # the modules whose files were compared
build()  # now, while the running code is the code on disk
