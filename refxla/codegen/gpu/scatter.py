"""The kernels of kind "scatter" for GPUs: updates combined in their order, in place.

Updates of the same element must be applied in order, those of different ones need not. So the numbers of the updates'
elements are stably sorted by their targets (merge_sort.py, tiled_radix_sort.py). The keys are the indices in those
dimensions of the operand that the scatter indexes; the others follow from the element's place in its update. There is
an item for each number; the first of a key applies all updates of the key. If an element has many updates, a work-group
applies them instead. Updates outside of the operand come last. If no element is updated twice, nothing is sorted. A few
updates are applied as on a CPU, by an item for each element in the dimensions that are not indexed.
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
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import input_argument
from ..scatter import ScatterWalk
from .merge_sort import MergeSort
from .work_groups import BARRIER, LocalMemory, group_size, register_bytes

AT_A_TIME = 32  # elements of updates that an item loads together
COLUMNS_EACH = (4, 2)  # elements of an update that an item combines, so that it reads fewer keys
STAGED_FROM = 64  # updates of an element, on average, from which on a work-group combines them
STAGED, STAGED_BYTES, STAGED_COLUMNS = 2048, 16384, 32  # elements in local memory, their bytes, and adjacent ones
MAX_SERIAL_NUMBERS = 32  # numbers that an item visits one by one
_MOST_NUMBERS = 1 << 31


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a scatter. Raises UnsupportedError if one of several results is unused."""
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
    """The kernel that combines updates whose elements are all different: with an item for each element."""
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
    """The kernels that sort the numbers, and the one that combines the updates of each key."""
    group, numbered = group_size(target), _numbered(walk)
    count = prod(walk.sizes[d] for d in numbered)
    inputs = scatter.inputs_of(fusion, [walk.indices])
    outside = prod(_indexed_sizes(walk))  # the key of updates outside of the operand
    order = MergeSort(
        f"{fusion.name}.order", 1, count, ("uint",), ("uint", "int"), group, tuple(map(input_argument, inputs)),
        partial(_numbered_key, ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(inputs)}), walk),
    ).by_digits([outside.bit_length()], target.local_bytes)  # fmt: skip
    updates = scatter.inputs_of(fusion, walk.updates)
    keys, numbers, *pointers = (f"a{len(updates) + n}" for n in range(2 + len(written)))
    e = ElementalIrEmitter(fusion, target, {i: f"a{n}" for n, i in enumerate(updates)})
    combining = _Combining(walk, e, keys, numbers, pointers, count, group)
    if count >= STAGED_FROM * outside:
        items, local_bytes = combining.by_groups(outside)
    else:
        items, local_bytes = combining.by_items(outside), 0
    arguments = (*map(input_argument, updates), *order.results, *written)
    text = combining.block.text()
    kernel = Kernel(fusion.name, text, arguments, items, work_group=group, local_bytes=local_bytes)
    return (*order.kernels(), kernel)


