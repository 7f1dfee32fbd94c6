"""Applies a table of algebraic rules, which never change a bit of any result.

Each rule is a function of one instruction. It returns an instruction that may take its place, or None; the first line
of its docstring is the algebra. Rules that hold for real numbers but not for floats are absent: x + 0 is not x if x is
-0, and x * 0 is not 0 if x is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt

import numpy as np
from refxla_spec.elementwise import is_elementwise
from refxla_spec.module import Computation, Instruction, Module, PaddingDimension, SliceDimension
from refxla_spec.types import Shape
from refxla_spec.vectorize import COMMUTATIVE

from .._core.shapes import make
from ..ir.literals import is_splat
from ..ir.op_table import ELEMENTWISE, ROWS
from .call_inliner import mapped
from .dce import settle

Rule = Callable[[Instruction], "Instruction | None"]
RULES: dict[str, list[Rule]] = {}
MOST_CHOICES = 8  # constants of selects that are compared


def rule(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers a rule under the opcodes that it may rewrite."""

    def enter(f: Rule) -> Rule:
        for opcode in opcodes:
            RULES.setdefault(opcode, []).append(f)
        return f

    return enter


def run(module: Module) -> int:
    """Apply the rules everywhere until none applies. Returns the number of rewrites."""
    return sum(_simplify(c) for c in module.computations)


def _simplify(computation: Computation) -> int:
    replaced: dict[Instruction, Instruction] = {}
    count = 0
    for i in computation.instructions:  # operands come first, so one walk sees simplified operands
        i.operands = [replaced.get(o, o) for o in i.operands]
        now = i
        while (better := _rewrite(now)) is not None:
            count += 1
            now = better
            if now in replaced:
                now = replaced[now]
        if now is not i:
            replaced[i] = now
    if count:
        settle(computation, replaced)
    return count


def _rewrite(i: Instruction) -> Instruction | None:
    for r in RULES.get(i.opcode, ()):
        better = r(i)
        if better is not None and better is not i:
            return better
    return None


# -- helpers of the rules -----------------------------------------------------------------------------------------


def scalar_value(i: Instruction) -> np.ndarray | None:
    """The value of all elements of a splat constant, or of a broadcast of a scalar constant; None for anything else."""
    while i.opcode in ("broadcast", "reshape"):
        i = i.operands[0]
    if i.opcode != "constant" or not is_splat(i.literal):
        return None
    return np.ascontiguousarray(i.literal).reshape(-1)[:1].reshape(())


def _is(i: Instruction, number: float) -> bool:
    """Whether every element is exactly this number (with the sign of zero)."""
    value = scalar_value(i)
    if value is None or i.shape.element_type.kind not in ("signed", "unsigned", "float"):
        return False
    return bool(value == number) and (number != 0 or bool(np.signbit(np.float64(value))) == bool(np.signbit(number)))


def _same_array(a: Instruction, b: Instruction) -> bool:
    return a.shape.element_type == b.shape.element_type and a.shape.dimensions == b.shape.dimensions


def _place(i: Instruction) -> tuple[int | Instruction, ...] | None:
    """The start of a slice, or of the block that an update replaces, in each dimension: a number, or the instruction
    that computes it. None for a slice with strides."""
    if i.opcode == "slice":
        return tuple(d.start for d in i.slice) if all(d.stride == 1 for d in i.slice) else None
    part, starts = (i, i.operands[1:]) if i.opcode == "dynamic-slice" else (i.operands[1], i.operands[2:])
    place: list[int | Instruction] = []
    for start, size, whole in zip(starts, part.shape.dimensions, i.operands[0].shape.dimensions, strict=True):
        value = scalar_value(start)
        place.append(start if value is None else min(max(int(value), 0), whole - size))
    return tuple(place)


