"""How the schedule of a reduction kernel is chosen: from shapes, layout and the device, and all at once.

No choice changes a bit of a result: the order in which terms are added is that of analysis/reduction_order.py. The
choices are about the units of work, vectors, values that several passes need, and memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from refxla_spec.errors import CompilerError
from refxla_spec.module import Instruction
from refxla_spec.types import ELEMENT_TYPES

from ...analysis.access_patterns import AccessPattern
from ...analysis.accumulation import accumulator_types, commutative_opcode
from ...analysis.cost_analysis import element_ns
from ...analysis.index_expression import Index, constant, delinearize, variable
from ...analysis.index_maps import is_elementwise
from ...analysis.reduction_order import (
    LANES,
    MIN_PANEL,
    MIN_UNITS,
    PANEL_STEP,
    ReductionOrder,
    panel_columns,
    reduction_order,
)
from ...device.description import LINE, Target
from ...ir.plan import Fusion
from .. import scalar, wide_vectors, work_items
from ..element_builder import type_name
from ..kernel_arguments import inputs_of
from ..loops import non_temporal_stores
from .accumulators import selects, starts_neutral
from .dataflow import Dataflow, dataflow, inputs_and_initial_values
from .schedule import (
    UNSPECIFIED,
    CachedOperand,
    Prefetch,
    ReductionPass,
    Schedule,
    Vector,
    accumulators_of,
    buffer_pitch,
    units_of_work,
)

ITEMS_PER_CORE = 4  # that share the strips of a large result
INTERLEAVED_ELEMENTS = 2048  # elements of the pieces of interleaved rows, one piece of each row
UNROLL = 4  # elements that an accumulator adds in one iteration, if they are cheap
UNROLL_FROM = 1 << 20  # elements of the operand, from which on that is worth its compile time
CHEAP_MEMBERS = 16  # members of a fusion whose loops are unrolled, at most
CACHED_ROW = 4096  # elements of a row that is cached in a private array, at most
# Bytes of the output buffers of columns, for each of a core's own caches: those of a panel, and a line for each row.
BUFFERS = 13 / 8
SHORT_ROW = 256  # columns, up to which the next rows are prefetched
SHORT_ROW_DISTANCE = 4096  # elements between what is read and those rows
INTERLEAVED_PIECE = 512  # elements of a piece of interleaved rows, up to which the next piece is prefetched
UNROLLED_ROW = 8  # elements of a row, or rows of columns, below which the loop over them is unrolled
# The same for rows of large operands whose lanes take long to combine, and the most elements times members of the
# fusion that are then unrolled.
UNROLLED_ROW_LANES = 16
UNROLLED_ROW_MEMBERS = 256
MIN_INNER_UNITS = 8  # elements of an innermost dimension, from which on its index is worth a loop of its own
ROWS_OF_INTEGERS = 512  # rows of few integers, above which clang's vectors are along the rows: their order is free
SELECTED_LANES = 4  # of a vector in which maxima of floats are selected, at least: clang does not vectorize two
STRIP_ROWS_AHEAD = 16  # rows of a strip, distant in memory, that are prefetched
VECTORS = 4  # of lanes, whose functions are interleaved


def schedule(fusion: Fusion, target: Target) -> Schedule:
    """The schedule of a fusion around reduces.

    Raises CompilerError where the fusion's reduces or outputs do not belong together, and where columns are split
    into partial results and their operand is read again, but no panel of it fits into a cache.
    """
    flow = dataflow(fusion)
    heroes = [r for level in flow.reduces for r in level]  # computed even if outputs have no elements
    inputs = tuple(inputs_of(fusion, [*heroes, *fusion.outputs]))
    order = _order(flow, target)
    types = [_types(reduces) for reduces in flow.reduces]
    cached = _cached_operands(flow, order, target)
    non_temporal = _bypasses_caches(flow, order, target)
    if order.is_row and any(c.output is not None for c in cached):
        non_temporal = False  # cached values would be read from memory that was written past the caches
    # Processors with 64-byte vectors mask reads and writes of any type, those with 32-byte vectors only reads of words.
    has_floats = any(scalar.register_type(t).startswith(("float", "double")) for ts in types for t in ts)
    has_masks = target.capabilities.loop_vectorization
    masks_all = has_masks and target.widest == 64
    reads_words = all(i.shape.element_type.bits in (32, 64) for i in inputs)
    masks_reads = has_masks and has_floats and reads_words and target.vector_bytes == 32
    vector_columns = _vector_columns(order, target, types, heroes)
    if not masks_all and not (has_masks and target.vector_bytes == 32 and _fills_vectors(order, vector_columns)):
        vector_columns = 1
    interleaved_rows = _interleaved_rows(flow, order, target)
    prefetches = _prefetches(flow, order, target, inputs, interleaved_rows, non_temporal)
    unroll = UNROLL if _is_unrolled(flow) and vector_columns == 1 else 1
    single_chunk = _begins_with_one_iteration(flow, order, 1, interleaved_rows)
    rows_unrolled = _unrolls_rows(flow, order, target, single_chunk)

    passes = []
    for number, reduces in enumerate(flow.reduces):
        outputs = flow.elementwise_outputs if number == 0 else ()
        writes = bool(outputs) or any(c.computed_in == number for c in cached)
        passes.append(
            ReductionPass(
                number,
                reduces,
                outputs,
                vector=_vector(flow, order, target, reduces, vector_columns),
                masked_tail=masks_all or masks_reads and not writes,
                prefetches=prefetches.get(number, ()),
            )
        )
    return Schedule(
        flow,
        target,
        inputs,
        order,
        tuple(passes),
        cached,
        sequential_partials=order.partials > 1 and flow.reads_operand_again,
        unroll=unroll,
        vector_columns=vector_columns,
        interleaved_rows=interleaved_rows,
        unfilled=single_chunk or _begins_with_one_iteration(flow, order, unroll, interleaved_rows),
        rows_unrolled=rows_unrolled,
        non_temporal=non_temporal,
        wide_vectors=wide_vectors.reduction_gains(masks_all, (t for ts in types for t in ts)),
        units_per_item=_units_per_item(flow, order, target, interleaved_rows, non_temporal),
        inner_units=_inner_units(flow, order) if rows_unrolled else 1,
        column_row=_column_row(flow, order),
        joined_rows=_joined_rows(flow, order, vector_columns),
    )


def _order(flow: Dataflow, target: Target) -> ReductionOrder:
    """The order of the reduces, with strips that are panels if columns are read more than once."""
    order, first = reduction_order(flow.dimensions, flow.reduced), flow.reduces[0][0]
    if order.is_row:
        return order
    order = _shared_strips(flow, order, target)
    if not flow.reads_operand_again:
        return order
    if columns := panel_columns(order, first.operands[0].shape.element_type.bytes, target.caches):
        return replace(order, strip=columns)
    if order.partials > 1:
        raise CompilerError(f"{first.name} is too long to go over its operand again in the same kernel")
    return order


def _shared_strips(flow: Dataflow, order: ReductionOrder, target: Target) -> ReductionOrder:
    """The order with strips so narrow that each core has one, if the columns are worth sharing."""
    if not _is_shared(flow, target) or order.units * order.partials >= target.compute_units:
        return order
    rest = order.units // -(-order.groups[-1].size // order.strip)  # strips of the same columns
    wanted = -(-target.compute_units // (rest * order.partials))
    columns = -(-order.groups[-1].size // wanted)
    strip = max(MIN_PANEL, -(-columns // PANEL_STEP) * PANEL_STEP)
    return replace(order, strip=min(order.strip, strip))


def _is_shared(flow: Dataflow, target: Target) -> bool:
    """Whether a reduction is worth sharing by all cores, where that costs no launch."""
    ns = flow.size * element_ns(flow.fusion, flow.size, target.costs)
    return target.persistent and ns >= target.costs.share * target.compute_units


def _is_unrolled(flow: Dataflow) -> bool:
    """Whether an accumulator adds UNROLL elements in one iteration: there are many, and they are cheap."""
    cheap = len(flow.fusion.instructions) <= CHEAP_MEMBERS and not flow.has_expensive_members
    return cheap and flow.size >= UNROLL_FROM


def _begins_with_one_iteration(flow: Dataflow, order: ReductionOrder, unroll: int, interleaved_rows: int) -> bool:
    """Whether the first iteration is peeled off the loop over a row's chunks of lanes, of which an iteration takes
    `unroll`.

    (If clang sees the constants with which accumulators were filled, it peels the first lane off the loop over them,
    and does not vectorize the rest.)"""
    alone = order.is_row and order.partials == 1 and order.reduces_one_group and interleaved_rows == 1
    if not alone or order.lanes == 1 or order.groups[-1].size // order.lanes // unroll != 1:
        return False
    may_be_cut = any(i.opcode in ("pad", "concatenate") for i in flow.fusion.instructions)
    return unroll == 1 or not may_be_cut


def _unrolls_rows(flow: Dataflow, order: ReductionOrder, target: Target, single_chunk: bool) -> bool:
    """Whether the loop over the elements of a row is unrolled, so that a vector has an element of each of several rows.

    A vector is then gathered, which takes longer than a contiguous load, but no lanes within a vector have to be
    combined. Sums of lanes are fast, so they do not need this, and clang vectorizes only some of the loops that write
    rows again."""
    if not order.is_row or order.partials > 1:
        return False
    size = order.groups[-1].size
    if order.lanes == 1:
        return size < UNROLLED_ROW
    adds = [commutative_opcode(r.attributes["to_apply"]) == "add" for level in flow.reduces for r in level]
    return (
        target.capabilities.loop_vectorization
        and single_chunk
        and size < UNROLLED_ROW_LANES
        and flow.size >= work_items.ELEMENTS * ITEMS_PER_CORE
        and size * len(flow.fusion.instructions) <= UNROLLED_ROW_MEMBERS
        and not flow.epilogue_outputs
        and adds != [True]
    )


def _units_per_item(
    flow: Dataflow, order: ReductionOrder, target: Target, interleaved_rows: int, non_temporal: bool
) -> int:
    """The units that a work item computes one after the other: as many as an item's usual work (work_items.py), but
    all cores get equally many of expensive ones."""
    units, cores = units_of_work(order, interleaved_rows), target.compute_units
    if not order.is_row and non_temporal and (strips := -(-order.groups[-1].size // order.strip)) > 1:
        return min(strips, -(-units // (ITEMS_PER_CORE * cores)))  # neighbours: while one is written, the next is read
    is_shared = order.partials > 1 and not flow.reads_operand_again
    if target.capabilities.coalescing or is_shared:
        return 1
    unit_elements = max(1, order.reduced_size * order.strip * interleaved_rows)
    relative_cost = element_ns(flow.fusion, flow.size, target.costs) / work_items.CHEAP_NS
    if relative_cost > 1.0:
        items = -(-units // max(1, int(work_items.ELEMENTS / relative_cost) // unit_elements))
        return -(-units // (-(-items // cores) * cores)) if items > 1 else max(1, units)
    if flow.size <= work_items.ELEMENTS and not _is_shared(flow, target):
        return max(1, units)
    most = max(1, min(work_items.ELEMENTS // unit_elements, units))
    return min(most, -(-units // cores)) if _is_shared(flow, target) else most


def _inner_units(flow: Dataflow, order: ReductionOrder) -> int:
    """The size of the innermost kept dimension, if rows are unrolled and a single loop over all rows would take index
    divisions for each; otherwise 1."""
    sizes = flow.kept_sizes
    if len(order.groups) != 2 or len(sizes) < 2 or sizes[-1] < MIN_INNER_UNITS:
        return 1
    rows, columns = prod(sizes[:-1]), sizes[-1]
    one = variable("unit", 0, rows * columns - 1)
    two = variable("row", 0, rows - 1) * columns + variable("column", 0, columns - 1)
    return columns if _divisions(flow, order, one) > _divisions(flow, order, two) else 1


def _divisions(flow: Dataflow, order: ReductionOrder, unit: Index) -> int:
    """The index divisions that the elements of a unit and its results take."""
    pattern = AccessPattern(flow.fusion)
    indices = delinearize(unit, flow.kept_sizes)
    for reduce in (r for level in flow.reduces for r in level):
        for k in range(order.groups[-1].size):
            at = dict.fromkeys(range(len(flow.dimensions)), constant(0))  # no group has those of size 1
            at.update(zip(flow.kept_dimensions, indices, strict=True))
            inside = delinearize(constant(k), [flow.dimensions[d] for d in order.groups[-1].dimensions])
            at.update(zip(order.groups[-1].dimensions, inside, strict=True))
            for operand in inputs_and_initial_values(reduce)[0]:
                pattern.value(operand, tuple(at[d] for d in range(len(flow.dimensions))))
        pattern.bind(reduce, indices)
    for output in flow.results:
        same = output.shape.dimensions == flow.kept_sizes
        pattern.store(output, indices if same else delinearize(unit, output.shape.dimensions))
    return pattern.divisions


def _column_row(flow: Dataflow, order: ReductionOrder) -> int:
    """The size of the innermost dimension, if columns span several and a single loop would take index divisions for
    each column; otherwise 1."""
    columns, inner = order.groups[-1].size, flow.dimensions[-1] if flow.dimensions else 1
    if order.is_row or inner < MIN_INNER_UNITS or inner == columns:
        return 1
    one = variable("column", 0, columns - 1)
    two = variable("row", 0, columns // inner - 1) * inner + variable("inner", 0, inner - 1)

    def divisions(column: Index) -> int:
        pattern = AccessPattern(flow.fusion)
        at: dict[int, Index] = {}
        for n, group in enumerate(order.groups):
            number = column if n == len(order.groups) - 1 else variable(f"group{n}", 0, group.size - 1)
            inside = delinearize(number, [flow.dimensions[d] for d in group.dimensions])
            at |= dict(zip(group.dimensions, inside, strict=True))
        for reduce in (r for level in flow.reduces for r in level):
            for operand in inputs_and_initial_values(reduce)[0]:
                pattern.value(operand, tuple(at.get(d, constant(0)) for d in range(len(flow.dimensions))))
            pattern.bind(reduce, tuple(at.get(d, constant(0)) for d in flow.kept_dimensions))
        return pattern.divisions

    return inner if divisions(one) > divisions(two) else 1


def _joined_rows(flow: Dataflow, order: ReductionOrder, vector_columns: int) -> int:
    """The rows of a column reduction below which all are unrolled in one loop over the columns, so that each row's
    operand of a concatenate is known; 0 if none are."""
    if order.is_row or order.partials > 1 or vector_columns > 1 or flow.has_expensive_members:
        return 0
    return UNROLLED_ROW if any(i.opcode == "concatenate" for i in flow.fusion.instructions) else 0


def _interleaved_rows(flow: Dataflow, order: ReductionOrder, target: Target) -> int:
    """More than 1 if the next piece of a row is distant in memory, and the next row's piece is adjacent."""
    distant = order.is_row and not order.reduces_one_group and len(order.groups) >= 3
    if not distant or order.partials > 1 or flow.reads_operand_again or target.capabilities.coalescing:
        return 1
    rows = order.groups[-2].size
    return max(1, min(rows, INTERLEAVED_ELEMENTS // max(1, order.groups[-1].size), order.units // MIN_UNITS))


# Vectors.


def _types(reduces: Sequence[Instruction]) -> list[str]:
    """The types of all accumulators of some reduces."""
    return [name for r in reduces for name in accumulator_types(r.attributes["to_apply"])]


def _widest(types: Sequence[str]) -> int:
    """The bytes of the largest of some accumulators."""
    return max({"c128": 16, "c64": 8, "f64": 8, "s64": 8, "u64": 8}.get(name, 4) for name in types)


def _vector_columns(
    order: ReductionOrder, target: Target, types: Sequence[Sequence[str]], reduces: Sequence[Instruction]
) -> int:
    """The columns of a vector, if those of a whole strip stay in registers; otherwise 1. A strip of few columns is one
    vector, no wider than necessary, if the reducers have neutral elements for those that it pads."""
    if order.is_row:
        return 1
    names = [name for own in types for name in own]
    width = target.widest // _widest(names)
    if order.strip < width:
        if any(name.startswith("c") for name in names) or not all(map(starts_neutral, reduces)):
            return 1
        has_floats = any(ELEMENT_TYPES[name].is_float for name in names)
        if order.reduced_size > ROWS_OF_INTEGERS and not has_floats:
            return 1
        least = SELECTED_LANES if has_floats and any(map(selects, reduces)) else 1
        width = max(least, 1 << (order.strip - 1).bit_length())
    vectors = -(-order.strip // width) * max(map(len, types))
    return width if vectors <= target.registers // 2 else 1


def _fills_vectors(order: ReductionOrder, vector_columns: int) -> bool:
    """Whether the vectors of each strip have all of their columns, so that no masks are needed."""
    columns = order.groups[-1].size
    return order.strip % vector_columns == 0 and columns % order.strip == 0


def _vector(
    flow: Dataflow, order: ReductionOrder, target: Target, reduces: Sequence[Instruction], vector_columns: int
) -> Vector:
    """The vectors of all accumulators; of some, if operands take more than a few dependent operations, as functions do;
    unspecified if they take many, or if the vectors would take more than half the registers."""
    types = _types(reduces)
    register = target.widest if target.features else target.vector_bytes
    width = min(register // _widest(types), order.lanes) if order.is_row else vector_columns
    if not target.capabilities.loop_pragmas or width < 2:
        return UNSPECIFIED
    count = accumulators_of(order, vector_columns) // width
    operands = [o for r in reduces for o in r.operands]
    if not all(map(flow.fits_registers, operands)):
        count = min(count, VECTORS) if order.is_row and all(map(flow.is_function, operands)) else 0
    return Vector(width, count) if 0 < count * len(types) <= target.registers // 2 else UNSPECIFIED


# Values that several passes need.


def _cached_operands(flow: Dataflow, order: ReductionOrder, target: Target) -> tuple[CachedOperand, ...]:
    """The expensive elementwise values that more than one pass reads, as far as there is space for them."""
    if not target.capabilities.cached_arrays:
        return ()
    again = values_read_again(flow)
    if order.is_row and order.reduces_one_group and order.reduced_size <= CACHED_ROW:
        return tuple(CachedOperand(i, number) for i, number in again.items())
    outputs = [o for o in flow.epilogue_outputs if o.shape.dimensions == flow.dimensions]
    cached = []
    for i, number in again.items():
        name = type_name(i)
        if scalar.storage_type(name) != scalar.register_type(name):
            continue
        output = next((o for o in outputs if type_name(o) == name), None)
        if output is not None:
            outputs.remove(output)
            cached.append(CachedOperand(i, number, output))
    return tuple(cached)


def values_read_again(flow: Dataflow, also_inputs: bool = False) -> dict[Instruction, int]:
    """The expensive values on the operand's index space, and the inputs if requested, that several passes read, with
    the pass that computes them."""
    roots = [[o for r in reduces for o in inputs_and_initial_values(r)[0]] for reduces in flow.reduces]
    roots[0] += flow.elementwise_outputs
    members = set(flow.fusion.instructions)
    computed: dict[Instruction, int] = {}
    again: dict[Instruction, int] = {}
    for number, waiting in enumerate([*roots, list(flow.epilogue_outputs)]):
        visited: set[Instruction] = set()
        while waiting:
            i = waiting.pop()
            if i in visited or i not in members and not also_inputs or i.shape.dimensions != flow.dimensions:
                continue
            visited.add(i)
            if i in computed and (i not in members or flow.is_expensive(i)):
                again[i] = computed[i]
            elif i in members and is_elementwise(i):
                waiting += i.operands
        for i in visited:
            computed.setdefault(i, number)
    return again


# Memory.


def _bypasses_caches(flow: Dataflow, order: ReductionOrder, target: Target) -> bool:
    """Whether the epilogue pass writes its outputs past the caches (loops/non_temporal_stores.py): rows in pieces,
    strips of columns by way of a buffer."""
    outputs = flow.epilogue_outputs
    if not target.capabilities.non_temporal_stores or not 0 < len(outputs) <= non_temporal_stores.MOST_RESULTS:
        return False
    if not order.reduces_one_group or any(o.shape.dimensions != flow.dimensions for o in outputs):
        return False
    if sum(o.shape.bytes for o in outputs) < target.caches.last:
        return False
    sizes = [non_temporal_stores.size_of(o) for o in outputs]
    if not order.has_strips and not any(flow.is_expensive(o) for o in outputs):
        return False  # there is no arithmetic to hide the latency of these writes
    if order.is_row:
        return order.groups[-1].size * min(sizes) >= non_temporal_stores.LEAST_RUN
    if any(LINE % n or order.strip * n < LINE or order.has_strips and order.strip * n % LINE for n in sizes):
        return False
    row_bytes = sum(buffer_pitch(order, o) * non_temporal_stores.size_of(o) for o in outputs)
    return order.reduced_size * row_bytes <= BUFFERS * target.caches.second


def _prefetches(
    flow: Dataflow,
    order: ReductionOrder,
    target: Target,
    reads: Sequence[Instruction],
    interleaved_rows: int,
    non_temporal: bool,
) -> dict[int, tuple[Prefetch, ...]]:
    """The prefetches of each pass.

    The epilogue pass over a row, which is in a cache, prefetches from memory meanwhile: the next row of its inputs, and
    this row of its outputs; over a panel of columns, it prefetches the next panel. Where rows are interleaved, the next
    piece of each is prefetched. Where a strip has whole, short rows, or some columns of long ones, rows further down
    are prefetched: hardware prefetchers do not reach that far.
    """
    if not target.capabilities.prefetch or flow.size < UNROLL_FROM:
        return {}
    inputs = [i for i in reads if i.shape.dimensions == flow.dimensions]

    def prefetches(distance: int) -> tuple[Prefetch, ...]:
        return tuple(Prefetch(i, distance) for i in inputs)

    columns = order.groups[-1].size
    if not order.is_row and non_temporal:
        if order.has_strips:
            return {0: prefetches(STRIP_ROWS_AHEAD * columns), 1: prefetches(order.strip)}
        return {1: prefetches(order.reduced_size * order.strip)}
    if not order.is_row:
        short = order.strip == columns <= SHORT_ROW
        return dict.fromkeys(range(len(flow.reduces)), prefetches(SHORT_ROW_DISTANCE)) if short else {}
    if interleaved_rows > 1:
        worthwhile = LANES <= columns <= INTERLEAVED_PIECE  # shorter pieces take longer to add
        return {0: prefetches(prod(g.size for g in order.groups[-2:]))} if worthwhile else {}
    if order.partials > 1 or not order.reduces_one_group or order.reduced_size > CACHED_ROW:
        return {}
    outputs = [o for o in flow.epilogue_outputs if o.shape.dimensions == flow.dimensions and not non_temporal]
    return {1: (*prefetches(order.reduced_size), *(Prefetch(o, 0, for_write=True) for o in outputs))}
