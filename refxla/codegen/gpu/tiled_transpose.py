"""Strided reads on GPUs, by way of tiles in local memory.

If a read is strided along the innermost index of the results, and contiguous along another index, a work-group computes
a tile of 32 x 32 elements. Its items first copy the tile of each such input to local memory, with coalesced reads; then
they compute the elements, with coalesced writes. A row of the tile in local memory has 33 elements, so that the items
of a sub-group, which read a column, use all banks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from ...analysis.access_patterns import Access
from ...analysis.index_expression import Index, delinearize, variable
from ...device.description import Target
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..loops.index_space import IndexSpace
from ..loops.transpose_schedule import across
from .vector_access import size_of
from .work_groups import BARRIER, LocalMemory, group_size

TILE = 32
MIN_TILED_DIMENSION = 8  # rows and columns, from which on a tile pays


@dataclass(frozen=True)
class TiledTranspose:
    """The work-groups of a space whose reads run along loop `column` and across the innermost one."""

    space: IndexSpace
    column: int
    group: int

    @staticmethod
    def choose(space: IndexSpace, target: Target) -> TiledTranspose | None:
        """The tiles, if a read runs across memory and they fit in local memory."""
        inner = len(space.sizes) - 1
        for n in reversed(range(inner)):
            if min(space.sizes[n], space.sizes[inner]) < MIN_TILED_DIMENSION or space.iterations > 1:
                continue
            reads = across(space.accesses, f"g{inner}", f"g{n}")
            if reads and sum(size_of(a.instruction) for a in reads) * TILE * (TILE + 1) <= target.local_bytes - 64:
                return TiledTranspose(space, n, group_size(target))
        return None

    @property
    def _counts(self) -> list[int]:
        """The tiles along each loop."""
        inner = len(self.space.sizes) - 1
        return [-(-n // TILE) if k in (self.column, inner) else n for k, n in enumerate(self.space.sizes)]

    @property
    def groups(self) -> int:
        """The number of work-groups: one for each tile."""
        return prod(self._counts)

    def emit(self, e: ElementalIrEmitter, block: Block, local: LocalMemory, group: str) -> None:
        """The statements of an item."""
        fresh, sizes = e.names.fresh, self.space.sizes
        inner, per_pass = len(sizes) - 1, self.group // TILE
        tile, x, y = fresh("tile"), fresh("x"), fresh("y")
        block.line(f"const int {tile} = {group}, {x} = item % {TILE}, {y} = item / {TILE};")
        at = list(delinearize(variable(tile, 0, self.groups - 1), self._counts))
        row, column = fresh("r"), fresh("c")
        block.line(f"const int {row} = {c_of(at[inner] * TILE)}, {column} = {c_of(at[self.column] * TILE)};")
        tiles = [
            local.declare(block, fresh("tile"), scalar.storage_type(type_name(i)), size_of(i), TILE * (TILE + 1))
            for i in (a.instruction for a in self._across(at, "r", "c"))
        ]
        down, r, c = fresh("i"), fresh("r"), fresh("c")
        # Neighbours in the memory that is read.
        with self._each_line(e, block, down, y, per_pass), self._inside(block, (r, row, down), (c, column, x)):
            pattern = self.space.pattern(self._placed(at, r, c))
            for name, access in zip(tiles, self._across(at, r, c), strict=True):
                a = e.adopt(access, pattern, block)
                block.line(f"{name}[{down} * {TILE + 1} + {x}] = {e.input(a.instruction)}[{c_of(a.position)}];")
        block.line(BARRIER)
        # Neighbours in the memory that is written.
        down, r, c = fresh("i"), fresh("r"), fresh("c")
        with self._each_line(e, block, down, y, per_pass), self._inside(block, (r, row, x), (c, column, down)):
            pattern = self.space.pattern(self._placed(at, r, c))
            for name, access in zip(tiles, self._across(at, r, c), strict=True):
                a, of = e.adopt(access, pattern, block), type_name(access.instruction)
                value = e.assign(of, scalar.load(of, f"{name}[{x} * {TILE + 1} + {down}]"), block)
                e.bind(a.instruction, a.indices, value)
            self.space.emit_body(e, block, self._placed(at, r, c))

    def _placed(self, at: Sequence[Index], row: str, column: str) -> list[Index]:
        """The indices of the loops, with C variables for those of the tile."""
        placed, inner = list(at), len(self.space.sizes) - 1
        placed[inner] = variable(row, 0, self.space.sizes[inner] - 1)
        placed[self.column] = variable(column, 0, self.space.sizes[self.column] - 1)
        return placed

    def _across(self, at: Sequence[Index], row: str, column: str) -> list[Access]:
        """The reads across memory, each once."""
        return across(self.space.pattern(self._placed(at, row, column)).accesses, row, column)

    @contextmanager
    def _each_line(self, e: ElementalIrEmitter, block: Block, name: str, first: str, step: int) -> Iterator[None]:
        """A loop over the lines of a tile in which an item has elements; declares the number of one."""
        k = e.names.fresh("k")
        block.line("#pragma unroll")
        with block.scope(f"for (int {k} = 0; {k} < {TILE}; {k} += {step})"):
            block.line(f"const int {name} = {first} + {k};")
            yield

    @contextmanager
    def _inside(self, block: Block, row: tuple[str, str, str], column: tuple[str, str, str]) -> Iterator[None]:
        """Declares a row and a column, each (name, that of the tile's first, offset), and opens a scope for those that
        exist."""
        conditions = []
        for (name, first, offset), n in ((row, len(self.space.sizes) - 1), (column, self.column)):
            block.line(f"const int {name} = {first} + {offset};")
            if self.space.sizes[n] % TILE:
                conditions.append(f"{name} < {self.space.sizes[n]}")
        with block.scope(f"if ({' && '.join(conditions)})" if conditions else ""):
            yield
