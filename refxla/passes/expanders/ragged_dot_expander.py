"""ragged-dot in terms of dot.

Where there is much to compute, by blocks: a loop over blocks of rows, each of which belongs to one group. All blocks
have the same size; in a group's last block, rows beyond the group are masked. This computes the groups' own products
and at most one more block for each group. Otherwise, and where groups differ between batches, by masks: the products of
all rows with each group, of which one is selected.
"""

from __future__ import annotations

from math import prod

from refxla_spec.module import Instruction
from refxla_spec.ops import ragged_dot
from refxla_spec.types import ELEMENT_TYPES, F32, S32, Shape

from ...ir.builder import Build, adder

SMALLEST_BLOCK, LARGEST_BLOCK = 8, 64  # rows
MUCH = 1 << 16  # multiplications in a block
S64 = ELEMENT_TYPES["s64"]
_DIMS = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")


def _expand(i: Instruction) -> Instruction:
    b, (lhs, rhs, sizes) = Build(i.name), i.operands
    kind = ragged_dot.ragged_kind(i)
    if kind == "batch":
        return _dot(b, lhs, rhs, i.shape, {name: getattr(i, name) for name in _DIMS})
    if not sizes.shape.size or not i.shape.size:
        return b.full(0, i.shape)
    if _is_by_blocks(i):
        return _by_blocks(b, i)
    return _sums_by_masks(b, i) if kind == "contracting" else _rows_by_masks(b, i)


def _dot(b: Build, lhs: Instruction, rhs: Instruction, shape: Shape, dims: dict[str, tuple[int, ...]]) -> Instruction:
    return b.make("dot", lhs, rhs, shape=shape.with_dimensions(shape.dimensions), **dims)


# -- by blocks --------------------------------------------------------------------------------------------------------


def _block_size(i: Instruction) -> int:
    """The rows of a block: about those of a group if all groups have the same size."""
    rows, groups = i.operands[0].shape.dimensions[i.lhs_ragged_dims[0]], i.operands[2].shape.size
    size = SMALLEST_BLOCK
    while size < LARGEST_BLOCK and 2 * size * groups <= rows:
        size *= 2
    return size


def _is_by_blocks(i: Instruction) -> bool:
    lhs, sizes = i.operands[0].shape, i.operands[2].shape
    if i.lhs_batch_dims or sizes.rank > 1:
        return False
    rows, size, groups = lhs.dimensions[i.lhs_ragged_dims[0]], _block_size(i), sizes.size
    if 2 * (rows + groups * size) > rows * groups:  # less than half of the products by masks would be saved
        return False
    if ragged_dot.ragged_kind(i) == "contracting":
        results = i.shape.size // groups
        terms = size * prod(lhs.dimensions[d] for d in i.lhs_contracting_dims) // rows
    else:
        results, terms = i.shape.size // rows * size, prod(lhs.dimensions[d] for d in i.lhs_contracting_dims)
    return bool(results * terms >= MUCH)


def _by_blocks(b: Build, i: Instruction) -> Instruction:
    """A loop over blocks that updates the result: it overwrites a block, or adds to the sum of a group."""
    lhs, rhs, sizes = i.operands
    (d,) = i.lhs_ragged_dims
    rows, groups, size = lhs.shape.dimensions[d], sizes.shape.size, _block_size(i)
    starts, ends = (b.minimum(e, rows) for e in _edges(b, sizes))
    counts = b.divide(b.add(b.subtract(ends, starts), size - 1), size)
    firsts, lasts = (b.convert(e, S32) for e in _edges(b, counts))
    starts, ends = b.convert(starts, S32), b.convert(ends, S32)
    # at most as many blocks as if all groups but one began a new one; a block belongs to the first group that ends
    # after it
    number = rows // size + groups
    index, last = b.iota(S32, (number, groups), 0), b.spread(lasts, Shape(S32, (number, groups)), (1,))
    before = b.convert(b.compare(last, index, direction="LE"), S32)
    group_of = b.minimum(b.sum(before, (1,)), groups - 1)
    total = b.reshape(b.slice(lasts, (groups - 1,), (groups,)), ())
    block = _sum_block if ragged_dot.ragged_kind(i) == "contracting" else _row_block

    def iteration(
        k: Instruction,
        result: Instruction,
        lhs: Instruction,
        rhs: Instruction,
        group_of: Instruction,
        starts: Instruction,
        ends: Instruction,
        firsts: Instruction,
        _: Instruction,
    ) -> list[Instruction]:
        def element(x: Instruction, n: Instruction) -> Instruction:
            return b.reshape(b.part(x, 0, n, 1), ())

        group = element(group_of, k)
        first = b.add(element(starts, group), b.multiply(b.subtract(k, element(firsts, group)), size))
        start = b.minimum(first, rows - size)
        row = b.add(b.iota(S32, (size,), 0), b.spread(start, Shape(S32, (size,)), ()))
        low, high = (b.spread(e, row.shape, ()) for e in (first, element(ends, group)))
        inside = b.and_(b.compare(row, low, direction="GE"), b.compare(row, high, direction="LT"))
        return [block(b, i, result, lhs, rhs, group, start, inside)]

    # Of narrow types, sums are rounded once.
    narrow = ragged_dot.ragged_kind(i) == "contracting" and i.shape.element_type.is_float
    wide = F32 if narrow and i.shape.element_type.bits < 32 else i.shape.element_type
    zeros = b.full(0, i.shape.with_element_type(wide))
    invariants = [lhs, rhs, group_of, starts, ends, firsts, total]
    (result,) = b.repeat(
        number, iteration, [zeros], invariants, more=lambda k, *values: b.compare(k, values[-1], direction="LT")
    )
    return b.convert(result, i.shape.element_type)


