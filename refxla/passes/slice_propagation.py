"""Moves slices through elementwise operations on a `concatenate`, to the piece that each slice reads.

    slice(x + 2 * concatenate(a, b)) -> slice(x) + 2 * a, where the slice covers a

Programs pack the parts of a state into one array and unpack them again, as `jnp.stack([...])` and `p[..., 0]` do. A
kernel that needs all parts would compute the array once for each part, and its producers likewise, so that each of
several such steps would become a kernel of its own. Each element is computed as before, so the bits are the same.

A value is rewritten if it is elementwise, if only slices read it, with no more elements in all, and if it depends on a
concatenate, directly or through other such values, so that each slice reads elements of one piece.
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
    """Rewrites all computations. Returns the number of slices moved."""
    return sum(_Propagation(c).run() for c in module.computations)


class _Propagation:
    """The rewrite of one computation. `users` has the users of each value, new slices included."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.users: dict[Instruction, list[Instruction]] = {}
        self.replaced: dict[Instruction, Instruction] = {}
        self.slices: dict[tuple[Instruction, _Bounds], Instruction] = {}
        for i in computation.instructions:
            for o in dict.fromkeys(i.operands):
                self.users.setdefault(o, []).append(i)

    def run(self) -> int:
        """The walk from the results backwards: the operands of a value are visited after the value has been sliced."""
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
        """The final replacement of an instruction."""
        while i in self.replaced:
            i = self.replaced[i]
        return i

    def is_made_of_pieces(self, i: Instruction, bounds: list[_Bounds]) -> bool:
        """Whether an elementwise value, of which only parts within `bounds` are read, depends on a concatenate such
        that each part lies within one of its operands."""
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
        """A slice of an elementwise operation as the operation on slices."""
        bounds = _bounds(s)
        operands = [self.part(o, bounds) if o.shape.dimensions == i.shape.dimensions else o for o in i.operands]
        shape = i.shape.with_dimensions(s.shape.dimensions)
        return Instruction(f"{i.name}.part", i.opcode, shape, operands, dict(i.attributes), i.metadata)

    def part(self, i: Instruction, bounds: _Bounds) -> Instruction:
        """A slice of a value; for a concatenate, a slice of the piece."""
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
    """Whether a value is read by several slices alone, which have no more elements in all than the value."""
    slices = list(slices)
    if not (_is_elementwise(i) or i.opcode == "concatenate") or len(slices) < 2:
        return False
    if any(s.opcode != "slice" or any(part.stride != 1 for part in s.slice) for s in slices):
        return False
    return sum(prod(s.shape.dimensions) for s in slices) <= i.shape.size


def _bounds(s: Instruction) -> _Bounds:
    return tuple((part.start, part.limit) for part in s.slice)


def _piece(i: Instruction, bounds: _Bounds) -> tuple[Instruction, _Bounds] | None:
    """The operand of a concatenate that holds all elements of a slice, and the bounds of these within the operand."""
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
