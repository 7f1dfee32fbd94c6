"""What the operators of Arrays are, by the names of their methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .elementwise import FUNCTIONS
from .functions import matmul

OPERATORS: dict[str, Callable[..., Any]] = {
    "__add__": FUNCTIONS["add"],
    "__sub__": FUNCTIONS["subtract"],
    "__mul__": FUNCTIONS["multiply"],
    "__truediv__": FUNCTIONS["divide"],
    "__floordiv__": FUNCTIONS["floor_divide"],
    "__mod__": FUNCTIONS["remainder"],
    "__matmul__": matmul,
    "__and__": FUNCTIONS["bitwise_and"],
    "__or__": FUNCTIONS["bitwise_or"],
    "__xor__": FUNCTIONS["bitwise_xor"],
    "__lshift__": FUNCTIONS["bitwise_left_shift"],
    "__rshift__": FUNCTIONS["bitwise_right_shift"],
    "__eq__": FUNCTIONS["equal"],
    "__ne__": FUNCTIONS["not_equal"],
    "__lt__": FUNCTIONS["less"],
    "__le__": FUNCTIONS["less_equal"],
    "__gt__": FUNCTIONS["greater"],
    "__ge__": FUNCTIONS["greater_equal"],
    "__abs__": FUNCTIONS["abs"],
    "__neg__": FUNCTIONS["negative"],
    "__pos__": FUNCTIONS["positive"],
    "__invert__": FUNCTIONS["bitwise_invert"],
    "__pow__": FUNCTIONS["pow"],
}
