"""The tile of a matrix product: the part of the result in vector registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..c_block import Block
from .packing import VECTORS, vector_type

OFFSET = 0x80  # added to signed bytes to make them unsigned


@dataclass(frozen=True)
class Words:
    """Words of an accumulator's width, each with `count` neighbouring terms of types `left` and `right` (see
    words.py). Pairs of floats are multiplied by an instruction that has no subnormal numbers or, if they are
    `unpacked`, one after the other."""

    count: int
    left: str
    right: str
    unpacked: bool = False

    @property
    def name(self) -> str:
        """The accumulation type."""
        return "f32" if self.is_float else "u32"

    @property
    def is_float(self) -> bool:
        return self.left == "bf16"

    @property
    def label(self) -> str:
        """A part of function names that identifies such words."""
        if self.is_float:
            return "bf16_halves" if self.unpacked else "bf16_pairs"
        return "pairs" if self.count == 2 else f"quads_{self.left}_{self.right}"

    @property
    def storage(self) -> str:
        """The C type of stored terms."""
        return "ushort" if self.count == 2 else "uchar"

    @property
    def bits(self) -> int:
        return 32 // self.count

    @property
    def is_offset(self) -> bool:
        """Whether terms of the left side have an offset."""
        return self.count == 4 and self.left == self.right == "s8"

    def offset_left(self, value: str) -> str:
        """The C expression of a term of the left side, as words have it, in its low bits."""
        return f"(({value}) ^ {OFFSET})" if self.is_offset else value

    def term(self, value: str, number: int) -> str:
        """The C expression of the uint that is a word with term `number`, given as an accumulator, and zeros elsewhere.
        Of floats, the first term is in the upper half, which the processor adds first."""
        if self.is_float:
            return f"as_uint({value}) >> 16" if number else f"(as_uint({value}) & 0xffff0000u)"
        mask = f"({value} & {(1 << self.bits) - 1}u)"
        return f"{mask} << {number * self.bits}" if number else mask

    def word(self, terms: Sequence[str]) -> str:
        """The C expression of a word as an accumulator's type: of its `term`s."""
        bits = " | ".join(terms)
        return f"as_float({bits})" if self.is_float else bits

    def multiply_add(self, a: str, b: str, total: str, width: str) -> str:
        """The C expression of total + a * b, vectors all: "vector" or "wide" says of which width."""
        name = {"vector": "wide_half", "wide": "wide"}[width]  # both are only for processors with wide vectors
        if self.is_float:
            return f"rx_multiply_{'halves' if self.unpacked else 'pairs'}_{name}_f32({a}, {b}, {total})"
        if self.count == 2:
            return f"rx_multiply_pairs_{width}_u32({a}, {b}, {total})"
        unsigned, signed = (b, a) if (self.left, self.right) == ("s8", "u8") else (a, b)
        return f"rx_multiply_quads_{name}_u32({unsigned}, {signed}, {total})"

    def of_matrix(self, matrix: np.ndarray) -> np.ndarray:
        """[group, word, n] of a right side's accumulators, [group, k, n]."""
        groups, k, n = matrix.shape
        if self.is_float:
            bits = matrix.view(np.uint32)
            pairs: np.ndarray = bits[:, ::2] & np.uint32(0xFFFF0000) | bits[:, 1::2] >> np.uint32(16)
            return pairs.view(np.float32)
        whole = np.zeros((groups, -(-k // self.count), self.count, n), np.uint32)
        whole.reshape(groups, -1, n)[:, :k] = matrix & np.uint32((1 << self.bits) - 1)
        shifts = np.arange(self.count, dtype=np.uint32)[:, None] * np.uint32(self.bits)
        words: np.ndarray = (whole << shifts).sum(axis=2, dtype=np.uint32)
        return words


@dataclass(frozen=True)
class Tile:
    """The part of the result in registers: `rows` times `vectors` vectors of accumulation type `name`, of `bytes` each:
    32, or 64 where the target has them."""

    rows: int
    vectors: int
    name: str
    bytes: int = 32
    words: Words | None = None

    @property
    def label(self) -> str:
        """A part of function names that identifies the tile, apart from its sizes."""
        return self.words.label if self.words else self.name

    @property
    def lanes(self) -> int:
        return VECTORS[self.name][1] * self.bytes // 32

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def vector(self) -> str:
        return vector_type(self.name, self.bytes)

    def multiply_add(self, a: str, b: str, total: str) -> str:
        """The C expression of total + a * b, vectors all."""
        width = "wide" if self.bytes == 64 else "vector"
        if self.words:
            return self.words.multiply_add(a, b, total, width)
        return f"rx_multiply_add_{width}_{self.name}({a}, {b}, {total})"

    def open_offsets(self, block: Block, right: str, terms: str) -> None:
        """Declares what the offset of the left side, if there is one, adds to the sums of each vector over `terms`
        terms; `right` is the C lvalue of vector {v} of the right side at term k."""
        if self.words is None or not self.words.is_offset:
            return
        for v in range(self.vectors):
            block.line(f"{self.vector} offset{v} = ({self.vector})(0);")
        with block.scope(f"for (int k = 0; k < {terms}; ++k)"):
            for v in range(self.vectors):
                ones = f"({self.vector})({OFFSET * 0x01010101:#x}u)"
                block.line(f"offset{v} = {self.multiply_add(ones, right.format(v=v), f'offset{v}')};")

    def start(self, c: str, value: str) -> str:
        """The statement that declares the sum c{row}_{vector}, which starts at `value` minus what offsets add."""
        if self.words is None or not self.words.is_offset:
            return f"{self.vector} {c} = {value};"
        return f"{self.vector} {c} = ({value}) - offset{c.split('_')[1]};"

    def places(self, sums: str, first: str = "") -> dict[str, str]:
        """The C variable of each sum, row by row, and its place in an array of sums, from number `first` on."""
        numbers = ((i, v, i * self.vectors + v) for i in range(self.rows) for v in range(self.vectors))
        return {f"c{i}_{v}": f"{sums}[{first and f'{first} + '}{n}]" for i, v, n in numbers}
