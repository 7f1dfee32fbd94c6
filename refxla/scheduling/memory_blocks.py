"""The blocks of memory of a plan: values, constants, workspaces, and where each of them lies in its space."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from refxla_spec.types import Shape

from .._core.buffer_offsets import assign
from ..analysis.liveness import Range
from ..ir import plan as p

ALIGNMENT = 64


@dataclass(eq=False)
class MemoryBlock:
    """A piece of memory, by its number in the plan, and its place."""

    number: int
    name: str
    shape: Shape
    bytes: int
    space: str = p.ARENA
    index: int = 0
    offset: int = 0


class MemoryBlocks:
    """All blocks of a plan, in the order of their numbers, with the bytes of its constants and workspaces so far.

    `constant_values` are the constants' offsets and arrays. Constants and workspaces have their place from the
    beginning; `assign_offsets` gives the blocks of the arena theirs, once all steps are planned.
    """

    def __init__(self) -> None:
        self.blocks: list[MemoryBlock] = []
        self.constant_values: list[tuple[int, np.ndarray]] = []
        self.constant_bytes = self.workspace_bytes = 0
        self._constants: dict[tuple[str, tuple[int, ...], bytes], MemoryBlock] = {}

    def block(
        self, name: str, shape: Shape, space: str = p.ARENA, index: int = 0, bytes: int | None = None
    ) -> MemoryBlock:
        """A new block."""
        memory_block = MemoryBlock(len(self.blocks), name, shape, shape.bytes if bytes is None else bytes, space, index)
        self.blocks.append(memory_block)
        return memory_block

    def constant(self, name: str, value: np.ndarray) -> MemoryBlock:
        """The block of a constant, which equal ones share."""
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (str(array.dtype), array.shape, hashlib.sha256(array.reshape(-1).view(np.uint8).data).digest())
        if key not in self._constants:
            block = self.block(name, Shape.of(array), p.CONSTANT)
            block.offset = self.constant_bytes
            self.constant_values.append((block.offset, array))
            self.constant_bytes += _aligned(block.bytes)
            self._constants[key] = block
        return self._constants[key]

    def workspace(self, name: str, bytes: int) -> int:
        """The number of a new block of memory that is zeroed once."""
        block = self.block(f"{name}.workspace", Shape.array("u8", (bytes,)), p.WORKSPACE)
        block.offset = self.workspace_bytes
        self.workspace_bytes += _aligned(bytes)
        return block.number

    def scratch(self, name: str, element_type: str, count: int) -> int:
        """The number of a new block of so many elements."""
        return self.block(name, Shape.array(element_type, (count,))).number

    def zeros(self, count: int) -> int:
        """The number of a constant of zeros of type s64."""
        return self.constant("zeros", np.zeros(count, np.int64)).number

    def size(self, number: int) -> int:
        """The bytes of the block of a number."""
        return self.blocks[number].bytes


def assign_offsets(blocks: Sequence[MemoryBlock], ranges: Mapping[int, Range]) -> int:
    """Assigns an offset to each block, such that blocks that are live at the same time do not overlap. Returns the
    total bytes. `ranges` has the live ranges of blocks, by number; a block without one is not used."""
    used = [b for b in blocks if b.number in ranges]
    starts, ends = ([ranges[b.number][side] for b in used] for side in (0, 1))
    begin, end, size = (np.array(column, np.int64) for column in (starts, ends, [b.bytes for b in used]))
    offsets, total = assign(begin, end, size, ALIGNMENT)
    for block, offset in zip(used, offsets, strict=True):
        block.offset = int(offset)
    return int(total)


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
