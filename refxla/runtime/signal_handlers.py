"""The signal handlers of the process, which OpenCL drivers replace when they are loaded.

LLVM, which comes with PoCL, installs handlers of its own: it removes the files that it is writing before it passes a
signal on, and keeps SIGUSR1 for itself, by which schedulers tell a program to save its state.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIZE = 512  # bytes, more than a sigaction takes


@contextmanager
def preserved() -> Iterator[None]:
    """Restore what is replaced within the block. LLVM installs its handlers once in a process: they stay away."""
    sigaction = ctypes.CDLL(None).sigaction
    before = {number: _action(sigaction, number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, action in before.items():
            if action is not None and _action(sigaction, number) != action:
                sigaction(int(number), action, None)


def _action(sigaction: ctypes._NamedFuncPointer, number: int) -> bytes | None:
    """What happens at a signal, as the C library describes it; None where it does not say."""
    action = ctypes.create_string_buffer(_SIZE)
    return None if sigaction(int(number), None, action) else action.raw
