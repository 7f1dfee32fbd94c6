"""What a reader does with what it does not know: attributes of a newer XLA's text, and fields of its protos.

It is an error that names it, and the newest XLA that is known here. Who asks for leniency gets a warning in its place,
where what is not known says nothing: where its value is the default that Protocol Buffers give to every field (0,
false, empty). All else may change what the program means, and stays an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import Error
from .releases import NEWEST_IN_WORDS

_lenient: ContextVar[bool] = ContextVar("lenient", default=False)
DEFAULTS = ("0", "false", '""', "{}", "[]")  # as texts write them


@contextmanager
def lenient_reading(lenient: bool) -> Iterator[None]:
    """Read leniently, or not, whatever is read inside of this."""
    token = _lenient.set(lenient)
    try:
        yield
    finally:
        _lenient.reset(token)


def is_lenient() -> bool:
    """Whether what is read now is read leniently."""
    return _lenient.get()


def unknown(error: Error, says_nothing: bool) -> None:
    """Raise the error, whose message names what is not known; or warn of it, where that is asked for and enough."""
    what, line, excerpt = str(error).partition("\n")
    what += f"; the newest XLA known here is {NEWEST_IN_WORDS}"
    if _lenient.get() and says_nothing:
        warnings.warn(f"passed over, for it has its default: {what}", stacklevel=2)
        return
    if says_nothing:
        what += "; lenient reading (--lenient, lenient=True) passes over it"
    elif _lenient.get():
        what += "; it may have a meaning, so that lenient reading does not pass over it either"
    error.args = (what + line + excerpt,)
    raise error
