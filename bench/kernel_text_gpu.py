"""Simulates a GPU on a machine without one, so that code for GPUs can be compared there.

Python runs this file at startup if it is on the path as sitecustomize.py (bench/kernel_text.py puts it there). PoCL's
`basic` device then claims in every process to be the GPU of another platform, and its compiler claims not to have
clang's built-in functions, as those of GPUs do not. refxla finds out the rest by trying, and generates kernels as for
GPUs.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

UNITS = 16
PLATFORM = "Portable Computing Language"
NO_CLANG = b" -D__builtin_fmaf=clang_has_no_part_in_this"


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads pyopencl, and changes it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _pose(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds pyopencl, which is changed when it is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name == "pyopencl" else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


def _pose(cl: Any) -> None:
    name = cl.Platform.name.fget
    for kind, attribute, value, is_posing in (
        (cl.Platform, "vendor", "NVIDIA", lambda p: name(p) == PLATFORM),
        (cl.Platform, "name", "A GPU that is not there", lambda p: name(p) == PLATFORM),
        (cl.Device, "type", cl.device_type.GPU, lambda d: d.name.startswith("basic-")),
        (cl.Device, "max_compute_units", UNITS, lambda d: d.name.startswith("basic-")),
    ):
        setattr(kind, attribute, _replaced(getattr(kind, attribute).fget, value, is_posing))
    program = cl._cl._Program
    build = program._build
    program._build = lambda self, options, *rest: build(self, options + NO_CLANG, *rest)


def _replaced(old: Callable[[Any], Any], value: object, is_posing: Callable[[Any], bool]) -> property:
    return property(lambda thing: value if is_posing(thing) else old(thing))


sys.meta_path.insert(0, _Finder())
