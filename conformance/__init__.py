"""Tests whether an implementation of HLO does what the specification says; docs/conformance.md is the manual.

The cases are collected from the specification automatically, and from the generators in `cases/`. What is tested is a
target (see targets/): the compiler, the specification's interpreter, XLA:CPU, StableHLO's interpreter, or any other
implementation behind a small adapter class.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from .case_check import Outcome, Verdict, check
    from .cases import Case, collect
    from .targets import Target, make_target

# Imported on first use: the command is to be interruptible while it imports them (see refxla.cli.start).
_ORIGINS = {
    "Case": ".cases",
    "collect": ".cases",
    "Outcome": ".case_check",
    "Verdict": ".case_check",
    "check": ".case_check",
    "Target": ".targets",
    "make_target": ".targets",
}


def __getattr__(name: str) -> object:
    if name not in _ORIGINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(_ORIGINS[name], __name__), name)
    globals()[name] = value
    return value


__all__ = ["Case", "Outcome", "Target", "Verdict", "check", "collect", "make_target"]
