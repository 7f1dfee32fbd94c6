"""Index maps: which elements of its operands one element of an instruction is computed from, as data.

Each function takes an instruction, the indices of an element of its result and, where the element is computed by loops
or from indices that the program computes, one index for each of these. It returns indices of operands. Code generation
(codegen/elemental_ir_emitter.py) and the analysis of a whole fusion (access_patterns.py) both use these maps, so they
cannot disagree about what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from refxla_spec.errors import CompilerError
from refxla_spec.module import Instruction, WindowDimension

from ..ir.op_table import ELEMENTWISE, HERO, ROWS
from ..ir.plan import Fusion
from .index_expression import Index, constant, decide, delinearize, linearize

Indices = tuple[Index, ...]

# Operations that return elements of their first operand.
THROUGH = frozenset({"copy", "opt-barrier", "domain", "add-dependency"})
SHORT_RUN = 64  # elements of rows that are shorter than what a loop is cut into
FEWEST_PIECES = 3  # of a concatenate that is treated as a window
MAX_LITERALS = 16  # elements of a constant that becomes literals in the code; larger ones are loaded from memory

_WITHOUT_ELEMENTS = frozenset({"parameter", "while", "conditional", "custom-call"})


@dataclass(frozen=True)
class Condition:
    """`index` >= `bound`, < `bound` or == `bound`, as `relation` says."""

    index: Index
    relation: str
    bound: int

    @property
    def simplified(self) -> bool | tuple[Index, int]:
        """True, False, or the simplest (index, bound) for which the relation has to be tested."""
        if self.relation == "==":
            return self.index.low == self.bound if self.index.is_constant else (self.index, self.bound)
        answer = decide(self.index, self.bound)
        return not answer if isinstance(answer, bool) and self.relation == "<" else answer


@dataclass(frozen=True)
class Start:
    """A start index that the program computes: that element of `value`, clamped to 0..limit."""

    value: Instruction
    indices: Indices
    limit: int


@dataclass(frozen=True)
class Piece:
    """An operand of a concatenate: the element that is read from it where the index of the result is below `end`."""

    operand: Instruction
    indices: Indices
    end: int


def has_elements(i: Instruction) -> bool:
    """Whether the elements of an operation can be computed one by one."""
    row = ROWS.get(i.opcode)
    return i.opcode not in _WITHOUT_ELEMENTS and (row is None or row.op_class != HERO or row.by_element)


def require_elements(i: Instruction) -> None:
    """Raises CompilerError for an operation whose elements cannot be computed one by one."""
    if not has_elements(i):
        raise CompilerError(
            f"{i.name}: {i.opcode} is in a kernel that cannot compute it, which is an error of refxla's; please report "
            "it with the program, and try without=('fusion',)"
        )


def is_elementwise(i: Instruction) -> bool:
    """Whether an element of the result depends only on the operands' elements at its own indices."""
    row = ROWS.get(i.opcode)
    of_same_index = row is not None and row.op_class == ELEMENTWISE and i.opcode != "bitcast-convert"
    return of_same_index or i.opcode in THROUGH


def elementwise_operand(operand: Instruction, indices: Indices) -> Indices:
    """The element of an operand of an elementwise operation: a scalar (a clamp's bound, a select's pred) is used for
    every element."""
    return indices if operand.shape.rank == len(indices) else ()


def _same(i: Instruction, indices: Indices) -> Indices:
    return indices


def _broadcast(i: Instruction, indices: Indices) -> Indices:
    positions = (indices[d] for d in i.attributes.get("dimensions", ()))
    # An operand dimension of size 1 has index 0, whatever the result's.
    sizes = i.operands[0].shape.dimensions
    return tuple(x if n != 1 else constant(0) for x, n in zip(positions, sizes, strict=True))


def _reshape(i: Instruction, indices: Indices) -> Indices:
    return delinearize(linearize(indices, i.shape.dimensions), i.operands[0].shape.dimensions)


def _transpose(i: Instruction, indices: Indices) -> Indices:
    source: list[Index] = [constant(0)] * len(indices)
    for d, from_d in enumerate(i.attributes["dimensions"]):
        source[from_d] = indices[d]
    return tuple(source)


