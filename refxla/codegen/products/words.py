"""Products of narrow types, with several neighbouring terms of k in one word of an accumulator's width.

Processors multiply vectors of such words and add the products within each word: pairs of 16-bit integers (`pmaddwd`),
quads of unsigned by signed bytes (`vpdpbusd`). The product then has words as its terms, a half or a quarter as many,
and its sums have the same bits: integers wrap around, in any order. Terms beyond the last are zeros.

Where both sides are signed bytes, 128 is added to those of the left side, which makes them unsigned; each tile also
computes 128 times the sum of the right side, and subtracts it from its sums (tile.py).

Pairs of bf16 (`vdpbf16ps`) add the products of the upper halves to the f32 sum, then those of the lower ones, and round
both times: with the first term in the upper half, these are the sums of the contraction's order, but for subnormal
numbers, which the instruction takes for zeros. There are none if the operands have none and all nonzero products are
multiples of the least normal number, since sums then are multiples of it, too. So each item finds the least exponents
of its part of both sides (LeastExponent), and multiplies the halves one by one where they are too small.
"""

from __future__ import annotations

from dataclasses import dataclass

from refxla_spec.module import Instruction
from refxla_spec.types import ELEMENT_TYPES

from ...analysis.contraction_order import segment_terms
from ...analysis.index_expression import Index, constant, variable
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
from .packing import scratch_argument, source_access, to_accumulation
from .product import Lines, Product
from .tile import Words

MAX_TERMS = 1536  # words of k in a block
COPY_ELEMENTS = 65536  # elements that an item of the copy of the left side computes
STRIP = 8  # rows of the copy that are adjacent, where they are in memory
LEAST_FLOATS = 16  # rows and columns of a product of floats: a copy of either side pays from there on,
LEAST_PAIRS = 32  # and terms: the tiles of a panel are then one function


def words_of(fusion: Fusion, target: Target, numbers: DotDimensions, name: str) -> Words | None:
    """The words of a dot that is accumulated in `name`; None if it has none."""
    if not target.capabilities.loop_vectorization:
        return None
    if name == "f32":
        large = min(numbers.m, numbers.n) >= LEAST_FLOATS and numbers.k >= 2 * LEAST_PAIRS and numbers.k % 2 == 0
        pairs = large and target.has_bf16_pairs and all(_is_bf16(fusion, o) for o in hero_of(fusion).operands)
        return Words(2, "bf16", "bf16") if pairs else None
    if name != "u32":
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


def _is_bf16(fusion: Fusion, operand: Instruction) -> bool:
    """Whether an operand has the values of a bf16, seen through conversions and data movement."""
    while type_name(operand) != "bf16":
        source = _source(fusion, operand)
        if source is None or type_name(operand) != "f32":
            return False
        operand = source
    return True


def _source(fusion: Fusion, operand: Instruction) -> Instruction | None:
    """What an operand in a fusion converts or moves; None if it is anything else."""
    row = ROWS.get(operand.opcode)
    moves = row is not None and row.op_class == MOVEMENT and len(operand.operands) == 1
    return operand.operands[0] if operand not in fusion.inputs and (operand.opcode == "convert" or moves) else None


def _narrowest(fusion: Fusion, operand: Instruction) -> str | None:
    """The narrowest integer type that represents all values of an operand, seen through conversions and data movement,
    if s16 does, too."""
    narrow = None
    while True:
        name = type_name(operand)
        if name in ("s4", "u4", "s8", "u8", "s16"):
            narrow = name
        wide = ELEMENT_TYPES.get(name)
        if wide is None or name[0] not in "su" or wide.bits < 8:
            return narrow
        # a conversion from a wider type wraps around: nothing follows from the types after it
        source = _source(fusion, operand)
        if source is None or (narrow is not None and operand.opcode == "convert"):
            return narrow
        operand = source


def product(fusion: Fusion, target: Target, numbers: DotDimensions, words: Words, symmetric: bool) -> Product:
    """The product of words for a dot, `symmetric` if its result is."""
    rows = WordRows(fusion, target, numbers, words)
    return Product(
        fusion, target, words.name, numbers.groups, numbers.m, numbers.n, rows.terms, rows,
        hero_of(fusion).operands[1], numbers.right, lambda g, m, n: (numbers.result(g, m, n), True), (rows.terms,),
        lambda value: words.of_matrix(numbers.right_matrix(value)), lines=rows.lines, words=words, elements=numbers.k,
        symmetric=symmetric,
    )  # fmt: skip


