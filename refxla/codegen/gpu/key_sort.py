"""What sorts by keys have in common on GPUs: what is sorted, and the memory of keys and numbers between kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.plan import Argument
from ..c_block import Block

KEY_BYTES = {"uchar": 1, "ushort": 2, "uint": 4, "ulong": 8}


@dataclass(frozen=True)
class KeySort:
    """The sort of `rows` rows of `length` elements each, by keys of the C types `types`, the most significant first.

    `arguments` are those of the kernels that compute keys, or use the result; their other arguments follow. `keys`
    writes statements and gives the C expressions of the keys of element (row, i); `use` writes the statements for the
    place (row, i) of the order, which element (row, n) takes: row, i and n are C variables of type int. Without it, the
    keys in order and the numbers of their elements are left in the memory of `results`.
    """

    name: str
    rows: int
    length: int
    types: tuple[str, ...]
    group: int
    arguments: tuple[Argument, ...]
    keys: Callable[[Block, str, str], Sequence[str]]
    use: Callable[[Block, str, str, str], None] | None = None

    def scratch(self, number: int) -> tuple[Argument, ...]:
        """The buffers of step `number`, one of two sets in turn: of the keys, and of the numbers of the elements."""
        size, name = self.rows * self.length, "xy"[number % 2]
        keys = [
            Argument("scratch", t, bytes=KEY_BYTES[t] * size, scratch=f"{name}{n}") for n, t in enumerate(self.types)
        ]
        return (*keys, Argument("scratch", "int", bytes=4 * size, scratch=f"{name}.numbers"))
