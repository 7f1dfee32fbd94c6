"""Whether two modules are the same program, written the same way, and if not, the first place where they differ.

Names, order, shapes with layouts, values of literals bit by bit, and everything else that the text says count;
positions and the source text do not, nor whether a default value is written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .module import Computation, Instruction, Module
from .operation import operations

_FIELDS = ("name", "opcode", "shape", "metadata", "sharding", "frontend_attributes", "backend_config")


def equal(a: Module, b: Module) -> bool:
    """Whether `difference(a, b)` is None."""
    return difference(a, b) is None


def difference(a: Module, b: Module) -> str | None:
    """A sentence about the first difference between two modules, or None if they are equal."""
    for field in ("name", "attributes", "aliases", "entry_layout", "stack_frames"):
        if getattr(a, field) != getattr(b, field):
            return f"{field} of the module: {getattr(a, field)!r} and {getattr(b, field)!r}"
    names = [c.name for c in a.computations], [c.name for c in b.computations]
    if names[0] != names[1] or a.entry.name != b.entry.name:
        return f"the computations: {names[0]}, entry {a.entry.name}, and {names[1]}, entry {b.entry.name}"
    for c, d in zip(a.computations, b.computations, strict=True):
        if len(c.instructions) != len(d.instructions):
            return f"{c.name}: {len(c.instructions)} instructions and {len(d.instructions)}"
        if c.root.name != d.root.name or c.execution_thread != d.execution_thread:
            return f"{c.name}: its root or execution thread"
        if c.backend_config != d.backend_config:
            return f"{c.name}: its backend_config"
        for i, j in zip(c.instructions, d.instructions, strict=True):
            found = _instruction_difference(i, j)
            if found:
                return f"{c.name}, {i.name}: {found}"
    return None


def _instruction_difference(i: Instruction, j: Instruction) -> str | None:
    for field in _FIELDS:
        if getattr(i, field) != getattr(j, field):
            return f"{field} {getattr(i, field)} and {getattr(j, field)}"
    for field in ("operands", "control_predecessors"):
        names = [o.name for o in getattr(i, field)], [o.name for o in getattr(j, field)]
        if names[0] != names[1]:
            return f"{field} {names[0]} and {names[1]}"
    left, right = _attributes(i), _attributes(j)
    for name in left.keys() | right.keys():
        if name not in left or name not in right or not _same(left[name], right[name]):
            return f"{name}={left.get(name)} and {right.get(name)}"
    return None


def _attributes(i: Instruction) -> dict[str, Any]:
    """The attributes without those that have their default."""
    known = operations().get(i.opcode)
    defaults = {n: a.default for n, a in known.attributes.items()} if known else {}
    return {n: v for n, v in i.attributes.items() if n not in defaults or not _same(v, defaults[n])}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Computation) and isinstance(b, Computation):
        return a.name == b.name
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and bool(a == b)
