"""Rows that are only moved, and whose neighbours in memory are moved to distant places: a transpose of the first two
dimensions.

Rows are contiguous along one group of indices in the result, and along another one in the source. A few rows of the
latter are taken at a time, so that memory is read in longer runs. Each is appended to a run of its own in the result,
past the caches:

    for each row along the result:
        for each of the few beside it in memory:  append it to its own run of the result
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Protocol

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import Index, constant, delinearize, variable
from ...device.description import LINE, Target
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from . import non_temporal_stores
from .strip_mining import StripMinedLoop

ROWS = 8  # taken at a time
PREFETCH_DISTANCE = 2  # iterations by which prefetches are ahead
LEAST = 1 << 12  # bytes of a run of the result
ITEMS = 4  # for each core, if there is enough


class RowCopyNest(Protocol):
    """What is needed of the nest: its groups' sizes, and the source and destination of an element that it only
    moves."""

    sizes: list[int]

    def emit_moved(self, e: ElementalIrEmitter, block: Block, at: Sequence[Index]) -> tuple[str, str]: ...

    def pattern(self, at: Sequence[Index]) -> AccessPattern: ...


class InterleavedRowCopy:
    """The loops of `nest`, whose rows are contiguous in the source along group `run_group`."""

    def __init__(self, nest: RowCopyNest, run_group: int, step: int, element_bytes: int, target: Target) -> None:
        self.nest, self.run_group, self.step = nest, run_group, step
        self.bytes = nest.sizes[-1] * element_bytes
        self.counts = nest.sizes[:-1]
        length = self.counts[-1]
        self.counts[run_group] = blocks = -(-self.counts[run_group] // ROWS)
        parts = min(-(-ITEMS * target.compute_units // blocks), max(1, length * self.bytes // LEAST))
        self.part = -(-length // parts)
        self.counts[-1] = -(-length // self.part)
        self.items = prod(self.counts)

    def emit(self, e: ElementalIrEmitter, block: Block, number: Index) -> None:
        """The statements of an item."""
        sizes = self.nest.sizes
        at = [*delinearize(number, self.counts), constant(0)]
        rows = StripMinedLoop(e, block, at[self.run_group], ROWS, sizes[self.run_group])
        along = StripMinedLoop(e, block, at[-2], self.part, sizes[-2])
        lines, last = e.names.fresh("lines"), e.names.fresh("n")
        block.line(f"uchar {lines}[{3 * LINE * ROWS}] __attribute__((aligned({LINE})));")
        with along.loop() as at[-2], rows.loop() as row:
            at[self.run_group] = row
            to, source = self.nest.emit_moved(e, block, at)
            prefetched = f"{source} + {PREFETCH_DISTANCE * self.step}l"
            block.line(f"rx_prefetch((ulong)({prefetched}), {LINE}, {self.bytes // LINE + 1});")
            line = f"{lines} + ({c_of(row)} - {rows.first}) * {3 * LINE}"
            block.line(
                non_temporal_stores.append(
                    f"(ulong)({to})", source, self.bytes, line, f"{c_of(at[-2])} == {along.first}"
                )
            )
        block.line(f"const int {last} = {along.last} - 1;")
        at[-2] = variable(last, 0, sizes[-2] - 1)
        with rows.loop() as row:
            at[self.run_group] = row
            to, _ = self.nest.emit_moved(e, block, at)
            line = f"{lines} + ({c_of(row)} - {rows.first}) * {3 * LINE}"
            block.line(non_temporal_stores.append_rest(f"(ulong)({to}) + {self.bytes}", line))


def choose(nest: RowCopyNest, target: Target) -> InterleavedRowCopy | None:
    """These loops, for rows that are only moved, if the layout fits and rows are farther apart along the group along
    which the result is contiguous."""
    names, run = [f"g{n}" for n in range(len(nest.sizes))], nest.sizes[-1]
    groups = [variable(name, 0, size - 1) for name, size in zip(names, nest.sizes, strict=True)]
    access = non_temporal_stores.moved(nest.pattern(groups), names[-1])
    if access is None or access.instruction.shape.bytes < target.caches.second or len(groups) < 3:
        return None
    size, step = non_temporal_stores.size_of(access.instruction), access.position.factor(names[-2])
    if step is None or abs(step) <= run or nest.sizes[-2] * run * size < LEAST:
        return None
    near = [n for n in range(len(groups) - 2) if access.position.factor(names[n]) == run]
    return InterleavedRowCopy(nest, near[0], step, size, target) if near else None
