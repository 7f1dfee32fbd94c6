"""Traced: an array that writes down HLO instead of computing."""

from __future__ import annotations

from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction

from .dispatch import METHODS, Asking, Symbol
from .tracing import Tracing


class Traced(Symbol, np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the traced program: `dtype`, `shape` and the like are an ndarray's; values are not there."""

    __array_priority__ = 1000

    def __init__(self, instruction: Instruction, build: Tracing, owner: str = "") -> None:
        self.instruction, self.build, self.owner = instruction, build, owner
        self.shared = bool(owner)

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

    def __getitem__(self, key: Any) -> Traced:
        with Asking(self, key):
            return METHODS["__getitem__"](self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise UnsupportedError("a traced array cannot be assigned to; make a new one with np.where or np.concatenate")

    def __getattr__(self, name: str) -> Any:
        # The methods that are functions of NumPy, too: x.sum(axis=0) is np.sum(x, axis=0).
        if name not in METHODS:
            if hasattr(np.ndarray, name) and self.ask():
                self._unknown()
            raise AttributeError(f"a traced array has no attribute {name!r}")

        def method(*args: Any, **kwargs: Any) -> Any:
            with Asking(self, args, kwargs):
                return METHODS[name](self, *args, **kwargs)

        return method

    # -- what would need the values
    def ask(self) -> bool:
        """Note that the values are needed. Whether they can be had when the function is traced again."""
        return self.build.ask(self.build.origins_of(self.instruction))

    def _unknown(self, *_: Any) -> Any:
        self.ask()
        raise UnsupportedError(
            "the function asks for the value of an array (in an if, a loop, an index, or a conversion), and values are "
            "not known when it is compiled; np.where chooses element by element"
        )

    __bool__ = __int__ = __float__ = __complex__ = __index__ = item = tolist = _unknown

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._unknown()

    @property
    def __class__(self) -> type:  # isinstance(x, np.ndarray) is what it would be
        return np.ndarray
