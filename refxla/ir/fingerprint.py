"""A short text that is equal for equal programs: the key of the compilation cache.

It covers everything that affects the compilation: names (kernels are named after instructions), opcodes, shapes,
operands, attributes, and the bits of literals. The origin of an instruction (metadata, stack frames, its place in the
text) is excluded, so moving a line of the user's program does not change the fingerprint.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from refxla_spec.errors import a_type
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import ElementType, Shape


class Source:
    """A program whose Module is made only when requested.

    `fingerprint` is the same text for the same program, or None for one that is not cached on disk; `make` returns the
    module, and may raise what reading a program raises; `size` is the approximate number of its instructions; `note` is
    a value of a frontend's that is stored with its compilation (compiler/serialization.py says which values can be).
    """

    def __init__(
        self, fingerprint: str | None, make: Callable[[], Module], size: int = 0, note: object | None = None
    ) -> None:
        self.fingerprint, self._make, self.size, self.note = fingerprint, make, size, note

    @staticmethod
    def of(module: Module) -> Source:
        """The source for a module in its present state."""
        try:
            key = fingerprint(module)
        except (TypeError, ValueError, AttributeError, KeyError):  # an invalid module: `verify` explains the error
            key = None
        source = Source(key, lambda: module, sum(len(c.instructions) for c in module.computations))
        _ = source.module
        return source

    @cached_property
    def module(self) -> Module:
        """The program."""
        program = self._make()
        del self._make  # and what it refers to
        return program


def fingerprint(module: Module) -> str:
    """Equal for two modules if they are the same program; see the module's docstring.

    Raises TypeError for an attribute whose value has an unknown type.
    """
    writer = _Writer(module)
    writer.module()
    return "module " + writer.digest.hexdigest()


class _Writer:
    """Writes values into a digest so that different values give different texts."""

    def __init__(self, module: Module) -> None:
        self.content = module
        self.digest = hashlib.sha256()
        self.computations = {c: n for n, c in enumerate(module.computations)}
        self.shapes: dict[Shape, str] = {}

    def module(self) -> None:
        m = self.content
        header = (m.name, m.attributes, m.aliases, m.entry_layout, self.computations.get(m.entry))
        self.digest.update(self.text(header).encode())
        for c in m.computations:
            numbers = {i: n for n, i in enumerate(c.instructions)}
            parts = [f"computation {c.name!r} {c.execution_thread!r} {numbers.get(c.root)}"]
            parts += [self.instruction(i, numbers) for i in c.instructions]
            self.digest.update("\n".join([*parts, ""]).encode())

    def instruction(self, i: Instruction, numbers: dict[Instruction, int]) -> str:
        operands = [numbers.get(o) for o in i.operands]
        before = [numbers.get(o) for o in i.control_predecessors]
        notes = (i.sharding, i.frontend_attributes, i.backend_config)
        shape, attributes = self.text(i.shape), self.text(i.attributes)
        return f"{i.name!r} {i.opcode!r} {shape} {operands} {before} {notes!r} {attributes}"

    def text(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        if isinstance(value, float):
            return value.hex()
        if isinstance(value, Shape):
            if value not in self.shapes:
                self.shapes[value] = self.fields(value)
            return self.shapes[value]
        if isinstance(value, (tuple, list)):
            return "(" + ", ".join(map(self.text, value)) + ")"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.text(v)}" for key, v in value.items()) + "}"
        if isinstance(value, Computation):
            return f"c{self.computations[value]}"
        if isinstance(value, ElementType):
            return value.name
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.ascontiguousarray(value)
            if array.dtype.hasobject:
                raise TypeError("an array of objects has no bits")
            return f"{array.dtype.name}{np.shape(value)}{hashlib.sha256(array.tobytes()).hexdigest()}"
        if dataclasses.is_dataclass(value):
            return self.fields(value)
        raise TypeError(f"{a_type(value)} is no value of an attribute")

    def fields(self, value: Any) -> str:
        each = (self.text(getattr(value, f.name)) for f in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(each)})"
