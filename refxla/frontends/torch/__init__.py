"""PyTorch: `torch.compile(model, backend="refxla")`, for inference and training.

The backend is found by its name if refxla is installed; no import is needed. `report()` says which operations of the
compiled graphs ran in PyTorch itself, and why: one without a lowering warns once (EagerWarning).
"""

from __future__ import annotations

from refxla_spec.errors import InputError

try:
    import torch as _torch
except ImportError:
    raise InputError("PyTorch is not installed: pip install 'refxla[torch]'") from None

from .backend import refxla
from .graph import AssertionFailed, DivisionByZero, IndexOutOfRange
from .report import EagerOperation, EagerWarning, Report, clear, report

__all__ = [
    "AssertionFailed",
    "DivisionByZero",
    "EagerOperation",
    "EagerWarning",
    "IndexOutOfRange",
    "Report",
    "clear",
    "refxla",
    "report",
]
del _torch
