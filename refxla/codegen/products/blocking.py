"""The blocking of a matrix product: the tile in registers, and the block of rows and columns of an item.

Blocks are chosen by a cost model with the device's rates (Costs): arithmetic, copies, and how often memory is read, on
all cores. Large blocks reuse what they read, small ones balance the load of the cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ...analysis.access_patterns import Access
from ...device.description import Target
from ...device.tile_configurations import configuration_for
from .. import work_items
from .packing import VECTORS
from .panels import filter_windows
from .product import Product
from .tile import Tile, Words

PERSISTENT_WORK = 1 << 18  # where the items of a launch are distributed dynamically
ROW_PIECE = 128  # contiguous elements that are read at a time, if there are so many for each core
MAX_ROWS, MAX_COLUMNS = 192, 256  # of an item's block
MAX_SUMS = 1 << 17  # bytes of an item's sums
MAX_COPIES = 5 / 8  # of a core's own caches: bytes of an item's own copies at a time
DEEP = 4  # times as many terms as rows and columns: reads then outweigh the sums, so there may be more:
DEEP_ROWS, DEEP_SUMS, DEEP_COPIES = 512, 1 << 19, 3 / 4
FEW_ROWS = 256  # of the left side, up to which an item may have all of them and pack its columns once
LOCAL_ROWS = FEW_ROWS  # of the left side, up to which blocks of k are short, since an item may pack its own panels
LOCAL_TERMS = 256  # of k in a block then
STREAMED_ROWS = 12  # of the left side, up to which the right side is read only once: no copy, and long runs
STREAMED_WORK = 1 << 13  # multiply-adds, the fewest of an item then: a microsecond, what a phase of all cores costs
STREAMED_TERMS = 8  # of k in a block if the right side is streamed: reads along its rows are fastest
SHORT_TERMS = 64  # of k, up to which writing the result takes a good part of the time, if a panel has all its columns:
STORES = 2048  # bytes, up to which stores wait in the processor's store buffer while the next tile is computed
DIRECT_ROWS = 32  # of the left side, up to which panels cost more than they save

TRIANGLE_ROWS = 100  # of a symmetric product, from which on computing half of it takes clearly less time,
TRIANGLE_TERMS = 64  # and terms of k, from which on that outweighs writing the other half with a stride
UNEVEN = 0.08  # of an item: the difference between cores' finish times


# rows x vectors of a tile, by the number of registers. Most of them hold sums; a row of vectors of the right side and
# an element of the left one need the others: where there are too few, a product takes twice as long.
TILES = {16: ((6, 2), (4, 3), (2, 4), (1, 8)), 32: ((6, 4), (8, 3), (6, 2), (4, 6), (2, 8), (1, 16))}
ALIKE = range(4, 13)  # rows of a tile that have to be alike
SUMS = {16: (8, 12), 32: (12, 24)}  # vectors of sums, fewest and most, of tiles whose rows have to be alike
LEAST_SUMS = 8  # vectors of sums that hide the latency: two multiply-adds start in each cycle, and each takes four
LOAD = 2  # the time of loading a vector of the right side, from the second cache, over that of a multiply-add
UNLIKE = 1.5  # the time of a tile of unlike rows over that of one with alike rows, approximately
NARROW = 1.1  # the time of products in vectors of 32 bytes over that in vectors of 64


def alike_rows(count: int) -> list[int]:
    """The numbers of rows with which all rows of a tile are alike, where each `count` consecutive rows are."""
    return [rows for rows in ALIKE if count % rows == 0]


def choose_tile(
    m: int, n: int, name: str, target: Target, strip: int = 1, words: Words | None = None, alike: int = 1
) -> Tile:
    """The tile for a result of m x n: of the shapes in TILES, clipped to the result, the first one that computes least
    beyond it. Where `strip` rows of the left side are adjacent, these can be a tile. Where each `alike` consecutive
    rows are alike, the rows of a tile divide them, if possible."""

    def waste(tile: Tile) -> float:
        rows, columns = -(-m // tile.rows) * tile.rows, -(-n // tile.columns) * tile.columns
        loads = 1 / (2 * tile.rows) + 1 / (16 * tile.vectors)  # for each product; those of the left side are shared
        unlike = UNLIKE if alike > 1 and alike % tile.rows else 1
        waits = max(1.0, LEAST_SUMS / (tile.rows * tile.vectors), LOAD / tile.rows)
        return rows * columns / (m * n) * (NARROW if tile.bytes < target.widest else 1) * unlike * waits + loads

    tiles = []
    for bytes in sorted({target.widest, 32}, reverse=True):
        lanes = VECTORS[name][1] * bytes // 32
        shapes = TILES[target.registers] if n > lanes else ((12, 1),)
        shapes += tuple((1, v) for v in range(LEAST_SUMS // LOAD, LEAST_SUMS)) if m == 1 else ()
        shapes += ((strip, 2),) if strip > 1 and n > lanes and target.registers == 32 else ()
        if alike > 1:
            fewest, most = SUMS[target.registers]
            shapes += tuple(
                (r, v) for r in alike_rows(alike) for v in range(1, most // r + 1) if r * v >= fewest or n <= v * lanes
            )
        tiles += [Tile(min(m, rows), min(vectors, -(-n // lanes)), name, bytes, words) for rows, vectors in shapes]
    return min(tiles, key=waste)


@dataclass(frozen=True)
class Blocking:
    """The blocking of a Product: the tile, rows and columns of an item's block, and where the panels come from."""

    tile: Tile
    rows: int
    columns: int
    panels: str  # "packed", "local" or "direct"
    triangle: bool = False  # of a symmetric product: blocks end at the diagonal, and are stored on both sides of it


