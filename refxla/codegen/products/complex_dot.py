"""A dot of complex numbers as a dot of real ones, twice as deep and twice as wide.

Real and imaginary parts lie side by side in memory, so a complex row of the left side is a real one of twice the
length, and a complex row of the result likewise. What they need between them is a right side with, for each complex b,

    b.x  b.y        against the real part of a
   -b.y  b.x        against its imaginary part

The terms of a sum are then those of the complex multiply-add, in its order: for the real part a.x * b.x, then
a.y * -b.y.
"""

from __future__ import annotations

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import type_name
from ..kernel_arguments import input_argument, inputs_of
from .blocking import LOCAL_ROWS, LOCAL_TERMS
from .dot_dimensions import DotDimensions
from .micro_kernel import Loop
from .packing import VECTORS, declare_block, direct_access, scratch_argument, to_accumulation
from .product import Product

PARTS = {"c64": "f32", "c128": "f64"}
MAX_TERMS = 1536  # of the real k in a block; even, as is LOCAL_TERMS
COPY_ELEMENTS = 16384  # real elements that an item of the copy of the left side computes


def product(fusion: Fusion, target: Target, numbers: DotDimensions) -> Product:
    """The product for a dot with a complex result."""
    rows = ComplexRows(fusion, target, numbers)
    return Product(
        fusion, target, rows.part, numbers.groups, numbers.m, 2 * numbers.n, 2 * numbers.k,
        rows, fusion.hero.operands[1], numbers.right, lambda g, m, n: (numbers.result(g, m, n), True), (2 * numbers.k,),
        numbers.right_matrix, whole=rows.whole,
    )  # fmt: skip


class ComplexRows:
    """The Rows of a complex lhs, as rows of real numbers: where they lie along k, or copied to scratch[g][m][2 * k]."""

    step = 1
    local = False

    def __init__(self, fusion: Fusion, target: Target, numbers: DotDimensions) -> None:
        self.fusion, self.target, self.numbers = fusion, target, numbers
        self.whole = type_name(fusion.hero)
        self.part = PARTS[self.whole]
        self.element = VECTORS[self.part][0]
        self.operand = fusion.hero.operands[0]
        self.terms = 2 * numbers.k
        self.most_terms = min(self.terms, MAX_TERMS if numbers.m > LOCAL_ROWS else LOCAL_TERMS)
        self.least_terms = self.most_terms
        self.blocks = -(-self.terms // self.most_terms)
        g, m, k = (variable(c, 0, size - 1) for c, size in (("g", numbers.groups), ("m", numbers.m), ("k", numbers.k)))
        access = direct_access(fusion, target, self.operand, numbers.left(g, m, k), self.whole)
        self.access = access if access is not None and access.position.factor("k") == 1 else None

    def pointer(self) -> Instruction | Argument:
        if self.access is not None:
            return self.access.instruction
        return scratch_argument(self.fusion, "left", self.part, self.numbers.groups * self.numbers.m * self.terms)

    def stage(self) -> Kernel | None:
        if self.access is not None:
            return None
        n = self.numbers
        inputs = inputs_of(self.fusion, [self.operand])
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(inputs)})
        total = n.groups * n.m
        per_item = max(1, COPY_ELEMENTS // self.terms)
        out, block = f"a{len(inputs)}", Block()
        with block.scope(f"for (int s = item * {per_item}; s < {per_item} * (item + 1) && s < {total}; ++s)"):
            with block.scope(f"for (int k = 0; k < {n.k}; ++k)"):
                s, k = variable("s", 0, total - 1), variable("k", 0, n.k - 1)
                value = to_accumulation(e, self.operand, n.left(s // n.m, s % n.m, k), self.whole, block)
                name = e.assign(self.whole, value, block)
                for offset, part in enumerate("xy"):
                    block.line(f"{out}[{s * self.terms + k * 2 + offset}] = {name}.{part};")
        arguments = (*map(input_argument, inputs), self.pointer())
        return Kernel(f"{self.fusion.name}.left", block.text(), arguments, -(-total // per_item))

    def open_block(self, block: Block, number: str) -> tuple[Index, str]:
        if self.blocks == 1:
            self.first = constant(0)
            return self.first, str(self.terms)
        self.first, terms = declare_block(block, number, self.most_terms, self.terms)
        return self.first, terms

    def open_tile(self, block: Block, source: str, first: Index, rows: int) -> None:
        n = self.numbers
        g = variable("g", 0, n.groups - 1)
        cast = f"(__global const {self.element}*)" if self.access is not None else ""
        for i in range(rows):
            row = first + i
            block.line(f"const int m{i} = {row} < {n.m} ? {row} : {n.m - 1};")
            m = variable(f"m{i}", 0, n.m - 1)
            if self.access is not None:
                at = n.left(g, m, constant(0))
                position = direct_access(self.fusion, self.target, self.operand, at, self.whole).position * 2
            else:
                position = (g * n.m + m) * self.terms
            block.line(f"__global const {self.element}* const row{i} = {cast}{source} + ({position + self.first});")

    def window_loop(self, loop: Loop) -> None:
        return None

    def run(self, rows: int) -> tuple[list[str], str]:
        return [f"row{i}" for i in range(rows)], str(self.terms) if self.blocks == 1 else "terms"
