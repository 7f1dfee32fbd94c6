"""Lies about contiguous copies and elements of a certain width: blocks that fill all dimensions but one, operands
without elements, arrays of five dimensions, elements of sixteen bytes."""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.numerics import type_of
from refxla_spec.types import Value

from .liar import Lie, of_operation

Array = np.ndarray
SUITE_AND_CHECK = ("suite", "check")


@of_operation("dynamic-update-slice")
def rows_written_at_the_first(truth: Lie, i: Instruction, x: Array, update: Array, *starts: Array) -> Value:
    """An update of whole rows is always written to the first rows."""
    if update.ndim > 1 and update.shape[-1] == x.shape[-1]:
        starts = (np.zeros_like(starts[0]), *starts[1:])
    return truth(i, x, update, *starts)


@of_operation("dynamic-slice")
def rows_read_at_the_first(truth: Lie, i: Instruction, x: Array, *starts: Array) -> Value:
    """A slice of whole rows is always read from the first rows."""
    if x.ndim > 1 and i.dynamic_slice_sizes[-1] == x.shape[-1]:
        starts = (np.zeros_like(starts[0]), *starts[1:])
    return truth(i, x, *starts)


@of_operation("concatenate", tools=SUITE_AND_CHECK)
def empty_operand_begins_again(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """After an operand without elements, a concatenation starts again at its beginning."""
    (d,) = i.dimensions
    sizes = [x.shape[d] for x in operands]
    if 0 not in sizes[1:-1]:
        return truth(i, *operands)
    value, start = np.array(truth(i, *operands)), 0
    for x, size in zip(operands, sizes, strict=True):
        start = start if size else 0
        value[(slice(None),) * d + (slice(start, start + size),)] = x
        start += size
    return value


def _last_two_exchanged(value: Array) -> Array:
    changed = np.array(value, order="C")
    changed.reshape(-1)[[-1, -2]] = changed.reshape(-1)[[-2, -1]]
    return changed


@of_operation("transpose", tools=SUITE_AND_CHECK)
def five_dimensions_of_bytes(truth: Lie, i: Instruction, x: Array) -> Value:
    """A transpose of one-byte elements that moves the last of five dimensions exchanges the last two elements."""
    value = np.asarray(truth(i, x))
    exchanged = value.ndim == 5 and value.dtype.itemsize == 1 and value.size > 1 and i.dimensions[-1] != 4
    return _last_two_exchanged(value) if exchanged else value


@of_operation("transpose", tools=SUITE_AND_CHECK)
def sixty_four_rows_of_sixteen_bytes(truth: Lie, i: Instruction, x: Array) -> Value:
    """A c128 matrix transposed to more than 64 rows has its last row but one in place of the last."""
    value = np.array(truth(i, x), order="C")
    if type_of(value).name == "c128" and value.ndim == 2 and len(value) > 64:
        value[-1] = value[-2]
    return value
