"""The rule of each operation: how one element of its result is computed from elements of its operands, as C.

The index maps (analysis/index_maps.py) say which elements; a rule writes the computation. The operations that sum or
search (dot, convolution, reduce-window, select-and-scatter) are plain C loops here. They define the order in which
terms are combined, which the fast emitters of these operations keep. They are used where a loop reads such an
operation, or where it has no emitter of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod

import numpy as np
from refxla_spec.errors import CompilerError
from refxla_spec.module import Computation, Instruction, Window

from ..analysis import index_maps
from ..analysis.accumulation import accumulator_types, commutative_opcodes, contraction_type, result_types
from ..analysis.contraction_order import cumulative_segment, segment_terms
from ..analysis.element_rules import Rule
from ..analysis.index_expression import Index, linearize, variable
from ..analysis.index_maps import MAX_LITERALS, Condition, Indices, Piece, Start, cumulative
from ..ir.literals import is_splat
from . import scalar
from .c_block import Block
from .element_builder import Choice, ElementBuilder, type_name
from .index_printer import c_of, c_of_condition, c_of_conditions, scope_if
from .sums import ElementSum, empty_sum

UNROLLED = 32  # iterations of the loops within an element, up to which they are unrolled
MOST_IN_A_ROW = 8  # pieces of a concatenate that are told apart one after another


_Rule = Callable[[ElementBuilder, Instruction, Indices, Block], Rule]
_RULES: dict[str, _Rule] = {}


def _enter(rule: _Rule) -> _Rule:
    """Registers a rule under the opcode that its name spells."""
    _RULES[rule.__name__[1:].replace("_", "-")] = rule
    return rule


def rule(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    """The rule of an instruction for the element at these indices. Raises CompilerError if it has none."""
    source = index_maps.SOURCES.get(i.opcode)
    if source is not None:
        return _one(i.operands[0], source(i, indices))
    function = _RULES.get(i.opcode)
    if function is not None:
        return function(e, i, indices, block)
    index_maps.require_elements(i)
    return _elementwise(e, i, indices, block)


def _one(operand: Instruction, indices: Indices) -> Rule:
    return (yield operand, indices)


def _elementwise(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    args = []
    for operand in i.operands:
        args.append((yield operand, index_maps.elementwise_operand(operand, indices)))
    return e.scalar(i, args, block)


@_enter
def _constant(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    values, name = np.asarray(i.attributes["literal"]), type_name(i)
    flat = values.reshape(-1)
    if is_splat(values):
        return e.literal(name, flat[0], block)
    if flat.size > MAX_LITERALS:
        raise CompilerError(f"constant {i.name} of {flat.size} elements is no input of its kernel; make it one")
    position = linearize(indices, i.shape.dimensions)
    if position.is_constant:
        return e.literal(name, flat[position.low], block)
    if values.dtype.kind in "iu" and (steps := set(np.diff(flat.astype(object)))) and len(steps) == 1:
        number = position * int(steps.pop()) + int(flat[0])
        return e.assign(name, f"({scalar.register_type(name)})({c_of(number)})", block)
    literals = [e.literal(name, v, block) for v in flat]
    text = literals[-1]
    for n in range(len(literals) - 2, -1, -1):
        text = f"{c_of(position)} == {n} ? {literals[n]} : ({text})"
    return e.assign(name, text, block)
    yield


@_enter
def _iota(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    index, name = indices[i.attributes["iota_dimension"]], type_name(i)
    source = "s32" if index.fits_int else "s64"
    number = e.assign(source, c_of(index), block)
    return converted(e, number, source, name, block)
    yield


@_enter
def _pad(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand, padding = i.operands
    conditions, source = index_maps.pad(i, indices)
    inside = c_of_conditions(conditions)
    if inside is True:
        return (yield operand, source)
    outside = yield padding, ()
    if inside is False:
        return outside
    result = e.choice(type_name(i), block, outside)
    with block.scope(f"if ({inside})"):
        result.assign((yield operand, source), block)
    return result.value(block)


@_enter
def _concatenate(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    pieces = index_maps.concatenate(i, indices)
    if len(pieces) == 1:
        return (yield pieces[0].operand, pieces[0].indices)
    rotation = index_maps.rotation(i, indices, e.fusion)
    if rotation is not None:
        return (yield rotation)
    (axis,) = i.attributes["dimensions"]
    window = index_maps.window(i, indices, pieces, e.fusion)
    if window is not None:
        shifted = [x + _shift(e, indices[axis], pieces, of, block) if of else x for x, of in window.places]
        return (yield window.array, tuple(shifted))
    result = e.choice(type_name(i), block)
    yield from _piece(result, indices[axis], pieces, block)
    return result.value(block)


def _piece(result: Choice, x: Index, pieces: Sequence[Piece], block: Block) -> Rule:
    """Assigns the element of the piece that has it (a rule's part: use `yield from`). Of many pieces, halves are told
    apart first: compilers take a time quadratic in the length of a chain of conditions, and so does each element."""
    if len(pieces) > MOST_IN_A_ROW:
        middle = len(pieces) // 2
        with block.scope(f"if ({c_of_condition(Condition(x, '<', pieces[middle - 1].end))})"):
            yield from _piece(result, x, pieces[:middle], block)
        with block.scope("else"):
            yield from _piece(result, x, pieces[middle:], block)
        return
    for n, piece in enumerate(pieces):
        condition = c_of_condition(Condition(x, "<", piece.end))
        head = "else" if n == len(pieces) - 1 else f"{'else ' if n else ''}if ({condition})"
        with block.scope(head):
            result.assign((yield piece.operand, piece.indices), block)


def _shift(e: ElementBuilder, x: Index, pieces: Sequence[Piece], shifts: Sequence[int], block: Block) -> Index:
    """The shift of the piece of a concatenate that has element `x`, as a variable that is invariant in loops within the
    one over the pieces. It is a sum of comparisons: a selection among so many would become branches."""
    text = str(shifts[0])
    for piece, shift, following in zip(pieces[:-1], shifts[:-1], shifts[1:], strict=True):
        if shift != following:
            text += f" + ({c_of_condition(Condition(x, '>=', piece.end))}) * {following - shift}"
    return e.shift(text, shifts, block)


def _starts(e: ElementBuilder, starts: Sequence[Start], block: Block) -> Rule:
    """Start indices that the program computes (a rule's part: use `yield from`)."""
    indices = []
    for s in starts:
        indices.append((yield from e.start(s, block)))
    return indices


@_enter
def _dynamic_slice(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    starts = yield from _starts(e, index_maps.slice_starts(i), block)
    return (yield i.operands[0], index_maps.shifted(indices, starts))


def update_starts(e: ElementBuilder, i: Instruction, block: Block) -> Rule:
    """The clamped start indices of a dynamic-update-slice, one index a dimension (use `yield from`)."""
    return (yield from _starts(e, index_maps.update_starts(i), block))


@_enter
def _dynamic_update_slice(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand, update = i.operands[:2]
    starts = yield from update_starts(e, i, block)
    conditions, source = index_maps.updated(i, indices, starts)
    inside = c_of_conditions(conditions)
    if inside is True:
        return (yield update, source)
    if inside is False:
        return (yield operand, indices)
    result = e.choice(type_name(i), block)
    with block.scope(f"if ({inside})"):
        positions = []
        for x, n in zip(source, update.shape.dimensions, strict=True):
            if x.low < 0 or x.high >= n:  # a variable whose range says that it is in bounds
                name = e.names.fresh("d")
                block.line(f"const int {name} = {c_of(x)};")
                x = variable(name, 0, n - 1)
            positions.append(x)
        result.assign((yield update, tuple(positions)), block)
    with block.scope("else"):
        result.assign((yield operand, indices), block)
    return result.value(block)


@_enter
def _gather(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    starts = []
    for d, start in index_maps.gather_starts(i, indices):
        starts.append((d, (yield from e.start(start, block))))
    return (yield i.operands[0], index_maps.gathered(i, indices, starts))


@_enter
def _get_tuple_element(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    values = yield i.operands[0], indices
    return values[i.attributes["index"]]


@_enter
def _tuple(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    values = []
    for operand in i.operands:
        values.append((yield operand, indices))
    return tuple(values)


@_enter
def _bitcast_convert(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand = i.operands[0]
    source, result = type_name(operand), type_name(i)
    from_bits, to_bits = (x.shape.element_type.bits for x in (operand, i))
    values = []
    for at in index_maps.bitcast_operands(i, indices):
        values.append((yield operand, at))
    if from_bits == to_bits:
        return e.scalar(i, values, block)
    if max(from_bits, to_bits) > 64:  # between c128 and c64, whose parts are the real and the imaginary one
        if from_bits > to_bits:
            text = f"as_float2({c_of(indices[-1])} == 0 ? {values[0]}.x : {values[0]}.y)"
        else:
            text = f"(double2)({', '.join(f'as_double({v})' for v in values)})"
        return e.assign(result, text, block)
    # A few bits take a byte.
    narrow, wide = (scalar.UNSIGNED_OF_BITS[max(8, bits)] for bits in sorted((from_bits, to_bits)))
    raw = e.names.fresh("b")
    if from_bits > to_bits:  # the new minor dimension counts the parts, the least significant first
        part = indices[-1] * to_bits
        stored = scalar.store(source, values[0])
        block.line(f"const {narrow} {raw} = ({narrow})(as_{wide}({stored}) >> ({c_of(part)}));")
    else:
        parts = []
        for n, value in enumerate(values):
            mask = "" if from_bits >= 8 else f" & {(1 << from_bits) - 1}"
            parts.append(f"(({wide})(as_{narrow}({scalar.store(source, value)}){mask}) << {n * from_bits})")
        block.line(f"const {wide} {raw} = ({wide})({' | '.join(parts)});")
    return e.assign(result, scalar.load(result, f"as_{scalar.storage_type(result)}({raw})"), block)


def combine(e: ElementBuilder, computation: Computation, args: Sequence[str], block: Block) -> tuple[str, ...]:
    """The reducer on accumulated values and elements, in `accumulator_types`."""
    types = accumulator_types(computation)
    if types == result_types(computation):
        return e.apply(computation, args, block)
    pairs = zip(types, commutative_opcodes(computation), args, args[len(types) :], strict=False)
    return tuple(e.assign(t, scalar.expression(str(o), (t, t), t, (a, b)), block) for t, o, a, b in pairs)


def rounded(e: ElementBuilder, computation: Computation, values: Sequence[str], block: Block) -> tuple[str, ...]:
    """Accumulated values, rounded to the reducer's result types."""
    kinds = zip(values, accumulator_types(computation), result_types(computation), strict=True)
    return tuple(converted(e, value, have, want, block) for value, have, want in kinds)


def converted(e: ElementBuilder, value: str, source: str, result: str, block: Block) -> str:
    """The C variable with a value of type `source` as one of type `result`."""
    if source == result:
        return value
    return e.assign(result, scalar.expression("convert", (source,), result, (value,)), block)


@_enter
def _dot(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    lhs, rhs = i.operands
    name = contraction_type(type_name(i))
    sizes = index_maps.dot_terms(i)
    zero = scalar.literal(name, 0)
    total = ElementSum(e, name, segment_terms(prod(sizes), name), zero, zero, block)
    short = prod(sizes) <= UNROLLED
    with ExitStack() as scopes:
        terms = []
        for size in sizes:
            k, scope = e.loop(size, block, unroll=short)
            scopes.enter_context(scope)
            terms.append(k)
        left, right = index_maps.dot_operands(i, indices, terms)
        a = converted(e, (yield lhs, left), type_name(lhs), name, block)
        b = converted(e, (yield rhs, right), type_name(rhs), name, block)
        total.add(linearize(terms, sizes), a, b, block)
    return converted(e, total.value(block), name, type_name(i), block)


@_enter
def _convolution(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    lhs, rhs = i.operands
    n, window = i.attributes["dim_labels"], i.attributes.get("window", ())
    name = contraction_type(type_name(i))
    counts = index_maps.convolution_terms(i)
    zero = scalar.literal(name, 0)
    total = ElementSum(e, name, segment_terms(prod(counts), name), zero, zero, block)
    with ExitStack() as scopes:
        placing = [indices[d] for d in n.output_spatial]
        sizes = [lhs.shape.dimensions[d] for d in n.input_spatial]
        elements, positions = enter_window(e, window, placing, sizes, block, scopes)
        k, scope = e.loop(counts[-1], block)
        scopes.enter_context(scope)
        left, right = index_maps.convolution_operands(i, indices, elements, positions, k)
        a = converted(e, (yield lhs, left), type_name(lhs), name, block)
        b = converted(e, (yield rhs, right), type_name(rhs), name, block)
        total.add(linearize([*elements, k], counts), a, b, block)
    return converted(e, total.value(block), name, type_name(i), block)


def enter_window(
    e: ElementBuilder,
    window: Window,
    placing: Sequence[Index],
    sizes: Sequence[int],
    block: Block,
    scopes: ExitStack,
    descending: bool = False,
) -> tuple[list[Index], list[Index]]:
    """Opens loops over a window's elements, from the last to the first if requested, and an if around those that lie on
    the array.

    Returns, for each dimension, the element of the window and the element of the array.
    """
    elements, positions = [], []
    short = prod(w.size for w in window) <= UNROLLED
    for w, o, size in zip(window, placing, sizes, strict=True):
        k, scope = e.loop(w.size, block, unroll=short)
        scopes.enter_context(scope)
        k = w.size - 1 - k if descending else k
        conditions, at = index_maps.window_position(w, o, k, size)
        scopes.enter_context(scope_if(block, conditions, own=False))
        elements.append(k)
        positions.append(at)
    return elements, positions


@_enter
def _reduce_window(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    count = len(i.operands) // 2
    operands, inits = i.operands[:count], i.operands[count:]
    reducer = i.attributes["to_apply"]
    types, segment = accumulator_types(reducer), cumulative_segment(i)
    sums = []
    for init, name in zip(inits, types, strict=True):
        start = converted(e, (yield init, ()), type_name(init), name, block)
        sums.append(ElementSum(e, name, segment, start, empty_sum(name) if segment else "", block))
    chains = [s.chain for s in sums]
    running = cumulative(i)
    with ExitStack() as scopes:
        sizes, backward = operands[0].shape.dimensions, running is not None and running[1]
        _, positions = enter_window(e, i.window, indices, sizes, block, scopes, backward)
        if running is not None:
            at = positions[running[0]]
            for s in sums:
                s.begin(sizes[running[0]] - 1 - at if backward else at, block)
        values = []
        for operand in operands:
            values.append((yield operand, tuple(positions)))
        for chain, value in zip(chains, combine(e, reducer, (*chains, *values), block), strict=True):
            block.line(f"{chain} = {value};")
    results = rounded(e, reducer, [s.value(block) for s in sums], block)
    return results if i.shape.is_tuple else results[0]


@_enter
def _select_and_scatter(e: ElementBuilder, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand, source, init = i.operands
    window, sizes = i.window, operand.shape.dimensions
    scatter = i.attributes["scatter"]
    (name,) = accumulator_types(scatter)
    total = e.assign(name, converted(e, (yield init, ()), type_name(init), name, block), block, changes=True)
    here = linearize(indices, sizes)
    with ExitStack() as scopes:
        placing = []
        for w, x, count in zip(window, indices, source.shape.dimensions, strict=True):
            most = index_maps.most_placings(w)
            number, scope = e.loop(most, block, "t", unroll=most * prod(w.size for w in window) <= UNROLLED)
            scopes.enter_context(scope)
            conditions, o = index_maps.covering_placing(w, x, number, count)
            scopes.enter_context(scope_if(block, conditions, own=False))
            placing.append(o)
        selected = e.assign(type_name(operand), scalar.literal(type_name(operand), 0), block, changes=True)
        place = e.names.fresh("p")
        block.line(f"{'int' if here.fits_int else 'long'} {place} = -1;")
        with ExitStack() as inner:
            _, positions = enter_window(e, window, placing, sizes, block, inner)
            value = yield operand, tuple(positions)
            (keep,) = e.apply(i.attributes["select"], (selected, value), block)
            # Selects instead of branches, so that a loop along a dimension outside of the window can still be
            # vectorized.
            take = e.assign("pred", f"({place} < 0) | !{keep}", block)
            block.line(f"{selected} = {take} ? {value} : {selected};")
            block.line(f"{place} = {take} ? {c_of(linearize(positions, sizes))} : {place};")
        value = yield source, tuple(placing)
        (result,) = combine(e, scatter, (total, value), block)
        block.line(f"{total} = {place} == {c_of(here)} ? {result} : {total};")
    return rounded(e, scatter, (total,), block)[0]