def _slice(i: Instruction, indices: Indices) -> Indices:
    return tuple(x * s.stride + s.start for x, s in zip(indices, i.attributes["slice"], strict=True))


def _reverse(i: Instruction, indices: Indices) -> Indices:
    reversed_dims, sizes = i.attributes["dimensions"], i.shape.dimensions
    return tuple(sizes[d] - 1 - x if d in reversed_dims else x for d, x in enumerate(indices))


# For operations each of whose elements is one of the first operand: its indices.
SOURCES: dict[str, Callable[[Instruction, Indices], Indices]] = {
    **dict.fromkeys(THROUGH, _same),
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
}


# Operations each of whose elements is one of the first operand, at an index that the program computes.
GATHERS = frozenset({"gather", "dynamic-slice"})
# Operations with start indices, of which some are known from how they are computed (index_values.py).
STARTED = GATHERS | {"dynamic-update-slice"}


def pad(i: Instruction, indices: Indices) -> tuple[list[Condition], Indices]:
    """The condition under which an element of a pad is one of its operand, and the indices there."""
    conditions, source = [], []
    for x, p, size in zip(indices, i.attributes["padding"], i.operands[0].shape.dimensions, strict=True):
        position, step = x - p.low, p.interior + 1
        conditions.append(Condition(position, ">=", 0))
        if step > 1:
            conditions.append(Condition(position % step, "==", 0))
        position = position // step
        conditions.append(Condition(position, "<", size))
        source.append(position)
    return conditions, tuple(source)


def concatenate(i: Instruction, indices: Indices) -> list[Piece]:
    """The operands that an element of a concatenate may come from, in order."""
    (axis,) = i.attributes["dimensions"]
    x = indices[axis]
    pieces, offset = [], 0
    for operand in i.operands:
        size = operand.shape.dimensions[axis]
        if size and x.high >= offset and x.low < offset + size:
            position = x - offset if size > 1 else constant(0)
            pieces.append(Piece(operand, (*indices[:axis], position, *indices[axis + 1 :]), offset + size))
        offset += size
    return pieces


@dataclass(frozen=True)
class Window:
    """The array that all pieces of a concatenate come from, and the element to read: `indices`, plus the distance that
    `shifts` has for each piece. `shifts` is empty in dimensions where a formula gives the distance."""

    array: Instruction
    indices: Indices
    shifts: tuple[tuple[int, ...], ...]

    @property
    def places(self) -> Iterator[tuple[Index, tuple[int, ...]]]:
        """The index and the shifts of each dimension."""
        return zip(self.indices, self.shifts, strict=True)


def window(i: Instruction, indices: Indices, pieces: Sequence[Piece], fusion: Fusion) -> Window | None:
    """The array of which the pieces of a concatenate are parts at constant distances, one for each element of a window
    that slides over it. None also where a vector would mix elements of several pieces at distances without a formula,
    and where pieces are so few that branches do as well."""
    if len(pieces) < FEWEST_PIECES:
        return None
    (axis,) = i.attributes["dimensions"]
    array, first = _moved_from(pieces[0], fusion)
    distances = []
    for piece in pieces:
        source, place = _moved_from(piece, fusion)
        distance = [x - y for x, y in zip(place, first, strict=True)] if source is array else []
        if source is not array or not all(x.is_constant for x in distance):
            return None
        distances.append(tuple(x.low for x in distance))
    single = all(p.operand.shape.dimensions[axis] == 1 for p in pieces)
    number = indices[axis] - (pieces[0].end - 1)
    moved, shifts = list(first), []
    for d, of_pieces in enumerate(zip(*distances, strict=True)):
        formula = _formula(number, of_pieces) if single else None
        if formula is not None:
            moved[d] += formula
        shifts.append(of_pieces if formula is None and any(of_pieces) else ())
    if any(shifts) and prod(i.shape.dimensions[axis + 1 :]) < SHORT_RUN:
        return None
    return Window(array, tuple(moved), tuple(shifts))


