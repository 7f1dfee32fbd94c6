"""Accesses of several elements at once: an item that computes neighbouring elements loads and stores 16 bytes at a
time.

The elements are counted by a variable, in a loop that the device's compiler unrolls. An access whose position grows by
one with that variable, from a multiple of the number of elements on, is one vector: loaded before the loop, or stored
after it. All others stay unchanged, inside the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access, AccessPattern, Store
from ...analysis.index_expression import Index, constant, variable
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of

ACCESS_BYTES = 16  # of the widest load or store of an item


def is_vector(position: Index, element: str, width: int) -> bool:
    """Whether the elements that `element` counts up to `width` are contiguous, starting at a multiple of `width`."""
    if position.factor(element) != 1:
        return False
    others = [c for atom, c in position.terms if atom.operation or atom.name != element]
    return all(c % width == 0 for c in (*others, position.constant))


def size_of(i: Instruction) -> int:
    """The bytes of an element in memory."""
    return -(-i.shape.element_type.bits // 8)


@dataclass(frozen=True)
class VectorAccesses:
    """The loads and stores among those of a pattern that are vectors of `width` elements, counted by `element`."""

    element: str
    width: int
    loads: tuple[Access, ...]
    stores: tuple[Store, ...]

    @staticmethod
    def of(pattern: AccessPattern, element: str, width: int) -> VectorAccesses:
        """Those accesses of a pattern whose indices contain the variable `element`, of up to 16 bytes: devices need not
        align arrays to more."""

        def fits(i: Instruction, position: Index) -> bool:
            return 1 < width <= ACCESS_BYTES // size_of(i) and is_vector(position, element, width)

        loads: dict[tuple[Instruction, tuple[Index, ...]], Access] = {}
        for a in pattern.accesses:
            if not a.conditional and fits(a.instruction, a.position):
                loads[a.instruction, a.indices] = a
        stores = [s for s in pattern.stores if fits(s.instruction, s.position)]
        return VectorAccesses(element, width, tuple(loads.values()), tuple(stores))

    @contextmanager
    def loop(self, e: ElementalIrEmitter, block: Block, pattern: AccessPattern) -> Iterator[Index]:
        """The loop over the elements, with the loads before it and the stores after it; gives the index of one."""
        loads = [(e.adopt(a, pattern, block), e.names.fresh("w")) for a in self.loads]
        stores = [(e.adopt(s, pattern, block), e.names.fresh("o")) for s in self.stores]
        for access, name in loads:
            place = f"{e.input(access.instruction)} + ({c_of(self._first(access.position))})"
            block.line(
                f"const {self._type(access.instruction)} {name} = {self._memory(access.instruction, place, True)};"
            )
        for store, name in stores:
            block.line(f"{self._type(store.instruction)} {name};")
        if self.width > 1:
            block.line("#pragma unroll")
        head = (
            f"for (int {self.element} = 0; {self.element} < {self.width}; ++{self.element})" if self.width > 1 else ""
        )
        with block.scope(head):
            for access, name in loads:
                of = type_name(access.instruction)
                value = e.assign(of, scalar.load(of, self._part(access.instruction, name, True)), block)
                e.bind(access.instruction, access.indices, value)
            for store, name in stores:
                e.gather(store.instruction, self._part(store.instruction, name, False))
            yield variable(self.element, 0, self.width - 1)
        for store, name in stores:
            e.gather(store.instruction, None)
            place = f"{e.output(store.instruction)} + ({c_of(self._first(store.position))})"
            block.line(f"{self._memory(store.instruction, place, False)} = {name};")

    def _first(self, position: Index) -> Index:
        return position.substitute({self.element: constant(0)})

    def _part(self, i: Instruction, name: str, const: bool) -> str:
        """The C lvalue of the current element of a vector."""
        own = scalar.storage_type(type_name(i))
        return f"((__private {'const ' if const else ''}{own}*)&{name})[{self.element}]"

    def _memory(self, i: Instruction, place: str, const: bool) -> str:
        """The C lvalue of the vector at an address."""
        return f"*(__global {'const ' if const else ''}{self._type(i)}*)({place})"

    def _type(self, i: Instruction) -> str:
        return vector_type(type_name(i), self.width)


def vector_type(name: str, width: int) -> str:
    """The C type of so many elements of an HLO type in memory."""
    own = scalar.storage_type(name)
    if own[-1].isdigit():  # complex numbers: vectors of two already
        own, width = own[:-1], 2 * width
    return own if width == 1 else f"{own}{width}"


def most_elements(instructions: Sequence[Instruction]) -> int:
    """The most elements of each of these arrays that an access takes, a power of two."""
    largest = max((size_of(i) for i in instructions), default=ACCESS_BYTES)
    return max(1, ACCESS_BYTES // largest)
