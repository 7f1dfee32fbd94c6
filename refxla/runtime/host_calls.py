"""Host functions that programs call: Python callbacks, and results that only a library of the host computes.

A program knows a function by its key. A key is never reused in a process. A function is forgotten when nobody else
refers to it, so its owner must keep it alive as long as programs may call it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import Error, plural


class HostFunction:
    """A function that a program may call: `function(*operands)`, called with its own copies of arrays, returns the
    sequence of results, each an array of the type and shape that the program states. `key` identifies it in
    programs."""

    def __init__(self, function: Callable[..., Sequence[Any]]) -> None:
        self.function = function
        self.key = next(_keys)
        _functions[self.key] = self


_keys = itertools.count(1)
_functions: weakref.WeakValueDictionary[int, HostFunction] = weakref.WeakValueDictionary()


def call(key: int, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
    """Calls the function of a key and stores its results in `results`. Its exceptions are passed on; raises Error for
    an unknown key, and for results of other shapes."""
    entry = _functions.get(key)
    if entry is None:
        raise Error(f"the program calls host function {key} of another process, or of a function that is gone")
    values = entry.function(*operands)
    if len(values) != len(results):
        raise Error(f"host function {key} gave {plural(len(values), 'result')}, and the program takes {len(results)}")
    for value, result in zip(values, results, strict=True):
        array = np.asarray(value)
        if array.shape != result.shape or array.dtype != result.dtype:
            raise Error(
                f"host function {key} gave an array of type {array.dtype} and shape {array.shape}, and the program "
                f"takes {result.dtype} and {result.shape}"
            )
        result[...] = array
