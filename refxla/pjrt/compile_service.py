"""The compiler thread. JAX calls from its own threads, whose stacks are too small for a compiler in Python."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from .programs import LoadedProgram, compiled, loaded

_STACK = 256 << 20  # bytes; the system only provides the pages that are touched

_lock = threading.Lock()
# The requests, each with the place where its result is awaited.
Request = tuple[Callable[[], LoadedProgram], "Future[LoadedProgram]"]
_requests: queue.SimpleQueue[Request] | None = None

_raised: BaseException | None = None  # by a signal handler


class Interruption(KeyboardInterrupt):
    """A signal handler has raised while a program was compiled. JAX's interface passes on only the text of an error:
    the exception is kept for `interruption`."""


def interruption() -> BaseException | None:
    """The exception that a signal handler raised while a program was compiled; returned once."""
    global _raised
    problem, _raised = _raised, None
    return problem


def compile_program(code: bytes, format: bytes, options: bytes) -> LoadedProgram:
    """The program of a PJRT_Program, compiled in the service's thread; see programs.compiled."""
    return _ask(lambda: compiled(code, format.decode(), options))


def load_program(serialized: bytes, options: bytes) -> LoadedProgram:
    """The program from its serialized form, in the service's thread; see programs.loaded."""
    return _ask(lambda: loaded(serialized, options))


def _ask(work: Callable[[], LoadedProgram]) -> LoadedProgram:
    answer: Future[LoadedProgram] = Future()
    try:
        _service().put((work, answer))
        return answer.result()
    except BaseException as problem:
        if answer.done() and answer.exception() is problem:
            raise
        global _raised
        _raised = problem
        raise Interruption from problem


def _service() -> queue.SimpleQueue[Request]:
    """The requests of the service, whose thread is started if there is none."""
    global _requests
    with _lock:
        if _requests is None:
            _requests = queue.SimpleQueue()
            before = threading.stack_size(_STACK)
            try:
                threading.Thread(target=_serve, args=(_requests,), name="refxla compiler", daemon=True).start()
            finally:
                threading.stack_size(before)
        return _requests


def _serve(requests: queue.SimpleQueue[Request]) -> None:
    while True:
        work, answer = requests.get()
        try:
            answer.set_result(work())
        except BaseException as problem:
            answer.set_exception(problem)
        del work, answer


def _forked() -> None:
    """A forked process starts without a service."""
    global _requests, _lock
    _requests, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)
