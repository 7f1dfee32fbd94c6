"""How every command of the project ends: an error is reported in one line, and its kind is the exit status."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable

from refxla_spec.errors import Error

from .console import complain
from .start import INTERRUPTED, report_interruption


def guarded(run: Callable[[], int], command: str = "refxla") -> int:
    """The status of a command; 2 for an error, which is reported under the command's name, and 130 when interrupted."""

    def fail(message: str) -> int:
        complain("error", message, command)
        return 2

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character
    try:
        if sys.stdout is None:
            return fail("standard output is closed")
        status = run()
        sys.stdout.flush()
        return status
    except Error as problem:
        return fail(str(problem))
    except KeyboardInterrupt:
        report_interruption(command)
        # if code compiled from such a text is interrupted, as in dataclasses, Python dies unless another text follows
        exec("")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has closed it
        _silence_stdout()
        return 141
    except OSError as problem:
        _silence_stdout()
        what = "the disk is full" if problem.errno == errno.ENOSPC else problem.strerror or str(problem)
        return fail(f"{what}{f': {problem.filename}' if problem.filename else ' (standard output)'}")
    except MemoryError as problem:
        return fail(f"not enough memory{f' ({problem})' if str(problem) else ''}; the program's arrays do not fit")
    except Exception as problem:  # a bug of the project: reported as one, with its place
        if os.environ.get("REFXLA_TRACEBACK"):
            traceback.print_exc()
        frame = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return fail(
            f"a fault of {command} itself, {type(problem).__name__} at {place}: {problem}; please report it with the "
            "program (REFXLA_TRACEBACK=1 shows where it happened)"
        )


def _silence_stdout() -> None:
    """Discards what Python would still write at exit, so that it cannot fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass
