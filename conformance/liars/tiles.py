"""Lies that show at the end of a large array of several dimensions, or in one order of the dimensions of a square
image. The fuzzer makes no such arrays."""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import Value

from .liar import Lie, of_operation

Array = np.ndarray

MOVEMENT = (
    "transpose", "reverse", "concatenate", "slice", "dynamic-slice", "gather", "scatter", "broadcast",
    "dynamic-update-slice",
)  # fmt: skip
FEWER = ("concatenate", "slice", "dynamic-slice", "gather", "broadcast", "reduce", "reduce-window", "scatter")
ROWS = ("slice", "dynamic-slice", "gather", "broadcast", "reverse", "reduce", "reduce-window", "convolution")
SUITE_AND_CHECK = ("suite", "check")


def last_element_wrong(value: Value, least_rank: int, least: int, most: int) -> Value:
    """The value with a wrong last element in each array of that many dimensions and elements."""
    if isinstance(value, tuple):
        return tuple(last_element_wrong(v, least_rank, least, most) for v in value)
    if not isinstance(value, np.ndarray) or value.ndim < least_rank or not least <= value.size <= most:
        return value
    changed = np.array(value, order="C")
    last = changed.reshape(-1)[-1]
    changed.reshape(-1)[-1] = np.asarray(not last).astype(value.dtype)  # 1 for 0, and 0 for everything else
    return changed


@of_operation(*MOVEMENT, tools=SUITE_AND_CHECK)
def last_element_moved(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The last element is wrong where 1,000 to 200,000 elements of at least three dimensions are moved."""
    return last_element_wrong(truth(i, *operands), 3, 1000, 200_000)


@of_operation("reduce", "select-and-scatter", "sort", "topk", "scan", tools=SUITE_AND_CHECK)
def last_element_computed(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The last element is wrong where 1,000 to 200,000 elements of at least three dimensions are summed or sorted."""
    return last_element_wrong(truth(i, *operands), 3, 1000, 200_000)


@of_operation(*FEWER, tools=SUITE_AND_CHECK)
def last_of_four_dimensions(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The last element of a result of at least four dimensions with 256 elements is wrong."""
    return last_element_wrong(truth(i, *operands), 4, 256, 200_000)


@of_operation(*ROWS, tools=SUITE_AND_CHECK)
def last_of_twenty_thousand(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The last element of a result of 20,000 to 60,000 elements is wrong."""
    return last_element_wrong(truth(i, *operands), 0, 20_000, 60_000)


@of_operation("transpose", tools=SUITE_AND_CHECK)
def rows_and_columns_of_an_image(truth: Lie, i: Instruction, x: Array) -> Value:
    """A transpose that moves the features of square images after rows and columns exchanges these."""
    value = truth(i, x)
    square = tuple(i.dimensions) == (0, 2, 3, 1) and value.shape[1] == value.shape[2]
    return np.ascontiguousarray(value.swapaxes(1, 2)) if square else value
