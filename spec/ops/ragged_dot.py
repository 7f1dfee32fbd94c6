"""A dot whose left operand is divided, along one of its dimensions, into groups of sizes that are known at run time.

Group g has the indices from group_sizes[0] + .. + group_sizes[g-1] on, as many as group_sizes[g], along the one
dimension of lhs that lhs_ragged_dims names. What that dimension is in the dot decides what the groups do. Where it is
neither batch nor contracted, rhs has a dimension for the groups, which rhs_group_dims names, and with the group g that
holds m (the result is zero for an m that no group holds)

    result[b.., m, n..] = sum over k.. of lhs[b.., m, k..] * rhs[g, b.., k.., n..]

Where it is contracted, each group is a sum of its own:

    result[g, b.., m.., n..] = sum over k of lhs[b.., m.., k] * rhs[b.., k, n..]    for the k in group g

Where it is a batch dimension this is the dot itself: each batch has a product of its own already, and group_sizes has
no effect.

Everything else is as for dot. group_sizes is one list for the whole array, or one for each index of the dimensions of
lhs that stand before the ragged one: the batch dimensions, and then of the dimensions of the ragged one's kind (free or
contracted, in lhs's order or that of lhs_contracting_dims) those before it; of the batch dimensions alone those before.
A negative size counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..attributes import ENUMS, INTS, REQUIRED, Attribute
from ..module import Instruction
from ..numerics import convert
from ..operation import Example, require
from ..types import ELEMENT_TYPES, Array, Shape
from . import dot

INPUTS = {"lhs": "an array", "rhs": "an array", "group_sizes": "integers"}
ATTRIBUTES = {
    **{name: attribute for name, attribute in dot.ATTRIBUTES.items() if name.endswith("_dims")},
    "lhs_ragged_dims": Attribute(INTS, REQUIRED, "the one dimension of lhs that is divided into groups"),
    "rhs_group_dims": Attribute(INTS, (), "the dimension of rhs that runs over the groups, if there is one"),
    "operand_precision": Attribute(ENUMS, (), "how exact an implementation must be: default, high, highest"),
}
CONSTRAINTS = {
    **dot.CONSTRAINTS,
    "C6": "lhs_ragged_dims names one dimension of lhs",
    "C7": "rhs_group_dims names one dimension of rhs that is neither batch nor contracting if the ragged dimension is "
    "neither, and none otherwise",
    "C8": "group_sizes holds integers, for each index of no or all dimensions that stand before the ragged one",
    "C9": "the dimension that rhs_group_dims names is as large as there are groups",
}


def _others(rank: int, *used: tuple[int, ...]) -> tuple[int, ...]:
    axes = {d for dims in used for d in dims}
    return tuple(d for d in range(rank) if d not in axes)


def ragged_kind(instruction: Instruction) -> str:
    """What the ragged dimension is in the dot: free, contracting or batch."""
    (d,) = instruction.lhs_ragged_dims
    if d in instruction.lhs_batch_dims:
        return "batch"
    return "contracting" if d in instruction.lhs_contracting_dims else "free"


def prefix(instruction: Instruction, rank: int) -> tuple[int, ...]:
    """The dimensions of lhs, of that rank, that stand before the ragged one."""
    (d,), batch = instruction.lhs_ragged_dims, instruction.lhs_batch_dims
    contracting = instruction.lhs_contracting_dims
    kinds = {"batch": batch, "contracting": contracting, "free": _others(rank, batch, contracting)}
    kind = ragged_kind(instruction)
    before = kinds[kind][: kinds[kind].index(d)]
    return before if kind == "batch" else batch + before


def infer(instruction: Instruction, lhs: Shape, rhs: Shape, group_sizes: Shape) -> Shape:
    result = dot.infer(instruction, lhs, rhs)
    ragged = instruction.lhs_ragged_dims
    require(len(ragged) == 1 and 0 <= ragged[0] < lhs.rank, "C6", f"lhs_ragged_dims is {ragged}, lhs is {lhs}")
    free, group = ragged_kind(instruction) == "free", instruction.rhs_group_dims
    fits = len(group) == int(free)
    fits = fits and set(group) <= set(_others(rhs.rank, instruction.rhs_batch_dims, instruction.rhs_contracting_dims))
    require(fits, "C7", f"rhs_group_dims is {group}, rhs is {rhs}, lhs_ragged_dims is {ragged}")
    before = tuple(lhs.dimensions[d] for d in prefix(instruction, lhs.rank))
    fits = group_sizes.element_type.is_integer and group_sizes.rank > 0
    fits = fits and group_sizes.dimensions[:-1] in ((), before)
    require(fits, "C8", f"group_sizes is {group_sizes}; before the ragged dimension stand those of sizes {before}")
    groups = group_sizes.dimensions[-1]
    if free:
        require(rhs.dimensions[group[0]] == groups, "C9", f"rhs is {rhs}, group_sizes is {group_sizes}")
        batch = instruction.rhs_batch_dims
        rest = _others(rhs.rank, batch, instruction.rhs_contracting_dims)
        at = result.rank - len(rest) + rest.index(group[0])
        return result.with_dimensions(result.dimensions[:at] + result.dimensions[at + 1 :])
    if ragged_kind(instruction) == "contracting":
        return result.with_dimensions((groups, *result.dimensions))
    return result


def evaluate(instruction: Instruction, lhs: Array, rhs: Array, group_sizes: Array) -> Array:
    kind, result = ragged_kind(instruction), instruction.shape
    if kind == "batch":
        return dot.evaluate(instruction, lhs, rhs)
    inside = members(instruction, lhs.shape, group_sizes)
    if kind == "contracting":
        (d,) = instruction.lhs_ragged_dims
        other = _matching(instruction, rhs.ndim, lhs.ndim, d)
        one = replace(instruction, shape=result.with_dimensions(result.dimensions[1:]))
        parts = [
            dot.evaluate(one, np.where(g, lhs, zero(lhs)), np.where(other(g), rhs, zero(rhs))).reshape(
                one.shape.dimensions
            )
            for g in inside
        ]
        return np.stack(parts) if parts else np.zeros(result.dimensions, result.element_type.dtype)
    product, position = one_group(instruction, rhs.ndim)
    total = np.zeros(result.dimensions, result.element_type.dtype)
    for g, mask in enumerate(inside):
        of_group = dot.evaluate(product, lhs, rhs.take(g, position))
        total = np.where(_in_result(instruction, mask, lhs.ndim, total.ndim), of_group, total)
    return total


def zero(array: Array) -> Array:
    """A zero of the array's type."""
    return np.zeros((), array.dtype)


