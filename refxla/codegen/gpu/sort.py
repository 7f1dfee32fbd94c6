"""The kernels of kind "sort" for GPUs: rows in the order of a comparator, stable whether that is asked for or not.

A comparator that compares keys orders the numbers of the elements (merge_sort.py, tiled_radix_sort.py); what is sorted
is then gathered.
Any other one merges the elements themselves (comparator_sort.py), unless there are so many operands that local memory
has no room for a few elements of each: then a work item merges a row, as on a CPU.
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
from .key_sort import KEY_BYTES
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
    ordering = [Key(rows, key) for key in sort_keys]

    def keys(block: Block, row: str, i: str) -> Sequence[str]:
        rows.begin_function()
        return [key.emit(rows.operand(key.number, row, i), block) for key in ordering]

    def use(block: Block, row: str, i: str, n: str) -> None:
        for k in rows.outputs:
            block.line(f"{rows.output(k, row, i)} = {rows.operand(k, row, n)};")

    types = tuple(key.ctype for key in ordering)
    arguments = tuple(rows.inputs_and_outputs())
    group = group_size(target)
    by_merges = MergeSort(fusion.name, rows.rows, rows.length, types, group, arguments, keys, use)
    return by_merges.by_digits([8 * KEY_BYTES[t] for t in types], target.local_bytes).kernels()
