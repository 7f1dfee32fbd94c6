"""Single elements of the operations that sum or search: dot, convolution, reduce-window, select-and-scatter.

Each is a rule as in `expressions`, with plain C loops inside. They define the order in which the terms are combined,
which the fast emitters of these operations keep; they serve where such an operation is read by a loop, or has no
emitter of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING

from refxla_spec.module import Computation, Instruction, Window

from ..analysis.contraction_order import segment_terms
from ..analysis.index_expression import Index, all_of, constant, linearize
from . import scalar
from .c_block import Block

if TYPE_CHECKING:
    from .elemental_ir_emitter import ElementalIrEmitter

Indices = tuple[Index, ...]
Rule = Generator[tuple[Instruction, Indices], "str | tuple[str, ...]", "str | tuple[str, ...]"]

UNROLLED = 32  # turns of the loops inside an element, up to which they are written out


def type_name(instruction: Instruction) -> str:
    """The name of the element type of an array instruction."""
    return instruction.shape.element_type.name


def binary_opcode(computation: Computation) -> str | None:
    """The opcode of a computation of two parameters that is one commutative operation on them, or None."""
    root = computation.root
    operands = {o for o in root.operands if o.opcode == "parameter"}
    known = root.opcode in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
    return root.opcode if known and len(operands) == len(computation.parameters) == 2 else None


def accumulator_types(computation: Computation) -> tuple[str, ...]:
    """The types in which a reducer's results are accumulated: f32 for sums and products of narrower floats."""
    root = computation.root
    results = root.operands if root.opcode == "tuple" else [root]
    names = tuple(r.shape.element_type.name for r in results)
    wide = binary_opcode(computation) in ("add", "multiply") and _is_narrow(names[0])
    return ("f32",) if wide else names


def combine(e: ElementalIrEmitter, computation: Computation, args: Sequence[str], block: Block) -> tuple[str, ...]:
    """The reducer on accumulated values and elements, in `accumulator_types`."""
    (name, *_), opcode = accumulator_types(computation), binary_opcode(computation)
    if name == "f32" and opcode in ("add", "multiply"):
        return (e.assign(name, scalar.expression(opcode, (name, name), name, args), block),)
    return e.apply(computation, args, block)


def rounded(e: ElementalIrEmitter, computation: Computation, values: Sequence[str], block: Block) -> tuple[str, ...]:
    """Accumulated values, rounded to the reducer's result types."""
    root = computation.root
    results = root.operands if root.opcode == "tuple" else [root]
    pairs = zip(values, results, accumulator_types(computation), strict=True)
    return tuple(_converted(e, value, have, type_name(r), block) for value, r, have in pairs)


def _converted(e: ElementalIrEmitter, value: str, source: str, result: str, block: Block) -> str:
    if source == result:
        return value
    return e.assign(result, scalar.expression("convert", (source,), result, (value,)), block)


def contraction_type(result: str) -> str:
    """The type in which a dot or convolution with that result type accumulates."""
    return "f32" if _is_narrow(result) else result


def _is_narrow(name: str) -> bool:
    """Whether values of a floating-point type are computed in f32: f16, bf16 and the smaller ones."""
    return name != "f32" and scalar.register_type(name) == "float"


def multiply_add(name: str, total: str, a: str, b: str) -> str:
    """The C expression of total + a * b in the accumulation type `name`: one fma, or a wrapping product and sum."""
    if name in ("f32", "f64"):
        return f"RX_FMA_{name.upper()}({a}, {b}, {total})"
    if name in ("c64", "c128"):
        part = "F32" if name == "c64" else "F64"
        real = f"RX_FMA_{part}(-{a}.y, {b}.y, RX_FMA_{part}({a}.x, {b}.x, {total}.x))"
        imag = f"RX_FMA_{part}({a}.y, {b}.x, RX_FMA_{part}({a}.x, {b}.y, {total}.y))"
        return f"({scalar.register_type(name)})({real}, {imag})"
    if name == "pred":
        return f"({total} | ({a} & {b}))"
    wide = "ulong" if name in ("s64", "u64") else "uint"
    return scalar.low_bits(name, f"(({wide}){total} + ({wide}){a} * ({wide}){b})")


