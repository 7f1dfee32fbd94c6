"""The modules that define what functions of NumPy become: importing them fills the tables of dispatch.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import (
    einsum,
    fft,
    functions,
    indexing,
    linalg,
    reduction_functions,
    sequence_functions,
    shape_functions,
    statistics,
    ufuncs,
)
from .dispatch import FUNCTIONS, METHODS

__all__ = [
    "einsum", "fft", "functions", "indexing", "linalg", "reduction_functions", "sequence_functions", "shape_functions",
    "statistics", "ufuncs", "covered",
]  # fmt: skip


def covered() -> tuple[list[str], list[str], list[str]]:
    """The names of everything with a compiled form: universal functions, other functions, methods of arrays."""
    names = sorted({ufunc.__name__ for ufunc in ufuncs.UFUNCS})
    others = sorted({_name(f) for f in FUNCTIONS if not isinstance(f, np.ufunc)} - set(names))
    return names, others, sorted(METHODS)


def _name(function: Any) -> str:
    """A function's name as a user of NumPy writes it, after `np.`."""
    if not hasattr(function, "__module__"):  # a method, np.ufunc.at
        return f"{function.__objclass__.__name__}.{function.__name__}"
    module = function.__module__.removeprefix("numpy").lstrip(".")
    return f"{module}.{function.__name__}" if module and not module.startswith("_") else function.__name__
