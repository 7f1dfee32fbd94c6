"""What functions of all frameworks share: they are traced and compiled once for each kind of arguments, then run."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from refxla_spec.module import Module

from .._core.calls import Caller, Shortcut
from ..compiler import Compiled, Reference, compile_module
from ..fingerprint import Source


class Lowered:
    """One lowering of a function, compiled: called with the leaves of the arguments, gives what the function gives."""

    program: Compiled | Reference
    shortened = False  # whether a shortcut to it was thought of

    def __call__(self, leaves: Sequence[Any]) -> Any:
        raise NotImplementedError


class TracedFunction(Caller):
    """Called like the function it was made from.

    It is compiled at the first call, and again when arguments differ in structure, shapes, types, or values of what is
    no array. What an executable has (`hlo`, `optimized_hlo`, `plan`, `opencl`, `memory`, `cost`, `explain`) is that of
    the one used last. It may be called from several threads.

    Calls with positional arguments like those of one before take a shortcut (_core/calls.pyx), where the frontend has
    one.
    """

    def __init__(self, function: Callable, **options: Any) -> None:
        """`options` are those of `refxla.compile`."""
        functools.update_wrapper(self, function, updated=())
        self.function, self.options = function, options
        self._compiled: dict[Hashable, Lowered] = {}
        self._lock = threading.RLock()

    def call(self, args: tuple, kwargs: dict) -> Any:
        """A call that takes no shortcut, after which the next one like it may."""
        key, leaves = self._describe(args, kwargs)
        found = self._compiled.get(key)
        if found is None:
            found, leaves = self._compile(args, kwargs)
        self.executable = found
        if not kwargs and not found.shortened:
            found.shortened = True
            shortcut = self._shortcut(args, found) if type(found.program) is Compiled else None
            if shortcut is not None:
                self.remember(shortcut)
        return found(leaves)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for arguments like these without running anything, unless that was done before."""
        self.executable, _ = self._compile(args, kwargs)

    def _compile(self, args: tuple, kwargs: dict) -> tuple[Lowered, Sequence[Any]]:
        with self._lock:  # two threads that come with the same arguments compile once
            key, leaves = self._describe(args, kwargs)
            found = self._compiled.get(key)
            if found is None:
                found = self._lower(args, kwargs)
                key, leaves = self._describe(args, kwargs)  # the lowering may have found more that matters
                self._compiled[key] = found
            return found, leaves

    def _describe(self, args: tuple, kwargs: dict) -> tuple[Hashable, Sequence[Any]]:
        """What decides about the program, and the leaves that are passed to it."""
        raise NotImplementedError

    def _shortcut(self, args: tuple, found: Any) -> Shortcut | None:
        """The way of calls with arguments that have the same description as these, for which `found` was compiled;
        None where they cannot be told from others by types, shapes and settings alone."""
        return None

    def _lower(self, args: tuple, kwargs: dict) -> Lowered:
        """Trace the function for arguments like these and compile it."""
        raise NotImplementedError

    def _build(self, program: Module | Source) -> Compiled | Reference:
        return compile_module(program, **self.options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self.executable is None:
            raise AttributeError(f"{name}: the function is compiled when it is first called, or with example arguments")
        return getattr(self.executable.program, name)

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __repr__(self) -> str:
        kinds = len(self._compiled)
        return f"<{type(self).__name__} {self.name}: compiled for {kinds} kind{'' if kinds == 1 else 's'} of arguments>"