def members(instruction: Instruction, sizes: tuple[int, ...], group_sizes: Array) -> Array:
    """pred[groups, .. lhs's dimensions, 1 where it makes no difference ..]: whether a group holds an index."""
    (d,), before = instruction.lhs_ragged_dims, prefix(instruction, len(sizes))
    counts = np.maximum(convert(group_sizes, ELEMENT_TYPES["s64"]), 0)
    ends = np.cumsum(counts, axis=-1)
    starts = ends - counts
    shape = [1] * len(sizes)
    order = sorted(before) if group_sizes.ndim > 1 else []
    for p in order:
        shape[p] = sizes[p]

    def placed(edges: Array) -> Array:  # [before.., groups] -> [groups, lhs's dimensions]
        moved = np.moveaxis(edges, -1, 0)
        if order:
            moved = moved.transpose(0, *(1 + before.index(p) for p in order))
        return moved.reshape(-1, *shape)

    index_shape = [1] * len(sizes)
    index_shape[d] = sizes[d]
    index = np.arange(sizes[d]).reshape(index_shape)
    return (placed(starts) <= index) & (index < placed(ends))


def _matching(instruction: Instruction, rank: int, lhs_rank: int, ragged: int) -> Callable[[Array], Array]:
    """What turns a mask of lhs into one of rhs, whose batch and contracting dimensions go with lhs's."""
    pairs = dict(zip(instruction.lhs_batch_dims, instruction.rhs_batch_dims, strict=True))
    pairs |= dict(zip(instruction.lhs_contracting_dims, instruction.rhs_contracting_dims, strict=True))

    def transposed(mask: Array) -> Array:
        dims = [d for d in range(lhs_rank) if mask.shape[d] != 1 or d == ragged]
        shape = [1] * rank
        for d in dims:
            shape[pairs[d]] = mask.shape[d]
        order = sorted(dims, key=pairs.__getitem__)
        rest = [d for d in range(lhs_rank) if d not in dims]
        return mask.transpose(*order, *rest).reshape(shape)

    return transposed