def choose_blocking(p: Product) -> Blocking:
    """The blocks for a product: the cheapest according to the cost model, or those of the target's configurations."""
    configuration = configuration_for(p.fusion, p.target.tile_configurations)
    access = p.right_access()
    tile = choose_tile(p.m, p.n, p.name, p.target, p.rows.step if p.rows.local else 1, p.words, p.alike)
    if configuration.tile is not None:
        rows, vectors = configuration.tile
        tile = replace(tile, rows=min(p.m, rows), vectors=min(vectors, -(-p.n // tile.lanes)))
    direct = reads_as_vectors(access) and p.n >= tile.columns
    streamed = direct or (p.right_is_invariant and p.m == 1)
    if streamed and p.m <= STREAMED_ROWS and configuration.panels is None and not p.right_prepacked:
        share = max(-(-p.n // (2 * p.target.compute_units)), min(ROW_PIECE, -(-p.n // p.target.compute_units)))
        share = min(max(share, -(-STREAMED_WORK // (p.m * p.k))), p.n, MAX_SUMS // (4 * p.m))
        if configuration.tile is None:
            tile = replace(tile, vectors=min(tile.vectors, -(-share // tile.lanes)))
        panels = "direct" if direct else "packed"
        return Blocking(tile, _round_up(p.m, tile.rows), _round_up(share, tile.columns), panels)
    needs_no_panels = direct and p.m <= DIRECT_ROWS
    if direct and access is not None:
        needs_no_panels |= _reads_as_well(access.position.stride("k"), p)
    # Panels of a loop-invariant side are packed before the loop, those of a constant at compile time.
    ways = ["direct"] if needs_no_panels else ["packed"] if p.right_is_invariant else ["packed", "local"]
    in_parts = p.rows.blocks > 1 and not (p.whole or p.words) and filter_windows(p.fusion, p, p.name) is not None
    if p.right_prepacked or in_parts:
        ways = ["packed"]
    elif configuration.panels in ("packed", "local") or (configuration.panels == "direct" and direct):
        ways = [configuration.panels]
    model = _Model(p, tile)
    candidates = [(*block, way, False) for way in ways for block in _blocks(p, tile, way)]
    if not candidates:
        candidates = [(tile.rows, tile.columns, "packed", False)]
    if p.symmetric and p.m >= TRIANGLE_ROWS and p.k >= TRIANGLE_TERMS:
        even = 2 * p.target.compute_units  # blocks of rows, which differ in length: two for each core balance it
        candidates += [(r, c, way, True) for r, c, way, _ in candidates if -(-p.m // r) >= even]
    items = [model.items(rows, columns) for rows, columns, *_ in candidates]
    least = PERSISTENT_WORK if p.target.persistent else work_items.MULTIPLY_ADDS
    most = max(p.groups * p.m * p.n * p.k // least, min(items))
    best = min((c for c, n in zip(candidates, items, strict=True) if n <= most), key=lambda c: model.cost(*c))
    rows = best[0] if configuration.rows is None else _round_up(min(configuration.rows, p.m), tile.rows)
    copies = p.rows.local is not None or best[2] == "local"  # by items, for which larger blocks are better
    if configuration.rows is None and p.k <= SHORT_TERMS and p.n <= tile.columns and not copies:
        rows = min(rows, max(1, STORES // (tile.vectors * tile.bytes * tile.rows)) * tile.rows)
    columns = best[1] if configuration.columns is None else _round_up(min(configuration.columns, p.n), tile.columns)
    return Blocking(tile, rows, columns, *best[2:])


def _blocks(p: Product, tile: Tile, panels: str) -> Iterator[tuple[int, int]]:
    """The candidates for rows and columns of blocks, for panels of that kind."""
    element = tile.bytes // tile.lanes
    terms = min(p.rows.most_terms, p.k)
    most, most_sums, share = MAX_ROWS if p.m > FEW_ROWS else FEW_ROWS, MAX_SUMS, MAX_COPIES
    if is_deep(p.m, p.n, p.k):
        most, most_sums, share = DEEP_ROWS, DEEP_SUMS, DEEP_COPIES
    most_copies = share * p.target.caches.second
    for rows in _shares(p.m, tile.rows, most):
        for columns in _shares(p.n, tile.columns, MAX_COLUMNS):
            sums = rows * (tile.columns if p.rows.blocks == 1 else columns) * element * (2 if p.opens else 1)
            copies = (rows * (p.rows.local is not None) + columns * (panels == "local")) * terms * element
            least = rows == tile.rows and columns == tile.columns and panels != "local"
            if least or (sums <= most_sums and copies <= most_copies):
                yield rows, columns


@lru_cache(maxsize=4096)
def _shares(size: int, unit: int, most: int) -> tuple[int, ...]:
    """The sizes of equal shares of `size`, rounded up to multiples of `unit`, the largest first."""
    shares = {_round_up(-(-size // n), unit) for n in range(1, -(-size // unit) + 1)}
    return tuple(sorted((s for s in shares if s <= max(unit, most)), reverse=True))


class _Model:
    """The time of a product in blocks of so many rows and columns, with the right side from `panels`: see Blocking."""

    def __init__(self, p: Product, tile: Tile) -> None:
        self.p, self.tile, self.element = p, tile, tile.bytes // tile.lanes
        self.left = p.groups * p.m * p.k * self.element
        self.right = p.groups // p.shared * p.k * p.n * self.element
        self.costs = p.target.costs
        self.far = self.costs.panel_byte(self.left + self.right)
        self.columns_vary_first, self.right_prepacked = columns_vary_first(p), p.right_prepacked
        self.local, self.cores = p.rows.local is not None, p.target.compute_units

    def items(self, rows: int, columns: int) -> int:
        return self.p.groups * -(-self.p.m // rows) * -(-self.p.n // columns)

    def cost(self, rows: int, columns: int, panels: str, triangle: bool) -> float:
        p, left, right, far, costs = self.p, self.left, self.right, self.far, self.costs
        row_blocks, column_blocks = -(-p.m // rows), -(-p.n // columns)
        # Between two uses of a block of one side, a block of each side is read, or all of it.
        soon = costs.panel_byte((rows + columns) * p.k * self.element)
        again_left, again_right = (soon, far) if self.columns_vary_first else (far, soon)
        pieces_left, pieces_right = self.local and row_blocks > 1, panels != "packed" and column_blocks > 1
        items = p.groups * row_blocks * column_blocks
        cost = items * rows * columns * p.k * costs.multiply_add
        if triangle:
            cost *= (1 + 1 / row_blocks + self.tile.columns / p.n) / 2
            cost += p.groups * p.m * p.n / 2 * costs.copied_right
        cost += left * far[pieces_left] + (column_blocks - 1) * (left * again_left[pieces_left])
        cost += right * far[pieces_right] + (row_blocks - 1) * (right * again_right[pieces_right])
        if self.local:
            cost += left / self.element * column_blocks * costs.copied_left
        if panels == "local":
            # Also the groups that share a right side each copy it.
            cost += right / self.element * p.shared * row_blocks * costs.copied_right
        elif panels == "packed" and not self.right_prepacked:
            cost += right / self.element * costs.copied_right + 3 * right * costs.panel_byte(3 * right)[0]
            cost += costs.block * self.cores
        cost += items * costs.block
        return cost * -(-items // self.cores) / items * (1 + UNEVEN * self.cores / items)


def is_deep(m: int, n: int, k: int) -> bool:
    """Whether a product has so many terms that its sums are small compared to what is read."""
    return k >= DEEP * max(m, n)


def columns_vary_first(p: Product) -> bool:
    """Whether neighbouring items have the same rows: the larger side is read only once."""
    return p.m > p.n


def reads_as_vectors(access: Access | None) -> bool:
    """Whether a right side, by its `right_access`, can be used without panels: contiguous columns, rows at a constant
    distance."""
    return access is not None and access.position.factor("n") == 1 and access.position.factor("k") is not None


def _reads_as_well(step: int, p: Product) -> bool:
    """Whether rows of the right side at a distance of `step` are read from the first cache as fast as panels."""
    return step * p.k <= p.target.caches.first // 4 and p.n % VECTORS[p.name][1] == 0


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
