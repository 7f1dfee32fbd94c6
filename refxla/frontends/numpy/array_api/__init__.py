"""The Array API standard (2024.12) for refxla.Array: the namespace that `x.__array_namespace__()` gives.

Each function is NumPy's of the same name, with NumPy's results and types, compiled for the types and shapes that it
meets and kept (eager.py). Functions whose results have a size that values decide are NumPy's own, on views of the
values: `nonzero`, `unique_*`, masks as indices, `repeat` with an Array.
"""

from __future__ import annotations

from math import e, inf, nan, pi

import numpy as _np

from . import fft, linalg
from . import indexing as indexing
from . import operators as operators
from .creation import *  # noqa: F403
from .creation import __all__ as _of_creation
from .elementwise import FUNCTIONS as _ELEMENTWISE
from .functions import *  # noqa: F403
from .functions import __all__ as _of_functions
from .information import __array_namespace_info__

__array_api_version__ = "2024.12"

newaxis = None
_TYPES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128").split()
globals().update({name: _np.dtype(name) for name in _TYPES} | _ELEMENTWISE)

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "e", "fft", "inf", "linalg", "nan", "newaxis", "pi",
    *_TYPES, *_ELEMENTWISE, *_of_creation, *_of_functions,
]  # fmt: skip
