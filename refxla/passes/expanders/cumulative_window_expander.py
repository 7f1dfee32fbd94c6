"""Long cumulative sums in blocks: a reduce-window whose results are the prefixes of a dimension.

Computed serially, n results take n dependent steps on one core, and the rounding errors of a sum grow with n. Here the
dimension is cut into blocks:

    local[j, k]  = x[j, 0] + ... + x[j, k]                         the prefixes of each block, all blocks in parallel
    before[j]    = init + local[0, last] + ... + local[j-1, last]  the same problem, with one element for each block
    result[j, k] = before[j] + local[j, k]

The initial value enters once; the prefixes of blocks start from the operation's identity, or, for an operation without
a known one, from the initial values, if these may enter several times (init_value_isolation.py ensures that). The
specification says that the operation is associative, so it may be regrouped, and the size of a block follows from the
shape alone, so results have the same bits on every device. Sums of narrow floating-point types are f32 throughout and
rounded once. Products of floating-point numbers have a scan of their own (scaled_product.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, prod

import numpy as np
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import F32, ElementType
from refxla_spec.vectorize import binary_opcode

from ...analysis.cumulative_windows import combines_arrays, goes_by_blocks
from ...analysis.index_maps import cumulative
from ...ir.builder import Build, reducer
from ..call_inliner import mapped
from .blockwise_scan import Arrays, BlockwiseScan
from .scaled_product import ScaledProduct

PRODUCT_ROWS = 4  # of floats from which on a vector lane for each row is faster on a CPU than blocks with their errors


def expand(i: Instruction) -> Instruction | None:
    """A long cumulative reduce-window in blocks; None for any other."""
    direction = cumulative(i)
    if direction is None or not goes_by_blocks(i):
        return None
    count, opcode = len(i.operands) // 2, binary_opcode(i.to_apply)
    if opcode is not None:
        return None if i.shape.is_tuple else _by_operation(i, opcode, *direction)
    if not combines_arrays(i.to_apply):
        return None
    b = Build(i.name)
    scan = _ByReducer(b, i.to_apply, i.operands[count:], *direction)
    results = scan.prefixes(i.operands[:count], i.operands[count:])
    return b.tuple(*results) if i.shape.is_tuple else results[0]


def _by_operation(i: Instruction, opcode: str, dimension: int, backward: bool) -> Instruction | None:
    (x, init), kind, b = i.operands, i.shape.element_type, Build(i.name)
    if any(o.shape.element_type is not kind for o in i.operands):
        return None
    wide = F32 if kind.is_float and kind.bits < F32.bits else kind
    if opcode == "multiply" and wide.is_float:
        if prod(x.shape.dimensions[:dimension]) >= PRODUCT_ROWS:
            return None
        product = ScaledProduct(b, wide, x.shape.dimensions[dimension], dimension, backward)
        return b.convert(product.of(b.convert(x, wide), b.convert(init, wide)), kind)
    start = identity(opcode, wide)
    if start is None:
        return None
    scan = _ByOperation(b, opcode, wide, start, dimension, backward)
    (result,) = scan.prefixes([b.convert(x, wide)], [b.convert(init, wide)])
    return b.convert(result, kind)


def identity(opcode: str, kind: ElementType) -> float | int | None:
    """The neutral element of the operation, which changes no bit of any other; None where it is not known."""
    floating, whole = kind.is_float, kind.is_integer
    if opcode in ("and", "or", "xor") and (whole or kind.name == "pred"):
        return {"and": int(np.invert(np.zeros((), kind.dtype))), "or": 0, "xor": 0}[opcode]
    if opcode == "multiply" and whole:
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


class _ByOperation(BlockwiseScan):
    """The prefixes of one array, combined by one operation."""

    def __init__(self, b: Build, opcode: str, kind: ElementType, start: float, dimension: int, backward: bool) -> None:
        super().__init__(b, [lambda: b.scalar(start, kind)], dimension, backward)
        self.opcode, self.kind = opcode, kind

    def chain(self, xs: Arrays, dimension: int) -> list[Instruction]:
        (start,) = self.starts
        return [self.window(xs, [start()], reducer(self.opcode, self.kind), dimension)]

    def join(self, before: Arrays, local: Arrays) -> list[Instruction]:
        return [self.b.make(self.opcode, *before, *local)]


class _ByReducer(BlockwiseScan):
    """The prefixes of arrays, combined by a computation whose initial values may enter several times."""

    def __init__(
        self, b: Build, to_apply: Computation, inits: Sequence[Instruction], dimension: int, backward: bool
    ) -> None:
        super().__init__(b, [partial(_same, i) for i in inits], dimension, backward)
        self.to_apply = to_apply

    def chain(self, xs: Arrays, dimension: int) -> list[Instruction]:
        window = self.window(xs, [start() for start in self.starts], self.to_apply, dimension)
        if not window.shape.is_tuple:
            return [window]
        return [self.b.make("get-tuple-element", window, index=n) for n in range(len(xs))]

    def join(self, before: Arrays, local: Arrays) -> list[Instruction]:
        return mapped(self.to_apply, [*before, *local], local[0], self.b.name)


def _same(i: Instruction) -> Instruction:
    return i
