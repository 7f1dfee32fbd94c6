"""Traced: an array that writes down HLO instead of computing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction
from refxla_spec.types import BY_DTYPE

from ...build import Build


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the traced program: `dtype`, `shape` and the like are an ndarray's; values are not there."""

    __array_priority__ = 1000

    def __init__(self, instruction: Instruction, build: Build, owner: str = "") -> None:
        self.instruction, self.build, self.owner = instruction, build, owner
        self.shared = bool(owner)  # whether another array would see a change of this one: then it must not change

    # -- what an ndarray tells about itself
    @property
    def shape(self) -> tuple[int, ...]:
        return self.instruction.shape.dimensions

    @property
    def dtype(self) -> np.dtype:
        return self.instruction.shape.element_type.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.instruction.shape.size

    @property
    def T(self) -> Traced:
        return np.transpose(self)

    @property
    def real(self) -> Traced:
        return np.real(self)

    @property
    def imag(self) -> Traced:
        return np.imag(self)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[n] for n in range(len(self)))

    def __repr__(self) -> str:
        return f"Traced({self.instruction.shape})"

    # -- what NumPy hands over
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        from .ufuncs import apply_ufunc

        result = apply_ufunc(self.build, ufunc, method, inputs, options)
        if out is None:
            return result
        (target,) = out
        if not isinstance(target, Traced) or target.shared:
            what = target.owner if isinstance(target, Traced) else "an array that is not traced"
            raise UnsupportedError(
                f"{ufunc.__name__} would change {what or 'an array that another one shares memory with'} in place, "
                "which a compiled function cannot; write y = x + 1 in the place of x += 1"
            )
        if result.shape != target.shape or not np.can_cast(result.dtype, target.dtype, "same_kind"):
            raise UnsupportedError(f"{ufunc.__name__} gives {result}, which does not fit into {target} in place")
        target.instruction = self.build.convert(result.instruction, BY_DTYPE[target.dtype])
        return target

    def __array_function__(self, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        from .functions import FUNCTIONS

        implementation = FUNCTIONS.get(function)
        if implementation is None:
            raise UnsupportedError(
                f"{function.__module__}.{function.__name__} has no compiled form; use other functions of NumPy"
            )
        return implementation(*args, **kwargs)

    def __getitem__(self, key: Any) -> Traced:
        from .movement import index

        return index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise UnsupportedError("a traced array cannot be assigned to; make a new one with np.where or np.concatenate")

    def __getattr__(self, name: str) -> Any:
        # The methods that are functions of NumPy, too: x.sum(axis=0) is np.sum(x, axis=0).
        from .functions import METHODS

        if name not in METHODS:
            raise AttributeError(f"a traced array has no attribute {name!r}")
        return lambda *args, **kwargs: METHODS[name](self, *args, **kwargs)

    # -- what would need the values
    def _unknown(self, *_: Any) -> Any:
        raise UnsupportedError(
            "the function asks for the value of an array (in an if, a loop, an index, or a conversion), and values are "
            "not known when it is compiled; np.where chooses element by element"
        )

    __bool__ = __int__ = __float__ = __complex__ = __index__ = item = tolist = _unknown

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._unknown()
