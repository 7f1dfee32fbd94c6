"""Markers, the largest elements, and ciphers: the custom calls that are no linear algebra."""

from __future__ import annotations

import numpy as np

from .. import dynamic
from ..ciphers import three_fry
from ..errors import UnsupportedError
from ..module import Instruction
from ..sorting import sorted_order
from ..types import Array, Shape, Value
from ..vectorize import Run
from .backend_config import options


def identity(instruction: Instruction, operand: Value) -> Value:
    """A remark about where a value lives. Where it changes the shape, it divides a value among devices."""
    shape = instruction.shape
    fits = Shape.of(operand).compatible(shape)
    if not fits and not (shape.is_array and dynamic.check_sizes(np.shape(operand), shape)):
        raise UnsupportedError(
            f"{instruction.name}: {instruction.custom_call_target} makes {instruction.shape} of {Shape.of(operand)}: "
            f"a program for several devices; compile it for one"
        )
    return operand


def sink(instruction: Instruction, *operands: Value) -> tuple[()]:
    """dce_sink, which JAX leaves where a value counts as used though nothing reads it: the empty tuple."""
    return ()


def top_k(instruction: Instruction, operand: Array) -> tuple[Array, Array]:
    """The k largest along the last dimension and where they stand, as `topk`; the result's shape says k."""
    from ..ops.topk import top  # here, since operations are defined in terms of this file

    return top(operand, instruction.shape.elements[0].dimensions[-1], largest=True)


def approximate_top_k(instruction: Instruction, *operands: Array, run: Run) -> Value:
    """ApproxTopK: the first elements in the order of a comparator, as `sort` finds them, along reduction_dim.

    The operands are N arrays and N initial values, which stand for elements that are not there. An implementation may
    miss some of the first ones, as often as its recall_target allows; here none is missed.
    """
    arrays = operands[: len(operands) // 2]
    comparator = (*instruction.called_computations, *([instruction.to_apply] if instruction.to_apply else []))[0]
    axis = int(options(instruction, reduction_dim=arrays[0].ndim - 1)["reduction_dim"])
    shapes = instruction.shape.elements or (instruction.shape,)
    count = shapes[0].dimensions[axis]
    moved = [np.moveaxis(a, axis, -1) for a in arrays]
    rows = [m.reshape(-1, m.shape[-1]) for m in moved]
    order = sorted_order(comparator, rows, run)[:, :count]
    results = (np.take_along_axis(r, order, 1).reshape(*moved[0].shape[:-1], count) for r in rows)
    first = tuple(np.ascontiguousarray(np.moveaxis(f, -1, axis)) for f in results)
    return first if instruction.shape.is_tuple else first[0]


def threefry(instruction: Instruction, key_low: Array, key_high: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """cu_threefry2x32: the two words of Threefry-2x32 with 20 rounds, element by element; all are u32."""
    upper = np.uint64(32)
    with np.errstate(over="ignore"):
        key = key_low.astype(np.uint64) | key_high.astype(np.uint64) << upper
        words = three_fry(key, x.astype(np.uint64) | y.astype(np.uint64) << upper)
    first, second = (np.asarray(w).astype(np.uint32) for w in words)
    return first, second
