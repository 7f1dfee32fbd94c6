"""What NumPy hands over, and who computes it.

NumPy asks its operands first: `Symbol` is what those of a traced program have in common. The tables are filled by the
modules that implement functions and ufuncs, when the package is imported, so that arrays need not know of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.types import BY_DTYPE

from .tracing import Tracing

FUNCTIONS: dict[Callable, Callable] = {}  # of NumPy, and what computes them; np.matmul, which is a ufunc, among them
METHODS: dict[str, Callable] = {}  # of arrays
UFUNCS: dict[str, Callable] = {}  # "apply": what computes all other ufuncs


class Symbol:
    """Stands for a value that is not known when the function is traced."""

    build: Tracing
    owner = "an array that is not traced"  # who else sees it change
    shared = True  # whether another array would see a change of this one: then it must not change

    def ask(self) -> bool:
        """Note that the value is needed. Whether it can be had when the function is traced again."""
        raise NotImplementedError

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        with Asking(inputs):
            result = UFUNCS["apply"](self.build, ufunc, method, inputs, options)
        return result if out is None else _into(out[0], result, ufunc, self.build)

    def __array_function__(self, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        with Asking(args, kwargs):
            implementation = FUNCTIONS.get(function)
            if implementation is None:
                raise UnsupportedError(
                    f"{function.__module__}.{function.__name__} has no compiled form; jax.numpy may have it: compile "
                    "jax.jit(f), written with it, in place of f"
                )
            return implementation(*args, **kwargs)


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
                operand.ask()


def _symbols(value: Any) -> Iterator[Symbol]:
    if isinstance(value, Symbol):
        yield value
    elif isinstance(value, dict):
        yield from _symbols(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for element in value:
            yield from _symbols(element)


def _into(target: Any, result: Any, ufunc: np.ufunc, build: Tracing) -> Any:
    """What a ufunc gives in place: the target, which has another value from now on."""
    if not isinstance(target, Symbol) or target.shared:
        what = target.owner if isinstance(target, Symbol) else Symbol.owner
        raise UnsupportedError(
            f"{ufunc.__name__} would change {what or 'an array that another one shares memory with'} in place, "
            "which a compiled function cannot; write y = x + 1 in the place of x += 1, and return what is new"
        )
    if result.shape != target.shape or not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise UnsupportedError(f"{ufunc.__name__} gives {result}, which does not fit into {target} in place")
    target.instruction = build.convert(result.instruction, BY_DTYPE[target.dtype])
    return target
