"""Implementations of HLO that can be asked: each a function (module, arguments) -> results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from refxla_spec import interpreter
from refxla_spec.module import Module

import refxla

Implementation = Callable[[Module, Sequence[np.ndarray]], Any]
"""Runs a module on arguments and gives its result: an array, or a tuple of results. Raises UnsupportedError for a
program that it does not take."""


def reference(module: Module, arguments: Sequence[np.ndarray]) -> Any:
    """The specification's own interpreter."""
    return interpreter.run(module, arguments)


def compiled(device: str | None = None) -> Implementation:
    """The compiler, on the device of that name or the default one."""

    def run(module: Module, arguments: Sequence[np.ndarray]) -> Any:
        return refxla.compile(module, device=device)(*leaves(arguments))

    return run


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays of nested tuples, in order: the compiler takes its arguments flat."""
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, (tuple, list)) else [np.asarray(value)]


IMPLEMENTATIONS = ("refxla", "reference")
