"""Reading and assigning parts of Arrays: `x[index]` and `x[index] = value`.

An index becomes a *template*, which is part of the program, and operands: a number is an operand, so that x[0] and x[1]
are one program, and so is an Array of integers. The size of what a mask selects depends on values: NumPy computes that.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ...._core.array import Array, put
from .eager import on_host, run

_OPERAND = "operand"  # in a template


def getitem(x: Array, index: Any, /) -> Array:
    """`x[index]`, always a copy. Raises IndexError for an index out of range."""
    if _has_mask(index):
        return on_host(_getitem_by_numpy, x, _values(index))
    template, operands = _split(index)
    return run(_getitem, x, *operands, template=template)


def setitem(x: Array, index: Any, value: Any, /) -> Array:
    """`x` with another value at an index: the new x after `x[index] = value`."""
    if _has_mask(index):
        changed = np.array(x)
        changed[_values(index)] = np.asarray(value)
        return put(changed, x.device)
    template, operands = _split(index)
    if not isinstance(value, (Array, int, float, complex)):
        value = put(value, x.device)
    return run(_setitem, x, value, *operands, template=template)


def _getitem_by_numpy(x: Any, index: Any) -> Any:
    return np.array(x[index])


def _getitem(x: Any, *operands: Any, template: tuple[Any, ...]) -> Any:
    return x[_index(template, operands)].copy()


def _setitem(x: Any, value: Any, *operands: Any, template: tuple[Any, ...]) -> Any:
    changed = x.copy()
    changed[_index(template, operands)] = value
    return changed


def _split(index: Any) -> tuple[tuple[Any, ...], list[Any]]:
    template: list[Any] = []
    operands: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if part is None or part is Ellipsis:
            template.append(part)
        elif isinstance(part, slice):
            bounds = (part.start, part.stop, part.step)
            template.append(("slice", *(None if b is None else operator.index(b) for b in bounds)))
        else:
            if isinstance(part, (Array, np.ndarray)):
                if part.dtype.kind not in "iu":
                    raise IndexError(
                        f"an index of {part.dtype}: only integers, slices, None, ... and masks are indices"
                    )
            else:
                part = operator.index(part)
            template.append(_OPERAND)
            operands.append(part)
    return tuple(template), operands


def _index(template: tuple[Any, ...], operands: Any) -> tuple[Any, ...]:
    rest = iter(operands)
    return tuple(
        next(rest) if part == _OPERAND else slice(*part[1:]) if isinstance(part, tuple) else part for part in template
    )


def _has_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(p, (bool, np.bool)) or getattr(p, "dtype", None) == np.bool for p in parts)


def _values(index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(np.asarray(p) if isinstance(p, Array) else p for p in parts)