class _Sum:
    """The sum of so many products in the accumulation type `name`, in the order of contraction_order.py."""

    def __init__(self, e: ElementalIrEmitter, name: str, terms: int, block: Block) -> None:
        self.e, self.name, self.segment = e, name, segment_terms(terms, name)
        zero = scalar.literal(name, 0)
        self.chain = e.assign(name, zero, block, changes=True)
        if self.segment:
            self.total = e.assign(name, zero, block, changes=True)
            self.open = e.names.fresh("segment")
            block.line(f"int {self.open} = 0;")

    def add(self, k: Index, a: str, b: str, block: Block) -> None:
        """Emits what adds a * b, which is term number k."""
        if self.segment:
            number = f"(({k}) >> {self.segment.bit_length() - 1})"
            with block.scope(f"if ({number} != {self.open})"):
                block.line(f"{self.total} = {self._whole()};")
                block.line(f"{self.chain} = {scalar.literal(self.name, 0)};")
                block.line(f"{self.open} = {number};")
        block.line(f"{self.chain} = {multiply_add(self.name, self.chain, a, b)};")

    def value(self, block: Block) -> str:
        """The C variable of the sum, when all terms have been added."""
        return self.e.assign(self.name, self._whole(), block) if self.segment else self.chain

    def _whole(self) -> str:
        return scalar.expression("add", (self.name, self.name), self.name, (self.total, self.chain))


