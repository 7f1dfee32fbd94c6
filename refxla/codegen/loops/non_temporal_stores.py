"""Non-temporal stores: results that are larger than the caches are written past them, in whole lines.

An ordinary store reads the line from memory first and evicts another one, although the line will be evicted itself
before it is used. Here a loop computes a piece of its results into a private array, which is then written: whole lines
past the caches, and the elements at its ends normally, since other items have the rest of their lines.

    for (int b = first; b < last; b = e) {
        const int e = <the end of the last whole line in a piece from b on>;
        for (int i = b; i < e; ++i) lines[i - b] = <element i>;
        rx_copy_non_temporal(<the place of element b>, lines, e - b);
    }

Short rows that are contiguous in memory are collected until there are enough of them (`joined`).

Elements that are only moved do not go through an array: they are copied directly, a contiguous run at a time
(rx_copy_non_temporal), or row by row (`appended`), where only a line that two rows share is assembled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access, AccessPattern, Store
from ...device.description import LINE, Target
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of

PIECE = 1 << 10  # bytes of a piece of a result: while one is written, the next one is already being read
JOINED = 1 << 11  # bytes of short rows that are collected
LEAST_RUN = 1 << 9  # contiguous bytes, from which on pieces pay
LEAST_APPENDED = 2 * LINE  # bytes of a row that is moved, so that it contains a whole line wherever it begins
MIN_RANGE_ELEMENTS = 64  # elements of a range of a loop, below which they are stored normally
MOST_RESULTS = 4
_BYTES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4}

Bounds = tuple[str, str, str]  # C: the type of an index, its first value, the value after its last


def storage(i: Instruction) -> str:
    """The C type of its elements in memory."""
    return scalar.storage_type(type_name(i))


def size_of(i: Instruction) -> int:
    """Bytes of one element in memory."""
    return _BYTES.get(storage(i), i.shape.element_type.bits // 8)


def applies(target: Target, stores: Sequence[Store], count: int, inner: str, run: int) -> bool:
    """Whether `count` elements of each result are written past the caches, by loops whose innermost ones run over `run`
    of them, with the variable `inner`."""
    return _may(target, stores, count, inner) and run * min(size_of(s.instruction) for s in stores) >= LEAST_RUN


def joins(target: Target, stores: Sequence[Store], count: int, row: str, inner: str, run: int) -> bool:
    """Whether they are written so by loops over rows of `run` elements that are collected, with the variable `row`."""
    short = all(run * size_of(s.instruction) < JOINED for s in stores)
    return short and _follow(stores, row, run) and _may(target, stores, count, inner)


def appends(target: Target, pattern: AccessPattern, count: int, row: str, inner: str, run: int) -> bool:
    """Whether they are written so by loops over rows of `run` elements that are only moved, each from one place."""
    stores = pattern.stores
    if moved(pattern, inner) is None or not _follow(stores, row, run) or not _may(target, stores, count, inner):
        return False
    return run * size_of(stores[0].instruction) >= LEAST_APPENDED


def moved(pattern: AccessPattern, inner: str) -> Access | None:
    """The load whose elements are stored, if the only store is a copy of contiguous elements, with the variable
    `inner`."""
    if len(pattern.stores) != 1 or pattern.stores[0].position.factor(inner) != 1:
        return None
    source = None
    for access in pattern.accesses:
        if is_moved(access, pattern.stores[0]) and access.position.factor(inner) == 1 and not access.conditional:
            source = access
        elif inner in access.position.variables:
            return None
    return source


def is_moved(access: Access, store: Store) -> bool:
    """Whether a store writes the bits that were read, of a type for which every bit pattern is valid."""
    name = type_name(store.instruction)
    whole = name != "pred" and store.instruction.shape.element_type.bits >= 8
    return access.name == store.value and type_name(access.instruction) == name and whole


def _follow(stores: Sequence[Store], row: str, run: int) -> bool:
    return all(s.position.factor(row) == run for s in stores)


def _may(target: Target, stores: Sequence[Store], count: int, inner: str) -> bool:
    if not target.capabilities.non_temporal_stores or not 0 < len(stores) <= MOST_RESULTS:
        return False
    if any(s.position.factor(inner) != 1 for s in stores):
        return False
    return count * sum(size_of(s.instruction) for s in stores) >= target.caches.last


@contextmanager
def pieces(
    e: ElementalIrEmitter,
    block: Block,
    bounds: Bounds,
    outputs: Sequence[Instruction],
    stores_at: Callable[[str], Sequence[Store]],
    start: Callable[[str, int], None] = lambda name, piece: None,
) -> Iterator[str]:
    """The loop of these bounds in pieces; gives the name of the index. `stores_at` gives the stores of the outputs at
    the index of that name, which is in scope; `start` emits the first statements of a piece that begins at an index and
    has at most so many elements."""
    (c_type, first, last), fresh = bounds, e.names.fresh
    begin, end, name = fresh("b"), fresh("e"), fresh("i")
    piece = PIECE // max(map(size_of, outputs))
    lines = {o: fresh("lines") for o in outputs}
    for output, array in lines.items():
        block.line(f"{storage(output)} {array}[{piece}] __attribute__((aligned({LINE})));")
    with block.scope(f"for ({c_type} {begin} = {first}, {end}; {begin} < {last}; {begin} = {end})"):
        stores = stores_at(begin)
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
            count, bits = words(s.instruction, f"({end} - {begin})")
            block.line(f"rx_copy_non_temporal_u{bits}((ulong)({place(e, s)}), (ulong){lines[s.instruction]}, {count});")


@contextmanager
def joined(
    e: ElementalIrEmitter, block: Block, stores: Sequence[Store], run: int, unroll: bool
) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    """The context of a loop over rows of `run` elements, the first of which is stored by `stores`. Gives the context of
    the statements of a row's elements, which opens the loop over them and gives the name of the index. With `unroll`
    that loop is unrolled."""
    fresh = e.names.fresh
    lines = {s.instruction: (fresh("lines"), fresh("n"), fresh("to")) for s in stores}
    for s in stores:
        array, count, to = lines[s.instruction]
        size = (JOINED + LINE) // size_of(s.instruction) + run
        block.line(f"{storage(s.instruction)} {array}[{size}] __attribute__((aligned({LINE})));")
        block.line(f"int {count} = 0;")
        block.line(f"ulong {to} = (ulong)({place(e, s)});")

    @contextmanager
    def row() -> Iterator[str]:
        name = fresh("i")
        for output, (array, count, _) in lines.items():
            e.gather(output, f"{array}[{count} + {name}]")
        if unroll:
            block.line("#pragma unroll")
        with block.scope(f"for (int {name} = 0; {name} < {run}; ++{name})"):
            yield name
        for output, (array, count, to) in lines.items():
            e.gather(output, None)
            moved, bits = words(output, count)
            block.line(f"{count} += {run};")
            with block.scope(f"if ({count} >= {JOINED // size_of(output)})"):
                rest = fresh("n")
                block.line(
                    f"const int {rest} = rx_flush_lines_u{bits}({to}, (ulong){array}, {moved}) / {size_of(output)};"
                )
                block.line(f"{to} += ({count} - {rest}) * {size_of(output)}ul;")
                block.line(f"{count} = {rest};")

    yield row
    for output, (array, count, to) in lines.items():
        moved, bits = words(output, count)
        block.line(f"rx_copy_non_temporal_u{bits}({to}, (ulong){array}, {moved});")


@contextmanager
def appended(e: ElementalIrEmitter, block: Block, store: Store, run: int) -> Iterator[Callable[[str, str], None]]:
    """The context of a loop over rows of `run` elements, the first of which is stored by `store`. Gives a function that
    emits the statements of a row, from its address and a C condition for its being the first one."""
    line, to = e.names.fresh("line"), e.names.fresh("to")
    bytes_of_row = run * size_of(store.instruction)
    block.line(f"uchar {line}[{3 * LINE}] __attribute__((aligned({LINE})));")
    block.line(f"ulong {to} = (ulong)({place(e, store)});")

    def emit(source: str, first: str) -> None:
        block.line(append(to, source, bytes_of_row, line, first))
        block.line(f"{to} += {bytes_of_row};")

    yield emit
    block.line(append_rest(to, line))


def append(to: str, source: str, count: int, line: str, first: str) -> str:
    """The statement that moves so many bytes to an address; the end of earlier bytes waits at `line`, which has room
    for three lines (see rx_append_row in prelude/non_temporal_stores.cl)."""
    return f"rx_append_row({to}, (ulong)({source}), {count}, (ulong)({line} + {LINE}), {first});"


def append_rest(to: str, line: str) -> str:
    """The statement that writes the bytes that wait there, up to the address `to`."""
    return f"rx_append_tail({to}, (ulong)({line} + {LINE}));"


def words(i: Instruction, count: str) -> tuple[str, int]:
    """The number of words, and their bits, as which the prelude moves so many elements."""
    size = size_of(i)
    return (count if size <= 8 else f"{size // 8} * {count}"), 8 * min(8, size)


def lines_of(
    output: Instruction, to: str, step: int, gathered: str, rest: str, columns: str, rows: str, height: int, first: str
) -> str:
    """The statement that writes a block of a result, whose first column begins at the address `to`; its elements, and a
    line before those of each column, are at `gathered` (see rx_store_lines in prelude/non_temporal_stores.cl)."""
    (rows, bits), (strip, _), (stride, _) = words(output, rows), words(output, str(height)), words(output, f"{step}l")
    to, gathered, rest = f"(ulong)({to})", f"(ulong)({gathered})", f"(ulong)({rest})"
    return f"rx_store_lines_u{bits}({to}, {stride}, {gathered}, {rest}, {columns}, {rows}, {strip}, {first});"


def place(e: ElementalIrEmitter, store: Store) -> str:
    """The address of a store, as C."""
    return f"{e.output(store.instruction)} + ({c_of(store.position)})"
