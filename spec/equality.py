"""Whether two modules are the same program, written the same way, and if not, the first place where they differ.

Names as they are printed (names.py), order, shapes with layouts, values of literals bit by bit, and everything else
that the text says count; positions and the source text do not, nor whether a default value is written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import plural
from .module import Computation, Instruction, Module
from .names import Names, legal
from .operation import operations

_FIELDS = ("opcode", "shape", "metadata", "sharding", "frontend_attributes", "backend_config")


def equal(a: Module, b: Module) -> bool:
    """Whether `difference(a, b)` is None."""
    return difference(a, b) is None


def difference(a: Module, b: Module) -> str | None:
    """A sentence about the first difference between two modules, or None if they are equal."""
    if legal(a.name) != legal(b.name):
        return f"name of the module: {a.name!r} and {b.name!r}"
    for field in ("attributes", "aliases", "entry_layout", "stack_frames"):
        if getattr(a, field) != getattr(b, field):
            return f"{field} of the module: {getattr(a, field)!r} and {getattr(b, field)!r}"
    return _Difference(Names(a), Names(b)).of_modules(a, b)


class _Difference:
    """The first difference between two modules, or between parts of them, under the names that are printed for them."""

    def __init__(self, left: Names, right: Names) -> None:
        self.left, self.right = left, right

    def of_modules(self, a: Module, b: Module) -> str | None:
        left, right = list(map(self.left, a.computations)), list(map(self.right, b.computations))
        if left != right or self.left(a.entry) != self.right(b.entry):
            return f"the computations: {left}, entry {self.left(a.entry)}, and {right}, entry {self.right(b.entry)}"
        for c, d in zip(a.computations, b.computations, strict=True):
            reason = self._of_computations(c, d)
            if reason:
                return f"{self.left(c)}{reason}"
        return None

    def _of_computations(self, c: Computation, d: Computation) -> str | None:
        if len(c.instructions) != len(d.instructions):
            return f": {plural(len(c.instructions), 'instruction')} and {len(d.instructions)}"
        if self.left(c.root) != self.right(d.root) or c.execution_thread != d.execution_thread:
            return ": its root or execution thread"
        if c.backend_config != d.backend_config:
            return ": its backend_config"
        for i, j in zip(c.instructions, d.instructions, strict=True):
            reason = self._of_instructions(i, j)
            if reason:
                return f", {self.left(i)}: {reason}"
        return None

    def _of_instructions(self, i: Instruction, j: Instruction) -> str | None:
        if self.left(i) != self.right(j):
            return f"name {self.left(i)} and {self.right(j)}"
        for field in _FIELDS:
            if getattr(i, field) != getattr(j, field):
                return f"{field} {getattr(i, field)} and {getattr(j, field)}"
        for field in ("operands", "control_predecessors"):
            left, right = list(map(self.left, getattr(i, field))), list(map(self.right, getattr(j, field)))
            if left != right:
                return f"{field} {left} and {right}"
        a, b = _attributes(i), _attributes(j)
        for name in a.keys() | b.keys():
            if name not in a or name not in b or not self._same(a[name], b[name]):
                return f"{name}={a.get(name)} and {b.get(name)}"
        return None

    def _same(self, a: Any, b: Any) -> bool:
        """As `_same` of values; computations by their names."""
        if isinstance(a, Computation) and isinstance(b, Computation):
            return self.left(a) == self.right(b)
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(self._same(x, y) for x, y in zip(a, b, strict=True))
        return _same(a, b)


def _attributes(i: Instruction) -> dict[str, Any]:
    """The attributes without those that have their default."""
    operation = operations().get(i.opcode)
    defaults = {n: a.default for n, a in operation.attributes.items()} if operation else {}
    return {n: v for n, v in i.attributes.items() if n not in defaults or not _same(v, defaults[n])}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and bool(a == b)
