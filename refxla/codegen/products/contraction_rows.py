"""The common part of the rows of a contraction's left side, for real and complex matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access
from ...analysis.index_expression import Index, constant, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import input_argument, inputs_of
from .micro_kernel import TermLoop
from .packing import VECTORS, declare_block
from .product import ContractionDimensions, OneRun


class ContractionRows(ABC):
    """Rows of `terms` numbers of accumulation type `name` each: read in place (`access`), or from a copy."""

    access: Access | None
    copies_by_pointer = False  # whether `emit_copy` takes pointers into its arguments (Kernel.global_only)

    def __init__(self, fusion: Fusion, target: Target, numbers: ContractionDimensions, name: str, terms: int) -> None:
        self.fusion, self.target, self.numbers, self.name, self.terms = fusion, target, numbers, name, terms
        self.operand = numbers.left_operand
        self.element = VECTORS[name][0]
        self.first: Index = constant(0)  # the first term of the current block

    def cut(self, most: int) -> None:
        """Limits the terms of a block. Each begins at a multiple of `alignment`."""
        self.most_terms = self.least_terms = self.alignment = min(self.terms, most)
        self.blocks = max(1, -(-self.terms // self.most_terms))

    # -- the copy ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def copy(self) -> Argument:
        """The argument with the copy."""

    @abstractmethod
    def emit_copy(self, e: ElementalIrEmitter, block: Block, s: Index, k: Index, to: str) -> None:
        """The statements that copy term k of strip or row number `s` of the operand to pointer `to`."""

    def end_copy(self, block: Block, s: Index, to: str) -> None:  # noqa: B027
        """The statements that complete strip or row number `s` of the copy: none by default."""

    def pointer(self) -> Instruction | Argument:
        """The input that has the rows, or the argument that their copy is."""
        return self.copy() if self.access is None else self.access.instruction

    def copy_stage(self, count: int, per_item: int, terms: int) -> Kernel:
        """The kernel that makes the copy of `count` strips or rows of so many terms, of which an item copies
        `per_item`."""
        inputs = inputs_of(self.fusion, [self.operand])
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(inputs)})
        block = Block()
        with block.scope(f"for (int s = item * {per_item}; s < {per_item} * (item + 1) && s < {count}; ++s)"):
            s = variable("s", 0, count - 1)
            with block.scope(f"for (int k = 0; k < {terms}; ++k)"):
                self.emit_copy(e, block, s, variable("k", 0, terms - 1), f"a{len(inputs)}")
            self.end_copy(block, s, f"a{len(inputs)}")
        arguments = (*map(input_argument, inputs), self.copy())
        name, items = f"{self.fusion.name}.left", -(-count // per_item)
        return Kernel(name, block.text(), arguments, items, global_only=self.copies_by_pointer)

    # -- the product ---------------------------------------------------------------------------------------------------

    def open_block(self, block: Block, number: str) -> tuple[Index, str]:
        """Declares block `number` of the terms; returns its first term and, as C, how many it has."""
        if self.blocks == 1:
            self.first = constant(0)
            return self.first, str(self.terms)
        self.first, terms = declare_block(block, number, self.most_terms, self.terms)
        return self.first, terms

    @abstractmethod
    def position(self, g: Index, m: Index) -> Index:
        """The offset of row m's first term in the current block from the pointer, in elements."""

    def open_tile(self, block: Block, source: str, first: Index, rows: int) -> None:
        """Declares pointers to the rows first, first + 1, ...; rows beyond the last are replaced by the last."""
        n = self.numbers
        g = variable("g", 0, n.groups - 1)
        cast = f"(__global const {self.element}*)" if self.access is not None else ""
        for i in range(rows):
            row = first + i
            block.line(f"const int m{i} = {c_of(row)} < {n.m} ? {c_of(row)} : {n.m - 1};")
            position = self.position(g, variable(f"m{i}", 0, n.m - 1))
            block.line(f"__global const {self.element}* const row{i} = {cast}{source} + ({c_of(position)});")

    def runs(self, loop: TermLoop) -> OneRun:
        """The terms of a block, which are one run."""
        return OneRun([f"row{i}" for i in range(loop.tile.rows)], str(self.terms) if self.blocks == 1 else "terms")
