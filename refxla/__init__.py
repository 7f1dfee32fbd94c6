"""refxla: the XLA compiler made readable. HLO programs in, fused OpenCL kernels for CPUs and GPUs out."""

from __future__ import annotations

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _find_spec("refxla._core.shapes") is None:  # a checkout that is the current directory after `pip install .`
    from .checkout import use_installed as _use_installed

    _use_installed(_Path(__path__[0]))  # from here on, `refxla` is the installed one

from refxla_spec.errors import (
    CompilerError,
    DeviceError,
    Error,
    EvaluationError,
    InputError,
    InvalidProgramError,
    ParseError,
    UnsupportedError,
)

from .version import RELEASE

if _TYPE_CHECKING:
    from . import array_api, random
    from ._core.array import Array
    from .api import compile, device_put, load
    from .compiler.driver import Compiled, Reference
    from .frontends import parse
    from .frontends.numpy.batching import vmap
    from .frontends.numpy.control_flow import cond, fori_loop, scan, while_loop
    from .frontends.numpy.sized import nonzero, unique
    from .runtime.devices import devices

__version__ = RELEASE

# The compiler is loaded on first use: JAX imports this package to find its plugin, whether it needs it or not.
_ORIGINS = {
    "Array": "._core.array",
    "compile": ".api",
    "device_put": ".api",
    "load": ".api",
    "Compiled": ".compiler.driver",
    "Reference": ".compiler.driver",
    "parse": ".frontends",
    "devices": ".runtime.devices",
    "cond": ".frontends.numpy.control_flow",
    "fori_loop": ".frontends.numpy.control_flow",
    "scan": ".frontends.numpy.control_flow",
    "nonzero": ".frontends.numpy.sized",
    "unique": ".frontends.numpy.sized",
    "vmap": ".frontends.numpy.batching",
    "while_loop": ".frontends.numpy.control_flow",
}


_MODULES = ("array_api", "random")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _import_module(f".{name}", __name__)
    if name == "tensorflow":  # a module that is imported on first use
        return _import_module(".tensorflow", __name__)
    if name not in _ORIGINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(_ORIGINS[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "Array",
    "Compiled",
    "CompilerError",
    "DeviceError",
    "Error",
    "EvaluationError",
    "InputError",
    "InvalidProgramError",
    "ParseError",
    "Reference",
    "UnsupportedError",
    "array_api",
    "compile",
    "cond",
    "device_put",
    "devices",
    "fori_loop",
    "load",
    "nonzero",
    "parse",
    "random",
    "scan",
    "unique",
    "vmap",
    "while_loop",
]
