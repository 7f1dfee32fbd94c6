"""The kernels of kind "scatter" for GPUs: updates combined in their order, in place.

What hits one element must be combined one after the other, what hits different ones need not. So the numbers of the
elements of the updates are sorted by what they hit, stably (merge_sort.py, tiled_radix_sort.py): by their indices in
those dimensions of the operand that the scatter indexes, since in the others an element of an update has its place. An
item for each of them looks at the keys; those that are the first of their key in that order combine it and the ones
that follow. What lies outside of the operand comes last. Where no element is hit twice, nothing is sorted. A few
updates are combined as on a CPU, by an item for each element in the dimensions that are not indexed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar, scatter
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import input_argument
from ..scatter import ScatterWalk
from .merge_sort import MergeSort
from .work_groups import group_size

AT_A_TIME = 32  # updates that an item loads together
MAX_SERIAL_NUMBERS = 32  # numbers that an item goes through one by one
_MOST_NUMBERS = 1 << 31


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a scatter. UnsupportedError where one of several results is not asked for."""
    return scatter.kernels(fusion, target, _combining)


def _combining(fusion: Fusion, target: Target, walk: ScatterWalk, written: Sequence[Argument]) -> tuple[Kernel, ...]:
    """The kernels that combine the updates."""
    if not walk.items or max(prod(_indexed_sizes(walk)), prod(walk.sizes)) >= _MOST_NUMBERS:
        return scatter.combining_kernel(fusion, target, walk, written)
    if walk.is_unique() or prod(walk.sizes[d] for d in walk.batch) == 1:
        return (_apart(fusion, target, walk, written),)
    if prod(walk.sizes[d] for d in _numbered(walk)) <= MAX_SERIAL_NUMBERS:
        return scatter.combining_kernel(fusion, target, walk, written)
    return _sorted(fusion, target, walk, written)


