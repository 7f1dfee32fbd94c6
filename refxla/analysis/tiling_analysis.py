"""Tiling analysis: along which dimensions several fusions can be tiled together, and what they compute for one tile.

The instructions are cloned, with a separate leaf for each use of an outside value, and dimensions that index the same
thing are joined into classes (dimension_classes.py). A class that no operation reduces, slices or mixes with another
can be tiled: it is an axis. `TilingAnalysis.body` then gives the instructions the shapes of one tile. They read outside
values through TileViews, the parts of values that a tile reads: the address of a view's first element is linear in the
start of the tile, and its elements have the strides of the whole value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from refxla_spec.module import Computation, Instruction, SliceDimension, post_order
from refxla_spec.types import S32, Shape

from ..ir.builder import Build
from ..ir.merged_body import Axis, Offset, TileNumberOffset, TileOffset
from ..ir.op_table import ELEMENTWISE, ROWS
from .dimension_classes import Dimension, DimensionClasses, runs
from .reduction_order import reduction_order

MOVES = ("reshape", "transpose", "broadcast", "slice")  # these only change the position of an input's elements


@dataclass(frozen=True)
class TileView:
    """A part of `value` or, if `value` is None, of the table of starts of axis `table`. It starts at `offset` bytes,
    plus `strides[a]` bytes for each element of the tile's start on axis a."""

    value: Instruction | None
    offset: int
    strides: tuple[int, ...]
    table: int = -1

    @property
    def place(self) -> Offset:
        """The byte offset in the value, or the table, at which the part of a tile starts."""
        if self.value is None:
            return TileNumberOffset(self.table, S32.bytes)
        return TileOffset(self.strides, self.offset)

    @property
    def is_whole(self) -> bool:
        """Whether every tile reads the whole value."""
        return self.value is not None and not self.offset and not any(self.strides)


@dataclass
class TileBody:
    """The instructions for one tile: `computation` has a parameter for each of `views`, and its results are the tiles
    of the values `results`, each written to its TileView in `written`."""

    axes: tuple[Axis, ...]
    computation: Computation
    views: list[TileView] = field(default_factory=list)
    results: list[Instruction] = field(default_factory=list)
    written: list[TileView] = field(default_factory=list)


