"""Strip mining: loops over a part of a dimension's indices, those of an item, a tile or a range."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...analysis.index_expression import Index, variable
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from .index_set_splitting import Range


class StripMinedLoop:
    """Part number `part`, of `size` indices, of 0..limit-1; the last part may be shorter."""

    def __init__(self, e: ElementalIrEmitter, block: Block, part: Index, size: int, limit: int) -> None:
        self.e, self.block, self.size, self.limit = e, block, size, limit
        self.c_type = "int" if limit < 2**31 - size else "long"
        self.first, self.last = "0", str(limit)
        self.whole = part.is_constant and size >= limit
        self.single = size == 1 and not self.whole
        if self.whole:
            return
        self.first, self.last = e.names.fresh("b"), e.names.fresh("e")
        block.line(f"const {self.c_type} {self.first} = {c_of(part * size)};")
        if not self.single:
            end = f"{self.first} + {size}"
            if limit % size:
                end = f"{end} < {limit} ? {end} : {limit}"
            block.line(f"const {self.c_type} {self.last} = {end};")

    @contextmanager
    def loop(self, within: Range | None = None) -> Iterator[Index]:
        """The loop over it, or over those of its indices that lie in a range; gives the index."""
        if self.single and within is None:
            with self.block.scope():
                yield variable(self.first, 0, self.limit - 1)
            return
        c_type, first, last = self.bounds(within)
        name = self.e.names.fresh("i")
        with self.block.scope(f"for ({c_type} {name} = {first}; {name} < {last}; ++{name})"):
            low, high = within or (0, self.limit - 1)
            yield variable(name, low, high)

    def bounds(self, within: Range | None = None) -> tuple[str, str, str]:
        """(C type of the index, its first value, the value after its last), of those that lie in a range."""
        first, last = self.first, self.last
        low, high = within or (0, self.limit - 1)
        if self.whole:
            first, last = str(low), str(high + 1)
        elif self.single:
            last = f"{first} + 1"
        if not self.whole and low > 0:
            first = f"({first} > {low} ? {first} : {low})"
        if not self.whole and high < self.limit - 1:
            last = f"({last} < {high + 1} ? {last} : {high + 1})"
        return self.c_type, first, last
