"""The table of programs: each is a function of arrays in JAX, with the inputs for measuring and testing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..models import Entry

PROGRAMS: list[Entry] = []

Function = Callable[..., Any]


def program(
    kind: str, inputs: Callable[..., list[Any]], bound: float = 1e-3, x64: bool = False, **sizes: tuple[int, int]
) -> Callable[[Function], Function]:
    """Adds a function of arrays to the table, under its own name with spaces, and returns it unchanged.

    `inputs(**sizes)` creates its arguments; each size is (measured, tested). `bound`: the allowed difference of two
    compilers' results, relative to the largest number of each result: larger for a program that amplifies rounding
    errors. `x64`: JAX's 64-bit types are enabled.
    """

    def add(function: Function) -> Function:
        def of_any_framework(_: Any, *arguments: Any) -> Any:
            return function(*arguments)

        name = function.__name__.replace("_", " ")
        measured, small = ({key: pair[n] for key, pair in sizes.items()} for n in (0, 1))
        PROGRAMS.append(Entry(name, kind, of_any_framework, inputs, measured, small, bound=bound, x64=x64))
        return function

    return add
