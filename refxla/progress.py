"""What is being waited for, as a line on standard error if that is a terminal.

with show_progress("compiling step"):  # the line appears when it takes longer than a second, and goes away after it
    stage("kernel 3 of 40")            # from wherever the work is done, in the same thread
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

LONG_S = 1.0  # faster work is not worth a line

_here = threading.local()


class _Line:
    """A spinner and a text, shown after a delay by a separate thread."""

    def __init__(self, what: str, after: float) -> None:
        self.what, self.stage = what, ""
        self.status: Any = None
        self.lock = threading.Lock()
        self.ended = False
        self.timer = threading.Timer(after, self._show)
        self.timer.daemon = True
        self.timer.start()

    def text(self) -> Any:
        from rich.text import Text  # rich parses brackets in a str as markup

        return Text(f"{self.what}: {self.stage}" if self.stage else self.what)

    def say(self, stage: str) -> None:
        self.stage = stage
        if self.status is not None:
            self.status.update(self.text())

    def _show(self) -> None:
        from rich.console import Console

        with self.lock:
            if not self.ended:
                self.status = Console(stderr=True).status("", spinner="dots")
                self.status.update(self.text())  # not before: a stage that comes now must not be lost
                self.status.start()

    def end(self) -> None:
        self.timer.cancel()
        with self.lock:
            self.ended = True
            if self.status is not None:
                self.status.stop()


@contextlib.contextmanager
def show_progress(what: str, after: float = LONG_S) -> Iterator[None]:
    """Shows what is being waited for, if it takes longer than `after` seconds.

    Within another wait of the same thread, or if standard error is not a terminal, nothing more is shown.
    """
    if getattr(_here, "line", None) is not None or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    _here.line = line = _Line(what, after)
    try:
        yield
    finally:
        _here.line = None
        line.end()


def stage(what: str) -> None:
    """Reports the progress of the work that this thread waits for; costs nothing if there is no wait."""
    line = getattr(_here, "line", None)
    if line is not None:
        line.say(what)
