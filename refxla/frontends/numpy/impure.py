"""Calls that read the environment while a function is traced: clock, files, environment variables, iterators that
outlive the call.

Their results become part of the program, and are the same at every call. That is a warning, not an error: a function
may measure its own time, or read a file that never changes. The functions of FUNCTIONS are detected however they are
reached, by their module or by another name, and also if a library calls them (np.load opens a file); so are iterators
that the function reaches by a writable name. Not detected are methods of files, classes written in C that are not
iterators (datetime.now), os.environ, and calls inside compiled libraries.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import numpy as np

from .captures import CapturedVariable
from .location import is_library, users_line

FUNCTIONS: dict[Any, tuple[str, ...]] = {
    time: (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
        "process_time_ns", "thread_time", "localtime", "gmtime",
    ),
    builtins: ("open", "input"),
    io: ("open",),
    os: ("getenv", "listdir", "scandir", "stat", "getcwd", "open"),
    np: ("fromfile",),
}  # fmt: skip
# Modules that read files for Python itself: the lines of a message, an import.
_PYTHONS = ("linecache", "tokenize", "inspect", "traceback", "warnings", "importlib", "zipimport")
# Calls that these make are not reported: a NumPy function that uses them is rejected anyway.
_FRAMEWORKS = ("jax", "tensorflow", "torch")
_OWN = ("refxla", "refxla_spec")  # they read their own files on first use
_NOT_THE_USERS = frozenset((*_PYTHONS, *_FRAMEWORKS, *_OWN))


class FrozenValueWarning(UserWarning):
    """The result of a call while a function is traced is part of its program for ever."""


class Watch:
    """The calls of one trace of `function`: each function and iterator causes one warning."""

    def __init__(self, function: str) -> None:
        self.function, self.thread = function, threading.get_ident()
        self._warned: set[str] = set()
        self._watched: dict[int, Callable[..., Any]] = {}
        for module, names in FUNCTIONS.items():
            for name in names:
                if (original := getattr(module, name, None)) is not None:
                    shown = name if module in (builtins, io) else f"{'np' if module is np else module.__name__}.{name}"
                    self._watched.setdefault(id(original), self._wrapped(original, shown))

    def swaps(self, variables: Iterable[CapturedVariable]) -> list[tuple[CapturedVariable, Any]]:
        """The replacements of variables that hold such functions and iterators, during the trace."""
        swaps: list[tuple[CapturedVariable, Any]] = []
        for variable in variables:
            value = variable.value
            if variable.set is None:
                continue
            if (watched := self._watched.get(id(value))) is not None:
                swaps.append((variable, watched))
            elif hasattr(type(value), "__next__"):
                swaps.append((variable, _WatchedIterator(self, variable.name, value)))
        return swaps

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """A context in which the functions are watched in their modules."""
        with contextlib.ExitStack() as stack:
            for module, names in FUNCTIONS.items():
                for name in names:
                    original = getattr(module, name, None)
                    if original is not None:
                        setattr(module, name, self._watched[id(original)])
                        stack.callback(setattr, module, name, original)
            yield

    def tell(self, called: str) -> None:
        """Warns of a call, unless it is Python's own, or refxla's."""
        if called in self._warned or threading.get_ident() != self.thread or not _is_users():
            return
        self._warned.add(called)
        warnings.warn(
            f"{called} is called while {self.function} is traced: what it gives now becomes part of the program, and "
            f"is the same at every call; call it outside, and pass what it gives as an argument{users_line()}",
            FrozenValueWarning,
            stacklevel=3,
        )

    def _wrapped(self, original: Callable[..., Any], shown: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.tell(f"{shown}()")
            return original(*args, **kwargs)

        return call


class _WatchedIterator:
    """Represents an iterator that a traced function reaches: advancing it is reported."""

    def __init__(self, watch: Watch, name: str, iterator: Iterator[Any]) -> None:
        self._watch, self._name, self._iterator = watch, name, iterator

    @property  # type: ignore[misc]  # only read
    def __class__(self) -> type:  # isinstance asks for it
        return type(self._iterator)

    def __iter__(self) -> _WatchedIterator:
        return self

    def __next__(self) -> Any:
        self._watch.tell(f"next({self._name})")
        return next(self._iterator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _is_users() -> bool:
    """Whether the user's code is the cause of the current call."""
    frame: FrameType | None = sys._getframe(3)  # beyond this function, `tell`, and its caller
    while frame is not None and is_library(frame):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _NOT_THE_USERS:
            return False
        frame = frame.f_back
    return frame is not None
