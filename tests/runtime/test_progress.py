"""A terminal is told what is waited for, and nobody else is."""

import os
import pty
import re
import sys
import threading
import time

import pytest

from refxla import progress
from refxla.progress import show_progress, stage


class Terminal:
    """Standard error for the time of a test's wait; `text` is what was written there, without escapes."""

    def __enter__(self):
        self.ours, theirs = pty.openpty()
        self.before, sys.stderr = sys.stderr, os.fdopen(theirs, "w")
        return self

    def __exit__(self, *_):
        written, sys.stderr = sys.stderr, self.before
        written.flush()
        os.set_blocking(self.ours, False)
        try:
            self.text = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", os.read(self.ours, 1 << 16).decode())
        except BlockingIOError:
            self.text = ""
        written.close()
        os.close(self.ours)


def shown():
    """Wait until the line is there: a loaded machine takes its time."""
    end = time.monotonic() + 300
    while progress._here.line.status is None and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)


def test_what_takes_long_is_shown_with_its_stage():
    with Terminal() as terminal, show_progress("compiling [x]", after=0.0):
        stage("kernel 3 of 40")
        shown()
    assert "compiling [x]: kernel 3 of 40" in terminal.text


def test_what_is_done_soon_is_not_shown():
    with Terminal() as terminal, show_progress("compiling", after=1000.0):
        stage("kernel 1 of 1")
    assert terminal.text == ""


def test_a_wait_within_a_wait_shows_nothing_of_its_own():
    with Terminal() as terminal, show_progress("outer", after=0.0):
        with show_progress("inner", after=0.0):
            shown()
    assert "outer" in terminal.text and "inner" not in terminal.text


def test_the_line_goes_when_the_work_fails():
    with Terminal():
        with pytest.raises(ValueError), show_progress("failing", after=0.0):
            shown()
            raise ValueError
    for thread in threading.enumerate():
        if type(thread).__name__ == "_RefreshThread":
            thread.join(300)
            assert not thread.is_alive()


def test_where_no_terminal_is_nothing_is_written(capfd):
    with show_progress("compiling", after=0.0):
        stage("kernel 1 of 1")
        time.sleep(0.3)
    assert capfd.readouterr().err == ""
