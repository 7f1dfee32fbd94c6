"""Products of narrow integers, with several neighbouring terms of k in one word of an accumulator's width.

Processors multiply vectors of such words and add the products within each word: pairs of 16-bit integers (`pmaddwd`),
quads of unsigned by signed bytes (`vpdpbusd`). The product then has words as its terms, a half or a quarter as many,
and its sums have the same bits: integers wrap around, in any order. Terms beyond the last are zeros.

Where both sides are signed bytes, 128 is added to those of the left side, which makes them unsigned; each tile also
computes 128 times the sum of the right side, and subtracts it from its sums (tile.py).
"""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.types import ELEMENT_TYPES

from ...analysis.index_expression import Index, variable
from ...device.description import Target
from ...ir.op_table import MOVEMENT, ROWS
from ...ir.plan import Argument, Fusion, Kernel
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of
from .blocking import LOCAL_ROWS, LOCAL_TERMS
from .contraction_rows import ContractionRows
from .dot_dimensions import DotDimensions
from .packing import scratch_argument, to_accumulation
from .product import Lines, Product
from .tile import Words

NAME = "u32"  # the accumulation type of such products
MAX_TERMS = 1536  # words of k in a block
COPY_ELEMENTS = 65536  # elements that an item of the copy of the left side computes


def words_of(fusion: Fusion, target: Target, name: str) -> Words | None:
    """The words of a dot that is accumulated in `name`; None if it has none."""
    if name != NAME or not target.capabilities.loop_vectorization:
        return None
    left, right = (_narrowest(fusion, o) for o in hero_of(fusion).operands)
    if left is None or right is None:
        return None
    bytes = {"s4": "s8", "s8": "s8", "u4": "u8", "u8": "u8"}
    if target.has_vnni and left in bytes and right in bytes:
        words = Words(4, bytes[left], bytes[right])
        if words != Words(4, "u8", "u8"):
            return words
    return Words(2, "s16", "s16")


def _narrowest(fusion: Fusion, operand: Instruction) -> str | None:
    """The narrowest integer type that represents all values of an operand, seen through conversions and data movement,
    if s16 does, too."""
    narrow = None
    while True:
        name = type_name(operand)
        if name in ("s4", "u4", "s8", "u8", "s16"):
            narrow = name
        wide = ELEMENT_TYPES.get(name)
        if operand in fusion.inputs or wide is None or name[0] not in "su" or wide.bits < 8:
            return narrow
        row = ROWS.get(operand.opcode)
        moves = row is not None and row.op_class == MOVEMENT and len(operand.operands) == 1
        # a conversion from a wider type wraps around: nothing follows from the types after it
        source = operand.operands[0] if operand.opcode == "convert" or moves else None
        if source is None or (narrow is not None and operand.opcode == "convert"):
            return narrow
        operand = source


def product(fusion: Fusion, target: Target, numbers: DotDimensions, words: Words) -> Product:
    """The product of words for a dot."""
    rows = WordRows(fusion, target, numbers, words)
    return Product(
        fusion, target, NAME, numbers.groups, numbers.m, numbers.n, rows.terms, rows,
        hero_of(fusion).operands[1], numbers.right, lambda g, m, n: (numbers.result(g, m, n), True), (rows.terms,),
        lambda value: words.of_matrix(numbers.right_matrix(value)), lines=rows.lines, words=words, elements=numbers.k,
    )  # fmt: skip


class WordRows(ContractionRows):
    """The Rows of a lhs of narrow integers: a copy of them, in the width of a word's terms, as scratch[g][m][k]."""

    step = 1
    local = None
    access = None
    copies_by_pointer = True

    def __init__(self, fusion: Fusion, target: Target, numbers: DotDimensions, words: Words) -> None:
        super().__init__(fusion, target, numbers, NAME, -(-numbers.k // words.count))
        self.words = words
        self.cut(MAX_TERMS if numbers.m > LOCAL_ROWS else LOCAL_TERMS)

    def copy(self) -> Argument:
        return scratch_argument(self.fusion, "left", NAME, self.numbers.groups * self.numbers.m * self.terms)

    def stage(self) -> Kernel:
        """The kernel that makes the copy."""
        return self.copy_stage(self.numbers.groups * self.numbers.m, max(1, COPY_ELEMENTS // self.numbers.k))

    def emit_copy(self, e: ElementalIrEmitter, block: Block, s: Index, k: Index, to: str) -> None:
        n, count = self.numbers, self.words.count
        value = to_accumulation(e, self.operand, n.left(s // n.m, s % n.m, k), NAME, block)
        place = f"((__global {self.words.storage}*){to})[{c_of(s * (self.terms * count) + k)}]"
        block.line(f"{place} = ({self.words.storage})({self.words.offset_left(value)});")

    def end_copy(self, block: Block, s: Index, to: str) -> None:
        """Writes zeros after the last term of a row."""
        count = self.words.count
        for k in range(self.numbers.k, self.terms * count):
            block.line(f"((__global {self.words.storage}*){to})[{c_of(s * (self.terms * count) + k)}] = 0;")

    def position(self, g: Index, m: Index) -> Index:
        return (g * self.numbers.m + m) * self.terms + self.first

    def lines(self, source: str) -> Lines:
        """The layout of the current block's rows after pointer `source`."""
        n = self.numbers
        g, m = variable("g", 0, n.groups - 1), variable("first_row", 0, n.m - 1)
        return Lines(f"{source} + ({c_of(self.position(g, m))})", self.terms)
