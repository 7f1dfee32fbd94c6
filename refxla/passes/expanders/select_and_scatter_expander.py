"""Select-and-scatter whose windows do not overlap, as an elementwise function: the gradient of most max pooling.

Every element of the result belongs to one placing of the window at most, so it can ask what its window selects, instead
of being written by it:

    place[o]    = the number of the window's element that `select` picks, from slices of the operand, one per element
    result[i..] = scatter(init_value, source[o]) if i is element place[o] of window o, else init_value

This fuses with what comes next, such as relu's gradient and the sum over the batch that is the bias' gradient, where a
kernel of its own would write the result to memory for them. Each element of a window repeats the choice, so the window
must be small; and vectors go along the last dimension, so the window must not.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from refxla_spec.module import Instruction, PaddingDimension, SliceDimension, WindowDimension
from refxla_spec.types import S32, Shape
from refxla_spec.vectorize import binary_opcode

from ...ir.builder import Build
from ..call_inliner import mapped

MOST_ELEMENTS = 9  # of a window: each of them repeats a choice among all
VECTOR = 16  # elements: the last dimension is a multiple, so that rows have no partial vectors


def _expand(i: Instruction) -> Instruction | None:
    if not _is_elementwise(i):
        return None
    operand, source, init = i.operands
    b, sizes, counts = Build(i.name), operand.shape.dimensions, source.shape.dimensions
    window = tuple(w.size for w in i.window)
    elements = []
    for offsets in product(*map(range, window)):
        cut = zip(offsets, counts, window, strict=True)
        slices = tuple(SliceDimension(e, e + (count - 1) * size + 1, size) for e, count, size in cut)
        elements.append(b.make("slice", operand, slice=slices))
    selected = elements[0]
    place = b.full(0, selected.shape.with_element_type(S32))
    for number, element in enumerate(elements[1:], 1):
        (keep,) = mapped(i.select, [selected, element], place, b.name)
        place = b.select(keep, place, number)
        selected = b.select(keep, selected, element)

    # The dimensions of windows and of their elements, in turns: joined in pairs, they are those of the operand.
    pairs = tuple(size for pair in zip(counts, window, strict=True) for size in pair)
    outer = tuple(range(0, len(pairs), 2))
    literal = np.arange(prod(window), dtype=np.int32).reshape(window)
    numbers = b.make("constant", shape=Shape.array(S32, window), literal=literal)
    own = b.spread(numbers, place.shape.with_dimensions(pairs), tuple(range(1, len(pairs), 2)))
    (combined,) = mapped(i.scatter, [b.spread(init, source.shape, ()), source], source, b.name)
    values = b.spread(combined, source.shape.with_dimensions(pairs), outer)
    is_selected = b.compare(b.spread(place, own.shape, outer), own, direction="EQ")
    result = b.reshape(
        b.select(is_selected, values, b.spread(init, values.shape, ())),
        tuple(count * size for count, size in zip(counts, window, strict=True)),
    )
    if result.shape.dimensions == sizes:
        return result
    behind = (PaddingDimension(0, size - inside) for size, inside in zip(sizes, result.shape.dimensions, strict=True))
    return b.make("pad", result, init, padding=tuple(behind))


def _is_elementwise(i: Instruction) -> bool:
    """Whether windows are small, lie inside, and neither overlap nor leave gaps, along dimensions before the last one,
    whose rows are whole vectors.

    A scatter that is one operation rounds once, as a sum in a wider type does."""
    window = i.attributes.get("window", ())
    if not window or 0 in i.operands[1].shape.dimensions or binary_opcode(i.scatter) is None:
        return False
    has_vectors = window[-1] == WindowDimension(1) and i.shape.dimensions[-1] % VECTOR == 0
    aligned = all(w.stride == w.size and w.padding_low == 0 and w.padding_high <= 0 for w in window)
    return has_vectors and aligned and prod(w.size for w in window) <= MOST_ELEMENTS


EXPANSIONS = {"select-and-scatter": _expand}
