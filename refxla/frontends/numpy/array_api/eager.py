"""Operations on Arrays, one at a time: functions of NumPy, each compiled for the types and shapes of its arguments."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.array import Array, put
from ....compiler.options import Options
from ....runtime.devices import Device, choose
from .. import NumpyFunction
from ..captures import Captures
from ..trees import leaves, rebuild

DeviceLike = Device | str | None
_KINDS = 256  # of arguments for which an operation stays compiled


class EagerFunction(NumpyFunction):
    """A compiled function of NumPy: it reads nothing but its arguments."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        super().__init__(function, options)
        self._captures = Captures()

    def _count(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An operation is meant for many shapes, so there is no warning. The oldest compiled forms are dropped."""
        if len(self._compiled) >= _KINDS:
            self._compiled, self._by_value = {}, {}
        self._changes = Counter()


@functools.lru_cache(maxsize=1024)
def _operation(function: Callable[..., Any], static: tuple[tuple[str, type, Any], ...], device: str) -> EagerFunction:
    called: Any = functools.partial(function, **{name: value for name, _, value in static})
    called.__name__ = getattr(function, "__name__", "operation")
    return EagerFunction(called, Options.of(device))


def run(function: Callable[..., Any], *operands: Any, **static: Any) -> Any:
    """`function(*operands, **static)`, compiled: returns Arrays instead of NumPy's, on the device of the first one.

    Operands are Arrays, numbers, or nestings of them, with at least one Array; `static` values are part of the program.
    Raises TypeError if no operand is an Array, InputError if they are on different devices.
    """
    device = device_of(*operands)
    if device is None:
        name = getattr(function, "__name__", "this function")
        raise TypeError(f"{name} takes refxla.Arrays: refxla.device_put(x) makes one of an array or number")
    values = {name: _hashable(value) for name, value in static.items()}
    fixed = tuple((name, type(value), value) for name, value in values.items())
    result = _operation(function, fixed, device.name)(*operands)
    return arrays(result, device)


def device_of(*operands: Any) -> Device | None:
    """The device of the first Array among operands."""
    return next((leaf.device for leaf in leaves(operands) if isinstance(leaf, Array)), None)


def arrays(tree: Any, device: Device) -> Any:
    """The same nesting with Arrays in place of NumPy's arrays and scalars."""
    return rebuild(tree, lambda leaf: put(leaf, device) if isinstance(leaf, (np.ndarray, np.generic)) else leaf)


def on_host(function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """`function(*operands, **options)` by NumPy, on views of the Arrays' values: for results whose size depends on
    values, which no compiled program has."""
    device = device_of(*operands)
    if device is None:
        raise TypeError(f"{function.__name__} takes refxla.Arrays: refxla.device_put(x) makes one")
    views = (np.asarray(leaf) if isinstance(leaf, Array) else leaf for leaf in operands)
    return arrays(function(*views, **options), device)


def chosen(device: DeviceLike) -> Device:
    """The device that a caller named; the default one for None. Raises DeviceError if it does not exist."""
    return device if isinstance(device, Device) else choose(device)[0]


def _hashable(value: Any) -> Any:
    if isinstance(value, np.integer):  # a size or an axis that was computed
        return int(value)
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value
