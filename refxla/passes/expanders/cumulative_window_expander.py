"""Long cumulative sums in blocks: a reduce-window whose results are the prefixes of a dimension.

Computed serially, n results take n dependent steps on one core, and the rounding errors of a sum grow with n. Here the
dimension is cut into blocks:

    local[j, k]  = x[j, 0] + ... + x[j, k]                         the prefixes of each block, all blocks in parallel
    before[j]    = init + local[0, last] + ... + local[j-1, last]  the same problem, with one element for each block
    result[j, k] = before[j] + local[j, k]

The initial value enters once; the prefixes of blocks start from the operation's identity. The specification says that
the operation is associative, so it may be regrouped, and the size of a block follows from the shape alone, so results
have the same bits on every device. Sums of narrow floating-point types are f32 throughout and
rounded once.
"""

from __future__ import annotations

from math import inf, prod

import numpy as np
from refxla_spec.module import Instruction, PaddingDimension, SliceDimension, WindowDimension
from refxla_spec.types import F32, ElementType, Shape
from refxla_spec.vectorize import binary_opcode

from ...analysis.index_maps import cumulative
from ...ir.builder import Build, reducer

CHAINED = 1024  # results that may be computed serially
LONG_DIMENSION = 2048  # a dimension from here on is cut into blocks,
ROWS = 8  # if it is the innermost one and there are fewer rows: so many fill a vector register
# Sizes of a block: the first that divides the dimension, otherwise the smallest, with padding.
BLOCKS = range(64, 129, 8)


def _expand(i: Instruction) -> Instruction | None:
    direction, opcode = cumulative(i), binary_opcode(i.to_apply)
    if direction is None or len(i.operands) != 2 or opcode is None:
        return None
    (x, init), (dimension, backward) = i.operands, direction
    length, others = x.shape.dimensions[dimension], x.shape.dimensions[:dimension]
    kind = i.shape.element_type if not i.shape.is_tuple else None
    if kind is None or any(o.shape.element_type is not kind for o in i.operands):
        return None
    if length < LONG_DIMENSION or prod(others) >= ROWS or prod(x.shape.dimensions) != prod(others) * length:
        return None
    wide = F32 if kind.is_float and kind.bits < F32.bits else kind
    start = identity(opcode, wide)
    if start is None:
        return None
    b = Build(i.name)
    scan = _Scan(b, opcode, wide, start, dimension, backward)
    return b.convert(scan.prefixes(b.convert(x, wide), b.convert(init, wide)), kind)


def identity(opcode: str, kind: ElementType) -> float | int | None:
    """The neutral element of the operation, which changes no bit of any other; None where it is not known."""
    floating, whole = kind.is_float, kind.is_integer
    if opcode in ("and", "or", "xor") and (whole or kind.name == "pred"):
        return {"and": int(np.invert(np.zeros((), kind.dtype))), "or": 0, "xor": 0}[opcode]
    if opcode == "multiply" and whole:  # of floats a block may overflow where the prefix before it is 0
        return 1
    if opcode == "add" and (floating or whole):
        return -0.0 if floating else 0
    if opcode in ("maximum", "minimum"):
        least = opcode == "maximum"
        if floating:
            return -inf if least else inf
        if whole:
            range_of = np.iinfo(kind.dtype)
            return int(range_of.min if least else range_of.max)
    return None


class _Scan:
    """The prefixes of one dimension of arrays of the type `kind`."""

    def __init__(self, b: Build, opcode: str, kind: ElementType, start: float, dimension: int, backward: bool) -> None:
        self.b, self.opcode, self.kind, self.start = b, opcode, kind, start
        self.dimension, self.backward = dimension, backward

    def prefixes(self, x: Instruction, init: Instruction | None) -> Instruction:
        """The prefixes of x, from the initial value (None: there is none)."""
        b, d, sizes = self.b, self.dimension, x.shape.dimensions
        length = sizes[d]
        if length <= CHAINED and init is None:
            return self._chain(x, d)
        size = next((n for n in BLOCKS if length % n == 0), BLOCKS[0])
        count = -(-length // size)
        whole = self._pad(x, 0, count * size - length, b.scalar(self.start, self.kind))
        cut = (*sizes[:d], count, size, *sizes[d + 1 :])
        local = self._chain(b.reshape(whole, cut), d + 1)
        last = 0 if self.backward else size - 1
        totals = b.reshape(self._part(local, d + 1, last, last + 1), (*sizes[:d], count, *sizes[d + 1 :]))
        value = init if init is not None else b.scalar(self.start, self.kind)
        if self.backward:
            before = self._pad(self._part(totals, d, 1, count), 0, 1, value)
        else:
            before = self._pad(self._part(totals, d, 0, count - 1), 1, 0, value)
        rows = tuple(n for n in range(len(cut)) if n != d + 1)
        spread = b.spread(self.prefixes(before, None), Shape(self.kind, cut), rows)
        joined = b.make(self.opcode, spread, local)
        return self._part(b.reshape(joined, (*sizes[:d], count * size, *sizes[d + 1 :])), d, 0, length)

    def _chain(self, x: Instruction, dimension: int) -> Instruction:
        """The prefixes, serially, as the kernel of a cumulative reduce-window computes them."""
        length = x.shape.dimensions[dimension]
        sides = (0, length - 1) if self.backward else (length - 1, 0)
        one, own = WindowDimension(1), WindowDimension(length, 1, *sides)
        window = tuple(own if d == dimension else one for d in range(x.shape.rank))
        start = self.b.scalar(self.start, self.kind)
        return self.b.make("reduce-window", x, start, window=window, to_apply=reducer(self.opcode, self.kind))

    def _part(self, x: Instruction, dimension: int, first: int, end: int) -> Instruction:
        sizes = x.shape.dimensions
        if (first, end) == (0, sizes[dimension]):
            return x
        places = tuple(SliceDimension(*((first, end) if d == dimension else (0, n)), 1) for d, n in enumerate(sizes))
        return self.b.make("slice", x, slice=places)

    def _pad(self, x: Instruction, low: int, high: int, value: Instruction) -> Instruction:
        if not low and not high:
            return x
        none = PaddingDimension(0, 0)
        sides = tuple(PaddingDimension(low, high) if d == self.dimension else none for d in range(x.shape.rank))
        return self.b.make("pad", x, value, padding=sides)


EXPANSIONS = {"reduce-window": _expand}