class TilingAnalysis:
    """The members of some fusions. `inputs` are the values that they read from memory, `is_inline` says which others
    are recomputed at each use, `outputs` are members that a fusion writes, and `heroes` those that must not be computed
    twice. `is_supported` is false if an operation prevents tiling."""

    def __init__(
        self,
        members: Sequence[Instruction],
        inputs: Collection[Instruction],
        is_inline: Callable[[Instruction], bool],
        outputs: Collection[Instruction],
        heroes: Collection[Instruction],
    ) -> None:
        self.inputs, self.is_inline = set(inputs), is_inline
        self.sources: dict[Instruction, Instruction] = {}  # the input that a chain of MOVES starts from
        self.clones: dict[Instruction, Instruction] = {}
        self.leaves: list[tuple[Instruction, Instruction]] = []  # a parameter, and the outside value that it represents
        self.instructions: list[Instruction] = []  # all clones, each after its operands
        self._classes = DimensionClasses()
        self.is_supported = all(self._enter(i, outputs) for i in members)
        if not self.is_supported:
            return
        self.outputs = [self.clones[i] for i in outputs]
        self.is_supported = all(map(_can_tile, self.instructions))
        if not self.is_supported:
            return
        for i in self.instructions:
            self._classes.link(i)
        needed = [*self.outputs, *(self.clones[i] for i in heroes)]
        self.axes_of = {i: self._axes(i) for i in needed}
        everywhere = set.intersection(*(set(c) for c in self.axes_of.values()))
        self.free = everywhere - self._classes.fixed(self.instructions)

    # -- the clones ------------------------------------------------------------------------------------------------

    def _enter(self, i: Instruction, outputs: Collection[Instruction]) -> bool:
        """Clones a member. Returns False if its operation cannot be tiled."""
        if not i.shape.is_array or i.opcode not in ROWS or not all(o.shape.size for o in (i, *i.operands)):
            return False
        if i.opcode in MOVES and i not in outputs:
            source = self.sources.get(i.operands[0], i.operands[0])
            if source in self.inputs:
                self.sources[i] = source
                return True
        self.clones[i] = self._clone(i)
        return True

    def _clone(self, i: Instruction) -> Instruction:
        operands = [self._use(o) for o in i.operands]
        instruction = Instruction(i.name, i.opcode, i.shape, operands, dict(i.attributes), i.metadata)
        self.instructions.append(instruction)
        return instruction

    def _use(self, i: Instruction) -> Instruction:
        """The clone of an operand: each use of an outside or recomputed value has a separate one."""
        if i in self.clones:
            return self.clones[i]
        if i in self.inputs or i in self.sources:
            leaf = Instruction(i.name, "parameter", i.shape, [], {"number": len(self.leaves)})
            self.leaves.append((leaf, i))
            self.instructions.append(leaf)
            return leaf
        return self._clone(i)

    # -- classes of dimensions -----------------------------------------------------------------------------------------

    def _axes(self, i: Instruction) -> list[Dimension]:
        """The classes of an instruction's dimensions, those of size 1 left out."""
        return [self._classes.of((i, d)) for d, n in enumerate(i.shape.dimensions) if n > 1]

    # -- tiles ---------------------------------------------------------------------------------------------------------

    def leading(self, results: Collection[Instruction]) -> list[Dimension]:
        """The axes that are the leading dimensions of all `results` (members), in order. A tile that spans whole axes
        after the last one that it cuts is contiguous in memory."""
        common: list[Dimension] | None = None
        for i in results:
            axes = []
            for c in self._axes(self.clones[i]):
                if c not in self.free:
                    break
                axes.append(c)
            if common is None:
                common = axes
            else:
                same = [a == b for a, b in zip(common, axes, strict=False)]
                common = common[: same.index(False) if False in same else len(same)]
        return common or []

    def size(self, axis: Dimension) -> int:
        """How many elements an axis has."""
        i, d = axis
        assert isinstance(i, Instruction)  # clones are arrays
        return i.shape.dimensions[d]

    def is_row(self, axis: Dimension) -> bool:
        """Whether an axis counts rows or columns of a dot, of which a tile has a part; otherwise it counts batches."""
        return any(self._classes.of(d) == axis for d in self._classes.free)

    def share(self, i: Instruction, classes: Sequence[Dimension], axes: Sequence[Axis]) -> float:
        """The fraction of a clone's elements that a tile has."""
        own = self._axes(i)
        return prod(a.block / a.size for c, a in zip(classes, axes, strict=True) if c in own)

    def reads(self, classes: Sequence[Dimension], axes: Sequence[Axis]) -> list[tuple[float, bool]]:
        """For each leaf, the bytes that a tile reads, and whether the next tile along the last axis reads other
        ones."""
        last = classes[-1]
        return [(x.shape.bytes * self.share(x, classes, axes), last in self._axes(x)) for x, _ in self.leaves]

    def body(
        self, classes: Sequence[Dimension], axes: Sequence[Axis], results: Sequence[Instruction]
    ) -> TileBody | None:
        """The instructions for a tile, which writes `results`; None if a reduction order would change, or if an access
        is not a TileView. This consumes the clones: call it once."""
        index = {c: n for n, c in enumerate(classes)}
        of = {i: [index.get(self._classes.of((i, d)), -1) for d in range(i.shape.rank)] for i in self.instructions}
        if not all(_same_order(i, of[i.operands[0]], axes) for i in self.instructions if i.opcode == "reduce"):
            return None
        body = TileBody(tuple(axes), Computation("tile"))
        for leaf, value in self.leaves:
            if not self._take(body, leaf, value, of[leaf], axes):
                return None
        for i in self.instructions:
            if i.opcode != "parameter" and i not in body.computation.instructions:
                self._cut(body, i, of[i], axes)
        for i in results:
            copy = self.clones[i]
            view = _view(i, of[copy], axes, i.shape.dimensions, row_major(i.shape.dimensions), 0)
            if view is None or not is_dense(copy.shape.dimensions, row_major(i.shape.dimensions)):
                return None
            body.results.append(i)
            body.written.append(view)
        leaves = [self.clones[i] for i in results]
        root = Instruction("tile", "tuple", Shape.tuple_of(*(i.shape for i in leaves)), leaves)
        parameters = body.computation.instructions
        body.computation = Computation(
            "tile", [*parameters, *(i for i in post_order(root) if i not in set(parameters))]
        )
        body.computation.root = root
        return body

    def _take(self, body: TileBody, leaf: Instruction, value: Instruction, of: list[int], axes: Sequence[Axis]) -> bool:
        """Replaces a leaf by what a tile reads of a value: a parameter or a slice of one, seen through MOVES."""
        source = self.sources.get(value, value)
        layout = strides_of(value, source)
        dimensions = block_dimensions(leaf.shape.dimensions, of, axes)
        if layout is None or source.shape.bytes % max(1, source.shape.size):
            return False
        strides, offset = layout
        view = _view(source, of, axes, leaf.shape.dimensions, strides, offset)
        if view is None:
            return False
        if is_dense(dimensions, strides):
            leaf.shape = leaf.shape.with_dimensions(dimensions)
            self._parameter(body, leaf, view)
            return True
        whole = Instruction(source.name, "parameter", source.shape, [])
        self._parameter(body, whole, TileView(source, 0, view.strides))
        chain, i = [], value
        while i is not source:
            chain.append(i)
            i = i.operands[0]
        for i in reversed(chain):
            whole = Instruction(i.name, i.opcode, i.shape, [whole], dict(i.attributes), i.metadata)
        leaf.opcode, leaf.operands, leaf.shape = "slice", [whole], leaf.shape.with_dimensions(dimensions)
        leaf.attributes = {"slice": tuple(SliceDimension(0, n) for n in dimensions)}
        return True

    @staticmethod
    def _parameter(body: TileBody, i: Instruction, view: TileView) -> None:
        i.attributes = {"number": len(body.views)}
        body.views.append(view)
        body.computation.instructions.append(i)

    def _cut(self, body: TileBody, i: Instruction, of: list[int], axes: Sequence[Axis]) -> None:
        """Gives a clone its shape in a tile."""
        before, shape = i.shape.dimensions, i.shape.with_dimensions(block_dimensions(i.shape.dimensions, of, axes))
        if shape.dimensions == before:
            return
        i.shape = shape
        if i.opcode == "slice":
            cut = zip(i.attributes["slice"], shape.dimensions, of, strict=True)
            i.attributes["slice"] = tuple(s if a < 0 else SliceDimension(0, n) for s, n, a in cut)
        elif i.opcode == "constant":
            i.attributes["literal"] = np.ascontiguousarray(i.literal[tuple(slice(n) for n in shape.dimensions)])
        elif i.opcode == "iota" and of[i.iota_dimension] >= 0:
            axis = of[i.iota_dimension]
            start = Instruction(f"{i.name}.start", "parameter", Shape(S32), [])
            strides = tuple(0 if a != axis else -1 for a in range(len(axes)))
            self._parameter(body, start, TileView(None, 0, strides, axis))
            part = Build(i.name).part_of_iota(shape, i.iota_dimension, start)
            i.opcode, i.operands, i.attributes = part.opcode, part.operands, part.attributes


