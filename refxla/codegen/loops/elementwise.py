"""The kernel of kind "loop": each element of the outputs by itself, in loops that clang vectorizes.

The dimensions of the outputs become as few nested loops as all reads allow (index_space.py). An item computes a chunk
of the elements, and the innermost loop runs along memory; where a read runs across memory (a transpose), tiles are
transposed in registers (tiled_transpose.py). Loops are split at the border of a pad (index_set_splitting.py).

Kind "update" is a dynamic-update-slice in place: the loops run over the update alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...analysis.index_expression import variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar, wide_vectors, work_items
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..kernel_arguments import input_argument
from . import fast_path_math
from .index_space import Body, IndexSpace, Outputs, Segment, segments, update_of
from .item_schedules import WholeRows
from .loop_nest import LoopNest, chunk_of, is_function
from .strip_mining import StripMinedLoop

SHORT_PART = 64  # elements of a part of a row, below which neighbouring parts are written together
MANY_RUNS = 16  # contiguous segments to copy, from which on each is a call: clang takes 10 ms for a loop


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a fusion whose outputs all have the same dimensions."""
    body = Outputs(fusion)
    return (_kernel(fusion, target, segments(fusion, body.dimensions, may_unroll=True), body),)


def emit_update(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a dynamic-update-slice that writes only its update; the operand's value is there already.

    If the update itself reads the operand, items could see each other's writes; then every element is written.
    """
    pair = update_of(fusion)
    return emit(fusion, target) if pair is None else (_kernel(fusion, target, [pair[1]], pair[0]),)


def unrolls_rows(fusion: Fusion) -> bool:
    """Whether the rows of a fusion are short and unrolled in a loop kernel (row_unrolling.py)."""
    body = Outputs(fusion)
    whole = Segment((0,) * len(body.dimensions), body.dimensions)
    return IndexSpace(fusion, whole, body, is_function, may_unroll=True).is_unrolled


def _kernel(fusion: Fusion, target: Target, segments: Sequence[Segment], body: Body) -> Kernel:
    segments = [s for s in segments if s.size]
    written = sum(s.size for s in segments)
    nests = [LoopNest(fusion, target, s, body, written) for s in segments]
    reads = {access.instruction for n in nests for access in n.accesses}
    inputs = [i for i in fusion.inputs if i in reads]
    pointers = {i: f"a{n}" for n, i in enumerate((*inputs, *fusion.outputs))}
    elements = ElementalIrEmitter(fusion, target, pointers)
    block = Block()
    wide = wide_vectors.loop_gains(fusion.instructions, max((n.gathers for n in nests), default=0))
    for n, nest in enumerate(nests):
        nest.is_wide, nest.is_first = wide, n == 0
    # A little work is one item, which runs all nests one after the other.
    single = sum(n.segment.size * n.iterations for n in nests) <= chunk_of(fusion, target)
    items = 0
    if _go_by_rows(nests):
        items = _emit_rows(nests, elements, block)
    elif not single and _share_lines(nests):
        items = _emit_blocks_of_rows(nests, elements, block)
    left = [] if items else nests
    runs = [n for n in left if n.is_run] if len(left) >= MANY_RUNS else []
    if len(runs) >= MANY_RUNS:
        items, single = _emit_runs(runs, elements, block), False
        left = [n for n in left if not n.is_run]
    for nest in left:
        if single:
            with block.scope():
                nest.emit(elements, block, "0", nest.items)
            items = 1
        elif len(left) == 1 and not items:
            nest.emit(elements, block, "item", 1)
            items = nest.items
        else:
            with block.scope(f"{'else ' if items else ''}if (item < {items + nest.items})"):
                nest.emit(elements, block, f"(item - {items})", 1)
            items += nest.items
    arguments = [input_argument(i) for i in inputs]
    arguments += [
        Argument("output", scalar.storage_type(type_name(o)), o, updates=body.updates.get(o)) for o in fusion.outputs
    ]
    functions = fast_path_math.library_functions(elements)
    return Kernel(fusion.name, block.text(), tuple(arguments), items, wide_vectors=wide, library_functions=functions)


def _go_by_rows(nests: Sequence[LoopNest]) -> bool:
    """Whether an item takes rows through all nests: large results are then written sequentially, and values that
    several nests read are read once."""
    outer = nests[0].sizes[:-1] if nests else []
    return len(nests) > 1 and outer != [] and all(n.non_temporal and n.sizes[:-1] == outer and n.by_rows for n in nests)


def _emit_rows(nests: Sequence[LoopNest], e: ElementalIrEmitter, block: Block) -> int:
    """The statements of an item of a few rows through all nests; returns the number of items."""
    first, count = nests[0], prod(nests[0].sizes[:-1])
    per_item = max(1, first.chunk // sum(n.sizes[-1] for n in nests))
    items = -(-count // per_item)
    with StripMinedLoop(e, block, variable("item", 0, items - 1), per_item, count).loop() as row:
        for nest in nests:
            with block.scope():
                nest.emit_row(e, block, row)
    block.line("RX_FENCE();")
    return items


def _share_lines(nests: Sequence[LoopNest]) -> bool:
    """Whether several nests write parts of the same rows that are so short that they share the lines of the caches."""
    if len(nests) < 2 or len({prod(n.sizes[:-1]) for n in nests}) > 1:
        return False
    short = any(n.sizes[-1] < SHORT_PART for n in nests)
    return short and all(type(n.schedule) is WholeRows and len(n.sizes) > 1 for n in nests)


def _emit_blocks_of_rows(nests: Sequence[LoopNest], e: ElementalIrEmitter, block: Block) -> int:
    """The statements of an item of some rows, which go through one nest after the other while they are in a core's
    cache; returns the number of items."""
    count = prod(nests[0].sizes[:-1])
    per_item = max(1, nests[0].chunk // sum(n.sizes[-1] for n in nests))
    items = -(-count // per_item)
    rows = StripMinedLoop(e, block, variable("item", 0, items - 1), per_item, count)
    for nest in nests:
        with block.scope():
            assert isinstance(nest.schedule, WholeRows)  # see _share_lines
            nest.schedule.emit_loop(e, block, rows)
    return items


def _emit_runs(nests: Sequence[LoopNest], e: ElementalIrEmitter, block: Block) -> int:
    """The statements of items that copy contiguous segments, each as many elements as an item has, or up to a segment
    more. Returns the number of items."""
    items, rest = 0, list(nests)
    while rest:
        with block.scope(f"{'else ' if items else ''}if (item < {items + 1})"):
            count = 0
            while rest and count < work_items.ELEMENTS:
                count += rest[0].segment.size
                rest.pop(0).emit_run(e, block)
        items += 1
    return items
