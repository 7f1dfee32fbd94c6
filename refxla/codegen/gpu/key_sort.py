"""The common part of sorts by keys on GPUs: the columns that are sorted, their keys, and their memory between
kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.plan import Argument
from ..c_block import Block

BYTES = {
    "uchar": 1, "char": 1, "ushort": 2, "short": 2, "uint": 4, "int": 4, "float": 4, "ulong": 8, "long": 8, "double": 8,
}  # fmt: skip


def _stored(block: Block, n: int, values: Sequence[str]) -> str:
    return values[n]


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class KeySort:
    """The sort of `rows` rows of `length` elements each, by keys of the C types `types`, the most significant first.

    Columns of the C types `columns` are moved: either the keys, which come first, and the number of their element, an
    int; or the elements themselves, from which `key(block, n, values)` computes key n.

    `arguments` are those of the kernels that load the elements, or use the result; their other arguments follow.
    `load(block, row, i)` gives the values of element i of a row, before the sort; `use(block, row, i, values)` gets
    those at place i of the order. Row, i and values are C expressions, and these functions may write statements.
    Without `use`, the sorted columns are stored in the memory of `results`. `begin` is called before each kernel is
    written, so that names can restart.
    """

    name: str
    rows: int
    length: int
    types: tuple[str, ...]
    columns: tuple[str, ...]
    group: int
    arguments: tuple[Argument, ...]
    load: Callable[[Block, str, str], Sequence[str]]
    key: Callable[[Block, int, Sequence[str]], str] = _stored
    use: Callable[[Block, str, str, Sequence[str]], None] | None = None
    begin: Callable[[], None] = _nothing

    def scratch(self, number: int) -> tuple[Argument, ...]:
        """The columns after step `number`, in one of two sets of buffers, alternately."""
        return tuple(
            Argument("scratch", t, bytes=BYTES[t] * self.rows * self.length, scratch=f"{'xy'[number % 2]}{n}")
            for n, t in enumerate(self.columns)
        )
