"""Results that are larger than caches are written past them, in whole lines.

A line that is stored to is otherwise read from memory before, and drives out another, though nobody will find it there
when it is wanted. A loop computes a piece of its results into a private array, which is then written: the lines that
lie in it as a whole past the caches, what is left at its ends as ever, since other items have the rest of those lines.

    for (int b = first; b < last; b = e) {
        const int e = <the end of the last whole line in a piece from b on>;
        for (int i = b; i < e; ++i) lines[i - b] = <element i>;
        rx_stream(<the place of element b>, lines, e - b);
    }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from refxla_spec.module import Instruction

from .. import scalar
from ..block import Block
from ..expressions import Elements, Store, type_name
from ..target import LINE, Target

STREAMED = 1 << 25  # bytes of results from which on they are written past the caches
PIECE = 1 << 11  # bytes of a piece of a result
LEAST_RUN = 1 << 9  # bytes that must follow each other in memory for it to be worth pieces
SHORT = 64  # elements of a range of a loop, below which they are stored as ever
MOST_RESULTS = 4
_BYTES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4}

Bounds = tuple[str, str, str]  # C: the type of an index, its first value, the value behind its last


def storage(i: Instruction) -> str:
    """The C type of its elements in memory."""
    return scalar.storage_type(type_name(i))


def size_of(i: Instruction) -> int:
    """Bytes of one element in memory."""
    return _BYTES.get(storage(i), i.shape.element_type.bits // 8)


def applies(target: Target, stores: Sequence[Store], count: int, inner: str, run: int) -> bool:
    """Whether `count` elements of each result are written past the caches, by loops whose innermost ones go through
    `run` of them, counted by the variable `inner`."""
    if target.kind != "cpu" or not target.clang or not 0 < len(stores) <= MOST_RESULTS:
        return False
    if any(s.position.factor(inner) != 1 for s in stores):
        return False
    sizes = [size_of(s.instruction) for s in stores]
    return count * sum(sizes) >= STREAMED and run * min(sizes) >= LEAST_RUN


@contextmanager
def pieces(
    e: Elements,
    block: Block,
    bounds: Bounds,
    probe: Callable[[str], Sequence[Store]],
    start: Callable[[str, int], None] = lambda name, piece: None,
) -> Iterator[str]:
    """The loop of these bounds in pieces; gives the name of the index. `probe` gives the stores at one of a name;
    `start` emits what comes first in a piece that begins at one, and has so many elements at most."""
    (c_type, first, last), fresh = bounds, e.names.fresh
    begin, end, name = fresh("b"), fresh("e"), fresh("i")
    stores = probe(begin)
    piece = PIECE // max(size_of(s.instruction) for s in stores)
    lines = {s.instruction: fresh("lines") for s in stores}
    for output, array in lines.items():
        block.line(f"{storage(output)} {array}[{piece}] __attribute__((aligned({LINE})));")
    with block.scope(f"for ({c_type} {begin} = {first}, {end}; {begin} < {last}; {begin} = {end})"):
        behind = f"(int)((ulong)({place(e, stores[0])}) % {LINE} / {size_of(stores[0].instruction)})"
        block.line(f"{end} = {begin} + {piece} - {behind};")
        block.line(f"{end} = {end} < {last} ? {end} : {last};")
        start(begin, piece)
        for output, array in lines.items():
            e.gather(output, f"{array}[{name} - {begin}]")
        with block.scope(f"for ({c_type} {name} = {begin}; {name} < {end}; ++{name})"):
            yield name
        for s in stores:
            e.gather(s.instruction, None)
            size = size_of(s.instruction)
            count = f"{end} - {begin}" if size <= 8 else f"{size // 8} * ({end} - {begin})"
            block.line(
                f"rx_stream_u{8 * min(8, size)}((ulong)({place(e, s)}), (ulong){lines[s.instruction]}, {count});"
            )


def line(output: Instruction, to: str, gathered: str, count: str, height: int, first: str) -> str:
    """The statement that writes a strip of a result to the place `to`; its elements, and a line before them, lie at
    `gathered` (see rx_line in prelude/stream.cl)."""
    size = size_of(output)
    parts, bits = max(1, size // 8), 8 * min(8, size)
    count = count if parts == 1 else f"{parts} * {count}"
    return f"rx_line_u{bits}((ulong)({to}), (void*)({gathered}), {count}, {parts * height}, {first});"


def place(e: Elements, store: Store) -> str:
    """Where in memory it goes, as C."""
    return f"{e.output(store.instruction)} + ({store.position})"