def _formula(number: Index, values: Sequence[int]) -> Index | None:
    """An index with the n-th of some values where `number` is n. The values start at 0 and form runs of equal ones that
    grow by a constant step; the whole sequence may be periodic."""
    run = next((n for n, v in enumerate(values) if v), len(values))
    if run == len(values):
        return constant(0)
    step = values[run]
    period = next((n for n in range(run, len(values), run) if values[n] == 0), len(values))
    if any(v != n % period // run * step for n, v in enumerate(values)):
        return None
    repeated = number % period if period < len(values) else number
    return repeated // run * step


def _moved_from(piece: Piece, fusion: Fusion) -> tuple[Instruction, Indices]:
    """The value before the data movement that makes a piece, and the indices there."""
    operand, indices = piece.operand, piece.indices
    while operand not in fusion.inputs and operand.opcode in SOURCES:
        operand, indices = operand.operands[0], SOURCES[operand.opcode](operand, indices)
    return operand, indices


def rotation(i: Instruction, indices: Indices, fusion: Fusion) -> tuple[Instruction, Indices] | None:
    """The array of which a concatenate is a rotation, and the element to read: each operand is a slice that starts
    where the previous one ends, cyclically. None also where a kernel does not read the array from memory, or where its
    loops may be split at the ends of the operands."""
    (axis,) = i.attributes["dimensions"]
    if prod(i.shape.dimensions[axis:]) > SHORT_RUN:
        return None
    test = Condition(indices[axis], "<", i.operands[0].shape.dimensions[axis]).simplified
    tested = indices[axis] if fusion.kind == "reduction" or isinstance(test, bool) else test[0]
    if not tested.divisions:
        return None
    parts = [_part(operand, axis, fusion.inputs) for operand in i.operands]
    array, first = parts[0]
    size, place = array.shape.dimensions[axis], first
    if size == 0:
        return None
    for operand, (source, start) in zip(i.operands, parts, strict=True):
        if source is not array or source not in fusion.inputs or start != place:
            return None
        place = (start + operand.shape.dimensions[axis]) % size
    return array, (*indices[:axis], (indices[axis] + first) % size, *indices[axis + 1 :])


def _part(operand: Instruction, axis: int, inputs: Sequence[Instruction]) -> tuple[Instruction, int]:
    """The array that a kernel reads for an operand, and the operand's start in it along the axis."""
    if operand.opcode == "slice" and operand not in inputs:
        array, slices = operand.operands[0], operand.attributes["slice"]
        whole = [s.limit - s.start == n for s, n in zip(slices, array.shape.dimensions, strict=True)]
        if slices[axis].stride == 1 and all(w or d == axis for d, w in enumerate(whole)):
            return array, slices[axis].start
    return operand, 0


def _starts(instructions: Sequence[Instruction], limits: Sequence[int]) -> list[Start]:
    vector = len(instructions) == 1 and instructions[0].shape.rank == 1
    return [
        Start(instructions[0], (constant(d),), limit) if vector else Start(instructions[d], (), limit)
        for d, limit in enumerate(limits)
    ]


def slice_starts(i: Instruction) -> list[Start]:
    """The start of a dynamic-slice, one index for each dimension, to be added to the indices of an element."""
    sizes = i.operands[0].shape.dimensions
    return _starts(i.operands[1:], [n - m for n, m in zip(sizes, i.shape.dimensions, strict=True)])


def update_starts(i: Instruction) -> list[Start]:
    """Where the update of a dynamic-update-slice begins, one index for each dimension."""
    update = i.operands[1].shape.dimensions
    return _starts(i.operands[2:], [n - m for n, m in zip(i.shape.dimensions, update, strict=True)])


def shifted(indices: Indices, by: Sequence[Index]) -> Indices:
    """Indices plus their shifts."""
    return tuple(x + s for x, s in zip(indices, by, strict=True))


def updated(i: Instruction, indices: Indices, starts: Sequence[Index]) -> tuple[list[Condition], Indices]:
    """The condition under which an element of a dynamic-update-slice is one of the update, and the indices there."""
    source = tuple(x - s for x, s in zip(indices, starts, strict=True))
    sizes = i.operands[1].shape.dimensions
    ends = ((Condition(x, ">=", 0), Condition(x, "<", n)) for x, n in zip(source, sizes, strict=True))
    return [c for pair in ends for c in pair], source


def gather_starts(i: Instruction, indices: Indices) -> list[tuple[int, Start]]:
    """(dimension of the operand, start) for each component of the index vector of a gather's element."""
    operand, start_indices = i.operands
    a = i.attributes
    vector_dim, batch = a["index_vector_dim"], _batch(i, indices)
    starts = []
    for n, d in enumerate(a["start_index_map"]):
        at = list(batch)
        if vector_dim < start_indices.shape.rank:
            at.insert(vector_dim, constant(n))
        limit = operand.shape.dimensions[d] - a["slice_sizes"][d]
        starts.append((d, Start(start_indices, tuple(at), limit)))
    return starts


def gathered(i: Instruction, indices: Indices, starts: Sequence[tuple[int, Index]]) -> Indices:
    """The operand's element that an element of a gather reads, whose slice starts there."""
    a, rank = i.attributes, i.operands[0].shape.rank
    collapsed, batching = a.get("collapsed_slice_dims", ()), a.get("operand_batching_dims", ())
    vector_dim, batch = a["index_vector_dim"], _batch(i, indices)
    source: list[Index] = [constant(0)] * rank
    for d, from_d in zip(batching, a.get("start_indices_batching_dims", ()), strict=True):
        source[d] = batch[from_d if from_d < vector_dim else from_d - 1]
    for d, start in starts:
        source[d] = start
    window = [d for d in range(rank) if d not in collapsed and d not in batching]
    for d, offset in zip(window, sorted(a.get("offset_dims", ())), strict=True):
        source[d] = source[d] + indices[offset]
    return tuple(source)


def _batch(i: Instruction, indices: Indices) -> list[Index]:
    offsets = i.attributes.get("offset_dims", ())
    return [x for d, x in enumerate(indices) if d not in offsets]


def terms(i: Instruction) -> int:
    """How many products an element of a contraction is the sum of; 0 for any other operation."""
    return prod(dot_terms(i)) if "lhs_contracting_dims" in i.attributes else 0


def dot_terms(i: Instruction) -> list[int]:
    """The sizes of the loops over the terms of an element of a dot."""
    return [i.operands[0].shape.dimensions[d] for d in i.attributes.get("lhs_contracting_dims", ())]


def dot_operands(i: Instruction, indices: Indices, terms: Sequence[Index]) -> tuple[Indices, Indices]:
    """The elements of both operands that are multiplied for a term of an element of a dot."""
    lhs, rhs = i.operands
    lb, rb = i.attributes.get("lhs_batch_dims", ()), i.attributes.get("rhs_batch_dims", ())
    lc, rc = i.attributes.get("lhs_contracting_dims", ()), i.attributes.get("rhs_contracting_dims", ())
    lf = [d for d in range(lhs.shape.rank) if d not in lb and d not in lc]
    rf = [d for d in range(rhs.shape.rank) if d not in rb and d not in rc]
    left: list[Index] = [constant(0)] * lhs.shape.rank
    right: list[Index] = [constant(0)] * rhs.shape.rank
    for x, ld, rd in zip(indices, lb, rb, strict=False):
        left[ld], right[rd] = x, x
    for x, d in zip(indices[len(lb) :], lf, strict=False):
        left[d] = x
    for x, d in zip(indices[len(lb) + len(lf) :], rf, strict=True):
        right[d] = x
    for k, ld, rd in zip(terms, lc, rc, strict=True):
        left[ld], right[rd] = k, k
    return tuple(left), tuple(right)


def window_position(w: WindowDimension, placing: Index, element: Index, size: int) -> tuple[list[Condition], Index]:
    """The condition under which an element of a window at that place lies within an array of that size, and its index
    there."""
    at = placing * w.stride + element * w.window_dilation - w.padding_low
    conditions = [Condition(at, ">=", 0)]
    if w.base_dilation > 1:
        conditions.append(Condition(at % w.base_dilation, "==", 0))
        at = at // w.base_dilation
    return [*conditions, Condition(at, "<", size)], at


def convolution_terms(i: Instruction) -> list[int]:
    """The sizes of the loops over the terms of an element of a convolution: those over the window, then over the input
    features."""
    window = i.attributes.get("window", ())
    return [*(w.size for w in window), i.operands[1].shape.dimensions[i.attributes["dim_labels"].kernel_input_feature]]


def convolution_operands(
    i: Instruction, indices: Indices, elements: Sequence[Index], positions: Sequence[Index], feature: Index
) -> tuple[Indices, Indices]:
    """The elements of both operands that are multiplied for a term of an element of a convolution: that of an element
    of the window, which lies at these positions of the input, and of an input feature of its group."""
    lhs, rhs = i.operands
    n, window = i.attributes["dim_labels"], i.attributes.get("window", ())
    groups = i.attributes.get("feature_group_count", 1)
    batch_groups = i.attributes.get("batch_group_count", 1)
    batch, output = indices[n.output_batch], indices[n.output_feature]
    inputs, outputs = (rhs.shape.dimensions[d] for d in (n.kernel_input_feature, n.kernel_output_feature))
    left: list[Index] = [constant(0)] * lhs.shape.rank
    right: list[Index] = [constant(0)] * rhs.shape.rank
    right[n.kernel_output_feature] = output
    left[n.input_batch] = batch
    if batch_groups > 1:
        group = output // (outputs // batch_groups)
        left[n.input_batch] = group * (lhs.shape.dimensions[n.input_batch] // batch_groups) + batch
    for w, k, x, kd, xd in zip(window, elements, positions, n.kernel_spatial, n.input_spatial, strict=True):
        right[kd] = w.size - 1 - k if w.reversal else k
        left[xd] = x
    right[n.kernel_input_feature] = feature
    left[n.input_feature] = (output // (outputs // groups)) * inputs + feature if groups > 1 else feature
    return tuple(left), tuple(right)


def most_placings(w: WindowDimension) -> int:
    """How many placings of a window contain an element, at most."""
    return -(-w.size // w.stride)


def covering_placing(w: WindowDimension, x: Index, number: Index, count: int) -> tuple[list[Condition], Index]:
    """Which of `count` placings of a window is number `number` of those that may contain element x of the array, and
    where there is one that does."""
    o = (x + w.padding_low) // w.stride - (most_placings(w) - 1) + number
    reached = Condition(o * w.stride - w.padding_low + w.size - 1 - x, ">=", 0)
    return [Condition(o, ">=", 0), Condition(o, "<", count), reached], o


def cumulative(i: Instruction) -> tuple[int, bool] | None:
    """(dimension, whether it runs backward) of a reduce-window that is a cumulative sum or the like, or None.

    Its windows begin before the array and end at their own element, or begin at it and end after the array. Both are
    traversed from the array's end towards their own element, so that each result combines the previous one with one
    more element: a window that runs backward is traversed from its last element to its first.
    """
    window, sizes = i.attributes.get("window", ()), i.operands[0].shape.dimensions
    dimensions = [d for d, w in enumerate(window) if w.size > 1 or w.padding_low or w.padding_high]
    if len(dimensions) != 1 or any(max(w.stride, w.base_dilation, w.window_dilation) > 1 for w in window):
        return None
    (d,) = dimensions
    w = window[d]
    if sizes[d] == 0 or w.size < max(2, sizes[d]) or {w.padding_low, w.padding_high} != {0, w.size - 1}:
        return None
    return d, w.padding_low == 0


def bitcast_operands(i: Instruction, indices: Indices) -> list[Indices]:
    """The operand's elements that make up an element of a bitcast-convert, the least significant first."""
    source, result = i.operands[0].shape.element_type.bits, i.shape.element_type.bits
    if source == result:
        return [indices]
    if source > result:  # the new minor dimension counts the parts
        return [indices[:-1]]
    return [(*indices, constant(n)) for n in range(result // source)]
