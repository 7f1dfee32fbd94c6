"""Nestings of tuples, lists, dicts and dataclasses: the arguments and results of functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


def is_dataclass(value: Any) -> bool:
    """Whether a value is an instance of a dataclass, whose fields are its elements."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields that an instance of a dataclass has."""
    names = (f.name for f in dataclasses.fields(value))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def leaves(tree: Any) -> list[Any]:
    """The elements of a nesting, in order; a dict in its own order of keys."""
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    if is_dataclass(tree):
        return [leaf for value in fields_of(tree).values() for leaf in leaves(value)]
    return [leaf for e in tree for leaf in leaves(e)] if isinstance(tree, (tuple, list)) else [tree]


def rebuild(tree: Any, change: Callable[[Any], Any], is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The same nesting with `change(leaf)` for each leaf; `is_leaf` may declare a part a leaf. Named tuples and
    dataclasses keep their classes."""
    if is_leaf is not None and is_leaf(tree):
        return change(tree)
    if isinstance(tree, dict):
        return {k: rebuild(v, change, is_leaf) for k, v in tree.items()}
    if isinstance(tree, (tuple, list)):
        values = [rebuild(v, change, is_leaf) for v in tree]
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    if is_dataclass(tree):
        copy = object.__new__(type(tree))  # without calling its class, whose __init__ may compute
        for name, value in {**getattr(tree, "__dict__", {}), **fields_of(tree)}.items():
            object.__setattr__(copy, name, value)
        for name, value in fields_of(tree).items():
            object.__setattr__(copy, name, rebuild(value, change, is_leaf))
        return copy
    return change(tree)


def structure(tree: Any) -> Any:
    """Equal for nestings of the same structure, whatever the leaves."""
    if isinstance(tree, dict):
        return ("dict", tuple((k, structure(v)) for k, v in tree.items()))
    if isinstance(tree, (tuple, list)):
        return (type(tree), tuple(structure(v) for v in tree))
    if is_dataclass(tree):
        return (type(tree), tuple((k, structure(v)) for k, v in fields_of(tree).items()))
    return None


def from_leaves(tree: Any, values: Any) -> Any:
    """The same nesting with other leaves, in order."""
    rest = iter(values)
    return rebuild(tree, lambda _: next(rest))
