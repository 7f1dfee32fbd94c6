"""A process that answers questions: for code that may crash or hang without affecting other processes.

The parent starts `python -m <module>`, whose last line is `serve({name: function, ...})`, and calls `ask(name, ...)`.
The child dies with the parent, is replaced after it has died, and ends itself when a question takes too long.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple

from refxla_spec import errors

START = 120.0  # seconds that a child may take for its imports on a busy machine, in addition to its time limit


class ChildDied(Exception):
    """The child has ended on a question, by itself or by a signal; the message says how."""


class ChildTimedOut(ChildDied):
    """The child took longer than its time limit, and was ended."""


class ChildError(Exception):
    """The child raised an exception that is not refxla's; the message has its type."""


class _Process(NamedTuple):
    """A child that runs, with the pipes to and from it."""

    process: subprocess.Popen[bytes]
    questions: IO[bytes]
    answers: IO[bytes]


class Child:
    """The parent's end. One question at a time; `send` and `receive` are the two halves of `ask`."""

    def __init__(self, module: str, environment: Mapping[str, str] | None = None) -> None:
        """`module` is run as `python -m`; `environment` is added to this process's own."""
        self.module, self.environment = module, dict(environment or {})
        self._running: _Process | None = None
        self._deadline = 0.0
        self._words = tempfile.TemporaryFile()  # what the child writes to stderr while it answers

    def ask(self, *question: Any, limit: float) -> Any:
        """The answer to (name of a function, arguments ...), within `limit` seconds.

        Raises the function's exception if it is one of refxla's errors, otherwise ChildError; or ChildDied.
        """
        self.send(*question, limit=limit)
        return self.receive()

    def send(self, *question: Any, limit: float) -> None:
        """Sends a question; starts a child if there is none.

        The child ends itself `limit` seconds after it has begun with the question (`restart_clock`); the parent, which
        does not see when that is, ends a child that has not done so by then, plus START seconds if it was just started.
        """
        running = self._running
        starts = running is None or running.process.poll() is not None
        if running is None or starts:
            running = self._running = self._start()
        self._deadline = time.monotonic() + limit + (START if starts else 0)
        self._words.seek(0)  # the child writes from there on, too: it is one open file
        self._words.truncate()
        try:
            _write(running.questions, (limit, *question))
        except OSError:
            pass  # it has gone: receive() says how

    def receive(self) -> Any:
        """Waits for the answer; errors as for `ask`."""
        running = self._asked
        try:
            if not self._readable():
                self.close()
                raise ChildTimedOut("took longer than its time limit, and was ended")
            ok, answer = _read(running.answers)
        except (OSError, EOFError):
            status = running.process.wait()
            self.close()
            if status == -signal.SIGALRM:
                raise ChildTimedOut("took longer than its time limit, and was ended") from None
            how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
            raise ChildDied(f"its process ended with {how}{self._last_words()}") from None
        if ok:
            return answer
        kind, message, details = answer
        error = getattr(errors, kind, None)
        if error is None:
            raise ChildError(f"{kind}: {message}")
        exception = error(message)
        exception.__dict__.update(details)
        raise exception

    @property
    def overdue(self) -> bool:
        """Whether the time limit of the last question has passed, with some grace for the child to report that
        itself."""
        return time.monotonic() > self._deadline + 2

    def fileno(self) -> int:
        """An object that can be waited on for an answer."""
        return self._asked.answers.fileno()

    def close(self) -> None:
        """Ends the child, if there is one. The next question starts another."""
        if self._running is not None:
            self._running.process.kill()
            self._running.process.wait()
            for stream in (self._running.questions, self._running.answers):
                try:
                    stream.close()
                except OSError:  # unsent data is dropped
                    pass
            self._running = None

    @property
    def _asked(self) -> _Process:
        """The child that has been sent a question."""
        if self._running is None:
            raise RuntimeError("no question has been sent; send() comes before receive()")
        return self._running

    def _start(self) -> _Process:
        self.close()
        paths = os.pathsep.join(p or os.getcwd() for p in sys.path)
        process = subprocess.Popen(
            [sys.executable, "-m", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env={**os.environ, "PYTHONPATH": paths, **self.environment},
        )
        weakref.finalize(self, process.kill)
        assert process.stdin is not None and process.stdout is not None  # they are pipes
        return _Process(process, process.stdin, process.stdout)

    def _last_words(self) -> str:
        """The beginning of the child's output: the message before the stack trace. For an uncaught Python exception,
        which ends a process, the message is after the trace, in the last line."""
        end = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, end - 20_000))
        last = self._words.read().decode(errors="replace")
        self._words.seek(0)
        if "Traceback (most recent call last):" in last:
            text = last.strip().splitlines()[-1][:1000]
        else:
            text = self._words.read(1000).decode(errors="replace").partition("*** Check failure")[0].strip()
        return f", saying: {text}" if text else ""

    def _readable(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._asked.answers, selectors.EVENT_READ)
            return bool(selector.select(max(0.0, self._deadline + 2 - time.monotonic())))


def serve(functions: Mapping[str, Callable[..., Any]]) -> None:
    """The child's end: answers questions until the parent has gone.

    Output of the functions to stdout goes to stderr: it is not an answer.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    while True:
        try:
            limit, name, *arguments = _read(sys.stdin.buffer)
        except EOFError:
            return
        global _limit
        _limit = limit if limit < FOREVER else 0.0
        restart_clock()
        try:
            reply = (True, functions[name](*arguments))
        except Exception as error:  # whatever it is, it is the answer
            reply = (False, (type(error).__name__, str(error), vars(error) if isinstance(error, errors.Error) else {}))
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(answers, reply)


FOREVER = 1e8  # seconds, beyond which there is no limit
_limit = 0.0  # seconds for the current question; 0 for no limit


def restart_clock() -> None:
    """Called in a child by a function that had to prepare something first: the time limit starts now."""
    signal.setitimer(signal.ITIMER_REAL, _limit)  # the signal ends the process, whatever it is doing


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _write(stream: IO[bytes], message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(struct.pack("<Q", len(data)))
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> Any:
    return pickle.loads(_exactly(stream, struct.unpack("<Q", _exactly(stream, 8))[0]))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("the other side has gone")
    return data
