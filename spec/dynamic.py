"""Bounded dynamic shapes: what f32[<=4,3] means, and what the operations share about it.

A dimension may be *marked*: `<=4` says that its size is known at run time only and is at most 4, its bound. A value of
a dynamic shape is an array of the size that it has: nothing lies between that size and the bound. Each operation means
on such values what it means on arrays of exactly those sizes, and its result comes out at the size that follows from
them. Marks say what is known beforehand; they change no value. `infer` gives a result the marks that XLA's shape
inference gives it, and a program may state others, as XLA's verifier lets it.

What XLA does otherwise is not taken over, for it is no meaning but a trace of how arrays lie there at their bounds:
indices clamped to the bound (gather, dynamic-update-slice), windows whose padding and dilation do not count, sizes
below 0 (pad, slice), one of two sizes of 1 repeated to the other in an elementwise operation. The programs that show
each stand in tests/compiler/test_dynamic.py.

Of StableHLO, set_dimension_size, get_dimension_size and dynamic_reshape become the operations of these names; the last
takes its sizes by slices of the vector of them. real_dynamic_slice, dynamic_pad, dynamic_iota and
dynamic_broadcast_in_dim have no HLO: StableHLO makes them static where their sizes are constants, and refuses others.

Where operands must have equal sizes and do not at run time, each counts with its first elements only, as many as the
smallest of them has (`meet`): so f32[<=4] with f32[4], a constant say, is computed at the size of the former.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from .errors import EvaluationError
from .module import Instruction
from .types import Array, ElementType, Shape


def marked(element_type: ElementType, dimensions: Iterable[int], marks: Iterable[bool] = ()) -> Shape:
    """An array shape with these marks; none at all is written as ()."""
    marks = tuple(marks)
    return Shape(element_type, tuple(dimensions), None, marks if any(marks) else ())


def joined(*shapes: Shape) -> tuple[bool, ...]:
    """Of shapes of one rank, which dimensions are marked in any; scalars among them do not count."""
    ranked = [s for s in shapes if s.rank]
    return tuple(map(any, zip(*(s.marks for s in ranked), strict=True)))


def union(first: Shape, *others: Shape) -> Shape:
    """The first shape with the marks of them all; tuples element by element."""
    if first.is_tuple:
        return Shape.tuple_of(
            *(union(*each) for each in zip(first.elements, *(o.elements for o in others), strict=True))
        )
    return marked(first.element_type, first.dimensions, joined(first, *others)) if first.is_array else first


def meet(arrays: Sequence[Array], dimensions: Iterable[int] | None = None) -> list[Array]:
    """Arrays of one rank, each with its first elements only, as many as the smallest has, in these dimensions (all).

    Scalars among arrays stay as they are.
    """
    ranked = [a.shape for a in arrays if a.ndim]
    if len(set(ranked)) < 2:
        return list(arrays)
    least = [min(sizes) for sizes in zip(*ranked, strict=True)]
    chosen = range(len(least)) if dimensions is None else tuple(dimensions)
    cut = tuple(slice(least[d]) if d in chosen else slice(None) for d in range(len(least)))
    return [a[cut] if a.ndim else a for a in arrays]


def meet_dimensions(left: Array, right: Array, pairs: Iterable[tuple[int, int]]) -> tuple[Array, Array]:
    """Two arrays, cut to the smaller size in each pair (dimension of left, dimension of right) that goes together."""
    for of_left, of_right in pairs:
        size = min(left.shape[of_left], right.shape[of_right])
        left = left[(slice(None),) * of_left + (slice(size),)]
        right = right[(slice(None),) * of_right + (slice(size),)]
    return left, right


def factors(before: Sequence[int], after: Sequence[int]) -> list[tuple[range, range]]:
    """The dimensions of two shapes of as many elements in groups that go together: (dimensions before, after).

    Each group holds as many elements on both sides, and the groups are as small as can be. Dimensions of size 1 belong
    to the group after which they stand, or to the first one. Where there are no elements, all is one group.
    """
    if not prod(before) or not prod(after):
        return [(range(len(before)), range(len(after)))]
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        first, second = i, j
        have = want = 1
        while True:
            if have == want and have > 1:
                break
            if have <= want and i < len(before):
                have, i = have * before[i], i + 1
            elif j < len(after):
                want, j = want * after[j], j + 1
            elif i < len(before):
                have, i = have * before[i], i + 1
            else:
                break
        # A dimension of 1 goes with the group before it, unless its like stands at the same place on the other side.
        while i < len(before) and before[i] == 1 and not (j < len(after) and after[j] == 1):
            i += 1
        while j < len(after) and after[j] == 1 and not (i < len(before) and before[i] == 1):
            j += 1
        groups.append((range(first, i), range(second, j)))
    return groups


def reshaped_sizes(instruction: Instruction, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of the result of a reshape of a value of these sizes.

    In each group of dimensions (`factors` of the bounds) the one marked dimension of the result takes what the others
    leave. Raises EvaluationError where that is no whole number, or where nothing can take it.
    """
    source, shape = instruction.operands[0].shape, instruction.shape
    if sizes == source.dimensions:
        return shape.dimensions
    result = list(shape.dimensions)
    for before, after in factors(source.dimensions, shape.dimensions):
        taker = taker_of(instruction, before, after)
        have = prod(sizes[d] for d in before)
        others = prod(result[d] for d in after if d != taker)
        if taker is not None and others and have % others == 0:
            result[taker] = have // others
        if prod(result[d] for d in after) != have:
            raise EvaluationError(
                f"{instruction.name}: a value of sizes {list(sizes)} does not go into {shape.without_layout()}: "
                "give the sizes by dynamic-reshape"
            )
    return tuple(result)


