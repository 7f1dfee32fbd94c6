"""Computes a slice of what is made from a `concatenate` from the piece that the slice reads.

    slice(x + 2 * concatenate(a, b)) -> slice(x) + 2 * a, where the slice is the place of a

Programs put the parts of a state into one array and take them out again, as `jnp.stack([...])` and `p[..., 0]` do. A
kernel that needs all parts would compute the array once for each, and so on for what the array is made of: of several
such steps, each is a kernel of its own. Each element is computed as before, so the bits are the same.

A value is rewritten if it is elementwise, if only slices read it, which have no more elements together, and if it is
made of a concatenate, through other such values, of which each slice takes elements of one piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from refxla_spec.module import Computation, Instruction, Module, SliceDimension

from .._core.shapes import make
from ..ir.op_table import ELEMENTWISE, class_of
from .dce import settle

_Bounds = tuple[tuple[int, int], ...]  # the first element and the one after the last, of each dimension


def run(module: Module) -> int:
    """Rewrite all computations; returns how many slices were moved."""
    return sum(_Propagation(c).run() for c in module.computations)


class _Propagation:
    """The rewrite of one computation. `users` has what reads each value, and grows by the slices that are made."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.users: dict[Instruction, list[Instruction]] = {}
        self.replaced: dict[Instruction, Instruction] = {}
        self.slices: dict[tuple[Instruction, _Bounds], Instruction] = {}
        for i in computation.instructions:
            for o in dict.fromkeys(i.operands):
                self.users.setdefault(o, []).append(i)

    def run(self) -> int:
        """The walk from the results back: what a value is made of is visited when it is sliced itself."""
        for i in reversed(self.computation.instructions):
            slices = self.users.get(i, [])
            if i is self.computation.root or not _are_parts(i, slices):
                continue
            bounds = [_bounds(s) for s in slices]
            if i.opcode == "concatenate":
                for s, b in zip(slices, bounds, strict=True):
                    if _piece(i, b) is not None:
                        self.replaced[s] = self.part(i, b)
            elif self.is_made_of_pieces(i, bounds):
                for o in i.operands:
                    self.users[o] = [u for u in self.users[o] if u is not i]
                for s in slices:
                    self.replaced[s] = self.moved(i, s)
        if not self.replaced:
            return 0
        for i in (*self.computation.instructions, *self.replaced.values(), *self.slices.values()):
            i.operands = [self.final(o) for o in i.operands]
        for i in self.replaced:
            self.replaced[i] = self.final(i)
        settle(self.computation, self.replaced)
        return len(self.replaced)

    def final(self, i: Instruction) -> Instruction:
        """What stands for an instruction in the end."""
        while i in self.replaced:
            i = self.replaced[i]
        return i

    def is_made_of_pieces(self, i: Instruction, bounds: list[_Bounds]) -> bool:
        """Whether an elementwise value, of which only parts within `bounds` are read, is made of a concatenate whose
        operands no such part crosses."""
        waiting, visited = [i], {i}
        while waiting:
            now = waiting.pop()
            for o in now.operands:
                if o in visited or o.shape.dimensions != i.shape.dimensions:
                    continue
                if o.opcode == "concatenate" and all(_piece(o, b) is not None for b in bounds):
                    return True
                if _is_elementwise(o) and all(u in visited for u in self.users[o]) and o is not self.computation.root:
                    visited.add(o)
                    waiting.append(o)
        return False

    def moved(self, i: Instruction, s: Instruction) -> Instruction:
        """A slice of an elementwise value, as the value of slices."""
        bounds = _bounds(s)
        operands = [self.part(o, bounds) if o.shape.dimensions == i.shape.dimensions else o for o in i.operands]
        shape = i.shape.with_dimensions(s.shape.dimensions)
        return Instruction(f"{i.name}.part", i.opcode, shape, operands, dict(i.attributes), i.metadata)

    def part(self, i: Instruction, bounds: _Bounds) -> Instruction:
        """A slice of a value; of a concatenate, one of its piece."""
        piece = _piece(i, bounds)
        if piece is not None:
            i, bounds = piece
        if bounds == tuple((0, n) for n in i.shape.dimensions):
            return i
        if (i, bounds) not in self.slices:
            part = make("slice", i, name=f"{i.name}.part", slice=tuple(SliceDimension(a, b, 1) for a, b in bounds))
            self.slices[i, bounds] = part
            self.users.setdefault(i, []).append(part)
        return self.slices[i, bounds]


def _is_elementwise(i: Instruction) -> bool:
    return class_of(i) == ELEMENTWISE and i.shape.is_array and not i.called


def _are_parts(i: Instruction, slices: Iterable[Instruction]) -> bool:
    """Whether only slices read a value, several of them, which have no more elements together."""
    slices = list(slices)
    if not (_is_elementwise(i) or i.opcode == "concatenate") or len(slices) < 2:
        return False
    if any(s.opcode != "slice" or any(part.stride != 1 for part in s.slice) for s in slices):
        return False
    return sum(prod(s.shape.dimensions) for s in slices) <= i.shape.size


def _bounds(s: Instruction) -> _Bounds:
    return tuple((part.start, part.limit) for part in s.slice)


def _piece(i: Instruction, bounds: _Bounds) -> tuple[Instruction, _Bounds] | None:
    """The operand of a concatenate that has all elements of a slice, and which of its elements they are."""
    if i.opcode != "concatenate":
        return None
    (axis,) = i.attributes["dimensions"]
    begin = 0
    for o in i.operands:
        size = o.shape.dimensions[axis]
        low, high = bounds[axis]
        if begin <= low and high <= begin + size and size:
            return o, (*bounds[:axis], (low - begin, high - begin), *bounds[axis + 1 :])
        begin += size
    return None
