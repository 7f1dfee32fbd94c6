"""Traced: an array that writes down HLO instead of computing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction
from refxla_spec.types import BY_DTYPE

from .number import Number
from .tracing import Tracing


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the traced program: `dtype`, `shape` and the like are an ndarray's; values are not there."""

    __array_priority__ = 1000

    def __init__(self, instruction: Instruction, build: Tracing, owner: str = "") -> None:
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
        return apply(self.build, ufunc, method, inputs, out, options)

    def __array_function__(self, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        return call(function, args, kwargs)

    def __getitem__(self, key: Any) -> Traced:
        from .shape_functions import index

        with Asking(self, key):
            return index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise UnsupportedError("a traced array cannot be assigned to; make a new one with np.where or np.concatenate")

    def __getattr__(self, name: str) -> Any:
        # The methods that are functions of NumPy, too: x.sum(axis=0) is np.sum(x, axis=0).
        from .functions import METHODS

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


class Asking:
    """A call of NumPy's. If it has no compiled form, NumPy itself does it in the next trace, with the values of those
    among its operands that can be had."""

    def __init__(self, *operands: Any) -> None:
        self.operands = operands

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, problem: BaseException | None, _: Any) -> None:
        if isinstance(problem, UnsupportedError):
            for operand in _symbols(self.operands):
                operand.build.ask(operand.origins) if isinstance(operand, Number) else operand.ask()


def _symbols(value: Any) -> Iterator[Traced | Number]:
    if isinstance(value, (Traced, Number)):
        yield value
    elif isinstance(value, dict):
        yield from _symbols(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for element in value:
            yield from _symbols(element)


def apply(build: Tracing, ufunc: np.ufunc, method: str, inputs: tuple, out: Any, options: dict) -> Any:
    """What a call of a ufunc gives."""
    from .ufuncs import apply_ufunc

    with Asking(inputs):
        result = apply_ufunc(build, ufunc, method, inputs, options)
    if out is None:
        return result
    (target,) = out
    if not isinstance(target, Traced) or target.shared:
        what = target.owner if isinstance(target, Traced) else "an array that is not traced"
        raise UnsupportedError(
            f"{ufunc.__name__} would change {what or 'an array that another one shares memory with'} in place, "
            "which a compiled function cannot; write y = x + 1 in the place of x += 1, and return what is new"
        )
    if result.shape != target.shape or not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise UnsupportedError(f"{ufunc.__name__} gives {result}, which does not fit into {target} in place")
    target.instruction = build.convert(result.instruction, BY_DTYPE[target.dtype])
    return target


def call(function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a call of a function of NumPy gives."""
    from .functions import FUNCTIONS

    with Asking(args, kwargs):
        implementation = FUNCTIONS.get(function)
        if implementation is None:
            raise UnsupportedError(
                f"{function.__module__}.{function.__name__} has no compiled form; use other functions of NumPy"
            )
        return implementation(*args, **kwargs)