def taker_of(instruction: Instruction, before: range, after: range) -> int | None:
    """The dimension of a reshape's result whose size follows from the others of its group; None where no one does.

    It is inferred_dimension where that is in the group, else the marked one; of several, the one that stands in the
    place of its like.
    """
    shape = instruction.shape
    if instruction.opcode == "reshape" and instruction.inferred_dimension in after:
        return instruction.inferred_dimension
    candidates = [d for d in after if shape.marks[d]]
    if len(candidates) > 1:
        candidates = [d for d in candidates if shape.dimensions[d] > 1]
    return candidates[0] if len(candidates) == 1 else None


def resized(array: Array, dimension: int, size: int) -> Array:
    """The array with another size in one dimension: its first elements, and zeros after them where it grows."""
    have = array.shape[dimension]
    if size <= have:
        return array[(slice(None),) * dimension + (slice(size),)]
    widths = [(0, size - have if d == dimension else 0) for d in range(array.ndim)]
    return np.pad(array, widths) if array.dtype.kind in "biufc" else _padded(array, widths)


def _padded(array: Array, widths: list[tuple[int, int]]) -> Array:
    result = np.zeros([n + w for n, (_, w) in zip(array.shape, widths, strict=True)], array.dtype)
    result[tuple(slice(n) for n in array.shape)] = array
    return result


def pad_to_static(instruction: Instruction, operand: Array) -> tuple[Array, ...]:
    """The custom call PadToStatic: the operand at its bounds, with zeros, and the size of each dimension, s32[]."""
    sizes = tuple(np.array(n, np.int32) for n in operand.shape)
    for d, bound in enumerate(instruction.operands[0].shape.dimensions):
        operand = resized(operand, d, bound)
    return operand, *sizes


def slice_to_dynamic(instruction: Instruction, operand: Array, *sizes: Array) -> Array:
    """The custom call SliceToDynamic: the operand's first elements, as many in each dimension as the sizes say."""
    for d, size in enumerate(sizes):
        operand = resized(operand, d, max(0, min(int(size), instruction.shape.dimensions[d])))
    return operand


def check_sizes(sizes: tuple[int, ...], shape: Shape) -> bool:
    """Whether an array of these sizes is a value of the shape."""
    if len(sizes) != shape.rank:
        return False
    return all(n == d or (m and n <= d) for n, d, m in zip(sizes, shape.dimensions, shape.marks, strict=True))
