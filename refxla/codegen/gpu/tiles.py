"""Tiles of a matrix product on a GPU, as data, and the choice among them.

A work-group computes a tile of the result. For some terms at a time, its items copy a block of each operand to local
memory; each item then multiplies its own rows and columns. An item's rows are in quads of up to four neighbours, and so
are its columns: a quad is 16 bytes of local memory, read at once, and the quads of neighbouring items are adjacent, so
that no two of them use the same bank.

If there are too few tiles for all compute units, and sums are long, the segments of the sums (contraction_order.py) are
distributed, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...device.description import Target


@dataclass(frozen=True)
class WorkGroupTile:
    """`rows` x `columns` of the result, of which an item has `item_rows` x `item_columns`; `terms` at a time."""

    rows: int
    columns: int
    terms: int
    item_rows: int
    item_columns: int

    @property
    def group(self) -> int:
        """The items of a work-group."""
        return self.rows // self.item_rows * (self.columns // self.item_columns)

    @property
    def density(self) -> float:
        """The fraction of the loop over terms that is spent on multiplications: an item loads its rows and columns in
        quads for each term, and the bookkeeping takes at least as long again."""
        multiplies = self.item_rows * self.item_columns
        loads = -(-self.item_rows // QUAD) + -(-self.item_columns // QUAD)
        return multiplies / (multiplies + LOAD * loads)

    def local_bytes(self, element: int) -> int:
        """The local memory of two blocks of either operand, with elements of so many bytes."""
        return 2 * self.terms * (self.rows + self.columns + 2 * PAD) * element


QUAD = 4  # neighbouring rows, or columns, of an item
PAD = 4  # elements between the lines of a block, so that those of a column are in different banks
REGISTER_BYTES = 256  # of the sums of an item

TILES = (
    WorkGroupTile(128, 128, 8, 8, 8),
    WorkGroupTile(128, 64, 16, 8, 4),
    WorkGroupTile(64, 128, 16, 4, 8),
    WorkGroupTile(64, 64, 16, 8, 4),
    WorkGroupTile(128, 32, 16, 8, 4),
    WorkGroupTile(32, 128, 16, 4, 8),
    WorkGroupTile(128, 64, 8, 8, 4),
    WorkGroupTile(64, 128, 8, 4, 8),
    WorkGroupTile(64, 64, 16, 4, 4),
    WorkGroupTile(128, 32, 16, 4, 4),
    WorkGroupTile(32, 128, 16, 4, 4),
    WorkGroupTile(256, 16, 8, 4, 4),
    WorkGroupTile(16, 256, 8, 4, 4),
    WorkGroupTile(32, 32, 16, 2, 2),
    WorkGroupTile(256, 4, 16, 4, 1),
    WorkGroupTile(4, 256, 16, 1, 4),
    WorkGroupTile(16, 16, 16, 1, 1),
    WorkGroupTile(64, 4, 32, 1, 1),
    WorkGroupTile(4, 64, 32, 1, 1),
)


# As measured on an H200 with f32:
LOAD = 3  # multiply-adds that take as long as a load of a quad with its overhead
RATE = 185.0  # multiply-adds a nanosecond of a compute unit
# The fraction of this rate that it reaches with at most so many sums, since it waits for memory:
LONELY, LONELY_SUMS = 0.86, 8192
MASKED_ROW = 1 / 80  # the additional time for each row of an item, as a fraction, if terms may be left out
COMBINE_NS, COMBINE_BYTE_NS = 5000.0, 0.0005  # of the kernel that adds the sums of segments
MOST_SPLIT_BYTES = 1 << 28  # of the sums of segments in memory


@dataclass(frozen=True)
class Split:
    """A tile, and the parts into which the segments of its terms are divided for several work-groups: `segments` in
    each."""

    tile: WorkGroupTile
    parts: int
    segments: int


def choose(
    groups: int, m: int, n: int, k: int, segment: int, target: Target, element: int, masked: bool = False
) -> Split:
    """The tile for `groups` products of m x n results of k terms, with sums of so many bytes, and the parts, that take
    the least time: that of the compute unit with most work-groups, which it runs one after the other, each for as long
    as its multiply-adds take. If sums have segments of so many terms (otherwise 0), parts of a tile's segments may have
    a work-group each, and a second kernel adds the sums of the segments. `masked`: terms may be left out.
    """
    count = -(-k // segment) if segment else 1
    split_sums = count * groups * m * n

    def time(split: Split) -> float:
        tile, terms = split.tile, k if split.parts == 1 else split.segments * segment
        tiles = groups * -(-m // tile.rows) * -(-n // tile.columns)
        sums = -(-tiles * split.parts // target.compute_units) * tile.rows * tile.columns  # of one compute unit
        rate = RATE * (LONELY if sums <= LONELY_SUMS else 1.0)
        work = sums * terms / tile.density / rate * (1 + MASKED_ROW * tile.item_rows if masked else 1.0)
        return work + (COMBINE_NS + 2 * element * split_sums * COMBINE_BYTE_NS if split.parts > 1 else 0.0)

    def fits(split: Split) -> bool:
        tile = split.tile
        totals = 2 if segment and split.parts == 1 else 1  # sums of the current segment, and of earlier ones
        small = tile.item_rows * tile.item_columns * element * totals <= REGISTER_BYTES
        return small and tile.group <= target.group_size and tile.local_bytes(element) <= target.local_bytes

    shares = [count]  # segments of a part
    while shares[-1] > 1 and split_sums * element <= MOST_SPLIT_BYTES:
        shares.append(-(-shares[-1] // 2))
    splits = (Split(tile, -(-count // n), n) for tile in TILES for n in shares)
    return min(filter(fits, splits), key=time)