def _can_tile(i: Instruction) -> bool:
    """Whether the operation of a clone can be done for a tile."""
    match i.opcode:
        case "parameter" | "constant" | "iota" | "broadcast" | "transpose" | "slice" | "reshape":
            return True
        case "reduce" | "dot":
            return len(i.operands) == 2
    if ROWS[i.opcode].op_class != ELEMENTWISE:
        return False
    return all(not o.shape.rank or o.shape.dimensions == i.shape.dimensions for o in i.operands)


def row_major(dimensions: Sequence[int]) -> list[int]:
    """The strides of a dense array in elements."""
    return [prod(dimensions[d + 1 :]) for d in range(len(dimensions))]


def strides_of(value: Instruction, source: Instruction) -> tuple[list[int | None], int] | None:
    """The strides, in elements of `source`, of a `value` that results from it by MOVES (None for a dimension without a
    constant stride), and the offset of its first element. None if they are unknown."""
    chain, i = [], value
    while i is not source:
        chain.append(i)
        i = i.operands[0]
    strides: list[int | None] = list(row_major(source.shape.dimensions))
    offset = 0
    for i in reversed(chain):
        old = i.operands[0].shape.dimensions
        if i.opcode == "transpose":
            strides = [strides[k] for k in i.dimensions]
        elif i.opcode == "broadcast":
            spread: list[int | None] = [0] * i.shape.rank
            for k, d in enumerate(i.attributes.get("dimensions", ())):
                spread[d] = strides[k] if old[k] == i.shape.dimensions[d] else 0
            strides = spread
        elif i.opcode == "slice":
            if None in strides:
                return None
            cuts = i.attributes["slice"]
            offset += sum(s.start * n for s, n in zip(cuts, strides, strict=True))
            strides = [s.stride * n for s, n in zip(cuts, strides, strict=True)]
        else:
            new = i.shape.dimensions
            steps: list[int | None] = [0] * len(new)
            for first, second in runs(old, new):
                even = all(
                    (inside := strides[b]) is not None and strides[a] == inside * old[b]
                    for a, b in zip(first, first[1:], strict=False)
                )
                for n, d in enumerate(second):
                    step = strides[first[-1]]
                    inner = prod(new[e] for e in second[n + 1 :])
                    steps[d] = step * inner if even and step is not None else None
            strides = steps
    return strides, offset


