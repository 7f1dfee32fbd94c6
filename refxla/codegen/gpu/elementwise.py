"""The kernel of kind "loop" for GPUs: each element of the outputs by itself, with coalesced accesses.

An item computes a few elements. If all accesses allow it, these are neighbours, loaded and stored 16 bytes at a time
(vector_access.py); otherwise they are a work-group apart, so that the items of a sub-group access neighbouring
elements. Where a read runs across memory, a work-group goes through a tile in local memory (tiled_transpose.py). Each
segment of a concatenate has work-groups of its own, and tiled ones a kernel of their own: no barrier is under a
condition.

One element is computed by one item, without a work-group: a loop over such kernels keeps its values in registers.

Kind "update" is a dynamic-update-slice in place: the items are distributed over the update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...analysis.index_expression import Index, constant, delinearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..kernel_arguments import input_argument
from ..loops.index_space import Body, IndexSpace, Outputs, Segment, segments, update_of
from .fusion_parts import parts
from .tiled_transpose import TiledTranspose
from .vector_access import VectorAccesses, most_elements
from .work_groups import LocalMemory, group_size

GROUPS_PER_UNIT = 8  # work-groups that keep a compute unit busy: with more, an item computes several elements
APART = 4  # elements of an item that are a work-group apart, at most


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a fusion whose outputs all have equally many elements, or several, if it has very many arrays."""
    kernels: tuple[Kernel, ...] = ()
    for part in parts(fusion):
        body = Outputs(part)
        kernels += _kernels(part, target, segments(part, body.dimensions), body)
    return kernels


