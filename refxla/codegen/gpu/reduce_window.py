"""The kernel of kind "reduce-window" for GPUs.

Cumulative sums and the like carry over from one result to the next, so that n results take n steps; each result
combines the previous one with one more element, as on a CPU. If the steps run across memory, a lane is an item, or some
(cumulative_lanes.py). If they run along it, a work-group takes some rows tile by tile: all items load a tile into local
memory, one item for each row traverses it, and all items store the results. Other windows are pooling.
"""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from ...analysis.index_expression import Index, variable
from ...analysis.index_maps import cumulative
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from .. import scalar
from ..elemental_rules import combine
from ..kernel_arguments import hero_of
from ..windows.reduce_window import Cumulative, LaneSums, result_dimensions
from . import cumulative_lanes, elementwise, pooling
from .work_groups import BARRIER, LocalMemory, group_size, register_bytes

MOST_ROWS, LEAST_ROWS = 32, 8  # of a tile: the fewer, the more work-groups there are
TILE = 2048  # elements of a tile, if local memory is large enough
AT_A_TIME = 8  # elements of a row that an item loads at once


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a reduce-window. The outputs are elementwise in it, or reshapes of values that are."""
    hero = hero_of(fusion)
    if min(result_dimensions(hero), default=0) == 0:
        return elementwise.emit(fusion, target)
    if cumulative(hero) is None:
        own = pooling.kernel(fusion, target)
        return elementwise.emit(fusion, target) if own is None else (own,)
    rows = _Rows(fusion, target)
    return (rows.kernel(),) if prod(rows.after) == 1 else cumulative_lanes.kernels(fusion, target)


class _Rows(Cumulative):
    """A cumulative window along memory."""

    def kernel(self) -> Kernel:
        """The kernel."""
        group, local = group_size(self.target), LocalMemory()
        groups = self._rows(group, local)
        text, items = self.block.text(), groups * group
        return Kernel(self.fusion.name, text, self.arguments, items, work_group=group, local_bytes=local.bytes)

    def _rows(self, group: int, local: LocalMemory) -> int:
        """The statements of an item that computes a row. Returns the number of work-groups."""
        block, rows = self.block, prod(self.before)
        tile_rows, columns = self._tile(rows, group)
        pitch = columns + 1  # so that the items of neighbouring rows access different banks
        tiles = [
            local.declare(block, f"tile{k}", scalar.register_type(t), register_bytes(t), tile_rows * pitch)
            for k, t in enumerate(self.types)
        ]
        sums = self.sums(self.start(), 1)
        block.line(f"const int mine = group * {tile_rows} + item;")
        with block.scope(f"for (int begin = 0; begin < {self.length}; begin += {columns})"):
            at = self._enter_tile(group, tile_rows, columns, scopes := ExitStack())
            with scopes:
                for k, (operand, name) in enumerate(zip(self.operands, self.types, strict=True)):
                    block.line(f"{tiles[k]}[place] = {self.accumulable(operand, at, name)};")
            block.line(BARRIER)
            sums.begin("begin")
            with block.scope(f"if (item < {tile_rows} && mine < {rows})"):
                block.line(f"const int left = {self.length} - begin, count = left < {columns} ? left : {columns};")
                block.line("int c = 0;")
                # Loads do not wait for the combination of earlier elements.
                with block.scope(f"for (; c + {AT_A_TIME} <= count; c += {AT_A_TIME})"):
                    for k, t in enumerate(self.types):
                        block.line(f"{scalar.register_type(t)} next{k}[{AT_A_TIME}];")
                    block.line("#pragma unroll")
                    with block.scope(f"for (int u = 0; u < {AT_A_TIME}; ++u)"):
                        for k, tile in enumerate(tiles):
                            block.line(f"next{k}[u] = {tile}[item * {pitch} + c + u];")
                    block.line("#pragma unroll")
                    with block.scope(f"for (int u = 0; u < {AT_A_TIME}; ++u)"):
                        elements = [f"next{k}[u]" for k in range(len(tiles))]
                        self._step(sums, elements, [f"{tile}[item * {pitch} + c + u]" for tile in tiles])
                with block.scope("for (; c < count; ++c)"):
                    elements = [f"{tile}[item * {pitch} + c]" for tile in tiles]
                    self._step(sums, elements, elements)
            block.line(BARRIER)
            at = self._enter_tile(group, tile_rows, columns, scopes := ExitStack())
            with scopes:
                self.store([f"{tile}[place]" for tile in tiles], at)
        return -(-rows // tile_rows)

    def _tile(self, rows: int, group: int) -> tuple[int, int]:
        """The rows and columns of a tile."""
        tile_rows = MOST_ROWS
        while tile_rows > LEAST_ROWS and -(-rows // tile_rows) < self.target.compute_units:
            tile_rows //= 2
        element_bytes = sum(map(register_bytes, self.types))
        columns = TILE // tile_rows  # a power of two, no longer than a segment of a sum
        most_rows = self.target.local_bytes // ((columns + 1) * element_bytes)
        return max(1, min(tile_rows, group, most_rows)), columns

    def _step(self, sums: LaneSums, elements: list[str], results: list[str]) -> None:
        """Combines an item's accumulators with one more element, and stores the result."""
        chains = sums.chains("0")
        for chain, total in zip(chains, combine(self.e, self.reducer, (*chains, *elements), self.block), strict=True):
            self.block.line(f"{chain} = {total};")
        for result, value in zip(results, sums.results("0"), strict=True):
            self.block.line(f"{result} = {value};")

    def _enter_tile(self, group: int, tile_rows: int, columns: int, scopes: ExitStack) -> list[Index]:
        """Opens the loop over an item's elements of a tile, which are at `place`. Returns their indices."""
        block, rows = self.block, prod(self.before)
        scopes.enter_context(block.scope(f"for (int k = item; k < {tile_rows * columns}; k += {group})"))
        block.line(f"const int row = group * {tile_rows} + k / {columns}, n = begin + k % {columns};")
        block.line(f"const int place = k / {columns} * {columns + 1} + k % {columns};")
        scopes.enter_context(block.scope(f"if ((row < {rows}) & (n < {self.length}))"))
        at, row = variable("n", 0, self.length - 1), variable("row", 0, rows - 1)
        return self.placing(at, row, variable("lane", 0, 0))
