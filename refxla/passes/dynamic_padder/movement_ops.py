"""The rules of data movement: they close the gaps that padding leaves between elements."""

from __future__ import annotations

from math import prod

from refxla_spec.dynamic import factors, taker_of
from refxla_spec.module import Instruction, PaddingDimension
from refxla_spec.types import S32, Shape

from ...ir.builder import Build
from .dimension_sizes import Rule, Size, SizedArray, least, live, masked, met, number, shifted, unsupported, zero


def broadcast(b: Build, i: Instruction, x: SizedArray) -> SizedArray:
    sizes: list[Size] = [None] * i.shape.rank
    for d, size in zip(i.dimensions, x.sizes, strict=True):
        sizes[d] = size
    return SizedArray(b.spread(x.array, i.shape, i.dimensions), tuple(sizes))


def transpose(b: Build, i: Instruction, x: SizedArray) -> SizedArray:
    result = b.make("transpose", x.array, dimensions=i.dimensions)
    return SizedArray(result, tuple(x.sizes[d] for d in i.dimensions))


def reverse(b: Build, i: Instruction, x: SizedArray) -> SizedArray:
    """The elements beyond the size come first after a reverse, and are shifted out."""
    result = b.make("reverse", x.array, dimensions=i.dimensions)
    for d in i.dimensions:
        if x.sizes[d] is not None:
            bound = b.scalar(result.shape.dimensions[d], S32)
            result = shifted(b, result, d, b.subtract(bound, x.sizes[d]))
    return SizedArray(result, x.sizes)


def slice_(b: Build, i: Instruction, x: SizedArray) -> SizedArray:
    result = b.make("slice", x.array, slice=i.slice)
    sizes: list[Size] = []
    for part, size, count in zip(i.slice, x.sizes, result.shape.dimensions, strict=True):
        if size is None or count <= 1:
            sizes.append(None if count else b.scalar(0, S32) if size is not None else None)
            continue
        there = b.maximum(b.subtract(b.minimum(size, part.limit), part.start), 0)
        sizes.append(b.divide(b.add(there, part.stride - 1), part.stride) if part.stride > 1 else there)
    return SizedArray(result, tuple(sizes))


def pad(b: Build, i: Instruction, x: SizedArray, value: SizedArray) -> SizedArray:
    """The elements beyond the size become padding, of which there may be more than the new size counts."""
    result = b.make("pad", masked(b, x, value.array), value.array, padding=i.padding)
    sizes: list[Size] = []
    for p, size in zip(i.padding, x.sizes, strict=True):
        if size is not None and p != PaddingDimension(0, 0, 0):
            between = b.multiply(b.maximum(b.subtract(size, 1), 0), p.interior) if p.interior else b.scalar(0, S32)
            size = b.maximum(b.add(b.add(size, between), p.low + p.high), 0)
        sizes.append(size)
    return SizedArray(result, tuple(sizes))


def concatenate(b: Build, i: Instruction, *xs: SizedArray) -> SizedArray:
    """Each operand is written where the previous one ends, over the elements beyond the size of that one."""
    (along,) = i.dimensions
    sizes = list(met(b, xs))
    if all(x.sizes[along] is None for x in xs):
        sizes[along] = None
        return SizedArray(b.make("concatenate", *(x.array for x in xs), dimensions=i.dimensions), tuple(sizes))
    result = b.full(0, i.shape.static())
    start = b.scalar(0, S32)
    for x in xs:
        result = b.put(result, x.array, along, start)
        start = b.add(start, number(b, x, along))
    sizes[along] = start
    return SizedArray(result, tuple(sizes))


def get_dimension_size(b: Build, i: Instruction, x: SizedArray) -> SizedArray:
    return SizedArray.whole(number(b, x, i.dimensions[0]))


