"""A contraction as a matrix product, as data that all parts of the product's emitter use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access
from ...analysis.contraction_order import segment_terms
from ...analysis.index_expression import Index, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..kernel_arguments import inputs_of
from .micro_kernel import TermLoop
from .packing import direct_access
from .prepacked_constants import can_prepack
from .tile import Words

Indices = tuple[Index, ...]


class RightSide(Protocol):
    """The right operand of a matrix product: its sizes, and its indices for g, k and n."""

    @property
    def groups(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def right_operand(self) -> Instruction: ...
    @property
    def terms(self) -> Sequence[int]:
        """The sizes that k counts."""

    @property
    def right(self) -> Callable[[Index, Index, Index], Indices]: ...


class ContractionDimensions(Protocol):
    """A contraction as a matrix product: its sizes, and the indices of the operands for g, m, n and k."""

    groups: int
    m: int
    n: int
    k: int
    left_operand: Instruction
    right_operand: Instruction

    @property
    def terms(self) -> Sequence[int]:
        """The sizes that k counts."""

    def left(self, g: Index, m: Index, k: Index) -> Indices: ...
    def right(self, g: Index, k: Index, n: Index) -> Indices: ...

    def left_matrix(self, value: np.ndarray) -> np.ndarray:
        """The value of lhs as [g, m, k]."""


@dataclass(frozen=True)
class OneRun:
    """A block of k in a single run: C pointers to the rows of the tile, and the number of terms."""

    pointers: Sequence[str]
    terms: str


class BlockRuns(Protocol):
    """A function that takes a tile through a block of k in several runs."""

    def text(self) -> str:
        """The C function."""

    def call(self, right: str, fresh: str) -> str:
        """The statement that calls it for the panel at `right`; `fresh` as in WindowLoop.call."""


class LocalCopy(Protocol):
    """How an item copies its rows, block by block, to private memory."""

    def inputs(self) -> list[Instruction]:
        """The inputs that `pack` reads."""

    def pack(self, block: Block, e: ElementalIrEmitter, most: int, terms: str) -> tuple[str, ...]:
        """Copies at most `rows` rows of the current block, from first_row on, to array `strips`. Returns the texts of
        the functions that it calls."""

    def private_elements(self, rows: int) -> int:
        """The elements of `strips` for that many rows."""


class Rows(Protocol):
    """The rows of the left side in memory. Texts are C; `g`, `item` and the row numbers are C variables of type int."""

    step: int  # elements from one term to the next
    blocks: int  # into which k is cut
    most_terms: int  # in a block
    alignment: int  # of blocks, in terms
    least_terms: int  # in a run (at the end of a block there may be fewer)
    element: str  # the C type of the elements

    @property
    def local(self) -> LocalCopy | None:
        """How each item copies its own rows, if it does."""

    def pointer(self) -> Instruction | Argument:
        """The input with the rows, or the argument with their copy. Not for `local` copies."""

    def stage(self) -> Kernel | None:
        """The kernel that fills the scratch memory."""

    def open_block(self, block: Block, number: str) -> tuple[Index, str]:
        """Declares what block `number` of k needs. Returns its first term and its number of terms."""

    def open_tile(self, block: Block, source: str, first: Index, rows: int) -> None:
        """Declares what the rows first, first + 1, ... of pointer `source` need."""

    def runs(self, loop: TermLoop) -> BlockRuns | OneRun:
        """The runs in which `loop` takes a tile through the current block."""


@dataclass(frozen=True)
class Lines:
    """Rows of the left side at a constant distance: from row number `first` on at C pointer `left`, `row` elements
    apart; or in strips, if `strip` is not 0 (see Tiles)."""

    left: str
    row: int
    strip: int = 0
    first: str = "0"


@dataclass(frozen=True)
class Product:
    """A contraction as matrix product, for each of `groups`; `name` is the accumulation type.

    `right(g, k, n)` gives the indices of the right operand, `result(g, m, n)` those of the hero and the C condition
    that the element exists (True: always).
    """

    fusion: Fusion
    target: Target
    name: str
    groups: int
    m: int
    n: int
    k: int
    rows: Rows
    right_operand: Instruction
    right: Callable[[Index, Index, Index], Indices]
    result: Callable[[Index, Index, Index], tuple[Indices, bool | str]]
    terms: Sequence[int]  # the sizes that k counts
    right_matrix: Callable[[np.ndarray], np.ndarray]  # the right operand's value, as [group, k, n]
    shared: int = 1  # so many neighbouring groups share a right side
    whole: str = ""  # the complex type whose parts k and n count (see complex_dot.py), if they do
    lines: Callable[[str], Lines | None] = lambda source: None  # the layout of the block's rows after pointer `source`
    words: Words | None = None  # of several terms (words.py): k counts words,
    elements: int = 0  # with so many elements in all
    row_sizes: Sequence[int] = ()  # the sizes that m counts, where they are known
    symmetric: bool = False  # result[g, m, n] is result[g, n, m]: one of the two is computed
    alike: int = 1  # so many neighbouring rows are alike: tiles of some of them are fastest

    @property
    def right_is_invariant(self) -> bool:
        """Whether the right side is the same at every call, or in every iteration of the enclosing loop, so that its
        panels are packed once."""
        invariant = set(self.fusion.loop_invariant)
        loop_invariant = bool(invariant) and set(inputs_of(self.fusion, [self.right_operand])) <= invariant
        return loop_invariant or self.right_prepacked

    @cached_property
    def right_prepacked(self) -> bool:
        """Whether the right side is a constant, whose panels are part of the plan."""
        terms = self.words.count if self.words else 1
        return not self.whole and can_prepack(self.fusion, self.right_operand, self.name, terms)

    @property
    def segment(self) -> int:
        """The terms of a segment, 0 where a sum is one chain (contraction_order.py); parts of complex terms stay in
        pairs."""
        if self.words:
            return segment_terms(self.elements, self.name) // self.words.count
        return 2 * segment_terms(self.k // 2, self.whole) if self.whole else segment_terms(self.k, self.name)

    @property
    def opens(self) -> bool:
        """Whether blocks of k may begin within a segment."""
        return self.segment > 0 and self.rows.blocks > 1 and self.rows.alignment % self.segment > 0

    def right_access(self) -> Access | None:
        """The Access of the right side as plain loads, in variables g, k and n, or None."""
        if self.whole or self.words:
            return None
        g, k, n = variable("g", 0, self.groups - 1), variable("k", 0, self.k - 1), variable("n", 0, self.n - 1)
        return direct_access(self.fusion, self.right_operand, self.right(g, k, n), self.name)
