"""ragged-dot and scaled-dot in terms of dot."""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.ops import ragged_dot
from refxla_spec.ops.scaled_dot import scaled_type
from refxla_spec.types import ELEMENT_TYPES, Shape

from ...ir.builder import Build, adder

_DIMS = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
S64 = ELEMENT_TYPES["s64"]


def _dot(b: Build, lhs: Instruction, rhs: Instruction, shape: Shape, dims: dict[str, tuple[int, ...]]) -> Instruction:
    return b.make("dot", lhs, rhs, shape=shape.with_dimensions(shape.dimensions), **dims)


def _scaled(i: Instruction) -> Instruction:
    b = Build(i.name)
    lhs, rhs = (_scaled_operand(b, *pair) for pair in zip(i.operands[:2], i.operands[2:], strict=True))
    return _dot(b, lhs, rhs, i.shape, {name: getattr(i, name) for name in _DIMS})


def _scaled_operand(b: Build, x: Instruction, scale: Instruction) -> Instruction:
    element_type = scaled_type(x.shape.element_type, scale.shape.element_type)
    x, scale = b.convert(x, element_type), b.convert(scale, element_type)
    if scale.shape.is_scalar:
        return b.multiply(x, b.spread(scale, x.shape, ()))
    sizes, counts = x.shape.dimensions, scale.shape.dimensions
    if not x.shape.size:
        return x
    blocks = [n for size, count in zip(sizes, counts, strict=True) for n in (count, size // count)]
    wide = b.spread(scale, Shape(element_type, tuple(blocks)), tuple(range(0, len(blocks), 2)))
    return b.multiply(x, b.reshape(wide, sizes))


def _ragged(i: Instruction) -> Instruction:
    b, (lhs, rhs, sizes) = Build(i.name), i.operands
    dims = {name: getattr(i, name) for name in _DIMS}
    kind = ragged_dot.ragged_kind(i)
    if kind == "batch":
        return _dot(b, lhs, rhs, i.shape, dims)
    if not sizes.shape.size or not i.shape.size:
        return b.full(0, i.shape)
    groups = sizes.shape.dimensions[-1]
    starts, ends = _edges(b, sizes)
    if kind == "contracting":
        return _by_parts(b, i, dims, groups, starts, ends)
    # The dot of lhs with each group's part of rhs, the groups as one more batch dimension; of these one is chosen.
    wide_lhs = b.spread(lhs, Shape(lhs.shape.element_type, (groups, *lhs.shape.dimensions)), _behind(lhs.shape.rank))
    (position,) = i.rhs_group_dims
    batched = {
        "lhs_batch_dims": (0, *(d + 1 for d in dims["lhs_batch_dims"])),
        "rhs_batch_dims": (position, *dims["rhs_batch_dims"]),
        "lhs_contracting_dims": tuple(d + 1 for d in dims["lhs_contracting_dims"]),
        "rhs_contracting_dims": dims["rhs_contracting_dims"],
    }
    products = _dot(b, wide_lhs, rhs, Shape(i.shape.element_type, (groups, *i.shape.dimensions)), batched)
    free = [d for d in range(lhs.shape.rank) if d not in dims["lhs_batch_dims"] + dims["lhs_contracting_dims"]]
    places = {d: 1 + n for n, d in enumerate((*dims["lhs_batch_dims"], *free))}
    inside = _inside(b, i, products.shape, starts, ends, places)
    # Of each element's terms all but one are -0, which changes no bit of the one.
    element_type = i.shape.element_type
    nothing = b.full(-0.0 if not element_type.is_integer else 0, products.shape)
    terms = b.make("select", inside, products, nothing)
    chosen = b.reduce(terms, -0.0 if not element_type.is_integer else 0, (0,), adder(element_type))
    count = b.reduce(b.convert(inside, "s32"), 0, (0,), adder(ELEMENT_TYPES["s32"]))
    return b.make("select", b.compare(count, 0, direction="GT"), chosen, b.full(0, chosen.shape))


def _by_parts(
    b: Build, i: Instruction, dims: dict[str, tuple[int, ...]], groups: int, starts: Instruction, ends: Instruction
) -> Instruction:
    """The contracted dimension in groups: what a group does not hold is zero, on both sides."""
    lhs, rhs, _ = i.operands
    lhs_places = {d: d + 1 for d in range(lhs.shape.rank)}
    pairs = dict(zip(dims["lhs_batch_dims"], dims["rhs_batch_dims"], strict=True))
    pairs |= dict(zip(dims["lhs_contracting_dims"], dims["rhs_contracting_dims"], strict=True))

    def in_groups(x: Instruction, places: dict[int, int]) -> Instruction:
        wide = b.spread(x, Shape(x.shape.element_type, (groups, *x.shape.dimensions)), _behind(x.shape.rank))
        inside = _inside(b, i, wide.shape, starts, ends, places)
        return b.make("select", inside, wide, b.full(0, wide.shape))

    left, right = in_groups(lhs, lhs_places), in_groups(rhs, {d: e + 1 for d, e in pairs.items()})
    batched = {name: ((0,) if "batch" in name else ()) + tuple(d + 1 for d in value) for name, value in dims.items()}
    return _dot(b, left, right, i.shape, batched)


def _behind(rank: int) -> tuple[int, ...]:
    return tuple(range(1, rank + 1))


def _edges(b: Build, sizes: Instruction) -> tuple[Instruction, Instruction]:
    """The first index of each group, and the one after its last, as s64 of the dimensions of `sizes`."""
    counts = b.maximum(b.convert(sizes, S64), 0)
    *before, groups = counts.shape.dimensions
    wide = Shape(S64, (*before, groups, groups))
    rank = len(before)
    of_source = b.spread(counts, wide, (*range(rank), rank))
    source, target = (b.iota(S64, wide.dimensions, rank + n) for n in (0, 1))
    earlier = b.compare(source, target, direction="LT")
    starts = b.reduce(b.make("select", earlier, of_source, b.full(0, wide)), 0, (rank,), adder(S64))
    return starts, b.add(starts, counts)


def _inside(
    b: Build, i: Instruction, shape: Shape, starts: Instruction, ends: Instruction, places: dict[int, int]
) -> Instruction:
    """pred of `shape`, whose dimension 0 runs over the groups and whose places[d] over lhs's dimension d."""
    (ragged,), before = i.lhs_ragged_dims, ragged_dot.prefix(i, i.operands[0].shape.rank)
    where = (*(places[d] for d in before), 0) if starts.shape.rank > 1 else (0,)
    # a broadcast's dimensions may come in any order
    low, high = (b.spread(e, shape.with_element_type(S64), where) for e in (starts, ends))
    index = b.iota(S64, shape.dimensions, places[ragged])
    return b.and_(b.compare(index, low, direction="GE"), b.compare(index, high, direction="LT"))


EXPANSIONS = {"ragged-dot": _ragged, "scaled-dot": _scaled}