def _row_block(
    b: Build,
    i: Instruction,
    result: Instruction,
    lhs: Instruction,
    rhs: Instruction,
    group: Instruction,
    start: Instruction,
    inside: Instruction,
) -> Instruction:
    """The result after the block of rows from `start` on: the product of those that are `inside`."""
    (d,), size = i.lhs_ragged_dims, inside.shape.size
    product, position = ragged_dot.one_group(i, rhs.shape.rank)
    dims = {name: getattr(product, name) for name in _DIMS}
    free = [n for n in range(lhs.shape.rank) if n not in i.lhs_contracting_dims]
    place = free.index(d)
    left, right = b.part(lhs, d, start, size), _one(b, rhs, position, group)
    old = b.part(result, place, start, size)
    new = _dot(b, left, right, old.shape, dims)
    return b.put(result, b.make("select", b.spread(inside, old.shape, (place,)), new, old), place, start)


def _sum_block(
    b: Build,
    i: Instruction,
    result: Instruction,
    lhs: Instruction,
    rhs: Instruction,
    group: Instruction,
    start: Instruction,
    inside: Instruction,
) -> Instruction:
    """The results after the block of terms from `start` on: the sum of those that are `inside`, for its group."""
    (d,), size = i.lhs_ragged_dims, inside.shape.size
    e = i.rhs_contracting_dims[i.lhs_contracting_dims.index(d)]

    def terms(x: Instruction, dimension: int) -> Instruction:
        part = b.part(x, dimension, start, size)
        return b.make("select", b.spread(inside, part.shape, (dimension,)), part, b.full(0, part.shape))

    old = _one(b, result, 0, group)
    new = _dot(b, terms(lhs, d), terms(rhs, e), old.shape, {name: getattr(i, name) for name in _DIMS})
    return b.put(result, b.reshape(b.add(old, new), (1, *old.shape.dimensions)), 0, group)


def _one(b: Build, x: Instruction, dimension: int, index: Instruction) -> Instruction:
    """x without a dimension, at an index of it."""
    sizes = x.shape.dimensions
    return b.reshape(b.part(x, dimension, index, 1), sizes[:dimension] + sizes[dimension + 1 :])


# -- by masks ---------------------------------------------------------------------------------------------------------


def _rows_by_masks(b: Build, i: Instruction) -> Instruction:
    """The dot of lhs with each group's part of rhs, the groups as one more batch dimension; one of these is
    selected."""
    lhs, rhs, sizes = i.operands
    groups, dims = sizes.shape.dimensions[-1], {name: getattr(i, name) for name in _DIMS}
    starts, ends = _edges(b, sizes)
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
    # All terms of an element but one are -0, which changes no bit of that one.
    element_type = i.shape.element_type
    nothing = b.full(-0.0 if not element_type.is_integer else 0, products.shape)
    terms = b.make("select", inside, products, nothing)
    chosen = b.reduce(terms, -0.0 if not element_type.is_integer else 0, (0,), adder(element_type))
    count = b.reduce(b.convert(inside, "s32"), 0, (0,), adder(ELEMENT_TYPES["s32"]))
    return b.make("select", b.compare(count, 0, direction="GT"), chosen, b.full(0, chosen.shape))


def _sums_by_masks(b: Build, i: Instruction) -> Instruction:
    """The contracting dimension in groups: elements outside of a group are zero, on both sides."""
    lhs, rhs, sizes = i.operands
    groups, dims = sizes.shape.dimensions[-1], {name: getattr(i, name) for name in _DIMS}
    starts, ends = _edges(b, sizes)
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
    """The bounds of each group, its first index and the one after its last, as s64 with the dimensions of `sizes`."""
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


EXPANSIONS = {"ragged-dot": _expand}
