"""Nested arguments and results as data, for functions that are written to files (ir/calling_convention.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.calling_convention import ArrayLeaf, Constant, Container, Tree


def argument_trees(
    arguments: Sequence[tuple[str, bool, Any]], values: Mapping[int, Any], is_leaf: Callable[[Any], bool]
) -> list[tuple[str, Tree]]:
    """For each argument (name, whether it is static, value), its name and its tree. `is_leaf` says which values are
    passed to the program; `values` are those of the leaves that are part of it."""
    count = 0

    def argument_tree(value: Any) -> Tree:
        nonlocal count
        if not is_leaf(value):
            return Constant(value)
        count += 1
        return Constant(values[count - 1], leaf=True) if count - 1 in values else ArrayLeaf()

    return [(name, Constant(value) if static else tree_of(value, argument_tree)) for name, static, value in arguments]


def tree_of(value: Any, leaf: Callable[[Any], Tree]) -> Tree:
    """A nesting as data, with the result of `leaf` for each of its leaves."""
    if isinstance(value, dict):
        return Container("dict", tuple(tree_of(v, leaf) for v in value.values()), tuple(value))
    if not isinstance(value, (tuple, list)):
        return leaf(value)
    children = tuple(tree_of(v, leaf) for v in value)
    if hasattr(value, "_fields"):
        return Container("named tuple", children, value._fields, type(value).__name__)
    return Container("list" if isinstance(value, list) else "tuple", children)
