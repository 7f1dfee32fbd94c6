"""How a command starts: it can be interrupted while its modules are imported, which takes most of a short command.

This module imports nothing but the standard library, so that little is outside its guard.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

INTERRUPTED = 130  # the exit status


def start(module: str, command: str) -> int:
    """The exit status of `main` of a module, which is imported here. An interruption of the import ends the process
    with one line under the command's name.

    It ends at once: an exception would leave modules that are half imported, and Python has places that print an
    exception and go on.
    """

    def stop(*_: object) -> None:
        report_interruption(command)
        os._exit(INTERRUPTED)

    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where the parent ignores the signal, as nohup and & do
        signal.signal(signal.SIGINT, stop)
    main = import_module(module).main
    signal.signal(signal.SIGINT, handler)
    return int(main())


def report_interruption(command: str) -> None:
    """The line of an interrupted command on standard error."""
    if sys.stderr is not None:
        print(f"{command}: error: interrupted", file=sys.stderr, flush=True)
