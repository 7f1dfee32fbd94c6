"""Cumulative windows along memory on GPUs: a work-group takes some rows tile by tile. All items load a tile into local
memory, one item for each row traverses it, and all items store the results. If the rows are too few, those are segments
of rows (cumulative_segments.py)."""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from ...analysis.index_expression import Index, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import combine
from ..kernel_arguments import input_argument, inputs_of
from ..windows.reduce_window import Cumulative, LaneSums
from .cumulative_segments import ParallelSegments, SegmentSums
from .work_groups import BARRIER, LocalMemory, group_size, register_bytes

MOST_ROWS, LEAST_ROWS = 32, 8  # of a tile: the fewer, the more work-groups there are
GROUPS_PER_UNIT = 3  # work-groups of whole rows that keep a compute unit busy: on an H200, one reached a sixth of it
TILE = 2048  # elements of a tile, if local memory is large enough
AT_A_TIME = 8  # elements of a row that an item loads at once


def staged_lanes(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a cumulative window across memory whose lanes are rows of the tiles."""
    return (_Rows(fusion, target).kernel(),)


def kernels(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a cumulative window along memory, or the two of its segments."""
    rows = _Rows(fusion, target)
    segments = ParallelSegments(rows, prod(rows.before))
    if not segments.size or prod(rows.before) >= LEAST_ROWS * GROUPS_PER_UNIT * target.compute_units:
        return (rows.kernel(),)
    return _Rows(fusion, target, segments).totals(segments), _Rows(fusion, target, segments).results(segments)


class _Rows(Cumulative):
    """The kernels of such a window: of whole rows, or of the segments of rows. The rows of one across memory are its
    lanes: neighbouring items load neighbouring lanes, not elements of a row."""

    def __init__(self, fusion: Fusion, target: Target, segments: ParallelSegments | None = None) -> None:
        super().__init__(fusion, target)
        self.count = segments.count if segments else 1  # segments of a row
        self.adjacent = prod(self.after)  # rows whose n-th elements are adjacent in memory
        self.whole_rows = prod(self.before) * self.adjacent
        self.rows = self.whole_rows * self.count  # or segments of rows
        self.row_length = segments.size if segments else self.length

    def kernel(self) -> Kernel:
        """The kernel whose work-groups take whole rows."""
        local = LocalMemory()
        tile_rows, columns, tiles = self._declare_tiles(local)
        sums = self.sums(self.start(), 1)
        self.block.line(f"const int mine = group * {tile_rows} + item;")
        self._go_through(tile_rows, columns, tiles, sums, True)
        return self._kernel(self.fusion.name, self.arguments, tile_rows, local)

    def totals(self, segments: ParallelSegments) -> Kernel:
        """The kernel that combines the elements of each segment."""
        inputs, local = inputs_of(self.fusion, self.operands), LocalMemory()
        self.e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{n}" for n, i in enumerate(inputs)})
        tile_rows, columns, tiles = self._declare_tiles(local)
        segment, row = self._begin_segment(tile_rows)
        sums = segments.sums(self)
        self._go_through(tile_rows, columns, tiles, sums, False)
        with self.block.scope(f"if (item < {tile_rows} && mine < {self.rows})"):
            self.block.line(f"a{len(inputs)}[{segments.place(segment, row)}] = {sums.chains('0')[0]};")
        arguments = (*map(input_argument, inputs), segments.totals)
        return self._kernel(f"{self.fusion.name}.totals", arguments, tile_rows, local)

    def results(self, segments: ParallelSegments) -> Kernel:
        """The kernel that goes through each segment from the totals of those before it."""
        local = LocalMemory()
        tile_rows, columns, tiles = self._declare_tiles(local)
        _, row = self._begin_segment(tile_rows)
        sums = segments.sums(self, row, f"a{len(self.arguments)}")
        self._go_through(tile_rows, columns, tiles, sums, True)
        return self._kernel(self.fusion.name, (*self.arguments, segments.totals), tile_rows, local)

    def _kernel(self, name: str, arguments: tuple[Argument, ...], tile_rows: int, local: LocalMemory) -> Kernel:
        group, text = group_size(self.target), self.block.text()
        items = -(-self.rows // tile_rows) * group
        return Kernel(name, text, arguments, items, work_group=group, local_bytes=local.bytes)

    def _declare_tiles(self, local: LocalMemory) -> tuple[int, int, list[str]]:
        """Declares a tile for each operand; returns their rows, columns and names."""
        tile_rows, columns = self._tile()
        pitch = columns + 1  # so that the items of neighbouring rows access different banks
        return (
            tile_rows,
            columns,
            [
                local.declare(self.block, f"tile{k}", scalar.register_type(t), register_bytes(t), tile_rows * pitch)
                for k, t in enumerate(self.types)
            ],
        )

    def _begin_segment(self, tile_rows: int) -> tuple[Index, Index]:
        """Names the segment of an item that traverses one; returns its number and its row."""
        self.block.line(f"const int mine = group * {tile_rows} + item;")
        # The items beyond the last segment have the first one, of which they use nothing.
        self.block.line(f"const int own = item < {tile_rows} && mine < {self.rows} ? mine : 0;")
        self.block.line(f"const int segment = own % {self.count}, row = own / {self.count};")
        return variable("segment", 0, self.count - 1), variable("row", 0, self.whole_rows - 1)

    def _go_through(
        self, tile_rows: int, columns: int, tiles: list[str], sums: LaneSums | SegmentSums, stores: bool
    ) -> None:
        """The loop over the tiles of a work-group."""
        block, pitch = self.block, columns + 1
        with block.scope(f"for (int begin = 0; begin < {self.row_length}; begin += {columns})"):
            at = self._enter_tile(tile_rows, columns, scopes := ExitStack())
            with scopes:
                for k, (operand, name) in enumerate(zip(self.operands, self.types, strict=True)):
                    block.line(f"{tiles[k]}[place] = {self.accumulable(operand, at, name)};")
            block.line(BARRIER)
            sums.begin("begin")
            with block.scope(f"if (item < {tile_rows} && mine < {self.rows})"):
                first = f"(segment * {self.row_length} + begin)" if self.count > 1 else "begin"
                block.line(f"const int left = {self.length} - {first}, count = left < {columns} ? left : {columns};")
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
                        self._step(sums, elements, [f"{tile}[item * {pitch} + c + u]" for tile in tiles], stores)
                with block.scope("for (; c < count; ++c)"):
                    elements = [f"{tile}[item * {pitch} + c]" for tile in tiles]
                    self._step(sums, elements, elements, stores)
            block.line(BARRIER)
            if stores:
                at = self._enter_tile(tile_rows, columns, scopes := ExitStack())
                with scopes:
                    self.store([f"{tile}[place]" for tile in tiles], at)

    def _tile(self) -> tuple[int, int]:
        """The rows and columns of a tile."""
        tile_rows = MOST_ROWS
        if self.adjacent > 1:  # so that fewer rows do not leave a part of the tile empty
            tile_rows = min(tile_rows, 1 << (self.rows - 1).bit_length())
        while tile_rows > LEAST_ROWS and -(-self.rows // tile_rows) < self.target.compute_units:
            tile_rows //= 2
        element_bytes = sum(map(register_bytes, self.types))
        columns = TILE // tile_rows  # a power of two, no longer than a segment of a sum
        most_rows = self.target.local_bytes // ((columns + 1) * element_bytes)
        return max(1, min(tile_rows, group_size(self.target), most_rows)), columns

    def _step(self, sums: LaneSums | SegmentSums, elements: list[str], results: list[str], stores: bool) -> None:
        """Combines an item's accumulators with one more element, and stores the result."""
        chains = sums.chains("0")
        for chain, total in zip(chains, combine(self.e, self.reducer, (*chains, *elements), self.block), strict=True):
            self.block.line(f"{chain} = {total};")
        for result, value in zip(results, sums.results("0"), strict=True) if stores else ():
            self.block.line(f"{result} = {value};")

    def _enter_tile(self, tile_rows: int, columns: int, scopes: ExitStack) -> list[Index]:
        """Opens the loop over an item's elements of a tile, which are at `place`. Returns their indices."""
        block, group = self.block, group_size(self.target)
        scopes.enter_context(block.scope(f"for (int k = item; k < {tile_rows * columns}; k += {group})"))
        place = f"k / {columns} * {columns + 1} + k % {columns}"
        if self.adjacent > 1:
            block.line(f"const int row = group * {tile_rows} + k % {tile_rows}, n = begin + k / {tile_rows};")
            place = f"k % {tile_rows} * {columns + 1} + k / {tile_rows}"
        elif self.count == 1:
            block.line(f"const int row = group * {tile_rows} + k / {columns}, n = begin + k % {columns};")
        else:
            block.line(f"const int number = group * {tile_rows} + k / {columns}, row = number / {self.count};")
            block.line(f"const int n = number % {self.count} * {self.row_length} + begin + k % {columns};")
        block.line(f"const int place = {place};")
        scopes.enter_context(block.scope(f"if ((row < {self.whole_rows}) & (n < {self.length}))"))
        at, row = variable("n", 0, self.length - 1), variable("row", 0, self.whole_rows - 1)
        return self.placing(at, row // self.adjacent, row % self.adjacent)