def set_dimension_size(b: Build, i: Instruction, x: SizedArray, size: SizedArray) -> SizedArray:
    """Elements beyond the old size become zeros, since the array may grow."""
    (d,) = i.dimensions
    bound = x.array.shape.dimensions[d]
    constant = size.array.literal if size.array.opcode == "constant" else None
    now = None if constant is not None and int(constant) >= bound else b.minimum(b.maximum(size.array, 0), bound)
    return SizedArray(masked(b, x, zero(b, x), (d,)), (*x.sizes[:d], now, *x.sizes[d + 1 :]))


def reshape(b: Build, i: Instruction, x: SizedArray) -> SizedArray:
    source, shape = x.array.shape, i.shape.static()
    sizes: list[Size] = [None] * shape.rank
    in_place = True
    for before, after in factors(source.dimensions, shape.dimensions):
        dynamic = [d for d in before if x.sizes[d] is not None]
        taker = taker_of(i, before, after)
        if not dynamic or taker is None:
            continue
        have = number(b, x, before[0])
        for d in before[1:]:
            have = b.multiply(have, number(b, x, d))
        others = prod(shape.dimensions[d] for d in after if d != taker)
        sizes[taker] = b.divide(have, others) if others > 1 else have
        # Elements stay where they are if only the slowest dimension of the group is cut, before and after.
        slowest = [next((d for d in g if s.dimensions[d] != 1), g[0]) for g, s in ((before, source), (after, shape))]
        in_place &= dynamic == slowest[:1] and taker == slowest[1]
    if in_place:
        return SizedArray(b.reshape(x.array, shape.dimensions), tuple(sizes))
    return SizedArray(_gathered(b, x, shape, tuple(sizes)), tuple(sizes))


def dynamic_reshape(b: Build, i: Instruction, x: SizedArray, *lengths: SizedArray) -> SizedArray:
    shape = i.shape.static()
    bounds = zip(lengths, i.shape.dimensions, i.shape.marks, strict=True)
    sizes = tuple(b.minimum(b.maximum(s.array, 0), bound) if mark else None for s, bound, mark in bounds)
    if not x.is_dynamic and not any(i.shape.marks):
        return SizedArray(b.reshape(x.array, shape.dimensions), sizes)
    return SizedArray(_gathered(b, x, shape, sizes), sizes)


def _gathered(b: Build, x: SizedArray, shape: Shape, sizes: tuple[Size, ...]) -> Instruction:
    """The elements of x within its sizes, in order, as the elements of `shape` within `sizes`."""
    dims, count = shape.dimensions, x.array.shape.size
    if not count:
        return b.reshape(x.array, dims)
    index = Shape(S32, dims)
    flat, stride = b.full(0, index), b.scalar(1, S32)  # the number of each element of the result
    result = SizedArray(x.array, sizes)
    for d in reversed(range(shape.rank)):
        flat = b.add(flat, b.multiply(b.iota(S32, dims, d), b.spread(stride, index, ())))
        size = b.scalar(dims[d], S32) if result.sizes[d] is None else result.sizes[d]
        stride = b.multiply(stride, size)
    place, step = b.full(0, index), 1  # the position of the element with that number in x
    for d in reversed(range(x.array.shape.rank)):
        size = b.spread(b.maximum(number(b, x, d), 1), index, ())
        place = b.add(place, b.multiply(b.remainder(flat, size), step))
        flat, step = b.divide(flat, size), step * x.array.shape.dimensions[d]
    return b.make(
        "gather",
        b.reshape(x.array, (count,)),
        place,
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=shape.rank,
        slice_sizes=(1,),
    )


def dynamic_slice(b: Build, i: Instruction, x: SizedArray, *starts: SizedArray) -> SizedArray:
    sizes, bounds = i.dynamic_slice_sizes, x.array.shape.dimensions
    whole = [s == n for s, n in zip(sizes, bounds, strict=True)]
    indices = [s.array for s in starts]
    for d, size in enumerate(x.sizes):
        if size is not None and not whole[d]:
            if indices[0].shape.rank:
                raise unsupported(i, "a part of a dynamic dimension from a place in a vector")
            indices[d] = _at_most(b, indices[d], b.subtract(size, sizes[d]))
    indices = _of_one_type(b, indices, bounds, sizes)
    result = b.make("dynamic-slice", x.array, *indices, dynamic_slice_sizes=sizes)
    return SizedArray(result, tuple(s if w else None for s, w in zip(x.sizes, whole, strict=True)))