class WordRows(ContractionRows):
    """The Rows of a lhs of a narrow type: a copy of its words, as scratch[g][m][word] or, if lhs is contiguous along m,
    [g][m / 8][word][m % 8]."""

    local = None
    access = None
    copies_by_pointer = True

    def __init__(self, fusion: Fusion, target: Target, numbers: DotDimensions, words: Words) -> None:
        super().__init__(fusion, target, numbers, words.name, -(-numbers.k // words.count))
        self.words = words
        g, m, k = (variable(c, 0, n - 1) for c, n in (("g", numbers.groups), ("m", numbers.m), ("k", numbers.k)))
        source = source_access(fusion, self.operand, numbers.left(g, m, k))
        along_m = source is not None and source.position.factor("m") == 1
        # Terms are stored one by one where they need no others: words are in memory as bytes are.
        self.whole_words = numbers.k % words.count == 0 and (along_m or words.is_float)
        self.strip = self.step = STRIP if self.whole_words and along_m else 1
        self.strips = -(-numbers.m // self.strip)
        # A block of floats has whole segments: a sum that it begins with is zero.
        segment = segment_terms(numbers.k, words.name) // words.count
        self.cut(max(segment, MAX_TERMS if numbers.m > LOCAL_ROWS else LOCAL_TERMS))

    def copy(self) -> Argument:
        elements = self.numbers.groups * self.strips * self.strip * self.terms
        return scratch_argument(self.fusion, "left", self.name, elements)

    def stage(self) -> Kernel:
        """The kernel that makes the copy."""
        n = self.numbers
        per_item = max(1, COPY_ELEMENTS // (n.k * self.strip))
        return self.copy_stage(n.groups * self.strips, per_item, self.terms if self.whole_words else n.k)

    def emit_copy(self, e: ElementalIrEmitter, block: Block, s: Index, k: Index, to: str) -> None:
        n, words, strip = self.numbers, self.words, self.strip
        if not self.whole_words:
            value = to_accumulation(e, self.operand, n.left(s // n.m, s % n.m, k), self.name, block)
            place = f"((__global {words.storage}*){to})[{c_of(s * (self.terms * words.count) + k)}]"
            block.line(f"{place} = ({words.storage})({words.offset_left(value)});")
            return
        u = variable("u", 0, strip - 1) if strip > 1 else constant(0)
        with block.scope(f"for (int u = 0; u < {strip}; ++u)" if strip > 1 else ""):
            row = s % self.strips * strip + u
            if row.high >= n.m:  # the last strip repeats the last row
                block.line(f"const int m = {c_of(row)} < {n.m} ? {c_of(row)} : {n.m - 1};")
                row = variable("m", 0, n.m - 1)
            terms = []
            for number in range(words.count):
                at = n.left(s // self.strips, row, k * words.count + number)
                value = to_accumulation(e, self.operand, at, self.name, block)
                terms.append(f"({words.term(words.offset_left(value), number)})")
            block.line(f"{to}[{c_of((s * self.terms + k) * strip + u)}] = {words.word(terms)};")

    def end_copy(self, block: Block, s: Index, to: str) -> None:
        """Writes zeros after the last term of a row."""
        count = self.words.count
        for k in range(self.numbers.k, self.terms * count):
            block.line(f"((__global {self.words.storage}*){to})[{c_of(s * (self.terms * count) + k)}] = 0;")

    def position(self, g: Index, m: Index) -> Index:
        return ((g * self.strips + m // self.strip) * self.terms + self.first) * self.strip + m % self.strip

    def lines(self, source: str) -> Lines:
        """The layout of the current block's rows after pointer `source`."""
        n, strip = self.numbers, self.strip
        g, m = variable("g", 0, n.groups - 1), variable("first_row", 0, n.m - 1)
        if strip == 1:
            return Lines(f"{source} + ({c_of(self.position(g, m))})", self.terms)
        begin = (g * self.strips * self.terms + self.first) * strip
        return Lines(f"{source} + ({c_of(begin)})", self.terms * strip, strip, "first_row")


@dataclass(frozen=True)
class LeastExponent:
    """A function that finds the least exponent of the nonzero floats in words: of `rows` rows in memory, `apart`
    words from each other, with `count` words each. `space` is the address space of the words ("__global " or "")."""

    space: str

    @property
    def function(self) -> str:
        return f"least_exponent_bf16_{'g' if self.space else 'p'}"

    def call(self, block: Block, name: str, words: str, rows: str, apart: int, count: str) -> None:
        """Declares C variable `name`, the exponent as it is stored: 0 for subnormal numbers, 512 if all are zero."""
        block.line(f"uint {name};")
        block.line(f"{self.function}({words}, {rows}, {apart}, {count}, &{name});")

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block = Block()
        parameters = f"{self.space}const float* const words, const int rows, const long apart, const int count"
        with block.scope(f"void {self.function}({parameters}, uint* const exponent)"):
            block.line("ushort least = 0xffff;")
            with block.scope("for (int i = 0; i < rows; ++i)"):
                block.line(f"{self.space}const ushort* const x = ({self.space}const ushort*)(words + i * apart);")
                with block.scope("for (int n = 0; n < 2 * count; ++n)"):
                    block.line("const ushort before = (ushort)((x[n] & 0x7fff) - 1);  // a zero is above all others")
                    block.line("least = before < least ? before : least;")
            block.line("*exponent = (least + 1u) >> 7;")
        return block.text()


def is_exact(left: str, right: str) -> str:
    """The C condition that the processor adds the products of floats with these least exponents, C expressions, as if
    it had subnormal numbers: each is a multiple of 2^(left + right - 2 * 127 - 2 * 7), which is to be 2^-126."""
    return f"{left} && {right} && {left} + {right} >= {2 * (127 + 7) - 126}"
