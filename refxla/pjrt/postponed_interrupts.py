"""Control-C that is raised only after a function has returned."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_INTERVAL = 0.002  # seconds


@contextlib.contextmanager
def postponed_until_return(function: Callable[..., Any]) -> Iterator[None]:
    """Postpones SIGINT within the context, until `function`, which the main thread is running, has returned.

    Only the main thread handles signals: in others, and where no handler of Python's is installed, nothing changes.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    arrived: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            threading.Thread(target=_interrupt_after, args=(function,), name="refxla interrupt", daemon=True).start()


def _interrupt_after(function: Callable[..., Any]) -> None:
    """Sends the signal again as soon as the main thread no longer runs a function."""
    while _runs(sys._current_frames().get(threading.main_thread().ident or 0), function):
        time.sleep(_INTERVAL)
    signal.raise_signal(signal.SIGINT)


def _runs(frame: FrameType | None, function: Callable[..., Any]) -> bool:
    while frame is not None:
        if frame.f_code is function.__code__:
            return True
        frame = frame.f_back
    return False
