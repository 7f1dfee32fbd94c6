"""Preserves the order of reductions whose reducer is not commutative.

Kernels combine the elements of a row in lanes: x[0], x[32], x[64] ... with each other, and the lanes at the end. That
changes the order of operands, which makes no difference if the reducer commutes, as sums and products of several arrays
do. Of other reducers:

- One may select an operand by value, and among equals the first (argmax: of several NaNs the first). If one of the
  arrays is the index along the reduced dimension, the reducer gets its operands in the order of their indices, so that
  it commutes.
- Any other becomes a tree: neighbours are combined in pairs, f(x[0::2], x[1::2]), until one element is left.

Reductions that no kernel cuts into lanes stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from refxla_spec.module import Computation, Instruction, Module, SliceDimension

from ..analysis.commutativity import Order, order_of
from ..analysis.reduction_order import reduction_order
from ..ir.builder import Build
from .call_inliner import mapped
from .dce import sort
from .init_value_isolation import reductions_that_are_not_plain


def run(module: Module) -> int:
    """Rewrites reductions where needed. Returns their number. Raises UnsupportedError for a reducer that neither
    commutes nor is elementwise."""
    known: dict[Computation, Order] = {}
    by_index: dict[tuple[Computation, int], Computation] = {}
    count = 0
    for computation in module.computations:
        replaced: dict[Instruction, Instruction] = {}
        for i in reductions_that_are_not_plain(computation):
            if reduction_order(i.operands[0].shape.dimensions, i.dimensions).lanes == 1:
                continue
            if i.to_apply not in known:
                known[i.to_apply] = order_of(i.to_apply)
            order = known[i.to_apply]
            index = _index_operand(i) if order is Order.CHOICE else None
            if index is not None:
                key = (i.to_apply, index)
                if key not in by_index:
                    by_index[key] = _in_order_of_indices(i.to_apply, index)
                attributes = {**i.attributes, "to_apply": by_index[key]}
                replaced[i] = Instruction(i.name, i.opcode, i.shape, i.operands, attributes, i.metadata)
            elif order is not Order.ANY:
                replaced[i] = _tree(i)
        if replaced:
            computation.replace(replaced)
            sort(computation)
            count += len(replaced)
    return count


def _index_operand(i: Instruction) -> int | None:
    """The number of the operand that is the index along the only reduced dimension, or None."""
    shape = i.operands[0].shape
    reduced = [d for d in i.dimensions if shape.dimensions[d] > 1]
    for n, operand in enumerate(i.operands[: len(i.operands) // 2]):
        if len(reduced) == 1 and _counts_along(operand, reduced[0]):
            return n
    return None


def _counts_along(x: Instruction, dimension: int) -> bool:
    """Whether an array is the index along a dimension."""
    if x.opcode == "iota":
        return bool(x.iota_dimension == dimension) and x.shape.element_type.kind in ("signed", "unsigned")
    if x.opcode == "broadcast" and dimension in x.dimensions:
        return _counts_along(x.operands[0], x.dimensions.index(dimension))
    return False


def _in_order_of_indices(reducer: Computation, index: int) -> Computation:
    """The reducer, applied to its two operands with that of the smaller index first."""
    count, b = len(reducer.parameters) // 2, Build(f"{reducer.name}.by_index")
    parameters = [
        Instruction(f"{b.name}.p{n}", "parameter", p.shape, [], {"number": n}) for n, p in enumerate(reducer.parameters)
    ]
    left, right = parameters[:count], parameters[count:]
    later = b.compare(right[index], left[index], direction="LT")
    first = [b.make("select", later, y, x) for x, y in zip(left, right, strict=True)]
    second = [b.make("select", later, x, y) for x, y in zip(left, right, strict=True)]
    results = mapped(reducer, [*first, *second], later, f"{b.name}.ordered")
    root = b.tuple(*results) if len(results) > 1 else results[0]
    computation = Computation(b.name, _all_instructions(parameters, root), root)
    sort(computation)
    return computation


def _all_instructions(parameters: Sequence[Instruction], root: Instruction) -> list[Instruction]:
    found: dict[Instruction, None] = dict.fromkeys(parameters)
    open_ends = [root]
    while open_ends:
        i = open_ends.pop()
        if i not in found:
            found[i] = None
            open_ends += i.operands
    return list(found)


def _tree(i: Instruction) -> Instruction:
    """The reduction as a tree of neighbours; the initial values come first."""
    count, b = len(i.operands) // 2, Build(i.name)
    shape, reduced = i.operands[0].shape, set(i.dimensions)
    kept = [d for d in range(shape.rank) if d not in reduced]
    turn = (*kept, *(d for d in range(shape.rank) if d in reduced))
    sizes = [shape.dimensions[d] for d in kept]
    length = prod(shape.dimensions[d] for d in reduced)
    values = []
    for x in i.operands[:count]:
        values.append(b.reshape(b.transposed(x, turn), (*sizes, length)))
    while length > 1:
        even, odd = ([_every_second(b, x, first, length) for x in values] for first in (0, 1))
        last = [_every_second(b, x, length - 1, length) for x in values] if length % 2 else []
        values = mapped(i.to_apply, [*even, *odd], even[0], f"{i.name}.pairs")
        if last:
            values = [b.make("concatenate", x, y, dimensions=(len(sizes),)) for x, y in zip(values, last, strict=True)]
        length = -(-length // 2)
    totals = [b.reshape(x, tuple(sizes)) for x in values]
    starts = [b.spread(v, totals[0].shape, ()) if sizes else v for v in i.operands[count:]]
    results = mapped(i.to_apply, [*starts, *totals], totals[0], i.name)
    return b.tuple(*results) if i.shape.is_tuple else results[0]


def _every_second(b: Build, x: Instruction, first: int, length: int) -> Instruction:
    """The first or second elements of pairs along the last dimension; the last element where `first` is its index."""
    dimensions = x.shape.dimensions
    limit = length if first == length - 1 and first > 1 else length // 2 * 2
    start, end = [0] * len(dimensions), list(dimensions)
    start[-1], end[-1] = first, limit
    steps = [1] * (len(dimensions) - 1) + [2]
    bounds = tuple(SliceDimension(*bound) for bound in zip(start, end, steps, strict=True))
    return b.make("slice", x, slice=bounds)
