"""How XLA:CPU differs from the specification on dynamic shapes (f32[<=4]): its pass DynamicPadder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from refxla_spec.compare import same_bits
from refxla_spec.types import Shape

from ..cases import Case
from ..targets.sized import filler
from .difference import Difference
from .predicates import operands

XLA = "xla-cpu"
MEANING = "spec/dynamic.py: an operation means on a value of dynamic shape what it means on an array of those sizes; "


def _dynamic(*opcodes: str) -> Callable[[Case], bool]:
    """Cases of these operations with dynamic shapes."""
    return lambda case: case.opcode in opcodes and any(i.shape.is_dynamic for i in case.module.instructions())


def _behind(actual: np.ndarray) -> np.ndarray:
    """What the target puts after an array: if it shows, memory there has been read."""
    return same_bits(actual, filler(Shape.of(actual)))


def _grown(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that the operand does not have."""
    (x, *_) = operands(case, leaf)
    new = np.ones(actual.shape, bool)
    new[tuple(map(slice, x.shape))] = False
    return np.asarray(new & _behind(actual))


def _at_the_bound(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements that were read past the end of an array, or not written since they are past it."""
    (x, *_) = operands(case, leaf)
    kept = case.opcode == "dynamic-update-slice" and x.shape == actual.shape
    return same_bits(actual, x) if kept else _behind(actual)


DIFFERENCES = (
    Difference(
        "indices clamped to the bound",
        XLA,
        "reference",
        MEANING + "StableHLO, gather: clamp(start_index[d_start], 0, dim(operand, d_operand) - "
        "slice_sizes[d_operand]); "
        'operation_semantics, DynamicSlice: "This ensures that the extracted slice is always in-bounds with respect to '
        'the operand array."',
        _dynamic("gather", "dynamic-slice", "dynamic-update-slice"),
        _at_the_bound,
        "clamps to the bound of a dynamic dimension, and reads or writes past the end of the array",
    ),
    Difference(
        "sizes of windows and parts",
        XLA,
        "reference",
        MEANING + "at a size that is the bound, the result is that of the static program.",
        _dynamic("reduce-window", "pad", "slice"),
        None,
        "leaves padding and dilation of windows out of the size, and gives sizes below 0",
        fails=True,
        says=r"Dynamic|negative|^result \d+ is",
    ),
    Difference(
        "arrays that grow",
        XLA,
        "open",
        "no document says what the new elements are; here they are zeros, which depends on nothing else.",
        _dynamic("set-dimension-size"),
        _grown,
        "gives what lies in memory",
    ),
    Difference(
        "operations that take no dynamic sizes",
        XLA,
        "reference",
        MEANING + "XLA refuses these when it compiles them.",
        _dynamic("topk", "convolution", "batch-norm-training", "batch-norm-grad", "custom-call", "fft"),
        None,
        "refuses the program",
        fails=True,
        says="Dynamic input unexpectedly found for unsupported instruction",
    ),
    Difference(
        "dynamic loops and branches that carry no tuple",
        XLA,
        "reference",
        'operation_semantics, While: "A While node returns a value of type T", and Conditional: "Argument of type '
        'T_0"; neither asks for a tuple.',
        _dynamic("while", "conditional"),
        None,
        "aborts where the value of a dynamic loop is one array, and takes no static branch beside a dynamic one",
        fails=True,
        says=r"while_util\.cc|shape\(\)\.IsTuple\(\)",
    ),
    Difference(
        "dynamic dimensions that a reshape splits",
        XLA,
        "reference",
        MEANING + "the way to XLA by StableHLO loses the mark of a dimension that is split, and with it the size.",
        _dynamic("reshape"),
        None,
        "gives the array at its bounds",
        fails=True,
        says=r"^result 0 is",
    ),
)