class _Combining:
    """Writes the statements that combine the updates with equal keys, out of `count` sorted ones."""

    def __init__(
        self, walk: ScatterWalk, e: ElementalIrEmitter, keys: str, numbers: str, pointers: Sequence[str], count: int,
        group: int,
    ) -> None:  # fmt: skip
        self.walk, self.e, self.block = walk, e, Block()
        self.keys, self.numbers, self.pointers, self.count, self.group = keys, numbers, pointers, count, group
        self.others = [d for d in range(len(walk.sizes)) if d not in _numbered(walk)]
        self.width = prod(walk.sizes[d] for d in self.others)  # elements of the updates for each number

    def by_items(self, outside: int) -> int:
        """An item combines all updates of a key if its number is the first of the key. Returns the number of items."""
        block, walk, count = self.block, self.walk, self.count
        each = next(n for n in (*COLUMNS_EACH, 1) if self.width % n == 0)
        items = count * self.width // each
        block.line(f"const int unit = group * {self.group} + item;")
        with block.scope(f"if (unit < {items})"):
            block.line(f"const int first = unit / {self.width // each}, column = unit % {self.width // each};")
            block.line(f"const uint key = {self.keys}[first];")
            with block.scope(f"if ((key != {outside}u) && (first == 0 || {self.keys}[first - 1] != key))"):
                block.line("const int place = (int)key;")
                column = variable("column", 0, self.width // each - 1)
                element = column + variable("u", 0, each - 1) * (self.width // each) if each > 1 else column
                at = dict(zip(self.others, delinearize(element, self._sizes), strict=True)) | _at(walk, "n")
                spots = walk.spots(self.pointers, _place(walk, "place", at))
                totals = [f"total{n}" for n in range(len(spots))]
                for t, total in zip(walk.types, totals, strict=True):
                    block.line(f"{scalar.register_type(t)} {total}[{each}];")
                columns = f"for (int u = 0; u < {each}; ++u)"
                block.line("#pragma unroll")
                with block.scope(columns):
                    for t, total, spot in zip(walk.types, totals, spots, strict=True):
                        block.line(f"{total}[u] = {scalar.load(t, spot)};")

                def combine() -> None:
                    block.line("#pragma unroll")
                    with block.scope(columns):
                        values = walk.combined(self.e, block, [f"{total}[u]" for total in totals], at)
                        for total, value in zip(totals, values, strict=True):
                            block.line(f"{total}[u] = {value};")

                # Several updates of the same key are loaded at once if there are enough.
                block.line("int i = first;")
                together = max(1, AT_A_TIME // each)
                last = f"i + {together - 1}"
                with block.scope(f"for (; {last} < {count} && {self.keys}[{last}] == key; i += {together})"):
                    block.line("#pragma unroll")
                    with block.scope(f"for (int j = 0; j < {together}; ++j)"):
                        block.line(f"const int n = {self.numbers}[i + j];")
                        combine()
                with block.scope(f"for (; i < {count} && {self.keys}[i] == key; ++i)"):
                    block.line(f"const int n = {self.numbers}[i];")
                    combine()
                block.line("#pragma unroll")
                with block.scope(columns):
                    for t, total, spot in zip(walk.types, totals, spots, strict=True):
                        block.line(f"{spot} = {scalar.store(t, f'{total}[u]')};")
        return -(-items // self.group) * self.group

    def by_groups(self, outside: int) -> tuple[int, int]:
        """A work-group takes all numbers of a key, for some neighbouring elements: its items load updates into local
        memory, and an item for each element combines them in order. Returns the numbers of items and of bytes of local
        memory."""
        block, walk, memory = self.block, self.walk, LocalMemory()
        columns = min(STAGED_COLUMNS, 1 << (self.width.bit_length() - 1))
        strips, types = -(-self.width // columns), [type_name(u) for u in walk.updates]
        tile = max(1, min(STAGED, STAGED_BYTES // sum(map(register_bytes, types))) // columns)  # numbers at a time
        stage = [
            memory.declare(block, f"stage{n}", scalar.register_type(t), register_bytes(t), tile * columns)
            for n, t in enumerate(types)
        ]
        block.line(f"const int place = group / {strips}, row = item / {columns};")
        block.line(f"const int column = group % {strips} * {columns} + item % {columns};")
        block.line(f"const int live = column < {self.width};")
        for name, begin, comparison in (("begin", "0", "<"), ("end", "begin", "<=")):
            block.line(f"int {name} = {begin};")  # the numbers of the key, by a binary search
            with block.scope(f"for (int high = {self.count}; {name} < high;)"):
                block.line(f"const int middle = ({name} + high) >> 1;")
                block.line(f"const int before = {self.keys}[middle] {comparison} (uint)place;")
                block.line(f"{name} = before ? middle + 1 : {name};")
                block.line("high = before ? high : middle;")
        element = delinearize(variable("column", 0, self.width - 1), self._sizes)
        at = dict(zip(self.others, element, strict=True)) | _at(walk, "n")
        spots = walk.spots(self.pointers, _place(walk, "place", at))
        totals = [f"total{n}" for n in range(len(spots))]
        adding = "if (row == 0 && live && begin < end)"
        for t, total in zip(walk.types, totals, strict=True):
            block.line(f"{scalar.register_type(t)} {total};")
        with block.scope(adding):
            for t, total, spot in zip(walk.types, totals, spots, strict=True):
                block.line(f"{total} = {scalar.load(t, spot)};")
        with block.scope(f"for (int first = begin; first < end; first += {tile})"):
            block.line("#pragma unroll")
            with block.scope(f"for (int k = row; k < {tile}; k += {self.group // columns})"):
                with block.scope("if (live && first + k < end)"):
                    block.line(f"const int n = {self.numbers}[first + k];")
                    for array, value in zip(stage, walk.new(self.e, block, at), strict=True):
                        block.line(f"{array}[k * {columns} + item % {columns}] = {value};")
            block.line(BARRIER)
            with block.scope(adding):
                block.line(f"const int count = end - first < {tile} ? end - first : {tile};")
                with block.scope("for (int k = 0; k < count; ++k)"):
                    new = [f"{array}[k * {columns} + item]" for array in stage]
                    values = walk.applied(self.e, block, totals, new)
                    for total, value in zip(totals, values, strict=True):
                        block.line(f"{total} = {value};")
            block.line(BARRIER)
        with block.scope(adding):
            for t, total, spot in zip(walk.types, totals, spots, strict=True):
                block.line(f"{spot} = {scalar.store(t, total)};")
        return outside * strips * self.group, memory.bytes

    @property
    def _sizes(self) -> list[int]:
        return [self.walk.sizes[d] for d in self.others]


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
    """The dimensions of the updates that are numbered: in the others, the place of an element determines its target."""
    return sorted({*walk.batch, *(walk.along[d] for d in _indexed_dimensions(walk) if d in walk.along)})


def _at(walk: ScatterWalk, number: str) -> dict[int, Index]:
    """The indices in the numbered dimensions of the updates, given the C variable of a number."""
    sizes = [walk.sizes[d] for d in _numbered(walk)]
    return dict(zip(_numbered(walk), delinearize(variable(number, 0, prod(sizes) - 1), sizes), strict=True))


def _indexed_dimensions(walk: ScatterWalk) -> list[int]:
    """The dimensions of the operand in which the indices, or their batch position, determine the target."""
    return sorted({*walk.hero.scatter_dims_to_operand_dims, *walk.hero.input_batching_dims})


def _indexed_sizes(walk: ScatterWalk) -> list[int]:
    return [walk.operands[0].shape.dimensions[d] for d in _indexed_dimensions(walk)]


def _place(walk: ScatterWalk, key: str, at: dict[int, Index]) -> list[Index]:
    """The indices of the operand's element for the C variable of a key and an element of the updates."""
    sizes = _indexed_sizes(walk)
    positions = delinearize(variable(key, 0, prod(sizes) - 1), sizes)
    place = {d: at[u] for d, u in walk.along.items()} | dict(zip(_indexed_dimensions(walk), positions, strict=True))
    return [place.get(d, constant(0)) for d in range(walk.operands[0].shape.rank)]