def emit_update(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a dynamic-update-slice that writes only its update; the operand's value is there already.

    If the update itself reads the operand, items could see each other's writes; then every element is written.
    """
    pair = update_of(fusion)
    return emit(fusion, target) if pair is None else _kernels(fusion, target, [pair[1]], pair[0])


class KernelPart(Protocol):
    """How work-groups compute a segment."""

    @property
    def space(self) -> IndexSpace:
        """The segment."""

    @property
    def groups(self) -> int:
        """The number of work-groups."""

    def emit(self, e: ElementalIrEmitter, block: Block, local: LocalMemory, group: str) -> None:
        """The statements of an item of the work-group whose number in the segment is `group` (C)."""


def _kernels(fusion: Fusion, target: Target, boxes: Sequence[Segment], body: Body) -> tuple[Kernel, ...]:
    parts = [_part(IndexSpace(fusion, s, body), target) for s in boxes if s.size]
    tiled = [[p] for p in parts if isinstance(p, TiledTranspose)]
    others = [p for p in parts if not isinstance(p, TiledTranspose)]
    groups = tiled + [others] if others or not tiled else tiled
    names = [f"{fusion.name}.{n}" for n in range(len(groups) - 1)] + [fusion.name]
    return tuple(_kernel(fusion, target, name, own, body) for name, own in zip(names, groups, strict=True))


def _kernel(fusion: Fusion, target: Target, name: str, parts: Sequence[KernelPart], body: Body) -> Kernel:
    reads = {access.instruction for p in parts for access in p.space.accesses}
    inputs = [i for i in fusion.inputs if i in reads]
    e = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate((*inputs, *fusion.outputs))})
    block, local, first = Block(), LocalMemory(), 0
    for n, part in enumerate(parts):
        if _is_single(parts):
            part.space.emit_body(e, block, [constant(0)] * max(1, len(part.space.sizes)))
        elif len(parts) == 1:
            part.emit(e, block, local, "group")
        else:
            with block.scope(f"{'else ' if n else ''}if (group < {first + part.groups})"):
                part.emit(e, block, local, f"(group - {first})")
        first += part.groups
    arguments = [input_argument(i) for i in inputs]
    arguments += [
        Argument("output", scalar.storage_type(type_name(o)), o, updates=body.updates.get(o)) for o in fusion.outputs
    ]
    if _is_single(parts):
        return Kernel(name, block.text(), tuple(arguments), 1)
    size = group_size(target)
    return Kernel(name, block.text(), tuple(arguments), first * size, work_group=size, local_bytes=local.bytes)


def _is_single(parts: Sequence[KernelPart]) -> bool:
    """Whether there is one element, which one item computes."""
    return len(parts) == 1 and parts[0].space.segment.size == 1


def _part(space: IndexSpace, target: Target) -> KernelPart:
    return TiledTranspose.choose(space, target) or _Elements.choose(space, target)


@dataclass(frozen=True)
class _Elements:
    """An item computes `count` elements: neighbours if they are `vectors`, else `group` elements apart."""

    space: IndexSpace
    group: int
    count: int
    vectors: bool

    @staticmethod
    def choose(space: IndexSpace, target: Target) -> _Elements:
        """As many elements as an access has, if enough work-groups are left and all accesses can be vectors."""
        group, size = group_size(target), space.segment.size
        arrays = [*(a.instruction for a in space.accesses), *(s.instruction for s in space.whole_pattern.stores)]
        count = 1 if space.iterations > 1 else min(most_elements(arrays), APART * 4)
        while count > 1 and size < count * group * GROUPS_PER_UNIT * target.compute_units:
            count //= 2
        if count == 1:
            return _Elements(space, group, 1, False)
        neighbours = _Elements(space, group, count, True)
        if size >= count and neighbours._are_vectors():
            return neighbours
        return _Elements(space, group, min(count, APART), False)

    @property
    def groups(self) -> int:
        """The number of work-groups."""
        return -(-self.space.segment.size // (self.group * self.count))

    def _are_vectors(self) -> bool:
        """Whether each access is a vector, or the same for all elements of an item."""
        at = variable("n", 0, self.space.segment.size // self.count - 1) * self.count
        pattern = self.space.pattern(self._at(at + variable("j", 0, self.count - 1)))
        places = [a.position for a in pattern.accesses if not a.conditional]
        accesses = VectorAccesses.of(pattern, "j", self.count)
        vectors = {a.position for a in accesses.loads}
        broadcast = all(p in vectors or p.factor("j") == 0 for p in places)
        conditional = any(a.conditional for a in pattern.accesses)
        return broadcast and not conditional and len(accesses.stores) == len(pattern.stores)

    def emit(self, e: ElementalIrEmitter, block: Block, local: LocalMemory, group: str) -> None:
        """The statements of an item."""
        number, size = e.names.fresh("n"), self.space.segment.size
        if not self.vectors:
            self._emit_apart(e, block, group)
            return
        whole, rest = divmod(size, self.count)
        block.line(f"const int {number} = {group} * {self.group} + item;")
        with block.scope(f"if ({number} < {whole})" if size % (self.count * self.group) else ""):
            self._emit_neighbours(e, block, variable(number, 0, whole - 1) * self.count, self.count)
        if rest:
            with block.scope(f"else if ({number} == {whole})"):
                element = e.names.fresh("j")
                with block.scope(f"for (int {element} = 0; {element} < {rest}; ++{element})"):
                    at = variable(element, 0, rest - 1) + whole * self.count
                    self.space.emit_body(e, block, self._at(at))

    def _emit_neighbours(self, e: ElementalIrEmitter, block: Block, first: Index, count: int) -> None:
        element = e.names.fresh("j")
        at = self._at(first + variable(element, 0, count - 1))
        pattern = self.space.pattern(at)
        with VectorAccesses.of(pattern, element, count).loop(e, block, pattern):
            self.space.emit_body(e, block, at)

    def _emit_apart(self, e: ElementalIrEmitter, block: Block, group: str) -> None:
        size, name = self.space.segment.size, e.names.fresh("n")
        c_type = "int" if size + self.group * self.count < 2**31 else "long"
        first = f"({c_type}){group} * {self.group * self.count} + item"
        if self.count == 1:
            block.line(f"const {c_type} {name} = {first};")
        else:
            element = e.names.fresh("j")
            block.line("#pragma unroll")
            first += f" + {element} * {self.group}"
        with block.scope("" if self.count == 1 else f"for (int {element} = 0; {element} < {self.count}; ++{element})"):
            if self.count > 1:
                block.line(f"const {c_type} {name} = {first};")
            with block.scope(f"if ({name} < {size})" if size % (self.group * self.count) else ""):
                self.space.emit_body(e, block, self._at(variable(name, 0, size - 1)))

    def _at(self, position: Index) -> tuple[Index, ...]:
        """The indices of the loops at a position of the segment in row-major order."""
        return delinearize(position, self.space.sizes) if self.space.sizes else (constant(0),)
