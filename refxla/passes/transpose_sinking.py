"""Moves transposes behind elementwise operations, slices, pads, concatenations and reductions, towards users that
absorb them at no cost.

    f(transpose(x), transpose(y), broadcast(z)) -> transpose(f(x, y, broadcast(z)))
    reduce(transpose(x), 0, add) -> transpose(reduce(x, 0, add)) over the same elements
    dot(transpose(x), y) -> dot(x, y) with other dimension numbers
    transpose(transpose(x)) -> x, or one transpose

A program that keeps samples in columns (the mean of x.T along its rows, a vmap over another axis than the first, a
layer norm over channels that do not come last) would otherwise read or write with a stride in each kernel. A transpose
of a small result is cheap. Where one is left at the end, the loop that wrote elements in the order of the result now
reads them in that of the operand, which is as fast.

XLA achieves the same by layout assignment, in which a transpose becomes a bitcast. In this compiler, all arrays are in
row-major order.

A reduction adds in the order of its operand. So this pass cannot be left out, and it runs before those that can. It
also runs before `ordered-reductions`, which checks where that order matters: along one dimension, it is the same before
and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from refxla_spec.module import Instruction, Module

from .._core.shapes import make
from ..analysis.index_maps import is_elementwise
from ..ir.builder import Build
from ..ir.op_table import ROWS
from . import transpose_folding
from .algebraic_simplifier import without_ones
from .dce import rewrite
from .init_value_isolation import is_plain

T = TypeVar("T")
Permutation = tuple[int, ...]
# Operations that move elements along dimensions: their attributes before a transpose to an order.
_ALONG: dict[str, Callable[[Instruction, Permutation], dict[str, Any]]] = {
    "slice": lambda i, order: {"slice": _inverted(order, i.slice)},
    "pad": lambda i, order: {"padding": _inverted(order, i.padding)},
    "concatenate": lambda i, order: {"dimensions": tuple(order[d] for d in i.dimensions)},
    "reverse": lambda i, order: {"dimensions": tuple(order[d] for d in i.dimensions)},
}


def run(module: Module) -> int:
    """Moves all such transposes. Returns the number of instructions that they moved behind."""
    return sum(rewrite(c, _rewritten) for c in module.computations)


def _rewritten(i: Instruction) -> Instruction | None:
    """The replacement of an instruction with a transposed operand; None where it stays."""
    if i.opcode == "transpose":
        return _composed(i)
    if i.opcode == "reshape":
        return _reshaped(i)
    if (row := ROWS.get(i.opcode)) is not None and row.kind == "reduction":
        return _reduced(i)
    if i.operands and (is_elementwise(i) or i.opcode in _ALONG):
        return _same_order(i)
    return transpose_folding.with_operands(i)


def _composed(i: Instruction) -> Instruction | None:
    """A transpose of a transpose as one transpose, or as the operand."""
    inner = i.operands[0]
    if inner.opcode != "transpose":
        return None
    return Build(i.name).transposed(inner.operands[0], tuple(inner.dimensions[d] for d in i.dimensions))


def _same_order(i: Instruction) -> Instruction | None:
    """The transpose of an operation on the operands before their transposes; None where these differ."""
    order = next((tuple(o.dimensions) for o in i.operands if _is_transpose(o)), None)
    if order is None:
        return None
    b = Build(i.name)
    operands = [x for o in i.operands if (x := _before(b, o, order, i.shape.rank)) is not None]
    if len(operands) < len(i.operands):
        return None
    shape = i.shape.with_dimensions(_inverted(order, i.shape.dimensions))
    along = _ALONG.get(i.opcode)
    attributes = i.attributes if along is None else {**i.attributes, **along(i, order)}
    return b.transposed(Instruction(i.name, i.opcode, shape, operands, attributes, i.metadata), order)


def _reshaped(i: Instruction) -> Instruction | None:
    """The transpose of a reshape that adds or drops dimensions of 1, applied before the transpose."""
    x, sizes = i.operands[0], i.shape.dimensions
    if not _is_transpose(x) or without_ones(sizes) != without_ones(x.shape.dimensions):
        return None
    source = x.operands[0].shape.dimensions
    wide = [d for d in x.dimensions if source[d] != 1]
    places = [d for d, size in enumerate(sizes) if size != 1]
    after = list(range(len(sizes)))
    for place, d in zip(places, wide, strict=True):
        after[place] = places[sorted(wide).index(d)]
    b = Build(i.name)
    return b.transposed(b.reshape(x.operands[0], _inverted(tuple(after), sizes)), tuple(after))


def _reduced(i: Instruction) -> Instruction | None:
    """The reduction of the operand before its transpose, if it visits elements in the same order, or its reducer allows
    any."""
    arrays, initial = i.operands[: len(i.operands) // 2], i.operands[len(i.operands) // 2 :]
    order = next((tuple(x.dimensions) for x in arrays if _is_transpose(x)), None)
    along = [d for d in i.dimensions if arrays[0].shape.dimensions[d] != 1]
    if order is None or not (len(along) == 1 or is_plain(i.to_apply)):
        return None
    b = Build(i.name)
    operands = [x for o in arrays if (x := _before(b, o, order, len(order))) is not None]
    if len(operands) < len(arrays):
        return None
    attributes = {**i.attributes, "dimensions": tuple(sorted(order[d] for d in i.dimensions))}
    moved = make(i.opcode, *operands, *initial, name=i.name, **attributes)
    moved.metadata = i.metadata
    kept = [order[d] for d in range(len(order)) if d not in i.dimensions]
    after = tuple(sorted(kept).index(d) for d in kept)
    if len(arrays) == 1:
        return b.transposed(moved, after)
    parts = [b.make("get-tuple-element", moved, index=n) for n in range(len(arrays))]
    return b.make("tuple", *(b.transposed(part, after) for part in parts))


def _is_transpose(i: Instruction) -> bool:
    """Whether an instruction is a transpose that moves elements."""
    if i.opcode != "transpose":
        return False
    wide = [d for d in i.dimensions if i.operands[0].shape.dimensions[d] != 1]
    return wide != sorted(wide)


def _before(b: Build, x: Instruction, order: Permutation, rank: int) -> Instruction | None:
    """The instruction whose transpose to this order is x; None where that would take a new transpose."""
    if x.shape.rank < rank:  # a scalar operand, used for all elements
        return x
    if x.opcode == "transpose" and tuple(x.dimensions) == order:
        return x.operands[0]
    dimensions = _inverted(order, x.shape.dimensions)
    if x.opcode == "iota":
        return b.iota(x.shape.element_type, dimensions, order[x.iota_dimension])
    if x.opcode != "broadcast":
        return None
    places = [order[d] for d in x.dimensions]
    source = b.transposed(x.operands[0], tuple(sorted(range(len(places)), key=places.__getitem__)))
    return b.spread(source, x.shape.with_dimensions(dimensions), tuple(sorted(places)))


def _inverted(order: Permutation, dimensions: Sequence[T]) -> tuple[T, ...]:
    """Values for each dimension in the order before a transpose, from those after it."""
    known = dict(zip(order, dimensions, strict=True))
    return tuple(known[d] for d in range(len(order)))
