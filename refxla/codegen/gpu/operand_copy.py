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
from functools import partial
from itertools import groupby

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import Index, constant, variable
from ...analysis.index_maps import Condition
from ...ir.plan import Fusion
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of, c_of_conditions, scope_if
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
    the names of C variables. A block consists of runs of `run` terms, which divides their number and `k`: those of an
    element of a window, for instance.
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
    run: int = 1

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
            if self.run % width:
                return False
            run = variable("run", 0, self.k // self.run - 1) * self.run
            line, term = variable("i", 0, self.size - 1), run + variable("q", 0, self.run // width - 1) * width + j
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
        """Declares the registers for an item's part of a block. Those of elements that do not exist keep the values of
        an earlier block, since masks leave them out of the sums; at first they have none."""
        at = variable("i", 0, self.size - 1), variable("k", 0, self.k - 1)
        first = [] if c_of_conditions(self.exists(*at)) is True else [self.padding] * self.slots
        values = f" = {{{', '.join(first)}}}" if first else ""
        block.line(f"{self._ctype} {self.prefix}_staged[{self.slots}]{values};")

    def fetch(self, e: ElementalIrEmitter, block: Block, number: Index, tile: Index) -> None:
        """Loads an item's part of block `number` of the terms, for the lines of a tile. Consecutive vectors that exist
        under the same conditions are loaded together."""
        for alike, slots in groupby(range(self.slots), partial(self._existence, number, tile)):
            with scope_if(block, alike, own=False):
                for slot in slots:
                    self.fetch_slot(e, block, slot, number, tile, bool(alike))

    def _existence(self, number: Index, tile: Index, slot: int) -> Sequence[Condition]:
        """The conditions under which a vector exists; () if they depend on values that its load computes."""
        line, term = self._place(slot)
        if self.size % self.lines or self.k % self.terms:
            return ()
        return self.exists(tile * self.lines + line, number * self.terms + term)

    def fetch_slot(
        self, e: ElementalIrEmitter, block: Block, slot: int, number: Index, tile: Index, exists: bool = False
    ) -> None:
        """Loads an item's vector with that number; `exists`: the conditions have been tested."""
        line, term = self._place(slot)
        with block.scope(self._condition(slot)):
            self._load(e, block, slot, tile * self.lines + line, number, term, exists)

    def _condition(self, slot: int) -> str:
        """The condition under which an item has a vector with that number, as an if, or ""."""
        vectors = self.lines * self.terms // self.width
        return f"if (item < {vectors - slot * self.group})" if (slot + 1) * self.group > vectors else ""

    def _place(self, slot: int) -> tuple[Index, Index]:
        """The first line and the first term, in the block, of an item's vector."""
        per_line = (self.terms if self.along_terms else self.lines) // self.width
        vector = variable("item", 0, self.group - 1) + slot * self.group
        quotient, rest = vector // per_line, vector % per_line * self.width
        return (quotient, rest) if self.along_terms else (rest, quotient)

    def _load(
        self, e: ElementalIrEmitter, block: Block, slot: int, line: Index, number: Index, term: Index, exists: bool
    ) -> None:
        """Loads a vector from `line` on, which begins with that term of block `number`."""
        j = e.names.fresh("j")
        if self.size % self.lines:
            line = self._clamped(e, block, line)
        staged = f"{self.prefix}_staged[{slot}]"
        whole = self.k % self.terms == 0
        with ExitStack() as scopes:
            if whole:
                term = number * self.terms + term
            else:
                run = e.names.fresh("run")
                block.line(f"const int {run} = {c_of(number * (self.terms // self.run) + term // self.run)};")
                scopes.enter_context(block.scope(f"if ({run} < {self.k // self.run})"))
                term = variable(run, 0, self.k // self.run - 1) * self.run + term % self.run
            element = variable(j, 0, self.width - 1)
            at = (line, term + element) if self.along_terms else (line + element, term)
            indices = self.element(*at)
            scopes.enter_context(scope_if(block, () if exists else self.exists(*at), own=False))
            pattern = AccessPattern(self.fusion)
            pattern.value(self.operand, indices)
            with VectorAccesses.of(pattern, j, self.width).loop(e, block, pattern):
                value = to_accumulation(e, self.operand, indices, self.name, block)
                place = staged if self.width == 1 else f"((__private {VECTORS[self.name][0]}*)&{staged})[{j}]"
                block.line(f"{place} = {value};")
        if not whole:
            block.line(f"else {staged} = {self.padding};")

    def _clamped(self, e: ElementalIrEmitter, block: Block, line: Index) -> Index:
        """The first line of a vector, or the last one that the operand has. It is a multiple of the vector's width, as
        the index must show."""
        step = 1 if self.along_terms else self.width
        first = e.names.fresh("i")
        text, last = c_of(line // step), self.size // step - 1
        block.line(f"const int {first} = {text} < {last} ? {text} : {last};")
        return variable(first, 0, last) * step

    def store(self, e: ElementalIrEmitter, block: Block, local: str) -> None:
        """Writes an item's part of a block to local memory, from the C pointer `local` on."""
        for slot in range(self.slots):
            line, term = self._place(slot)
            outer, inner = (line, term) if self.by_line else (term, line)
            staged, at = f"{self.prefix}_staged[{slot}]", f"{local} + {c_of(outer * self.pitch + inner)}"
            with block.scope(self._condition(slot)):
                if self.width == 1:
                    block.line(f"*({at}) = {staged};")
                elif self.along_terms != self.by_line:
                    for j in range(self.width):
                        block.line(f"({at})[{j * self.pitch}] = {staged}.s{j};")
                else:
                    block.line(f"*(__local {self._ctype}*)({at}) = {staged};")
