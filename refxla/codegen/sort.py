"""The kernels of kind "sort": rows in the order of a comparator, always stable.

A comparator of keys is sorted by `radix_sort`. Any other is inlined, and rows are merge-sorted: runs of a few elements
are sorted by insertion, then merged in pairs between two buffers. An item sorts one row or several short ones. If only
a few elements of each row are read (passes/partial_sort.py), they are selected: the first elements so far are kept in
order, and a block without a smaller key is skipped.
"""

from __future__ import annotations

from refxla_spec.sorting import keys_of

from ..device.description import Target
from ..ir.partial_sorts import first_of
from ..ir.plan import Fusion, Kernel
from . import radix_sort, scalar
from .c_block import Block
from .sort_rows import SortRows

RUN = 8  # elements that are sorted by insertion
SELECTED = 64  # elements of a row that are selected, at most
SELECTED_OF = 4  # the elements of a row, at least, for each selected one
BLOCK = 64  # elements that are tested at once


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a sort of one or several operands along one dimension."""
    rows = SortRows(fusion, target)
    sort_keys = keys_of(rows.hero.to_apply)
    if sort_keys is not None and rows.items:
        keys = [radix_sort.Key(rows, key) for key in sort_keys]
        count = first_of(rows.hero)
        if count is not None and len(keys) == 1 and SELECTED_OF * count <= rows.length and count <= SELECTED:
            return (_selected(rows, keys[0], count),)
        if radix_sort.applies(rows, keys):
            return radix_sort.kernels(rows, keys)
    return (_merged(rows),)


def _selected(rows: SortRows, key: radix_sort.Key, count: int) -> Kernel:
    """The kernel that writes the first `count` elements of each sorted row: `keys` and `places` are those of the first
    so far.

    Equal elements stay in order, since a later one is inserted before others only if its key is smaller.
    """
    block, length = Block(), rows.length
    with rows.open_row(block) as row:
        block.line(f"{key.ctype} keys[{count}];")
        block.line(f"int places[{count}];")
        block.line("int found = 0;")
        with block.scope(f"for (int low = 0; low < {length}; low += {BLOCK})"):
            high = f"low + {BLOCK}"
            if length % BLOCK:
                high = f"({high} < {length} ? {high} : {length})"
            block.line(f"const int high = {high};")
            with block.scope(f"if (found == {count})"):
                block.line(f"const {key.ctype} last = keys[{count - 1}];")
                block.line("int some = 0;")
                with block.scope("for (int i = low; i < high; ++i)"):
                    block.line(f"some |= {key.emit(rows.operand(key.number, row, 'i', block), block)} < last;")
                block.line("if (!some) continue;")
            with block.scope("for (int i = low; i < high; ++i)"):
                own = key.emit(rows.operand(key.number, row, "i", block), block)
                block.line(f"if (found == {count} && {own} >= keys[{count - 1}]) continue;")
                block.line(f"int j = found < {count} ? found++ : {count - 1};")
                with block.scope(f"for (; j > 0 && keys[j - 1] > {own}; --j)"):
                    block.line("keys[j] = keys[j - 1];")
                    block.line("places[j] = places[j - 1];")
                block.line(f"keys[j] = {own};")
                block.line("places[j] = i;")
        with block.scope(f"for (int i = 0; i < {count}; ++i)"):
            block.line("const int from = places[i];")
            for k in rows.outputs:
                block.line(f"{rows.output(k, row, 'i')} = {rows.operand(k, row, 'from', block)};")
    return Kernel(rows.fusion.name, block.text(), tuple(rows.inputs_and_outputs()), rows.items, global_only=True)


def _merged(rows: SortRows) -> Kernel:
    """The kernel that merges. For operand k, s_k and d_k are the buffers that are merged from and to."""
    block = Block()
    every = range(len(rows.operands))
    arguments = rows.inputs_and_outputs()
    first = len(arguments)
    arguments += [rows.scratch(b, k) for k in every for b in "xy"]
    if rows.items:
        with rows.open_row(block) as row:
            for k, c in enumerate(rows.storage):
                block.line(f"__global {c}* s{k} = a{first + 2 * k} + (long){row} * {rows.length};")
                block.line(f"__global {c}* d{k} = a{first + 2 * k + 1} + (long){row} * {rows.length};")
            with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
                for k in every:
                    block.line(f"s{k}[i] = {rows.operand(k, row, 'i', block)};")
            _sort_runs(rows, block)
            if rows.length > RUN:
                _merge(rows, block)
            with block.scope(f"for (int i = 0; i < {rows.length}; ++i)"):
                for k in rows.outputs:
                    block.line(f"{rows.output(k, row, 'i')} = s{k}[i];")
    return Kernel(rows.fusion.name, block.text(), tuple(arguments), rows.items, global_only=True)


def _sort_runs(rows: SortRows, block: Block) -> None:
    length = rows.length
    with block.scope(f"for (int low = 0; low < {length}; low += {RUN})"):
        block.line(f"const int high = low + {RUN} < {length} ? low + {RUN} : {length};")
        insertion_sort(rows, block, "low", "high")


def insertion_sort(rows: SortRows, block: Block, low: str, high: str) -> None:
    """Sort elements `low` to `high` - 1 (C) of the arrays s0, s1, ... by insertion; stably."""
    every = range(len(rows.operands))
    with block.scope(f"for (int i = {low} + 1; i < {high}; ++i)"):
        for k, c in enumerate(rows.storage):
            block.line(f"const {c} t{k} = s{k}[i];")
        block.line("int j = i;")
        with block.scope(f"while (j > {low})"):
            before = comes_before(rows, block, [f"t{k}" for k in every], [f"s{k}[j - 1]" for k in every])
            block.line(f"if (!{before}) break;")
            for k in every:
                block.line(f"s{k}[j] = s{k}[j - 1];")
            block.line("--j;")
        for k in every:
            block.line(f"s{k}[j] = t{k};")


def _merge(rows: SortRows, block: Block) -> None:
    every, length = range(len(rows.operands)), rows.length
    with block.scope(f"for (int width = {RUN}; width < {length}; width *= 2)"):
        with block.scope(f"for (int low = 0; low < {length}; low += 2 * width)"):
            block.line(f"const int middle = low + width < {length} ? low + width : {length};")
            block.line(f"const int high = low + 2 * width < {length} ? low + 2 * width : {length};")
            block.line("int i = low, j = middle, n = low;")
            with block.scope("while (i < middle & j < high)"):
                # The right one goes first only if it must, which keeps the sort stable.
                before = comes_before(rows, block, [f"s{k}[j]" for k in every], [f"s{k}[i]" for k in every])
                block.line(f"const int right = {before} != 0;")
                block.line("const int from = right ? j : i;")
                for k in every:
                    block.line(f"d{k}[n] = s{k}[from];")
                block.line("j += right;")
                block.line("i += !right;")
                block.line("++n;")
            for side, end in (("i", "middle"), ("j", "high")):
                moves = " ".join(f"d{k}[n] = s{k}[{side}];" for k in every)
                block.line(f"for (; {side} < {end}; ++{side}, ++n) {{ {moves} }}")
        for k, c in enumerate(rows.storage):
            block.line(f"{{ __global {c}* t = s{k}; s{k} = d{k}; d{k} = t; }}")


def comes_before(rows: SortRows, block: Block, left: list[str], right: list[str]) -> str:
    """The comparator's answer to whether one tuple of stored values comes before another."""
    args = []
    for t, a, b in zip(rows.types, left, right, strict=True):
        args += [rows.e.assign(t, scalar.load(t, a), block), rows.e.assign(t, scalar.load(t, b), block)]
    (answer,) = rows.e.apply(rows.hero.to_apply, args, block)
    return answer
