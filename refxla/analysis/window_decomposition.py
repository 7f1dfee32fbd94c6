"""Which large windows of a reduce-window are computed one dimension at a time, and how each dimension is.

A placing of a window with w elements takes w steps, and neighbours read nearly the same elements. If the window has
several dimensions, its rows are reduced first, then the column of these results: w1 + w2 steps in place of w1 * w2. And
in one dimension n results take some 3 n steps, however long the window is (SLIDING). The specification says that the
reducer is associative and commutative, so it may be regrouped, and the shape alone decides, so that results have the
same bits on every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

from refxla_spec.indexing import window_count
from refxla_spec.module import Instruction, WindowDimension

from .index_maps import cumulative

LARGE = 64  # elements of a window above which it is decomposed, if that saves most of the steps
SCAN = 32.0  # steps of a window that take as long as an element of a scan, which is stored and read again
REDUCED = 0.25  # and as long as an element of a reduce


class Method(Enum):
    """How the windows along one dimension are reduced."""

    DIRECT = "each placing visits its elements"
    REDUCE = "placings do not overlap, or there is only one: each is a row, whose elements are combined in lanes"
    SLIDING = "a window is the end of one block and the beginning of the next: prefixes and suffixes of blocks"


@dataclass(frozen=True)
class WindowPart:
    """One dimension of a window, and how it is reduced."""

    dimension: int
    method: Method


def decomposition(i: Instruction) -> tuple[WindowPart, ...]:
    """The dimensions along which a reduce-window is reduced, one after the other; () if all are at once."""
    window, sizes = i.attributes.get("window", ()), list(i.operands[0].shape.dimensions)
    counts = [window_count(size, w) for size, w in zip(sizes, window, strict=True)]
    elements = prod(w.size for w in window)
    if elements <= LARGE or prod(counts) == 0 or cumulative(i) is not None:
        return ()
    parts: list[WindowPart] = []
    steps = 0.0
    for d in reversed(range(len(window))):
        if window[d] != WindowDimension(1):
            others = prod(sizes) // sizes[d] if sizes[d] else 0
            method, own = _cheapest(window[d], counts[d])
            parts.append(WindowPart(d, method))
            steps += own * others
        sizes[d] = counts[d]
    return tuple(parts) if 2 * steps < prod(counts) * elements else ()


def _cheapest(w: WindowDimension, count: int) -> tuple[Method, float]:
    """The method for one dimension with so many placings, and its steps for each row along the dimension."""
    steps = {Method.DIRECT: 1.0 * count * w.size}
    if w.size > 1 and (count == 1 or (w.window_dilation == 1 and w.stride >= w.size)):
        steps[Method.REDUCE] = REDUCED * count * w.size
    if w.size > 2 and (w.window_dilation == 1 or w.stride == 1):
        steps[Method.SLIDING] = SCAN * ((count - 1) * w.stride + w.size * w.window_dilation)
    method = min(steps, key=steps.__getitem__)
    return method, steps[method]
