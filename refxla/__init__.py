"""refxla: the XLA compiler made readable. HLO programs in, fused OpenCL kernels for CPUs and GPUs out."""

from __future__ import annotations

from refxla_spec.errors import (
    DeviceError,
    Error,
    EvaluationError,
    InputError,
    InvalidProgramError,
    ParseError,
    UnsupportedError,
)

try:
    from ._core.shapes import make as _make  # noqa: F401 - compiled from Cython
except ModuleNotFoundError as problem:
    raise ImportError(
        f"the refxla in {__path__[0]} is a checkout whose core is not compiled: install it (pip install -e .), or go "
        "to another folder if a refxla is installed"
    ) from problem

from .compiler import Compiled, Reference, compile
from .frontends import parse
from .runtime.devices import devices

__version__ = "0.1.0"

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