def _of_one_type(
    b: Build, indices: list[Instruction], bounds: tuple[int, ...], extents: tuple[int, ...]
) -> list[Instruction]:
    """Start indices, some of which have become s32[], all as s32[]; the others are clamped, as their type may hold
    more."""
    if len({s.shape.element_type for s in indices}) < 2:
        return indices
    limits = (b.scalar(n - k, S32) for n, k in zip(bounds, extents, strict=True))
    return [
        s if s.shape.element_type is S32 else _at_most(b, s, limit) for s, limit in zip(indices, limits, strict=True)
    ]


def _at_most(b: Build, start: Instruction, limit: Instruction) -> Instruction:
    """A start index of any integer type as s32[], clamped to 0..limit."""
    if start.shape.element_type.kind == "unsigned" or start.shape.element_type.bits > 32:
        highest = (1 << 31) - 1
        if start.shape.element_type.bits >= 32:
            start = b.minimum(start, highest)
        if start.shape.element_type.kind == "signed":
            start = b.maximum(start, 0)
    start = b.convert(start, S32)
    return b.maximum(b.minimum(start, limit), 0)


def dynamic_update_slice(
    b: Build, i: Instruction, x: SizedArray, update: SizedArray, *starts: SizedArray
) -> SizedArray:
    """Only the elements within the update's sizes are written; the rest keep their old values."""
    bounds, extents = x.array.shape.dimensions, update.array.shape.dimensions
    indices = [s.array for s in starts]
    if indices and indices[0].shape.rank:
        raise unsupported(i, "at a place in a vector")
    sizes, blocks, more = list(x.sizes), list(update.sizes), {}
    for d, (bound, extent) in enumerate(zip(bounds, extents, strict=True)):
        if x.sizes[d] is None and update.sizes[d] is None:
            continue
        if bound == extent:
            sizes[d] = blocks[d] = least(b, x.sizes[d], update.sizes[d])
            indices[d] = b.scalar(0, S32)
            continue
        room = b.subtract(number(b, x, d), number(b, update, d))
        indices[d] = _at_most(b, indices[d], room)
        more[d] = extent
    indices = _of_one_type(b, indices, bounds, extents)
    wide = b.pad(x.array, *(more.get(d, 0) for d in range(len(bounds))))
    new = update.array
    inside = live(b, extents, tuple(blocks))
    if inside is not None:
        there = b.make("dynamic-slice", wide, *indices, dynamic_slice_sizes=extents)
        new = b.select(inside, new, there)
    result = b.make("dynamic-update-slice", wide, new, *indices)
    if more:
        result = b.slice(result, (0,) * len(bounds), bounds)
    return SizedArray(result, tuple(sizes))


def pad_to_static(b: Build, i: Instruction, x: SizedArray) -> list[SizedArray]:
    sizes = [number(b, x, d) for d in range(x.array.shape.rank)]
    return [SizedArray.whole(masked(b, x, zero(b, x))), *map(SizedArray.whole, sizes)]


def slice_to_dynamic(b: Build, i: Instruction, x: SizedArray, *lengths: SizedArray) -> SizedArray:
    inside = masked(b, x, zero(b, x))
    bounds = zip(lengths, i.shape.dimensions, i.shape.marks, strict=True)
    return SizedArray(inside, tuple(b.minimum(b.maximum(s.array, 0), n) if m else None for s, n, m in bounds))


RULES: dict[str, Rule] = {
    "broadcast": broadcast,
    "concatenate": concatenate,
    "dynamic-reshape": dynamic_reshape,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "get-dimension-size": get_dimension_size,
    "pad": pad,
    "reshape": reshape,
    "reverse": reverse,
    "set-dimension-size": set_dimension_size,
    "slice": slice_,
    "transpose": transpose,
}
TARGETS: dict[str, Rule] = {"PadToStatic": pad_to_static, "SliceToDynamic": slice_to_dynamic}
