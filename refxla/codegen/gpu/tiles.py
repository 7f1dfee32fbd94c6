"""Tiles of a matrix product on a GPU, as data, and the choice among them.

A work-group computes a tile of the result. For some terms at a time its items copy a block of either operand to local
memory; each item then multiplies the rows and columns that are its own. An item's rows lie in quads of up to four
neighbours, and so do its columns: a quad is 16 bytes of local memory, read at once, and the quads of neighbouring items
lie side by side, so that no two of them use the same bank.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...device.description import Target


@dataclass(frozen=True)
class Tile:
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
        """Of the instructions of the loop over terms, the part that multiplies: an item loads its rows and columns by
        quads for each term."""
        multiplies = self.item_rows * self.item_columns
        loads = -(-self.item_rows // QUAD) + -(-self.item_columns // QUAD)
        return multiplies / (multiplies + 2 * loads)

    def local_bytes(self, element: int) -> int:
        """The local memory of two blocks of either operand, with elements of so many bytes."""
        return 2 * self.terms * (self.rows + self.columns + 2 * PAD) * element


QUAD = 4  # neighbouring rows, or columns, of an item
PAD = 4  # elements between the lines of a block, so that those of a column lie in different banks
REGISTER_BYTES = 256  # of the sums of an item

TILES = (
    Tile(128, 128, 8, 8, 8),
    Tile(128, 64, 8, 8, 4),
    Tile(64, 128, 8, 4, 8),
    Tile(64, 64, 16, 4, 4),
    Tile(128, 32, 16, 4, 4),
    Tile(32, 128, 16, 4, 4),
    Tile(32, 32, 16, 2, 2),
    Tile(256, 4, 16, 4, 1),
    Tile(4, 256, 16, 1, 4),
    Tile(16, 16, 16, 1, 1),
    Tile(64, 4, 32, 1, 1),
    Tile(4, 64, 32, 1, 1),
)


def choose(groups: int, m: int, n: int, target: Target, element: int) -> Tile:
    """The tile for `groups` products of m x n results, with sums of so many bytes, that takes the least time: the
    compute unit with most work-groups does one after the other, each as long as its multiply-adds take."""

    def time(tile: Tile) -> float:
        count = groups * -(-m // tile.rows) * -(-n // tile.columns)
        return -(-count // target.compute_units) * tile.rows * tile.columns / tile.density

    def fits(tile: Tile) -> bool:
        small = tile.item_rows * tile.item_columns * element <= REGISTER_BYTES
        return small and tile.group <= target.group_size and tile.local_bytes(element) <= target.local_bytes

    return min(filter(fits, TILES), key=time)
