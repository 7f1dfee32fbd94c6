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
