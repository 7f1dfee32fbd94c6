"""The schedule of a reduction kernel, as data: every decision about it. `schedule_rules.py` makes them.

A *unit of work* is a row of the operand, or a strip of its columns (analysis/reduction_order.py). A unit reads the
operand once for each level of reduces that depend on each other, and once more for outputs as large as the operand:

    pass 0          sum, sum of squares, ...: reduces of one level read their operands together
    pass 1          reduces that need the results of pass 0
    ...
    epilogue pass   outputs as large as the operand that need results (softmax, layer norm)

Expensive values that a later pass needs again are cached. Where a sum is split into partial results, each work item
stores its own in the workspace and increments a counter; the last one combines them in order and continues alone, so
that a sum of any size is one launch. Where the operand is read again, one item computes all partial results of a unit
instead, one after the other, in the same order of additions.

`row_reduction.py` and `column_reduction.py` write the kernel that a schedule describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, delinearize
from ...analysis.reduction_order import ReductionOrder
from ...device.description import LINE, Target
from ..loops import non_temporal_stores
from .dataflow import Dataflow

# The index in each group of the reduction order, by the group's number.
Position = dict[int, Index]


@dataclass(frozen=True)
class Vector:
    """How clang is asked to vectorize a loop over all accumulators of a reduce: `width` elements in a vector, `count`
    vectors at once. Together these are all accumulators, so that no loop is left and they stay in registers."""

    width: int
    count: int


UNSPECIFIED = Vector(0, 0)  # clang chooses


@dataclass(frozen=True)
class Prefetch:
    """Prefetches what is `distance` elements after the current element of an input or output."""

    instruction: Instruction
    distance: int
    for_write: bool = False


@dataclass(frozen=True)
class CachedOperand:
    """A member whose elements are computed in pass `computed_in` and read again in later passes: from a private array
    as long as a row, or from the memory of an `output` that the epilogue pass overwrites."""

    instruction: Instruction
    computed_in: int
    output: Instruction | None = None


@dataclass(frozen=True)
class ReductionPass:
    """A pass over the operand that accumulates the reduces of one level.

    It also stores `outputs`, which are as large as the operand. With `masked_tail`, elements that do not fill all lanes
    are computed as a whole chunk, under a mask.
    """

    number: int
    reduces: tuple[Instruction, ...]
    outputs: tuple[Instruction, ...]
    vector: Vector
    masked_tail: bool
    prefetches: tuple[Prefetch, ...]


@dataclass(frozen=True)
class Schedule:
    """How a kernel computes a reduction."""

    dataflow: Dataflow
    target: Target
    inputs: tuple[Instruction, ...]  # the arrays that the kernel reads
    order: ReductionOrder
    passes: tuple[ReductionPass, ...]
    cached: tuple[CachedOperand, ...]
    sequential_partials: bool  # one work item computes all partial results of a unit

    # Rows and columns in vectors.
    unroll: int  # elements that an accumulator adds in one iteration
    # The accumulators of a strip are padded to a multiple of this, and elements beyond the strip are masked; 1: no
    # padding.
    vector_columns: int
    interleaved_rows: int  # rows that a unit interleaves
    unfilled: bool  # the first chunk of lanes of a row becomes the accumulators, which are not filled before
    rows_unrolled: bool  # the loop over a row's elements is unrolled, so that clang vectorizes over rows
    non_temporal: bool  # the epilogue pass writes its outputs past the caches
    wide_vectors: bool  # the kernel is compiled for the widest vectors

    # Loops over units.
    units_per_item: int
    inner_units: int  # units are in two loops, the inner one over so many of them; 1: in one loop
    column_row: int  # the same of the columns of a strip
    joined_rows: int  # rows of a strip, below which all are unrolled in one loop over the columns

    @property
    def partials(self) -> int:
        """The number of work items that share a unit; each computes a partial result."""
        return 1 if self.sequential_partials else self.order.partials

    @property
    def units(self) -> int:
        """The number of units of work."""
        return units_of_work(self.order, self.interleaved_rows)

    @property
    def items(self) -> int:
        """The number of work items."""
        return -(-self.units // self.units_per_item) * self.partials

    @property
    def accumulators(self) -> int:
        """The accumulators for each result of a reduce in a unit: a lane or a column each, padded to whole vectors."""
        return accumulators_of(self.order, self.vector_columns)

    @property
    def inner(self) -> int:
        """The number of the innermost group."""
        return len(self.order.groups) - 1

    @property
    def inner_size(self) -> int:
        """The elements of the innermost group: of a row's contiguous piece, or all columns."""
        return self.order.groups[-1].size

    def groups(self, reduced: bool) -> list[int]:
        """The numbers of the groups that are reduced, or of those that are kept, the innermost group included."""
        return [n for n, g in enumerate(self.order.groups) if g.reduced == reduced]

    def kept_position(self, number: Index, groups: Sequence[int]) -> Position:
        """The position in groups that are not reduced, the last innermost, given its number in row-major order."""
        return dict(zip(groups, delinearize(number, [self.order.groups[n].size for n in groups]), strict=True))

    def operand_indices(self, at: Position) -> tuple[Index, ...]:
        """The indices in the operand, given those in each group."""
        result: list[Index] = [constant(0)] * len(self.dataflow.dimensions)
        for n, group in enumerate(self.order.groups):
            inside = delinearize(at[n], [self.dataflow.dimensions[d] for d in group.dimensions])
            for d, x in zip(group.dimensions, inside, strict=True):
                result[d] = x
        return tuple(result)

    def result_indices(self, at: Position) -> tuple[Index, ...]:
        """The indices in a reduce's result, given those in each kept group."""
        full = self.operand_indices({n: constant(0) if g.reduced else at[n] for n, g in enumerate(self.order.groups)})
        return tuple(full[d] for d in self.dataflow.kept_dimensions)


def units_of_work(order: ReductionOrder, interleaved_rows: int) -> int:
    """The number of units of a reduction in that order, if a unit interleaves so many rows."""
    if interleaved_rows == 1:
        return order.units
    rows = order.groups[-2].size
    return order.units // rows * -(-rows // interleaved_rows)


def accumulators_of(order: ReductionOrder, vector_columns: int) -> int:
    """The accumulators for each result of a reduce in a unit: lanes, or columns padded to whole vectors."""
    return order.lanes if order.is_row else -(-order.strip // vector_columns) * vector_columns


def buffer_pitch(order: ReductionOrder, output: Instruction) -> int:
    """The elements from one row to the next in the buffer of an epilogue output of columns: whole lines, and one line
    before them."""
    line = LINE // non_temporal_stores.size_of(output)
    return -(-order.strip // line) * line + line