def _dot(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
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
    name = contraction_type(type_name(i))
    sizes = [lhs.shape.dimensions[d] for d in lc]
    total = _Sum(e, name, prod(sizes), block)
    short = prod(sizes) <= UNROLLED
    with ExitStack() as scopes:
        for ld, rd in zip(lc, rc, strict=True):
            k, scope = e.loop(lhs.shape.dimensions[ld], block, unroll=short)
            scopes.enter_context(scope)
            left[ld], right[rd] = k, k
        a = _converted(e, (yield lhs, tuple(left)), type_name(lhs), name, block)
        b = _converted(e, (yield rhs, tuple(right)), type_name(rhs), name, block)
        total.add(linearize([left[d] for d in lc], sizes), a, b, block)
    return _converted(e, total.value(block), name, type_name(i), block)


def _convolution(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    lhs, rhs = i.operands
    n, window = i.attributes["dim_labels"], i.attributes.get("window", ())
    groups = i.attributes.get("feature_group_count", 1)
    batch_groups = i.attributes.get("batch_group_count", 1)
    batch, feature = indices[n.output_batch], indices[n.output_feature]
    inputs, outputs = (rhs.shape.dimensions[d] for d in (n.kernel_input_feature, n.kernel_output_feature))
    left: list[Index] = [constant(0)] * lhs.shape.rank
    right: list[Index] = [constant(0)] * rhs.shape.rank
    right[n.kernel_output_feature] = feature
    left[n.input_batch] = batch
    if batch_groups > 1:
        group = feature // (outputs // batch_groups)
        left[n.input_batch] = group * (lhs.shape.dimensions[n.input_batch] // batch_groups) + batch
    name = contraction_type(type_name(i))
    counts = [*(w.size for w in window), inputs]
    total = _Sum(e, name, prod(counts), block)
    with ExitStack() as scopes:
        placing = [indices[d] for d in n.output_spatial]
        sizes = [lhs.shape.dimensions[d] for d in n.input_spatial]
        elements, positions = _enter_window(e, window, placing, sizes, block, scopes)
        for w, k, x, kd, xd in zip(window, elements, positions, n.kernel_spatial, n.input_spatial, strict=True):
            right[kd] = w.size - 1 - k if w.reversal else k
            left[xd] = x
        k, scope = e.loop(inputs, block)
        scopes.enter_context(scope)
        right[n.kernel_input_feature] = k
        left[n.input_feature] = (feature // (outputs // groups)) * inputs + k if groups > 1 else k
        a = _converted(e, (yield lhs, tuple(left)), type_name(lhs), name, block)
        b = _converted(e, (yield rhs, tuple(right)), type_name(rhs), name, block)
        total.add(linearize([*elements, k], counts), a, b, block)
    return _converted(e, total.value(block), name, type_name(i), block)


def cumulative(i: Instruction) -> tuple[int, bool] | None:
    """(dimension, whether it runs backward) of a reduce-window that is a cumulative sum or the like, or None.

    Its windows begin before the array and end at their own element, or begin at it and end behind the array. In both
    they are gone through from the array's end towards their own element, so that each result is the one before it
    combined with one element more: where the window runs backward, that is from its last element to its first.
    """
    window, sizes = i.attributes.get("window", ()), i.operands[0].shape.dimensions
    found = [d for d, w in enumerate(window) if w.size > 1 or w.padding_low or w.padding_high]
    if len(found) != 1 or any(max(w.stride, w.base_dilation, w.window_dilation) > 1 for w in window):
        return None
    (d,) = found
    w = window[d]
    if sizes[d] == 0 or w.size < max(2, sizes[d]) or {w.padding_low, w.padding_high} != {0, w.size - 1}:
        return None
    return d, w.padding_low == 0


def _enter_window(
    e: ElementalIrEmitter,
    window: Window,
    placing: Sequence[Index],
    sizes: Sequence[int],
    block: Block,
    scopes: ExitStack,
    descending: bool = False,
) -> tuple[list[Index], list[Index]]:
    """Opens loops over a window's elements, from the last to the first if so asked, and an if around those that lie on
    the array.

    Returns, for each dimension, the element of the window and the element of the array.
    """
    elements, positions = [], []
    short = prod(w.size for w in window) <= UNROLLED
    for w, o, size in zip(window, placing, sizes, strict=True):
        k, scope = e.loop(w.size, block, unroll=short)
        scopes.enter_context(scope)
        k = w.size - 1 - k if descending else k
        at = o * w.stride + k * w.window_dilation - w.padding_low
        inside = [e.at_least(at, 0)]
        if w.base_dilation > 1:
            rest = at % w.base_dilation
            inside.append(rest.low == 0 if rest.is_constant else f"({rest}) == 0")
            at = at // w.base_dilation
        condition = all_of(*inside, e.below(at, size))
        if condition is not True:
            scopes.enter_context(block.scope(f"if ({condition if condition else 0})"))
        elements.append(k)
        positions.append(at)
    return elements, positions


def _reduce_window(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    count = len(i.operands) // 2
    operands, inits = i.operands[:count], i.operands[count:]
    reducer = i.attributes["to_apply"]
    types = accumulator_types(reducer)
    totals = []
    for init, name in zip(inits, types, strict=True):
        value = _converted(e, (yield init, ()), type_name(init), name, block)
        totals.append(e.assign(name, value, block, changes=True))
    with ExitStack() as scopes:
        sizes = operands[0].shape.dimensions
        backward = cumulative(i) is not None and cumulative(i)[1]
        _, positions = _enter_window(e, i.window, indices, sizes, block, scopes, backward)
        values = []
        for operand in operands:
            values.append((yield operand, tuple(positions)))
        for total, value in zip(totals, combine(e, reducer, (*totals, *values), block), strict=True):
            block.line(f"{total} = {value};")
    results = rounded(e, reducer, totals, block)
    return results if i.shape.is_tuple else results[0]


def _select_and_scatter(e: ElementalIrEmitter, i: Instruction, indices: Indices, block: Block) -> Rule:
    operand, source, init = i.operands
    window, sizes = i.window, operand.shape.dimensions
    scatter = i.attributes["scatter"]
    (name,) = accumulator_types(scatter)
    total = e.assign(name, _converted(e, (yield init, ()), type_name(init), name, block), block, changes=True)
    here = linearize(indices, sizes)
    with ExitStack() as scopes:
        placing = []
        for w, x, count in zip(window, indices, source.shape.dimensions, strict=True):
            most = -(-w.size // w.stride)  # placings that contain an element, at most
            t, scope = e.loop(most, block, "t", unroll=most * prod(w.size for w in window) <= UNROLLED)
            scopes.enter_context(scope)
            o = (x + w.padding_low) // w.stride - (most - 1) + t
            reached = e.at_least(o * w.stride - w.padding_low + w.size - 1 - x, 0)
            condition = all_of(e.at_least(o, 0), e.below(o, count), reached)
            if condition is not True:
                scopes.enter_context(block.scope(f"if ({condition if condition else 0})"))
            placing.append(o)
        held = e.assign(type_name(operand), scalar.literal(type_name(operand), 0), block, changes=True)
        place = e.names.fresh("p")
        block.line(f"{'int' if here.fits_int else 'long'} {place} = -1;")
        with ExitStack() as inner:
            _, positions = _enter_window(e, window, placing, sizes, block, inner)
            value = yield operand, tuple(positions)
            (keep,) = e.apply(i.attributes["select"], (held, value), block)
            # Selections instead of branches: a loop along a dimension that the window leaves alone stays a vector's.
            take = e.assign("pred", f"({place} < 0) | !{keep}", block)
            block.line(f"{held} = {take} ? {value} : {held};")
            block.line(f"{place} = {take} ? {linearize(positions, sizes)} : {place};")
        value = yield source, tuple(placing)
        (result,) = combine(e, scatter, (total, value), block)
        block.line(f"{total} = {place} == {here} ? {result} : {total};")
    return rounded(e, scatter, (total,), block)[0]


RULES = {
    "dot": _dot,
    "convolution": _convolution,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
}