def without_ones(dimensions: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions that are not 1."""
    return tuple(d for d in dimensions if d != 1)


# -- operations without effect
# ----------------------------------------------------------------------------------------------


@rule("convert", "reshape", "copy", "bitcast-convert")
def _same_shape(i: Instruction) -> Instruction | None:
    """Convert or reshape to the same -> x"""
    return i.operands[0] if _same_array(i, i.operands[0]) else None


@rule("broadcast")
def _broadcast_nothing(i: Instruction) -> Instruction | None:
    """broadcast x to its own dimensions -> x"""
    same = _same_array(i, i.operands[0]) and tuple(i.dimensions) == tuple(range(i.shape.rank))
    return i.operands[0] if same else None


@rule("transpose")
def _transpose_nothing(i: Instruction) -> Instruction | None:
    """Transpose by the identity -> x"""
    return i.operands[0] if tuple(i.dimensions) == tuple(range(i.shape.rank)) else None


@rule("slice", "dynamic-slice")
def _whole_slice(i: Instruction) -> Instruction | None:
    """Slice of the whole array -> x (a dynamic one clamps its start to 0)"""
    return i.operands[0] if _same_array(i, i.operands[0]) else None


@rule("dynamic-update-slice")
def _update_nothing(i: Instruction) -> Instruction | None:
    """dynamic-update-slice(x, slice of x at the same place) -> x"""
    x, part = i.operands[:2]
    same = part.opcode in ("slice", "dynamic-slice") and part.operands[0] is x and _place(part) == _place(i)
    return x if same else None


@rule("slice", "dynamic-slice")
def _slice_of_update(i: Instruction) -> Instruction | None:
    """Slice of a dynamic-update-slice at the same place -> the update"""
    update = i.operands[0]
    if update.opcode != "dynamic-update-slice" or not _same_array(update.operands[1], i):
        return None
    return update.operands[1] if _place(i) == _place(update) else None


@rule("dynamic-update-slice")
def _update_of_splat(i: Instruction) -> Instruction | None:
    """dynamic-update-slice(broadcast(c), x) at a constant place -> pad(x, c), which can be fused with x and with its
    users, and needs no array of c that is written first"""
    whole, x = i.operands[:2]
    value, place = scalar_value(whole), _place(i)
    if value is None or place is None or i.shape.is_dynamic or x.shape.is_dynamic or 0 in x.shape.dimensions:
        return None
    padding = []
    for start, size, total in zip(place, x.shape.dimensions, i.shape.dimensions, strict=True):
        if isinstance(start, Instruction):
            return None
        padding.append(PaddingDimension(start, total - size - start, 0))
    return make("pad", x, constant(value, f"{i.name}.around"), name=i.name, padding=tuple(padding))


@rule("concatenate")
def _concatenate_one(i: Instruction) -> Instruction | None:
    """Concatenate of x alone, or with empty arrays -> x"""
    some = [o for o in i.operands if o.shape.size]
    return some[0] if len(some) == 1 and _same_array(some[0], i) else None


@rule("pad")
def _pad_nothing(i: Instruction) -> Instruction | None:
    """Pad by nothing -> x"""
    return i.operands[0] if all(d.low == d.high == d.interior == 0 for d in i.padding) else None


@rule("reverse")
def _reverse_nothing(i: Instruction) -> Instruction | None:
    """Reverse dimensions of one element -> x"""
    return i.operands[0] if all(i.shape.dimensions[d] <= 1 for d in i.dimensions) else None


# -- chains ---------------------------------------------------------------------------------------------------------


@rule("reshape")
def _reshape_reshape(i: Instruction) -> Instruction | None:
    """reshape(reshape(x)) -> reshape(x)"""
    inner = i.operands[0]
    return make("reshape", inner.operands[0], name=i.name, shape=i.shape) if inner.opcode == "reshape" else None


@rule("reshape")
def _reshape_broadcast(i: Instruction) -> Instruction | None:
    """Reshape of a broadcast scalar -> broadcast of the scalar; of one that only gains or loses 1s -> broadcast"""
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    x = inner.operands[0]
    if x.shape.size == 1 and x.shape.rank == 0:
        return make("broadcast", x, name=i.name, shape=i.shape, dimensions=())
    if without_ones(i.shape.dimensions) != without_ones(inner.shape.dimensions) or 1 in x.shape.dimensions:
        return None
    if 0 in i.shape.dimensions:
        return None
    wide = [d for d, n in enumerate(inner.shape.dimensions) if n != 1]
    now = dict(zip(wide, (d for d, n in enumerate(i.shape.dimensions) if n != 1), strict=True))
    if any(d not in now for d in inner.dimensions):
        return None
    return make("broadcast", x, name=i.name, shape=i.shape, dimensions=tuple(now[d] for d in inner.dimensions))


@rule("broadcast")
def _broadcast_broadcast(i: Instruction) -> Instruction | None:
    """broadcast(broadcast(x)) -> broadcast(x)"""
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    dimensions = tuple(i.dimensions[d] for d in inner.dimensions)
    return make("broadcast", inner.operands[0], name=i.name, shape=i.shape, dimensions=dimensions)


@rule("broadcast")
def _broadcast_reshape(i: Instruction) -> Instruction | None:
    """broadcast(reshape(x)) where the reshape only adds or drops 1s -> broadcast(x)"""
    inner = i.operands[0]
    if inner.opcode != "reshape" or 0 in inner.shape.dimensions:
        return None
    x = inner.operands[0]
    if without_ones(x.shape.dimensions) != without_ones(inner.shape.dimensions) or 1 not in inner.shape.dimensions:
        return None
    wide = tuple(d for d, n in zip(i.dimensions, inner.shape.dimensions, strict=True) if n != 1)
    if 1 in x.shape.dimensions:
        thin = without_ones(x.shape.dimensions)
        x = make("reshape", x, name=f"{x.name}.thin", shape=x.shape.with_dimensions(thin))
    return make("broadcast", x, name=i.name, shape=i.shape, dimensions=wide)


@rule("broadcast")
def _broadcast_ones(i: Instruction) -> Instruction | None:
    """Broadcast that only adds 1s -> reshape"""
    x = i.operands[0]
    if x.shape.size != i.shape.size or x.shape.size == 0 or list(i.dimensions) != sorted(i.dimensions):
        return None
    return make("reshape", x, name=i.name, shape=i.shape)


@rule("slice")
def _slice_of_broadcast(i: Instruction) -> Instruction | None:
    """slice(broadcast(x)) -> broadcast(slice(x))"""
    inner = i.operands[0]
    if inner.opcode != "broadcast" or 0 in i.shape.dimensions:
        return None
    x = inner.operands[0]
    places = tuple(i.slice[d] for d in inner.dimensions)
    if places != tuple(SliceDimension(0, n, 1) for n in x.shape.dimensions):
        x = make("slice", x, name=f"{i.name}.thin", slice=places)
    return make("broadcast", x, name=i.name, shape=i.shape, dimensions=inner.dimensions)


@rule("slice")
def _slice_of_pad(i: Instruction) -> Instruction | None:
    """Slice of pad(x, c) that has only elements of x -> slice of x"""
    inner = i.operands[0]
    if inner.opcode != "pad" or inner.shape.is_dynamic or 0 in i.shape.dimensions:
        return None
    x = inner.operands[0]
    places = []
    for part, around, size in zip(i.slice, inner.padding, x.shape.dimensions, strict=True):
        start, limit = part.start - around.low, part.limit - around.low
        if around.interior or start < 0 or limit > size:
            return None
        places.append(SliceDimension(start, limit, part.stride))
    return make("slice", x, name=i.name, slice=tuple(places))


@rule("transpose")
def _transpose_transpose(i: Instruction) -> Instruction | None:
    """transpose(transpose(x)) -> transpose(x)"""
    inner = i.operands[0]
    if inner.opcode != "transpose":
        return None
    dimensions = tuple(inner.dimensions[d] for d in i.dimensions)
    return make("transpose", inner.operands[0], name=i.name, dimensions=dimensions)


@rule("transpose")
def _transpose_broadcast(i: Instruction) -> Instruction | None:
    """transpose(broadcast(x)) -> broadcast(x)"""
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    place = {d: n for n, d in enumerate(i.dimensions)}
    dimensions = tuple(place[d] for d in inner.dimensions)
    return make("broadcast", inner.operands[0], name=i.name, shape=i.shape, dimensions=dimensions)


@rule("transpose")
def _transpose_ones(i: Instruction) -> Instruction | None:
    """Transpose that only moves dimensions of 1 -> reshape"""
    wide = [d for d in i.dimensions if i.operands[0].shape.dimensions[d] != 1]
    return make("reshape", i.operands[0], name=i.name, shape=i.shape) if wide == sorted(wide) else None


@rule("negate", "not")
def _twice(i: Instruction) -> Instruction | None:
    """-(-x) -> x, where the type has negative numbers: that of f8e8m0fnu is NaN"""
    inner = i.operands[0]
    if i.shape.element_type.name == "f8e8m0fnu":
        return None
    return inner.operands[0] if inner.opcode == i.opcode else None


@rule("convert")
def _convert_convert(i: Instruction) -> Instruction | None:
    """Convert to a wider type of the same kind and back -> x"""
    inner = i.operands[0]
    if inner.opcode != "convert" or not _same_array(i, inner.operands[0]):
        return None
    narrow, wide = i.shape.element_type, inner.shape.element_type
    exact = {("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64"), ("c64", "c128")}
    if narrow.kind == wide.kind and narrow.is_integer and narrow.bits < wide.bits:
        return inner.operands[0]
    return inner.operands[0] if (narrow.name, wide.name) in exact else None


def _elementwise_reshape(i: Instruction) -> Instruction | None:
    """f(reshape(x), reshape(y), c) -> reshape(f(x, y, c)), so that reshapes move towards the users"""
    inner = [o for o in i.operands if o.opcode == "reshape"]
    if not inner or inner[0].operands[0].shape.is_scalar:
        return None
    source = inner[0].operands[0].shape
    same = all(o.operands[0].shape.dimensions == source.dimensions for o in inner)
    rest = [o for o in i.operands if o.opcode != "reshape"]
    if not same or any(o.opcode != "broadcast" or o.operands[0].shape.rank for o in rest):
        return None
    operands = []
    for o in i.operands:
        if o.opcode == "reshape":
            operands.append(o.operands[0])
        else:
            wide = o.shape.with_dimensions(source.dimensions)
            operands.append(make("broadcast", o.operands[0], name=o.name, shape=wide, dimensions=()))
    thin = Instruction(i.name, i.opcode, i.shape.with_dimensions(source.dimensions), operands, i.attributes, i.metadata)
    return make("reshape", thin, name=f"{i.name}.shaped", shape=i.shape)


def _elementwise_broadcast(i: Instruction) -> Instruction | None:
    """f(broadcast(x), broadcast(y), c) -> broadcast(f(x, y, c)), where some dimension comes from neither x nor y"""
    shape = i.shape
    if shape.is_dynamic or 0 in shape.dimensions:
        return None
    kept = set[int]()
    for o in i.operands:
        if o.opcode == "broadcast":
            kept.update(o.dimensions)
        elif o.opcode == "iota":
            kept.add(o.iota_dimension)
        elif o.shape.rank:
            return None
    if all(d in kept for d, n in enumerate(shape.dimensions) if n != 1):
        return None
    order = sorted(kept)
    sizes = tuple(shape.dimensions[d] for d in order)
    operands = []
    for o in i.operands:
        if o.shape.rank:
            dimensions = tuple(order.index(d) for d in ((o.iota_dimension,) if o.opcode == "iota" else o.dimensions))
            thin = o.shape.with_dimensions(sizes)
            if o.opcode == "iota":
                o = make("iota", name=o.name, shape=thin, iota_dimension=dimensions[0])
            elif o.operands[0].shape.dimensions == sizes and list(dimensions) == sorted(dimensions):
                o = o.operands[0]
            else:
                o = make("broadcast", o.operands[0], name=o.name, shape=thin, dimensions=dimensions)
        operands.append(o)
    one = Instruction(i.name, i.opcode, shape.with_dimensions(sizes), operands, i.attributes, i.metadata)
    return make("broadcast", one, name=f"{i.name}.wide", shape=shape, dimensions=tuple(order))


for _row in ROWS.values():
    if _row.op_class == ELEMENTWISE and _row.opcode not in ("copy", "bitcast-convert"):
        rule(_row.opcode)(_elementwise_reshape)
        rule(_row.opcode)(_elementwise_broadcast)


# -- arithmetic -------------------------------------------------------------------------------------------------------


@rule("multiply")
def _times_one(i: Instruction) -> Instruction | None:
    """x * 1 -> x"""
    a, b = i.operands
    if i.shape.element_type.is_complex:
        return None
    return a if _is(b, 1) else b if _is(a, 1) else None


@rule("multiply")
def _times_zero(i: Instruction) -> Instruction | None:
    """x * 0 -> 0, for integers"""
    if not i.shape.element_type.is_integer:
        return None
    return next((o for o in i.operands if _is(o, 0)), None)


@rule("divide")
def _over_one(i: Instruction) -> Instruction | None:
    """x / 1 -> x"""
    return i.operands[0] if _is(i.operands[1], 1) else None


@rule("divide")
def _over_power_of_two(i: Instruction) -> Instruction | None:
    """x / 2^n -> x * 2^-n, for floats: both are exact up to one rounding of the same number"""
    value = scalar_value(i.operands[1])
    if i.shape.element_type.name not in ("f32", "f64") or value is None or not np.isfinite(value) or value == 0:
        return None
    mantissa, exponent = np.frexp(np.float64(value))
    if abs(mantissa) != 0.5 or abs(exponent) > 100:
        return None
    inverse = np.asarray(1 / value, dtype=value.dtype)
    scalar = constant(inverse, f"{i.name}.inverse")
    wide = scalar if not i.shape.rank else make("broadcast", scalar, name=f"{i.name}.by", shape=i.shape, dimensions=())
    return make("multiply", i.operands[0], wide, name=i.name, shape=i.shape)


@rule("add")
def _plus_nothing(i: Instruction) -> Instruction | None:
    """x + -0 -> x for floats, x + 0 -> x for integers"""
    a, b = i.operands
    kind = i.shape.element_type.kind
    nothing = -0.0 if kind == "float" else 0
    if kind not in ("float", "signed", "unsigned"):
        return None
    return a if _is(b, nothing) else b if _is(a, nothing) else None


@rule("subtract")
def _minus_nothing(i: Instruction) -> Instruction | None:
    """x - 0 -> x"""
    return i.operands[0] if _is(i.operands[1], 0.0) else None


@rule("maximum", "minimum", "and", "or")
def _idempotent(i: Instruction) -> Instruction | None:
    """max(x, x) -> x, and so for min, and, or"""
    return i.operands[0] if i.operands[0] is i.operands[1] else None


@rule("maximum", "minimum")
def _with_the_last(i: Instruction) -> Instruction | None:
    """max(x, -inf) -> x, min(x, inf) -> x"""
    a, b = i.operands
    last = -np.inf if i.opcode == "maximum" else np.inf
    return a if _is(b, last) else b if _is(a, last) else None


@rule("and", "or")
def _with_constant(i: Instruction) -> Instruction | None:
    """x & true -> x, x & false -> false, x | false -> x, x | true -> true (pred)"""
    if i.shape.element_type.name != "pred":
        return None
    for x, other in (i.operands, reversed(i.operands)):
        value = scalar_value(other)
        if value is not None:
            return x if bool(value) == (i.opcode == "and") else other
    return None


@rule("select")
def _decided(i: Instruction) -> Instruction | None:
    """select(true, x, y) -> x, select(p, x, x) -> x"""
    pred, on_true, on_false = i.operands
    if on_true is on_false:
        return on_true
    value = scalar_value(pred)
    return None if value is None else (on_true if bool(value) else on_false)


@rule("compare")
def _compare_few(i: Instruction) -> Instruction | None:
    """select(p, 2, 0) >= 0 -> true, where the values of an integer select decide"""
    if i.direction not in _ORDERS or not i.operands[0].shape.element_type.is_integer or i.shape.is_dynamic:
        return None
    x, y = map(_bounds, i.operands)
    if x is None or y is None:
        return None
    (x_low, x_high), (y_low, y_high), decided = x, y, _ORDERS[i.direction]
    values = {decided(x_low, y_high), decided(x_high, y_low)}
    if len(values) > 1:
        return None
    value = constant(np.bool_(values.pop()), f"{i.name}.value")
    return make("broadcast", value, name=i.name, shape=i.shape, dimensions=()) if i.shape.rank else value


_ORDERS: dict[str, Callable[[int, int], bool]] = {"LT": lt, "LE": le, "GT": gt, "GE": ge}


def _bounds(i: Instruction) -> tuple[int, int] | None:
    """The least and the largest of the constants among which selects choose the elements of an integer array."""
    values: list[int] = []
    waiting = [i]
    while waiting and len(values) < MOST_CHOICES:
        x = waiting.pop()
        while x.opcode in ("broadcast", "reshape"):
            x = x.operands[0]
        if x.opcode == "select":
            waiting += x.operands[1:]
        elif (value := scalar_value(x)) is not None:
            values.append(int(value))
        else:
            return None
    return None if waiting else (min(values), max(values))


@rule("get-dimension-size")
def _static_size(i: Instruction) -> Instruction | None:
    """The size of a dimension that is not dynamic -> a constant"""
    shape = i.operands[0].shape
    return None if shape.is_dynamic else constant(np.int32(shape.dimensions[i.dimensions[0]]), i.name)


@rule("reduce")
def _reduce_nothing(i: Instruction) -> Instruction | None:
    """Reduce over no dimension, of one operand, from the identity -> x"""
    if len(i.operands) != 2 or i.dimensions:
        return None
    reducer = i.to_apply.root.opcode
    start = i.operands[1]
    identity = (reducer == "add" and _is(start, -0.0)) or (reducer == "multiply" and _is(start, 1))
    identity |= reducer == "maximum" and _is(start, -np.inf) or reducer == "minimum" and _is(start, np.inf)
    return i.operands[0] if identity else None


@rule("reduce")
def _reduce_ones(i: Instruction) -> Instruction | None:
    """Reduce over dimensions of 1 -> start + x, and so for the other commutative operations"""
    if len(i.operands) != 2 or not i.dimensions or any(i.operands[0].shape.dimensions[d] != 1 for d in i.dimensions):
        return None
    x, start = i.operands
    reducer = i.to_apply
    root, parameters = reducer.root, reducer.parameters
    if root.opcode not in COMMUTATIVE or set(root.operands) != set(parameters):
        return None
    if len({s.shape.element_type for s in (x, start, root)}) != 1:
        return None
    thin = make("reshape", x, name=f"{i.name}.thin", shape=i.shape)
    wide = start if not i.shape.rank else make("broadcast", start, name=f"{i.name}.start", shape=i.shape, dimensions=())
    return make(root.opcode, wide, thin, name=i.name)


@rule("reduce")
def _reduce_all_of_reshape(i: Instruction) -> Instruction | None:
    """Reduce of all elements of reshape(x), by an integer operation, whose order does not matter -> reduce of all of
    x"""
    x, reducer = i.operands[0], i.to_apply
    if x.opcode != "reshape" or i.shape.is_tuple or i.shape.rank or x.operands[0].shape.is_dynamic:
        return None
    if reducer.root.opcode not in COMMUTATIVE:
        return None
    element_type = i.shape.element_type
    if element_type.is_float or element_type.is_complex or set(reducer.root.operands) != set(reducer.parameters):
        return None
    whole = x.operands[0]
    every = tuple(range(whole.shape.rank))
    return make("reduce", whole, i.operands[1], name=i.name, dimensions=every, to_apply=reducer)


@rule("reduce")
def _reduce_alike(i: Instruction) -> Instruction | None:
    """Reduce by max, min, and, or over a dimension that a broadcast adds -> the value before the broadcast"""
    reducer, x = i.to_apply, i.operands[0]
    if reducer.root.opcode not in ("maximum", "minimum", "and", "or") or x.opcode != "broadcast" or x.shape.is_dynamic:
        return None
    if len(i.operands) != 2 or set(reducer.root.operands) != set(reducer.parameters):
        return None
    alike = {d for d in i.dimensions if x.shape.dimensions[d] > 1} - set(x.dimensions)
    if not alike:
        return None
    shape = x.shape.with_dimensions(tuple(1 if d in alike else n for d, n in enumerate(x.shape.dimensions)))
    one = make("broadcast", x.operands[0], name=f"{i.name}.one", shape=shape, dimensions=x.dimensions)
    return make("reduce", one, i.operands[1], name=i.name, dimensions=i.dimensions, to_apply=reducer)


@rule("get-tuple-element")
def _reduce_ones_of_several(i: Instruction) -> Instruction | None:
    """A result of a variadic reduce over dimensions of 1 -> the reducer, applied to the initial values and the
    arrays"""
    reduce = i.operands[0]
    if reduce.opcode != "reduce" or not reduce.dimensions:
        return None
    count, reducer = len(reduce.operands) // 2, reduce.to_apply
    if any(reduce.operands[0].shape.dimensions[d] != 1 for d in reduce.dimensions):
        return None
    inside = {x.opcode for x in reducer.instructions} - {"parameter", "constant"}
    if reducer.root.opcode != "tuple" or not all(is_elementwise(opcode) for opcode in inside - {"tuple"}):
        return None
    shapes = [i.shape.with_element_type(x.shape.element_type) for x in reduce.operands]
    starts = [
        make("broadcast", x, name=f"{i.name}.start.{n}", shape=s, dimensions=()) if s.rank else x
        for n, (x, s) in enumerate(zip(reduce.operands[count:], shapes[count:], strict=True))
    ]
    thin = [
        make("reshape", x, name=f"{i.name}.thin.{n}", shape=s)
        for n, (x, s) in enumerate(zip(reduce.operands[:count], shapes[:count], strict=True))
    ]
    index: int = i.index
    return mapped(reducer, [*starts, *thin], i, i.name)[index]


def constant(value: np.ndarray | np.generic, name: str) -> Instruction:
    """A constant instruction of a NumPy value."""
    array = np.asarray(value)
    return Instruction(name, "constant", Shape.of(array), [], {"literal": array})
