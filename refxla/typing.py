"""Names of types in the annotations of the public API.

Most are types. Two are not, since no type can express them: `Tree` and `Result` are names for Any.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing

__all__ = ["ArrayLike", "DTypeLike", "Result", "Tree"]

ArrayLike: TypeAlias = numpy.typing.ArrayLike
DTypeLike: TypeAlias = numpy.typing.DTypeLike

Result: TypeAlias = Any
"""What a call of a program gives: an array, or the tuple of arrays that the program's result is. Arrays are NumPy's, or
refxla.Array where an argument is one."""

Tree: TypeAlias = Any
"""An array or a number, or a tuple, list, dict or dataclass of trees."""
