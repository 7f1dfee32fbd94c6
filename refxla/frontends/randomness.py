"""Random numbers in a traced function: rejected, since the compiled function would always return the same ones.

Functions are rejected if they draw from a state that outlives the call, or from the system: NumPy's and Python's global
generators, generators that the function captures, and new ones without a seed. A generator that the function creates
with a fixed seed gives the same numbers at each call with and without a compiler, and is allowed. So is a module that
the function is the first to import: it draws once with and without a compiler.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError

_ADVICE = (
    "make them outside, with a NumPy generator, and pass the array as an argument; or, in a NumPy function, make them "
    "by refxla.random.normal(key, shape) and the like, and pass the key"
)
_GLOBAL_STATE: np.random.RandomState = getattr(np.random.rand, "__self__")  # noqa: B009 - of np.random's functions
_PYTHONS: random.Random = getattr(random.random, "__self__")  # noqa: B009 - its declared type is a function's
_IMPORT = "<frozen importlib._bootstrap>"  # the file of the frames that run a module
_lock = threading.RLock()  # one thread at a time replaces functions
_ALIASES = ("seed", "ranf", "sample")  # functions that use it, too


def refusal(called: str) -> UnsupportedError:
    """The error for a call that draws random numbers."""
    return UnsupportedError(
        f"{called} draws random numbers, which would be the same at every call of the compiled function: {_ADVICE}"
    )


class Guard:
    """Represents a generator, or a function of one, that a traced function reaches: every use of it raises."""

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value

    @property  # type: ignore[misc]  # only read
    def __class__(self) -> type:  # isinstance asks it
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise refusal(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise refusal(self._name)


@contextlib.contextmanager
def refused(function: str, pythons: bool = True, entropy: bool = True) -> Iterator[None]:
    """A context in which random numbers without a seed raise UnsupportedError in this thread: NumPy's, Python's if
    `pythons`, and the system's if `entropy`."""
    me = threading.get_ident()
    modules = [(np.random, _GLOBAL_STATE, "np.random")] + ([(random, _PYTHONS, "random")] if pythons else [])
    states = _GlobalStates()
    with _lock, contextlib.ExitStack() as stack:
        stack.callback(states.end)
        for module, state, prefix in modules:
            for name, value in list(vars(module).items()):
                of_state = getattr(value, "__self__", None) is state or (module is np.random and name in _ALIASES)
                if of_state and not name.startswith("_"):
                    _guard(stack, module, name, me, states, f"{prefix}.{name}")
        if entropy:
            _guard(stack, random.Random, "seed", me, states, "random.Random()", lambda self, a=None, *_: a is None)
            _guard(stack, np.random.bit_generator, "randbits", me, states, "a generator of np.random without a seed")
            for owner, name in ((os, "urandom"), (random, "_urandom")):
                _guard(stack, owner, name, me, states, "os.urandom")
        states.note()
        yield
        if pythons and _PYTHONS.getstate() != states.pythons:
            raise refusal(f"what {function} calls uses Python's global generator, and so")
        if not _same_state(_GLOBAL_STATE.get_state(legacy=False), states.numpys):
            raise refusal(f"what {function} calls uses the global generator of np.random, and so")


class _GlobalStates:
    """The states that the global generators should have when the function has been traced, and whether it has been."""

    pythons: Any
    numpys: Any
    ended = False

    def note(self) -> None:
        """Makes them their present states."""
        self.pythons, self.numpys = _PYTHONS.getstate(), _GLOBAL_STATE.get_state(legacy=False)

    def end(self) -> None:
        """The function has been traced."""
        self.ended = True


def _same_state(one: Any, other: Any) -> bool:
    """Whether two states of a NumPy generator, nested dicts of strings, numbers and arrays, are equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_state(one[k], other[k]) for k in one)
    return np.array_equal(one, other)


def _guard(
    stack: contextlib.ExitStack,
    owner: Any,
    attribute: str,
    thread: int,
    states: _GlobalStates,
    called: str,
    draws: Callable[..., bool] = lambda *_, **__: True,
) -> None:
    """Until the stack ends, calls of a function that draws raise in this thread, unless a module that is being imported
    calls it. The module may keep the replacement."""
    original = getattr(owner, attribute)

    def call(*args: Any, **kwargs: Any) -> Any:
        if states.ended or threading.get_ident() != thread or not draws(*args, **kwargs):
            return original(*args, **kwargs)
        if not _imports_module(sys._getframe(1)):
            raise refusal(called)
        drawn = original(*args, **kwargs)
        states.note()
        return drawn

    setattr(owner, attribute, call)
    stack.callback(setattr, owner, attribute, original)


def _imports_module(frame: FrameType | None) -> bool:
    """Whether a frame belongs to an import that a traced function has started."""
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("refxla."):
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False
