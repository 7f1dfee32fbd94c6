"""A dot of complex numbers as a dot of real ones, twice as deep and twice as wide.

Real and imaginary parts are adjacent in memory, so a complex row of the left side is a real one of twice the length,
and likewise for the result. The right side then has, for each complex b,

    b.x  b.y        against the real part of a
   -b.y  b.x        against its imaginary part

The terms of a sum are then those of the complex multiply-add, in its order: for the real part a.x * b.x, then
a.y * -b.y.
"""

from __future__ import annotations

from ...analysis.index_expression import Index, constant, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import work_items
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of
from .blocking import LOCAL_ROWS, LOCAL_TERMS
from .contraction_rows import ContractionRows
from .dot_dimensions import DotDimensions
from .packing import direct_access, scratch_argument, to_accumulation
from .product import Product

PARTS = {"c64": "f32", "c128": "f64"}
MAX_TERMS = 1536  # of the real k in a block; even, as is LOCAL_TERMS


def product(fusion: Fusion, target: Target, numbers: DotDimensions) -> Product:
    """The product for a dot with a complex result."""
    rows = ComplexRows(fusion, target, numbers)
    return Product(
        fusion, target, rows.name, numbers.groups, numbers.m, 2 * numbers.n, rows.terms, rows,
        hero_of(fusion).operands[1], numbers.right, lambda g, m, n: (numbers.result(g, m, n), True), (rows.terms,),
        numbers.right_matrix, whole=rows.whole,
    )  # fmt: skip


class ComplexRows(ContractionRows):
    """The Rows of a complex lhs as rows of real numbers: in place if they are contiguous along k, or copied to
    scratch[g][m][2 * k]."""

    step = 1
    local = None

    def __init__(self, fusion: Fusion, target: Target, numbers: DotDimensions) -> None:
        self.whole = type_name(hero_of(fusion))
        super().__init__(fusion, target, numbers, PARTS[self.whole], 2 * numbers.k)
        self.cut(MAX_TERMS if numbers.m > LOCAL_ROWS else LOCAL_TERMS)
        g, m, k = (variable(c, 0, size - 1) for c, size in (("g", numbers.groups), ("m", numbers.m), ("k", numbers.k)))
        access = direct_access(fusion, self.operand, numbers.left(g, m, k), self.whole)
        self.access = access if access is not None and access.position.factor("k") == 1 else None

    def copy(self) -> Argument:
        return scratch_argument(self.fusion, "left", self.name, self.numbers.groups * self.numbers.m * self.terms)

    def stage(self) -> Kernel | None:
        """The kernel that makes the copy, if there is one."""
        if self.access is not None:
            return None
        n = self.numbers
        return self.copy_stage(n.groups * n.m, max(1, work_items.ELEMENTS // self.terms), n.k)

    def emit_copy(self, e: ElementalIrEmitter, block: Block, s: Index, k: Index, to: str) -> None:
        m = self.numbers.m
        value = to_accumulation(e, self.operand, self.numbers.left(s // m, s % m, k), self.whole, block)
        name = e.assign(self.whole, value, block)
        for offset, part in enumerate("xy"):
            block.line(f"{to}[{c_of(s * self.terms + k * 2 + offset)}] = {name}.{part};")

    def position(self, g: Index, m: Index) -> Index:
        n = self.numbers
        if self.access is None:
            return (g * n.m + m) * self.terms + self.first
        at = direct_access(self.fusion, self.operand, n.left(g, m, constant(0)), self.whole)
        assert at is not None  # as `access` is not
        return at.position * 2 + self.first
