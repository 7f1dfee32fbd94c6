"""The prefixes of a dimension, block by block (cumulative_window_expander.py), for any operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from refxla_spec.module import Computation, Instruction, PaddingDimension, SliceDimension, WindowDimension
from refxla_spec.types import Shape

from ...ir.builder import Build

Arrays = Sequence[Instruction]


class BlockwiseScan(ABC):
    """The prefixes of one dimension of arrays, which are combined together.

    `starts` make the scalar for each array that changes nothing where it is combined with others.
    """

    CHAINED: ClassVar[int] = 1024  # results that may be computed one after the other
    BLOCKS: ClassVar[range] = range(64, 129, 8)  # sizes of a block: the first that divides the dimension, or else the
    # least, with padding

    def __init__(self, b: Build, starts: Sequence[Callable[[], Instruction]], dimension: int, backward: bool) -> None:
        self.b, self.starts = b, starts
        self.dimension, self.backward = dimension, backward

    @abstractmethod
    def chain(self, xs: Arrays, dimension: int) -> list[Instruction]:
        """The prefixes of a short dimension, one after the other."""

    @abstractmethod
    def join(self, before: Arrays, local: Arrays) -> list[Instruction]:
        """What comes before a block combined with the prefixes in it."""

    def normal(self, xs: Arrays) -> list[Instruction]:
        """What prefixes are combined further as."""
        return list(xs)

    def prefixes(self, xs: Arrays, inits: Arrays | None) -> list[Instruction]:
        """Of the initial values (None: there are none) and the arrays, each element with all before it."""
        b, d, sizes = self.b, self.dimension, xs[0].shape.dimensions
        length = sizes[d]
        if length <= self.CHAINED and inits is None:
            return self.normal(self.chain(xs, d))
        whole = [self.blocks(x, start()) for x, start in zip(xs, self.starts, strict=True)]
        cut = whole[0].shape.dimensions
        local = self.chain(whole, d + 1)
        last = 0 if self.backward else cut[d + 1] - 1
        ends = [b.reshape(self._part(x, d + 1, last, last + 1), (*cut[: d + 1], *cut[d + 2 :])) for x in local]
        before = self.before(self.normal(ends), [start() for start in self.starts] if inits is None else inits)
        rows = tuple(n for n in range(len(cut)) if n != d + 1)
        spread = [b.spread(x, Shape(x.shape.element_type, cut), rows) for x in self.prefixes(before, None)]
        return [self.joined(x, length) for x in self.join(spread, local)]

    def blocks(self, x: Instruction, start: Instruction) -> Instruction:
        """An array with its dimension cut into blocks, a dimension of their own, and the last of them filled up."""
        d, sizes = self.dimension, x.shape.dimensions
        size = next((n for n in self.BLOCKS if sizes[d] % n == 0), self.BLOCKS[0])
        count = -(-sizes[d] // size)
        whole = self._pad(x, 0, count * size - sizes[d], start)
        return self.b.reshape(whole, (*sizes[:d], count, size, *sizes[d + 1 :]))

    def joined(self, blocks: Instruction, length: int) -> Instruction:
        """An array whose dimension was cut, in one piece."""
        d, sizes = self.dimension, blocks.shape.dimensions
        whole = self.b.reshape(blocks, (*sizes[:d], sizes[d] * sizes[d + 1], *sizes[d + 2 :]))
        return self._part(whole, d, 0, length)

    def before(self, totals: Arrays, inits: Arrays) -> list[Instruction]:
        """Of each block the total of the one before it, and of the first the initial values."""
        d, count = self.dimension, totals[0].shape.dimensions[self.dimension]
        first, low = (1, 0) if self.backward else (0, 1)
        return [
            self._pad(self._part(x, d, first, first + count - 1), low, 1 - low, init)
            for x, init in zip(totals, inits, strict=True)
        ]

    def window(self, xs: Arrays, starts: Arrays, reducer: Computation, dimension: int) -> Instruction:
        """The cumulative reduce-window of a dimension, whose kernel goes along it."""
        rank, length = xs[0].shape.rank, xs[0].shape.dimensions[dimension]
        sides = (0, length - 1) if self.backward else (length - 1, 0)
        one, own = WindowDimension(1), WindowDimension(length, 1, *sides)
        window = tuple(own if d == dimension else one for d in range(rank))
        return self.b.make("reduce-window", *xs, *starts, window=window, to_apply=reducer)

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
