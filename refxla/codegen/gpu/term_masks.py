"""Masks of terms without an element of a product's left side: those in the border around a convolution's input.

They are left out of the sum, not added as zeros: zero times an infinite weight is NaN. So a block of the left side has
masks in local memory: one for each row if either all or no terms of a block have an element, otherwise one for each row
and term. If all rows of an item are present, as is usual, it multiplies without testing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.index_expression import variable
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of_conditions
from .operand_copy import OperandCopy


@dataclass(frozen=True)
class TermMasks:
    """The masks of the blocks that `copy` copies; `terms` of them for each row: 1, or those of a block."""

    copy: OperandCopy
    terms: int

    @staticmethod
    def of(copy: OperandCopy) -> TermMasks | None:
        """The masks of an operand of which some elements do not exist."""
        line, number = variable("i", 0, copy.size - 1), variable("t", 0, max(copy.k // copy.terms, 1) - 1)
        term = number * copy.terms + variable("j", 0, copy.terms - 1)
        conditions = copy.exists(line, term)
        if c_of_conditions(conditions) is True:
            return None
        alike = copy.k % copy.terms == 0 and not any("j" in c.index.variables for c in conditions)
        return TermMasks(copy, 1 if alike else copy.terms)

    @property
    def bytes(self) -> int:
        """The bytes of a block's masks in local memory."""
        return self.copy.lines * self.terms

    def store(self, e: ElementalIrEmitter, block: Block, number: str, first_line: str, local: str) -> None:
        """Writes an item's part of the masks of block `number` (C), from the C pointer `local` on."""
        copy = self.copy
        n, i, k = e.names.fresh("n"), e.names.fresh("i"), e.names.fresh("k")
        head = f"for (int {n} = item; {n} < {self.bytes}; {n} += {copy.group})"
        if self.bytes <= copy.group:
            block.line(f"const int {n} = item;")
            head = f"if ({n} < {self.bytes})" if self.bytes < copy.group else ""
        with block.scope(head):
            at_line = f"{first_line} + {n} % {copy.lines}"
            if copy.size % copy.lines:
                at_line = f"{at_line} < {copy.size - 1} ? {at_line} : {copy.size - 1}"
            block.line(f"const int {i} = {at_line};")
            inside = f" + {n} / {copy.lines}" if self.terms > 1 else ""
            block.line(f"const int {k} = {number} * {copy.terms}{inside};")
            exists = c_of_conditions(copy.exists(variable(i, 0, copy.size - 1), variable(k, 0, copy.k - 1)))
            beyond = f"{k} < {copy.k} && " if copy.k % copy.terms else ""
            block.line(f"({local})[{n}] = {beyond}({'1' if exists is True else exists or '0'});")
