"""The kernels of kind "scatter" for GPUs: updates combined in their order, in place.

Updates of one block must go one after the other, those of different blocks need not. So the numbers of the updates are
sorted by their blocks, stably (merge_sort.py); of the items, one for each element of an update, those at the first
update of a block in that order combine it and the ones that follow. Updates outside of the operand come last. Where no
two updates hit the same element, or there are few, or where blocks overlap, the kernel is that of a CPU, an item for
each element of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scatter
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import input_argument
from ..scatter import ScatterWalk
from .merge_sort import MergeSort
from .work_groups import group_size

FEW = 32  # updates that an item goes through one by one
_OUTSIDE = "0xffffffffu"  # the key of an update that lies outside
_MOST_BLOCKS = 1 << 31


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a scatter. UnsupportedError where one of several results is not asked for."""
    return scatter.kernels(fusion, target, _combining)


def _combining(fusion: Fusion, target: Target, walk: ScatterWalk, written: Sequence[Argument]) -> tuple[Kernel, ...]:
    """The kernels that sort the numbers of the updates, and the one that combines the updates."""
    blocks = prod(_block_sizes(walk))
    if not walk.items or walk.is_unique() or not walk.is_single() or _count(walk) <= FEW or blocks >= _MOST_BLOCKS:
        return scatter.combining_kernel(fusion, target, walk, written)
    group, count = group_size(target), _count(walk)
    inputs = scatter.inputs_of(fusion, [walk.indices])
    order = MergeSort(
        f"{fusion.name}.order", 1, count, ("uint",), group, tuple(map(input_argument, inputs)),
        partial(_keys, ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(inputs)}), walk),
    )  # fmt: skip
    updates = scatter.inputs_of(fusion, walk.updates)
    keys, numbers, *pointers = (f"a{len(updates) + n}" for n in range(2 + len(written)))
    e, block = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(updates)}), Block()
    window = [walk.sizes[d] for d in walk.window]
    items = count * prod(window)
    block.line(f"const int unit = group * {group} + item;")
    with block.scope(f"if (unit < {items})"):
        block.line(f"const int first = unit / {prod(window)};")
        block.line(f"const uint key = {keys}[first];")
        with block.scope(f"if ((key != {_OUTSIDE}) && (first == 0 || {keys}[first - 1] != key))"):
            block.line("const int place = (int)key;")
            with block.scope(f"for (int i = first; i < {count} && {keys}[i] == key; ++i)"):
                block.line(f"const int n = {numbers}[i];")
                element = variable("unit", 0, items - 1) % prod(window)
                at = dict(zip(walk.window, delinearize(element, window), strict=True)) | _update(walk, "n")
                walk.combine(e, block, pointers, at, _starts(walk, "place"))
    arguments = (*map(input_argument, updates), *order.results, *written)
    kernel = Kernel(fusion.name, block.text(), arguments, -(-items // group) * group, group=group)
    return (*order.kernels(), kernel)


def _keys(e: ElementalIrEmitter, walk: ScatterWalk, block: Block, row: str, i: str) -> list[str]:
    """The number of the block that update i is of, as C."""
    starts, conditions = walk.starts(e, block, _update(walk, i))
    place = linearize([starts[d] for d in _block_dimensions(walk)], _block_sizes(walk))
    return [
        f"{' & '.join(conditions)} ? (uint)({c_of(place)}) : {_OUTSIDE}" if conditions else f"(uint)({c_of(place)})"
    ]


def _count(walk: ScatterWalk) -> int:
    """How many updates there are."""
    return prod(walk.sizes[d] for d in walk.batch)


def _update(walk: ScatterWalk, number: str) -> dict[int, Index]:
    """The indices of an update in the dimensions that count updates, given the C variable of its number."""
    sizes = [walk.sizes[d] for d in walk.batch]
    return dict(zip(walk.batch, delinearize(variable(number, 0, prod(sizes) - 1), sizes), strict=True))


def _block_dimensions(walk: ScatterWalk) -> list[int]:
    """The dimensions of the operand that tell blocks apart."""
    return sorted({*walk.hero.scatter_dims_to_operand_dims, *walk.hero.input_batching_dims})


def _block_sizes(walk: ScatterWalk) -> list[int]:
    return [walk.operands[0].shape.dimensions[d] for d in _block_dimensions(walk)]


def _starts(walk: ScatterWalk, place: str) -> list[Index]:
    """Where the block begins whose number is the C variable `place`."""
    starts, sizes = [constant(0)] * walk.operands[0].shape.rank, _block_sizes(walk)
    found = delinearize(variable(place, 0, prod(sizes) - 1), sizes)
    for d, start in zip(_block_dimensions(walk), found, strict=True):
        starts[d] = start
    return starts
