"""What the commands share: the consoles they print on, and files that are written atomically."""

from __future__ import annotations

import sys
from pathlib import Path

from refxla_spec.errors import InputError
from rich.console import Console, RenderableType

from ..files import write_whole

UNBOUNDED_COLUMNS = 10_000  # columns of output that is not a terminal: nothing is wrapped or truncated


class _Console(Console):
    """A console that leaves a closed pipe to `main`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream is not None and stream.isatty()
    # Names of instructions and shapes contain brackets and colons: they are never markup or emoji.
    return _Console(
        stderr=stderr,
        width=None if terminal else UNBOUNDED_COLUMNS,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=True,
    )


def show(*what: RenderableType) -> None:
    """Prints on standard output: in colour on a terminal, otherwise as plain text."""
    console = _console()
    for part in what:
        if isinstance(part, str):
            console.print(part)
            continue
        with console.capture() as captured:
            console.print(part, soft_wrap=False)
        # Tables pad their columns up to the right edge; those blanks are useless.
        console.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def write(text: str) -> None:
    """Standard output, unchanged."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def complain(kind: str, message: str, command: str = "refxla") -> None:
    """One line (or more, if the message has an excerpt) on standard error: `refxla: error: ...`."""
    console = _console(stderr=True)
    console.print(f"{command}: {kind}: ", style="bold red" if kind == "error" else "bold yellow", end="")
    console.print(message)


def read_bytes(name: str) -> bytes:
    """The contents of a file, or of standard input for "-". Raises InputError."""
    if name == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file")
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except (OSError, ValueError) as problem:
        raise InputError(f"cannot read {name}: {getattr(problem, 'strerror', None) or problem}") from None


def write_bytes(name: str, data: bytes) -> None:
    """Writes a file atomically. "-" is standard output. Raises InputError."""
    if name == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    write_whole(name, data)
