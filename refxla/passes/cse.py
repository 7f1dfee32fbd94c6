"""Common subexpression elimination: of several instructions with the same value, only the first remains."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction, Module

from .dce import sort

IMPURE = {"parameter", "rng", "infeed", "outfeed", "send", "recv", "rng-get-and-update-state", "custom-call"}


def run(module: Module) -> int:
    """Merge equal instructions in every computation. Returns the number of instructions removed."""
    numbers: dict[Hashable, int] = {}  # equal computations have the same number
    same = {c: numbers.setdefault(key_of(c), len(numbers)) for c in module.computations}
    return sum(_merge(c, same) for c in module.computations)


def _merge(computation: Computation, same: dict[Computation, int]) -> int:
    by_key: dict[Any, Instruction] = {}
    replaced: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        if i.opcode in IMPURE:
            continue
        attributes = tuple(sorted((k, attribute_key(v, same)) for k, v in i.attributes.items()))
        key = (i.opcode, i.shape.without_layout(), tuple(id(o) for o in i.operands), attributes)
        first = by_key.setdefault(key, i)
        if first is not i:
            replaced[i] = first
    if replaced:
        computation.root = replaced.get(computation.root, computation.root)
        sort(computation)
    return len(replaced)


def attribute_key(value: Any, same: Mapping[Computation, Hashable]) -> Hashable:
    """A hashable key, equal for equal attribute values."""
    if isinstance(value, Computation):
        return ("computation", same.get(value, id(value)))
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, tuple):
        return tuple(attribute_key(v, same) for v in value)
    return repr(value)


def key_of(computation: Computation, same: Mapping[Computation, Hashable] | None = None) -> Hashable:
    """A key, equal for equal computations. Small computations (reducers, comparators) are often equal and are compared
    by their contents; large ones by identity, unless the keys of the computations that they call are given."""
    if same is None and (len(computation.instructions) > 16 or any(i.called for i in computation.instructions)):
        return id(computation)
    number = {i: n for n, i in enumerate(computation.instructions)}
    rows = []
    for i in computation.instructions:
        attributes = tuple(sorted((k, attribute_key(v, same or {})) for k, v in i.attributes.items()))
        rows.append((i.opcode, i.shape.without_layout(), tuple(number[o] for o in i.operands), attributes))
    return tuple(rows), number[computation.root]
