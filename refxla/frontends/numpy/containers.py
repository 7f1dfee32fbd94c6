"""Lists and dicts among the arguments, which a function may change: the caller's are changed when the program has run.

A traced function gets its own lists and dicts in place of the caller's. Changes are found by comparing them before and
after.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import InputError

from .trees import fields_of, is_dataclass, rebuild


def containers(tree: Any) -> Iterator[Any]:
    """The lists and dicts in a nesting, each before those in it."""
    if isinstance(tree, (list, dict)):
        yield tree
    if is_dataclass(tree):
        tree = fields_of(tree)
    for element in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ():
        yield from containers(element)


def reaches(value: Any, wanted: tuple[type, ...]) -> bool:
    """Whether a value holds one of the `wanted` classes: as an attribute, an element, an argument of a
    functools.partial, or a variable of an enclosing function."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if issubclass(type(value), wanted):  # isinstance(x, np.ndarray) is true for a Traced
            return True
        if id(value) in seen or isinstance(value, (type, types.ModuleType, str, bytes, np.ndarray)):
            continue
        seen.add(id(value))
        if isinstance(value, functools.partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, types.FunctionType):
            waiting += [*inspect.getclosurevars(value).nonlocals.values(), *(value.__defaults__ or ())]
        elif isinstance(value, types.MethodType):
            waiting += [value.__self__, value.__func__]
        elif isinstance(value, (dict, list, tuple, set, frozenset)):
            waiting += value.values() if isinstance(value, dict) else value
        waiting += getattr(value, "__dict__", {}).values()
        slots = getattr(type(value), "__slots__", ())
        waiting += [getattr(value, name, None) for name in ((slots,) if isinstance(slots, str) else slots)]
    return False


class GivenContainers:
    """The lists and dicts that a traced function gets."""

    def __init__(self, arguments: Any) -> None:
        self._containers = list(containers(arguments))
        self._before = [_items(c) for c in self._containers]
        self._places = {id(c): n for n, c in enumerate(self._containers)}

    def place(self, value: Any) -> int | None:
        """The one that a value is, if any."""
        return self._places.get(id(value))

    def is_changed(self, value: Any) -> bool:
        """Whether a value is one of them, with elements other than initially."""
        place = self.place(value)
        if place is None:
            return False
        before, after = self._before[place], _items(value)
        return len(before) != len(after) or any(
            k != q or v is not w for (k, v), (q, w) in zip(before, after, strict=True)
        )

    def contents(self, convert: Callable[[Any], Any]) -> dict[int, Any]:
        """The contents of those that the function has changed, with `convert(leaf)` for each new leaf."""
        changed: dict[int, Any] = {}
        for n, container in enumerate(self._containers):
            if self.is_changed(container):
                old = {id(v): _OldElement(k) for k, v in self._before[n]}
                new = {
                    k: old[id(v)] if id(v) in old else rebuild(v, convert, lambda x: self.place(x) is not None)
                    for k, v in _items(container)
                }
                changed[n] = new if isinstance(container, dict) else list(new.values())
        return changed


def put(container: Any, content: Any) -> None:
    """Gives a list or dict of the caller's the contents from `GivenContainers.contents`."""
    if isinstance(container, dict):
        new = {k: container[v.key] if isinstance(v, _OldElement) else v for k, v in content.items()}
        container.clear()
        container.update(new)
    else:
        container[:] = [container[v.key] if isinstance(v, _OldElement) else v for v in content]


def require_apart(own: Sequence[Any], changed: Sequence[int], names: Sequence[str]) -> None:
    """Rejects lists and dicts that are changed and occur twice: the function got two copies of them."""
    for n in changed:
        for k, other in enumerate(own):
            if k != n and other is own[n]:
                raise InputError(
                    f"the function changes {names[n]}, which is the same {type(other).__name__} as {names[k]}: one of "
                    "them must be a copy"
                )


class _OldElement:
    """In the contents of a container: its previous element at this place."""

    def __init__(self, key: Any) -> None:
        self.key = key


def _items(container: Any) -> list[tuple[Any, Any]]:
    return list(container.items() if isinstance(container, dict) else enumerate(container))
