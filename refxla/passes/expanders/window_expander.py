"""Large windows (analysis/window_decomposition.py), one dimension after the other.

Where placings overlap, blocks of one element less than the window has are scanned in both directions (van Herk, Gil and
Werman). A window begins in some block and ends in the next one,

    result[o] = suffix[o] + prefix[o + size - 1]

where `suffix` combines the elements up to the end of their block, and `prefix` those from the beginning of theirs. The
scans start from the operation's identity, or, for an operation without a known one, from the initial values, if these
may enter several times (init_value_isolation.py ensures that); the padding is filled with the same. Sums of narrow
floating-point types are f32 throughout and rounded once. Products of floating-point numbers are left as they are: a
part of a window may overflow or underflow where the whole does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from refxla_spec.indexing import window_count
from refxla_spec.module import Computation, Instruction, PaddingDimension, SliceDimension, WindowDimension
from refxla_spec.types import F32, ElementType
from refxla_spec.vectorize import binary_opcode

from ...analysis.commutativity import Order, order_of
from ...analysis.cumulative_windows import combines_arrays
from ...analysis.window_decomposition import Method, decomposition
from ...ir.builder import Build, reducer
from ..call_inliner import mapped
from . import cumulative_window_expander

Arrays = list[Instruction]


def _expand(i: Instruction) -> Instruction | None:
    parts = decomposition(i)
    if not parts:
        return cumulative_window_expander.expand(i)
    count, opcode = len(i.operands) // 2, binary_opcode(i.to_apply)
    xs, inits, b = list(i.operands[:count]), list(i.operands[count:]), Build(i.name)
    types = [x.shape.element_type for x in xs]
    windows: _Windows
    if opcode is not None:
        (kind,) = types
        wide = F32 if kind.is_float and kind.bits < F32.bits else kind
        start = cumulative_window_expander.identity(opcode, wide)
        is_product = opcode == "multiply" and (wide.is_float or wide.is_complex)
        if i.shape.is_tuple or inits[0].shape.element_type is not kind or start is None or is_product:
            return None
        xs, inits = ([b.convert(v, wide) for v in side] for side in (xs, inits))
        windows = _ByOperation(b, opcode, wide, start)
    elif combines_arrays(i.to_apply):
        windows = _ByReducer(b, i.to_apply, inits)
    else:
        return None
    for part in parts:
        xs = windows.along(xs, part.dimension, i.window[part.dimension], part.method)
    xs = windows.join([b.spread(init, x.shape, ()) for init, x in zip(inits, xs, strict=True)], xs)
    results = [b.convert(x, kind) for x, kind in zip(xs, types, strict=True)]
    return b.tuple(*results) if i.shape.is_tuple else results[0]


class _Windows:
    """Arrays whose elements `to_apply` combines. `starts` make the scalar for each that changes nothing where it is
    combined with others. The operands of `mirrored`, with which suffixes are scanned, are exchanged: it is another
    computation if the order matters, as where the first of equal elements is selected."""

    def __init__(
        self, b: Build, starts: Sequence[Callable[[], Instruction]], to_apply: Computation, mirrored: Computation
    ) -> None:
        self.b, self.starts, self.to_apply, self.mirrored = b, starts, to_apply, mirrored

    def join(self, first: Arrays, second: Arrays) -> Arrays:
        """The elements of arrays of equal dimensions, combined."""
        return mapped(self.to_apply, [*first, *second], first[0], self.b.name)

    def along(self, xs: Arrays, d: int, w: WindowDimension, method: Method) -> Arrays:
        """The elements of the window in one dimension, combined for each of its placings."""
        size = xs[0].shape.dimensions[d]
        count = window_count(size, w)
        if method is Method.DIRECT or (method is Method.REDUCE and self.mirrored is not self.to_apply):
            return self._windows(xs, d, w, self.to_apply)
        extent = (count - 1) * w.stride + (w.size - 1) * w.window_dilation + 1  # up to the last element of a window
        base = (size - 1) * w.base_dilation + 1
        interior = w.base_dilation - 1
        if method is Method.REDUCE:
            rows = count * w.stride if count > 1 else extent
            xs = self._padded(xs, d, w.padding_low, rows - base - w.padding_low, interior)
            if count == 1:
                xs = [self._part(x, d, 0, extent, w.window_dilation) for x in xs]
            return self._reduced([self._cut(x, d, count) for x in xs], d + 1, w.size)
        phases = w.window_dilation  # each is a window without dilation over every so many elements
        xs = self._padded(xs, d, w.padding_low, -(-extent // phases) * phases - base - w.padding_low, interior)
        if phases == 1:
            return self._sliding(xs, d, w.size, count, w.stride)
        xs = [self._cut(x, d, x.shape.dimensions[d] // phases) for x in xs]
        each = xs[0].shape.dimensions[d] - w.size + 1
        return [self._part(self._joined(x, d), d, 0, count) for x in self._sliding(xs, d, w.size, each, 1)]

    def _sliding(self, xs: Arrays, d: int, size: int, count: int, stride: int) -> Arrays:
        """Windows that overlap, over arrays of exactly the elements that the windows contain."""
        block, length = size - 1, xs[0].shape.dimensions[d]
        blocks = -(-length // block)
        xs = [self._cut(x, d, blocks) for x in self._padded(xs, d, 0, blocks * block - length)]
        suffix = self._windows(xs, d + 1, WindowDimension(block, 1, 0, block - 1), self.mirrored)
        prefix = self._windows(xs, d + 1, WindowDimension(block, 1, block - 1, 0), self.to_apply)
        behind = (count - 1) * stride + 1
        return self.join(
            [self._part(self._joined(x, d), d, 0, behind, stride) for x in suffix],
            [self._part(self._joined(x, d), d, block, block + behind, stride) for x in prefix],
        )

    def _reduced(self, xs: Arrays, d: int, size: int) -> Arrays:
        """The first elements of a dimension, combined."""
        first = [self._part(x, d, 0, size) for x in xs]
        return self._elements("reduce", first, to_apply=self.to_apply, dimensions=(d,))

    def _windows(self, xs: Arrays, d: int, w: WindowDimension, to_apply: Computation) -> Arrays:
        """A reduce-window along one dimension, itself expanded if it is a long scan."""
        window = tuple(w if n == d else WindowDimension(1) for n in range(xs[0].shape.rank))
        return self._elements("reduce-window", xs, to_apply=to_apply, window=window)

    def _elements(self, opcode: str, xs: Arrays, **attributes: Any) -> Arrays:
        made = self.b.make(opcode, *xs, *(start() for start in self.starts), **attributes)
        result = (opcode == "reduce-window" and cumulative_window_expander.expand(made)) or made
        if not result.shape.is_tuple:
            return [result]
        if result.opcode == "tuple":
            return list(result.operands)
        return [self.b.make("get-tuple-element", result, index=n) for n in range(len(xs))]

    def _padded(self, xs: Arrays, d: int, low: int, high: int, interior: int = 0) -> Arrays:
        if not (low or high or interior):
            return xs
        own, none = PaddingDimension(low, high, interior), PaddingDimension(0, 0)
        sides = tuple(own if n == d else none for n in range(xs[0].shape.rank))
        return [self.b.make("pad", x, start(), padding=sides) for x, start in zip(xs, self.starts, strict=True)]

    def _part(self, x: Instruction, d: int, first: int, end: int, step: int = 1) -> Instruction:
        sizes = x.shape.dimensions
        if (first, end, step) == (0, sizes[d], 1):
            return x
        own = SliceDimension(first, end, step)
        places = tuple(own if n == d else SliceDimension(0, size, 1) for n, size in enumerate(sizes))
        return self.b.make("slice", x, slice=places)

    def _cut(self, x: Instruction, d: int, count: int) -> Instruction:
        """An array with one dimension cut into so many rows, a dimension of their own."""
        sizes = x.shape.dimensions
        return self.b.reshape(x, (*sizes[:d], count, sizes[d] // count, *sizes[d + 1 :]))

    def _joined(self, x: Instruction, d: int) -> Instruction:
        """An array whose dimension was cut, in one piece."""
        sizes = x.shape.dimensions
        return self.b.reshape(x, (*sizes[:d], sizes[d] * sizes[d + 1], *sizes[d + 2 :]))


class _ByOperation(_Windows):
    """Windows of one array, combined by one operation."""

    def __init__(self, b: Build, opcode: str, kind: ElementType, start: float) -> None:
        combination = reducer(opcode, kind)
        super().__init__(b, [lambda: b.scalar(start, kind)], combination, combination)


class _ByReducer(_Windows):
    """Windows of arrays, combined by a computation whose initial values may enter several times."""

    def __init__(self, b: Build, to_apply: Computation, inits: Sequence[Instruction]) -> None:
        mirrored = to_apply if order_of(to_apply) is Order.ANY else _mirrored(to_apply)
        super().__init__(b, [partial(_same, i) for i in inits], to_apply, mirrored)


def _mirrored(reducer: Computation) -> Computation:
    """f(b, a) for f(a, b)."""
    count = len(reducer.parameters)
    copies: dict[Instruction, Instruction] = {}
    for i in reducer.instructions:
        attributes = dict(i.attributes)
        if i.opcode == "parameter":
            attributes["number"] = (attributes["number"] + count // 2) % count
        operands = [copies[o] for o in i.operands]
        copies[i] = Instruction(i.name, i.opcode, i.shape, operands, attributes, i.metadata)
    return Computation(f"{reducer.name}.mirrored", list(copies.values()), copies[reducer.root])


def _same(i: Instruction) -> Instruction:
    return i


EXPANSIONS = {"reduce-window": _expand}
