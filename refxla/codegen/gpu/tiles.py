"""Tiles of a matrix product on a GPU, as data, and the choice among them.

A work-group computes a tile of the result. For some terms at a time its items copy a block of either operand to local
memory; each item then multiplies the rows and columns that are its own. An item's rows lie in quads of up to four
neighbours, and so do its columns: a quad is 16 bytes of local memory, read at once, and the quads of neighbouring items
lie side by side, so that no two of them use the same bank.

Where the tiles are too few for all compute units, and sums are long, the segments of the sums (contraction_order.py)
are shared out, too.
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
        """Of the time of the loop over terms, the part that multiplies: an item loads its rows and columns by quads for
        each term, and the bookkeeping for all terms comes to as much again, or more."""
        multiplies = self.item_rows * self.item_columns
        loads = -(-self.item_rows // QUAD) + -(-self.item_columns // QUAD)
        return multiplies / (multiplies + LOAD * loads)

    def local_bytes(self, element: int) -> int:
        """The local memory of two blocks of either operand, with elements of so many bytes."""
        return 2 * self.terms * (self.rows + self.columns + 2 * PAD) * element


QUAD = 4  # neighbouring rows, or columns, of an item
PAD = 4  # elements between the lines of a block, so that those of a column lie in different banks
REGISTER_BYTES = 256  # of the sums of an item

TILES = (
    WorkGroupTile(128, 128, 8, 8, 8),
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
LOAD = 3  # multiply-adds that take as long as a load of a quad and what belongs to it
RATE = 185.0  # multiply-adds a nanosecond of a compute unit
LONELY, LONELY_SUMS = 0.86, 8192  # of this rate that it reaches with no more sums at a time: it waits for memory
MASKED_ROW = 1 / 80  # of the time that each row of an item takes longer where terms may be left out
COMBINE_NS, COMBINE_BYTE_NS = 5000.0, 0.0005  # of the kernel that adds the sums of segments
MOST_SPLIT_BYTES = 1 << 28  # of the sums of segments in memory


@dataclass(frozen=True)
class Split:
    """A tile, and the parts in which the segments of its terms are shared out among work-groups: `segments` in each."""

    tile: WorkGroupTile
    parts: int
    segments: int


def choose(
    groups: int, m: int, n: int, k: int, segment: int, target: Target, element: int, masked: bool = False
) -> Split:
    """The tile for `groups` products of m x n results of k terms, with sums of so many bytes, and the parts, that take
    the least time: the compute unit with most work-groups does one after the other, each as long as its multiply-adds
    take. Where sums have segments of so many terms (else 0), parts of a tile's segments may have a work-group each,
    which leaves the sums of the segments to a second kernel. `masked`: terms may be left out.
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
        totals = 2 if segment and split.parts == 1 else 1  # sums of the segment at hand, and of those before it
        small = tile.item_rows * tile.item_columns * element * totals <= REGISTER_BYTES
        return small and tile.group <= target.group_size and tile.local_bytes(element) <= target.local_bytes

    shares = [count]  # segments of a part
    while shares[-1] > 1 and split_sums * element <= MOST_SPLIT_BYTES:
        shares.append(-(-shares[-1] // 2))
    splits = (Split(tile, -(-count // n), n) for tile in TILES for n in shares)
    return min(filter(fits, splits), key=time)
