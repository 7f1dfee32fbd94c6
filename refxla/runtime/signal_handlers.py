"""The signal handlers of the process, which OpenCL drivers replace when they are loaded.

LLVM, which comes with PoCL, installs its own handlers: they remove the files that LLVM is writing before a signal is
passed on, and they take SIGUSR1, which schedulers send to tell a program to save its state.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIZE = 512  # bytes, more than a sigaction takes


@contextmanager
def preserved() -> Iterator[None]:
    """Restores handlers that are replaced within the block. LLVM installs its handlers only once per process, so they
    do not come back."""
    sigaction = ctypes.CDLL(None).sigaction
    before = {number: _action(sigaction, number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, action in before.items():
            if action is not None and _action(sigaction, number) != action:
                sigaction(int(number), action, None)


def _action(sigaction: ctypes._NamedFuncPointer, number: int) -> bytes | None:
    """The action for a signal, in the C library's format; None if it has none to tell."""
    action = ctypes.create_string_buffer(_SIZE)
    return None if sigaction(int(number), None, action) else action.raw