def _apart(fusion: Fusion, target: Target, walk: ScatterWalk, written: Sequence[Argument]) -> Kernel:
    """The kernel that combines updates of which no two hit the same element: an item for each element of theirs."""
    group, items = group_size(target), prod(walk.sizes)
    inputs = scatter.inputs_of(fusion, (walk.indices, *walk.updates))
    e, block = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(inputs)}), Block()
    block.line(f"const int unit = group * {group} + item;")
    with block.scope(f"if (unit < {items})"):
        at = dict(enumerate(delinearize(variable("unit", 0, items - 1), walk.sizes)))
        starts, conditions = walk.starts(e, block, at)
        with block.scope(f"if ({' & '.join(conditions)})" if conditions else ""):
            pointers = [f"a{len(inputs) + n}" for n in range(len(written))]
            walk.combine(e, block, pointers, at, walk.place(at, starts))
    arguments = (*map(input_argument, inputs), *written)
    return Kernel(fusion.name, block.text(), arguments, -(-items // group) * group, work_group=group)


def _sorted(fusion: Fusion, target: Target, walk: ScatterWalk, written: Sequence[Argument]) -> tuple[Kernel, ...]:
    """The kernels that sort the numbers, and the one that combines what has the same key."""
    group, numbered = group_size(target), _numbered(walk)
    count = prod(walk.sizes[d] for d in numbered)
    inputs = scatter.inputs_of(fusion, [walk.indices])
    outside = prod(_indexed_sizes(walk))  # the key of what lies outside of the operand
    order = MergeSort(
        f"{fusion.name}.order", 1, count, ("uint",), ("uint", "int"), group, tuple(map(input_argument, inputs)),
        partial(_numbered_key, ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(inputs)}), walk),
    ).by_digits([outside.bit_length()], target.local_bytes)  # fmt: skip
    updates = scatter.inputs_of(fusion, walk.updates)
    keys, numbers, *pointers = (f"a{len(updates) + n}" for n in range(2 + len(written)))
    e, block = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(updates)}), Block()
    others = [d for d in range(len(walk.sizes)) if d not in numbered]
    sizes = [walk.sizes[d] for d in others]
    items = count * prod(sizes)
    block.line(f"const int unit = group * {group} + item;")
    with block.scope(f"if (unit < {items})"):
        block.line(f"const int first = unit / {prod(sizes)};")
        block.line(f"const uint key = {keys}[first];")
        with block.scope(f"if ((key != {outside}u) && (first == 0 || {keys}[first - 1] != key))"):
            block.line("const int place = (int)key;")
            element = variable("unit", 0, items - 1) % prod(sizes)
            at = dict(zip(others, delinearize(element, sizes), strict=True)) | _at(walk, "n")
            spots = walk.spots(pointers, _place(walk, "place", at))
            totals = [
                e.assign(t, scalar.load(t, spot), block, changes=True)
                for t, spot in zip(walk.types, spots, strict=True)
            ]  # fmt: skip

            def combine() -> None:
                for total, value in zip(totals, walk.combined(e, block, totals, at), strict=True):
                    block.line(f"{total} = {value};")

            # Several updates are loaded together where there are as many: they follow each other, by their keys.
            block.line("int i = first;")
            last = f"i + {AT_A_TIME - 1}"
            with block.scope(f"for (; {last} < {count} && {keys}[{last}] == key; i += {AT_A_TIME})"):
                block.line("#pragma unroll")
                with block.scope(f"for (int j = 0; j < {AT_A_TIME}; ++j)"):
                    block.line(f"const int n = {numbers}[i + j];")
                    combine()
            with block.scope(f"for (; i < {count} && {keys}[i] == key; ++i)"):
                block.line(f"const int n = {numbers}[i];")
                combine()
            for t, spot, total in zip(walk.types, spots, totals, strict=True):
                block.line(f"{spot} = {scalar.store(t, total)};")
    arguments = (*map(input_argument, updates), *order.results, *written)
    kernel = Kernel(fusion.name, block.text(), arguments, -(-items // group) * group, work_group=group)
    return (*order.kernels(), kernel)


def _numbered_key(e: ElementalIrEmitter, walk: ScatterWalk, block: Block, row: str, i: str) -> list[str]:
    """The key of number i, as C, and the number."""
    at = _at(walk, i)
    starts, conditions = walk.starts(e, block, at)
    place = [
        starts[d] + at[walk.along[d]] if d in walk.along else starts[d] for d in _indexed_dimensions(walk)
    ]  # fmt: skip
    key, outside = f"(uint)({c_of(linearize(place, _indexed_sizes(walk)))})", prod(_indexed_sizes(walk))
    return [f"{' & '.join(conditions)} ? {key} : {outside}u" if conditions else key, i]


def _numbered(walk: ScatterWalk) -> list[int]:
    """The dimensions of the updates that are numbered: in the others, an element has its place in the operand."""
    return sorted({*walk.batch, *(walk.along[d] for d in _indexed_dimensions(walk) if d in walk.along)})


def _at(walk: ScatterWalk, number: str) -> dict[int, Index]:
    """The indices in the numbered dimensions of the updates, given the C variable of a number."""
    sizes = [walk.sizes[d] for d in _numbered(walk)]
    return dict(zip(_numbered(walk), delinearize(variable(number, 0, prod(sizes) - 1), sizes), strict=True))


def _indexed_dimensions(walk: ScatterWalk) -> list[int]:
    """The dimensions of the operand in which the indices, or their own place, say what is hit."""
    return sorted({*walk.hero.scatter_dims_to_operand_dims, *walk.hero.input_batching_dims})


def _indexed_sizes(walk: ScatterWalk) -> list[int]:
    return [walk.operands[0].shape.dimensions[d] for d in _indexed_dimensions(walk)]


def _place(walk: ScatterWalk, key: str, at: dict[int, Index]) -> list[Index]:
    """The indices of the element that is hit, given the C variable of its key and an element of the updates."""
    sizes = _indexed_sizes(walk)
    positions = delinearize(variable(key, 0, prod(sizes) - 1), sizes)
    place = {d: at[u] for d, u in walk.along.items()} | dict(zip(_indexed_dimensions(walk), positions, strict=True))
    return [place.get(d, constant(0)) for d in range(walk.operands[0].shape.rank)]
