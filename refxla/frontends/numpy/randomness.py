"""Random numbers in a function that is traced: refused, since the compiled function would give the same ones for ever.

Refused is what draws from a state that outlives the call, or from the system: NumPy's and Python's global generators,
generators that the function captures, and new ones without a seed. A generator that the function makes of a fixed seed
gives the same numbers at each call with and without a compiler, and is left alone.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError

_ADVICE = "make them outside, with a NumPy generator, and pass the array as an argument"
_GLOBAL_STATE = np.random.rand.__self__  # the RandomState of np.random's functions
_BESIDE = ("seed", "ranf", "sample")  # functions that use it, too


def refusal(called: str) -> UnsupportedError:
    """The error for a call that draws random numbers."""
    return UnsupportedError(
        f"{called} draws random numbers, which would be the same at every call of the compiled function: {_ADVICE}"
    )


class Guard:
    """Stands for a generator, or a function of one, that a traced function reaches: all that is done with it raises."""

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value

    @property
    def __class__(self) -> type:
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        raise refusal(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise refusal(self._name)


@contextlib.contextmanager
def refused(function: str) -> Iterator[None]:
    """Within, random numbers without a seed raise UnsupportedError in this thread."""
    me = threading.get_ident()

    def guarded(original: Callable, name: str, is_drawn: Callable[..., bool] = lambda *_, **__: True) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == me and is_drawn(*args, **kwargs):
                raise refusal(name)
            return original(*args, **kwargs)

        return call

    replaced: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, attribute: str, new: Any) -> None:
        replaced.append((owner, attribute, getattr(owner, attribute)))
        setattr(owner, attribute, new)

    before, numpys_before = random.getstate(), _GLOBAL_STATE.get_state(legacy=False)
    try:
        for module, state, prefix in ((np.random, _GLOBAL_STATE, "np.random"), (random, random._inst, "random")):
            for name, value in list(vars(module).items()):
                of_state = getattr(value, "__self__", None) is state or (module is np.random and name in _BESIDE)
                if not name.startswith("_") and of_state:
                    replace(module, name, guarded(value, f"{prefix}.{name}"))
        replace(
            random.Random, "seed", guarded(random.Random.seed, "random.Random()", lambda self, a=None, *_: a is None)
        )
        seed_sequence = np.random.bit_generator
        replace(seed_sequence, "randbits", guarded(seed_sequence.randbits, "a generator of np.random without a seed"))
        for owner, name in ((os, "urandom"), (random, "_urandom")):
            replace(owner, name, guarded(getattr(owner, name), "os.urandom"))
        yield
    finally:
        for owner, name, value in reversed(replaced):
            setattr(owner, name, value)
    if random.getstate() != before:
        random.setstate(before)
        raise refusal(f"what {function} calls uses Python's global generator, and so")
    now = _GLOBAL_STATE.get_state(legacy=False)
    if str(now) != str(numpys_before) or not np.array_equal(now["state"]["key"], numpys_before["state"]["key"]):
        _GLOBAL_STATE.set_state(numpys_before)
        raise refusal(f"what {function} calls uses the global generator of np.random, and so")
