"""The operators of Arrays, by the names of their methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import elementwise
from .functions import matmul

OPERATORS: dict[str, Callable[..., Any]] = {
    "__add__": elementwise.add,
    "__sub__": elementwise.subtract,
    "__mul__": elementwise.multiply,
    "__truediv__": elementwise.divide,
    "__floordiv__": elementwise.floor_divide,
    "__mod__": elementwise.remainder,
    "__matmul__": matmul,
    "__and__": elementwise.bitwise_and,
    "__or__": elementwise.bitwise_or,
    "__xor__": elementwise.bitwise_xor,
    "__lshift__": elementwise.bitwise_left_shift,
    "__rshift__": elementwise.bitwise_right_shift,
    "__eq__": elementwise.equal,
    "__ne__": elementwise.not_equal,
    "__lt__": elementwise.less,
    "__le__": elementwise.less_equal,
    "__gt__": elementwise.greater,
    "__ge__": elementwise.greater_equal,
    "__abs__": elementwise.abs,
    "__neg__": elementwise.negative,
    "__pos__": elementwise.positive,
    "__invert__": elementwise.bitwise_invert,
    "__pow__": elementwise.pow,
}