def one_group(instruction: Instruction, rhs_rank: int) -> tuple[Instruction, int]:
    """The dot of lhs with one group's part of rhs, and which dimension of rhs the groups are."""
    (position,) = instruction.rhs_group_dims

    def without(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d - (d > position) for d in dims)

    changed = {
        "rhs_batch_dims": without(instruction.rhs_batch_dims),
        "rhs_contracting_dims": without(instruction.rhs_contracting_dims),
    }
    return replace(instruction, attributes={**instruction.attributes, **changed}), position


def _in_result(instruction: Instruction, mask: Array, lhs_rank: int, rank: int) -> Array:
    """A mask of lhs, which has size 1 along contracted dimensions, over the dimensions of the result."""
    batch, contracting = instruction.lhs_batch_dims, instruction.lhs_contracting_dims
    order = (*batch, *_others(lhs_rank, batch, contracting))
    moved = mask.transpose(*order, *contracting)
    return moved.reshape(*moved.shape[: len(order)], *(1,) * (rank - len(order)))


EXAMPLES = (
    Example(
        """x = f32[4,2] parameter(0)
           w = f32[2,2,1] parameter(1)
           sizes = s32[2] parameter(2)
           ROOT r = f32[4,1] ragged-dot(x, w, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1},
                                                     lhs_ragged_dims={0}, rhs_group_dims={0}""",
        ("f32[4,2] {{1,2},{3,4},{5,6},{7,8}}", "f32[2,2,1] {{{1},{1}},{{10},{10}}}", "s32[2] {1,2}"),
        ("f32[4,1] {{3},{70},{110},{0}}",),
        "one row of the first group, two of the second, and one that no group holds",
    ),
    Example(
        """x = f32[1,4] parameter(0)
           y = f32[4,1] parameter(1)
           sizes = s32[3] parameter(2)
           ROOT r = f32[3,1,1] ragged-dot(x, y, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={0},
                                                       lhs_ragged_dims={1}""",
        ("f32[1,4] {{1,2,3,4}}", "f32[4,1] {{1},{10},{100},{1000}}", "s32[3] {1,0,2}"),
        ("f32[3,1,1] {{{1}},{{0}},{{320}}}",),
        "the sum in parts",
    ),
    Example(
        """x = s32[2,1,2] parameter(0)
           y = s32[2,2,1] parameter(1)
           sizes = s32[1] parameter(2)
           ROOT r = s32[2,1,1] ragged-dot(x, y, sizes), lhs_batch_dims={0}, lhs_contracting_dims={2},
                                          rhs_batch_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={0}""",
        ("s32[2,1,2] {{{1,2}},{{3,4}}}", "s32[2,2,1] {{{1},{1}},{{1},{1}}}", "s32[1] {1}"),
        ("s32[2,1,1] {{{3}},{{7}}}",),
        "groups of batches",
    ),
)


def _broken(
    attributes: str, lhs: str = "f32[4,2]", rhs: str = "f32[2,2,3]", sizes: str = "s32[2]", result: str = "f32[4,3]"
) -> str:
    return f"""x = {lhs} parameter(0)
               w = {rhs} parameter(1)
               sizes = {sizes} parameter(2)
               ROOT r = {result} ragged-dot(x, w, sizes), {attributes}"""


_DIMS = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
_GROUPS = "lhs_ragged_dims={0}, rhs_group_dims={0}"
COUNTEREXAMPLES = {
    "C1": _broken(f"lhs_contracting_dims={{7}}, rhs_contracting_dims={{1}}, {_GROUPS}"),
    "C2": _broken(f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{1,2}}, {_GROUPS}"),
    "C3": _broken(f"{_DIMS}, {_GROUPS}", lhs="f32[4,5]"),
    "C4": _broken(f"{_DIMS}, {_GROUPS}", lhs="token[]"),
    "C5": _broken(f"{_DIMS}, {_GROUPS}", result="s32[4,3]"),
    "C6": _broken(f"{_DIMS}, lhs_ragged_dims={{2}}, rhs_group_dims={{0}}"),
    "C7": _broken(f"{_DIMS}, lhs_ragged_dims={{0}}, rhs_group_dims={{1}}"),
    "C8": _broken(f"{_DIMS}, {_GROUPS}", sizes="s32[7,2]"),
    "C9": _broken(f"{_DIMS}, {_GROUPS}", sizes="s32[5]"),
}
