"""refxla: the XLA compiler made readable. HLO programs in, fused OpenCL kernels for CPUs and GPUs out."""

from __future__ import annotations

from importlib.util import find_spec as _find_spec
from pathlib import Path as _Path

if _find_spec("refxla._core.shapes") is None:  # a checkout in which somebody stands after `pip install .`
    from .checkout import use_installed as _use_installed

    _use_installed(_Path(__path__[0]))  # from here on `refxla` is the installed one

from refxla_spec.errors import (
    DeviceError,
    Error,
    EvaluationError,
    InputError,
    InvalidProgramError,
    ParseError,
    UnsupportedError,
)

from .compiler.driver import Compiled, Reference, compile
from .frontends import parse
from .runtime.devices import devices
from .version import RELEASE

__version__ = RELEASE

__all__ = [
    "Compiled",
    "DeviceError",
    "Error",
    "EvaluationError",
    "InputError",
    "InvalidProgramError",
    "ParseError",
    "Reference",
    "UnsupportedError",
    "compile",
    "devices",
    "parse",
]
