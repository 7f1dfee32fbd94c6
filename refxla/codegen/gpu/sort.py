"""The kernels of kind "sort" for GPUs: rows in the order of a comparator, always stable.

With a comparator of keys, the elements are sorted themselves if they take no more memory than their keys and a number;
otherwise their numbers are sorted, and the operands gathered (merge_sort.py, tiled_radix_sort.py). With any other one,
the elements are merge-sorted (comparator_sort.py), unless there are so many operands that a few elements of each do not
fit in local memory: then a work item merges a row, as on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.sorting import keys_of

from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from .. import sort
from ..c_block import Block
from ..radix_sort import Key
from ..sort_rows import SortRows
from .comparator_sort import ComparatorSort
from .key_sort import BYTES
from .merge_sort import MergeSort
from .work_groups import group_size


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a sort of one or several operands along one dimension."""
    rows = SortRows(fusion, target)
    sort_keys = keys_of(rows.hero.to_apply)
    if not rows.items:
        return sort.emit(fusion, target)
    if sort_keys is None:
        merging = ComparatorSort.choose(rows)
        return sort.emit(fusion, target) if merging is None else merging.kernels()
    keys = [Key(rows, key) for key in sort_keys]
    moved = sorted({*rows.outputs, *(key.number for key in keys)})
    numbered = sum(BYTES[key.ctype] for key in keys) + BYTES["int"]
    if sum(BYTES.get(rows.storage[k], numbered + 1) for k in moved) <= numbered:
        sorting = _of_elements(rows, keys, moved)
    else:
        sorting = _of_numbers(rows, keys)
    return sorting.by_digits([8 * BYTES[key.ctype] for key in keys], target.local_bytes).kernels()


def _of_elements(rows: SortRows, keys: Sequence[Key], moved: Sequence[int]) -> MergeSort:
    """The sort that moves the operands of numbers `moved`."""

    def load(block: Block, row: str, i: str) -> Sequence[str]:
        return [rows.operand(k, row, i, block) for k in moved]

    def key(block: Block, n: int, values: Sequence[str]) -> str:
        return keys[n].emit(values[moved.index(keys[n].number)], block)

    def use(block: Block, row: str, i: str, values: Sequence[str]) -> None:
        for k in rows.outputs:
            block.line(f"{rows.output(k, row, i)} = {values[moved.index(k)]};")

    return MergeSort(
        rows.fusion.name, rows.rows, rows.length, tuple(key.ctype for key in keys),
        tuple(rows.storage[k] for k in moved), group_size(rows.target), tuple(rows.inputs_and_outputs()),
        load, key, use, rows.begin_function,
    )  # fmt: skip


def _of_numbers(rows: SortRows, keys: Sequence[Key]) -> MergeSort:
    """The sort that moves keys and numbers, and finally gathers the operands."""

    def load(block: Block, row: str, i: str) -> Sequence[str]:
        return [*(key.emit(rows.operand(key.number, row, i, block), block) for key in keys), i]

    def use(block: Block, row: str, i: str, values: Sequence[str]) -> None:
        for k in rows.outputs:
            block.line(f"{rows.output(k, row, i)} = {rows.operand(k, row, values[-1], block)};")

    types = tuple(key.ctype for key in keys)
    return MergeSort(
        rows.fusion.name, rows.rows, rows.length, types, (*types, "int"), group_size(rows.target),
        tuple(rows.inputs_and_outputs()), load, use=use, begin=rows.begin_function,
    )  # fmt: skip
