"""Writes C for the rules of single elements: variables, loops, literals, scalar computations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction

from ..analysis import sign_analysis
from ..analysis.element_rules import Rule
from ..analysis.index_expression import Index, constant, variable
from ..analysis.index_maps import SOURCES, Start
from ..analysis.index_values import known_start
from ..ir.plan import Fusion
from . import scalar
from .c_block import Block, Names


def type_name(instruction: Instruction) -> str:
    """The name of the element type of an array instruction."""
    return instruction.shape.element_type.name


class Choice:
    """An element whose value is chosen by branches.

    A complex number is two variables meanwhile: clang vectorizes no loop in which a vector of OpenCL's has one of
    several values.
    """

    def __init__(self, e: ElementBuilder, name: str, block: Block, value: str) -> None:
        self._e, self._name = e, name
        part = scalar.part_type(name)
        self._variables = [(e.names.fresh(), field) for field in (".x", ".y")] if part else [(e.names.fresh(), "")]
        for variable_name, field in self._variables:
            start = f" = {value}{field}" if value else ""
            block.line(f"{scalar.register_type(part or name)} {variable_name}{start};")

    def assign(self, value: str, block: Block) -> None:
        """Emits the assignment of a C variable or literal, in a branch."""
        for variable_name, field in self._variables:
            block.line(f"{variable_name} = {value}{field};")

    def value(self, block: Block) -> str:
        """The C variable that holds the element, after the branches."""
        if len(self._variables) == 1:
            return self._variables[0][0]
        parts = ", ".join(variable_name for variable_name, _ in self._variables)
        return self._e.assign(self._name, f"({scalar.register_type(self._name)})({parts})", block)


class ElementBuilder:
    """C variables for elements of a fusion's members. `starts` has the variables of start indices that the program
    computes."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion, self.members = fusion, frozenset(fusion.instructions)
        self.names = Names()
        self.starts: set[str] = set()

    def assign(self, name: str, expression: str, block: Block, changes: bool = False) -> str:
        """Declares a variable that holds an element of type `name`; returns its name."""
        variable_name = self.names.fresh()
        block.line(f"{'' if changes else 'const '}{scalar.register_type(name)} {variable_name} = {expression};")
        return variable_name

    def choice(self, name: str, block: Block, value: str = "") -> Choice:
        """Declares an element of type `name` that branches assign; `value` is what it has where none of them does."""
        return Choice(self, name, block, value)

    def loop(
        self, size: int, block: Block, prefix: str = "k", unroll: bool = False
    ) -> tuple[Index, AbstractContextManager[None]]:
        """(index, scope) of a loop over 0..size-1; a loop of one iteration is a bare scope.

        `unroll` asks the device's compiler to unroll it, so that the loop around it can be vectorized.
        """
        name = self.names.fresh(prefix)
        head = f"for (int {name} = 0; {name} < {size}; ++{name})" if size != 1 else ""
        if unroll and head:
            block.line("#pragma unroll")
        return variable(name, 0, max(size - 1, 0)), block.scope(head)

    def shift(self, text: str, values: Sequence[int], block: Block) -> Index:
        """Declares a variable with one of several distances, given as C; a load there is not one load for each
        element."""
        name = self.names.fresh("d")
        block.line(f"const int {name} = {text};")
        return variable(name, min(values), max(values))

    def start(self, s: Start, block: Block) -> Rule:
        """The start index, as an Index (use `yield from`)."""
        known = known_start(s)
        if known is not None:
            return known
        value, element_type = (yield s.value, s.indices), type_name(s.value)
        if s.limit <= 0:
            return constant(0)
        key = ("start", value, element_type, s.limit)
        index = block.recall(key)
        if index is None:
            index = self.clamped(value, element_type, s.limit, block)
            self.starts |= index.variables
            block.remember(key, index)
        return index

    def clamped(self, value: str, element_type: str, limit: int, block: Block) -> Index:
        """A C value of that type, clamped to 0..limit, as an index."""
        name = self.names.fresh("s")
        low = "" if element_type.startswith("u") else f"{value} < 0 ? 0 : "
        bound = f"{limit}" if limit < scalar.largest(element_type) else None
        high = f"{value} > {bound} ? {bound} : " if bound else ""
        block.line(f"const int {name} = (int)({low}{high}{value});")
        return variable(name, 0, limit)

    def apply(self, computation: Computation, args: Sequence[str], block: Block) -> tuple[str, ...]:
        """The results of a scalar computation on C variables, one for each of its parameters."""
        values: dict[Instruction, Any] = {}  # a C variable, or a tuple of such values
        for i in computation.instructions:
            operands = [values[o] for o in i.operands]
            if i.opcode == "parameter":
                values[i] = args[i.attributes["number"]]
            elif i.opcode == "constant":
                values[i] = self.literal(type_name(i), i.attributes["literal"], block)
            elif i.opcode == "tuple":
                values[i] = tuple(operands)
            elif i.opcode == "get-tuple-element":
                values[i] = operands[0][i.attributes["index"]]
            elif i.opcode in SOURCES:
                values[i] = operands[0]
            else:
                values[i] = self.scalar(i, operands, block)
        root = values[computation.root]
        return root if isinstance(root, tuple) else (root,)

    def literal(self, name: str, value: Any, block: Block) -> str:
        """The C literal of a value of type `name`, or a variable that holds it."""
        text = scalar.literal(name, np.asarray(value)[()])
        return self.assign(name, text, block) if name in ("c64", "c128") else text

    def scalar(self, i: Instruction, args: Sequence[str], block: Block) -> str:
        """The C variable with the result of an elementwise operation on C variables; an operand itself if it is the
        result."""
        types = [type_name(o) for o in i.operands]
        try:
            opcode = sign_analysis.form(i, self.members)
            text = scalar.expression(opcode, types, type_name(i), args, i.attributes)
        except UnsupportedError as e:
            raise type(e)(f"{i.name}: {e}") from None
        return text if text in args else self.assign(type_name(i), text, block)
