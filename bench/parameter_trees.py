"""Parameters are nested dicts and lists of arrays; these walk them, in one order for every framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> Iterator[Any]:
    """The arrays of a tree: those of a dict in the order of its sorted keys."""
    if isinstance(tree, dict):
        for key in sorted(tree):
            yield from leaves(tree[key])
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    else:
        yield tree


def map_tree(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree of function(leaf, leaves at the same place of the others); tuples stay tuples."""
    if isinstance(tree, dict):
        return {key: map_tree(function, tree[key], *(o[key] for o in others)) for key in sorted(tree)}
    if isinstance(tree, (list, tuple)):
        return type(tree)([map_tree(function, *items) for items in zip(tree, *others, strict=True)])
    return function(tree, *others)


def rebuild(tree: Any, flat: Iterator[Any]) -> Any:
    """A tree of the same form with other leaves, taken from `flat` in the order of `leaves`."""
    return map_tree(lambda _: next(flat), tree)


def named_leaves(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(the innermost dict's key, leaf) for each leaf, in the same order."""
    if isinstance(tree, dict):
        for name in sorted(tree):
            yield from named_leaves(tree[name], name)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from named_leaves(item, key)
    else:
        yield key, tree