def block_dimensions(dimensions: Sequence[int], of: Sequence[int], axes: Sequence[Axis]) -> tuple[int, ...]:
    """The dimensions of a tile; of[d] is the axis of dimension d, or -1. Dimensions of size 1 have no axis."""
    return tuple(axes[a].block if a >= 0 and n != 1 else n for n, a in zip(dimensions, of, strict=True))


def is_dense(dimensions: Sequence[int], strides: Sequence[int | None]) -> bool:
    """Whether an array of these dimensions and strides is contiguous, in row-major order."""
    return all(n == 1 or s == m for n, s, m in zip(dimensions, strides, row_major(dimensions), strict=True))


def _view(
    source: Instruction,
    of: Sequence[int],
    axes: Sequence[Axis],
    dimensions: Sequence[int],
    strides: Sequence[int | None],
    offset: int,
) -> TileView | None:
    size = source.shape.bytes // max(1, source.shape.size)
    steps = [0] * len(axes)
    for d, a in enumerate(of):
        if a >= 0 and dimensions[d] != 1:
            if (stride := strides[d]) is None:
                return None
            steps[a] += stride * size
    return TileView(source, offset * size, tuple(steps))


def _same_order(reduce: Instruction, of: Sequence[int], axes: Sequence[Axis]) -> bool:
    """Whether a reduce has the same reduction order for a tile as for the whole operand."""
    whole = reduce.operands[0].shape.dimensions
    own = reduction_order(whole, reduce.dimensions)
    tile = reduction_order(block_dimensions(whole, of, axes), reduce.dimensions)
    return own.partials == own.segments == 1 and own.key == tile.key
