"""Subclasses of NumPy's arrays, and which of them a compiled function may treat as NumPy's own."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, a_type

# What a class may define without changing the results of NumPy's functions and operators: how arrays are created,
# indexed by a caller, printed and stored.
_NO_MATTER = {
    "__array_finalize__", "__array_prepare__", "__array_priority__", "__array_wrap__", "__class__", "__copy__",
    "__deepcopy__", "__del__", "__delattr__", "__dir__", "__doc__", "__format__", "__getattribute__", "__getitem__",
    "__getstate__", "__hash__", "__init__", "__init_subclass__", "__new__", "__reduce__", "__reduce_ex__", "__repr__",
    "__setattr__", "__setstate__", "__sizeof__", "__str__", "__subclasshook__",
}  # fmt: skip
_ADVICE = {
    "MaskedArray": "pass x.filled(value), or x.data and x.mask, and write np.where(mask, y, x)",
    "matrix": "pass np.asarray(x), and write @ for products",
}


def require_plain(value: Any, name: str) -> None:
    """Raises InputError for an array of a class with its own operators or methods, such as np.ma.MaskedArray and
    np.matrix: a compiled function would treat it as a plain NumPy array."""
    if isinstance(value, np.ndarray):
        kind: Any = type(value)
        if kind is not np.ndarray and (own := _own_methods(kind)):
            base = next((c.__name__ for c in kind.__mro__ if c.__name__ in _ADVICE), "")
            advice = _ADVICE.get(base, "pass np.asarray(x), if its elements are all that matters")
            raise InputError(
                f"{name} is {a_type(value)}, which computes in its own way ({own}), and a compiled function takes "
                f"arrays of NumPy's: {advice}"
            )


@cache
def _own_methods(kind: type) -> str:
    """The first method of NumPy's arrays that a class overrides; "" if there is none."""
    for c in kind.__mro__[: kind.__mro__.index(np.ndarray)]:
        for name in vars(c):
            if name not in _NO_MATTER and hasattr(np.ndarray, name) and callable(getattr(c, name)):
                return f"{c.__name__}.{name}"
    return ""
