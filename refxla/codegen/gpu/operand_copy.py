"""How a work-group copies a block of a product's operand to local memory, by way of registers.

A block has `lines` rows of the left side, or columns of the right one, by `terms`. In local memory the lines of a term
are contiguous, or the terms of a line. The items load neighbouring elements in memory order, as vectors if possible:
along the terms, or along the lines. Lines beyond the operand's are copies of its last ones, whose results are not
stored; terms beyond its last one are chosen so that they change no sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import Index, constant, variable
from ...analysis.index_maps import Condition
from ...ir.plan import Fusion
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of_conditions, scope_if
from ..products.packing import VECTORS, to_accumulation
from .tiles import PAD
from .vector_access import ACCESS_BYTES, VectorAccesses

WIDTHS = (4, 2)

# The indices of an operand, given those of a line and a term; and the conditions that the element exists.
Element = Callable[[Index, Index], tuple[Index, ...]]
Existence = Callable[[Index, Index], Sequence[Condition]]


def always(line: Index, term: Index) -> Sequence[Condition]:
    """An element that always exists."""
    return ()


@dataclass(frozen=True)
class OperandCopy:
    """The copy of blocks of `operand`, of `size` lines and `k` terms in all, by `group` items.

    `name` is the accumulation type, `padding` the C literal of a term or element that does not exist. `width` elements
    of an item are contiguous, along the terms if `along_terms`, otherwise along the lines. `prefix` is the prefix of
    the names of C variables.
    """

    fusion: Fusion
    operand: Instruction
    element: Element
    name: str
    padding: str
    lines: int
    size: int
    terms: int
    k: int
    group: int
    prefix: str
    exists: Existence = always
    along_terms: bool = False
    width: int = 1
    by_line: bool = False

    def chosen(self) -> OperandCopy:
        """The copy with the widest vectors that the operand allows; without vectors, in memory order."""
        most = ACCESS_BYTES * VECTORS[self.name][1] // 32  # elements of local memory in an access
        options = [(w, along) for w in WIDTHS if w <= most for along in (True, False)]
        for width, along in options:
            if self.has_vectors(along, width):
                return self.reading(along, width)
        pattern = AccessPattern(self.fusion)
        pattern.value(self.operand, self.element(variable("i", 0, self.size - 1), variable("k", 0, self.k - 1)))
        return self.reading(any(a.position.factor("k") == 1 for a in pattern.accesses), 1)

    def reading(self, along_terms: bool, width: int) -> OperandCopy:
        """The copy that reads vectors of that width."""
        return replace(self, along_terms=along_terms, width=width)

    def has_vectors(self, along_terms: bool, width: int) -> bool:
        """Whether all reads of the operand are vectors."""
        block, whole = (self.terms, self.k) if along_terms else (self.lines, self.size)
        if block % width or whole % width:
            return False
        j = variable("j", 0, width - 1)
        if along_terms:
            line, term = variable("i", 0, self.size - 1), variable("q", 0, self.k // width - 1) * width + j
        else:
            line, term = variable("q", 0, self.size // width - 1) * width + j, variable("k", 0, self.k - 1)
        pattern = AccessPattern(self.fusion)
        pattern.value(self.operand, self.element(line, term))
        varying = [a for a in pattern.accesses if a.position.factor("j") != 0]
        if any("j" in c.index.variables for c in self.exists(line, term)):
            return False
        return bool(varying) and len(VectorAccesses.of(pattern, "j", width).loads) == len(varying)

    @property
    def pitch(self) -> int:
        """The elements of local memory from one term to the next, or from one line to the next."""
        return (self.terms if self.by_line else self.lines) + PAD

    @property
    def block_elements(self) -> int:
        """The elements of a block in local memory."""
        return self.pitch * (self.lines if self.by_line else self.terms)

    @property
    def slots(self) -> int:
        """The vectors of an item."""
        return -(-self.lines * self.terms // (self.width * self.group))

    @property
    def _ctype(self) -> str:
        return VECTORS[self.name][0] + (str(self.width) if self.width > 1 else "")

    def block_reads(self, lines: int) -> list[tuple[Index, ...]]:
        """The indices of the elements of so many lines in a block in the middle."""
        first = self.k // self.terms // 2 * self.terms
        terms = range(first, min(first + self.terms, self.k))
        return [self.element(constant(i), constant(k)) for i in range(min(lines, self.size)) for k in terms]

    def declare(self, block: Block) -> None:
        """Declares the registers for an item's part of a block."""
        block.line(f"{self._ctype} {self.prefix}_staged[{self.slots}];")

    def fetch(self, e: ElementalIrEmitter, block: Block, number: str, first_line: str) -> None:
        """Loads an item's part of block `number` (C) of the terms."""
        for slot in range(self.slots):
            self.fetch_slot(e, block, slot, number, first_line)

    def fetch_slot(self, e: ElementalIrEmitter, block: Block, slot: int, number: str, first_line: str) -> None:
        """Loads an item's vector with that number."""
        with block.scope(self._condition(slot)):
            line, term = self._place(e, block, slot)
            self._load(e, block, slot, number, first_line, line, term)

    def _condition(self, slot: int) -> str:
        """The condition under which an item has a vector with that number, as an if, or ""."""
        vectors = self.lines * self.terms // self.width
        return f"if (item < {vectors - slot * self.group})" if (slot + 1) * self.group > vectors else ""

    def _place(self, e: ElementalIrEmitter, block: Block, slot: int) -> tuple[str, str]:
        """Declares the first line and the first term, in the block, of an item's vector."""
        line, term = e.names.fresh("line"), e.names.fresh("term")
        vector = f"(item + {slot * self.group})" if slot else "item"
        per_line = (self.terms if self.along_terms else self.lines) // self.width
        quotient, rest = f"{vector} / {per_line}", f"{vector} % {per_line} * {self.width}"
        if per_line == self.group:
            quotient, rest = str(slot), f"item * {self.width}"
        of_line, of_term = (quotient, rest) if self.along_terms else (rest, quotient)
        block.line(f"const int {line} = {of_line}, {term} = {of_term};")
        return line, term

    def _load(
        self, e: ElementalIrEmitter, block: Block, slot: int, number: str, first_line: str, line: str, term: str
    ) -> None:
        i, k, j = e.names.fresh("i"), e.names.fresh("k"), e.names.fresh("j")
        step = 1 if self.along_terms else self.width
        at_line = f"{first_line} + {line}"
        if self.size % self.lines:
            last = self.size - step
            at_line = f"{at_line} < {last} ? {at_line} : {last}"
        block.line(f"const int {i} = {at_line};")
        block.line(f"const int {k} = {number} * {self.terms} + {term};")
        staged = f"{self.prefix}_staged[{slot}]"
        whole = self.k % self.terms == 0
        with ExitStack() as scopes:
            if not whole:
                scopes.enter_context(block.scope(f"if ({k} < {self.k})"))
            element = variable(j, 0, self.width - 1)
            # The first element of a vector is a multiple of its width, as the index must show.
            along = (k, self.k) if self.along_terms else (i, self.size)
            base = variable(along[0], 0, along[1] - 1)
            if self.width > 1:
                quad = e.names.fresh("q")
                block.line(f"const int {quad} = {along[0]} / {self.width};")
                base = variable(quad, 0, along[1] // self.width - 1) * self.width + element
            other = variable(i, 0, self.size - 1) if self.along_terms else variable(k, 0, self.k - 1)
            at = (other, base) if self.along_terms else (base, other)
            indices, conditions = self.element(*at), self.exists(*at)
            if c_of_conditions(conditions) is not True:
                block.line(f"{staged} = {self.padding};")
            scopes.enter_context(scope_if(block, conditions, own=False))
            pattern = AccessPattern(self.fusion)
            pattern.value(self.operand, indices)
            with VectorAccesses.of(pattern, j, self.width).loop(e, block, pattern):
                value = to_accumulation(e, self.operand, indices, self.name, block)
                place = staged if self.width == 1 else f"((__private {VECTORS[self.name][0]}*)&{staged})[{j}]"
                block.line(f"{place} = {value};")
        if not whole:
            block.line(f"else {staged} = {self.padding};")

    def store(self, e: ElementalIrEmitter, block: Block, local: str) -> None:
        """Writes an item's part of a block to local memory, from the C pointer `local` on."""
        for slot in range(self.slots):
            with block.scope(self._condition(slot)):
                line, term = self._place(e, block, slot)
                outer, inner = (line, term) if self.by_line else (term, line)
                staged, at = f"{self.prefix}_staged[{slot}]", f"{local} + {outer} * {self.pitch} + {inner}"
                if self.width == 1:
                    block.line(f"*({at}) = {staged};")
                elif self.along_terms != self.by_line:
                    for j in range(self.width):
                        block.line(f"({at})[{j * self.pitch}] = {staged}.s{j};")
                else:
                    block.line(f"*(__local {self._ctype}*)({at}) = {staged};")
